//! Dropout against a mask made element by element from SplitMix64.

use super::operands::{BOTH, Outcome, run};
use crate::compare::Random;
use crate::launch::dropout;
use crate::{Argument, Buffer, Case, Gpu};

pub const CASES: &[Case] = &[
    Case { name: "rows", run: rows },
    Case { name: "shards drop what the whole drops", run: shards },
    Case { name: "rate", run: rate },
];

/// The dropout of one site in one step.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    pub rate: f64,
    pub seed: u64,
    pub step: u64,
    pub site: u64,
    pub start: u64,
}

pub const SITE: Site = Site { rate: 0.3, seed: 0xdead_beef_1234_5678, step: 41, site: 7, start: 1 << 33 };

impl Site {
    /// The numbers of the step: steps made before, seed, learning rate and clip factor lead them.
    pub fn scalars(&self, gpu: &mut Gpu) -> Buffer {
        gpu.upload(&[self.step as f64, f64::from_bits(self.seed), 0.0, 1.0])
    }

    /// What comes behind the places of rows.
    pub fn arguments(&self) -> [Argument; 4] {
        [
            Argument::U64(self.start),
            Argument::U64(self.site),
            Argument::U64(dropout::threshold(self.rate)),
            Argument::F32(dropout::scale(self.rate)),
        ]
    }

    /// What an element of row `row` is multiplied by.
    pub fn factor(&self, row: u32, width: usize, column: usize) -> f64 {
        let mix = |state: u64| Random(state).bits();
        let element = (self.start + u64::from(row)) * width as u64 + column as u64;
        let key = mix(mix(mix(self.seed) ^ self.step) ^ self.site);
        let share = (mix(key ^ element) >> 32) as f64 / 2f64.powi(32);
        if share < self.rate { 0.0 } else { 1.0 / (1.0 - self.rate) }
    }
}

fn rows(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(1);
    for stored in BOTH {
        for (rows, width) in [(1, 3), (5, 64), (3, 1001)] {
            let x = stored.random(gpu, &mut random, rows * width, 1.0);
            let places: Vec<u32> = (0..rows as u32).map(|row| row * 3 % 5 + 10).collect();
            let list = gpu.upload(&places);
            let scalars = SITE.scalars(gpu);
            let read = [
                x.argument(),
                Argument::U32(rows as u32),
                Argument::U32(width as u32),
                Argument::Buffer(scalars),
                Argument::Buffer(list),
            ];
            let launch = dropout::rows(rows as u32, width as u32);
            let arguments = [&read[..], &SITE.arguments()].concat();
            run(gpu, &dropout::source(stored.types()), &launch, &arguments)?;
            let factor = |at: usize| SITE.factor(places[at / width], width, at % width);
            let expected: Vec<f64> = (0..rows * width).map(|at| x.values[at] * factor(at)).collect();
            stored.close(gpu, &format!("{rows} x {width}"), x.buffer, &expected, width)?;
        }
    }
    Ok(())
}

/// Drops ones in rows `places` from `start` on.
fn dropped(gpu: &mut Gpu, site: Site, places: &[u32], width: usize) -> Result<Vec<f32>, String> {
    let stored = BOTH[0];
    let x = stored.upload(gpu, &vec![1.0; places.len() * width]);
    let (list, scalars) = (gpu.upload(places), site.scalars(gpu));
    let read = [
        x.argument(),
        Argument::U32(places.len() as u32),
        Argument::U32(width as u32),
        Argument::Buffer(scalars),
        Argument::Buffer(list),
    ];
    let launch = dropout::rows(places.len() as u32, width as u32);
    run(gpu, &dropout::source(stored.types()), &launch, &[&read[..], &site.arguments()].concat())?;
    Ok(stored.download(gpu, x.buffer))
}

fn shards(gpu: &mut Gpu) -> Outcome {
    let width = 100;
    let whole = dropped(gpu, SITE, &[0, 1, 2, 3, 4, 5], width)?;
    let odd = dropped(gpu, SITE, &[1, 3, 5], width)?;
    let later = dropped(gpu, Site { start: SITE.start + 4, ..SITE }, &[0, 1], width)?;
    let of_whole = |rows: &[usize]| -> Vec<f32> {
        rows.iter().flat_map(|row| whole[row * width..(row + 1) * width].to_vec()).collect()
    };
    crate::compare::equal("rows of every second", &odd, &of_whole(&[1, 3, 5]))?;
    crate::compare::equal("rows of a later start", &later, &of_whole(&[4, 5]))?;
    let other = dropped(gpu, Site { step: SITE.step + 1, ..SITE }, &[0, 1, 2, 3, 4, 5], width)?;
    if other == whole { Err("the mask does not depend on the step".to_owned()) } else { Ok(()) }
}

fn rate(gpu: &mut Gpu) -> Outcome {
    for rate in [0.0, 0.1, 0.75] {
        let x = dropped(gpu, Site { rate, ..SITE }, &[0, 1, 2, 3], 5000)?;
        let share = x.iter().filter(|x| **x == 0.0).count() as f64 / x.len() as f64;
        // Three and a half deviations of 20,000 draws.
        if (share - rate).abs() > 3.5 * (rate * (1.0 - rate) / x.len() as f64).sqrt() {
            return Err(format!("{share} dropped of {rate}"));
        }
    }
    Ok(())
}
