//! A rank that dies, stands still or cannot go on ends the job on all ranks, soon, with one message that names it.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::dice::Dice;
use crate::job::{LLAMA, Running, document, is_there, launcher, plan, said, signal, together};

/// Within this all ranks end after one has died: its connection ends at once.
const SOON: Duration = Duration::from_secs(20);

/// A job of `ranks` processes that trains until it is ended.
fn endless(folder: &Path, ranks: u64, more: &[&str]) -> Running {
    let mut command = launcher(folder, ranks);
    command.env("MESHWRIGHT_PATIENCE_S", "4").arg(crate::job::PROGRAM);
    command.args(["execute", "plan.json", "--steps", "100000000", "--no-calibrate"]).args(more);
    Running::new(command)
}

/// That `output` has one message, with all of `parts`.
fn says_once(output: &Output, parts: &[&str], case: &str) {
    let text = said(output);
    let errors: Vec<_> = text.lines().filter(|line| line.starts_with("error:")).collect();
    assert_eq!(errors.len(), 1, "{case}: {text}");
    for part in parts {
        assert!(errors[0].contains(part), "{case}: `{part}` is not in: {text}");
    }
}

/// That none of `processes` is there any more, a moment after the launcher has gone.
fn all_gone(processes: &[u32], case: &str) {
    let began = Instant::now();
    while let Some(process) = processes.iter().find(|process| is_there(**process)) {
        assert!(began.elapsed() < Duration::from_secs(5), "{case}: process {process} goes on");
        thread::sleep(Duration::from_millis(20));
    }
}

/// How often each rank is killed: `MESHWRIGHT_KILLS` asks for more.
fn kills() -> usize {
    std::env::var("MESHWRIGHT_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

#[test]
fn a_killed_rank_ends_all() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 4, "tp=2,pp=2,micro=1");
    let mut dice = Dice::new(5);
    for turn in 0..kills() {
        let victim = turn % 4;
        let job = endless(folder.path(), 4, &["--save", "never", "--trace", "left.json"]);
        let ranks = job.ranks(4);
        thread::sleep(Duration::from_millis(dice.next() % 2500));
        let since = Instant::now();
        signal(ranks[victim], libc::SIGKILL);
        let (output, _) = job.end(since, SOON);
        let case = format!("rank {victim} killed, turn {turn}");
        assert!(!output.status.success(), "{case}");
        let text = said(&output);
        let errors = text.lines().filter(|line| line.starts_with("error:")).count();
        assert!(errors <= 1, "{case}: {text}");
        // Before the ranks have found one another there is nobody but the launcher to say something.
        if errors == 1 {
            says_once(&output, &[&format!("rank {victim} on host"), "is gone"], &case);
        }
        all_gone(&ranks, &case);
        assert!(!folder.path().join("never").exists(), "{case}");
        // Of the steps that were made before, if any were.
        if let Some(trace) = left_trace(&folder.path().join("left.json")) {
            assert!(trace["failure"].is_string(), "{case}");
        }
    }
}

/// The trace at `path`, which is whole or not there, taken away.
fn left_trace(path: &Path) -> Option<Value> {
    let text = fs::read_to_string(path).ok()?;
    fs::remove_file(path).unwrap();
    Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

#[test]
fn a_rank_killed_in_a_step_is_named_with_what_it_did() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 2, "pp=2,micro=1");
    let job = endless(folder.path(), 2, &["--trace", "left.json"]);
    let ranks = job.ranks(2);
    thread::sleep(Duration::from_secs(6));
    signal(ranks[1], libc::SIGKILL);
    let (output, _) = job.end(Instant::now(), SOON);
    says_once(&output, &["rank 1 on host", "is gone", "it was last seen at step"], "killed in a step");
    // What rank 0 knows is kept: the losses, and what it held itself.
    let trace = left_trace(&folder.path().join("left.json")).unwrap();
    let steps = trace["losses"].as_array().unwrap().len();
    assert!(steps > 0, "{trace}");
    let said_so = format!("the trace of {steps} step");
    assert!(said(&output).contains(&said_so), "{}", said(&output));
    assert!(trace["failure"].as_str().unwrap().contains("rank 1"), "{}", trace["failure"]);
    let memory = trace["memory"].as_array().unwrap();
    assert!(!memory.is_empty() && memory.iter().all(|row| row["rank"] == 0), "{memory:?}");
    // That of the killed rank, or that of the others.
    assert!(matches!(output.status.code(), Some(137 | 9 | 6)), "{:?} {}", output.status, said(&output));
}

#[test]
fn a_stopped_rank_ends_all() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 4, "tp=2,pp=2,micro=1");
    for victim in [0, 3] {
        let job = endless(folder.path(), 4, &[]);
        let ranks = job.ranks(4);
        thread::sleep(Duration::from_secs(4));
        let since = Instant::now();
        signal(ranks[victim], libc::SIGSTOP);
        let (output, took) = job.end(since, Duration::from_secs(60));
        let case = format!("rank {victim} stopped");
        says_once(&output, &[&format!("rank {victim} on host"), "has not been heard of"], &case);
        assert!(took < Duration::from_secs(30), "{case}: {took:?}");
        all_gone(&ranks, &case);
    }
}

#[test]
fn an_interrupt_ends_all_after_a_step_with_what_was_done() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 2, "tp=2,micro=1");
    let job = endless(folder.path(), 2, &["--save", "out", "--json"]);
    let ranks = job.ranks(2);
    thread::sleep(Duration::from_secs(4));
    // As an mpirun that is interrupted tells its ranks.
    for rank in &ranks {
        signal(*rank, libc::SIGTERM);
    }
    let (output, _) = job.end(Instant::now(), SOON);
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    all_gone(&ranks, "interrupted");
    let goes_on = ["execute", "plan.json", "--init", "out", "--steps", "1", "--no-calibrate", "--json"];
    let first = document(&together(folder.path(), 2, &goes_on), "goes on")["first_step"].as_u64().unwrap();
    assert!(first > 0);
}

#[test]
fn a_killed_launcher_leaves_no_rank() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 2, "tp=2,micro=1");
    let job = endless(folder.path(), 2, &[]);
    let ranks = job.ranks(2);
    thread::sleep(Duration::from_secs(3));
    signal(job.launcher(), libc::SIGKILL);
    job.end(Instant::now(), SOON);
    let began = Instant::now();
    while ranks.iter().any(|rank| is_there(*rank)) {
        assert!(began.elapsed() < SOON, "a rank goes on");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_save_that_finds_no_room_is_one_message_and_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 2, "tp=2,micro=1");
    fs::write(folder.path().join("taken"), "a file").unwrap();
    let arguments = ["execute", "plan.json", "--steps", "1", "--no-calibrate", "--save", "taken/out"];
    let output = together(folder.path(), 2, &arguments);
    says_once(&output, &["taken"], "no folder");
    let full = Path::new("/dev/full");
    if full.exists() {
        let arguments = ["execute", "plan.json", "--steps", "1", "--no-calibrate", "--trace", "/dev/full"];
        let output = together(folder.path(), 2, &arguments);
        says_once(&output, &["/dev/full"], "a full disk");
        assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    }
}
