//! More ZeRO, checkpointing or offload never takes more: state bytes fall, and the played peak rises by no more
//! than the buffers that these declare. And how many micro-batches a played pipeline holds.

mod sampling;

use meshwright::lower::Category;
use meshwright::lower::unit::{UnitKind, graph, lower, units};
use meshwright::lower::{LoweredUnit, Shape};
use meshwright::model;
use meshwright::profile::choices::CheckpointMode;
use meshwright::profile::engines::engine;
use meshwright::program::{Cause, Pass, Program, RankProgram, build};
use meshwright::simulate::peak;
use meshwright::strategy::{Draft, Workload, resolve};
use meshwright::units::ElementType;
use proptest::prelude::*;
use sampling::{Case, cases};

/// The program of `case` with `key` set to `value`, if that is legal.
fn with(case: &Case, key: &str, value: &str) -> Option<Program> {
    let others = case.text.split(',').filter(|part| !part.is_empty() && part.split('=').next() != Some(key));
    let text = others.chain([format!("{key}={value}").as_str()]).collect::<Vec<_>>().join(",");
    let draft = Draft::parse(&text).ok()?;
    let strategy = resolve(&draft, &case.model, case.devices, &case.workload, case.engine).ok()?;
    Some(build(&case.model, &strategy, &case.workload, case.engine))
}

/// Device bytes of parameters, gradients and optimizer state.
fn state(rank: &RankProgram) -> u64 {
    [Category::Parameters, Category::Gradients, Category::Optimizer]
        .into_iter()
        .map(|category| rank.persistent_bytes(category).0)
        .sum()
}

/// The played peak without what ZeRO and offload declare: gathered and fetched parameters, unit gradients and
/// reduction buckets.
fn peak_without_buffers(rank: &RankProgram) -> u64 {
    let mut rank = rank.clone();
    rank.persistent.retain(|state| state.holds.category() != Category::Buffers);
    for buffer in rank.frames.iter_mut().flat_map(|frame| &mut frame.buffers) {
        if ["gathered parameters", "fetched parameters", "unit gradient"].contains(&buffer.name) {
            buffer.bytes.0 = 0;
        }
    }
    peak(&rank).total.0
}

/// Bytes of what the recomputation of one unit makes again, of the unit with the most.
fn recomputed(rank: &RankProgram) -> u64 {
    let mut most = 0;
    for template in &rank.templates {
        let mut units = std::collections::HashMap::new();
        for one in template.instructions.iter().filter(|one| one.cause == Cause::Recompute) {
            let buffers = &rank.frames[template.frame as usize].buffers;
            let bytes: u64 = one.allocates.iter().map(|&buffer| buffers[buffer as usize].bytes.0).sum();
            *units.entry(one.unit).or_insert(0) += bytes;
        }
        most = units.into_values().fold(most, u64::max);
    }
    most
}

/// Plays the values of `key` from less to more and hands each neighbouring pair of ranks to `check`.
fn compare(
    seed: u64,
    count: usize,
    key: &str,
    values: &[&str],
    check: impl Fn(&RankProgram, &RankProgram, &str),
) {
    let mut pairs = 0;
    for (seed, case) in cases(seed, count) {
        let programs = values.iter().filter_map(|value| with(&case, key, value).map(|built| (value, built)));
        let programs: Vec<_> = programs.collect();
        for pair in programs.windows(2) {
            let ((less, before), (more, after)) = (&pair[0], &pair[1]);
            for (before, after) in before.ranks.iter().zip(&after.ranks) {
                let context = format!(
                    "seed {seed}, {key} from {less} to {more}, rank {}, {}, {}",
                    before.stage, case.text, case.engine.name
                );
                check(before, after, &context);
                pairs += 1;
            }
        }
    }
    assert!(pairs > count / 2, "only {pairs} pairs");
}

#[test]
fn zero_never_takes_more() {
    compare(400_000, 600, "zero", &["0", "1", "2", "3"], |before, after, context| {
        assert!(state(after) <= state(before), "{context}: {} to {}", state(before), state(after));
        let peak = peak(before).total.0;
        assert!(
            peak_without_buffers(after) <= peak,
            "{context}: {} over {peak}",
            peak_without_buffers(after)
        );
    });
}

#[test]
fn offload_never_takes_more() {
    let values = ["none", "optimizer:0.5", "optimizer:1", "optimizer:1+params:0.5", "optimizer:1+params:1"];
    let check = |before: &RankProgram, after: &RankProgram, context: &str| {
        assert!(state(after) <= state(before), "{context}");
        assert!(peak_without_buffers(after) <= peak(before).total.0, "{context}");
    };
    compare(410_000, 400, "offload", &values, check);
    compare(420_000, 400, "offload", &["none", "activations:0.5", "activations:1"], check);
}

#[test]
fn checkpointing_never_takes_more() {
    compare(430_000, 600, "ckpt", &["none", "full:1", "full"], |before, after, context| {
        assert_eq!(state(after), state(before), "{context}");
        let (less, more) = (peak(after).total.0, peak(before).total.0);
        assert!(less <= more + recomputed(after), "{context}: {more} to {less}");
    });
}

#[test]
fn what_a_block_keeps_shrinks_from_none_to_selective_to_full() {
    for (seed, case) in cases(440_000, 600) {
        if !["embedded", "megatron"].contains(&case.engine.name.as_str()) {
            continue;
        }
        let shape = Shape::new(&case.strategy, &case.workload, case.engine);
        for unit in units(&case.model).iter().filter(|unit| matches!(unit.kind, UnitKind::Block(_))) {
            let graph = graph(&case.model, unit, shape);
            let kept = |mode| LoweredUnit::kept_bytes(&lower(&graph, shape, mode, true));
            // From the mode that recomputes least to the one that recomputes most.
            let all: Vec<_> = CheckpointMode::ALL.iter().map(|&mode| kept(mode)).collect();
            assert!(all.is_sorted_by(|less, more| less >= more), "seed {seed}, {}: {all:?}", case.text);
        }
    }
}

/// The most chunks of micro-batches that each rank of a built program holds, counted from its calls.
fn in_flight(schedule: &str, pipeline: u64, chunks: u64, micro: u64) -> Vec<u64> {
    let config = format!(
        r#"{{"model_type":"gpt2","n_embd":32,"n_layer":{},"n_head":4,"n_positions":64,"vocab_size":128,
            "activation_function":"gelu_new"}}"#,
        pipeline * chunks
    );
    let model = model::from_text(&config, "config.json", "even").expect("the configuration is legal");
    let workload =
        Workload { global_batch: micro, seq_len: 16, precision: ElementType::Bf16, dropout: 0.0, clip: 0.0 };
    let engine = engine("embedded").expect("built in");
    let text = format!("pp={pipeline},sched={schedule},virtual={chunks}");
    let draft = Draft::parse(&text).expect("the text is legal");
    let strategy = resolve(&draft, &model, pipeline, &workload, engine).expect("the strategy is legal");
    let program = build(&model, &strategy, &workload, engine);
    let held = |rank: &RankProgram| {
        let (mut held, mut most) = (0_u64, 0);
        for call in &rank.calls {
            match rank.templates[call.template as usize].pass {
                Some(Pass::Forward) => held += 1,
                Some(Pass::Backward) => held -= 1,
                _ => {}
            }
            most = most.max(held);
        }
        most
    };
    program.ranks.iter().map(held).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pipelines_hold_what_the_papers_say(pipeline in 2_u64..7, chunks in 2_u64..4, micro in 1_u64..14, rounds in 1_u64..4) {
        for (rank, held) in in_flight("1f1b", pipeline, 1, micro).into_iter().enumerate() {
            prop_assert_eq!(held, (pipeline - rank as u64).min(micro));
        }
        let micro = rounds * pipeline;
        for (rank, held) in in_flight("interleaved", pipeline, chunks, micro).into_iter().enumerate() {
            let ahead = 2 * (pipeline - rank as u64 - 1) + (chunks - 1) * pipeline;
            prop_assert_eq!(held, (ahead + 1).min(micro * chunks));
        }
    }

    /// Where the pipeline does not divide the micro-batches, the interleaved schedule warms up in full.
    #[test]
    fn ragged_interleaving_holds_everything(pipeline in 2_u64..5, chunks in 2_u64..4, micro in 1_u64..12) {
        prop_assume!(!micro.is_multiple_of(pipeline));
        for held in in_flight("interleaved", pipeline, chunks, micro) {
            prop_assert_eq!(held, micro * chunks);
        }
    }
}
