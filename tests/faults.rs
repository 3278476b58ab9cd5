//! The verifier finds what is broken in a program, and a wrong buffer size does not go unnoticed.

use meshwright::cost::DevicePricing;
use meshwright::cost::instants::instants;
use meshwright::cost::known_chunks::KnownChunks;
use meshwright::cost::ledger::Ledger;
use meshwright::cost::unit_cost::UnitCosts;
use meshwright::model;
use meshwright::ops::Op;
use meshwright::profile::engines::engine;
use meshwright::program::build::build_on;
use meshwright::program::fault::{Fault, Place};
use meshwright::program::state::StateRules;
use meshwright::program::verify::verify;
use meshwright::program::{Instruction, Layout, Program};
use meshwright::simulate::peak;
use meshwright::strategy::{Draft, Workload, resolve};
use meshwright::units::{Bytes, ElementType};

const CONFIG: &str = r#"{"model_type":"llama","hidden_size":64,"num_hidden_layers":4,"num_attention_heads":4,
    "num_key_value_heads":4,"intermediate_size":128,"max_position_embeddings":64,"vocab_size":1024,
    "hidden_act":"silu","tie_word_embeddings":false}"#;

/// A sound program of two ranks, and the peak of each in closed form.
fn sound() -> (Program, Vec<Bytes>) {
    let model = model::from_text(CONFIG, "config.json", "sound").expect("the configuration is legal");
    let engine = engine("embedded").expect("built in");
    let workload =
        Workload { global_batch: 4, seq_len: 16, precision: ElementType::Bf16, dropout: 0.0, clip: 1.0 };
    let draft = Draft::parse("pp=2,sched=1f1b").expect("the text is legal");
    let strategy = resolve(&draft, &model, 2, &workload, engine).expect("the strategy is legal");
    let layout = Layout::new(&model, &strategy, &workload, engine);
    let cluster = meshwright::cluster::load("1x2xh100-sxm").expect("built in");
    let pricing = DevicePricing::new(&cluster, engine, &strategy, workload.compute_type());
    let rules = StateRules::new(&strategy, &workload, engine);
    let costs = UnitCosts::digested(layout.shaped(), &rules, engine, &pricing);
    let ledger = Ledger {
        layout: &layout,
        costs: &costs,
        strategy: &strategy,
        engine,
        rules: &rules,
        known: &KnownChunks::default(),
    };
    let named =
        instants(strategy.schedule, strategy.pipeline, strategy.accumulation, strategy.virtual_stages);
    let program = build_on(&layout, &strategy, &workload, engine);
    let peaks = (0..2).map(|stage| ledger.peak(stage, &named[stage as usize])).collect();
    (program, peaks)
}

/// The fault that `breaking` brings.
fn fault(breaking: impl FnOnce(&mut Program)) -> Fault {
    let (mut program, _) = sound();
    assert_eq!(verify(&program), Ok(()));
    breaking(&mut program);
    verify(&program).expect_err("the program is broken")
}

/// The first instruction of `rank` that `is` says.
fn first(program: &mut Program, rank: usize, is: impl Fn(&Instruction) -> bool) -> &mut Instruction {
    let templates = &mut program.ranks[rank].templates;
    let found = templates.iter_mut().flat_map(|template| &mut template.instructions).find(|one| is(one));
    found.expect("the program has one")
}

/// Makes an instruction a release that keeps its buffers.
fn mute(instruction: &mut Instruction) {
    instruction.op = Op::Release;
    instruction.message = None;
}

#[test]
fn a_message_that_nobody_receives() {
    let fault = fault(|program| mute(first(program, 1, |one| matches!(one.op, Op::Receive(_)))));
    assert!(matches!(fault, Fault::Unreceived { rank: 0, .. }), "{fault}");
}

#[test]
fn a_message_sent_twice() {
    let fault = fault(|program| {
        let sent = first(program, 0, |one| matches!(one.op, Op::Send(_))).message;
        let op = first(program, 0, |one| one.message.is_none() && one.frees.is_empty());
        (op.op, op.message) = (Op::Send(Bytes(1)), sent);
    });
    assert!(matches!(fault, Fault::Unreceived { rank: 0, .. }), "{fault}");
}

#[test]
fn a_message_that_nobody_sends() {
    let fault = fault(|program| mute(first(program, 0, |one| matches!(one.op, Op::Send(_)))));
    assert!(matches!(fault, Fault::Unsent { rank: 1, .. }), "{fault}");
}

#[test]
fn a_wait_for_what_comes_later() {
    let fault = fault(|program| program.ranks[0].templates[0].instructions[2].waits.push(2));
    assert!(
        matches!(fault, Fault::WaitsForward { at: Place { rank: 0, index: 2, .. }, waits: 2 }),
        "{fault}"
    );
}

#[test]
fn a_buffer_freed_early() {
    let fault = fault(|program| {
        let list = &mut program.ranks[0].templates[0].instructions;
        let (place, buffer) = list
            .iter()
            .enumerate()
            .find_map(|(place, one)| one.frees.first().map(|&buffer| (place, buffer)))
            .expect("something is freed");
        list[place].frees.retain(|other| *other != buffer);
        let allocated = list.iter().position(|one| one.allocates.contains(&buffer)).expect("a local buffer");
        list[allocated].frees.push(buffer);
    });
    assert!(matches!(fault, Fault::Buffer { what: "used while it is not allocated", .. }), "{fault}");
}

#[test]
fn a_buffer_freed_twice() {
    let fault = fault(|program| {
        let freeing = first(program, 0, |one| !one.frees.is_empty());
        let buffer = freeing.frees[0];
        freeing.frees.push(buffer);
    });
    assert!(matches!(fault, Fault::Buffer { what: "freed while it is not allocated", .. }), "{fault}");
}

#[test]
fn a_buffer_allocated_twice() {
    let fault = fault(|program| {
        let allocating = first(program, 0, |one| !one.allocates.is_empty());
        let buffer = allocating.allocates[0];
        allocating.allocates.push(buffer);
    });
    assert!(matches!(fault, Fault::Buffer { what: "allocated twice", .. }), "{fault}");
}

#[test]
fn a_sent_buffer_that_was_freed_already() {
    let fault = fault(|program| {
        let sent = program.ranks[0].templates[0].sent[0];
        first(program, 0, |one| matches!(one.op, Op::Send(_))).frees.push(sent);
    });
    // What takes memory next need not wait for the send.
    assert!(matches!(fault, Fault::Unordered { .. }), "{fault}");
}

#[test]
fn a_buffer_never_freed() {
    let fault = fault(|program| first(program, 1, |one| !one.frees.is_empty()).frees.clear());
    assert!(matches!(fault, Fault::Leak { rank: 1, .. }), "{fault}");
}

#[test]
fn ranks_that_wait_for_each_other() {
    // The last rank starts with the last micro-batch, for which the first rank needs the gradient of another.
    let fault = fault(|program| {
        let calls = &mut program.ranks[1].calls;
        let last = calls.iter().map(|call| call.micro).max().expect("four");
        calls.sort_by_key(|call| call.micro != last);
    });
    assert!(matches!(fault, Fault::Deadlock { .. }), "{fault}");
}

#[test]
fn a_wrong_buffer_size_changes_the_peak() {
    let (program, peaks) = sound();
    for (stage, closed) in peaks.into_iter().enumerate() {
        let mut rank = program.ranks[stage].clone();
        let played = peak(&rank);
        assert_eq!(played.total, closed);
        let template = &rank.templates[rank.calls[played.call].template as usize];
        let buffer = template.instructions[played.instruction].allocates[0] as usize;
        let frame = template.frame as usize;
        rank.frames[frame].buffers[buffer].bytes.0 += Bytes::ALIGNMENT;
        assert_ne!(peak(&rank).total, closed, "one line more in {}", rank.frames[frame].buffers[buffer].name);
    }
}
