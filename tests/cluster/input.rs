//! What processes cannot do together is one message of one of them.

use std::fs;

use crate::job::{GPT2, LLAMA, PROGRAM, launcher, plan, said, together};

/// The one error that `output` tells of, and its exit code.
fn error(output: &std::process::Output) -> (String, Option<i32>) {
    let text = said(output);
    let errors: Vec<_> = text.lines().filter(|line| line.starts_with("error:")).collect();
    assert_eq!(errors.len(), 1, "{text}");
    (errors[0].to_owned(), output.status.code())
}

#[test]
fn as_many_processes_as_ranks_are_needed() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 4, "tp=2,micro=1");
    let (text, code) = error(&together(folder.path(), 2, &["execute", "plan.json", "--no-calibrate"]));
    assert!(text.contains("the plan is for 4 ranks, and 2 processes were started"), "{text}");
    assert_eq!(code, Some(4));
}

#[test]
fn ranks_with_other_plans_or_flags_are_named() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 4, "tp=1,micro=2");
    fs::rename(folder.path().join("plan.json"), folder.path().join("one.json")).unwrap();
    plan(folder.path(), GPT2, 4, "tp=1,micro=2");
    // Each process takes its own plan, as a host with an old copy would.
    let run = |own: &str| {
        let script = format!(
            "if [ \"${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}\" = 2 ]; then {own}; else exec {PROGRAM} execute plan.json \
             --no-calibrate; fi"
        );
        error(&launcher(folder.path(), 4).args(["sh", "-c", &script]).output().unwrap())
    };
    let (text, code) = run(&format!("exec {PROGRAM} execute one.json --no-calibrate"));
    assert!(text.contains("do not agree on the plan or flags") && text.contains("on rank 2"), "{text}");
    assert_eq!(code, Some(6));
    let (text, _) = run(&format!("exec {PROGRAM} execute plan.json --seed 1 --no-calibrate"));
    assert!(text.contains("do not agree on the plan or flags") && text.contains("on rank 2"), "{text}");
    let (text, _) = run(&format!("exec {PROGRAM} execute none.json --no-calibrate"));
    assert!(text.contains("rank 2 on host") && text.contains("none.json"), "{text}");
}

#[test]
fn flags_that_do_not_parse_are_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let output = together(folder.path(), 3, &["execute", "--no-such-flag"]);
    assert_eq!(said(&output).matches("unexpected argument").count(), 1, "{}", said(&output));
    let (text, code) = error(&together(folder.path(), 3, &["execute", "--lr", "fast"]));
    assert!(text.contains("--lr") && code == Some(2), "{text}");
}

#[test]
fn gpus_that_are_not_there_are_told_once() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 2, "tp=2,micro=2");
    let line = ["execute", "plan.json", "--no-calibrate", "--precision", "fp32", "--device", "cuda"];
    let (text, code) = error(&together(folder.path(), 2, &line));
    assert!(text.contains("CUDA") || text.contains("GPU"), "{text}");
    assert_eq!(code, Some(6));
}

#[test]
fn torchrun_brings_no_mpi() {
    let output = std::process::Command::new(PROGRAM)
        .args(["execute", "--json"])
        .envs([("RANK", "0"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "0")])
        .output()
        .unwrap();
    let (text, code) = error(&output);
    assert!(text.contains("4 processes were started by torchrun, which brings no MPI"), "{text}");
    assert_eq!(code, Some(6));
    let other = std::process::Command::new(PROGRAM)
        .arg("execute")
        .envs([("RANK", "3"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "3")])
        .output()
        .unwrap();
    assert_eq!((other.status.code(), said(&other)), (Some(6), String::new()), "rank 0 speaks");
}

#[test]
fn a_launcher_of_another_mpi_is_recognised() {
    let of_rank = |rank: &str| {
        let output = std::process::Command::new(PROGRAM)
            .arg("execute")
            .envs([("PMI_RANK", rank), ("PMI_SIZE", "2")])
            // To this program's own MPI the process is alone.
            .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
            .output()
            .unwrap();
        (said(&output), output.status.code())
    };
    if std::env::var("MESHWRIGHT_MPIRUN").is_ok_and(|mpirun| mpirun.contains("mpich")) {
        return;
    }
    let (text, code) = of_rank("0");
    assert!(text.contains("it is another MPI than that launcher's"), "{text}");
    assert_eq!(code, Some(6));
    assert_eq!(of_rank("1"), (String::new(), Some(6)));
}

#[test]
fn variables_that_contradict_one_another_are_named() {
    let output = std::process::Command::new(PROGRAM)
        .arg("execute")
        .envs([("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "2")])
        .output()
        .unwrap();
    let (text, code) = error(&output);
    assert!(text.contains("OMPI_COMM_WORLD_RANK is `2`"), "{text}");
    assert_eq!(code, Some(3));
}
