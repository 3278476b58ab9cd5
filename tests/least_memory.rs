//! The least memory attacked from outside: random meshes, states, cuts, recomputation and offloads of the printed axes,
//! each improved a little by moving blocks from the fullest rank, never peak below what `--objective memory` leaves
//! open; and where nothing is said to fit, nothing does.
//!
//! `MESHWRIGHT_ATTACK=N` tries N strategies in each of ten times as many settings.

#[expect(dead_code, reason = "only the dice are of use here")]
mod sampling;

use std::collections::BTreeMap;

use meshwright::cluster::{self, Cluster};
use meshwright::model::{self, Model};
use meshwright::profile::EngineProfile;
use meshwright::profile::capabilities::CutGrain;
use meshwright::profile::choices::CheckpointMode;
use meshwright::profile::engines::engines;
use meshwright::search::{Failure, Objective, Outcome, Problem, Request, search};
use meshwright::simulate::peak;
use meshwright::strategy::{Checkpoint, CheckpointEntry, Draft, Strategy, Workload, rules};
use meshwright::units::{Bytes, ElementType};
use sampling::Dice;

/// Blocks that are moved from the fullest rank to improve one strategy.
const MOVES: u32 = 6;

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
        let shape = dice.pick(&[
            "1x2xa10g",
            "1x4xh100-sxm",
            "1x5xa10g",
            "1x6xrtx-4090",
            "1x8xa10g",
            "2x4xa10g",
            "1x3xa10g",
        ]);
        let (name, model) = small_model(&mut dice);
        let limit = dice.pick(&[None, None, Some(400), Some(1_200), Some(3_000)]);
        let workload = Workload {
            global_batch: dice.pick(&[4, 8, 10, 12, 24]),
            seq_len: dice.pick(&[128, 512]),
            precision: ElementType::Bf16,
            dropout: 0.0,
            clip: 1.0,
        };
        let mut cluster = cluster::load(shape).expect("built in");
        let host = dice.pick(&[None, None, Some(8_u64)]);
        if let Some(gib) = host {
            cluster.host.memory = Bytes(gib << 30);
        }
        let what = format!(
            "seed {seed}: {name} on {shape} (host {host:?} GiB), {}, {limit:?} MiB, {workload:?}",
            engine.name
        );
        // What a process takes beside its program comes on top.
        let context = cluster.device.reserve.context.value + cluster.device.reserve.workspace.value;
        let memory_limit = limit.map(|mib: u64| context + Bytes(mib << 20));
        Self { model, cluster, engine, workload, memory_limit, what }
    }

    fn problem(&self) -> Problem<'_> {
        Problem::new(&self.model, &self.cluster, self.workload, self.engine, self.memory_limit)
    }
}

/// A model of few blocks: dense, with a heavy head, or with experts behind a dense block.
fn small_model(dice: &mut Dice) -> (String, Model) {
    let blocks = dice.pick(&[2, 3, 5, 6, 9, 13]);
    let (hidden, vocabulary) = (dice.pick(&[256, 512]), dice.pick(&[1_000, 32_000]));
    let tied = dice.pick(&["true", "false"]);
    let (kind, config) = match dice.next() % 3 {
        0 => (
            "gpt2",
            format!(
                r#"{{"model_type":"gpt2","n_embd":{hidden},"n_layer":{blocks},"n_head":8,"n_positions":1024,
                    "vocab_size":{vocabulary},"activation_function":"gelu_new","tie_word_embeddings":{tied}}}"#
            ),
        ),
        1 => (
            "llama",
            format!(
                r#"{{"model_type":"llama","hidden_size":{hidden},"num_hidden_layers":{blocks},"num_attention_heads":8,
                    "num_key_value_heads":4,"intermediate_size":{},"max_position_embeddings":1024,
                    "vocab_size":{vocabulary},"hidden_act":"silu","tie_word_embeddings":{tied}}}"#,
                3 * hidden
            ),
        ),
        _ => (
            "experts",
            format!(
                r#"{{"model_type":"deepseek_v2","hidden_size":{hidden},"intermediate_size":1024,
                    "num_hidden_layers":{blocks},"num_attention_heads":8,"num_key_value_heads":8,
                    "vocab_size":{vocabulary},"max_position_embeddings":1024,"q_lora_rank":null,"kv_lora_rank":128,
                    "qk_nope_head_dim":32,"qk_rope_head_dim":32,"v_head_dim":64,"n_routed_experts":8,
                    "num_experts_per_tok":2,"n_shared_experts":1,"moe_intermediate_size":512,
                    "first_k_dense_replace":1,"moe_layer_freq":1,"hidden_act":"silu","rms_norm_eps":1e-6,
                    "tie_word_embeddings":{tied}}}"#
            ),
        ),
    };
    let model = model::from_text(&config, "config.json", "small").expect("the configuration is legal");
    (format!("{kind} of {blocks} blocks, hidden {hidden}, vocabulary {vocabulary}, tied {tied}"), model)
}

/// Random values of the outer keys, as printed.
fn outer(axes: &BTreeMap<String, Vec<String>>, dice: &mut Dice) -> String {
    let keys = [
        "tp", "cp", "pp", "zero", "micro", "sched", "loss", "sync", "reshard", "sp", "ep", "shard", "cp_kind",
    ];
    let some = keys.into_iter().filter(|_| !dice.next().is_multiple_of(3)).collect::<Vec<_>>();
    let values = some.into_iter().filter_map(|key| {
        let values = axes.get(key).filter(|values| !values.is_empty())?;
        // As likely as all others together: the last, which as a rule is the largest.
        let place = if dice.next().is_multiple_of(2) {
            values.len() as u64 - 1
        } else {
            dice.next() % values.len() as u64
        };
        Some(format!("{key}={}", values[place as usize]))
    });
    values.collect::<Vec<_>>().join(",")
}

/// The keys of the text that a search found, some of them.
fn near(winner: &str, dice: &mut Dice) -> String {
    let is_outer = |key: &&str| !["cuts", "ckpt", "offload"].iter().any(|inner| key.starts_with(inner));
    let keys = winner.split(',').filter(is_outer).filter(|_| !dice.next().is_multiple_of(8));
    keys.collect::<Vec<_>>().join(",")
}

/// Random inner choices: of blocks what they recompute, of ranks what they keep on the host.
fn choose(strategy: &mut Strategy, engine: &EngineProfile, dice: &mut Dice) {
    let supports = &engine.supports;
    let free = supports.is_free_inside();
    let most = strategy.cuts.iter().copied().max().unwrap_or(0);
    let entry = match dice.next() % 4 {
        0 => CheckpointEntry::First((dice.next() % u64::from(most + 1)) as u32),
        1 => CheckpointEntry::Whole(dice.pick(&supports.checkpoint)),
        _ => CheckpointEntry::Whole(*supports.checkpoint.iter().max().expect("there are modes")),
    };
    let cuts = strategy.cuts.clone();
    strategy.checkpoint = cuts.iter().map(|&blocks| entry.over(blocks)).collect();
    if free && dice.next().is_multiple_of(4) {
        let mut modes = |blocks: u32| (0..blocks).map(|_| dice.pick(CheckpointMode::ALL)).collect::<Vec<_>>();
        strategy.checkpoint = cuts.iter().map(|&blocks| Checkpoint::of(modes(blocks).into_iter())).collect();
    }
    let stages = strategy.pipeline as usize;
    let together = dice.pick(&[0.0, 1.0, 1.0]);
    for category in supports.offloads() {
        let one = if *supports.offload_together { together } else { dice.pick(&[0.0, 0.5, 1.0, 1.0]) };
        let own = |dice: &mut Dice| if free { dice.pick(&[one, one, 0.0, 0.5, 1.0]) } else { one };
        *strategy.offload.fractions_mut(category) = (0..stages).map(|_| own(dice)).collect();
    }
}

/// Moves random blocks, or one from the fullest rank to the emptiest.
fn cut(strategy: &mut Strategy, peaks: Option<&[Bytes]>, dice: &mut Dice) {
    let ranks = strategy.cuts.len();
    let (from, to) = match peaks {
        Some(peaks) => {
            let full = (0..ranks).filter(|&rank| strategy.cuts[rank] > 0).max_by_key(|&rank| peaks[rank]);
            (full.unwrap_or(0), (0..ranks).min_by_key(|&rank| peaks[rank]).unwrap_or(0))
        }
        None => ((dice.next() as usize) % ranks, (dice.next() as usize) % ranks),
    };
    if strategy.cuts[from] > 0 {
        let modes: Vec<Option<CheckpointMode>> =
            strategy.checkpoint.iter().map(|entry| entry.modes().next()).collect();
        strategy.cuts[from] -= 1;
        strategy.cuts[to] += 1;
        let mode = modes.into_iter().flatten().max().unwrap_or(CheckpointMode::None);
        strategy.checkpoint = strategy.cuts.iter().map(|&blocks| Checkpoint::uniform(mode, blocks)).collect();
    }
}

/// What each rank's own program peaks at.
fn peaks(problem: &Problem<'_>, strategy: &Strategy) -> Vec<Bytes> {
    problem.program(strategy).ranks.iter().map(|rank| peak(rank).total).collect()
}

/// Tries `strategy` and others that are near it: calls `look` with each legal one and what it peaks at.
fn improve(
    problem: &Problem<'_>,
    mut strategy: Strategy,
    dice: &mut Dice,
    mut look: impl FnMut(&Strategy, Bytes),
) {
    let may_cut = strategy.virtual_stages == 1
        && strategy.pipeline > 1
        && *problem.engine.supports.cuts == CutGrain::Any;
    if may_cut {
        (0..dice.next() % 4).for_each(|_| cut(&mut strategy, None, dice));
    }
    let mut least = Bytes(u64::MAX);
    for _ in 0..MOVES {
        let mut normal = strategy.clone();
        normal.normalise(&problem.facts);
        if !rules::legal(&normal, &problem.facts) {
            return;
        }
        let peaks = peaks(problem, &normal);
        let fullest = peaks.iter().copied().max().unwrap_or_default();
        look(&normal, fullest);
        if !may_cut || fullest > least {
            return;
        }
        least = fullest;
        cut(&mut strategy, Some(peaks.as_slice()), dice);
    }
}

fn tries() -> Option<u64> {
    std::env::var("MESHWRIGHT_ATTACK").ok().and_then(|count| count.parse().ok())
}

/// Draws of `count` strategies near what is `known` and anywhere on `axes`.
fn attack(
    setting: &Setting,
    (axes, known): (&BTreeMap<String, Vec<String>>, Option<&str>),
    (count, dice): (u64, &mut Dice),
    mut look: impl FnMut(&Strategy, Bytes),
) {
    let problem = setting.problem();
    for turn in 0..count {
        let text = match known.filter(|_| turn.is_multiple_of(2)) {
            Some(known) => near(known, dice),
            None => outer(axes, dice),
        };
        let draft = Draft::parse(&text).expect("printed values are legal text");
        let Ok(mut strategy) = draft.resolve(&problem.facts) else { continue };
        choose(&mut strategy, setting.engine, dice);
        improve(&problem, strategy, dice, &mut look);
    }
}

/// The bytes that an answer leaves open.
fn proven(outcome: &Outcome) -> u64 {
    outcome.account.least_memory.expect("memory is what counts").0.min(outcome.winner.peak().0)
}

#[test]
fn nothing_is_leaner_than_the_least_memory_by_more_than_its_gap() {
    let (settings, count) = tries().map_or((30, 12), |count| (300, count));
    let request = Request { objective: Objective::Memory, ..Request::default() };
    let (mut looked, mut unfit, mut gaps) = (0_u64, 0_u64, Vec::new());
    for seed in 0..settings {
        let setting = Setting::new(seed);
        let problem = setting.problem();
        let mut dice = Dice::new(700_000 + seed);
        match search(&problem, &request, &|_| {}) {
            Ok(outcome) => {
                let least = proven(&outcome);
                let found = outcome.winner.peak();
                gaps.push(1.0 - least as f64 / found.0 as f64);
                let winner = outcome.winner.strategy.text(problem.facts.defaults);
                attack(
                    &setting,
                    (&outcome.account.axes, Some(winner.as_str())),
                    (count, &mut dice),
                    |strategy, bytes| {
                        looked += 1;
                        assert!(
                            bytes.0 >= least || !problem.fits(&problem.play(strategy.clone())),
                            "{}: {bytes} is below {}, found {found} ({winner}): {}",
                            setting.what,
                            Bytes(least),
                            strategy.text(problem.facts.defaults)
                        );
                    },
                );
            }
            Err(Failure::NothingFits { .. }) => {
                let roomy = Problem { memory_limit: Bytes(1 << 50), ..problem.clone() };
                let axes = search(&roomy, &request, &|_| {}).expect("it fits").account.axes;
                attack(&setting, (&axes, None), (count, &mut dice), |strategy, bytes| {
                    unfit += 1;
                    let may_fit = problem.process_memory(strategy, bytes).process <= problem.memory_limit;
                    assert!(
                        !may_fit || !problem.fits(&problem.play(strategy.clone())),
                        "{}: {} fits",
                        setting.what,
                        strategy.text(problem.facts.defaults)
                    );
                });
            }
            Err(failure) => assert!(matches!(failure, Failure::Illegal(_)), "{}: {failure}", setting.what),
        }
    }
    gaps.sort_by(f64::total_cmp);
    println!("{looked} strategies looked at, {unfit} where nothing fits; gaps {gaps:?}");
    assert!(looked > 10 * count && unfit > 0 && gaps.len() > 10, "{looked} {unfit} {}", gaps.len());
    let open = gaps.iter().filter(|gap| **gap > 0.005).count();
    assert!(10 * open <= gaps.len(), "most answers are proven: {gaps:?}");
}

#[test]
fn what_fits_is_found_whatever_is_to_be_best() {
    for seed in 0..tries().map_or(15, |_| 300) {
        let setting = Setting::new(seed);
        let problem = setting.problem();
        let objectives = [Objective::Time, Objective::Memory];
        let fits = objectives
            .map(|objective| search(&problem, &Request { objective, ..Request::default() }, &|_| {}).is_ok());
        assert_eq!(fits[0], fits[1], "{}", setting.what);
    }
}
