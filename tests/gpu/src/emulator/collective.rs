//! Instructions of a whole warp: what comes out once all lanes of the mask have arrived.

use super::tensor;
use super::thread::Collective;

/// The numbers that the translator gives to kinds and modes.
pub mod kind {
    pub const SYNC: u32 = 0;
    pub const SHUFFLE: u32 = 1;
    pub const VOTE: u32 = 2;
    pub const MATCH: u32 = 3;
    pub const REDUCE: u32 = 4;
    pub const LOAD_MATRIX: u32 = 5;
    pub const MULTIPLY: u32 = 6;

    pub const BF16: u32 = 0;
    pub const TF32: u32 = 1;
}

/// Writes every lane's outputs. `lanes` holds the lanes of the mask; `rows` is what `ldmatrix` has read.
pub fn complete(lanes: &mut [Option<&mut Collective>; 32], rows: &[[u8; 16]; 32]) -> Result<(), String> {
    let Some(first) = lanes.iter().flatten().next() else {
        return Ok(());
    };
    let (kind, mode, mask) = (first.kind, first.mode, first.mask);
    let mut inputs = [[0; 12]; 32];
    for (input, lane) in inputs.iter_mut().zip(lanes.iter().map(Option::as_deref)) {
        if let Some(lane) = lane {
            *input = lane.input;
        }
    }
    let outputs = match kind {
        kind::SHUFFLE => shuffle(mode, mask, &inputs)?,
        kind::VOTE => [vote(mode, mask, &inputs); 32],
        kind::MATCH => matching(mode, mask, &inputs),
        kind::REDUCE => [reduce(mode, mask, &inputs); 32],
        kind::LOAD_MATRIX => tensor::load_matrix((mode & 7) as usize, mode & 8 != 0, rows),
        kind::MULTIPLY => tensor::multiply(mode, &inputs),
        _ => [[0; 4]; 32],
    };
    for (lane, output) in lanes.iter_mut().zip(outputs) {
        if let Some(lane) = lane {
            lane.output = output;
        }
    }
    Ok(())
}

fn members(mask: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |lane| mask >> lane & 1 == 1)
}

/// `shfl.sync`: value, lane or distance, and the clamp with the segments of the warp.
fn shuffle(mode: u32, mask: u32, inputs: &[[u32; 12]; 32]) -> Result<[[u32; 4]; 32], String> {
    let mut outputs = [[0; 4]; 32];
    for lane in members(mask) {
        let [_, b, c, ..] = inputs[lane];
        let (b, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
        let here = lane as u32;
        let highest = (here & segment) | (clamp & !segment);
        let lowest = here & segment;
        let source = match mode {
            0 => here.wrapping_sub(b),
            1 => here + b,
            2 => here ^ b,
            _ => lowest | (b & !segment),
        };
        let within = if mode == 0 { source as i32 >= highest as i32 } else { source <= highest };
        let source = if within { source } else { here };
        if mask >> source & 1 == 0 {
            return Err(format!(
                "the shuffle takes the value of lane {source}, which isn't in the mask {mask:#x}"
            ));
        }
        outputs[lane] = [inputs[source as usize][0], u32::from(within), 0, 0];
    }
    Ok(outputs)
}

fn vote(mode: u32, mask: u32, inputs: &[[u32; 12]; 32]) -> [u32; 4] {
    let ballot = members(mask).fold(0, |ballot, lane| ballot | u32::from(inputs[lane][0] != 0) << lane);
    let result = match mode {
        0 => u32::from(ballot == mask),
        1 => u32::from(ballot != 0),
        2 => u32::from(ballot == mask || ballot == 0),
        _ => ballot,
    };
    [result, 0, 0, 0]
}

fn matching(mode: u32, mask: u32, inputs: &[[u32; 12]; 32]) -> [[u32; 4]; 32] {
    let mut outputs = [[0; 4]; 32];
    for lane in members(mask) {
        let same = members(mask)
            .filter(|&other| inputs[other][..2] == inputs[lane][..2])
            .fold(0, |same, other| same | 1 << other);
        outputs[lane] = match mode {
            0 => [same, 0, 0, 0],
            _ if same == mask => [mask, 1, 0, 0],
            _ => [0, 0, 0, 0],
        };
    }
    outputs
}

/// `redux.sync`: modes from 8 on are signed.
fn reduce(mode: u32, mask: u32, inputs: &[[u32; 12]; 32]) -> [u32; 4] {
    let values = members(mask).map(|lane| inputs[lane][0]);
    let (least, most) =
        (|a: u32, b: u32| (a as i32).min(b as i32), |a: u32, b: u32| (a as i32).max(b as i32));
    let result = match mode {
        0 | 8 => values.reduce(u32::wrapping_add),
        1 => values.min(),
        2 => values.max(),
        3 => values.reduce(|a, b| a & b),
        4 => values.reduce(|a, b| a | b),
        5 => values.reduce(|a, b| a ^ b),
        9 => values.reduce(|a, b| least(a, b) as u32),
        _ => values.reduce(|a, b| most(a, b) as u32),
    };
    [result.unwrap_or(0), 0, 0, 0]
}
