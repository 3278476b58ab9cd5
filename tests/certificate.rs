//! The certificate attacked from outside: random strategies of the printed axes, changes of the answer, and searches
//! with keys held or with less memory never beat an answer by more than its gap; with more host memory or faster links no
//! plan is slower than the one that was found with less, as it is played there; and where nothing is said to fit, nothing
//! does.
//!
//! `MESHWRIGHT_ATTACK=N` tries N strategies in each setting instead of a few.

#[expect(dead_code, reason = "only the dice are of use here")]
mod sampling;

use std::collections::BTreeMap;

use meshwright::cluster::{self, Cluster};
use meshwright::cost::Unhindered;
use meshwright::model::{self, Model};
use meshwright::profile::choices::CheckpointMode;
use meshwright::profile::device::KernelRates;
use meshwright::profile::engines::engines;
use meshwright::profile::{DeviceModel, EngineProfile, Sourced, device_model};
use meshwright::search::request::TOLERANCE;
use meshwright::search::{Candidate, Failure, Outcome, Problem, Request, search};
use meshwright::simulate::play;
use meshwright::strategy::{Checkpoint, CheckpointEntry, Draft, Strategy, Workload, resolve, rules};
use meshwright::units::{Bytes, ElementType};
use sampling::Dice;

/// What is planned.
struct Setting {
    model: Model,
    cluster: Cluster,
    engine: &'static EngineProfile,
    workload: Workload,
    memory_limit: Option<Bytes>,
    what: String,
}

impl Setting {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let engine = &engines()[(seed % engines().len() as u64) as usize];
        let (name, clusters): (&str, &[&str]) = match dice.next() % 4 {
            0 => ("gpt2-large", &["1x2xa10g", "1x4xa100-sxm-40gb"]),
            1 => ("gpt2", &["1x4xh100-sxm", "2x2xrtx-4090"]),
            2 => ("llama-2-7b", &["1x8xrtx-4090", "1x4xh100-sxm"]),
            _ => ("mixed", &["1x4xa100-sxm-40gb", "2x4xh100-sxm"]),
        };
        let cluster = dice.pick(clusters);
        let limit = dice.pick(&[None, Some(7), Some(12), Some(20)]);
        let model = if name == "mixed" { experts() } else { model::load(name).expect("built in") };
        let seq_len = dice.pick(&[512, 1024]);
        let workload = Workload {
            global_batch: dice.pick(&[8, 16, 32]),
            seq_len,
            precision: ElementType::Bf16,
            dropout: 0.0,
            clip: 1.0,
        };
        let is_measured = seed % 3 == 2;
        let what = format!(
            "seed {seed}: {name} on {cluster} (kernels measured: {is_measured}), {}, {limit:?} GiB, {workload:?}",
            engine.name
        );
        let mut cluster = cluster::load(cluster).expect("built in");
        if is_measured {
            measure(&mut cluster.device, &mut dice);
        }
        Self { model, cluster, engine, workload, memory_limit: limit.map(|gib| Bytes(gib << 30)), what }
    }

    fn problem(&self) -> Problem<'_> {
        Problem::new(&self.model, &self.cluster, self.workload, self.engine, self.memory_limit)
    }
}

/// Gives `device` what a measured one has: rates of each kind of kernel that moves data, and of products in fp32.
fn measure(device: &mut DeviceModel, dice: &mut Dice) {
    let (cores, _) = device_model("cpu").expect("built in");
    let bandwidth = device.memory_bandwidth.clone();
    for kind in cores.kernels.into_keys() {
        let mut rate =
            || Sourced { value: bandwidth.value * dice.pick(&[0.1, 0.5, 0.9, 1.0]), ..bandwidth.clone() };
        device.kernels.insert(kind, KernelRates { fp32: rate(), fp64: None, bf16: Some(rate()) });
    }
    let share = Sourced { value: dice.pick(&[0.1, 0.6, 1.0]), ..device.gemm.efficiency.clone() };
    device.gemm.efficiency_fp32 = Some(share);
}

/// A small model with a dense block in front of blocks of experts.
fn experts() -> Model {
    let config = r#"{"model_type":"deepseek_v2","hidden_size":512,"intermediate_size":2048,
        "num_hidden_layers":6,"num_attention_heads":8,"num_key_value_heads":8,"vocab_size":8000,
        "max_position_embeddings":2048,"q_lora_rank":null,"kv_lora_rank":128,"qk_nope_head_dim":32,
        "qk_rope_head_dim":32,"v_head_dim":64,"n_routed_experts":8,"num_experts_per_tok":2,
        "n_shared_experts":1,"moe_intermediate_size":512,"first_k_dense_replace":1,
        "moe_layer_freq":1,"hidden_act":"silu","rms_norm_eps":1e-6,"tie_word_embeddings":false}"#;
    model::from_text(config, "config.json", "experts").expect("the configuration is legal")
}

/// The shortest step that the answer leaves open, in seconds.
fn proven(outcome: &Outcome) -> f64 {
    let found = outcome.fastest.as_ref().unwrap_or(&outcome.winner).playback.step_time.0;
    outcome.account.lowest_bound.map_or(found, |lowest| lowest.0.min(found))
}

/// Random values of some outer keys, as printed.
fn outer(axes: &BTreeMap<String, Vec<String>>, dice: &mut Dice) -> String {
    let keys = ["tp", "cp", "pp", "zero", "micro", "sched", "loss", "sync", "reshard", "sp", "ep"];
    let some = keys.into_iter().filter(|_| !dice.next().is_multiple_of(3)).collect::<Vec<_>>();
    let values = some.into_iter().filter_map(|key| {
        let values = axes.get(key).filter(|values| !values.is_empty())?;
        Some(format!("{key}={}", values[(dice.next() % values.len() as u64) as usize]))
    });
    values.collect::<Vec<_>>().join(",")
}

/// Random inner choices: modes of some blocks, shares on the host, and where a rank has one chunk a block moved.
fn change(strategy: &mut Strategy, problem: &Problem<'_>, dice: &mut Dice) {
    const MODES: &[CheckpointMode] = CheckpointMode::ALL;
    if strategy.virtual_stages == 1 && strategy.pipeline > 1 && dice.next().is_multiple_of(3) {
        let from = (dice.next() % strategy.pipeline) as usize;
        let to = (dice.next() % strategy.pipeline) as usize;
        if strategy.cuts[from] > 1 {
            strategy.cuts[from] -= 1;
            strategy.cuts[to] += 1;
        }
    }
    let cuts = strategy.cuts.clone();
    strategy.checkpoint.resize(cuts.len(), Checkpoint::uniform(CheckpointMode::None, 0));
    for (entry, blocks) in strategy.checkpoint.iter_mut().zip(cuts) {
        let known = entry.modes().chain(std::iter::repeat(CheckpointMode::None));
        let mut modes: Vec<CheckpointMode> = known.take(blocks as usize).collect();
        match dice.next() % 4 {
            0 => modes.fill(dice.pick(MODES)),
            1 => {
                let until = (dice.next() % u64::from(blocks + 1)) as usize;
                modes[..until].fill(dice.pick(MODES));
            }
            2 if blocks > 0 => modes[(dice.next() % u64::from(blocks)) as usize] = dice.pick(MODES),
            _ => {}
        }
        *entry = Checkpoint::of(modes.into_iter());
    }
    let supports = &problem.engine.supports;
    if !supports.is_free_inside() {
        // All blocks alike, or the first few of each chunk: what most of these engines can run.
        let most = strategy.cuts.iter().copied().max().unwrap_or(0);
        let first = CheckpointEntry::First((dice.next() % u64::from(most + 1)) as u32);
        let whole = CheckpointEntry::Whole(dice.pick(&supports.checkpoint));
        let entry = if dice.next().is_multiple_of(2) { first } else { whole };
        strategy.checkpoint = strategy.cuts.iter().map(|&blocks| entry.over(blocks)).collect();
    }
    let all = dice.pick(&[0.0, 0.5, 1.0]);
    for category in supports.offloads() {
        if *supports.offload_together || dice.next().is_multiple_of(2) {
            let stages = strategy.pipeline as usize;
            let own = if *supports.offload_together { all } else { dice.pick(&[0.0, 0.5, 1.0]) };
            *strategy.offload.fractions_mut(category) = vec![own; stages];
        }
    }
    strategy.normalise(&problem.facts);
}

#[test]
fn no_strategy_beats_an_answer_by_more_than_its_gap() {
    let tries: u64 =
        std::env::var("MESHWRIGHT_ATTACK").ok().and_then(|count| count.parse().ok()).unwrap_or(40);
    let (mut fitting, mut careful_ones, mut settings, mut attacked) = (0, 0, 0, 0);
    for seed in 0..40 {
        let setting = Setting::new(seed);
        let problem = setting.problem();
        let mut dice = Dice::new(900_000 + seed);
        let outcome = match search(&problem, &Request::plain(), &|_| {}) {
            Ok(outcome) => outcome,
            Err(failure) => {
                assert!(matches!(failure, Failure::NothingFits { .. }), "{}: {failure}", setting.what);
                attacked += nothing_fits(&setting, &problem, &mut dice, tries);
                continue;
            }
        };
        settings += 1;
        let least = proven(&outcome);
        let fastest = outcome.fastest.as_ref().unwrap_or(&outcome.winner);
        let careful = problem.with_room_for(problem.half_widths(fastest).memory);
        let upper = |candidate: &Candidate| {
            let half_width = problem.coverage(&candidate.strategy).half_widths.time;
            candidate.playback.step_time.0 * (1.0 + half_width)
        };
        let robust = outcome.account.robust.expect("a plan to bet on was asked for");
        let worst = robust.upper.0 * (1.0 + TOLERANCE);
        assert!(upper(&outcome.winner) <= worst * (1.0 + 1e-9), "{}", setting.what);
        for turn in 0..tries {
            let mut strategy = if turn.is_multiple_of(2) {
                outcome.winner.strategy.clone()
            } else {
                let text = outer(&outcome.account.axes, &mut dice);
                let draft = Draft::parse(&text).expect("printed values are legal text");
                let devices = problem.facts.devices;
                match resolve(&draft, &setting.model, devices, &setting.workload, setting.engine) {
                    Ok(strategy) => strategy,
                    Err(_) => continue,
                }
            };
            change(&mut strategy, &problem, &mut dice);
            if !rules::legal(&strategy, &problem.facts) {
                continue;
            }
            let other = problem.play(strategy);
            if problem.fits(&other) {
                fitting += 1;
                let seconds = other.playback.step_time.0;
                if careful.fits(&other) {
                    careful_ones += 1;
                    assert!(
                        upper(&other) >= robust.lower.0 * (1.0 - 1e-9),
                        "{}: an upper end of {} s beats {} s: {}",
                        setting.what,
                        upper(&other),
                        robust.lower.0,
                        other.strategy.text(problem.facts.defaults)
                    );
                }
                assert!(
                    seconds >= least * (1.0 - 1e-9),
                    "{}: {seconds} s beats {least} s, found {} s: {}",
                    setting.what,
                    outcome.winner.playback.step_time.0,
                    other.strategy.text(problem.facts.defaults)
                );
            }
        }
    }
    assert!(settings > 25 && fitting > 8 * tries && attacked > 0, "{settings} {fitting} {attacked}");
    assert!(careful_ones > 4 * tries, "{careful_ones}");
}

/// Random strategies where nothing is said to fit, the leanest among them: none does. How many were tried.
fn nothing_fits(setting: &Setting, problem: &Problem<'_>, dice: &mut Dice, tries: u64) -> u64 {
    let mut tried = 0;
    for _ in 0..tries {
        let tensor = dice.pick(&[1, 2, 4]);
        let pipeline = dice.pick(&[1, 2, 4]);
        let zero = setting.engine.supports.zero.iter().max().copied().unwrap_or(0);
        let zero = dice.pick(&[0, zero]);
        let text = format!("tp={tensor},pp={pipeline},zero={zero},micro=1,ckpt=full,loss=chunked");
        let draft = Draft::parse(&text).expect("it parses");
        let devices = problem.facts.devices;
        let Ok(mut strategy) = resolve(&draft, &setting.model, devices, &setting.workload, setting.engine)
        else {
            continue;
        };
        if dice.next().is_multiple_of(2) {
            change(&mut strategy, problem, dice);
        } else {
            for category in problem.engine.supports.offloads() {
                let fractions = vec![dice.pick(&[0.0, 0.5, 1.0]); strategy.pipeline as usize];
                *strategy.offload.fractions_mut(category) = fractions;
            }
            strategy.normalise(&problem.facts);
        }
        if rules::legal(&strategy, &problem.facts) {
            tried += 1;
            let candidate = problem.play(strategy);
            let text = candidate.strategy.text(problem.facts.defaults);
            assert!(!problem.fits(&candidate), "{}: {text} fits", setting.what);
        }
    }
    tried
}

/// `cluster` with more of a resource, and what that is.
fn richer(cluster: &Cluster) -> [(&'static str, Cluster); 3] {
    let mut host = cluster.clone();
    host.host.memory = Bytes(2 * host.host.memory.0);
    let mut links = cluster.clone();
    for level in &mut links.levels {
        level.link.bandwidth.0 *= 1.5;
        level.slower.iter_mut().for_each(|(_, bandwidth)| bandwidth.0 *= 1.5);
    }
    let mut copies = cluster.clone();
    copies.host_link.bandwidth.0 *= 1.5;
    [("host memory", host), ("links", links), ("host links", copies)]
}

#[test]
fn with_more_host_memory_or_faster_links_no_plan_is_slower_than_the_one_found_with_less() {
    let (mut compared, mut longer) = (0, 0);
    for seed in 200..228 {
        let setting = Setting::new(seed);
        let problem = setting.problem();
        let Ok(outcome) = search(&problem, &Request::default(), &|_| {}) else { continue };
        let found = outcome.winner.playback.step_time.0;
        let winner = outcome.winner.strategy.clone();
        for (what, cluster) in richer(&setting.cluster) {
            let host_limit = cluster.host_memory_per_device();
            let richer = Problem { cluster: &cluster, host_limit, ..problem.clone() };
            let Ok(outcome) = search(&richer, &Request::default(), &|_| {}) else {
                panic!("{}: nothing fits with more {what}", setting.what);
            };
            let again = richer.play(winner.clone());
            let text = again.strategy.text(problem.facts.defaults);
            assert!(richer.fits(&again), "{}: with more {what} {text} does not fit", setting.what);
            let seconds = again.playback.step_time.0;
            let least = proven(&outcome);
            assert!(
                seconds >= least * (1.0 - 1e-9),
                "{}: with more {what} {seconds} s beats {least} s: {text}",
                setting.what
            );
            // What is over sooner may run beside something else, and a step may take a little longer. If nothing slowed
            // anything down, it would not.
            let alone = play(&richer.program(&winner), &Unhindered(&richer.pricing(&winner)));
            assert!(
                alone.step_time.0 <= found * (1.0 + 1e-9),
                "{}: with more {what} {} s unhindered, {found} s with less: {text}",
                setting.what,
                alone.step_time.0
            );
            assert!(what != "host memory" || (seconds - found).abs() <= 1e-9 * found, "{}", setting.what);
            longer += u32::from(seconds > found * (1.0 + 1e-9));
            compared += 1;
        }
    }
    println!("{compared} compared, {longer} plans took longer with more");
    assert!(compared > 50, "{compared}");
}

#[test]
fn keys_that_are_held_and_less_memory_beat_no_answer() {
    let mut compared = 0;
    for seed in 100..120 {
        let setting = Setting::new(seed);
        let problem = setting.problem();
        let Ok(outcome) = search(&problem, &Request::default(), &|_| {}) else { continue };
        let least = proven(&outcome);
        let mut dice = Dice::new(910_000 + seed);
        for _ in 0..4 {
            let mut text = outer(&outcome.account.axes, &mut dice);
            text = text.split(',').take(2).collect::<Vec<_>>().join(",");
            let fix = Draft::parse(&text).expect("printed values are legal text");
            let Ok(held) = search(&problem, &Request { fix, ..Request::default() }, &|_| {}) else {
                continue;
            };
            let seconds = held.winner.playback.step_time.0;
            assert!(
                seconds >= least * (1.0 - 1e-9),
                "{}: {seconds} s beats {least} s with {text}",
                setting.what
            );
            compared += 1;
        }
        let limit = Bytes(outcome.winner.memory.process.0 / 10 * 9);
        let leaner = Problem { memory_limit: limit, ..problem.clone() };
        if let Ok(held) = search(&leaner, &Request::default(), &|_| {}) {
            let seconds = held.winner.playback.step_time.0;
            assert!(
                seconds >= least * (1.0 - 1e-9),
                "{}: {seconds} s with less memory beats {least} s",
                setting.what
            );
        }
    }
    assert!(compared > 30, "{compared}");
}
