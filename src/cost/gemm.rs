//! Time of matrix products: whole tiles on whole waves, slower for short inner dimensions.

use crate::ops::Linear;
use crate::profile::DeviceModel;
use crate::units::{ElementType, Seconds};

/// Smallest inner dimension that a product split along it leaves to one block (estimate).
const LEAST_SPLIT: u64 = 512;

/// Arithmetic time of `product` with the best of the device's tiles, launch not counted.
///
/// A tile of r × c outputs takes 2·r·c·k operations on one multiprocessor; ⌈tiles / multiprocessors⌉ waves run one
/// behind the other. Where tiles are fewer than multiprocessors, the inner dimension is split.
pub fn arithmetic(product: &Linear, device: &DeviceModel) -> Seconds {
    let multiprocessors = u64::from(device.multiprocessors.value.max(1));
    // Rows that are no whole 16 bytes keep 16-bit products off the matrix units, or on older kernels for them (NVIDIA,
    // Matrix Multiplication Background User's Guide).
    let (element, share) = match &device.gemm.unaligned_share {
        _ if is_aligned(product) => (product.element, 1.0),
        Some(share) => (product.element, share.value),
        None => (ElementType::Fp32, 1.0),
    };
    let efficiency = match element {
        ElementType::Fp8 => &device.gemm.efficiency_fp8,
        ElementType::Fp32 => device.gemm.efficiency_fp32.as_ref().unwrap_or(&device.gemm.efficiency),
        _ => &device.gemm.efficiency,
    };
    let sustained = device.peak(element).0 / multiprocessors as f64 * efficiency.value * share;
    let intensity = |(rows, columns): (u32, u32)| {
        let (rows, columns) = (f64::from(rows), f64::from(columns));
        rows * columns / (rows + columns)
    };
    let tiles = &device.gemm.tiles.value;
    let best = tiles.iter().copied().map(intensity).fold(0.0, f64::max);
    let half_intensity = device.gemm.half_intensity.value;
    let reached = |intensity: f64| intensity / (intensity + half_intensity);
    let time = tiles
        .iter()
        .map(|&tile| {
            let (rows, columns) = (u64::from(tile.0), u64::from(tile.1));
            let count = product.rows.div_ceil(rows) * product.columns.div_ceil(columns) * product.batch;
            let splits = (multiprocessors / count.max(1)).clamp(1, (product.depth / LEAST_SPLIT).max(1));
            let depth = product.depth.div_ceil(splits) as f64;
            let waves = (count * splits).div_ceil(multiprocessors) as f64;
            let rate = sustained * reached(intensity(tile)) / reached(best) * depth
                / (depth + device.gemm.half_depth.value);
            waves * 2.0 * rows as f64 * columns as f64 * depth / rate
        })
        .fold(f64::INFINITY, f64::min);
    Seconds(if time.is_finite() { time } else { 0.0 })
}

/// Whether rows of factors and product are whole 16 bytes; types wider than 16 bits do not care.
fn is_aligned(product: &Linear) -> bool {
    let size = product.element.size();
    let is_whole = |width: u64| (width * size).is_multiple_of(16);
    size > 2 || (is_whole(product.columns) && (product.over_tokens || is_whole(product.depth)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::device_model;

    /// The head of GPT-2 124M on an H200, measured with both vocabularies (`cost_models/facts/h200-sxm.json`, 8,192
    /// tokens): 7,475 and 895 µs.
    #[test]
    fn an_unpadded_vocabulary_takes_as_much_longer_as_was_measured() {
        let (device, _) = device_model("h200-sxm").unwrap();
        let head = |columns: u64| Linear {
            batch: 1,
            rows: 8192,
            columns,
            depth: 768,
            element: ElementType::Bf16,
            over_tokens: false,
        };
        let ratio = arithmetic(&head(50_257), &device).0 / arithmetic(&head(50_304), &device).0;
        assert!((4.0..9.0).contains(&ratio), "{ratio}");
        // Types of 32 bits do not care.
        let wide = |columns: u64| Linear { element: ElementType::Fp32, ..head(columns) };
        let ratio = arithmetic(&wide(50_257), &device).0 / arithmetic(&wide(50_304), &device).0;
        assert!((0.99..1.01).contains(&ratio), "{ratio}");
    }
}
