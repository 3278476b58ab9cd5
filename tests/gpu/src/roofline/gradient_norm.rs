//! Sums of squares, and the numbers that follow from them.

use super::operands::Operands;
use super::{Entry, Least, Size, Work};
use crate::launch::gradient_norm::{self, BINS};
use crate::launch::runs::Types;
use crate::{Argument, Launch};

/// Bytes of a sum.
const SUM: u64 = 8 * BINS as u64;

pub fn entries(size: Size) -> Vec<Entry> {
    let count: u64 = size.of(1 << 18, 100_000_000);
    let rows = size.of(128, 1024);
    let number = |make: fn(&mut Operands) -> Work| Entry::new("1", move |gpu| make(&mut Operands::new(gpu)));
    let mut entries = vec![
        Entry::new(format!("{count}"), move |gpu| squares(&mut Operands::new(gpu), count)),
        Entry::new(format!("{rows}"), move |gpu| sum(&mut Operands::new(gpu), rows)),
    ];
    entries.extend([clip, loss_weight, add_mean].map(number));
    entries
}

fn work(launch: Launch, arguments: Vec<Argument>, read: u64, written: u64) -> Work {
    Work {
        source: gradient_norm::source(Types::F32),
        launch,
        arguments,
        least: Least::of_bytes(read, written),
    }
}

/// One sum for each block of the launch, which is a part of what is asked for: another kernel adds them up.
fn squares(operands: &mut Operands, count: u64) -> Work {
    let launch = gradient_norm::squares(count);
    let blocks = u64::from(launch.grid[0]);
    let tensors = [operands.f32(count), operands.f64_result(blocks * u64::from(BINS))];
    work(launch, [&tensors[..], &[Argument::U64(count)]].concat(), 4 * count, blocks * SUM)
}

fn sum(operands: &mut Operands, rows: u32) -> Work {
    let partials = vec![1.0; (rows * BINS) as usize];
    let arguments = vec![operands.f64(&partials), operands.f64_result(u64::from(BINS)), Argument::U32(rows)];
    work(gradient_norm::sum(), arguments, u64::from(rows) * SUM, SUM)
}

fn clip(operands: &mut Operands) -> Work {
    let arguments = vec![operands.f64(&[4.0; 4]), operands.f64_result(1), Argument::F64(1.0)];
    work(gradient_norm::clip(), arguments, SUM, 8)
}

fn loss_weight(operands: &mut Operands) -> Work {
    let [of, own] = [(); 2].map(|()| operands.f64(&[4.0; 4]));
    let arguments = vec![of, Argument::F64(1.0), own, Argument::F64(1.0), operands.f64_result(1)];
    work(gradient_norm::loss_weight(), arguments, 2 * SUM, 8)
}

/// Adds to a number of the step.
fn add_mean(operands: &mut Operands) -> Work {
    let arguments = vec![operands.f64(&[4.0; 4]), operands.f64(&[1.0]), Argument::F64(2.0)];
    work(gradient_norm::add_mean(), arguments, SUM + 8, 8)
}
