//! Whether ranks find room on a device before any memory is taken.

use crate::execute::device::{Device, FreeMemory, Need};
use crate::execute::error::{ExecuteError, Holder};
use crate::program::placing::{Placing, Space};
use crate::units::Bytes;

/// What ranks take of one kind of memory.
struct Taking {
    holder: Holder,
    /// Of the arenas, with the holes between buffers.
    extent: Bytes,
    /// Of the buffers that are held at once.
    live: Bytes,
    beside: Bytes,
    available: Bytes,
}

/// That ranks of these `placings`, or rank `alone`, find room on `device`, with what their `needs` take beside the arenas.
///
/// # Errors
/// [`ExecuteError::Memory`] or [`ExecuteError::MemoryOfOne`] where they do not.
pub(super) fn check(
    device: &dyn Device,
    alone: Option<usize>,
    placings: &[&Placing],
    needs: &[Need],
) -> Result<(), ExecuteError> {
    let on_device = |bytes: fn(&Space) -> Bytes| placings.iter().map(|placing| bytes(&placing.device)).sum();
    let on_host = |bytes: fn(&Space) -> Bytes| placings.iter().map(|placing| bytes(&placing.host)).sum();
    let (extent, live) = (|space: &Space| space.extent, |space: &Space| space.live);
    let [device_extent, device_live, host_extent, host_live]: [Bytes; 4] =
        [on_device(extent), on_device(live), on_host(extent), on_host(live)];
    let host = |available| Taking {
        holder: Holder::Host,
        extent: host_extent,
        live: host_live,
        beside: Bytes::ZERO,
        available,
    };
    let takings = match device.free_memory() {
        FreeMemory::Shared(free) => vec![Taking {
            holder: Holder::Machine,
            extent: device_extent + host_extent,
            live: device_live + host_live,
            ..host(free)
        }],
        FreeMemory::Apart { device: free, host: free_on_host } => vec![
            Taking {
                holder: Holder::Gpu,
                extent: device_extent,
                live: device_live,
                beside: device.beside(needs),
                available: free,
            },
            host(free_on_host),
        ],
    };
    let lacking = takings.into_iter().find(|taking| taking.extent + taking.beside > taking.available);
    let Some(Taking { holder, extent, live, beside, available }) = lacking else { return Ok(()) };
    Err(match alone {
        Some(rank) => ExecuteError::MemoryOfOne { rank, extent, live, beside, holder, available },
        None => {
            ExecuteError::Memory { ranks: placings.len() as u64, extent, live, beside, holder, available }
        }
    })
}
