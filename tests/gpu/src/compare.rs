//! What the cases share: reproducible values, bf16 conversions, and the comparison with an f64 reference.

/// The relative L2 error allowed for results stored as f32.
pub const F32: f64 = 1e-5;
/// The relative L2 error allowed for results stored as bf16.
pub const BF16: f64 = 1e-2;

/// Rounds to the nearest bf16, ties to even.
pub fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((u64::from(bits) + 0x7fff + u64::from(bits >> 16 & 1)) >> 16) as u16
}

pub fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// A small seeded generator (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// Uniform in [-1, 1).
    pub fn uniform(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    pub fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.uniform()).collect()
    }
}

/// Compares with the reference: the relative L2 error of the whole is within `tolerance`, and no row is off alone
/// (at most ten times the median row's error, or a tenth of the tolerance). Values that aren't finite must be equal.
pub fn close(what: &str, actual: &[f32], expected: &[f64], row: usize, tolerance: f64) -> Result<(), String> {
    if actual.len() != expected.len() || row == 0 {
        return Err(format!("{what}: {} values, {} expected, rows of {row}", actual.len(), expected.len()));
    }
    for (index, (&actual, &expected)) in actual.iter().zip(expected).enumerate() {
        let same = f64::from(actual) == expected || (actual.is_nan() && expected.is_nan());
        let finite = actual.is_finite() && expected.is_finite();
        if !same && !finite {
            let (row, column) = (index / row, index % row);
            return Err(format!("{what}: {actual} where {expected} is expected, row {row}, column {column}"));
        }
    }
    let squares = |actual: &[f32], expected: &[f64]| {
        actual.iter().zip(expected).filter(|(_, expected)| expected.is_finite()).fold(
            (0.0f64, 0.0f64),
            |(error, size), (&actual, &expected)| {
                (error + (f64::from(actual) - expected).powi(2), size + expected * expected)
            },
        )
    };
    let ratio = |(error, size): (f64, f64)| {
        if error == 0.0 { 0.0 } else { (error / size.max(f64::MIN_POSITIVE)).sqrt() }
    };
    let total = squares(actual, expected);
    let whole = ratio(total);
    if whole > tolerance {
        return Err(format!("{what}: relative L2 error {whole:.3e}, allowed {tolerance:.0e}"));
    }
    // What rounding leaves in a row near zero says nothing about that row: it's measured by the average row's size.
    let rows = actual.len().div_ceil(row).max(1) as f64;
    let errors: Vec<f64> = actual
        .chunks(row)
        .zip(expected.chunks(row))
        .map(|(actual, expected)| {
            let (error, size) = squares(actual, expected);
            ratio((error, size.max(total.1 / rows)))
        })
        .collect();
    let mut sorted = errors.clone();
    sorted.sort_by(f64::total_cmp);
    // A row alone is judged by the whole.
    let middle = |at: usize| sorted.get(at).copied().unwrap_or(0.0);
    let median = (middle(sorted.len().saturating_sub(1) / 2) + middle(sorted.len() / 2)) / 2.0;
    let allowed = (median * 10.0).max(tolerance / 10.0);
    match errors.iter().position(|&error| error > allowed) {
        Some(row) => Err(format!(
            "{what}: row {row} has relative error {:.3e}, the median row {median:.3e}, allowed {allowed:.1e}",
            errors[row]
        )),
        None => Ok(()),
    }
}

pub fn close_f32(what: &str, actual: &[f32], expected: &[f64], row: usize) -> Result<(), String> {
    close(what, actual, expected, row, F32)
}

/// Exact equality, for integers and for results that must not differ at all.
pub fn equal<T: PartialEq + std::fmt::Debug>(what: &str, actual: &[T], expected: &[T]) -> Result<(), String> {
    if actual.len() != expected.len() {
        return Err(format!("{what}: {} values, {} expected", actual.len(), expected.len()));
    }
    match actual.iter().zip(expected).position(|(actual, expected)| actual != expected) {
        Some(at) => Err(format!("{what}: {:?} at {at}, expected {:?}", actual[at], expected[at])),
        None => Ok(()),
    }
}
