//! Layer norm and RMS norm against sums in f64.

use super::operands::{ALL_TYPES, BOTH, NULL, Outcome, Stored, Tensor, run, stored};
use crate::compare::Random;
use crate::launch::norm;
use crate::{Argument, Case, Gpu};

pub const CASES: &[Case] = &[
    Case { name: "layer forward", run: layer_forward },
    Case { name: "rms forward", run: rms_forward },
    Case { name: "layer input gradient", run: layer_input_gradient },
    Case { name: "rms input gradient", run: rms_input_gradient },
    Case { name: "weight gradient", run: weight_gradient },
];

const EPSILON: f64 = 1e-5;
/// Rows and widths: one row, less than a run, tails, more than a block takes at once.
const SIZES: [(usize, usize); 6] = [(1, 3), (3, 8), (7, 100), (2, 257), (3, 768), (2, 2064)];

fn layer_forward(gpu: &mut Gpu) -> Outcome {
    forward(gpu, true)
}

fn rms_forward(gpu: &mut Gpu) -> Outcome {
    forward(gpu, false)
}

fn layer_input_gradient(gpu: &mut Gpu) -> Outcome {
    input_gradient(gpu, true)
}

fn rms_input_gradient(gpu: &mut Gpu) -> Outcome {
    input_gradient(gpu, false)
}

/// Mean (0 by RMS norm) and 1/deviation of a row.
fn statistics(row: &[f64], centred: bool) -> [f64; 2] {
    let count = row.len() as f64;
    let mean = if centred { row.iter().sum::<f64>() / count } else { 0.0 };
    let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    [mean, 1.0 / (variance + EPSILON).sqrt()]
}

/// Values about 0.7, so that means matter.
fn inputs(gpu: &mut Gpu, random: &mut Random, stored: Stored, count: usize) -> Tensor {
    let values: Vec<f32> = random.values(count).iter().map(|x| 2.0 * x + 0.7).collect();
    stored.upload(gpu, &values)
}

fn forward(gpu: &mut Gpu, centred: bool) -> Outcome {
    let mut random = Random(1);
    for (stored, (rows, width)) in BOTH.into_iter().flat_map(|stored| SIZES.map(|size| (stored, size))) {
        let x = inputs(gpu, &mut random, stored, rows * width);
        let weight = stored.random(gpu, &mut random, width, 1.0);
        let bias = stored.random(gpu, &mut random, width, 1.0);
        let kept: Vec<f64> = x.values.chunks(width).flat_map(|row| statistics(row, centred)).collect();
        for (with_weight, with_bias) in [(true, true), (true, false), (false, false)] {
            let y = stored.output(gpu, rows * width);
            let found = gpu.uninitialised::<f32>(rows * 2);
            let arguments = [
                x.argument(),
                if with_weight { weight.argument() } else { NULL },
                if with_bias { bias.argument() } else { NULL },
                Argument::Buffer(y),
                Argument::Buffer(found),
                Argument::U32(width as u32),
                Argument::U32(centred.into()),
                Argument::F32(EPSILON as f32),
            ];
            let launch = norm::forward(rows as u32, width as u32);
            run(gpu, &norm::source(stored.types()), &launch, &arguments)?;
            let expected: Vec<f64> = (0..rows * width)
                .map(|at| {
                    let (row, column) = (at / width, at % width);
                    let normed = (x.values[at] - kept[2 * row]) * kept[2 * row + 1];
                    let scaled = if with_weight { normed * weight.values[column] } else { normed };
                    if with_bias { scaled + bias.values[column] } else { scaled }
                })
                .collect();
            stored.close(gpu, &format!("{rows} x {width}"), y, &expected, width)?;
            Stored::F32.close(gpu, &format!("statistics of {rows} x {width}"), found, &kept, 2)?;
        }
    }
    Ok(())
}

/// Statistics that the kernel for them alone makes of `x`.
fn made_statistics(
    gpu: &mut Gpu,
    stored: Stored,
    x: &Tensor,
    (rows, width): (usize, usize),
    centred: bool,
) -> Result<Argument, String> {
    let buffer = gpu.uninitialised::<f32>(rows * 2);
    let arguments = [
        x.argument(),
        Argument::Buffer(buffer),
        Argument::U32(width as u32),
        Argument::U32(centred.into()),
        Argument::F32(EPSILON as f32),
    ];
    let launch = norm::statistics(rows as u32, width as u32);
    run(gpu, &norm::source(stored.types()), &launch, &arguments)?;
    Ok(Argument::Buffer(buffer))
}

/// Writes apart, adds, and in place of the output's gradient.
fn input_gradient(gpu: &mut Gpu, centred: bool) -> Outcome {
    let mut random = Random(2);
    for (stored, (rows, width)) in BOTH.into_iter().flat_map(|stored| SIZES.map(|size| (stored, size))) {
        let x = inputs(gpu, &mut random, stored, rows * width);
        let weight = stored.random(gpu, &mut random, width, 1.0);
        let kept = made_statistics(gpu, stored, &x, (rows, width), centred)?;
        for (with_weight, add, in_place) in
            [(true, false, false), (true, true, false), (true, false, true), (false, false, false)]
        {
            let dy = stored.random(gpu, &mut random, rows * width, 1.0);
            let before = stored.random(gpu, &mut random, rows * width, 1.0);
            let dx = if in_place { dy.buffer } else { before.buffer };
            let arguments = [
                x.argument(),
                if with_weight { weight.argument() } else { NULL },
                kept,
                dy.argument(),
                Argument::Buffer(dx),
                Argument::U32(width as u32),
                Argument::U32(centred.into()),
                Argument::U32(add.into()),
            ];
            let launch = norm::input_gradient(rows as u32, width as u32);
            run(gpu, &norm::source(stored.types()), &launch, &arguments)?;
            let mut expected = Vec::new();
            for (row, (x, dy)) in x.values.chunks(width).zip(dy.values.chunks(width)).enumerate() {
                let [mean, scale] = statistics(x, centred);
                let of = |at: usize| if with_weight { weight.values[at] } else { 1.0 };
                let g: Vec<f64> = dy.iter().enumerate().map(|(at, dy)| dy * of(at)).collect();
                let normed: Vec<f64> = x.iter().map(|x| (x - mean) * scale).collect();
                let count = width as f64;
                let plain = if centred { g.iter().sum::<f64>() / count } else { 0.0 };
                let with_x = g.iter().zip(&normed).map(|(g, x)| g * x).sum::<f64>() / count;
                expected.extend((0..width).map(|at| {
                    let before = if add { before.values[row * width + at] } else { 0.0 };
                    before + scale * (g[at] - plain - normed[at] * with_x)
                }));
            }
            let what = format!("{rows} x {width}, add {add}, in place {in_place}");
            stored.close(gpu, &what, dx, &expected, width)?;
        }
    }
    Ok(())
}

fn weight_gradient(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(3);
    for (types, (rows, width)) in ALL_TYPES
        .into_iter()
        .flat_map(|types| [(1, 3), (5, 100), (70, 257), (40, 264)].map(|size| (types, size)))
    {
        let (activation, gradient) = stored(types);
        let x = inputs(gpu, &mut random, activation, rows * width);
        let dy = activation.random(gpu, &mut random, rows * width, 1.0);
        let kept = made_statistics(gpu, activation, &x, (rows, width), true)?;
        for (parts, add) in [(2u32, false), (2, true), (1, true)] {
            let (count, total) = (rows as u32, width * parts as usize);
            let before = gradient.random(gpu, &mut random, total, 1.0);
            let partials = gpu.uninitialised::<f32>(norm::scratch(count, width as u32, parts) as usize);
            let arguments = [
                x.argument(),
                kept,
                dy.argument(),
                Argument::Buffer(partials),
                Argument::U32(count),
                Argument::U32(width as u32),
                Argument::U32(norm::rows_per_block(count)),
                Argument::U32(parts),
            ];
            run(gpu, &norm::source(types), &norm::weight_partials(count, width as u32), &arguments)?;
            let arguments = [
                Argument::Buffer(partials),
                before.argument(),
                Argument::U32(norm::partial_rows(count)),
                Argument::U32(total as u32),
                Argument::U32(add.into()),
            ];
            run(gpu, &norm::source(types), &norm::weight_gradient(width as u32, parts), &arguments)?;
            let mut expected = vec![0.0; total];
            for (x, dy) in x.values.chunks(width).zip(dy.values.chunks(width)) {
                let [mean, scale] = statistics(x, true);
                for column in 0..width {
                    expected[column] += (x[column] - mean) * scale * dy[column];
                    if parts == 2 {
                        expected[width + column] += dy[column];
                    }
                }
            }
            if add {
                expected.iter_mut().zip(&before.values).for_each(|(sum, before)| *sum += before);
            }
            gradient.close(
                gpu,
                &format!("{rows} x {width}, parts {parts}"),
                before.buffer,
                &expected,
                width,
            )?;
        }
    }
    Ok(())
}
