//! The script that `--launch slurm` prints, run as it is by a Slurm of this machine: to its end, through an scancel, and with
//! a rank that dies.
//!
//! `SLURM_CONF` names a Slurm that runs, as `tests/slurm/one_node` starts one; without it these tests fail.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::job::{LLAMA, PROGRAM, alone, plan, said, signal};

/// What a command of Slurm prints, with the program on its PATH.
fn slurm(folder: &Path, command: &[&str]) -> Output {
    let programs = Path::new(PROGRAM).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut slurm = Command::new(command[0]);
    slurm.args(&command[1..]).current_dir(folder).env("PATH", path);
    slurm
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("MESHWRIGHT_PATIENCE_S", "4");
    slurm.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Writes the script of the plan in `folder` with `flags`, and submits it.
fn submit(folder: &Path, flags: &[&str]) -> String {
    let printed = alone(folder, &[&["execute", "plan.json", "--launch", "slurm"], flags].concat());
    assert!(printed.status.success(), "{}", said(&printed));
    fs::write(folder.join("run.sh"), &printed.stdout).unwrap();
    let submitted = slurm(folder, &["sbatch", "--parsable", "--overcommit", "run.sh"]);
    assert!(submitted.status.success(), "{}", said(&submitted));
    String::from_utf8(submitted.stdout).unwrap().trim().to_owned()
}

/// Waits until `job` is over: its state and what it printed.
fn end(folder: &Path, job: &str) -> (String, String) {
    let began = Instant::now();
    loop {
        let shown = slurm(folder, &["scontrol", "show", "job", job, "--oneliner"]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let of = |name: &str| {
            let field =
                shown.split_whitespace().find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            field.unwrap_or_default().to_owned()
        };
        if !matches!(of("JobState").as_str(), "PENDING" | "CONFIGURING" | "RUNNING" | "COMPLETING") {
            let printed = fs::read_to_string(folder.join(format!("meshwright-{job}.out")));
            return (format!("{} {}", of("JobState"), of("ExitCode")), printed.unwrap_or_default());
        }
        if began.elapsed() > Duration::from_secs(90) {
            let output = fs::read_to_string(folder.join(format!("meshwright-{job}.out"))).unwrap_or_default();
            slurm(folder, &["scancel", "--signal=KILL", job]);
            panic!("job {job} hangs: {shown}\n{output}");
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Waits until the run of `job` has printed `text`, or `path` is there.
fn wait_for(folder: &Path, job: &str, is_there: &dyn Fn(&str) -> bool) {
    let began = Instant::now();
    let output = folder.join(format!("meshwright-{job}.out"));
    while !is_there(&fs::read_to_string(&output).unwrap_or_default()) {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", fs::read_to_string(&output));
        thread::sleep(Duration::from_millis(100));
    }
}

const ENDLESS: [&str; 4] = ["--steps", "100000000", "--no-calibrate", "--save"];

#[test]
#[ignore = "needs a Slurm that runs, which .ci/run starts"]
fn the_script_runs_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 2, "tp=2,micro=2");
    let flags = ["--steps", "3", "--no-calibrate", "--save", "out", "--trace", "trace.json"];
    let job = submit(folder.path(), &flags);
    let (state, printed) = end(folder.path(), &job);
    assert_eq!(state, "COMPLETED 0:0", "{printed}");
    assert_eq!(printed.matches("loss  ").count(), 1, "one rank speaks: {printed}");
    let trace: Value = serde_json::from_slice(&fs::read(folder.path().join("trace.json")).unwrap()).unwrap();
    assert_eq!(trace["ranks"].as_array().unwrap().len(), 2);
    assert!(folder.path().join("out/model.safetensors").exists());
}

#[test]
#[ignore = "needs a Slurm that runs, which .ci/run starts"]
fn a_cancelled_job_saves() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 2, "tp=2,micro=2");
    let job = submit(folder.path(), &[&ENDLESS[..], &["out"]].concat());
    // The first line of progress comes after 10 seconds.
    wait_for(folder.path(), &job, &|printed| printed.contains("steps"));
    slurm(folder.path(), &["scancel", &job]);
    let (state, printed) = end(folder.path(), &job);
    assert!(state.starts_with("CANCELLED"), "{state} {printed}");
    assert!(printed.contains("interrupted after step"), "{printed}");
    assert!(folder.path().join("out/state.safetensors").exists(), "{printed}");
}

#[test]
#[ignore = "needs a Slurm that runs, which .ci/run starts"]
fn a_rank_that_dies_ends_the_job() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 2, "tp=2,micro=2");
    let job = submit(folder.path(), &[&ENDLESS[..], &["never"]].concat());
    wait_for(folder.path(), &job, &|printed| printed.contains("steps"));
    let victim = of_rank(1).expect("rank 1 runs here");
    signal(victim, libc::SIGKILL);
    let (state, printed) = end(folder.path(), &job);
    assert!(state.starts_with("FAILED"), "{state} {printed}");
    let errors: Vec<_> = printed.lines().filter(|line| line.starts_with("error:")).collect();
    assert!(errors.iter().any(|line| line.contains("rank 1 on host")), "{printed}");
    assert!(!folder.path().join("never").exists());
}

/// The process of the program that Slurm numbers `rank`.
fn of_rank(rank: usize) -> Option<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.find(|process| {
        let program = fs::read_link(format!("/proc/{process}/exe"));
        let variables = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let wanted = format!("SLURM_PROCID={rank}");
        let mut variables = variables.split(|byte| *byte == 0);
        program.is_ok_and(|program| program == fs::canonicalize(PROGRAM).unwrap())
            && variables.any(|variable| variable == wanted.as_bytes())
    })
}
