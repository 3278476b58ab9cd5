//! Copies, sums and looks at tensors against f64.

use super::operands::{BOTH, NULL, Outcome, Stored, run};
use crate::compare::{Random, equal};
use crate::launch::elementwise;
use crate::{Argument, Case, Gpu};

pub const CASES: &[Case] = &[
    Case { name: "columns of one matrix to another", run: columns },
    Case { name: "sums and scales", run: sums },
    Case { name: "numbers", run: numbers },
    Case { name: "values that are not finite", run: check },
];

fn columns(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(1);
    for stored in BOTH {
        for (rows, columns, from, to) in
            [(1, 1, [1, 0], [1, 0]), (5, 16, [48, 16], [24, 8]), (3, 13, [30, 9], [14, 1])]
        {
            let source = stored.random(gpu, &mut random, rows * from[0], 1.0);
            let target = stored.random(gpu, &mut random, rows * to[0], 1.0);
            let sizes =
                [rows, columns, from[0], from[1], to[0], to[1]].map(|size| Argument::U32(size as u32));
            let arguments = [&[source.argument(), target.argument()][..], &sizes].concat();
            let launch = elementwise::copy_columns(rows as u32, columns as u32);
            run(gpu, &elementwise::source(stored.types()), &launch, &arguments)?;
            let mut expected = target.values.clone();
            for row in 0..rows {
                expected[row * to[0] + to[1]..][..columns]
                    .copy_from_slice(&source.values[row * from[0] + from[1]..][..columns]);
            }
            stored.same(gpu, "columns", target.buffer, &expected)?;
        }
    }
    Ok(())
}

fn sums(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(2);
    let number = gpu.upload(&[-0.7f64]);
    for (stored, count) in
        BOTH.into_iter().flat_map(|stored| [1usize, 8, 2051, 4096].map(|count| (stored, count)))
    {
        let source = elementwise::source(stored.types());
        let size = Argument::U64(count as u64);
        let row = count.min(64);
        let from = stored.random(gpu, &mut random, count, 1.0);
        let zipped = |to: &[f64], value: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
            from.values.iter().zip(to).map(|(&from, &to)| value(from, to)).collect()
        };
        let to = stored.random(gpu, &mut random, count, 1.0);
        run(gpu, &source, &elementwise::add(count as u64), &[from.argument(), to.argument(), size])?;
        stored.close(gpu, "sum", to.buffer, &zipped(&to.values, &|from, to| from + to), row)?;
        for (weight, by) in [(Argument::Buffer(number), -0.7), (NULL, 1.0)] {
            let to = stored.random(gpu, &mut random, count, 1.0);
            let launch = elementwise::add_scaled(count as u64);
            run(gpu, &source, &launch, &[weight, from.argument(), to.argument(), size])?;
            let expected = zipped(&to.values, &|from, to| to + by * from);
            stored.close(gpu, "scaled sum", to.buffer, &expected, row)?;
            let data = stored.random(gpu, &mut random, count, 1.0);
            run(gpu, &source, &elementwise::scale(count as u64), &[weight, data.argument(), size])?;
            let expected: Vec<f64> = data.values.iter().map(|x| x * by).collect();
            stored.close(gpu, "scaled", data.buffer, &expected, row)?;
        }
        let to = stored.output(gpu, count);
        let arguments = [from.argument(), Argument::Buffer(to), size, Argument::F32(0.3)];
        run(gpu, &source, &elementwise::scaled_copy(count as u64), &arguments)?;
        stored.close(gpu, "scaled copy", to, &zipped(&from.values, &|from, _| from * 0.3), row)?;
    }
    Ok(())
}

fn numbers(gpu: &mut Gpu) -> Outcome {
    let source = elementwise::source(Stored::F32.types());
    let number = gpu.uninitialised::<f64>(1);
    let arguments = [Argument::Buffer(number), Argument::F64(1.0 / 3.0)];
    run(gpu, &source, &elementwise::set_number(), &arguments)?;
    equal("number", &gpu.download::<f64>(number), &[1.0 / 3.0])
}

fn check(gpu: &mut Gpu) -> Outcome {
    for stored in BOTH {
        let bad: [&[(usize, f32)]; 4] = [
            &[],
            &[(0, f32::NAN)],
            &[(4100, f32::INFINITY), (2049, f32::NEG_INFINITY), (3000, f32::NAN)],
            &[(5002, f32::NEG_INFINITY)],
        ];
        for places in bad {
            let mut values = Random(4).values(5003);
            values[7] = if stored == Stored::F32 { f32::MAX } else { 3e38 };
            places.iter().for_each(|&(place, value)| values[place] = value);
            let tensor = stored.upload(gpu, &values);
            let found = gpu.upload(&[u64::MAX]);
            let arguments = [tensor.argument(), Argument::U64(5003), Argument::Buffer(found)];
            let launch = elementwise::check(5003);
            run(gpu, &elementwise::source(stored.types()), &launch, &arguments)?;
            let first = places.iter().map(|&(place, _)| place as u64).min().unwrap_or(u64::MAX);
            equal("first that is not finite", &gpu.download::<u64>(found), &[first])?;
        }
    }
    Ok(())
}
