//! Time of matrix products: whole tiles on whole waves, slower for short inner dimensions.

use crate::ops::Linear;
use crate::profile::DeviceModel;
use crate::units::Seconds;

/// Intensity (rows · columns / (rows + columns)) at which a tile reaches half of what the largest does; an
/// estimate from the spread between 64-wide and 256-wide tiles in published library sweeps.
const HALF_INTENSITY: f64 = 8.0;

/// Smallest inner dimension that a product split along it leaves to one block (estimate).
const LEAST_SPLIT: u64 = 512;

/// Arithmetic time of `product` with the best of the device's tiles, launch not counted.
///
/// A tile of r × c outputs takes 2·r·c·k operations on one multiprocessor; ⌈tiles / multiprocessors⌉ waves run one
/// behind the other. Where tiles are fewer than multiprocessors, the inner dimension is split.
pub fn arithmetic(product: &Linear, device: &DeviceModel) -> Seconds {
    let multiprocessors = u64::from(device.multiprocessors.value.max(1));
    let peak = device.peak(product.element).0 / multiprocessors as f64;
    let sustained = peak * device.gemm.efficiency.value;
    let intensity = |(rows, columns): (u32, u32)| {
        let (rows, columns) = (f64::from(rows), f64::from(columns));
        rows * columns / (rows + columns)
    };
    let tiles = &device.gemm.tiles.value;
    let best = tiles.iter().copied().map(intensity).fold(0.0, f64::max);
    let share = |intensity: f64| intensity / (intensity + HALF_INTENSITY);
    let time = tiles
        .iter()
        .map(|&tile| {
            let (rows, columns) = (u64::from(tile.0), u64::from(tile.1));
            let count = product.rows.div_ceil(rows) * product.columns.div_ceil(columns) * product.batch;
            let splits = (multiprocessors / count.max(1)).clamp(1, (product.depth / LEAST_SPLIT).max(1));
            let depth = product.depth.div_ceil(splits) as f64;
            let waves = (count * splits).div_ceil(multiprocessors) as f64;
            let rate = sustained * share(intensity(tile)) / share(best) * depth
                / (depth + device.gemm.half_depth.value);
            waves * 2.0 * rows as f64 * columns as f64 * depth / rate
        })
        .fold(f64::INFINITY, f64::min);
    Seconds(if time.is_finite() { time } else { 0.0 })
}
