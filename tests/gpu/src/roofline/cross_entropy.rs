//! Cross-entropy over one shard that has the whole vocabulary.

use super::operands::{Operands, sizes};
use super::{Entry, Least, Size, Work};
use crate::launch::cross_entropy::{self, STATISTICS};
use crate::launch::runs::Types;
use crate::{Argument, Gpu};

/// Shards whose statistics are merged.
const SHARDS: u32 = 4;

pub fn entries(size: Size) -> Vec<Entry> {
    let [rows, words] = size.of([16, 32_000], [2048, 128_256]);
    let tokens = size.of(4096, 16_384);
    vec![
        Entry::new(format!("{rows} × {words}"), move |gpu| forward(gpu, rows, words)),
        Entry::new(format!("{SHARDS} shards of {tokens}"), move |gpu| merge(gpu, tokens)),
        Entry::new(format!("{tokens}"), move |gpu| loss(gpu, tokens)),
        Entry::new(format!("{rows} × {words}"), move |gpu| gradient(gpu, rows, words)),
    ]
}

/// Bytes of the statistics of `rows` rows.
fn statistics(rows: u32) -> u64 {
    4 * u64::from(rows) * u64::from(STATISTICS)
}

/// Logits and targets.
fn logits(operands: &mut Operands, rows: u32, words: u32) -> [Argument; 2] {
    let logits = operands.bf16(u64::from(rows) * u64::from(words));
    [logits, operands.u32((0..rows).map(|row| row * 17 % words))]
}

fn forward(gpu: &mut Gpu, rows: u32, words: u32) -> Work {
    let mut operands = Operands::new(gpu);
    let read = logits(&mut operands, rows, words);
    let written = operands.f32_result(statistics(rows) / 4);
    let [of_rows, all] = [u64::from(rows), u64::from(rows) * u64::from(words)];
    Work {
        source: cross_entropy::source(Types::Bf16),
        launch: cross_entropy::forward(rows, words),
        arguments: [&read[..], &[written], &sizes([words, 0, words])].concat(),
        least: Least::of_bytes(2 * all + 4 * of_rows, statistics(rows)),
    }
}

fn merge(gpu: &mut Gpu, rows: u32) -> Work {
    let mut operands = Operands::new(gpu);
    let shards = operands.positive(u64::from(SHARDS) * statistics(rows) / 4);
    let merged = operands.f32_result(statistics(rows) / 4);
    Work {
        source: cross_entropy::source(Types::Bf16),
        launch: cross_entropy::merge(rows),
        arguments: [&[shards, merged][..], &sizes([rows, SHARDS])].concat(),
        least: Least::of_bytes(u64::from(SHARDS) * statistics(rows), statistics(rows)),
    }
}

/// Adds to a number of the step.
fn loss(gpu: &mut Gpu, rows: u32) -> Work {
    let mut operands = Operands::new(gpu);
    let arguments = vec![operands.positive(statistics(rows) / 4), operands.f64(&[0.0]), Argument::U32(rows)];
    let least = Least::of_bytes(statistics(rows) + 8, 8);
    Work { source: cross_entropy::source(Types::Bf16), launch: cross_entropy::loss(), arguments, least }
}

/// In place of the logits. Of the statistics, the target's logit is not needed.
fn gradient(gpu: &mut Gpu, rows: u32, words: u32) -> Work {
    let mut operands = Operands::new(gpu);
    let read = logits(&mut operands, rows, words);
    let statistics = operands.positive(statistics(rows) / 4);
    let [of_rows, all] = [u64::from(rows), u64::from(rows) * u64::from(words)];
    Work {
        source: cross_entropy::source(Types::Bf16),
        launch: cross_entropy::gradient(rows, words),
        arguments: [&read[..], &[statistics], &sizes([words, 0, words]), &[Argument::F32(1.0)]].concat(),
        least: Least::of_bytes(2 * all + (4 + 2 * 4) * of_rows, 2 * all),
    }
}
