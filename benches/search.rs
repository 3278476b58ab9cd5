//! The searches that the planner promises, how fast it bounds, and how time grows: `cargo bench --bench search`. One
//! search by its name: `cargo bench --bench search -- 1t-3072`.

use std::time::Instant;
use std::{env, fs};

use meshwright::cluster;
use meshwright::model;
use meshwright::plan;
use meshwright::profile::engines::engines;
use meshwright::search::{Problem, Request, bound_all, search};
use meshwright::strategy::Workload;
use meshwright::units::ElementType;

/// Name, model, cluster, sequences a step and tokens of a sequence.
const SEARCHES: [(&str, &str, &str, u64, u64); 7] = [
    ("175b-512", "gpt3-175b", "64x8xa100-sxm-80gb", 512, 2048),
    ("175b-1024", "gpt3-175b", "128x8xa100-sxm-80gb", 1536, 2048),
    ("175b-4096", "gpt3-175b", "512x8xa100-sxm-80gb", 1536, 2048),
    ("1t-3072", "megatron-1t", "384x8xa100-sxm-80gb", 3072, 2048),
    ("1t-4096", "megatron-1t", "512x8xa100-sxm-80gb", 4096, 2048),
    ("405b-16384", "llama-3.1-405b", "2048x8xh100-sxm", 2048, 8192),
    ("deepseek-v3-16384", "deepseek-v3", "2048x8xh100-sxm", 15360, 4096),
];

/// Devices that GPT-3 175B is planned on for the curve, batch 1,536.
const CURVE: [u64; 7] = [64, 128, 256, 512, 1024, 2048, 4096];

fn main() {
    if !env::args().any(|argument| argument == "--bench") {
        return;
    }
    let wanted: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if wanted.is_empty() {
        rate();
        curve();
    }
    println!("{}", heading());
    for (name, model, cluster, batch, tokens) in SEARCHES {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            println!("{name:18} {}", searched(model, cluster, batch, tokens));
        }
    }
}

fn workload(global_batch: u64, seq_len: u64) -> Workload {
    Workload { global_batch, seq_len, precision: ElementType::Bf16, dropout: 0.0, clip: 1.0 }
}

fn heading() -> String {
    format!(
        "{:18} {:>14} {:>8} {:>7} {:>8} {:>9} {:>8}  plan",
        "search", "considered", "priced", "played", "gap", "seconds", "MB"
    )
}

/// One search, in a line.
fn searched(model: &str, cluster: &str, batch: u64, tokens: u64) -> String {
    let model = model::load(model).expect("a preset");
    let cluster = cluster::load(cluster).expect("a shorthand");
    let problem = Problem::new(&model, &cluster, workload(batch, tokens), &engines()[0], None);
    let plan = plan::search(&problem, &Request::default(), &|_| {}).expect("a plan fits");
    let account = plan.search.unwrap_or_default();
    format!(
        "{:>14} {:>8} {:>7} {:>7.2}% {:>9.2} {:>8}  {}",
        account.considered,
        account.priced,
        account.played,
        100.0 * account.gap,
        account.wall_time_s,
        peak_megabytes(),
        plan.strategy.text
    )
}

/// The most memory that this process has had.
fn peak_megabytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or_default()
        / 1024
}

/// How many outer strategies are bounded, memory and time over all their inner choices and mesh orders, in a second
/// of one core, if no known plan cuts any of it short.
fn rate() {
    let model = model::load("gpt3-175b").expect("a preset");
    let cluster = cluster::load("64x8xa100-sxm-80gb").expect("a shorthand");
    let problem = Problem::new(&model, &cluster, workload(512, 2048), &engines()[0], None);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let mut rates: Vec<f64> = (0..3)
        .map(|_| {
            let start = Instant::now();
            let count = pool.install(|| bound_all(&problem, &Request::default()));
            count as f64 / start.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!("175b-512: {:.0} strategies bounded in a core second (median of three)", rates[1]);
}

/// The time of searches against the strategies that survive the first bounds.
fn curve() {
    println!(
        "{:>8} {:>14} {:>10} {:>9} {:>12}",
        "devices", "considered", "survived", "seconds", "us/survivor"
    );
    for devices in CURVE {
        let model = model::load("gpt3-175b").expect("a preset");
        let cluster = cluster::load(&format!("{}x8xa100-sxm-80gb", devices / 8)).expect("a shorthand");
        let problem = Problem::new(&model, &cluster, workload(1536, 2048), &engines()[0], None);
        let account = search(&problem, &Request::default(), &|_| {}).expect("a plan fits").account;
        let seconds = account.wall_time.0;
        let micros = 1e6 * seconds / account.survived.max(1) as f64;
        println!(
            "{devices:>8} {:>14} {:>10} {seconds:>9.2} {micros:>12.1}",
            account.considered, account.survived
        );
    }
}
