//! Calculon's own search inputs, in Calculon's space: `cargo bench --bench calculon`, to be run beside
//! `calculon llm-optimal-execution` on the same machine.
//!
//! Calculon (github.com/calculon-ai/calculon) takes tensor, pipeline and data parallelism, 1F1B with any number of
//! chunks a rank, whole, attention-only or no recomputation, one micro-batch size, a sharded optimizer or not, and
//! gradients reduced once a step. Here these are the keys that are fixed or left free; fractions on the host, cuts and
//! the number of recomputed blocks are free in ours alone.

use std::env;

use meshwright::cluster;
use meshwright::model;
use meshwright::plan;
use meshwright::profile::engines::engines;
use meshwright::search::{Problem, Request};
use meshwright::strategy::{Draft, Workload};
use meshwright::units::ElementType;

/// Model, devices and sequences a step, as `llm-optimal-execution` is given them.
const INPUTS: [(&str, u64, u64); 4] = [
    ("megatron-22b", 8, 4),
    ("gpt3-175b", 512, 512),
    ("megatron-1t", 3072, 3072),
    // 5,128 devices are 8 x 641, of which no part divides 2,520 sequences or the layers.
    ("megatron-530b", 5128, 2520),
];

fn main() {
    if !env::args().any(|argument| argument == "--bench") {
        return;
    }
    for (name, devices, global_batch) in INPUTS {
        let model = model::load(name).expect("a preset");
        let cluster = cluster::load(&format!("{}x8xa100-sxm-80gb", devices / 8)).expect("a shorthand");
        let workload =
            Workload { global_batch, seq_len: 2048, precision: ElementType::Bf16, dropout: 0.0, clip: 1.0 };
        let problem = Problem::new(&model, &cluster, workload, &engines()[0], None);
        let (mut considered, mut seconds) = (0, 0.0);
        let mut best: Option<(f64, String)> = None;
        let mut failed = None;
        for zero in ["0", "1"] {
            for schedule in ["1f1b", "interleaved"] {
                let text =
                    format!("cp=1,sched={schedule},zero={zero},sync=deferred,loss=full,order=tp-cp-dp-pp");
                let request = Request { fix: Draft::parse(&text).expect("it parses"), ..Request::default() };
                match plan::search(&problem, &request, &|_| {}) {
                    Ok(plan) => {
                        let account = plan.search.unwrap_or_default();
                        considered += account.considered;
                        seconds += account.wall_time_s;
                        let step = plan.prediction.step_time_s.0;
                        if best.as_ref().is_none_or(|(known, _)| step < *known) {
                            best = Some((
                                step,
                                format!("{} (gap {:.2} %)", plan.strategy.text, 100.0 * account.gap),
                            ));
                        }
                    }
                    Err(failure) => failed = Some(failure),
                }
            }
        }
        match (best, failed) {
            (Some((step, text)), _) => {
                println!(
                    "{name} {devices} {global_batch}: {considered} strategies in {seconds:.2} s; {step:.3} s a step: {text}"
                );
            }
            (None, Some(failure)) => println!("{name} {devices} {global_batch}: {failure}"),
            (None, None) => println!("{name} {devices} {global_batch}: nothing was searched"),
        }
    }
}
