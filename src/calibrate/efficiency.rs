//! Fits the share of a device's peak that its products reach, and the depth at which half of that is lost.

use crate::calibrate::observe::median;
use crate::cost::gemm;
use crate::ops::Linear;
use crate::profile::DeviceModel;

/// Depths that half of the rate may be lost at, to choose from.
const HALF_DEPTHS: [f64; 13] =
    [0.0, 25.0, 50.0, 75.0, 100.0, 125.0, 150.0, 200.0, 250.0, 300.0, 400.0, 500.0, 600.0];

/// The efficiency and the half depth under which the formula of products is nearest to `products` and the seconds that
/// these took, all else as in `model`; nothing of no products. They are all in one type.
pub fn of_products(model: &DeviceModel, products: &[(Linear, f64)]) -> Option<(f64, f64)> {
    let fits = HALF_DEPTHS.map(|half_depth| {
        let shares = shares(model, half_depth, products);
        let efficiency = median(shares.clone());
        let spread: f64 = shares.iter().map(|share| (share / efficiency).ln().abs()).sum();
        (efficiency, half_depth, spread)
    });
    let best = fits.into_iter().min_by(|one, other| one.2.total_cmp(&other.2))?;
    (!products.is_empty()).then_some((best.0, best.1))
}

/// Of each of `products`, the share of the peak that it reached beside what its shape costs.
pub fn shares(model: &DeviceModel, half_depth: f64, products: &[(Linear, f64)]) -> Vec<f64> {
    let mut model = model.clone();
    model.gemm.half_depth.value = half_depth;
    model.gemm.efficiency.value = 1.0;
    model.gemm.efficiency_fp32 = None;
    products.iter().map(|(product, seconds)| gemm::arithmetic(product, &model).0 / seconds).collect()
}
