//! Predicted step times against measured ones, side by side, after a calibration: `cargo bench --bench time`.
//!
//! Wants a quiet machine. `--kernels` also shows each measured op beside its price.

use std::env;

use meshwright::calibrate::observe::{median, observe};
use meshwright::calibrate::programs::{Family, Small};
use meshwright::calibrate::{Calibration, calibrate, machine};
use meshwright::cluster::Cluster;
use meshwright::cost::{DevicePricing, Pricing};
use meshwright::execute::run::{Job, Settings};
use meshwright::profile::DeviceModel;
use meshwright::program::build;
use meshwright::simulate::play;
use meshwright::units::ElementType;

const STEPS: u64 = 9;

/// Times that the machine is calibrated and every case run, in turns: its speed wanders from minute to minute.
const ROUNDS: usize = 5;

fn main() {
    // `cargo test --benches` only wants to see that it builds.
    if !env::args().any(|argument| argument == "--bench") {
        return;
    }
    let cores = machine::cores() as u64;
    let mut within = cases(within(cores));
    let mut beyond = cases(beyond(cores));
    let mut pairs: Vec<[Case; 2]> = pairs(cores).into_iter().map(|pair| pair.map(Case::new)).collect();
    for round in 1..=ROUNDS {
        let calibration = calibrate(&|_, _| {}).expect("this machine can be measured");
        let effective = calibration.measured.effective;
        println!(
            "round {round}: {}, calibrated in {:.1} s, as good as {effective:.2} cores",
            calibration.model.title, calibration.seconds
        );
        if round == 1 && env::args().any(|argument| argument == "--kernels") {
            println!("{}", serde_json::to_string_pretty(&calibration.model).expect("numbers"));
            print_kernels(&calibration);
        }
        let cases = within.iter_mut().chain(&mut beyond).chain(pairs.iter_mut().flatten());
        cases.for_each(|case| case.observe(&calibration.model));
    }
    print_cases("at most as many ranks as cores", &within);
    print_cases("twice as many ranks as cores", &beyond);
    print_ratios(&pairs);
}

/// One strategy, what was predicted and what was measured in each round, in seconds.
struct Case {
    small: Small,
    predicted: Vec<f64>,
    measured: Vec<f64>,
    failure: Option<String>,
}

impl Case {
    const fn new(small: Small) -> Self {
        Self { small, predicted: Vec::new(), measured: Vec::new(), failure: None }
    }

    fn observe(&mut self, model: &DeviceModel) {
        match both(model, &self.small) {
            Ok((predicted, measured)) => {
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
}

fn cases(list: Vec<Small>) -> Vec<Case> {
    list.into_iter().map(Case::new).collect()
}

/// A model of some 10 to 100 ms a step.
fn small(index: usize, devices: u64, strategy: &str) -> Small {
    let shape = [(256, 8), (192, 6), (128, 4), (256, 4)][index % 4];
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

/// Predicted and measured seconds of a step.
fn both(model: &DeviceModel, small: &Small) -> Result<(f64, f64), String> {
    let job = small.job().map_err(|error| error.to_string())?;
    let predicted = predicted(model, &job, small.devices);
    let seen = observe(job, Settings::default(), STEPS).map_err(|error| error.to_string())?;
    Ok((predicted, seen.step_time().0))
}

fn predicted(model: &DeviceModel, job: &Job, devices: u64) -> f64 {
    let cluster = Cluster::uniform("here".to_owned(), 1, devices as u32, model.clone(), String::new());
    let pricing = DevicePricing::new(&cluster, &job.strategy, job.workload.compute_type());
    play(&build(&job.model, &job.strategy, &job.workload, job.engine), &pricing).step_time.0
}

fn print_cases(title: &str, cases: &[Case]) {
    println!("\n{title}\n{:>9} {:>9} {:>6}  strategy", "predicted", "measured", "ratio");
    let mut errors = Vec::new();
    for case in cases {
        let small = &case.small;
        let shape = format!("{:?} {}x{} seq {}", small.family, small.hidden, small.blocks, small.seq_len);
        if let Some(reason) = &case.failure {
            println!("{:>26}  {} ({shape}): {reason}", "", small.strategy);
            continue;
        }
        let (predicted, measured) = (case.predicted() * 1e3, case.measured() * 1e3);
        let ratio = predicted / measured;
        errors.push((ratio - 1.0).abs());
        println!("{predicted:6.2} ms {measured:6.2} ms {ratio:6.3}  {} ({shape})", small.strategy);
    }
    println!("median error {:.1} % over {} strategies", 100.0 * median(errors.clone()), errors.len());
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

/// Every op that was measured on one core, beside its price.
fn print_kernels(calibration: &Calibration) {
    let mut model = calibration.model.clone();
    model.host.cores.value = 1;
    let job =
        Small { precision: ElementType::Fp32, ..Small::gpt2((128, 4), 128, "micro=2") }.job().expect("legal");
    let cluster = Cluster::uniform("one".to_owned(), 1, 1, model, String::new());
    let pricing = DevicePricing::new(&cluster, &job.strategy, job.workload.compute_type());
    for (op, seconds) in &calibration.measured.fp32 {
        let price = pricing.price(op, 0).seconds.0;
        println!("{:8.1} us {:8.1} us {:6.2}  {op:?}", price * 1e6, seconds * 1e6, price / seconds);
    }
}
