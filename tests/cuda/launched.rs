//! The scripts that `--launch` prints for ranks on GPUs, run as they are: by PyTorch's torchrun, and by a Slurm of this
//! machine. On the stand-ins, as many GPUs as ranks.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use serde_json::Value;

use crate::place::Place;
use crate::processes::{end, text};
use crate::small::{DENSE, planned};

const RANKS: u64 = 4;

/// More than any of these jobs takes.
const PATIENCE: Duration = Duration::from_secs(150);

/// A plan of four ranks, and its losses as ranks of one process on cores have them.
fn prepared() -> (Place, Vec<f64>) {
    let place = Place::with_gpus();
    planned(&place, DENSE, RANKS, 8, "pp=2,zero=1,micro=2");
    let run = place.line("execute plan.json --no-calibrate --steps 3 --lr 1e-2 --json");
    assert_eq!(run.code, 0, "{}", run.stderr);
    (place, losses(&run.json()))
}

fn losses(document: &Value) -> Vec<f64> {
    document["losses"].as_array().unwrap().iter().map(|loss| loss.as_f64().unwrap()).collect()
}

/// Writes the script of `launcher` for the plan of `place` with these flags, in `run.sh`.
fn print_script(place: &Place, launcher: &str, flags: &str) {
    let line = format!("execute plan.json --no-calibrate --device cuda {flags} --json --launch {launcher}");
    let run = place.line(&line);
    assert_eq!(run.code, 0, "{}", run.stderr);
    place.write("run.sh", run.json()["launch"]["script"].as_str().unwrap());
}

/// A command in the folder of `place` that finds the program, and `programs` first.
fn command(place: &Place, programs: &Path, words: &[&str]) -> Command {
    let own = Path::new(env!("CARGO_BIN_EXE_meshwright")).parent().unwrap();
    let path = format!("{}:{}:{}", programs.display(), own.display(), env::var("PATH").unwrap());
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(place.path()).env("PATH", path);
    command.env("FAKE_CUDA_DEVICES", RANKS.to_string()).env("MESHWRIGHT_PATIENCE_S", "20");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// That a run printed the same losses as ranks on cores.
fn assert_trained(printed: &str, expected: &[f64]) {
    let begin = printed.find('{').unwrap_or_else(|| panic!("no document: {printed}"));
    let document: Value = serde_json::Deserializer::from_str(&printed[begin..])
        .into_iter()
        .next()
        .unwrap()
        .unwrap_or_else(|error| panic!("{error}: {printed}"));
    for (found, expected) in losses(&document).iter().zip(expected) {
        assert!((found - expected).abs() < 2e-4 * expected, "{found}, not {expected}");
    }
}

/// The folder of the torchrun that `MESHWRIGHT_TORCHRUN` names.
fn torchrun() -> std::path::PathBuf {
    let torchrun = env::var("MESHWRIGHT_TORCHRUN").expect("MESHWRIGHT_TORCHRUN names torchrun");
    Path::new(&torchrun).parent().unwrap().to_path_buf()
}

/// Processes of the program whose environment has `variable`.
fn processes(variable: &str) -> Vec<u32> {
    let program = fs::canonicalize(env!("CARGO_BIN_EXE_meshwright")).unwrap();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    all.filter(|process| {
        let is_own = fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|other| other == program);
        let variables = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        is_own && variables.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    })
    .collect()
}

#[test]
#[ignore = "needs PyTorch's torchrun, which `.ci/gpu torchrun` brings"]
fn torchrun_runs_its_script_to_the_end() {
    let (place, expected) = prepared();
    print_script(&place, "torchrun", "--steps 3 --lr 1e-2");
    let output = end(vec![command(&place, &torchrun(), &["bash", "run.sh"]).spawn().unwrap()]).remove(0);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_trained(&text(&output.stdout), &expected);
}

/// torchrun leaves its processes running where it is killed; these go with it.
#[test]
#[ignore = "needs PyTorch's torchrun, which `.ci/gpu torchrun` brings"]
fn a_killed_torchrun_leaves_no_process() {
    let (place, _) = prepared();
    print_script(&place, "torchrun", "--steps 100000000");
    let mark = format!("MESHWRIGHT_TEST={}", place.path().display());
    let (name, value) = mark.split_once('=').unwrap();
    let mut child = command(&place, &torchrun(), &["bash", "run.sh"]).env(name, value).spawn().unwrap();
    let began = Instant::now();
    while processes(&mark).len() < RANKS as usize {
        assert!(began.elapsed() < PATIENCE, "{:?}", child.try_wait());
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(Duration::from_secs(5));
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    while !processes(&mark).is_empty() {
        assert!(killed.elapsed() < Duration::from_secs(10), "{:?} run on", processes(&mark));
        thread::sleep(Duration::from_millis(50));
    }
}

/// Two hosts that are network namespaces, for as long as it lives.
struct Hosts;

impl Hosts {
    const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/hosts");

    fn up() -> Self {
        let made = Command::new(Self::SCRIPT).args(["up", "2"]).output().unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
        Self
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = Command::new(Self::SCRIPT).arg("down").status();
    }
}

/// Rank 0 is reached from another host, at the address that all are told.
#[test]
#[ignore = "needs root and network namespaces, which `.ci/gpu hosts` looks for"]
fn processes_of_two_hosts_train() {
    let (place, expected) = prepared();
    let hosts = Hosts::up();
    let start = |rank: u64| {
        let host = (1 + rank / 2).to_string();
        let words = [Hosts::SCRIPT, "in", &host, env!("CARGO_BIN_EXE_meshwright"), "execute", "plan.json"];
        let mut command = command(&place, Path::new("/nowhere"), &words);
        command.args("--no-calibrate --device cuda --steps 3 --lr 1e-2 --json".split(' '));
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", RANKS.to_string());
        command.env("LOCAL_RANK", (rank % 2).to_string()).env("LOCAL_WORLD_SIZE", "2");
        command.env("MASTER_ADDR", "10.77.0.1").env("MASTER_PORT", "29511").spawn().unwrap()
    };
    let children: Vec<Child> = (0..RANKS).map(start).collect();
    let outputs = end(children);
    drop(hosts);
    for output in &outputs {
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    assert_trained(&text(&outputs[0].stdout), &expected);
}

#[test]
#[ignore = "needs a Slurm that runs and says that it has GPUs, which `.ci/gpu slurm` starts"]
fn slurm_runs_its_script_to_the_end() {
    let (place, expected) = prepared();
    print_script(&place, "slurm", "--steps 3 --lr 1e-2");
    let none = Path::new("/nowhere");
    let submit = ["sbatch", "--wait", "--parsable", "--overcommit", "run.sh"];
    let output = end(vec![command(&place, none, &submit).spawn().unwrap()]).remove(0);
    let job = text(&output.stdout);
    let printed = fs::read_to_string(place.path().join(format!("meshwright-{}.out", job.trim())));
    assert!(output.status.success(), "{}{printed:?}", text(&output.stderr));
    let printed = printed.unwrap();
    assert_trained(&printed, &expected);
}
