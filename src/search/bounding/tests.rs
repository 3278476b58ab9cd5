//! Lower bounds against exact closed costs of random inner choices, of models whose blocks are alike and of others.

use super::*;
use crate::cluster;
use crate::cost::instants::{Instant, instants_of};
use crate::model;
use crate::profile::capabilities::{CheckpointGrain, CutGrain};
use crate::profile::choices::OffloadCategory;
use crate::profile::engines::{engine, engines};
use crate::program::Pass;
use crate::search::choices::FRACTIONS;
use crate::search::closed_forms::ClosedForms;
use crate::search::in_flight::Moment;
use crate::search::inner::Spread;
use crate::search::solve::Solving;
use crate::search::{Candidate, Problem, Request};
use crate::strategy::{Checkpoint, CheckpointEntry, CheckpointMode, Workload, cuts, rules};
use crate::units::ElementType;

/// Three dense blocks before six with experts.
const LEADING_DENSE: &str = r#"{"model_type":"deepseek_v3","hidden_size":1024,"num_hidden_layers":9,
"num_attention_heads":16,"intermediate_size":2816,"vocab_size":32000,"max_position_embeddings":4096,
"q_lora_rank":384,"kv_lora_rank":128,"qk_nope_head_dim":64,"qk_rope_head_dim":32,"v_head_dim":64,
"n_routed_experts":16,"num_experts_per_tok":2,"n_shared_experts":1,"moe_intermediate_size":1024,
"first_k_dense_replace":3,"moe_layer_freq":1,"hidden_act":"silu","attention_bias":false,
"tie_word_embeddings":false,"num_nextn_predict_layers":0}"#;

/// Every other block has experts.
const ALTERNATING: &str = r#"{"model_type":"qwen3_moe","hidden_size":1024,"num_hidden_layers":10,
"num_attention_heads":16,"num_key_value_heads":4,"head_dim":64,"intermediate_size":4096,"vocab_size":32000,
"max_position_embeddings":4096,"use_sliding_window":false,"sliding_window":null,"hidden_act":"silu",
"tie_word_embeddings":false,"attention_bias":false,"num_experts":8,"num_experts_per_tok":2,
"moe_intermediate_size":2048,"decoder_sparse_step":2,"mlp_only_layers":[],
"norm_topk_prob":true,"rms_norm_eps":1e-6,"rope_theta":1000000.0}"#;

const ALIKE: &str = r#"{"model_type":"llama","hidden_size":2048,"num_hidden_layers":11,"num_attention_heads":16,
"num_key_value_heads":4,"intermediate_size":5632,"vocab_size":64000,"max_position_embeddings":4096,
"hidden_act":"silu","tie_word_embeddings":true,"rms_norm_eps":1e-5,"rope_theta":10000.0}"#;

/// Its activations leave about as fast as its forwards run.
const WIDE: &str = r#"{"model_type":"llama","hidden_size":8192,"num_hidden_layers":8,"num_attention_heads":64,
"num_key_value_heads":8,"intermediate_size":28672,"vocab_size":32000,"max_position_embeddings":4096,
"hidden_act":"silu","tie_word_embeddings":false,"rms_norm_eps":1e-5,"rope_theta":10000.0}"#;

/// A small deterministic generator (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % count as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// A random inner choice of `outer`.
fn inner(outer: &Strategy, problem: &Problem<'_>, dice: &mut Dice) -> Strategy {
    let blocks = problem.facts.blocks;
    let cuts = if outer.virtual_stages > 1 {
        dice.pick(&Spread::ALL).cuts(blocks, outer)
    } else {
        let mut ends: Vec<u32> =
            (1..outer.pipeline).map(|_| dice.below(blocks as usize + 1) as u32).collect();
        ends.extend([0, blocks]);
        ends.sort_unstable();
        ends.windows(2).map(|pair| pair[1] - pair[0]).collect()
    };
    let modes = dice.pick(&[CheckpointMode::ALL, &CheckpointMode::ALL[..1]]);
    let mut checkpoint = Vec::new();
    for &blocks in &cuts {
        checkpoint
            .push(Checkpoint::of((0..blocks).map(|_| dice.pick(modes)).collect::<Vec<_>>().into_iter()));
    }
    let mut strategy = Strategy { cuts, checkpoint, ..outer.clone() };
    let supports = &problem.engine.supports;
    if !supports.is_free_inside() {
        alike(&mut strategy, problem, dice);
        return strategy;
    }
    for category in supports.offloads() {
        if supports.offers(category, strategy.zero).is_some() && dice.below(3) == 0 {
            let fractions = (0..strategy.pipeline).map(|_| dice.pick(&FRACTIONS)).collect();
            *strategy.offload.fractions_mut(category) = fractions;
        }
    }
    strategy.normalise(&problem.facts);
    strategy
}

/// One random choice for all blocks and stages of `strategy`, as its engine has it.
fn alike(strategy: &mut Strategy, problem: &Problem<'_>, dice: &mut Dice) {
    let supports = &problem.engine.supports;
    if *supports.cuts != CutGrain::Any {
        strategy.cuts = cuts::left_out(&problem.facts, strategy.cuts.len());
    }
    let most = strategy.cuts.iter().copied().max().unwrap_or(0) as usize;
    let modes = dice.pick(&[supports.checkpoint.as_slice(), &supports.checkpoint[..1]]);
    let whole = CheckpointEntry::Whole(dice.pick(modes));
    let first = CheckpointEntry::First(dice.below(most + 1) as u32);
    let is_partial = *supports.checkpoint_grain != CheckpointGrain::All && dice.below(2) == 0;
    let entry = if is_partial { first } else { whole };
    strategy.checkpoint = strategy.cuts.iter().map(|&blocks| entry.over(blocks)).collect();
    let plain = strategy.clone();
    let together = dice.below(2) == 0;
    for category in supports.offloads() {
        let is_chosen = if *supports.offload_together { together } else { dice.below(3) == 0 };
        let fraction = if *supports.offload_together { 1.0 } else { dice.pick(&FRACTIONS) };
        if is_chosen {
            *strategy.offload.fractions_mut(category) = vec![fraction; strategy.pipeline as usize];
        }
    }
    strategy.normalise(&problem.facts);
    if !rules::legal(strategy, &problem.facts) {
        *strategy = plain;
        strategy.normalise(&problem.facts);
    }
}

/// Of random inner choices that just fit, how far the lower bound is below the exact bound: shares, the least first.
fn shares(config: &str, engine_name: &str, seed: u64) -> Vec<f64> {
    let model = model::from_text(config, "the test", "small").unwrap();
    let cluster = cluster::load("2x8xh100-sxm").unwrap();
    let workload =
        Workload { global_batch: 32, seq_len: 1024, precision: ElementType::Bf16, dropout: 0.0, clip: 1.0 };
    let problem = Problem::new(&model, &cluster, workload, engine(engine_name).unwrap(), None);
    let request = Request::default();
    let space = Space::new(&problem, &request);
    let (bounding, closed_forms) = (Bounding::new(&space), ClosedForms::new(&problem));
    let mut dice = Dice(seed);
    let mut shares = Vec::new();
    while shares.len() < 2_000 {
        let task = &space.tasks[dice.below(space.tasks.len())];
        let pass_choice = dice.pick(&space.pass_choices(task));
        let mut outer = space.outer(task, &pass_choice);
        let states = space.states(task, &pass_choice).0;
        if states.is_empty() || !space.is_legal(&outer) {
            continue;
        }
        let state = dice.pick(states);
        state.apply(&mut outer);
        let strategy = inner(&outer, &problem, &mut dice);
        if strategy.zero != outer.zero {
            // A stage that shards nothing, and without offload is none: the strategy is that of another state.
            continue;
        }
        let closed = closed_forms.close(&strategy);
        // It just fits.
        let limited = Problem { memory_limit: closed.memory.process, ..problem.clone() };
        let shape = bounding.shaped(&outer);
        let rules = StateRules::new(&outer, &workload, problem.engine);
        let prices = bounding.prices(&shape, (&rules, outer.pipeline), &bounding.anywhere(&outer));
        let room = Room { device: limited.room(&outer), host: closed.host.0 as f64 };
        let bounds = StrategyBounds { room, ..bounding.strategy_bounds(&outer, &shape) };
        let bound = closed.bound.0;
        // At the prices of its own order, which come second in a search.
        let pricing = problem.pricing(&outer);
        let placed = bounding.shaped_at(&outer, &pricing, bounding.class_costs.links(&pricing));
        let placed_prices = bounding.prices(&placed, (&rules, outer.pipeline), &pricing);
        let placed = StrategyBounds { room, ..bounding.strategy_bounds(&outer, &placed) };
        match placed.of(outer.sync, &rules, &placed_prices, 1.01 * bound) {
            StrategyBound::Seconds(lower_bound) => {
                assert!(lower_bound <= bound * (1.0 + 1e-9), "{lower_bound} > {bound}: {strategy:?}");
                shares.push(lower_bound / bound);
            }
            StrategyBound::OutOfMemory(bytes) => {
                panic!("{bytes} at the least, but {} do: {strategy:?}", closed.memory.process)
            }
        }
        match bounds.of(outer.sync, &rules, &prices, 1.01 * bound) {
            StrategyBound::Seconds(lower_bound) => {
                assert!(lower_bound <= bound * (1.0 + 1e-9), "{lower_bound} > {bound}: {strategy:?}");
                let may = bounds.may_spread(outer.sync, &rules, &prices, bound * (1.0 + 1e-9));
                assert!(may, "{bound} s is said to be too little: {strategy:?}");
                let fits = bounds.may_spread(outer.sync, &rules, &prices, f64::INFINITY);
                assert!(fits, "{room:?} is said to be too little: {strategy:?}");
            }
            StrategyBound::OutOfMemory(bytes) => {
                panic!("{bytes} at the least, but {} do: {strategy:?}", closed.memory.process)
            }
        }
    }
    shares.sort_by(f64::total_cmp);
    shares
}

#[test]
fn floors_hold_for_every_inner_choice() {
    let mut nearest = Vec::new();
    for (place, config) in [LEADING_DENSE, ALTERNATING, ALIKE].into_iter().enumerate() {
        for engine in ["embedded", "torchtitan"] {
            let shares = shares(config, engine, 77 + place as u64);
            nearest.push(shares[shares.len() * 9 / 10]);
        }
    }
    // A lower bound that is only ever far below would prove nothing.
    assert!(nearest.iter().all(|share| *share > 0.8), "{nearest:?}");
}

#[test]
fn floors_hold_for_the_best_inner_choice_where_memory_binds() {
    let mut nearest = Vec::new();
    let mut cases: HashMap<Schedule, u32> = HashMap::new();
    let mut dice = Dice(4711);
    for (config, gibs) in [(LEADING_DENSE, [4, 6]), (ALTERNATING, [5, 7]), (ALIKE, [4, 6]), (WIDE, [16, 32])]
    {
        for (engine_name, gib) in
            ["embedded", "deepspeed"].into_iter().flat_map(|name| gibs.map(|gib| (name, gib)))
        {
            let model = model::from_text(config, "the test", "small").unwrap();
            let cluster = cluster::load("2x8xh100-sxm").unwrap();
            let workload = Workload {
                global_batch: 64,
                seq_len: 4096,
                precision: ElementType::Bf16,
                dropout: 0.0,
                clip: 1.0,
            };
            let limit = Some(Bytes(gib << 30));
            let problem = Problem::new(&model, &cluster, workload, engine(engine_name).unwrap(), limit);
            let request = Request::default();
            let space = Space::new(&problem, &request);
            let (bounding, closed_forms) = (Bounding::new(&space), ClosedForms::new(&problem));
            let solving = Solving::new(&bounding, &closed_forms);
            for _ in 0..700 {
                let index = dice.below(space.tasks.len());
                let task = &space.tasks[index];
                let pass_choice = dice.pick(&space.pass_choices(task));
                let mut outer = space.outer(task, &pass_choice);
                let states = space.states(task, &pass_choice).0;
                // One rank leaves little to get wrong.
                let is_dull = outer.pipeline == 1 && dice.below(10) > 0;
                if states.is_empty() || is_dull || !space.is_legal(&outer) {
                    continue;
                }
                let state = dice.pick(states);
                state.apply(&mut outer);
                let order = outer.order;
                let entry =
                    Entry { lower_bound: 0.0, step: 0.0, place: 0, task: index, pass_choice, state, order };
                let Some(solved) = solving.solve(&entry, f64::INFINITY) else { continue };
                let bound = solved.closed.bound.0;
                assert!(
                    solved.lower_bound <= bound * (1.0 + 1e-9),
                    "{} > {bound}: {:?}",
                    solved.lower_bound,
                    solved.strategy
                );
                for _ in 0..4 {
                    let other = inner(&outer, &problem, &mut dice);
                    if !rules::legal(&other, &problem.facts) {
                        continue;
                    }
                    let closed = closed_forms.close(&other);
                    let is_slower = solved.lower_bound <= closed.bound.0 * (1.0 + 1e-9);
                    assert!(
                        !closed_forms.fits(&closed) || is_slower,
                        "{} > {closed:?}: {other:?}",
                        solved.lower_bound
                    );
                }
                let shape = bounding.shaped(&outer);
                let rules = StateRules::new(&outer, &workload, problem.engine);
                let prices = bounding.prices(&shape, (&rules, outer.pipeline), &bounding.anywhere(&outer));
                let bounds = bounding.strategy_bounds(&outer, &shape);
                let strategy = &solved.strategy;
                match bounds.of(outer.sync, &rules, &prices, 1.01 * bound) {
                    StrategyBound::Seconds(lower_bound) => {
                        assert!(lower_bound <= bound * (1.0 + 1e-9), "{lower_bound} > {bound}: {strategy:?}");
                        let may = bounds.may_spread(outer.sync, &rules, &prices, bound * (1.0 + 1e-9));
                        assert!(may, "{bound} s is said to be too little: {strategy:?}");
                        let mut modes = strategy.checkpoint.iter().flat_map(Checkpoint::modes);
                        let memory_binds =
                            !strategy.offload.is_none() || modes.any(|mode| mode != CheckpointMode::None);
                        if memory_binds {
                            nearest.push(lower_bound / bound);
                            *cases.entry(strategy.schedule).or_default() += 1;
                        }
                    }
                    StrategyBound::OutOfMemory(bytes) => panic!("{bytes} at the least: {strategy:?}"),
                }
            }
        }
    }
    nearest.sort_by(f64::total_cmp);
    assert!(Schedule::ALL.iter().all(|schedule| cases.get(schedule) > Some(&40)), "{cases:?}");
    assert!(nearest[nearest.len() * 9 / 10] > 0.85, "{:?}", nearest[nearest.len() * 9 / 10]);
}

/// Of engines that recompute the first blocks of each chunk, a random choice that just fits is not ruled out where a
/// rank has several chunks: something that ends as early is found, and nothing is said to end later in any case.
#[test]
fn first_blocks_of_several_chunks_are_not_ruled_out() {
    let (mut dice, mut partial) = (Dice(90), 0);
    for config in [ALIKE, WIDE, LEADING_DENSE] {
        for engine_name in ["megatron", "nemo", "colossalai", "embedded"] {
            let model = model::from_text(config, "the test", "small").unwrap();
            let cluster = cluster::load("1x8xh100-sxm").unwrap();
            let workload = Workload {
                global_batch: 32,
                seq_len: 4096,
                precision: ElementType::Bf16,
                dropout: 0.0,
                clip: 1.0,
            };
            let problem = Problem::new(&model, &cluster, workload, engine(engine_name).unwrap(), None);
            let (request, closed_forms) = (Request::default(), ClosedForms::new(&problem));
            let space = Space::new(&problem, &request);
            let mut tried = 0;
            while tried < 80 {
                let index = dice.below(space.tasks.len());
                let task = &space.tasks[index];
                let pass_choice = dice.pick(&space.pass_choices(task));
                let states = space.states(task, &pass_choice).0;
                let mut outer = space.outer(task, &pass_choice);
                if pass_choice.schedule.1 == 1 || states.is_empty() || !space.is_legal(&outer) {
                    continue;
                }
                let state = dice.pick(states);
                state.apply(&mut outer);
                let mut other = inner(&outer, &problem, &mut dice);
                alike(&mut other, &problem, &mut dice);
                if !rules::legal(&other, &problem.facts) || other.zero != outer.zero {
                    continue;
                }
                tried += 1;
                let closed = closed_forms.close(&other);
                let limited = Problem { memory_limit: closed.memory.process, ..problem.clone() };
                let space = Space::new(&limited, &request);
                let (bounding, closed_forms) = (Bounding::new(&space), ClosedForms::new(&limited));
                let order = outer.order;
                let entry =
                    Entry { lower_bound: 0.0, step: 0.0, place: 0, task: index, pass_choice, state, order };
                let limit = closed.bound.0 * (1.0 + 1e-9);
                let solved = Solving::new(&bounding, &closed_forms).solve(&entry, limit);
                let lower = solved.map(|solved| solved.lower_bound);
                assert!(lower.is_some_and(|lower| lower <= limit), "{lower:?} {closed:?} {other:?}");
                let is_first = |checkpoint: &Checkpoint| {
                    let mut modes = checkpoint.modes();
                    let first = modes.next();
                    modes.any(|mode| Some(mode) != first)
                };
                partial += u32::from(other.checkpoint.iter().any(is_first));
            }
        }
    }
    assert!(partial > 60, "{partial}");
}

/// Whether a rank holds what `moment` says, at one and the same instant.
fn holds(moment: Moment, instants: &[Instant]) -> bool {
    let at = |pass: Option<Pass>| {
        instants
            .iter()
            .filter(move |instant| pass.is_none() || instant.action.map(|this| this.0) == pass)
            .any(|instant| {
                let kept = instant.held.iter().enumerate().map(|(chunk, held)| {
                    let under_way = instant.action == Some((Pass::Forward, chunk as u32));
                    u64::from(held.0) + u64::from(under_way)
                });
                let waiting = || instant.held.iter().map(|held| u64::from(held.1));
                kept.sum::<u64>() >= moment.kept
                    && waiting().sum::<u64>() >= moment.waiting.0
                    && waiting().min() >= Some(moment.waiting.1)
            })
    };
    if moment.runs { at(Some(Pass::Forward)) && at(Some(Pass::Backward)) } else { at(None) }
}

#[test]
fn ranks_hold_what_the_floors_say() {
    for &schedule in Schedule::ALL {
        let chunks = match schedule {
            Schedule::Interleaved => 3,
            Schedule::ZeroBubbleV => 2,
            _ => 1,
        };
        for (ranks, micro) in (1..=9).flat_map(|ranks| (1..=30).map(move |micro| (ranks, micro))) {
            let pipeline = Pipeline { ranks, chunks, micro, schedule, send: 0.0, sends_within: false };
            for rank in 0..ranks {
                let instants = instants_of(schedule, ranks, rank, micro, chunks);
                let (fullest, waiting) = pipeline.moments(rank);
                for moment in [Some(fullest), waiting].into_iter().flatten() {
                    let case = format!("{schedule:?} {ranks} {micro} {rank}: {moment:?}");
                    assert!(holds(moment, &instants), "{case}, not in {instants:?}");
                }
            }
        }
    }
}

#[test]
fn no_micro_batch_takes_less_for_each_sequence_than_a_very_large_one() {
    let mut nearest: Vec<f64> = Vec::new();
    let clusters = ["2x8xh100-sxm", "4x8xa100-sxm-80gb", "2x8xv100-sxm-32gb"];
    for (place, config) in [LEADING_DENSE, ALTERNATING, ALIKE].into_iter().enumerate() {
        for (engine, cluster) in engines().iter().zip(clusters.into_iter().cycle().skip(place)) {
            let model = model::from_text(config, "the test", "small").unwrap();
            let cluster = cluster::load(cluster).unwrap();
            let workload = Workload {
                global_batch: 48,
                seq_len: 1024,
                precision: ElementType::Bf16,
                dropout: 0.1,
                clip: 1.0,
            };
            let problem = Problem::new(&model, &cluster, workload, engine, None);
            let request = Request::default();
            let space = Space::new(&problem, &request);
            let bounding = Bounding::new(&space);
            let mut dice = Dice(5 + place as u64);
            for _ in 0..400 {
                let task = &space.tasks[dice.below(space.tasks.len())];
                let legal = |pass_choice: &PassChoice| space.is_legal(&space.outer(task, pass_choice));
                let pass_choices: Vec<_> = space.pass_choices(task).into_iter().filter(legal).collect();
                if pass_choices.is_empty() {
                    continue;
                }
                let pass_choice = dice.pick(&pass_choices);
                let outer = space.outer(task, &pass_choice);
                let shape = bounding.shaped(&outer);
                let passes = bounding
                    .strategy_bounds(&outer, &shape)
                    .pipeline
                    .lower_bound(&shape.load, More::default());
                let large_batch = bounding.large_batch(task, &pass_choice, &outer);
                let who = (&engine.name, &problem.cluster.name);
                assert!(large_batch <= passes, "{large_batch} > {passes}: {who:?} {outer:?}");
                nearest.push(large_batch / passes);
            }
        }
    }
    nearest.sort_by(f64::total_cmp);
    assert!(nearest[nearest.len() - 1] > 0.95, "{:?}", nearest.last());
}

#[test]
fn states_that_are_like_have_one_program() {
    let cluster = cluster::load("2x8xh100-sxm").unwrap();
    let workload =
        Workload { global_batch: 32, seq_len: 1024, precision: ElementType::Bf16, dropout: 0.0, clip: 1.0 };
    let mut dice = Dice(2_718);
    let mut compared = 0;
    for (config, engine) in [LEADING_DENSE, ALIKE]
        .into_iter()
        .flat_map(|config| engines().iter().map(move |engine| (config, engine)))
    {
        let model = model::from_text(config, "the test", "small").unwrap();
        let problem = Problem::new(&model, &cluster, workload, engine, None);
        let request = Request::default();
        let space = Space::new(&problem, &request);
        let closed_forms = ClosedForms::new(&problem);
        // Not every engine has experts.
        for _ in 0..if space.tasks.is_empty() { 0 } else { 60 } {
            let task = &space.tasks[dice.below(space.tasks.len())];
            let choices = space.pass_choices(task);
            let Some(pass_choice) = (!choices.is_empty()).then(|| dice.pick(&choices)) else { continue };
            let outer = space.outer(task, &pass_choice);
            if !space.is_legal(&outer) {
                continue;
            }
            let mut known: Vec<(DistinctRules, Strategy)> = Vec::new();
            for state in space.states(task, &pass_choice).0 {
                let mut strategy = outer.clone();
                state.apply(&mut strategy);
                let rules = StateRules::new(&strategy, &workload, engine);
                let mut strategy = inner(&strategy, &problem, &mut Dice(compared));
                // What one of them may keep on the host, another may not.
                strategy.offload.fractions_mut(OffloadCategory::Parameters).clear();
                strategy.normalise(&problem.facts);
                let distinct = rules.distinct(state.sync);
                let Some((_, like)) = known.iter().find(|(known, _)| *known == distinct) else {
                    known.push((distinct, strategy));
                    continue;
                };
                compared += 1;
                let other = Strategy {
                    cuts: like.cuts.clone(),
                    checkpoint: like.checkpoint.clone(),
                    offload: like.offload.clone(),
                    ..strategy
                };
                let [one, other] =
                    [like, &other].map(|strategy| closed_forms.play(strategy.clone()).unwrap());
                let memory = |candidate: &Candidate| -> Vec<_> {
                    candidate.playback.ranks.iter().map(|rank| rank.memory).collect()
                };
                let seconds = [&one, &other].map(|candidate| candidate.playback.step_time.0);
                let about = (seconds[0] - seconds[1]).abs() <= 1e-9 * seconds[0];
                assert!(about && memory(&one) == memory(&other), "{:?} {:?}", one.strategy, other.strategy);
            }
        }
    }
    assert!(compared > 500, "{compared}");
}
