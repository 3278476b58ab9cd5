//! Counter-based normal numbers: element i of a named tensor depends on seed, name and i alone.

use crate::execute::kernels::dropout::mix;

/// The key of the tensor called `name` under `seed`.
pub(super) fn key(seed: u64, name: &str) -> u64 {
    mix(seed ^ fnv1a(name.as_bytes()))
}

/// Element `index` of the tensor with this key, from the standard normal distribution (Box and Muller 1958).
pub(super) fn normal(key: u64, index: u64) -> f64 {
    const UNIT: f64 = 1.0 / (1u64 << 53) as f64;
    let first = mix(key ^ index.wrapping_mul(2));
    let second = mix(key ^ index.wrapping_mul(2).wrapping_add(1));
    // Half a step up keeps the logarithm finite.
    let radius = ((first >> 11) as f64 + 0.5) * UNIT;
    let angle = (second >> 11) as f64 * UNIT;
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// FNV-1a with 64 bits (Fowler, Noll and Vo).
fn fnv1a(bytes: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, fold)
}
