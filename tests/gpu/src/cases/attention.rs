//! Attention, forward and backward, against whole matrices of probabilities in f64.

mod reference;
mod setup;
mod softmax;

use self::reference::{Dropout, Tensors, Trial};
use self::setup::Setup;
use super::operands::{BOTH, Outcome, Stored};
use crate::launch::attention;
use crate::{Case, Gpu};

pub const CASES: &[Case] = &[
    Case {
        name: "tensor cores, one tile",
        run: |gpu| check(gpu, Stored::Bf16, trial(1, [1, 1], [64, 64], 64)),
    },
    Case {
        name: "tensor cores, heads of 64",
        run: |gpu| check(gpu, Stored::Bf16, trial(2, [2, 1], [64, 64], 131)),
    },
    Case {
        name: "tensor cores, heads of 128",
        run: |gpu| check(gpu, Stored::Bf16, trial(1, [2, 2], [128, 128], 150)),
    },
    Case { name: "tensor cores, not causal", run: full },
    Case { name: "one token", run: one_token },
    Case { name: "large tiles of queries", run: large_tiles },
    Case { name: "soft cap", run: soft_cap },
    Case { name: "linear biases", run: linear_biases },
    Case { name: "window", run: window },
    Case { name: "dropout", run: dropout },
    Case { name: "positions", run: positions },
    Case { name: "ring", run: ring },
    Case { name: "f32", run: |gpu| check(gpu, Stored::F32, trial(2, [4, 2], [64, 64], 37)) },
    Case { name: "heads of other sizes", run: other_sizes },
    Case { name: "softmax of whole rows", run: whole_rows },
    Case { name: "softmax with features", run: rows_with_features },
];

const DROPOUT: Dropout = Dropout {
    rate: 0.3,
    seed: 0x1234_5678_9abc,
    step: 17,
    site: 5,
    first_sequence: 3,
    first_head: 1,
    heads: 4,
    tokens: 128,
};

/// Causal attention of a sequence to itself.
fn trial(batch: usize, heads: [usize; 2], dims: [usize; 2], tokens: u32) -> Trial {
    Trial {
        batch,
        heads: heads[0],
        kv_heads: heads[1],
        query_dim: dims[0],
        value_dim: dims[1],
        query_positions: (0..tokens).collect(),
        key_positions: (0..tokens).collect(),
        causal: true,
        window: None,
        // Greater than usual, so that probabilities differ much.
        scale: 3.0 / (dims[0] as f64).sqrt(),
        soft_cap: None,
        alibi: None,
        dropout: None,
    }
}

/// Both storage types, with and without tensor cores.
fn everywhere(gpu: &mut Gpu, change: impl Fn(&mut Trial)) -> Outcome {
    for (stored, dims, tokens) in [
        (Stored::Bf16, [64, 64], 70),
        (Stored::Bf16, [128, 128], 67),
        (Stored::Bf16, [24, 24], 19),
        (Stored::F32, [16, 16], 35),
    ] {
        let mut trial = trial(1, [2, 1], dims, tokens);
        change(&mut trial);
        check(gpu, stored, trial)?;
    }
    Ok(())
}

fn full(gpu: &mut Gpu) -> Outcome {
    let mut trial = trial(1, [2, 1], [128, 128], 66);
    trial.causal = false;
    trial.key_positions = (0..75).collect();
    check(gpu, Stored::Bf16, trial.clone())?;
    check(gpu, Stored::Bf16, Trial { query_dim: 64, value_dim: 64, ..trial.clone() })?;
    check(gpu, Stored::F32, Trial { query_dim: 40, value_dim: 40, ..trial })
}

/// Its gradients of queries and keys are zero, so that only sums have a relative error.
fn one_token(gpu: &mut Gpu) -> Outcome {
    for (stored, trial) in
        [(Stored::Bf16, trial(1, [1, 1], [64, 64], 1)), (Stored::F32, trial(3, [2, 1], [8, 8], 1))]
    {
        let mut setup = Setup::new(gpu, stored, trial);
        setup.forward(gpu, false)?;
        let expected = setup.trial.forward(&setup.tensors);
        setup.compare_forward(gpu, &expected)?;
        setup.backward(gpu, &expected, true)?;
    }
    Ok(())
}

/// The forward tiles that a device may be tuned to.
fn large_tiles(gpu: &mut Gpu) -> Outcome {
    for (dim, blocks, keys) in [(128, 2, 32), (64, 1, 64), (64, 2, 64)] {
        let trial = trial(1, [1, 1], [dim, dim], 150);
        let tile = attention::Tile { warps: 4, blocks, keys };
        let mut setup = Setup::new(gpu, Stored::Bf16, trial);
        let launched = attention::forward_with(&setup.shape, tile);
        setup.forward_by(gpu, launched, false)?;
        setup.compare_forward(gpu, &setup.trial.forward(&setup.tensors))?;
    }
    Ok(())
}

fn soft_cap(gpu: &mut Gpu) -> Outcome {
    everywhere(gpu, |trial| trial.soft_cap = Some(1.5))
}

fn linear_biases(gpu: &mut Gpu) -> Outcome {
    everywhere(gpu, |trial| trial.alibi = Some((4, 6)))?;
    everywhere(gpu, |trial| (trial.alibi, trial.soft_cap, trial.causal) = (Some((1, 4)), Some(2.0), false))
}

fn window(gpu: &mut Gpu) -> Outcome {
    everywhere(gpu, |trial| trial.window = Some(9))?;
    everywhere(gpu, |trial| (trial.window, trial.causal) = (Some(30), false))
}

fn dropout(gpu: &mut Gpu) -> Outcome {
    everywhere(gpu, |trial| trial.dropout = Some(DROPOUT))?;
    everywhere(gpu, |trial| {
        (trial.dropout, trial.alibi, trial.soft_cap) = (Some(DROPOUT), Some((1, 4)), Some(2.0));
    })
}

/// Parts of a sequence, in order and not; some queries see no key at all.
fn positions(gpu: &mut Gpu) -> Outcome {
    everywhere(gpu, |trial| {
        let tokens = trial.tokens() as u32;
        trial.query_positions =
            (0..tokens).map(|token| if token < tokens / 2 { token } else { token + 90 }).collect();
        trial.key_positions = (20..20 + tokens).collect();
    })?;
    everywhere(gpu, |trial| {
        let tokens = trial.tokens() as u32;
        trial.query_positions = (0..tokens).map(|token| token * 7 % tokens).collect();
        trial.key_positions = (0..tokens).rev().collect();
    })
}

fn other_sizes(gpu: &mut Gpu) -> Outcome {
    for (stored, dims) in [
        (Stored::F32, [5, 7]),
        (Stored::F32, [256, 256]),
        (Stored::Bf16, [80, 80]),
        (Stored::Bf16, [192, 128]),
        (Stored::F32, [1, 3]),
    ] {
        check(gpu, stored, trial(1, [2, 2], dims, 21))?;
    }
    // Tensor cores do heads of different sizes, too.
    check(gpu, Stored::Bf16, trial(1, [1, 1], [128, 64], 67))
}

/// Keys and values of two ranks, one after the other.
fn ring(gpu: &mut Gpu) -> Outcome {
    for (stored, dim) in [(Stored::Bf16, 64), (Stored::Bf16, 128), (Stored::F32, 24)] {
        let mut whole = trial(1, [2, 1], [dim, dim], 50);
        whole.query_positions = (0..25).chain(75..100).collect();
        let first = Trial { key_positions: (25..75).collect(), ..whole.clone() };
        whole.key_positions = (25..75).chain(75..125).collect();
        let second = Trial { key_positions: (75..125).collect(), ..whole.clone() };
        let mut first = Setup::new(gpu, stored, first);
        let mut second = Setup::new(gpu, stored, second);
        second.take_queries(&first);
        first.forward(gpu, false)?;
        second.forward(gpu, true)?;
        let both = Tensors {
            queries: first.tensors.queries.clone(),
            keys: [&first.tensors.keys[..], &second.tensors.keys].concat(),
            values: [&first.tensors.values[..], &second.tensors.values].concat(),
        };
        let expected = whole.forward(&both);
        second.compare_forward(gpu, &expected)?;
        first.backward(gpu, &expected, false)?;
        second.backward(gpu, &expected, true)?;
    }
    Ok(())
}

/// Rows of one key, of more keys than a warp takes at a time, of more than a block; aligned and not.
fn whole_rows(gpu: &mut Gpu) -> Outcome {
    for stored in BOTH {
        softmax::check(gpu, stored, trial(2, [2, 1], [8, 8], 37))?;
        softmax::check(gpu, stored, trial(1, [1, 1], [8, 8], 1))?;
        for (queries, keys) in [(3, 256), (2, 300), (2, 2048 + 8), (2, 2048 + 300)] {
            let mut trial = trial(1, [2, 2], [8, 8], keys);
            trial.query_positions = (keys - queries..keys).collect();
            softmax::check(gpu, stored, trial.clone())?;
            softmax::check(gpu, stored, Trial { causal: false, ..trial })?;
        }
    }
    Ok(())
}

fn rows_with_features(gpu: &mut Gpu) -> Outcome {
    for stored in BOTH {
        // Sizes of heads that other cases have too: less to compile.
        let dim = if stored == Stored::Bf16 { 24 } else { 16 };
        let plain = || trial(2, [4, 2], [dim, dim], 43);
        for window in [Some(9), None] {
            softmax::check(gpu, stored, Trial { window, soft_cap: Some(1.5), ..plain() })?;
            softmax::check(gpu, stored, Trial { window, alibi: Some((1, 5)), ..plain() })?;
            softmax::check(gpu, stored, Trial { window, dropout: Some(DROPOUT), ..plain() })?;
            let all = Trial {
                soft_cap: Some(2.0),
                alibi: Some((1, 4)),
                dropout: Some(DROPOUT),
                causal: false,
                ..plain()
            };
            softmax::check(gpu, stored, Trial { window, ..all })?;
        }
        // Parts of a sequence, not in order; some queries see no key.
        let mut parts = plain();
        parts.query_positions = (0..43).map(|token| token * 7 % 43).collect();
        parts.key_positions = (10..53).rev().collect();
        softmax::check(gpu, stored, parts)?;
    }
    Ok(())
}

fn check(gpu: &mut Gpu, stored: Stored, trial: Trial) -> Outcome {
    let mut setup = Setup::new(gpu, stored, trial);
    setup.forward(gpu, false)?;
    let expected = setup.trial.forward(&setup.tensors);
    setup.compare_forward(gpu, &expected)?;
    setup.backward(gpu, &expected, false)?;
    setup.backward(gpu, &expected, true)
}
