//! Fits the rates of matrix products and of attention to what such ops took.

use crate::calibrate::fit::non_negative;
use crate::calibrate::observe::median;
use crate::calibrate::samples::Sample;
use crate::cost::cores::tiled;
use crate::execute::kernels::attention::LANES;
use crate::ops::{CorePass, Linear, Op};

/// What one core does in matrix products.
#[derive(Clone, Copy, Debug)]
pub struct Products {
    /// FLOP/s of the inner loop.
    pub rate: f64,
    /// Depth of which a tile costs the arithmetic beside its own: reading and writing sums.
    pub half_depth: f64,
    /// Bytes/s of factors laid out.
    pub packing: f64,
}

/// What one core does in fused attention.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// FLOP/s of its products.
    pub rate: f64,
    /// Seconds of one score beside them.
    pub score: f64,
}

/// FLOPs and outputs of whole tiles, and bytes of both factors.
fn features(op: &Linear, tile: (usize, usize)) -> [f64; 3] {
    let rows = op.rows.next_multiple_of(tile.0 as u64) as f64;
    let columns = op.columns.next_multiple_of(tile.1 as u64) as f64;
    let (batch, depth) = (op.batch as f64, op.depth as f64);
    let bytes = batch * depth * ((op.rows + op.columns) * op.element.size()) as f64;
    [2.0 * batch * rows * columns * depth, 2.0 * batch * rows * columns, bytes]
}

fn linear(sample: &Sample) -> Option<(Linear, f64)> {
    match sample.0 {
        Op::Linear(op) => Some((op, sample.1)),
        _ => None,
    }
}

/// Fits [`Products`] to `samples`, for tiles of rows × columns.
pub fn products(samples: &[Sample], tile: (usize, usize)) -> Products {
    let rows: Vec<_> = samples
        .iter()
        .filter_map(linear)
        .map(|(op, seconds)| (features(&op, tile), seconds, seconds))
        .collect();
    let [flop, output, byte] = non_negative(&rows);
    // What never shows is as fast as anything measured.
    let or = |value: f64, least: f64| if value > 0.0 { value } else { least };
    let flop = or(flop, 1e-13);
    Products { rate: 1.0 / flop, half_depth: output / flop, packing: 1.0 / or(byte, 1e-13) }
}

/// FLOP/s of the inner loop in `samples` of another type, all else as in `known`.
pub fn rate(samples: &[Sample], tile: (usize, usize), known: &Products) -> f64 {
    let rates = samples.iter().filter_map(linear).filter_map(|(op, seconds)| {
        let [flops, outputs, bytes] = features(&op, tile);
        let arithmetic = seconds - bytes / known.packing;
        (arithmetic > 0.0).then(|| (flops + outputs * known.half_depth) / arithmetic)
    });
    median(rates.collect())
}

/// Fits [`Attention`] to the fused cores of `pass` in `samples`.
pub fn attention(samples: &[Sample], pass: CorePass) -> Attention {
    let of_pass = |sample: &Sample| match sample.0 {
        Op::Attention(core) if core.fused && core.pass == pass => Some((core, sample.1)),
        _ => None,
    };
    let rows: Vec<_> = samples
        .iter()
        .filter_map(of_pass)
        .map(|(core, seconds)| {
            let (flops, pairs) = tiled(&core, LANES as u32);
            ([flops.0, pairs], seconds, seconds)
        })
        .collect();
    let [flop, score] = non_negative(&rows);
    Attention { rate: 1.0 / if flop > 0.0 { flop } else { 1e-13 }, score }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::ElementType;

    fn samples(seconds: impl Fn(&Linear) -> f64) -> Vec<Sample> {
        let shapes = [(512, 768, 256), (512, 256, 1024), (256, 1024, 512), (128, 384, 128), (1024, 256, 64)];
        shapes
            .map(|(rows, columns, depth)| {
                let op =
                    Linear { batch: 1, rows, columns, depth, element: ElementType::Fp32, over_tokens: false };
                (Op::Linear(op), seconds(&op))
            })
            .into()
    }

    #[test]
    fn the_rates_that_made_the_times_are_found_again() {
        let made = Products { rate: 2e11, half_depth: 20.0, packing: 5e9 };
        let time = |op: &Linear| {
            let [flops, outputs, bytes] = features(op, (8, 48));
            (flops + outputs * made.half_depth) / made.rate + bytes / made.packing
        };
        let found = products(&samples(time), (8, 48));
        assert!((found.rate / made.rate - 1.0).abs() < 1e-3, "{found:?}");
        assert!((found.half_depth / made.half_depth - 1.0).abs() < 1e-2, "{found:?}");
        assert!((found.packing / made.packing - 1.0).abs() < 1e-2, "{found:?}");
        let half = |op: &Linear| {
            let [flops, outputs, bytes] = features(op, (8, 48));
            (flops + outputs * made.half_depth) / 1e11 + bytes / made.packing
        };
        assert!((rate(&samples(half), (8, 48), &made) / 1e11 - 1.0).abs() < 1e-9);
    }
}
