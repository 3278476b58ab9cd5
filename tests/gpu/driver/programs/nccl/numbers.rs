//! Numbers of each rank in each type, and what their sums must be.

use super::{BFLOAT, FLOAT, INT8};
use gpu::compare::{from_bf16, to_bf16};

/// The bytes of a number.
pub fn size(element: u32) -> usize {
    match element {
        INT8 => 1,
        BFLOAT => 2,
        FLOAT => 4,
        _ => 8,
    }
}

/// The numbers of a rank. Their sums depend on the order.
pub fn numbers(element: u32, rank: usize, count: usize) -> Vec<u8> {
    let value = |index: usize| ((index * 7 + rank * 13) % 101) as f64 / 8.0 - 3.0;
    let mut bytes = Vec::with_capacity(count * size(element));
    for value in (0..count).map(value) {
        match element {
            INT8 => bytes.push(value as i8 as u8),
            BFLOAT => bytes.extend(to_bf16(value as f32).to_le_bytes()),
            FLOAT => bytes.extend((value as f32 * 0.1).to_le_bytes()),
            _ => bytes.extend((value * 0.1).to_le_bytes()),
        }
    }
    bytes
}

/// The sums of the numbers of all ranks, in their order.
pub fn sums(element: u32, ranks: usize, count: usize) -> Vec<u8> {
    let all: Vec<Vec<u8>> = (0..ranks).map(|rank| numbers(element, rank, count)).collect();
    let sum = |index: usize| {
        let parts = all.iter().map(|bytes| &bytes[index * size(element)..][..size(element)]);
        match element {
            INT8 => vec![parts.fold(0u8, |sum, bytes| sum.wrapping_add(bytes[0]))],
            BFLOAT => {
                let value = |bytes: &[u8]| from_bf16(u16::from_le_bytes([bytes[0], bytes[1]]));
                to_bf16(parts.map(value).reduce(|sum, value| sum + value).unwrap_or_default())
                    .to_le_bytes()
                    .to_vec()
            }
            FLOAT => {
                let value = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("4 bytes"));
                parts.map(value).reduce(|sum, value| sum + value).unwrap_or_default().to_le_bytes().to_vec()
            }
            _ => {
                let value = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().expect("8 bytes"));
                parts.map(value).reduce(|sum, value| sum + value).unwrap_or_default().to_le_bytes().to_vec()
            }
        }
    };
    (0..count).flat_map(sum).collect()
}

pub fn equal(what: &str, found: &[u8], expected: &[u8]) -> Result<(), String> {
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None if found.len() == expected.len() => Ok(()),
        None => Err(format!("{what}: {} bytes, not {}", found.len(), expected.len())),
        Some(at) => Err(format!("{what}: byte {at} of {} is wrong", expected.len())),
    }
}
