//! Looks for a counterexample to what proofs rest on (`search::proof`): a step to which work is added never ends before
//! the step without it would if nothing slowed anything down; and it gains no more than that step waits.
//!
//! That it never ends earlier at all is not true: `more_work_may_take_less_time` has one that does.
//! `MESHWRIGHT_ATTACK=N` compares N times as many.

mod sampling;

use meshwright::cluster::{self, Cluster};
use meshwright::cost::{DevicePricing, NeverLate, Unhindered};
use meshwright::model::{self, Model};
use meshwright::profile::EngineProfile;
use meshwright::profile::choices::{CheckpointMode, Compression, OffloadCategory};
use meshwright::profile::engines::{embedded, engines};
use meshwright::program::build;
use meshwright::simulate::play;
use meshwright::strategy::{Checkpoint, Draft, Facts, Strategy, Workload, rules};
use meshwright::units::ElementType;
use sampling::{Dice, cases};

/// The share by which proofs let such a step gain more than it waits.
const SPARE: f64 = 1e-4;
/// The share by which rounding may be off.
const ROUNDING: f64 = 1e-9;

/// What is trained where.
struct Setting<'a> {
    model: &'a Model,
    workload: &'a Workload,
    engine: &'a EngineProfile,
    cluster: &'a Cluster,
}

impl Setting<'_> {
    fn pricing(&self, strategy: &Strategy) -> DevicePricing<'_> {
        DevicePricing::new(self.cluster, self.engine, strategy, self.workload.compute_type())
    }

    /// Seconds of a step as it is played.
    fn seconds(&self, strategy: &Strategy) -> f64 {
        let program = build(self.model, strategy, self.workload, self.engine);
        play(&program, &self.pricing(strategy)).step_time.0
    }

    /// What proofs say of any step that does more: if nothing slowed anything down, and what is left without waiting.
    fn bounds(&self, strategy: &Strategy) -> (f64, f64) {
        let program = build(self.model, strategy, self.workload, self.engine);
        let pricing = self.pricing(strategy);
        let alone = play(&program, &Unhindered(&pricing)).step_time.0;
        let together = play(&program, &NeverLate(&pricing));
        let waiting = together.ranks.iter().map(|rank| rank.causes.waiting.0).fold(0.0, f64::max);
        (alone, together.step_time.0 - waiting)
    }

    /// Whether `more`, which does more than `less`, took less time. Fails if that was less than proofs say.
    fn compare(&self, less: &Strategy, more: &Strategy, what: &str) -> bool {
        let (alone, busy) = self.bounds(less);
        let seconds = self.seconds(more);
        assert!(
            seconds >= alone * (1.0 - ROUNDING),
            "{what}: {seconds} s with more to do, {alone} s unhindered"
        );
        assert!(
            seconds >= busy * (1.0 - SPARE),
            "{what}: {seconds} s with more to do, {busy} s without waiting"
        );
        seconds < self.seconds(less) * (1.0 - ROUNDING)
    }
}

fn times() -> u64 {
    std::env::var("MESHWRIGHT_ATTACK").ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}

/// `strategy` with one block of a random chunk recomputed more.
fn recomputing(strategy: &Strategy, dice: &mut Dice) -> Strategy {
    let mut more = strategy.clone();
    let chunk = (dice.next() % more.cuts.len() as u64) as usize;
    let mut modes: Vec<CheckpointMode> = more.checkpoint[chunk].modes().collect();
    if !modes.is_empty() {
        let block = (dice.next() % modes.len() as u64) as usize;
        if let Some(next) = CheckpointMode::ALL.get(modes[block] as usize + 1) {
            modes[block] = *next;
        }
        more.checkpoint[chunk] = Checkpoint::of(modes.into_iter());
    }
    more
}

/// `strategy` with more activations of one stage on the host.
fn copying(strategy: &Strategy, dice: &mut Dice) -> Strategy {
    let mut more = strategy.clone();
    let stages = more.pipeline as usize;
    let fractions = more.offload.fractions_mut(OffloadCategory::Activations);
    fractions.resize(stages, 0.0);
    let stage = (dice.next() % stages as u64) as usize;
    fractions[stage] = (fractions[stage] + 0.5).min(1.0);
    more
}

#[test]
fn a_step_to_which_work_is_added_gains_no_more_than_it_waits() {
    let clusters = ["2x8xh100-sxm", "2x8xrtx-4090", "2x8xa100-sxm-80gb"];
    let clusters = clusters.map(|name| cluster::load(name).expect("built in"));
    let (mut compared, mut gained) = (0, 0);
    for (seed, case) in cases(510_000, 1_500 * times() as usize) {
        let mut dice = Dice::new(seed);
        let facts = Facts::new(&case.model, case.devices, &case.workload, case.engine);
        let mut less = case.strategy.clone();
        // Compressing what is kept takes kernels, which recomputation saves: there modes are not in order.
        less.compression = Compression::None;
        let recomputes = dice.next().is_multiple_of(2);
        if recomputes {
            // Copies shrink as blocks recompute.
            less.offload.activations.clear();
        }
        let mut more = if recomputes { recomputing(&less, &mut dice) } else { copying(&less, &mut dice) };
        less.normalise(&facts);
        more.normalise(&facts);
        if less == more || !rules::legal(&less, &facts) || !rules::legal(&more, &facts) {
            continue;
        }
        let setting = Setting {
            model: &case.model,
            workload: &case.workload,
            engine: case.engine,
            cluster: &clusters[(seed % 3) as usize],
        };
        let what = format!("seed {seed}, {}, {}: {less:?} {more:?}", case.engine.name, case.text);
        gained += u32::from(setting.compare(&less, &more, &what));
        compared += 1;
    }
    println!("{compared} compared, {gained} ended earlier");
    assert!(compared > 600, "{compared}");
}

/// A Llama whose blocks have few heads and a narrow width beside the MLP's: its collectives are long.
fn narrow(blocks: u64, hidden: u64, heads: u64) -> Model {
    let config = format!(
        r#"{{"model_type":"llama","hidden_size":{hidden},"intermediate_size":11008,"num_hidden_layers":{blocks},
            "num_attention_heads":{heads},"num_key_value_heads":{heads},"vocab_size":50257,
            "max_position_embeddings":4096,"hidden_act":"silu","tie_word_embeddings":true}}"#
    );
    model::from_text(&config, "config.json", "narrow").expect("the configuration is legal")
}

const WORKLOAD: Workload =
    Workload { global_batch: 48, seq_len: 512, precision: ElementType::Fp16, dropout: 0.0, clip: 1.0 };

/// Three nodes of four H100 with the numbers under which this was found: an example must not depend on fits.
fn as_found() -> Cluster {
    let mut cluster = cluster::load("3x4xh100-sxm").expect("built in");
    let device = &mut cluster.device;
    (device.gemm.efficiency.value, device.gemm.half_depth.value) = (0.74767, 209.18);
    (device.gemm.half_intensity.value, device.gemm.unaligned_share) = (48.342, None);
    let attention = &mut device.attention;
    (attention.forward_efficiency.value, attention.backward_efficiency.value) = (0.58022, 0.54704);
    (attention.half_keys, attention.half_head) = (None, None);
    (device.memory_bound.efficiency.value, device.kernel_time.value.0) = (0.71231, 2.5563e-6);
    device.collective_share.value = 0.16043;
    for (level, (bandwidth, latency)) in
        cluster.levels.iter_mut().zip([(356e9, 3.1343e-6), (48.5e9, 1.1867e-5)])
    {
        (level.link.bandwidth.0, level.link.latency.0) = (bandwidth, latency);
    }
    cluster
}

#[test]
fn more_work_may_take_less_time() {
    let (model, cluster) = (narrow(31, 1024, 2), as_found());
    let mut engine = embedded().clone();
    engine.timing.attention_share.value = 1.0;
    let setting = Setting { model: &model, workload: &WORKLOAD, engine: &engine, cluster: &cluster };
    let facts = Facts::new(&model, 12, &WORKLOAD, &engine);
    let strategy = |mode: &str| {
        let text = format!("tp=2,cp=2,pp=1,dp=3,sp=off,zero=3,micro=4,accum=4,order=dp-tp-cp-pp,ckpt={mode}");
        Draft::parse(&text).expect("it parses").resolve(&facts).expect("it is legal")
    };
    let (none, selective) = (strategy("none"), strategy("selective"));
    // Gathers of parameters run beside other collectives, on the same links, and for the rest of the time beside
    // kernels. With more kernels there is less of the former.
    let [least, more] = [&none, &selective].map(|strategy| setting.seconds(strategy));
    assert!(more < 0.99 * least, "{more} s with more to do, {least} s");
    assert!(setting.compare(&none, &selective, "narrow"), "within what proofs say");
}

#[test]
fn steps_with_many_collectives_gain_no_more_than_they_wait() {
    let clusters = ["3x4xh100-sxm", "2x8xa100-sxm-80gb"].map(|name| cluster::load(name).expect("built in"));
    let engines: Vec<&EngineProfile> =
        engines().iter().filter(|engine| engine.supports.is_free_inside()).collect();
    let (mut compared, mut gained) = (0, 0);
    for seed in 0..70 * times() {
        let mut dice = Dice::new(620_000 + seed);
        let heads = dice.pick(&[2, 2, 4]);
        let hidden = dice.pick(&[512, 1024, 1024, 2048]);
        let model = narrow(dice.pick(&[5, 8, 12]), hidden, heads);
        let cluster = &clusters[usize::from(seed % 4 == 3)];
        let engine =
            if seed % 4 == 2 { engines[(dice.next() % engines.len() as u64) as usize] } else { embedded() };
        let workload = Workload { seq_len: dice.pick(&[512, 512, 2048]), ..WORKLOAD };
        let facts = Facts::new(&model, cluster.devices(), &workload, engine);
        let (tp, cp) = dice.pick(&[(2, 2), (2, 2), (2, 1), (1, 2), (4, 1)]);
        let text = format!(
            "tp={tp},cp={cp},pp={},zero={},micro={},sp={},order={},reshard={}",
            dice.pick(&[1, 1, 1, 2]),
            dice.pick(&[3, 3, 3, 2]),
            dice.pick(&[2, 4, 4]),
            dice.pick(&["on", "off", "off"]),
            dice.pick(&["tp-cp-dp-pp", "dp-tp-cp-pp", "dp-tp-cp-pp"]),
            dice.pick(&["on", "on", "off"]),
        );
        let Ok(mut less) = Draft::parse(&text).expect("it parses").resolve(&facts) else { continue };
        let alike = |strategy: &Strategy, mode| -> Vec<Checkpoint> {
            strategy.cuts.iter().map(|&blocks| Checkpoint::uniform(mode, blocks)).collect()
        };
        let [first, then] = dice.pick(&[
            [CheckpointMode::None, CheckpointMode::Selective],
            [CheckpointMode::None, CheckpointMode::Full],
            [CheckpointMode::Selective, CheckpointMode::Full],
        ]);
        less.checkpoint = alike(&less, first);
        let mut more = less.clone();
        match dice.next() % 3 {
            0 => more = copying(&more, &mut dice),
            1 => (0..dice.next() % 4 + 1).for_each(|_| more = recomputing(&more, &mut dice)),
            _ => more.checkpoint = alike(&more, then),
        }
        less.normalise(&facts);
        more.normalise(&facts);
        if less == more || !rules::legal(&less, &facts) || !rules::legal(&more, &facts) {
            continue;
        }
        let setting = Setting { model: &model, workload: &workload, engine, cluster };
        let what = format!("seed {seed}, {} on {}: {text}: {less:?} {more:?}", engine.name, cluster.name);
        gained += u32::from(setting.compare(&less, &more, &what));
        compared += 1;
    }
    println!("{compared} compared, {gained} ended earlier");
    assert!(compared > 20, "{compared}");
}
