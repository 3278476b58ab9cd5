//! What is wrong is found: memory of another size than its users need, a rank that fails while others wait.

use std::collections::BTreeSet;

use meshwright::execute::data::{Synthetic, Tokens};
use meshwright::execute::error::ExecuteError;
use meshwright::execute::run::{Job, Run, Settings};
use meshwright::execute::weights::Weights;
use meshwright::model::Model;
use meshwright::ops::Op;
use meshwright::profile::engines::engine;
use meshwright::program::instruction::{Holds, Program};
use meshwright::units::Bytes;

use crate::models;
use crate::strategies::{strategy, workload};
use crate::training::train_run;

/// Two ranks of `model` whose program was `changed`: whether they train.
fn train(model: &Model, text: &str, change: impl Fn(&mut Program)) -> Result<(), ExecuteError> {
    let workload = workload(1.0, 0.0);
    let strategy = strategy(model, text, 2, &workload).unwrap();
    let job = Job { model: model.clone(), strategy, workload, engine: engine("embedded").unwrap() };
    let mut run = Run::new(job, Settings { cores: 1, ..Settings::default() }).unwrap();
    change(&mut run.program);
    let tokens = Tokens::Synthetic(Synthetic::new(7, 61).unwrap());
    train_run::<f64, f64>(run, tokens, &Weights::random(model, 3), 1).map(|_| ())
}

/// The names of all buffers that passes allocate.
fn names(model: &Model, text: &str) -> BTreeSet<&'static str> {
    let names = std::cell::RefCell::new(BTreeSet::new());
    let look = |program: &mut Program| {
        for rank in &program.ranks {
            for template in &rank.templates {
                let buffers = &rank.frames[template.frame as usize].buffers;
                let allocated = template.instructions.iter().flat_map(|instruction| &instruction.allocates);
                names.borrow_mut().extend(allocated.map(|&id| buffers[id as usize].name));
            }
        }
    };
    train(model, text, look).unwrap();
    names.into_inner()
}

#[test]
fn a_wrong_size_is_found_and_ends_the_run() {
    let mut silent = Vec::new();
    let mut all = 0;
    for (model, text) in [
        (models::llama(), "dp=2,micro=1,zero=2"),
        (models::llama(), "dp=2,micro=1,zero=3"),
        (models::gpt2(), "tp=2,micro=2"),
        (models::gpt2(), "pp=2,micro=2"),
        (models::llama(), "cp=2,micro=2"),
        (models::mixtral(), "dp=2,micro=1,ep=2,capacity=full"),
    ] {
        for name in names(&model, text) {
            for change in [-8, 8] {
                let error = train(&model, text, |program| {
                    let frames = program.ranks.iter_mut().flat_map(|rank| &mut rank.frames);
                    for buffer in frames.flat_map(|frame| &mut frame.buffers).filter(|one| one.name == name) {
                        buffer.bytes = Bytes(buffer.bytes.0.saturating_add_signed(change));
                    }
                });
                all += 1;
                if error.is_ok() {
                    silent.push(format!("{text}: {name} with {change} bytes"));
                }
            }
        }
    }
    assert!(
        silent.is_empty(),
        "{} of {all} wrong sizes train as if nothing were wrong: {silent:#?}",
        silent.len()
    );
}

#[test]
fn state_of_a_wrong_size_is_refused() {
    let model = models::llama();
    for (text, kept) in [
        ("dp=2,micro=1,zero=0", Holds::Gradients),
        ("dp=2,micro=1,zero=2", Holds::GradientShards),
        ("dp=2,micro=1,zero=2,offload=params:1", Holds::Parameters),
        ("dp=2,micro=1,zero=3", Holds::Parameters),
    ] {
        for unit in [0, 1, 5] {
            for change in [None, Some(-8), Some(8)] {
                let error = train(&model, text, |program| {
                    for state in &mut program.ranks[0].persistent {
                        if (state.holds, state.unit) == (kept, Some(unit)) {
                            for bytes in [&mut state.device.0, &mut state.host.0] {
                                *bytes = change.map_or(0, |change| bytes.saturating_add_signed(change));
                            }
                        }
                    }
                });
                let is_it = matches!(&error, Err(ExecuteError::State { unit: at, holds, .. })
                    if (*holds, *at) == (kept, unit));
                assert!(is_it, "{text}: {kept:?} of unit {unit} with {change:?} bytes: {error:?}");
            }
        }
    }
}

#[test]
fn an_op_of_another_size_than_its_calls_is_refused() {
    let grow = |op: &mut Op| match op {
        Op::Linear(op) => op.rows += 1,
        Op::Norm(op) => op.width += 1,
        Op::Attention(op) => op.heads += 1,
        Op::CrossEntropy(op) => op.columns += 1,
        Op::Embedding(op) => op.rows += 1,
        Op::Elementwise(op) => op.elements += 1,
        Op::AdamW(op) => op.elements += 1,
        Op::Collective(op) => op.bytes.0 += 8,
        Op::Send(bytes) | Op::Receive(bytes) | Op::CopyOut(bytes) | Op::CopyIn(bytes) => bytes.0 += 8,
        _ => {}
    };
    for (text, name) in [
        ("dp=2,micro=1", "linear"),
        ("dp=2,micro=1", "norm"),
        ("dp=2,micro=1", "attention"),
        ("tp=2,micro=2", "cross-entropy"),
        ("pp=2,micro=2", "send"),
        ("pp=2,micro=2", "receive"),
        ("dp=2,micro=1", "embedding"),
        ("dp=2,micro=1", "residual"),
        ("dp=2,micro=1", "activation"),
        ("dp=2,micro=1", "activation backward"),
        ("dp=2,micro=1,zero=1", "adamw"),
        ("dp=2,micro=1,zero=2", "reduce-scatter"),
        ("dp=2,micro=1,zero=3", "all-gather"),
        ("dp=2,micro=1,zero=3,offload=params:1", "copy in"),
        ("dp=2,micro=1,zero=1,offload=optimizer:1", "copy out"),
    ] {
        let error = train(&models::llama(), text, |program| {
            let templates = program.ranks.iter_mut().flat_map(|rank| &mut rank.templates);
            let ops = templates.flat_map(|template| &mut template.instructions).map(|one| &mut one.op);
            ops.filter(|op| op.name() == name).for_each(grow);
        });
        assert!(matches!(&error, Err(ExecuteError::Shape { op, .. }) if *op == name), "{name}: {error:?}");
    }
}
