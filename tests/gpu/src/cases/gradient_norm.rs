//! Sums of squares: against f64, and the same to the bit however they are cut.

use super::operands::{BOTH, Outcome, Stored, Tensor, close_f64, run};
use crate::compare::{Random, equal};
use crate::launch::gradient_norm::{self, BINS};
use crate::{Argument, Case, Gpu, Launch};

pub const CASES: &[Case] = &[
    Case { name: "sum of squares, cut in any way", run: squares },
    Case { name: "clip factor and mean", run: clip },
    Case { name: "weight of a loss", run: loss_weight },
];

/// The bins of runs of `values` of the given lengths, each on at most so many blocks.
fn bins(
    gpu: &mut Gpu,
    stored: Stored,
    values: &Tensor,
    lengths: &[usize],
    most_blocks: u32,
) -> Result<Vec<f64>, String> {
    let source = gradient_norm::source(stored.types());
    let launches: Vec<Launch> = lengths
        .iter()
        .map(|&length| gradient_norm::squares(length as u64))
        .map(|launch| Launch { grid: [launch.grid[0].min(most_blocks), 1, 1], ..launch })
        .collect();
    let rows: Vec<u32> = launches.iter().map(|launch| launch.grid[0]).collect();
    let partials = gpu.uninitialised::<f64>((rows.iter().sum::<u32>() * BINS) as usize);
    let (mut first, mut row) = (0, 0);
    for ((&length, launch), &own) in lengths.iter().zip(&launches).zip(&rows) {
        let arguments = [
            Argument::Part(values.buffer, first * stored.bytes()),
            Argument::Part(partials, u64::from(row * BINS) * 8),
            Argument::U64(length as u64),
        ];
        run(gpu, &source, launch, &arguments)?;
        first += length as u64;
        row += own;
    }
    let squares = gpu.uninitialised::<f64>(BINS as usize);
    let arguments = [Argument::Buffer(partials), Argument::Buffer(squares), Argument::U32(row)];
    run(gpu, &source, &gradient_norm::sum(), &arguments)?;
    Ok(gpu.download(squares))
}

/// Squares in multiples of each bin's quantum, the rest to the next bin. Sums of so few are exact.
fn exact(values: &[f64]) -> Vec<f64> {
    let mut bins = vec![0.0; BINS as usize];
    for value in values {
        let mut rest = value * value;
        for (bin, power) in bins.iter_mut().zip([-10, -30, -50, -70]) {
            let quantum = 2f64.powi(power);
            let whole = (rest / quantum).round_ties_even() * quantum;
            *bin += whole;
            rest -= whole;
        }
    }
    bins
}

fn squares(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(1);
    for stored in BOTH {
        for count in [1usize, 3000, 40_001] {
            // From great to tiny.
            let values: Vec<f32> = random
                .values(count)
                .iter()
                .enumerate()
                .map(|(at, x)| x * 2f32.powi(9 - at as i32 % 30))
                .collect();
            let tensor = stored.upload(gpu, &values);
            let whole = bins(gpu, stored, &tensor, &[count], u32::MAX)?;
            let expected: f64 = tensor.values.iter().map(|x| x * x).sum();
            let total: f64 = whole.iter().sum();
            close_f64(&format!("{count} squares in {stored:?}"), &[total], &[expected], 1e-12)?;
            equal("bins", &whole, &exact(&tensor.values))?;
            if count > 1 {
                let bits = |bins: &[f64]| bins.iter().map(|bin| bin.to_bits()).collect::<Vec<_>>();
                // Few blocks take several turns; more parts than a block has threads are summed in turns.
                let many = [&[7; 300][..], &[count - 2100]].concat();
                for (cuts, most) in
                    [(&[1, 1000, count - 1002, 1][..], u32::MAX), (&[count], 3), (&many, u32::MAX)]
                {
                    equal("cut", &bits(&bins(gpu, stored, &tensor, cuts, most)?), &bits(&whole))?;
                }
            }
        }
    }
    Ok(())
}

/// Runs a kernel of one thread that writes a number.
fn number(
    gpu: &mut Gpu,
    launch: &Launch,
    before: f64,
    arguments: impl Fn(Argument) -> Vec<Argument>,
) -> Result<f64, String> {
    let buffer = gpu.upload(&[before]);
    let source = gradient_norm::source(Stored::F32.types());
    run(gpu, &source, launch, &arguments(Argument::Buffer(buffer)))?;
    Ok(gpu.download::<f64>(buffer)[0])
}

fn clip(gpu: &mut Gpu) -> Outcome {
    // Norms of 5.5 and of 0.5.
    for (bins, norm) in [([30.0, 0.25, 0.0, 0.0], 5.5f64), ([0.25, 0.0, 0.0, 0.0], 0.5)] {
        let squares = gpu.upload(&bins);
        let read = Argument::Buffer(squares);
        let clip = number(gpu, &gradient_norm::clip(), f64::NAN, |to| vec![read, to, Argument::F64(1.0)])?;
        close_f64("clip factor", &[clip], &[(1.0 / (norm + 1e-6)).min(1.0)], 1e-15)?;
        let mean = number(gpu, &gradient_norm::add_mean(), 2.0, |to| vec![read, to, Argument::F64(7.0)])?;
        close_f64("mean", &[mean], &[2.0 + norm * norm / 7.0], 1e-15)?;
    }
    Ok(())
}

fn loss_weight(gpu: &mut Gpu) -> Outcome {
    let [of, own, none] = [[9.0, 0.0, 0.0, 0.0], [4.0, 0.0, 0.0, 0.0], [0.0; 4]]
        .map(|bins: [f64; 4]| Argument::Buffer(gpu.upload(&bins)));
    let launch = gradient_norm::loss_weight();
    for (below, expected) in [(own, 1.5 / (0.5 + 1e-4)), (none, 1e4)] {
        let found =
            number(gpu, &launch, f64::NAN, |to| vec![of, Argument::F64(2.0), below, Argument::F64(4.0), to])?;
        close_f64("weight", &[found], &[expected], 1e-14)?;
    }
    let found = number(gpu, &launch, 0.0, |to| vec![none, Argument::F64(0.0), own, Argument::F64(4.0), to])?;
    if found.is_nan() { Ok(()) } else { Err(format!("{found} where nothing is divided by nothing")) }
}
