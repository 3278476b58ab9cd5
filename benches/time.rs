//! Predicted step times against measured ones, side by side, after a calibration: `cargo bench --bench time`.
//!
//! Wants a quiet machine. `--quick` calibrates as `execute` does; `--kernels` also shows each measured op beside its price; `--ops STRATEGY` only compares the
//! ops of that strategy, as they are in its steps, with their prices.

use std::env;

use meshwright::calibrate::observe::{median, observe};
use meshwright::calibrate::programs::{Family, Small};
use meshwright::calibrate::{Calibration, Effort, calibrate, machine, samples};
use meshwright::cluster::Cluster;
use meshwright::cost::{DevicePricing, Pricing};
use meshwright::execute::run::{Job, Settings};
use meshwright::lower::Stream;
use meshwright::profile::DeviceModel;
use meshwright::program::build;
use meshwright::program::instruction::Task;
use meshwright::simulate::play;
use meshwright::units::{ElementType, FlopsPerSecond};

const STEPS: u64 = 9;

/// Times that the machine is calibrated and every case run, in turns: its speed wanders from minute to minute.
const ROUNDS: usize = 3;

fn main() {
    // `cargo test --benches` only wants to see that it builds.
    if !env::args().any(|argument| argument == "--bench") {
        return;
    }
    let cores = machine::cores() as u64;
    let is_quick = env::args().any(|argument| argument == "--quick");
    let effort = if is_quick { Effort::Quick } else { Effort::Thorough };
    let mut within = cases(within(cores));
    let mut beyond = cases(beyond(cores));
    let mut pairs: Vec<[Case; 2]> = pairs(cores).into_iter().map(|pair| pair.map(Case::new)).collect();
    for round in 1..=ROUNDS {
        let calibration = calibrate(effort, &|_, _| {}).expect("this machine can be measured");
        let effective = calibration.measured.effective;
        println!(
            "round {round}: {}, calibrated in {:.1} s, as good as {effective:.2} cores",
            calibration.model.title, calibration.seconds
        );
        if round == 1 && env::args().any(|argument| argument == "--kernels") {
            println!("{}", serde_json::to_string_pretty(&calibration.model).expect("numbers"));
            print_kernels(&calibration);
        }
        if let Some(strategy) = env::args().skip_while(|argument| argument != "--ops").nth(1) {
            let all = within.iter().chain(&beyond).map(|case| &case.small);
            all.filter(|small| strategy.split('+').any(|one| small.strategy == one))
                .for_each(|small| print_ops(&calibration.model, small));
            return;
        }
        let cases = within.iter_mut().chain(&mut beyond).chain(pairs.iter_mut().flatten());
        cases.for_each(|case| case.observe(&calibration));
        println!("\nmedians of {round} of {ROUNDS} rounds");
        print_cases("at most as many ranks as cores", &within);
        print_cases("twice as many ranks as cores", &beyond);
        print_ratios(&pairs);
    }
}

/// One strategy, what was predicted and what was measured in each round, in seconds.
struct Case {
    small: Small,
    predicted: Vec<f64>,
    measured: Vec<f64>,
    /// Speed of the fixed kernel between its steps over that at the calibration.
    drift: Vec<f64>,
    failure: Option<String>,
}

impl Case {
    const fn new(small: Small) -> Self {
        Self { small, predicted: Vec::new(), measured: Vec::new(), drift: Vec::new(), failure: None }
    }

    fn observe(&mut self, calibration: &Calibration) {
        match both(&calibration.model, &self.small) {
            Ok((predicted, measured, speed)) => {
                self.drift.push(speed.0 / calibration.measured.fixed_kernel.0);
                self.predicted.push(predicted);
                self.measured.push(measured);
            }
            Err(reason) => self.failure = Some(reason),
        }
    }

    fn predicted(&self) -> f64 {
        median(self.predicted.clone())
    }

    fn measured(&self) -> f64 {
        median(self.measured.clone())
    }

    fn drift(&self) -> f64 {
        median(self.drift.clone())
    }
}

fn cases(list: Vec<Small>) -> Vec<Case> {
    list.into_iter().map(Case::new).collect()
}

/// A model of some 10 to 100 ms a step.
fn small(index: usize, devices: u64, strategy: &str) -> Small {
    let shape = [(256, 8), (192, 4), (128, 4), (256, 4)][index % 4];
    let mut small = Small { blocks: 4, devices, global_batch: 8, ..Small::gpt2(shape, 128, strategy) };
    if index % 3 == 1 {
        small.family = Family::Llama;
    }
    if index % 5 == 4 {
        small.seq_len = 256;
    }
    small
}

const WITHIN: [(&str, &str); 4] = [
    ("1", "micro=2"),
    ("1", "micro=4,ckpt=full"),
    ("1", "micro=2,offload=optimizer:1"),
    ("1", "micro=8,attention=materialised"),
];

/// Strategies for `n` ranks; `tp`, `pp` and `dp` of that size.
fn strategies(n: u64) -> Vec<String> {
    [
        "tp={n},micro=2",
        "tp={n},sp=off,micro=4",
        "tp={n},micro=2,ckpt=full",
        "dp={n},micro=2",
        "dp={n},zero=1,micro=1",
        "dp={n},zero=2,micro=1,sync=immediate",
        "dp={n},zero=3,micro=2",
        "dp={n},zero=3,micro=2,reshard=off,ckpt=selective",
        "pp={n},micro=1",
        "pp={n},micro=2,sched=gpipe",
        "pp={n},micro=1,sched=zb-h1",
        "pp={n},micro=1,sched=interleaved,virtual=2",
        "dp={n},micro=2,offload=optimizer:1",
        "dp={n},zero=1,micro=2,offload=activations:1",
        "pp={n},micro=2,ckpt=full:1",
        "dp={n},micro=1,compress=8bit",
    ]
    .map(|text| text.replace("{n}", &n.to_string()))
    .into()
}

fn within(cores: u64) -> Vec<Small> {
    let mut list: Vec<Small> =
        WITHIN.iter().enumerate().map(|(index, (_, strategy))| small(index, 1, strategy)).collect();
    let ranks = cores.clamp(2, 4);
    list.extend(strategies(ranks).iter().enumerate().map(|(index, strategy)| small(index, ranks, strategy)));
    list
}

fn beyond(cores: u64) -> Vec<Small> {
    let ranks = 2 * cores.clamp(1, 2);
    let mut list: Vec<Small> =
        strategies(ranks).iter().enumerate().map(|(index, text)| small(index, ranks, text)).collect();
    let half = ranks / 2;
    let mixed = [
        format!("tp={half},dp=2,micro=2"),
        format!("tp={half},pp=2,micro=2"),
        format!("pp={half},dp=2,zero=1,micro=1"),
        format!("dp={ranks},zero=3,shard={half},micro=1,sync=scatter"),
    ];
    list.extend(mixed.iter().enumerate().map(|(index, text)| small(index, ranks, text)));
    list
}

/// Predicted and measured seconds of a step, and the speed of the fixed kernel between steps.
fn both(model: &DeviceModel, small: &Small) -> Result<(f64, f64, FlopsPerSecond), String> {
    let job = small.job().map_err(|error| error.to_string())?;
    let predicted = predicted(model, &job, small.devices);
    let seen = observe(job, Settings::default(), (STEPS, None)).map_err(|error| error.to_string())?;
    Ok((predicted, seen.step_time().0, seen.speed))
}

fn predicted(model: &DeviceModel, job: &Job, devices: u64) -> f64 {
    let cluster = Cluster::uniform("here".to_owned(), 1, devices as u32, model.clone(), String::new());
    let pricing = DevicePricing::new(&cluster, job.engine, &job.strategy, job.workload.compute_type());
    play(&build(&job.model, &job.strategy, &job.workload, job.engine), &pricing).step_time.0
}

fn print_cases(title: &str, cases: &[Case]) {
    println!("\n{title}\n{:>9} {:>9} {:>6} {:>6}  strategy", "predicted", "measured", "ratio", "drift");
    let (mut errors, mut steady) = (Vec::new(), Vec::new());
    for case in cases {
        let small = &case.small;
        let shape = format!("{:?} {}x{} seq {}", small.family, small.hidden, small.blocks, small.seq_len);
        if let Some(reason) = &case.failure {
            println!("{:>33}  {} ({shape}): {reason}", "", small.strategy);
            continue;
        }
        let (predicted, measured) = (case.predicted() * 1e3, case.measured() * 1e3);
        let ratio = predicted / measured;
        errors.push((ratio - 1.0).abs());
        let drift = case.drift();
        let quotients = case.predicted.iter().zip(&case.measured).zip(&case.drift);
        let corrected =
            median(quotients.map(|((predicted, measured), drift)| predicted / drift / measured).collect());
        steady.push((corrected - 1.0).abs());
        println!(
            "{predicted:6.2} ms {measured:6.2} ms {ratio:6.3} {drift:6.3}  {} ({shape})",
            small.strategy
        );
    }
    println!(
        "median error {:.1} % over {} strategies; {:.1} % with the drift of the fixed kernel taken out",
        100.0 * median(errors.clone()),
        errors.len(),
        100.0 * median(steady)
    );
}

/// Overlapped optimizer offload against serial, and the policies of gradient synchronisation.
fn pairs(cores: u64) -> Vec<[Small; 2]> {
    let ranks = cores.clamp(2, 4);
    let wide = |devices, strategy: &str| Small { vocabulary: 8192, ..small(0, devices, strategy) };
    vec![
        [wide(1, "micro=2,offload=optimizer:1,overlap=off"), wide(1, "micro=2,offload=optimizer:1")],
        [wide(ranks, "zero=1,micro=1,sync=deferred"), wide(ranks, "zero=1,micro=1,sync=immediate")],
        [
            wide(ranks, "zero=1,shard=1,micro=1,sync=deferred"),
            wide(ranks, "zero=1,shard=1,micro=1,sync=scatter"),
        ],
        [
            wide(ranks, "zero=1,shard=1,micro=1,sync=immediate"),
            wide(ranks, "zero=1,shard=1,micro=1,sync=scatter"),
        ],
    ]
}

fn print_ratios(pairs: &[[Case; 2]]) {
    println!(
        "\nratios of the first to the second: played, measured (median of rounds), played over measured"
    );
    for [first, second] in pairs {
        let names = format!("{} / {}", first.small.strategy, second.small.strategy);
        if let Some(reason) = first.failure.as_ref().or(second.failure.as_ref()) {
            println!("{names}: {reason}");
            continue;
        }
        // Rounds are compared with themselves, as both of a pair then had the same machine.
        let ratio = |a: &[f64], b: &[f64]| median(a.iter().zip(b).map(|(a, b)| a / b).collect());
        let played = ratio(&first.predicted, &second.predicted);
        let measured = ratio(&first.measured, &second.measured);
        println!("{played:6.3} {measured:6.3} {:6.3}  {names}", played / measured);
    }
}

/// Every op of rank 0 in a step of `small`: how often, its price, its median time.
fn print_ops(model: &DeviceModel, small: &Small) {
    let job = small.job().expect("legal");
    let cluster = Cluster::uniform("here".to_owned(), 1, small.devices as u32, model.clone(), String::new());
    let pricing = DevicePricing::new(&cluster, job.engine, &job.strategy, job.workload.compute_type());
    println!(
        "{} {:?}: predicted {:.2} ms",
        small.strategy,
        small.family,
        predicted(model, &job, small.devices) * 1e3
    );
    let seen = observe(job, Settings::default(), (STEPS, None)).expect("runs");
    println!("measured {:.2} ms, gap {:.1} us", seen.step_time().0 * 1e3, samples::gap(&seen) * 1e6);
    for stream in Stream::ALL {
        let issues = &seen.fleet.ranks[0].placement;
        let mut total = (0.0, 0.0);
        for (op, seconds) in samples::ops(&seen, stream) {
            let issued = issues.streams[stream as usize].iter().map(|&at| &issues.issues[at as usize]);
            let count = issued.filter(|issue| issue.op == op && issue.task != Task::Nothing).count() as f64;
            let price = pricing.price(&op, 0).seconds.0;
            total = (total.0 + count * price, total.1 + count * seconds);
            println!(
                "{count:4} x {:8.1} us {:8.1} us {:6.2} {:8.2} ms  {op:?}",
                price * 1e6,
                seconds * 1e6,
                price / seconds,
                count * (seconds - price) * 1e3
            );
        }
        println!("{stream:?}: priced {:.2} ms, measured {:.2} ms", total.0 * 1e3, total.1 * 1e3);
    }
}

/// Every op that was measured on one core, beside its price.
fn print_kernels(calibration: &Calibration) {
    let mut model = calibration.model.clone();
    model.host.cores.value = 1;
    let job =
        Small { precision: ElementType::Fp32, ..Small::gpt2((128, 4), 128, "micro=2") }.job().expect("legal");
    let cluster = Cluster::uniform("one".to_owned(), 1, 1, model, String::new());
    let pricing = DevicePricing::new(&cluster, job.engine, &job.strategy, job.workload.compute_type());
    for (op, seconds) in &calibration.measured.fp32 {
        let price = pricing.price(op, 0).seconds.0;
        println!("{:8.1} us {:8.1} us {:6.2}  {op:?}", price * 1e6, seconds * 1e6, price / seconds);
    }
}
