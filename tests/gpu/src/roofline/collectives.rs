//! The arithmetic of collectives: sums of contributions, and the exchange of heads.

use super::operands::{Operands, sizes};
use super::{Entry, Least, Size, Work};
use crate::launch::collectives::{self, Wire};
use crate::launch::runs::Types;
use crate::{Argument, Gpu};

/// Contributions to a sum; context ranks that exchange heads.
const MEMBERS: u32 = 4;

pub fn entries(size: Size) -> Vec<Entry> {
    let count = size.of(1 << 17, 1 << 25);
    let [rows, columns] = size.of([128, 1024], [8192, 1024]);
    vec![
        Entry::new(format!("{MEMBERS} parts of {count}"), move |gpu| sum(gpu, count)),
        Entry::new(format!("{rows} × {columns}"), move |gpu| to_heads(gpu, rows, columns)),
        Entry::new(format!("{rows} × {columns}"), move |gpu| to_tokens(gpu, rows, columns)),
    ]
}

fn sum(gpu: &mut Gpu, count: u64) -> Work {
    let mut operands = Operands::new(gpu);
    let members = u64::from(MEMBERS);
    let tensors = [operands.bf16(members * count), operands.bf16_result(count)];
    let how = [Argument::U64(count), Argument::U64(count), Argument::U32(MEMBERS), Argument::F32(1.0)];
    Work {
        source: collectives::source(Types::Bf16, Wire::Exact),
        launch: collectives::sum(count),
        arguments: [&tensors[..], &how].concat(),
        least: Least::of_bytes(members * 2 * count, 2 * count),
    }
}

/// The tokens of one rank, all of whose heads are as many columns as of one rank here, become a part of all tokens.
fn to_heads(gpu: &mut Gpu, rows: u32, columns: u32) -> Work {
    let mut operands = Operands::new(gpu);
    let count = u64::from(rows) * u64::from(columns);
    let tensors = [operands.bf16(count), operands.bf16_result(u64::from(MEMBERS) * count)];
    let how = sizes([rows, columns, columns, 0, columns, 0, rows, MEMBERS, 1]);
    Work {
        source: collectives::source(Types::Bf16, Wire::Exact),
        launch: collectives::to_heads(rows, columns),
        arguments: [&tensors[..], &how].concat(),
        least: Least::of_bytes(2 * count, 2 * count),
    }
}

/// The way back adds to what is there.
fn to_tokens(gpu: &mut Gpu, rows: u32, columns: u32) -> Work {
    let mut operands = Operands::new(gpu);
    let count = u64::from(rows) * u64::from(columns);
    let tensors = [operands.bf16(u64::from(MEMBERS) * count), operands.bf16(count)];
    let how = sizes([rows, columns, columns, 0, columns, 0, rows, MEMBERS, 1]);
    Work {
        source: collectives::source(Types::Bf16, Wire::Exact),
        launch: collectives::to_tokens(rows, columns),
        arguments: [&tensors[..], &how].concat(),
        least: Least::of_bytes(2 * 2 * count, 2 * count),
    }
}
