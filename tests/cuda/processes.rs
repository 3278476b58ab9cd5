//! Ranks that are processes with a GPU each, joined by NCCL: the real program, started as torchrun starts it. On the
//! stand-ins, one of each in every process.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::place::Place;
use crate::small::{DENSE, planned};

/// More than any of these jobs takes.
const PATIENCE: Duration = Duration::from_secs(180);

/// Settings of one process of a job.
type Settings = [(&'static str, &'static str)];

/// Starts `ranks` processes of the program in `folder`, all with these arguments, as torchrun would on one host.
fn start(folder: &Path, ranks: usize, line: &str) -> Vec<Child> {
    start_with(folder, ranks, line, &|_| &[])
}

/// The same, with what `settings` sets for each rank.
fn start_with(
    folder: &Path,
    ranks: usize,
    line: &str,
    settings: &dyn Fn(usize) -> &'static Settings,
) -> Vec<Child> {
    // A port that is free now; rank 0 listens there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let program = std::env::var_os("MESHWRIGHT_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_meshwright").into());
    let start = |rank: usize| {
        Command::new(&program)
            .args(line.split_whitespace())
            .current_dir(folder)
            .env("RANK", rank.to_string())
            .env("LOCAL_RANK", rank.to_string())
            .env("WORLD_SIZE", ranks.to_string())
            .env("LOCAL_WORLD_SIZE", ranks.to_string())
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", port.to_string())
            .env("FAKE_CUDA_DEVICES", ranks.to_string())
            .env("MESHWRIGHT_PATIENCE_S", "20")
            .envs(settings(rank).iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    (0..ranks).map(start).collect()
}

/// What each process left; none of them may hang.
pub fn end(mut children: Vec<Child>) -> Vec<Output> {
    let began = Instant::now();
    while !children.iter_mut().all(|child| child.try_wait().unwrap().is_some()) {
        if began.elapsed() > PATIENCE {
            children.iter_mut().for_each(|child| child.kill().unwrap());
            let said = children.into_iter().map(|child| text(&child.wait_with_output().unwrap().stderr));
            panic!("no end after {PATIENCE:?}: {:?}", said.collect::<Vec<_>>());
        }
        thread::sleep(Duration::from_millis(20));
    }
    children.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What rank 0 printed as JSON, where all went well and no other rank said a word.
fn document(outputs: &[Output], case: &str) -> Value {
    for (rank, output) in outputs.iter().enumerate() {
        assert!(output.status.success(), "{case}: rank {rank}: {}", text(&output.stderr));
        assert!(
            rank == 0 || output.stdout.is_empty(),
            "{case}: rank {rank} printed {}",
            text(&output.stdout)
        );
    }
    serde_json::from_slice(&outputs[0].stdout).unwrap()
}

fn numbers(document: &Value, field: &str) -> Vec<f64> {
    document[field].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// They train as the ranks of one process do that share a GPU, save the same, and hold what was predicted.
#[test]
fn processes_train_and_save_as_ranks_of_one_process() {
    for (ranks, strategy) in [(2, "tp=2,micro=4"), (4, "pp=2,zero=3,micro=2,offload=optimizer:0.5")] {
        let place = Place::with_gpus();
        planned(&place, DENSE, ranks as u64, 8, strategy);
        let line = "execute plan.json --no-calibrate --device cuda --steps 3 --lr 1e-2 --json";
        let one = place.line(&format!("{line} --share-device --save one"));
        assert_eq!(one.code, 0, "{strategy}: {}", one.stderr);
        let one: Value = serde_json::from_str(&one.stdout).unwrap();
        let several = document(
            &end(start(place.path(), ranks, &format!("{line} --save several --trace t.json"))),
            strategy,
        );
        for (found, expected) in numbers(&several, "losses").iter().zip(numbers(&one, "losses")) {
            assert!((found - expected).abs() < 1e-6 * expected, "{strategy}: {found}, not {expected}");
        }
        for row in
            [&several["memory"], &several["extent"]].into_iter().flat_map(|rows| rows.as_array().unwrap())
        {
            assert_eq!(row["predicted_bytes"], row["measured_bytes"], "{strategy}: {row}");
        }
        let machine: Value = serde_json::from_str(&place.read("t.json")).unwrap();
        assert_eq!(machine["machine"]["library"], "NCCL 2.32.3", "{strategy}");
        let of = |name: &str| fs::read(place.path().join(name).join("model.safetensors")).unwrap();
        assert_eq!(of("one").len(), of("several").len(), "{strategy}");
        // What they saved goes on under another layout, on cores.
        let on = "execute plan.json --strategy tp=1,micro=2 --no-calibrate --steps 2 --lr 1e-2 --json --init";
        let [on_one, on_several] = ["one", "several"].map(|folder| {
            let run = place.line(&format!("{on} {folder}"));
            assert_eq!(run.code, 0, "{strategy}: {}", run.stderr);
            numbers(&serde_json::from_str(&run.stdout).unwrap(), "losses")
        });
        for (found, expected) in on_several.iter().zip(on_one) {
            assert!((found - expected).abs() < 1e-5 * expected, "{strategy}: {found}, not {expected}");
        }
    }
}

/// Starts three ranks that train for ever and does `harm` to rank 1: the others end, with one message of one of them that
/// names it. What rank 1 left, once `mend` was done to it.
fn harmed(harm: impl Fn(&mut Child), mend: impl Fn(&mut Child)) -> Output {
    let place = Place::with_gpus();
    planned(&place, DENSE, 3, 6, "zero=2,micro=1");
    let line = "execute plan.json --no-calibrate --device cuda --steps 100000";
    let mut children = start_with(place.path(), 3, line, &|_| &[("MESHWRIGHT_PATIENCE_S", "5")]);
    let mut victim = children.remove(1);
    thread::sleep(Duration::from_secs(5));
    harm(&mut victim);
    let began = Instant::now();
    let outputs = end(children);
    assert!(began.elapsed() < Duration::from_secs(60), "they took {:?}", began.elapsed());
    let said: Vec<String> = outputs.iter().map(|output| text(&output.stderr)).collect();
    let speakers: Vec<&String> = said.iter().filter(|text| text.contains("error")).collect();
    assert!(speakers.len() == 1 && speakers[0].contains("rank 1 on host"), "{said:?}");
    let code = outputs[0].status.code();
    assert!(code.is_some_and(|code| code != 0) && outputs[1].status.code() == code, "{outputs:?}");
    mend(&mut victim);
    end(vec![victim]).remove(0)
}

#[test]
fn a_killed_rank_ends_all() {
    harmed(|victim| victim.kill().unwrap(), |_| {});
}

/// It says nothing when it wakes: others have said it.
#[test]
fn a_stopped_rank_ends_all() {
    let sends = |signal| move |victim: &mut Child| send(victim, signal);
    let output = harmed(sends(libc::SIGSTOP), sends(libc::SIGCONT));
    assert!(output.status.code().is_some_and(|code| code != 0), "{output:?}");
    assert!(!text(&output.stderr).contains("error"), "{output:?}");
}

#[expect(unsafe_code, reason = "the standard library sends no signals but one")]
fn send(child: &Child, signal: i32) {
    // SAFETY: the call touches no memory.
    unsafe { libc::kill(child.id().cast_signed(), signal) };
}

/// Ranks whose libraries or GPUs do not go together are told before the first step, by one of them.
#[test]
fn ranks_that_do_not_go_together_are_refused() {
    let place = Place::with_gpus();
    planned(&place, DENSE, 2, 8, "tp=2,micro=4");
    let line = "execute plan.json --no-calibrate --device cuda --steps 2";
    type Of = fn(usize) -> &'static Settings;
    let cases: [(Of, &str); 3] = [
        (
            |rank| if rank == 1 { &[("FAKE_NCCL_VERSION", "23007")] } else { &[] },
            "NCCL is 2.32.3 at rank 0 and 2.30.7 at rank 1",
        ),
        (|_| &[("FAKE_CUDA_DEVICES", "1")], "ranks 0 and 1 are on one GPU"),
        (
            |rank| if rank == 1 { &[("MESHWRIGHT_NCCL", "/nowhere")] } else { &[] },
            "NCCL, which joins GPUs, was not found",
        ),
    ];
    for (settings, expected) in cases {
        let outputs = end(start_with(place.path(), 2, line, &settings));
        let said: Vec<String> = outputs.iter().map(|output| text(&output.stderr)).collect();
        assert_eq!(said.iter().filter(|text| text.contains(expected)).count(), 1, "{expected}: {said:?}");
        assert!(outputs.iter().all(|output| output.status.code() == Some(6)), "{expected}: {outputs:?}");
    }
}
