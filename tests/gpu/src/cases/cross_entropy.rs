//! Cross-entropy over shards of a vocabulary against f64 over all of it.

use super::operands::{BOTH, Outcome, Stored, Tensor, close_f64, run};
use crate::compare::Random;
use crate::launch::cross_entropy::{self, STATISTICS};
use crate::{Argument, Buffer, Case, Gpu};

pub const CASES: &[Case] = &[
    Case { name: "one shard", run: one_shard },
    Case { name: "shards with padding", run: shards },
    Case { name: "large and infinite logits", run: large },
    Case { name: "loss of many rows", run: many_rows },
];

/// A part of the vocabulary on one rank.
struct Shard {
    width: usize,
    first: usize,
    words: usize,
    logits: Tensor,
}

impl Shard {
    /// Columns of all logits, padded with what must not count.
    fn cut(
        gpu: &mut Gpu,
        stored: Stored,
        all: &[f32],
        vocabulary: usize,
        [first, words, width]: [usize; 3],
    ) -> Self {
        let rows = all.chunks(vocabulary);
        let padding = vec![f32::NAN; width - words];
        let values: Vec<f32> =
            rows.flat_map(|row| [&row[first..first + words], &padding[..]].concat()).collect();
        Self { width, first, words, logits: stored.upload(gpu, &values) }
    }

    fn sizes(&self) -> [Argument; 3] {
        [self.width, self.first, self.words].map(|size| Argument::U32(size as u32))
    }
}

/// Loss, and gradient times `scale`, of all logits.
fn exact(logits: &[f64], vocabulary: usize, targets: &[u32], scale: f64) -> (f64, Vec<f64>) {
    let (mut loss, mut gradient) = (0.0, Vec::new());
    for (row, &target) in logits.chunks(vocabulary).zip(targets) {
        let greatest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (x - greatest).exp()).sum();
        loss += sum.ln() + greatest - row[target as usize];
        gradient.extend(row.iter().enumerate().map(|(word, x)| {
            scale * ((x - greatest).exp() / sum - f64::from(u8::from(word == target as usize)))
        }));
    }
    (loss, gradient)
}

/// From the logits of all words, cut into `shards` of (first, words, width).
fn compare(
    gpu: &mut Gpu,
    stored: Stored,
    all: &[f32],
    vocabulary: usize,
    targets: &[u32],
    shards: &[[usize; 3]],
) -> Outcome {
    let rows = targets.len();
    let source = cross_entropy::source(stored.types());
    let rounded: Vec<f64> = all.iter().map(|&x| f64::from(stored.round(x))).collect();
    let scale = 0.25;
    let (loss, gradient) = exact(&rounded, vocabulary, targets, scale);
    let list = gpu.upload(targets);
    let size = rows * STATISTICS as usize;
    let gathered: Buffer = gpu.uninitialised::<f32>(shards.len() * size);
    let cut: Vec<Shard> =
        shards.iter().map(|&shard| Shard::cut(gpu, stored, all, vocabulary, shard)).collect();
    for (place, shard) in cut.iter().enumerate() {
        let to = Argument::Part(gathered, (place * size * 4) as u64);
        let arguments = [&[shard.logits.argument(), Argument::Buffer(list), to][..], &shard.sizes()].concat();
        let launch = cross_entropy::forward(rows as u32, shard.width as u32);
        run(gpu, &source, &launch, &arguments)?;
    }
    let merged = gpu.uninitialised::<f32>(size);
    let counts = [rows, shards.len()].map(|count| Argument::U32(count as u32));
    let arguments = [&[Argument::Buffer(gathered), Argument::Buffer(merged)][..], &counts].concat();
    run(gpu, &source, &cross_entropy::merge(rows as u32), &arguments)?;
    let total = gpu.upload(&[1.5f64]);
    let arguments = [Argument::Buffer(merged), Argument::Buffer(total), Argument::U32(rows as u32)];
    run(gpu, &source, &cross_entropy::loss(), &arguments)?;
    let found = gpu.download::<f64>(total);
    close_f64(&format!("loss in {stored:?}"), &found, &[1.5 + loss], 1e-5)?;
    for shard in &cut {
        let read = [shard.logits.argument(), Argument::Buffer(list), Argument::Buffer(merged)];
        let arguments = [&read[..], &shard.sizes(), &[Argument::F32(scale as f32)]].concat();
        let launch = cross_entropy::gradient(rows as u32, shard.width as u32);
        run(gpu, &source, &launch, &arguments)?;
        let mut expected = Vec::new();
        for row in gradient.chunks(vocabulary) {
            expected.extend_from_slice(&row[shard.first..shard.first + shard.words]);
            expected.extend(vec![0.0; shard.width - shard.words]);
        }
        let what = format!("gradient from word {} on", shard.first);
        stored.close(gpu, &what, shard.logits.buffer, &expected, shard.width)?;
    }
    Ok(())
}

fn logits(random: &mut Random, count: usize, spread: f32) -> Vec<f32> {
    random.values(count).iter().map(|x| x * spread).collect()
}

fn one_shard(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(1);
    for (stored, vocabulary) in
        BOTH.into_iter().flat_map(|stored| [2, 37, 264, 5003].map(|size| (stored, size)))
    {
        let all = logits(&mut random, 3 * vocabulary, 5.0);
        let targets = [0, vocabulary as u32 - 1, vocabulary as u32 / 2];
        compare(gpu, stored, &all, vocabulary, &targets, &[[0, vocabulary, vocabulary]])?;
    }
    Ok(())
}

fn shards(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(2);
    for stored in BOTH {
        let all = logits(&mut random, 4 * 37, 5.0);
        // The last shard is padding alone.
        let cuts = [[0, 16, 16], [16, 16, 16], [32, 5, 16], [37, 0, 16]];
        compare(gpu, stored, &all, 37, &[0, 36, 20, 7], &cuts)?;
        let all = logits(&mut random, 4 * 901, 5.0);
        compare(gpu, stored, &all, 901, &[900, 449, 450, 0], &[[0, 450, 455], [450, 451, 455]])?;
    }
    Ok(())
}

fn large(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(3);
    for stored in BOTH {
        let mut all: Vec<f32> = logits(&mut random, 3 * 300, 200.0);
        // Words that are ruled out, whole runs of them too.
        all[..40].fill(f32::NEG_INFINITY);
        all[300..460].fill(f32::NEG_INFINITY);
        let targets = [50, 299, 120];
        compare(gpu, stored, &all, 300, &targets, &[[0, 300, 300]])?;
        compare(gpu, stored, &all, 300, &targets, &[[0, 150, 150], [150, 150, 152]])?;
    }
    Ok(())
}

fn many_rows(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(4);
    // Logits are small: where one word's probability p is near 1, 1 − p has no digits left in f32.
    let all = logits(&mut random, 1500 * 5, 2.0);
    let targets: Vec<u32> = (0..1500).map(|row| row % 5).collect();
    compare(gpu, Stored::F32, &all, 5, &targets, &[[0, 5, 5]])
}
