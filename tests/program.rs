//! Step programs of random models under random strategies: they verify, and playing them adds up.

mod sampling;

use meshwright::cost::{DevicePricing, Price, Pricing};
use meshwright::lower::{Category, Stream};
use meshwright::model;
use meshwright::ops::{CollectiveKind, CorePass, Op};
use meshwright::profile::engines::engine;
use meshwright::program::GradientBuffer::{InParameters, Shard, Unit, Whole};
use meshwright::program::gradients::{GradientLife, lives};
use meshwright::program::instruction::{Instruction, Task};
use meshwright::program::{Cause, Layout, build, verify::verify};
use meshwright::simulate::{Below, play, play_below, play_every_instruction};
use meshwright::strategy::{Draft, Facts, Strategy, Workload, resolve, rules};
use meshwright::units::{Bytes, ElementType, Seconds};
use proptest::prelude::*;
use sampling::cases;

#[test]
fn programs_of_random_strategies_verify() {
    for (seed, case) in cases(0, 1500) {
        let program = build(&case.model, &case.strategy, &case.workload, case.engine);
        if let Err(fault) = verify(&program) {
            panic!("seed {seed}, {} on {} devices, {}: {fault}", case.text, case.devices, case.engine.name);
        }
    }
}

#[test]
fn no_gradient_is_reduced_before_it_is_computed() {
    for (seed, case) in cases(10_000, 300) {
        let program = build(&case.model, &case.strategy, &case.workload, case.engine);
        let passes = program.ranks.iter().flat_map(|rank| &rank.templates).filter(|one| one.pass.is_some());
        for one in passes.flat_map(|template| &template.instructions) {
            let reduces = matches!(one.op, Op::Collective(collective)
                if one.stream == Stream::Data && collective.kind != CollectiveKind::AllGather);
            assert!(
                !reduces || !one.behind.is_empty() || !one.waits.is_empty(),
                "seed {seed}, {}: {one:?}",
                case.text
            );
        }
    }
}

/// What is said of gradients is what memory is taken for, and what every unit's kernels write to.
#[test]
fn gradients_live_where_memory_is_taken_for_them() {
    for (seed, case) in cases(20_000, 300) {
        let layout = Layout::new(&case.model, &case.strategy, &case.workload, case.engine);
        let program = build(&case.model, &case.strategy, &case.workload, case.engine);
        for rank in &program.ranks {
            let name = format!("seed {seed}, {}, {}, stage {}", case.text, case.engine.name, rank.stage);
            let lives = lives(rank, &layout.lenders());
            let kept = lives.iter().filter(|life| matches!(life.buffer, Whole | Shard));
            let told: Bytes = kept.map(|life| life.bytes).sum();
            let adds = |one: &&Instruction| matches!(one.task, Task::Kernel { adds_gradient: true, .. });
            let instructions = || rank.templates.iter().flat_map(|template| &template.instructions);
            assert_eq!(told, rank.persistent_bytes(Category::Gradients), "{name}");
            let step = rank.calls.len() as u32 - 1;
            for life in &lives {
                let during = life.during;
                assert!(during.first <= during.last && during.last <= step, "{name}: {life:?}");
                match life.buffer {
                    // From the first backward to the optimizer, and but once.
                    Whole | Shard | InParameters => {
                        assert_eq!((during.last, during.times), (step, 1), "{name}")
                    }
                    // One pass allocates it and frees it.
                    Unit => assert!(during.last < step && during.times > 0, "{name}: {life:?}"),
                    _ => {}
                }
            }
            for unit in instructions().filter(adds).filter_map(|one| one.unit) {
                let is_kept = |life: &&GradientLife| matches!(life.buffer, Whole | Shard | InParameters);
                let lends = layout.lenders().into_iter().find(|(borrower, _)| *borrower == unit);
                let owns = |life: &GradientLife| {
                    life.unit == Some(unit) || lends.is_some_and(|(_, lender)| life.unit == Some(lender))
                };
                assert!(lives.iter().filter(is_kept).any(owns), "{name}: unit {unit}");
            }
        }
    }
}

/// Attention cores take a second forward and two backward; everything else is free.
struct CoresOnly;

impl Pricing for CoresOnly {
    fn price(&self, op: &Op, _stage: u32) -> Price {
        match op {
            Op::Attention(core) if core.pass == CorePass::Forward => Price::alone(Seconds(1.0)),
            Op::Attention(_) => Price::alone(Seconds(2.0)),
            _ => Price::default(),
        }
    }

    fn send(&self, _bytes: Bytes, _from: u32, _to: u32) -> Price {
        Price::default()
    }
}

/// The bubble of a pipeline of equal stages and free communication, as a share of the ideal step.
fn bubble(schedule: &str, pipeline: u64, chunks: u64, micro: u64, blocks_a_chunk: u64) -> f64 {
    let layers = pipeline * chunks * blocks_a_chunk;
    let config = format!(
        r#"{{"model_type":"gpt2","n_embd":32,"n_layer":{layers},"n_head":4,"n_positions":64,"vocab_size":128,
            "activation_function":"gelu_new"}}"#
    );
    let model = model::from_text(&config, "config.json", "even").expect("the configuration is legal");
    let workload =
        Workload { global_batch: micro, seq_len: 16, precision: ElementType::Bf16, dropout: 0.0, clip: 0.0 };
    let engine = engine("embedded").expect("built in");
    let text = format!("pp={pipeline},sched={schedule},virtual={chunks}");
    let draft = Draft::parse(&text).expect("the text is legal");
    let strategy = resolve(&draft, &model, pipeline, &workload, engine).expect("the strategy is legal");
    let playback = play(&build(&model, &strategy, &workload, engine), &CoresOnly);
    let ideal = (micro * chunks * blocks_a_chunk * 3) as f64;
    for rank in &playback.ranks {
        assert!((rank.causes.of(Cause::Compute).0 - ideal).abs() < 1e-9);
        assert!((rank.causes.total().0 - rank.end.0).abs() < 1e-9);
    }
    (playback.step_time.0 - ideal) / ideal
}

proptest! {
    #[test]
    fn bubbles_are_what_the_papers_say(pipeline in 2_u64..7, chunks in 2_u64..4, rounds in 1_u64..4, micro in 1_u64..12, blocks in 1_u64..3) {
        let one = bubble("1f1b", pipeline, 1, micro, blocks);
        prop_assert!((one - (pipeline - 1) as f64 / micro as f64).abs() < 1e-9);
        let micro = rounds * pipeline;
        let interleaved = bubble("interleaved", pipeline, chunks, micro, blocks);
        prop_assert!((interleaved - (pipeline - 1) as f64 / (chunks * micro) as f64).abs() < 1e-9);
    }
}

#[test]
fn causes_sum_to_the_step_of_every_rank() {
    let cluster = meshwright::cluster::load("2x8xh100-sxm").expect("built in");
    for (seed, case) in cases(50_000, 400) {
        let program = build(&case.model, &case.strategy, &case.workload, case.engine);
        let pricing = DevicePricing::new(&cluster, case.engine, &case.strategy, case.workload.compute_type());
        let playback = play(&program, &pricing);
        for rank in &playback.ranks {
            let (sum, end) = (rank.causes.total().0, rank.end.0);
            assert!(end > 0.0 && (sum - end).abs() < 1e-9 * end, "seed {seed}, {}: {sum} {end}", case.text);
            assert_eq!(
                rank.spans.len(),
                program.ranks[rank.stage as usize].calls.len(),
                "seed {seed}, {}",
                case.text
            );
            assert_eq!(rank.memory.categories.iter().copied().sum::<Bytes>(), rank.memory.total);
        }
    }
}

/// Many micro-batches, so that steps have a steady state: moved on by whole periods, they end as if played through.
#[test]
fn periods_of_a_steady_state_that_are_not_played_give_what_every_instruction_gives() {
    let cluster = meshwright::cluster::load("2x8xh100-sxm").expect("built in");
    let mut long = 0;
    for (seed, case) in cases(75_000, 600) {
        let workload = Workload { global_batch: 24 * case.workload.global_batch, ..case.workload };
        let strategy = Strategy { accumulation: 24 * case.strategy.accumulation, ..case.strategy.clone() };
        if !rules::legal(&strategy, &Facts::new(&case.model, case.devices, &workload, case.engine)) {
            continue;
        }
        let program = build(&case.model, &strategy, &workload, case.engine);
        let pricing = DevicePricing::new(&cluster, case.engine, &strategy, workload.compute_type());
        let (whole, single) = (play(&program, &pricing), play_every_instruction(&program, &pricing));
        let all = single.step_time.0;
        let near = |one: Seconds, other: Seconds| (one.0 - other.0).abs() <= 1e-9 * all;
        for (whole, single) in whole.ranks.iter().zip(&single.ranks) {
            assert!(
                near(whole.end, single.end),
                "seed {seed}, {}: {:?} {:?}",
                case.text,
                whole.end,
                single.end
            );
            assert_eq!(whole.spans.len(), single.spans.len(), "seed {seed}, {}", case.text);
            for (one, other) in whole.spans.iter().zip(&single.spans) {
                let same = (one.micro, one.pass, one.chunk) == (other.micro, other.pass, other.chunk);
                assert!(same && near(one.end, other.end), "seed {seed}, {}: {one:?} {other:?}", case.text);
            }
            assert!(near(whole.causes.total(), single.causes.total()), "seed {seed}, {}", case.text);
            assert!(near(whole.causes.bubble, single.causes.bubble), "seed {seed}, {}", case.text);
        }
        let below = play_below(&program, &pricing, Seconds(1.01 * all));
        assert!(matches!(below, Below::Played(playback) if playback == whole), "seed {seed}, {}", case.text);
        long += u32::from(strategy.accumulation >= 24);
    }
    assert!(long > 200, "{long}");
}

#[test]
fn quiet_passes_counted_whole_give_what_every_instruction_gives() {
    let cluster = meshwright::cluster::load("2x8xh100-sxm").expect("built in");
    for (seed, case) in cases(70_000, 600) {
        let program = build(&case.model, &case.strategy, &case.workload, case.engine);
        let pricing = DevicePricing::new(&cluster, case.engine, &case.strategy, case.workload.compute_type());
        let (whole, single) = (play(&program, &pricing), play_every_instruction(&program, &pricing));
        for (whole, single) in whole.ranks.iter().zip(&single.ranks) {
            let near = |one: Seconds, other: Seconds| (one.0 - other.0).abs() <= 1e-9 * single.end.0;
            assert!(
                near(whole.end, single.end),
                "seed {seed}, {}: {} {}",
                case.text,
                whole.end.0,
                single.end.0
            );
            let (one, other) = (&whole.causes, &single.causes);
            assert!(
                near(one.of(Cause::Compute), other.of(Cause::Compute)) && near(one.bubble, other.bubble),
                "seed {seed}, {}: {one:?} {other:?}",
                case.text
            );
        }
    }
}
