//! What one rank of a job of thousands takes to start: its plan is read, its program made, its part of the mesh laid out.
//! `cargo bench --bench start`.

use std::env;
use std::fs;
use std::hint::black_box;
use std::time::Instant;

use meshwright::cluster;
use meshwright::execute::ranks::parts::{self, Parts};
use meshwright::execute::ranks::placement::Stages;
use meshwright::execute::run::{Job, Run, Settings};
use meshwright::model;
use meshwright::plan;
use meshwright::profile::engines::embedded;
use meshwright::search::Problem;
use meshwright::strategy::{Draft, Workload};
use meshwright::units::ElementType;

/// GPT-3 175B as published, with Megatron's layout on 4,096 devices.
const MODEL: &str = "gpt3-175b";
const CLUSTER: &str = "512x8xh100-sxm";
const STRATEGY: &str = "tp=8,pp=16,sched=interleaved,virtual=6,micro=1,zero=1";

fn main() {
    // `cargo test --benches` only wants to see that it builds.
    if !env::args().any(|argument| argument == "--bench") {
        return;
    }
    let path = env::temp_dir().join("meshwright-start.json");
    if let Some(rank) = env::args().skip_while(|argument| argument != "--rank").nth(1) {
        start(&path, rank.parse().expect("a rank"));
        return;
    }
    fs::write(&path, document()).expect("the plan can be written");
    for rank in [0, 2047, 4095] {
        // A process of its own, whose memory is that of the start alone.
        let own = env::current_exe().expect("this program");
        let rank = rank.to_string();
        let status = std::process::Command::new(own).args(["--bench", "--rank", &rank]).status();
        assert!(status.is_ok_and(|status| status.success()));
    }
}

/// A plan for 4,096 devices.
fn document() -> String {
    let model = model::load(MODEL).expect("a model that we know");
    let cluster = cluster::load(CLUSTER).expect("a cluster");
    let workload =
        Workload { global_batch: 1536, seq_len: 2048, precision: ElementType::Bf16, dropout: 0.0, clip: 1.0 };
    let problem = Problem::new(&model, &cluster, workload, embedded(), None);
    let draft = Draft::parse(STRATEGY).expect("a strategy");
    let plan = plan::simulate_draft(&problem, &draft).expect("a legal strategy");
    serde_json::to_string(&plan).expect("a document")
}

fn start(path: &std::path::Path, rank: u64) {
    let began = Instant::now();
    let plan = plan::read(path).expect("the plan");
    let model = plan.made_model().expect("its model");
    let cluster = plan.made_cluster().expect("its cluster");
    let read = began.elapsed();
    let facts = Problem::new(&model, &cluster, plan.workload, embedded(), None).facts;
    let strategy =
        Draft::parse(&plan.strategy.text).expect("its strategy").resolve(&facts).expect("a legal one");
    drop(facts);
    let job = Job { model: model.clone(), strategy, workload: plan.workload, engine: embedded() };
    let run = Run::new(job, Settings::default()).expect("what can be executed");
    let program = began.elapsed() - read;
    let stage = parts::stage_of(&run, rank);
    black_box(Parts::alone(&run, rank, Stages::Own(&stage)).expect("a rank"));
    println!(
        "rank {rank}: {:.2} s ({:.2} s to read the plan, {:.2} s for its program), {} MiB at most, {} instructions",
        began.elapsed().as_secs_f64(),
        read.as_secs_f64(),
        program.as_secs_f64(),
        peak() >> 20,
        stage.issues.len()
    );
}

/// The most memory that this process has held, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or_default() << 10
}
