//! Ranks that have a GPU each, in one process, joined by NCCL. On the stand-ins, which stand for as many GPUs as are asked
//! for; each test starts itself as a process with eight of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use meshwright::execute::run::DeviceKind;
use meshwright::model::Model;
use meshwright::strategy::Workload;

use crate::dice::Dice;
use crate::strategies::strategy;
use crate::texts::{Draw, random_text};
use crate::{check_bf16_on, check_on, check_workload_on, child, models, workload};

/// How many random strategies of each model are tried; `MESHWRIGHT_STRATEGIES` asks for more.
const COUNT: usize = 5;

/// Runs the test `name` with eight GPUs, and looks at the order in which they were asked to work together. What they did.
fn with_gpus(name: &str) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().to_str().unwrap();
    let output = child::run(name, &[("FAKE_CUDA_DEVICES", "8"), ("FAKE_NCCL_LOG", log)]);
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    one_order(folder.path())
}

/// An operation of several GPUs: its communicator, and what it is there and the how-manieth.
type Operation = (String, String, String);

/// The operation of a line of the log: a GPU, a communicator, a number, what was done. Both ends of a message are one
/// operation.
fn operation(words: &[&str]) -> Operation {
    let kind = words[3].trim_start_matches("send-").trim_start_matches("receive-");
    let kind = if kind == words[3] { "collective" } else { kind };
    (words[1].to_owned(), kind.to_owned(), words[2].to_owned())
}

/// That there is one order of all operations of which each GPU issued a part: no two GPUs disagree, and no circle of them.
/// Within a communicator the library itself keeps the order, and a group has none, so operations are ordered where a GPU
/// goes from one communicator to another. All kinds of operations that were issued.
fn one_order(folder: &Path) -> BTreeSet<String> {
    let mut after: BTreeMap<Operation, BTreeSet<Operation>> = BTreeMap::new();
    let (mut count, mut kinds) = (0, BTreeSet::new());
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        count += lines.len();
        let kind = |words: &Vec<&str>| {
            words[3].trim_end_matches(|c: char| c == '-' || c.is_ascii_digit()).to_owned()
        };
        kinds.extend(lines.iter().map(kind));
        let gpus: BTreeSet<&str> = lines.iter().map(|words| words[0]).collect();
        for gpu in gpus {
            let issued: Vec<Operation> =
                lines.iter().filter(|words| words[0] == gpu).map(|words| operation(words)).collect();
            let runs: Vec<&[Operation]> = issued.chunk_by(|one, other| one.0 == other.0).collect();
            for (before, next) in runs.iter().zip(&runs[1..]) {
                for operation in *before {
                    after.entry(operation.clone()).or_default().extend(next.iter().cloned());
                }
                next.iter().for_each(|operation| _ = after.entry(operation.clone()).or_default());
            }
        }
    }
    assert!(count > 100, "{count} operations were issued");
    // What nothing comes before goes first, and so on until all have gone.
    let mut before: BTreeMap<Operation, usize> = after.keys().map(|one| (one.clone(), 0)).collect();
    after.values().flatten().for_each(|one| *before.get_mut(one).unwrap() += 1);
    let mut free: Vec<Operation> =
        before.iter().filter(|(_, count)| **count == 0).map(|(one, _)| one.clone()).collect();
    let mut gone = 0;
    while let Some(first) = free.pop() {
        gone += 1;
        for next in after.remove(&first).unwrap_or_default() {
            let count = before.get_mut(&next).unwrap();
            *count -= 1;
            if *count == 0 {
                free.push(next);
            }
        }
    }
    assert_eq!(gone, before.len(), "GPUs issue these in several orders: {:?}", after.keys());
    kinds
}

const ON: DeviceKind = DeviceKind::Cuda;

/// Every collective, and shards of several lengths.
#[test]
#[ignore = "another test starts it as a process of its own"]
fn with_shards() {
    for text in [
        "tp=4,micro=4",
        "cp=2,zero=3,micro=1",
        "cp=4,cp_kind=ulysses,micro=4",
        "cp=2,cp_kind=ulysses,tp=2,zero=1,micro=2",
        "zero=3,shard=2,micro=1",
        "zero=2,micro=1,sync=immediate",
        "tp=2,zero=1,micro=2,offload=optimizer:0.5",
    ] {
        check_on(ON, &models::llama(), text, 4, 0.0);
    }
    for text in ["zero=3,micro=1", "zero=1,micro=2"] {
        let workload = Workload { global_batch: 6, ..workload(0.0) };
        check_workload_on(ON, &models::llama(), text, 3, workload);
    }
    check_on(ON, &models::mixtral(), "ep=2,zero=1,micro=1,capacity=full", 4, 0.0);
    check_bf16_on(ON, &models::llama(), "tp=2,micro=2,zero=1", 4);
}

/// Every schedule; a head that is tied to the table over the stages, and dropout, which is the same everywhere.
#[test]
#[ignore = "another test starts it as a process of its own"]
fn with_stages() {
    for text in [
        "tp=2,pp=2,micro=2",
        "pp=4,virtual=1,sched=zb-h1,micro=1",
        "pp=2,virtual=2,sched=interleaved,micro=1",
        "pp=2,sched=gpipe,zero=1,micro=1",
    ] {
        check_on(ON, &models::llama(), text, 4, 0.0);
    }
    check_on(ON, &models::gpt2(), "pp=2,sched=zb-v,micro=2", 2, 0.0);
    check_on(ON, &models::gpt2(), "pp=2,tp=2,sp=on,micro=1,ckpt=full", 4, 0.2);
    check_bf16_on(ON, &models::llama(), "tp=1,pp=2,micro=2,zero=3,offload=optimizer:1", 4);
}

#[test]
fn gpus_with_shards_train_as_cores_do() {
    let issued = with_gpus("joined::with_shards");
    for operation in ["all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "send"] {
        assert!(issued.contains(operation), "{operation}: {issued:?}");
    }
}

#[test]
fn gpus_with_stages_train_as_cores_do() {
    with_gpus("joined::with_stages");
}

fn random(model: &Model, seed: u64) {
    let count = std::env::var("MESHWRIGHT_STRATEGIES").ok().and_then(|count| count.parse().ok());
    let (draw, mut dice, mut checked) = (Draw::of(model), Dice::new(seed), 0);
    while checked < count.unwrap_or(COUNT) {
        let devices = dice.pick(&[2, 2, 4, 4, 8]);
        let text = random_text(&mut dice, devices, draw);
        if strategy(model, &text, devices, &workload(0.0)).is_some() {
            eprintln!("{text} on {devices}");
            check_on(DeviceKind::Cuda, model, &text, devices, 0.0);
            checked += 1;
        }
    }
}

#[test]
#[ignore = "another test starts it as a process of its own"]
fn random_gpt2() {
    random(&models::gpt2(), 31);
}

#[test]
#[ignore = "another test starts it as a process of its own"]
fn random_llama() {
    random(&models::llama(), 32);
}

#[test]
#[ignore = "another test starts it as a process of its own"]
fn random_mixtral() {
    random(&models::mixtral(), 33);
}

#[test]
fn gpt2_under_random_strategies() {
    with_gpus("joined::random_gpt2");
}

#[test]
fn llama_under_random_strategies() {
    with_gpus("joined::random_llama");
}

#[test]
fn mixtral_under_random_strategies() {
    with_gpus("joined::random_mixtral");
}
