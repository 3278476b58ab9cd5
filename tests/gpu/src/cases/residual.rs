//! Residual sums with bias and dropout against f64.

use super::dropout::SITE;
use super::operands::{BOTH, NULL, Outcome, run};
use crate::compare::Random;
use crate::launch::residual;
use crate::{Argument, Case, Gpu};

pub const CASES: &[Case] = &[Case { name: "sums with and without bias and dropout", run: forward }];

fn forward(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(1);
    for (stored, (rows, width)) in
        BOTH.into_iter().flat_map(|stored| [(1, 1), (4, 40), (3, 1003)].map(|size| (stored, size)))
    {
        let stream = stored.random(gpu, &mut random, rows * width, 1.0);
        let branch = stored.random(gpu, &mut random, rows * width, 1.0);
        let bias = stored.random(gpu, &mut random, width, 1.0);
        let places: Vec<u32> = (0..rows as u32).map(|row| 2 * row + 1).collect();
        let (list, scalars) = (gpu.upload(&places), SITE.scalars(gpu));
        for (with_bias, with_dropout) in [(false, false), (true, false), (false, true), (true, true)] {
            let output = stored.output(gpu, rows * width);
            let read = [
                stream.argument(),
                branch.argument(),
                if with_bias { bias.argument() } else { NULL },
                Argument::Buffer(output),
                Argument::U32(rows as u32),
                Argument::U32(width as u32),
                if with_dropout { Argument::Buffer(scalars) } else { NULL },
                if with_dropout { Argument::Buffer(list) } else { NULL },
            ];
            let launch = residual::forward(rows as u32, width as u32);
            let arguments = [&read[..], &SITE.arguments()].concat();
            run(gpu, &residual::source(stored.types()), &launch, &arguments)?;
            let expected: Vec<f64> = (0..rows * width)
                .map(|at| {
                    let (row, column) = (at / width, at % width);
                    let term = branch.values[at] + if with_bias { bias.values[column] } else { 0.0 };
                    let factor = if with_dropout { SITE.factor(places[row], width, column) } else { 1.0 };
                    stream.values[at] + term * factor
                })
                .collect();
            let what = format!("{rows} x {width}, bias {with_bias}, dropout {with_dropout}");
            stored.close(gpu, &what, output, &expected, width)?;
        }
    }
    Ok(())
}
