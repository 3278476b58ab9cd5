//! Embeddings: copies exactly, gradients against sums in f64.

use super::operands::{ALL_TYPES, BOTH, Outcome, run, stored};
use crate::compare::{Random, close, equal};
use crate::launch::embedding;
use crate::{Argument, Case, Gpu};

pub const CASES: &[Case] = &[
    Case { name: "rows of shards", run: forward },
    Case { name: "gradient", run: gradient },
    Case { name: "gradient of one index alone", run: repeated },
];

fn forward(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(1);
    for stored in BOTH {
        for width in [1, 24, 1001] {
            let indices: [u32; 7] = [3, 9, 0, 3, 7, u32::MAX, 4];
            let (first, shard) = (3, 5);
            let table = stored.random(gpu, &mut random, shard * width, 1.0);
            let list = gpu.upload(&indices);
            for add in [false, true] {
                let before = stored.random(gpu, &mut random, indices.len() * width, 1.0);
                let sizes = [indices.len(), width, first, shard].map(|size| Argument::U32(size as u32));
                let read = [table.argument(), Argument::Buffer(list), before.argument()];
                let arguments = [&read[..], &sizes, &[Argument::U32(add.into())]].concat();
                let launch = embedding::forward(indices.len() as u32, width as u32);
                run(gpu, &embedding::source(stored.types()), &launch, &arguments)?;
                let mut expected = Vec::new();
                for (row, &index) in indices.iter().enumerate() {
                    let own = (index as usize).checked_sub(first).filter(|&own| own < shard);
                    expected.extend((0..width).map(|column| {
                        let value = own.map_or(0.0, |own| table.values[own * width + column]);
                        let before = if add { before.values[row * width + column] } else { 0.0 };
                        f64::from(stored.round((value + before) as f32))
                    }));
                }
                stored.same(gpu, &format!("width {width}, add {add}"), before.buffer, &expected)?;
            }
        }
    }
    Ok(())
}

/// Adds to the gradients of `shard` rows from `first` on, and looks at all of them.
fn compare(gpu: &mut Gpu, indices: &[u32], width: usize, (first, shard): (usize, usize)) -> Outcome {
    let mut random = Random(2);
    for types in ALL_TYPES {
        let (activation, gradient) = stored(types);
        let dy = activation.random(gpu, &mut random, indices.len() * width, 1.0);
        let table = gradient.random(gpu, &mut random, shard * width, 1.0);
        let list = gpu.upload(indices);
        let sizes = [indices.len(), width, first, shard].map(|size| Argument::U32(size as u32));
        let read = [Argument::Buffer(list), dy.argument(), table.argument()];
        let launch = embedding::gradient(indices.len() as u32, width as u32);
        run(gpu, &embedding::source(types), &launch, &[&read[..], &sizes].concat())?;
        let mut expected = table.values.clone();
        for (dy, &index) in dy.values.chunks(width).zip(indices) {
            if let Some(own) = (index as usize).checked_sub(first).filter(|&own| own < shard) {
                let row = &mut expected[own * width..(own + 1) * width];
                row.iter_mut().zip(dy).for_each(|(sum, dy)| *sum += dy);
            }
        }
        // Rows that nothing is added to must not change, and would be rows without any error beside the others.
        let actual = gradient.download(gpu, table.buffer);
        let named = |row: &usize| indices.contains(&((first + row) as u32));
        let (named, others): (Vec<usize>, Vec<usize>) = (0..shard).partition(named);
        let of = |values: &[f64], rows: &[usize]| -> Vec<f64> {
            rows.iter().flat_map(|row| values[row * width..(row + 1) * width].to_vec()).collect()
        };
        let wide: Vec<f64> = actual.iter().map(|&value| f64::from(value)).collect();
        let sums: Vec<f32> = of(&wide, &named).iter().map(|&value| value as f32).collect();
        let what = format!("{} x {width} in {gradient:?}", indices.len());
        close(&what, &sums, &of(&expected, &named), width, gradient.tolerance())?;
        equal(&what, &of(&wide, &others), &of(&table.values, &others))?;
    }
    Ok(())
}

fn gradient(gpu: &mut Gpu) -> Outcome {
    compare(gpu, &[2], 5, (0, 3))?;
    compare(gpu, &[3, 9, 0, 3, 7, 4, 3, 9], 40, (3, 5))?;
    let mut random = Random(3);
    // More rows than a block looks at, more columns than it has threads for.
    let many: Vec<u32> = (0..70).map(|_| random.below(6) as u32).collect();
    compare(gpu, &many, 2051, (1, 5))?;
    let many: Vec<u32> = (0..600).map(|_| random.below(40) as u32).collect();
    compare(gpu, &many, 9, (0, 37))
}

fn repeated(gpu: &mut Gpu) -> Outcome {
    compare(gpu, &[1; 531], 16, (0, 3))
}
