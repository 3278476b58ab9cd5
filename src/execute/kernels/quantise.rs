//! Saved activations as integers of 8 or 4 bits, with one f32 scale for each 256 elements.

use super::each::{each, inlined};
use crate::execute::element::{Element, Real};
use crate::execute::pool::{Pool, Rows};

/// Bits of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    Eight,
    Four,
}

/// Elements that share a scale.
const GROUP: usize = 256;
const SCALE_BYTES: usize = size_of::<f32>();

impl Bits {
    /// The greatest integer; the least is its negative.
    const fn greatest(self) -> f64 {
        match self {
            Self::Eight => 127.0,
            Self::Four => 7.0,
        }
    }

    const fn bytes_of(self, elements: usize) -> usize {
        match self {
            Self::Eight => elements,
            Self::Four => elements.div_ceil(2),
        }
    }

    /// Bytes of `elements` elements: integers, then scales.
    pub const fn bytes(self, elements: usize) -> usize {
        self.bytes_of(elements) + elements.div_ceil(GROUP) * SCALE_BYTES
    }
}

/// Integers of x / scale, to the nearest even, where scale is the group's greatest magnitude over the greatest
/// integer. Four-bit integers stand two in a byte, the first in the low half; scales are little-endian.
pub fn quantise<T: Element>(pool: Pool<'_>, bits: Bits, x: &[T], bytes: &mut [u8]) {
    assert_eq!(bytes.len(), bits.bytes(x.len()), "the bytes");
    let (integers, scales) = bytes.split_at_mut(bits.bytes_of(x.len()));
    let parts = (Rows(x, GROUP), Rows(integers, bits.bytes_of(GROUP)), Rows(scales, SCALE_BYTES));
    each!(pool, x.len().div_ceil(GROUP), 1, parts, |_, (x, integers, scales)| {
        let groups = x.0.chunks(GROUP).zip(integers.0.chunks_mut(bits.bytes_of(GROUP)));
        for ((x, integers), scale) in groups.zip(scales.0.as_chunks_mut::<SCALE_BYTES>().0) {
            let magnitude = x.iter().fold(T::Wide::ZERO, |most, x| most.max(x.wide().abs()));
            let step = (magnitude.to_f64() / bits.greatest()) as f32;
            *scale = step.to_le_bytes();
            let inverse = if step > 0.0 { T::Wide::ONE / T::Wide::of(f64::from(step)) } else { Real::ZERO };
            let integer = inlined!(|x: &T| (x.wide() * inverse).round().to_f64() as i8);
            match bits {
                Bits::Eight => {
                    integers.iter_mut().zip(x).for_each(|(byte, x)| *byte = integer(x).cast_unsigned());
                }
                Bits::Four => {
                    for (byte, pair) in integers.iter_mut().zip(x.chunks(2)) {
                        let half = |at: usize| pair.get(at).map_or(0, |x| integer(x).cast_unsigned() & 0xf);
                        *byte = half(0) | (half(1) << 4);
                    }
                }
            }
        }
    });
}

/// What [`quantise`] stored, as real numbers again.
pub fn dequantise<T: Element>(pool: Pool<'_>, bits: Bits, bytes: &[u8], x: &mut [T]) {
    assert_eq!(bytes.len(), bits.bytes(x.len()), "the bytes");
    let (integers, scales) = bytes.split_at(bits.bytes_of(x.len()));
    let groups = x.len().div_ceil(GROUP);
    let parts = (Rows(x, GROUP), Rows(integers, bits.bytes_of(GROUP)), Rows(scales, SCALE_BYTES));
    each!(pool, groups, 1, parts, |_, (x, integers, scales)| {
        let groups = x.0.chunks_mut(GROUP).zip(integers.0.chunks(bits.bytes_of(GROUP)));
        for ((x, integers), scale) in groups.zip(scales.0.as_chunks::<SCALE_BYTES>().0) {
            let scale = T::Wide::of(f64::from(f32::from_le_bytes(*scale)));
            let value = inlined!(|integer: i8| T::narrow(T::Wide::of(f64::from(integer)) * scale));
            match bits {
                Bits::Eight => {
                    x.iter_mut().zip(integers).for_each(|(x, byte)| *x = value(byte.cast_signed()));
                }
                Bits::Four => {
                    for (pair, byte) in x.chunks_mut(2).zip(integers) {
                        // Shifting right again copies the sign into the upper bits.
                        let halves = [(byte << 4).cast_signed() >> 4, byte.cast_signed() >> 4];
                        pair.iter_mut().zip(halves).for_each(|(x, half)| *x = value(half));
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::execute::kernels::trial::{random, threads};

    #[test]
    fn errors_are_at_most_half_a_step() {
        for (bits, steps) in [(Bits::Eight, 127.0), (Bits::Four, 7.0)] {
            for count in [1, 2, 255, 256, 257, 1001] {
                let x = random::<f32>(count, 1);
                let pool = Pool::Threads(threads());
                let mut bytes = vec![0; bits.bytes(count)];
                quantise(pool, bits, &x, &mut bytes);
                let mut back = vec![f32::NAN; count];
                dequantise(pool, bits, &bytes, &mut back);
                for (x, back) in x.chunks(GROUP).zip(back.chunks(GROUP)) {
                    let most = x.iter().fold(0f32, |most, x| most.max(x.abs()));
                    let bound = most / steps * 0.5001;
                    assert!(
                        x.iter().zip(back).all(|(x, back)| (x - back).abs() <= bound),
                        "{bits:?} {count}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_greatest_and_zero_come_back() {
        let x = [bf16::from_f32(-3.5), bf16::ZERO, bf16::from_f32(3.5)];
        for bits in [Bits::Eight, Bits::Four] {
            let mut bytes = vec![0; bits.bytes(3)];
            quantise(Pool::Serial, bits, &x, &mut bytes);
            let mut back = [bf16::NAN; 3];
            dequantise(Pool::Serial, bits, &bytes, &mut back);
            assert_eq!(back, x);
            quantise(Pool::Serial, bits, &[bf16::ZERO; 3], &mut bytes);
            dequantise(Pool::Serial, bits, &bytes, &mut back);
            assert_eq!(back, [bf16::ZERO; 3]);
        }
    }
}
