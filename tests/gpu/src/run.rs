//! Runs a case: on the emulator in three thread orders, compared bit for bit; on a real GPU twice, compared too.

use crate::cases::Case;
use crate::gpu::{Gpu, Order};

/// The orders and whether the checker looks for races and uninitialised reads in them.
pub const ORDERS: [(Order, bool); 3] =
    [(Order::Forward, true), (Order::Reversed, true), (Order::Random, false)];

/// Runs the case in the orders given (all of them, or one) and compares what it downloads.
pub fn run(gpu: &mut Gpu, case: &Case, orders: &[(Order, bool)]) -> Result<(), String> {
    compare_orders(gpu, orders, case.run)
}

/// The same for any function of the device.
pub fn compare_orders(
    gpu: &mut Gpu,
    orders: &[(Order, bool)],
    work: impl Fn(&mut Gpu) -> Result<(), String>,
) -> Result<(), String> {
    let mut first: Option<(Order, Vec<Vec<u8>>)> = None;
    for &(order, checking) in orders {
        gpu.restart(order, checking)?;
        let result = work(gpu);
        // What nothing wrote says more than a wrong value.
        gpu.unwritten().map_or(result, Err).map_err(|text| format!("order {order:?}: {text}"))?;
        let downloads = gpu.downloads();
        if downloads.is_empty() {
            return Err("the case downloads nothing".into());
        }
        match &first {
            None => first = Some((order, downloads)),
            Some((first, expected)) => differ(expected, &downloads)
                .map_err(|text| format!("orders {first:?} and {order:?} give different results: {text}"))?,
        }
    }
    Ok(())
}

fn differ(expected: &[Vec<u8>], actual: &[Vec<u8>]) -> Result<(), String> {
    if expected.len() != actual.len() {
        return Err(format!("{} and {} downloads", expected.len(), actual.len()));
    }
    for (number, (expected, actual)) in expected.iter().zip(actual).enumerate() {
        if expected.len() != actual.len() {
            return Err(format!("download {number} has {} and {} bytes", expected.len(), actual.len()));
        }
        if let Some(at) = (0..expected.len()).find(|&at| expected[at] != actual[at]) {
            return Err(format!("download {number} differs first at byte {at}"));
        }
    }
    Ok(())
}
