//! Counter-based normal numbers: element i of a named tensor depends on seed, name and i alone.

/// The key of the tensor called `name` under `seed`.
pub(super) fn key(seed: u64, name: &str) -> u64 {
    split_mix(seed ^ fnv1a(name.as_bytes()))
}

/// Element `index` of the tensor with this key, from the standard normal distribution (Box and Muller 1958).
pub(super) fn normal(key: u64, index: u64) -> f64 {
    const UNIT: f64 = 1.0 / (1u64 << 53) as f64;
    let first = split_mix(key ^ index.wrapping_mul(2));
    let second = split_mix(key ^ index.wrapping_mul(2).wrapping_add(1));
    // Half a step up keeps the logarithm finite.
    let radius = ((first >> 11) as f64 + 0.5) * UNIT;
    let angle = (second >> 11) as f64 * UNIT;
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// SplitMix64 (Steele, Lea and Flood 2014), as a hash of its state.
fn split_mix(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// FNV-1a with 64 bits (Fowler, Noll and Vo).
fn fnv1a(bytes: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, fold)
}
