//! Types of numbers, and their sums in the order of ranks.

use gpu::compare::{from_bf16, to_bf16};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
    Bf16,
}

/// By NCCL's numbers.
const ELEMENTS: [(Element, u64, &str); 10] = [
    (Element::I8, 1, "i8"),
    (Element::U8, 1, "u8"),
    (Element::I32, 4, "i32"),
    (Element::U32, 4, "u32"),
    (Element::I64, 8, "i64"),
    (Element::U64, 8, "u64"),
    (Element::F16, 2, "f16"),
    (Element::F32, 4, "f32"),
    (Element::F64, 8, "f64"),
    (Element::Bf16, 2, "bf16"),
];

impl Element {
    pub fn new(number: u64) -> Option<Element> {
        ELEMENTS.get(usize::try_from(number).ok()?).map(|known| known.0)
    }

    pub const fn number(self) -> u64 {
        self as u64
    }

    pub const fn size(self) -> u64 {
        ELEMENTS[self as usize].1
    }

    pub const fn name(self) -> &'static str {
        ELEMENTS[self as usize].2
    }

    /// Number by number, the first part first. Those of 16 bits are summed in f32 and rounded once.
    pub fn sum(self, parts: &[Vec<u8>]) -> Vec<u8> {
        match self {
            Element::I8 => fold(parts, i8::from_le_bytes, i8::wrapping_add, i8::to_le_bytes),
            Element::U8 => fold(parts, u8::from_le_bytes, u8::wrapping_add, u8::to_le_bytes),
            Element::I32 => fold(parts, i32::from_le_bytes, i32::wrapping_add, i32::to_le_bytes),
            Element::U32 => fold(parts, u32::from_le_bytes, u32::wrapping_add, u32::to_le_bytes),
            Element::I64 => fold(parts, i64::from_le_bytes, i64::wrapping_add, i64::to_le_bytes),
            Element::U64 => fold(parts, u64::from_le_bytes, u64::wrapping_add, u64::to_le_bytes),
            Element::F32 => fold(parts, f32::from_le_bytes, |sum, value| sum + value, f32::to_le_bytes),
            Element::F64 => fold(parts, f64::from_le_bytes, |sum, value| sum + value, f64::to_le_bytes),
            Element::F16 => fold(
                parts,
                |bytes| from_f16(u16::from_le_bytes(bytes)),
                |sum, value| sum + value,
                |sum| to_f16(sum).to_le_bytes(),
            ),
            Element::Bf16 => fold(
                parts,
                |bytes| from_bf16(u16::from_le_bytes(bytes)),
                |sum, value| sum + value,
                |sum| to_bf16(sum).to_le_bytes(),
            ),
        }
    }
}

fn fold<T, const BYTES: usize>(
    parts: &[Vec<u8>],
    read: impl Fn([u8; BYTES]) -> T,
    add: impl Fn(T, T) -> T,
    write: impl Fn(T) -> [u8; BYTES],
) -> Vec<u8> {
    let Some((first, others)) = parts.split_first() else {
        return vec![];
    };
    let mut sums: Vec<T> = first.as_chunks().0.iter().map(|bytes| read(*bytes)).collect();
    for part in others {
        let values = part.as_chunks().0.iter().map(|bytes| read(*bytes));
        sums = sums.into_iter().zip(values).map(|(sum, value)| add(sum, value)).collect();
    }
    sums.into_iter().flat_map(write).collect()
}

/// Between the exponents of f32 and those of f16.
const BIAS: u32 = 127 - 15;
/// The smallest f16 above zero is one of this many parts of 1.
const PARTS: f32 = (1 << 24) as f32;

fn from_f16(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (u32::from(bits >> 15) << 31, u32::from(bits >> 10 & 31), bits & 0x3ff);
    let magnitude = match exponent {
        0 => (f32::from(fraction) / PARTS).to_bits(),
        31 => 0x7f80_0000 | u32::from(fraction) << 13,
        _ => (exponent + BIAS) << 23 | u32::from(fraction) << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// Rounds to the nearest f16, ties to even.
fn to_f16(value: f32) -> u16 {
    /// Half-way between the largest f16 and what would follow it.
    const LARGEST: u32 = 0x477f_f000;
    /// The smallest f16 that has all of its digits.
    const NORMAL: u32 = (BIAS + 1) << 23;
    let sign = (value.to_bits() >> 16) as u16 & 0x8000;
    let magnitude = value.to_bits() & 0x7fff_ffff;
    sign | match magnitude {
        _ if value.is_nan() => 0x7e00,
        LARGEST.. => 0x7c00,
        NORMAL.. => {
            let moved = magnitude - (BIAS << 23);
            ((moved + 0xfff + (moved >> 13 & 1)) >> 13) as u16
        }
        _ => (f32::from_bits(magnitude) * PARTS).round_ties_even() as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_is_itself_after_a_way_through_f32() {
        for bits in 0..=u16::MAX {
            let value = from_f16(bits);
            if !value.is_nan() {
                assert_eq!(to_f16(value), bits, "{value}");
            }
        }
        assert!(from_f16(to_f16(f32::NAN)).is_nan());
    }

    #[test]
    fn an_f16_is_the_nearest() {
        let expected = [
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65519.0, 0x7bff),
            (65520.0, 0x7c00),
            (2049.0, 0x6800),
            (2051.0, 0x6802),
            (1e-9, 0),
            (0.5 / PARTS, 0),
            (1.5 / PARTS, 2),
        ];
        for (value, bits) in expected {
            assert_eq!(to_f16(value), bits, "{value}");
        }
    }

    #[test]
    fn sums_are_rounded_once() {
        // Each step rounded for itself would stay at 256.
        let parts = [256.0f32, 1.0, 1.0].map(|value| to_bf16(value).to_le_bytes().to_vec());
        assert_eq!(Element::Bf16.sum(&parts), to_bf16(258.0).to_le_bytes());
        let parts = [2048.0f32, 1.0, 1.0].map(|value| to_f16(value).to_le_bytes().to_vec());
        assert_eq!(Element::F16.sum(&parts), to_f16(2050.0).to_le_bytes());
        let parts = [200u8, 100].map(|value| vec![value]);
        assert_eq!(Element::U8.sum(&parts), [44]);
    }
}
