//! Rotary positions against sines and cosines in f64.

use super::operands::{BOTH, Outcome, run};
use crate::compare::Random;
use crate::launch::rotary;
use crate::{Argument, Case, Gpu};

pub const CASES: &[Case] =
    &[Case { name: "turns forward and back", run: turns }, Case { name: "far positions", run: far }];

/// Heads of a packed matrix, and what of them turns.
#[derive(Clone, Copy, Debug)]
struct Layout {
    stride: usize,
    heads: usize,
    head_dim: usize,
    pairs: usize,
}

fn compare(gpu: &mut Gpu, layout: Layout, batch: usize, positions: &[u32], backward: bool) -> Outcome {
    let Layout { stride, heads, head_dim, pairs } = layout;
    let mut random = Random(1);
    let frequencies: Vec<f32> =
        (0..pairs).map(|pair| 10_000f64.powf(-(pair as f64) / pairs as f64) as f32).collect();
    let tokens = batch * positions.len();
    for stored in BOTH {
        let data = stored.random(gpu, &mut random, tokens * stride, 1.0);
        let (places, speeds) = (gpu.upload(positions), gpu.upload(&frequencies));
        let sizes = [positions.len(), stride, heads, head_dim, pairs].map(|size| Argument::U32(size as u32));
        let read = [data.argument(), Argument::Buffer(places), Argument::Buffer(speeds)];
        let arguments = [&read[..], &sizes, &[Argument::U32(backward.into())]].concat();
        let launch = rotary::turn(tokens as u32, heads as u32, pairs as u32);
        run(gpu, &rotary::source(stored.types()), &launch, &arguments)?;
        let mut expected = data.values.clone();
        for (token, row) in expected.chunks_mut(stride).enumerate() {
            for head in row.chunks_mut(head_dim).take(heads) {
                for pair in 0..pairs {
                    // The angle is rounded, as the type of arithmetic says.
                    let angle = positions[token % positions.len()] as f32 * frequencies[pair];
                    let (sine, cosine) = f64::from(angle).sin_cos();
                    let sine = if backward { -sine } else { sine };
                    let (left, right) = (head[pair], head[pair + pairs]);
                    head[pair] = left * cosine - right * sine;
                    head[pair + pairs] = right * cosine + left * sine;
                }
            }
        }
        stored.close(gpu, &format!("{layout:?}"), data.buffer, &expected, stride)?;
    }
    Ok(())
}

fn turns(gpu: &mut Gpu) -> Outcome {
    // The heads are followed by columns that stay, and turn whole, in part, or in pairs that no run divides.
    for layout in [
        Layout { stride: 3 * 64 + 16, heads: 3, head_dim: 64, pairs: 32 },
        Layout { stride: 2 * 24, heads: 2, head_dim: 24, pairs: 8 },
        Layout { stride: 34, heads: 3, head_dim: 10, pairs: 3 },
        Layout { stride: 256, heads: 1, head_dim: 256, pairs: 128 },
    ] {
        for backward in [false, true] {
            compare(gpu, layout, 2, &[0, 1, 7, 2, 1023], backward)?;
        }
    }
    compare(gpu, Layout { stride: 4, heads: 1, head_dim: 4, pairs: 1 }, 1, &[3], false)
}

fn far(gpu: &mut Gpu) -> Outcome {
    let layout = Layout { stride: 128, heads: 2, head_dim: 64, pairs: 32 };
    compare(gpu, layout, 1, &[131_071, 1_000_000, 16_777_215, 99_999], false)
}
