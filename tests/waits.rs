//! The waits of a program are enough, none of them is idle, and links carry no more than they can.

mod sampling;

use meshwright::cost::DevicePricing;
use meshwright::lower::Stream;
use meshwright::ops::Op;
use meshwright::profile::choices::OffloadCategory;
use meshwright::profile::engines::engine;
use meshwright::program::fault::Fault;
use meshwright::program::instruction::{Instruction, Streams};
use meshwright::program::verify::verify;
use meshwright::program::{RankProgram, build};
use meshwright::search::Problem;
use meshwright::search::closed_forms::ClosedForms;
use meshwright::simulate::{Below, play};
use meshwright::strategy::{Draft, Strategy, Workload, resolve};
use meshwright::units::{Bytes, BytesPerSecond, ElementType, Seconds};
use sampling::{Case, cases};

/// What a wait is for: an instruction of the same template, or all of a stream that earlier calls have issued.
#[derive(Clone, Copy, Debug)]
enum Wait {
    For(u32),
    Behind(usize),
}

/// How many instructions of each stream.
type Counts = [u32; Stream::ALL.len()];

/// Whether the other waits of `rank` put what `wait` names before instruction `index` of template `template` wherever it
/// is called, counted apart from the verifier: every instruction has the set of all that are done before it, by stream.
fn is_implied(rank: &RankProgram, (template, index): (usize, usize), wait: Wait) -> bool {
    let mut issued = Counts::default();
    let mut done: [Vec<Counts>; Stream::ALL.len()] = Default::default();
    for call in &rank.calls {
        let earlier = issued;
        let mut here: Vec<(usize, u32)> = Vec::new();
        for (place, one) in rank.templates[call.template as usize].instructions.iter().enumerate() {
            let own = one.stream as usize;
            let mut before = Counts::default();
            let mut follow = |stream: usize, count: u32| {
                if count > 0 {
                    let behind = done[stream][count as usize - 1];
                    before.iter_mut().zip(behind).for_each(|(before, behind)| *before = behind.max(*before));
                    before[stream] = before[stream].max(count);
                }
            };
            follow(own, issued[own]);
            one.waits.iter().for_each(|&wait| follow(here[wait as usize].0, here[wait as usize].1));
            one.behind.numbers().for_each(|stream| follow(stream, earlier[stream]));
            if (call.template as usize, place) == (template, index) {
                let (stream, count) = match wait {
                    Wait::For(other) => here[other as usize],
                    Wait::Behind(stream) => (stream, earlier[stream]),
                };
                if before[stream] < count {
                    return false;
                }
            }
            issued[own] += 1;
            here.push((own, issued[own]));
            done[own].push(before);
        }
    }
    true
}

fn drop_wait(instruction: &mut Instruction, wait: Wait) {
    match wait {
        Wait::For(other) => instruction.waits.retain(|kept| *kept != other),
        Wait::Behind(stream) => instruction.behind = instruction.behind.without(Stream::ALL[stream]),
    }
}

/// The most instructions of a step whose waits are all dropped, one after another.
const MOST_INSTRUCTIONS: usize = 5_000;

#[test]
fn no_wait_can_be_dropped() {
    let (mut red, mut implied) = (0, 0);
    let texts = |case: &Case| case.text.contains("offload") || case.text.contains("tp=2");
    let programs = cases(600_000, 2_000).filter(|(_, case)| texts(case)).filter_map(|(seed, case)| {
        let program = build(&case.model, &case.strategy, &case.workload, case.engine);
        let issued: usize = program.ranks.iter().map(RankProgram::instruction_count).sum();
        (issued <= MOST_INSTRUCTIONS).then_some((seed, case, program))
    });
    for (seed, case, mut program) in programs.take(32) {
        assert_eq!(verify(&program), Ok(()), "seed {seed}, {}", case.text);
        for rank in 0..program.ranks.len() {
            for template in 0..program.ranks[rank].templates.len() {
                for index in 0..program.ranks[rank].templates[template].instructions.len() {
                    let one = program.ranks[rank].templates[template].instructions[index].clone();
                    let waits = one.waits.iter().map(|&wait| Wait::For(wait));
                    for wait in waits.chain(one.behind.numbers().map(Wait::Behind)) {
                        drop_wait(&mut program.ranks[rank].templates[template].instructions[index], wait);
                        if is_implied(&program.ranks[rank], (template, index), wait) {
                            implied += 1;
                        } else {
                            red += 1;
                            let place = format!("rank {rank}, template {template}, instruction {index}");
                            let text = format!("seed {seed}, {}, {}: {place}", case.text, case.engine.name);
                            assert!(verify(&program).is_err(), "{text}: {wait:?} of {one:?} is idle");
                        }
                        program.ranks[rank].templates[template].instructions[index] = one.clone();
                    }
                }
            }
        }
    }
    // A test that dropped next to nothing would say next to nothing.
    assert!(red > 3_000, "{red} dropped, {implied} implied by others");
}

#[test]
fn an_order_that_is_missing_is_told_by_both_ends() {
    let gathers = |one: &Instruction| one.stream == Stream::Data && !one.allocates.is_empty();
    let found = cases(0, 400).find_map(|(_, case)| {
        let program = build(&case.model, &case.strategy, &case.workload, case.engine);
        let list = &program.ranks[0].templates[program.ranks[0].calls[1].template as usize].instructions;
        let gather = list.iter().position(|one| gathers(one) && !one.behind.is_empty())?;
        Some((program, gather))
    });
    let (mut program, gather) = found.expect("some gather parameters");
    let template = program.ranks[0].calls[1].template as usize;
    program.ranks[0].templates[template].instructions[gather].behind = Streams::NONE;
    let fault = verify(&program).expect_err("it takes memory that others may still use");
    assert!(matches!(fault, Fault::Unordered { .. }), "{fault}");
    let text = fault.to_string();
    assert!(text.contains("does not wait for") && text.contains("may take memory"), "{text}");
}

/// Bytes that go out and come in over the host link in a step of `rank`.
fn copied(rank: &RankProgram) -> (Bytes, Bytes) {
    let (mut out, mut back) = (Bytes::ZERO, Bytes::ZERO);
    for issued in rank.issued() {
        match issued.instruction.op {
            Op::CopyOut(bytes) => out += bytes,
            Op::CopyIn(bytes) => back += bytes,
            _ => {}
        }
    }
    (out, back)
}

/// The same strategy with copies beside kernels, or between them.
fn with_overlap(strategy: &Strategy, overlap: bool) -> Strategy {
    Strategy { overlap, ..strategy.clone() }
}

fn moves_something(case: &Case) -> bool {
    !case.strategy.offload.is_none()
}

#[test]
fn links_carry_no_more_than_they_can() {
    let mut cluster = meshwright::cluster::load("2x8xh100-sxm").expect("built in");
    cluster.host_link.bandwidth = BytesPerSecond(1e8);
    let (mut seen, mut bound) = (0, 0);
    for (seed, case) in cases(900_000, 4000).filter(|(_, case)| moves_something(case)).take(600) {
        for overlap in [true, false] {
            let strategy = with_overlap(&case.strategy, overlap);
            let program = build(&case.model, &strategy, &case.workload, case.engine);
            let pricing = DevicePricing::new(&cluster, case.engine, &strategy, case.workload.compute_type());
            let step = play(&program, &pricing).step_time.0;
            for rank in &program.ranks {
                let (out, back) = copied(rank);
                let rate = cluster.host_link.bandwidth;
                let (out, back) = (out.at(rate).0, back.at(rate).0);
                let least = if overlap { out.max(back) } else { out + back };
                assert!(least <= step * (1.0 + 1e-9), "seed {seed}, {}: {least} in {step} s", case.text);
                seen += 1;
                bound += u32::from(least > 0.5 * step);
            }
        }
    }
    // Links that were never busy would prove nothing.
    assert!(seen > 1000 && bound > seen / 10, "{bound} of {seen}");
}

/// The step of the issue that found this: saved activations over a link of 1 GB/s, out and back for four micro-batches.
#[test]
fn activations_leave_before_they_return() {
    let config = r#"{"model_type":"llama","hidden_size":1024,"num_hidden_layers":8,"num_attention_heads":16,
        "num_key_value_heads":16,"intermediate_size":2816,"max_position_embeddings":4096,"vocab_size":32000,
        "hidden_act":"silu","tie_word_embeddings":false}"#;
    let model = meshwright::model::from_text(config, "config.json", "blocks").expect("legal");
    let mut cluster = meshwright::cluster::load("1x1xh100-sxm").expect("built in");
    cluster.host_link.bandwidth = BytesPerSecond(1e9);
    let workload =
        Workload { global_batch: 4, seq_len: 4096, precision: ElementType::Bf16, dropout: 0.0, clip: 1.0 };
    let engine = engine("embedded").expect("built in");
    let played = |overlap: &str| {
        let text = format!("micro=1,accum=4,offload=activations:1,overlap={overlap}");
        let strategy =
            resolve(&Draft::parse(&text).expect("legal"), &model, 1, &workload, engine).expect("legal");
        let program = build(&model, &strategy, &workload, engine);
        let (out, back) = copied(&program.ranks[0]);
        let pricing = DevicePricing::new(&cluster, engine, &strategy, workload.compute_type());
        (play(&program, &pricing).step_time.0, out.at(BytesPerSecond(1e9)).0, back.at(BytesPerSecond(1e9)).0)
    };
    let (serial, out, back) = played("off");
    let (overlapped, ..) = played("on");
    assert!(out > 4.0 && back > 4.0, "{out} {back}");
    assert!(serial > out + back, "{serial} s for {out} + {back} s of copies");
    assert!(overlapped <= serial && overlapped > out.max(back), "{overlapped}, {serial}");
}

#[test]
fn what_overlaps_is_not_slower() {
    let cluster = meshwright::cluster::load("2x8xh100-sxm").expect("built in");
    let mut slow = cluster.clone();
    slow.host_link.bandwidth = BytesPerSecond(1e9);
    let (mut seen, mut slower) = (0, Vec::new());
    for (seed, case) in cases(1_000_000, 12_000).filter(|(_, case)| moves_something(case)).take(1000) {
        let cluster = if seed % 2 == 0 { &cluster } else { &slow };
        let step = |overlap: bool| {
            let strategy = with_overlap(&case.strategy, overlap);
            let pricing = DevicePricing::new(cluster, case.engine, &strategy, case.workload.compute_type());
            play(&build(&case.model, &strategy, &case.workload, case.engine), &pricing).step_time.0
        };
        let (overlapped, serial) = (step(true), step(false));
        seen += 1;
        if overlapped > serial * 1.01 {
            slower.push(format!("seed {seed}, {}, {}: {overlapped} {serial}", case.text, case.engine.name));
        }
    }
    let has =
        |category| cases(1_000_000, 300).any(|(_, case)| case.strategy.offload.fraction(category, 0) > 0.0);
    assert!(has(OffloadCategory::Optimizer) && has(OffloadCategory::Parameters));
    assert!(seen == 1000 && slower.len() <= 10, "{} of {seen}: {slower:#?}", slower.len());
}

#[test]
fn the_search_plays_what_simulate_plays() {
    let cluster = meshwright::cluster::load("2x8xh100-sxm").expect("built in");
    for (seed, case) in cases(1_100_000, 1000) {
        let text = format!("seed {seed}, {} on {}", case.text, case.devices);
        let problem = Problem::new(&case.model, &cluster, case.workload, case.engine, None);
        let (simulated, closed_forms) = (problem.play(case.strategy.clone()), ClosedForms::new(&problem));
        let searched = closed_forms.play(case.strategy.clone()).unwrap();
        assert_eq!(searched.playback, simulated.playback, "{text}");
        assert_eq!(searched.memory, simulated.memory, "{text}");
        // With a limit that is never reached too, as a search plays first.
        let (_, limited, _) = closed_forms.play_below(&case.strategy, Seconds(f64::MAX));
        assert_eq!(limited, Below::Played(simulated.playback), "{text}");
    }
}

/// One inbox a kind of message is enough: no schedule blocks itself, whatever the stages and micro-batches.
#[test]
fn schedules_get_by_with_one_inbox() {
    let engine = engine("embedded").expect("built in");
    let mut verified = 0;
    for (schedule, chunks) in [
        ("gpipe", 1),
        ("1f1b", 1),
        ("interleaved", 2),
        ("interleaved", 3),
        ("zb-h1", 1),
        ("zb-h2", 1),
        ("zb-v", 2),
    ] {
        for stages in 2..=8 {
            let config = format!(
                r#"{{"model_type":"gpt2","n_embd":32,"n_layer":{},"n_head":4,"n_positions":64,"vocab_size":128,
                    "activation_function":"gelu_new"}}"#,
                stages * chunks
            );
            let model = meshwright::model::from_text(&config, "config.json", "pipe").expect("legal");
            for micro in [1, 2, 3, 5, 8, 11, 16, 23] {
                let workload = Workload {
                    global_batch: micro,
                    seq_len: 16,
                    precision: ElementType::Bf16,
                    dropout: 0.0,
                    clip: 0.0,
                };
                let text = format!("pp={stages},sched={schedule},virtual={chunks}");
                let draft = Draft::parse(&text).expect("legal");
                let Ok(strategy) = resolve(&draft, &model, stages, &workload, engine) else { continue };
                let program = build(&model, &strategy, &workload, engine);
                assert!(program.ranks[0].has_inboxes);
                assert_eq!(verify(&program), Ok(()), "{text}, {micro} micro-batches");
                verified += 1;
            }
        }
    }
    assert!(verified > 250, "{verified}");
}
