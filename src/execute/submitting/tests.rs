//! One thread of a rank submits all that its device does, in the one order of all ranks.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Barrier;
use std::thread::{self, ScopedJoinHandle, ThreadId};
use std::time::{Duration, Instant};

use super::*;
use crate::execute::device::Tracing;
use crate::execute::device::watched::{Seen, Watched};
use crate::execute::ranks::parts::Parts;
use crate::execute::run::{Job, Settings};
use crate::model::{self, Model};
use crate::ops::Op;
use crate::profile::engines::engine;
use crate::strategy::{Draft, Workload, resolve};
use crate::units::ElementType;

/// More than any of these steps takes.
const PATIENCE: Duration = Duration::from_secs(60);

const SCHEDULES: [&str; 6] = ["1f1b", "gpipe", "interleaved,virtual=2", "zb-h1", "zb-h2", "zb-v"];

/// Its head is tied to the embedding, so first and last stages have a collective of their own.
fn small() -> Model {
    let config = r#"{
        "model_type": "gpt2", "vocab_size": 61, "n_positions": 32, "n_embd": 16, "n_layer": 4, "n_head": 4,
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true
    }"#;
    model::from_text(config, "config.json", "small").unwrap()
}

/// A run on eight ranks.
fn run(text: &str) -> Option<Run> {
    let (model, engine) = (small(), engine("embedded").unwrap());
    let workload =
        Workload { global_batch: 8, seq_len: 16, precision: ElementType::Bf16, dropout: 0.0, clip: 1.0 };
    let draft = Draft::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let strategy = resolve(&draft, &model, 8, &workload, engine).ok()?;
    Some(Run::new(Job { model, strategy, workload, engine }, Settings::default()).unwrap())
}

/// Goes to the optimizer, waits there for all others, and goes on.
fn serve(
    (rank, mut worker): (usize, Worker<'_>),
    (watched, gate): (&Watched, &Barrier),
) -> Result<(), ExecuteError> {
    let (halt, end) = worker.parts();
    let mut perform = |part: Range<usize>| {
        let mut work = || worker.perform(0, part.clone(), (Instant::now(), Tracing::On));
        watched.guard(rank, &mut work)
    };
    let first = perform(0..halt);
    gate.wait();
    first.and_then(|()| perform(halt..end))
}

/// Lets all workers make a step.
fn step(workers: Vec<(usize, Worker<'_>)>, watched: &Watched) -> Result<(), ExecuteError> {
    let gate = Barrier::new(workers.len());
    let shared = (watched, &gate);
    thread::scope(|scope| {
        let start = |worker| scope.spawn(move || serve(worker, shared));
        let threads: Vec<_> = workers.into_iter().map(start).collect();
        let began = Instant::now();
        while !threads.iter().all(ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(1));
            if began.elapsed() > PATIENCE {
                watched.stop("ranks wait for each other");
            }
        }
        threads.into_iter().try_for_each(|thread| thread.join().unwrap())
    })
}

/// The instructions that `rank` of `run` submits to its device in a step that is halted before the optimizer, as `submissions` says.
fn expected(rank: &Rank, submitted: &[Submitted]) -> Vec<u32> {
    let numbers = submitted.iter().filter_map(|one| match *one {
        Submitted::Instruction(number) => Some(number),
        Submitted::Post { .. } => None,
    });
    let is_on_device = |number: &u32| rank.placement.issues[*number as usize].stream != Stream::Host;
    let (before, after): (Vec<u32>, Vec<u32>) =
        numbers.filter(is_on_device).partition(|number| (*number as usize) < rank.placement.halt);
    [before, after].concat()
}

#[test]
fn one_thread_of_a_rank_submits_in_the_one_order() {
    let mut met: HashMap<&str, usize> = HashMap::new();
    let mut tried = 0;
    for schedule in SCHEDULES {
        for zero in ["zero=0", "zero=1", "zero=2", "zero=3", "zero=1,offload=optimizer:0.5"] {
            for sizes in ["tp=1,pp=2,micro=1", "tp=2,pp=2,micro=1", "tp=1,pp=4,micro=1"] {
                let text = format!("{sizes},{zero},sched={schedule}");
                let Some(run) = run(&text) else { continue };
                let stages = parts::stages(&run);
                let Parts { ranks, bound, .. } = Parts::of(&run, &stages).unwrap();
                let watched = Watched::new(ranks.len());
                let to = (Submission::ThreadPerRank, &watched as &dyn Queues);
                let workers = workers(&run, (&ranks, &bound), to).unwrap();
                step(workers, &watched).unwrap_or_else(|error| panic!("{text}: {error}"));
                let submitted = submitted(&run).unwrap();
                let mut threads: HashSet<ThreadId> = HashSet::new();
                for rank in &ranks {
                    let (on_host, seen): (Vec<Seen>, Vec<Seen>) =
                        watched.seen(rank.index).into_iter().partition(|one| one.stream == Stream::Host);
                    let number = |one: &Seen| rank.placement.streams[one.stream as usize][one.place];
                    let numbers: Vec<u32> = seen.iter().map(number).collect();
                    let expected = expected(rank, &submitted[rank.stage as usize]);
                    assert_eq!(numbers, expected, "{text}: rank {}", rank.index);
                    assert!(seen.iter().all(|one| one.thread == seen[0].thread), "{text}: one thread");
                    assert!(threads.insert(seen[0].thread), "{text}: of this rank alone");
                    let of_host: HashSet<ThreadId> = on_host.iter().map(|one| one.thread).collect();
                    assert!(of_host.is_disjoint(&threads), "{text}: the host has a thread of its own");
                    let is_meeting = |number: &&u32| {
                        let op = &rank.placement.issues[**number as usize].op;
                        matches!(op, Op::Collective(_) | Op::Send(_) | Op::Receive(_))
                    };
                    *met.entry(schedule).or_default() += numbers.iter().filter(is_meeting).count();
                }
                tried += 1;
            }
        }
    }
    assert!(
        SCHEDULES.iter().all(|schedule| met.get(schedule) > Some(&1_000)) && tried > 40,
        "{tried}, {met:?}"
    );
}

#[test]
fn a_thread_for_each_stream_where_calls_block() {
    let run = run("tp=2,pp=2,micro=1,zero=1,offload=optimizer:0.5").unwrap();
    let stages = parts::stages(&run);
    let Parts { ranks, bound, .. } = Parts::of(&run, &stages).unwrap();
    let watched = Watched::new(ranks.len());
    let workers = workers(&run, (&ranks, &bound), (Submission::ThreadPerStream, &watched)).unwrap();
    let streams = |rank: &Rank| rank.placement.streams.iter().filter(|list| !list.is_empty()).count();
    assert_eq!(workers.len(), ranks.iter().map(streams).sum::<usize>());
    for (index, worker) in &workers {
        let (halt, end) = worker.parts();
        assert!(halt <= end && end <= ranks[*index].placement.issues.len());
    }
}
