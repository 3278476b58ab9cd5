//! `execute --launch`: the script starts what was typed, a process a rank, and making it executes nothing.

use serde_json::{Value, json};

use crate::place::Place;

const TINY: &str =
    r#"{"model_type":"gpt2","n_embd":16,"n_layer":2,"n_head":2,"vocab_size":32,"n_positions":16}"#;

/// A plan of the tiny model on `cluster`, in `plan.json`.
fn planned(place: &Place, cluster: &str, precision: &str) {
    place.write("tiny.json", TINY);
    let run = place.line(&format!(
        "simulate tiny.json --cluster {cluster} --global-batch 16 --seq-len 8 --precision {precision} --strategy zero=1 \
         --out plan.json"
    ));
    assert_eq!(run.code, 0, "{}", run.stderr);
}

/// What `execute plan.json` with `flags` prints, as it is typed.
fn printed(place: &Place, flags: &str) -> String {
    let run = place.typed(&format!("execute plan.json {flags}"));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{flags}");
    run.stdout
}

/// The lines of the command that `script` ends with.
fn last_command(script: &str) -> &str {
    &script[script.find("exec ").expect("a command")..]
}

#[test]
fn the_script_is_all_that_is_made() {
    let place = Place::new();
    planned(&place, "1x4xcpu", "fp32");
    let before = place.names();
    for launcher in ["slurm", "mpirun"] {
        let script = printed(
            &place,
            &format!("--steps 5 --data there.bin --save out --trace t.json --launch {launcher}"),
        );
        assert!(script.starts_with("#!/bin/bash\n"), "{script}");
        let command =
            "    meshwright execute plan.json --steps 5 --data there.bin --save out --trace t.json\n";
        assert!(script.ends_with(command), "{script}");
    }
    assert_eq!(place.names(), before, "nothing is written");
    assert!(place.cache().read_dir().unwrap().next().is_none(), "nothing is measured");
}

#[test]
fn ranks_are_on_what_the_plan_is_for_unless_it_is_typed() {
    let place = Place::new();
    planned(&place, "2x8xh100-sxm", "bf16");
    let added = printed(&place, "--launch slurm");
    assert!(
        added.contains("--device cuda was added") && added.contains("#SBATCH --gpus-per-node=8\n"),
        "{added}"
    );
    let command = "exec srun --mpi=none --ntasks=16 --distribution=block:block --kill-on-bad-exit=1 \\\n    \
                   meshwright execute plan.json --device cuda\n";
    assert_eq!(last_command(&added), command);
    let typed = printed(&place, "--device cuda --launch=slurm");
    assert!(!typed.contains("was added"), "{typed}");
    assert_eq!(last_command(&typed), command);
    let cores = printed(&place, "--launch slurm --device cpu");
    assert!(cores.contains("--mpi=pmix --ntasks=16 ") && !cores.contains("gpus"), "{cores}");
    assert!(printed(&place, "--launch torchrun").contains("torchrun --nnodes 2 "));
    planned(&place, "1x2xh100-sxm", "bf16");
    let part = printed(&place, "--launch slurm");
    assert!(
        part.contains("\n##SBATCH --cpus-per-task=14\n"),
        "a quarter of a node's cores for two ranks: {part}"
    );
    assert!(part.contains("\n##SBATCH --exclusive\n"), "{part}");
}

#[test]
fn the_document_says_what_is_started_and_for_how_long() {
    let place = Place::new();
    planned(&place, "2x8xh100-sxm", "bf16");
    let launched = |flags: &str| -> Value {
        let document: Value = serde_json::from_str(&printed(&place, &format!("{flags} --json"))).unwrap();
        document["launch"].clone()
    };
    let short = launched("--launch slurm --strategy tp=2 --global-batch 8");
    let counts = ["launcher", "nodes", "ranks_per_node", "ranks"].map(|field| short[field].clone());
    assert_eq!(counts, [json!("slurm"), json!(2), json!(8), json!(16)]);
    assert_eq!(short["time_limit_s"], 660, "ten minutes, and milliseconds that are a whole minute");
    let script = short["script"].as_str().unwrap();
    assert!(script.ends_with("--strategy tp=2 --global-batch 8 --json --device cuda\n"), "{script}");
    let long = launched("--launch slurm --steps 10M");
    assert!(long["time_limit_s"].as_u64().unwrap() > 3600, "{long}");
    assert!(long["script"].as_str().unwrap().contains("#SBATCH --time="));
    assert_eq!(launched("--launch slurm --steps 1000000M")["time_limit_s"], Value::Null, "years");
    assert_eq!(launched("--launch torchrun")["time_limit_s"], Value::Null);
}

#[test]
fn what_no_launcher_can_start_is_refused() {
    let place = Place::new();
    planned(&place, "1x2xcpu", "fp32");
    for (line, (code, kind, field), says) in [
        ("plan.json --launch torchrun", (4, "illegal", "launch"), "by MPI"),
        ("--launch slurm", (2, "usage", "launch"), "meshwright plan MODEL"),
        ("plan.json --launch slurm --dry-run", (2, "usage", "launch"), "--dry-run"),
        ("plan.json --launch slurm --slice 0", (2, "usage", "launch"), "--slice"),
        ("plan.json --launch slurm --device cuda --share-device", (2, "usage", "launch"), "--share-device"),
        ("plan.json --launch ssh", (2, "usage", "launch"), "ssh"),
        ("plan.json --launch slurm --steps -1", (2, "usage", "steps"), "from 0"),
        ("plan.json --launch slurm --precision fp16", (4, "illegal", "plan"), "bf16, fp32 and fp64"),
        ("missing.json --launch slurm", (3, "input", "plan"), "missing.json"),
    ] {
        let run = place.typed(&format!("execute {line} --json"));
        assert_eq!(run.code, code, "{line}\n{}", run.stderr);
        let error = &run.json()["error"];
        assert_eq!(
            (&error["kind"], &error["field"]),
            (&json!(kind), &json!(field)),
            "{line}\n{}",
            run.stderr
        );
        assert!(run.stderr.contains(says), "{line}\n{}", run.stderr);
    }
    let run = place.typed("execute plan.json --launch torchrun --json");
    assert_eq!(run.json()["error"]["nearest"], json!(["mpirun", "slurm"]));
}

/// Scripts run by a shell, with programs in place of the launchers that say what they were given.
#[cfg(unix)]
mod run {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Output};

    use super::{planned, printed};
    use crate::place::Place;

    /// Runs `script` in `place`, where each launcher prints its arguments, one a line.
    fn ran(place: &Place, script: &str, arguments: &[&str]) -> Output {
        let programs = place.path().join("programs");
        fs::create_dir_all(&programs).unwrap();
        for name in ["srun", "mpirun", "torchrun"] {
            let program = programs.join(name);
            fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 7\n").unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        place.write("run.sh", script);
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        for name in ["HOSTS", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"] {
            command.env_remove(name);
        }
        command.arg("run.sh").args(arguments).env("PATH", path).current_dir(place.path()).output().unwrap()
    }

    /// What the launcher was given from `meshwright` on.
    fn started(output: &Output) -> Vec<String> {
        let said = String::from_utf8(output.stdout.clone()).unwrap();
        let words: Vec<String> = said.lines().map(str::to_owned).collect();
        let first = words.iter().position(|word| word == "meshwright").expect("the program");
        words[first..].to_vec()
    }

    #[test]
    fn hostile_words_reach_the_program_as_they_were_typed() {
        let place = Place::new();
        planned(&place, "1x2xcpu", "fp32");
        let hostile = "$(touch HIT)`touch HIT`'; touch HIT; \"*?~ # \\";
        let plan = format!("{hostile}.json");
        fs::rename(place.path().join("plan.json"), place.path().join(&plan)).unwrap();
        for launcher in ["slurm", "mpirun"] {
            let run =
                place.run(["execute", &plan, "--launch", launcher, "--save", hostile, "--no-calibrate"]);
            assert_eq!(run.code, 0, "{}", run.stderr);
            let output = ran(&place, &run.stdout, &[]);
            let expected = ["meshwright", "execute", &plan, "--save", hostile, "--no-calibrate"];
            assert_eq!(started(&output), expected, "{}", run.stdout);
            assert_eq!(output.status.code(), Some(7), "the launcher's code is the script's");
        }
        assert!(!place.names().contains(&"HIT".to_owned()));
    }

    #[test]
    fn several_nodes_are_asked_for() {
        let place = Place::new();
        planned(&place, "2x8xh100-sxm", "bf16");
        let says = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();
        let torchrun = printed(&place, "--launch torchrun");
        for arguments in [&[][..], &["1"], &["2", "node-0"], &["08", "node-0"], &["x", "node-0"]] {
            let output = ran(&place, &torchrun, arguments);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}");
            assert!(says(&output).contains("from 0 to 1"), "{arguments:?}: {}", says(&output));
        }
        let output = ran(&place, &torchrun, &["1", "node-0"]);
        let said = String::from_utf8(output.stdout.clone()).unwrap();
        let expected =
            "--nnodes\n2\n--node-rank\n1\n--master-addr\nnode-0\n--master-port\n29500\n--nproc-per-node\n8\n";
        assert!(said.starts_with(expected), "{said}{}", says(&output));
        assert_eq!(started(&output), ["meshwright", "execute", "plan.json", "--device", "cuda"]);

        let mpirun = printed(&place, "--launch mpirun");
        let output = ran(&place, &mpirun, &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(says(&output).contains("write the 2 hosts into it"), "{}", says(&output));
        place.write("hosts", "a slots=8\nb slots=8\n");
        assert_eq!(
            started(&ran(&place, &mpirun, &[])),
            ["meshwright", "execute", "plan.json", "--device", "cuda"]
        );
    }
}
