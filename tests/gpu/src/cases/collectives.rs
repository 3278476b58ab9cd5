//! Sums of ranks' parts in their order, and the exchange of heads, to the bit.

use super::operands::{BOTH, Outcome, Stored, run};
use crate::compare::{Random, from_bf16, to_bf16};
use crate::launch::collectives::{self, Wire};
use crate::{Argument, Case, Gpu};

pub const CASES: &[Case] = &[
    Case { name: "sums of parts", run: sums },
    Case { name: "f16 on the wire", run: f16 },
    Case { name: "heads there and back", run: heads },
];

/// Rounds to the nearest f16, ties to even, by trying both neighbours.
fn to_f16(value: f32) -> f32 {
    let magnitude = f64::from(value.abs());
    let exponent = magnitude.log2().floor().clamp(-14.0, 15.0) as i32;
    let step = 2f64.powi(exponent - 10);
    let below = (magnitude / step).floor();
    let rest = magnitude / step - below;
    let up = rest > 0.5 || (rest == 0.5 && below % 2.0 == 1.0);
    let rounded = (below + f64::from(u8::from(up))) * step;
    let rounded = if rounded > 65504.0 { f64::INFINITY } else { rounded };
    (rounded as f32).copysign(value)
}

fn travelled(wire: Wire, value: f32) -> f32 {
    match wire {
        Wire::Exact => value,
        Wire::Bf16 => from_bf16(to_bf16(value)),
        Wire::F16 => to_f16(value),
    }
}

fn sum(gpu: &mut Gpu, stored: Stored, wire: Wire, values: &[f32], members: usize, scale: f32) -> Outcome {
    let (stride, count) = (values.len() / members, values.len() / members - 1);
    let parts = stored.upload(gpu, values);
    let output = stored.output(gpu, count);
    let arguments = [
        parts.argument(),
        Argument::Buffer(output),
        Argument::U64(count as u64),
        Argument::U64(stride as u64),
        Argument::U32(members as u32),
        Argument::F32(scale),
    ];
    run(gpu, &collectives::source(stored.types(), wire), &collectives::sum(count as u64), &arguments)?;
    let at = |member: usize, place: usize| travelled(wire, parts.values[member * stride + place] as f32);
    let expected: Vec<f64> = (0..count)
        .map(|place| {
            let sum = (1..members).fold(at(0, place), |sum, member| sum + at(member, place));
            f64::from(stored.round(travelled(wire, sum * scale)))
        })
        .collect();
    stored.same(gpu, &format!("{members} parts of {count} by {wire:?}"), output, &expected)
}

fn sums(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(1);
    for (stored, wire) in [(Stored::F32, Wire::Exact), (Stored::Bf16, Wire::Exact), (Stored::F32, Wire::Bf16)]
    {
        for (members, stride) in [(1, 9), (2, 2), (3, 1000), (8, 2065)] {
            let values = random.values(members * stride);
            sum(gpu, stored, wire, &values, members, 1.0)?;
            sum(gpu, stored, wire, &values, members, 1.0 / members as f32)?;
        }
    }
    Ok(())
}

fn f16(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(2);
    for scale in [1.0, 1e-5, 6e-8, 5e4] {
        let values: Vec<f32> = random.values(2 * 1000).iter().map(|x| x * scale).collect();
        sum(gpu, Stored::F32, Wire::F16, &values, 2, 1.0)?;
        sum(gpu, Stored::F32, Wire::F16, &values, 1, 1.0)?;
    }
    // Ties, the last that does not overflow and the first that does, and the smallest.
    let ends =
        [1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0, 65519.0, 65520.0, -65520.0, 2f32.powi(-25), 3e-8, 6e-5, 0.0];
    sum(gpu, Stored::F32, Wire::F16, &ends, 1, 1.0)
}

/// Tokens of all heads go to each rank's heads and back; two ranks share each part.
fn heads(gpu: &mut Gpu) -> Outcome {
    let (contexts, batch, local, width, copies) = (4usize, 2usize, 3usize, 6usize, 2usize);
    let (rows, all_width) = (batch * local, 2 * width + 3);
    let own_width = width + 2;
    let mut random = Random(3);
    let row_of = |row: usize, context: usize| (row / local * contexts + context) * local + row % local;
    for stored in BOTH {
        let source = collectives::source(stored.types(), Wire::Exact);
        let own: Vec<_> =
            (0..contexts).map(|_| stored.random(gpu, &mut random, rows * all_width, 1.0)).collect();
        let mut of_heads = Vec::new();
        for context in 0..contexts {
            let target = stored.upload(gpu, &vec![9.0; rows * contexts * own_width]);
            let first = 1 + context / copies * width;
            let mut expected = target.values.clone();
            for (member, theirs) in own.iter().enumerate() {
                let sizes = [rows, width, all_width, first, own_width, 2, local, contexts, member]
                    .map(|size| Argument::U32(size as u32));
                let arguments = [&[theirs.argument(), target.argument()][..], &sizes].concat();
                run(gpu, &source, &collectives::to_heads(rows as u32, width as u32), &arguments)?;
                for row in 0..rows {
                    expected[row_of(row, member) * own_width + 2..][..width]
                        .copy_from_slice(&theirs.values[row * all_width + first..][..width]);
                }
            }
            stored.same(gpu, "to heads", target.buffer, &expected)?;
            of_heads.push((target, expected));
        }
        for context in 0..contexts {
            let target = stored.upload(gpu, &vec![0.0; rows * all_width]);
            let mut expected = target.values.clone();
            for (member, (theirs, values)) in of_heads.iter().enumerate() {
                let first = 1 + member / copies * width;
                let sizes = [rows, width, own_width, 2, all_width, first, local, contexts, context]
                    .map(|size| Argument::U32(size as u32));
                let arguments = [&[theirs.argument(), target.argument()][..], &sizes].concat();
                run(gpu, &source, &collectives::to_tokens(rows as u32, width as u32), &arguments)?;
                for (row, column) in (0..rows).flat_map(|row| (0..width).map(move |column| (row, column))) {
                    let place = &mut expected[row * all_width + first + column];
                    let added = *place + values[row_of(row, context) * own_width + 2 + column];
                    *place = f64::from(stored.round(added as f32));
                }
            }
            stored.same(gpu, "to tokens", target.buffer, &expected)?;
        }
    }
    Ok(())
}
