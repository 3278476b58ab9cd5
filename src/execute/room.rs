//! Whether ranks find room on a device before any memory is taken.

use std::slice;

use crate::execute::comm::Peers;
use crate::execute::device::{Device, FreeMemory, Need};
use crate::execute::error::{ExecuteError, Holder};
use crate::execute::limits;
use crate::execute::ranks::rank::Rank;
use crate::execute::run::Run;
use crate::execute::threads;
use crate::execute::weights::memory_of_saving;
use crate::execute::world::World;
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

/// Memory of this process that ranks take beside their arenas.
pub(super) struct Beside {
    /// To fill and to read the arenas, whole parameters at a time.
    memory: Bytes,
    /// That, the threads' stacks, and what the system and small things take.
    addresses: Bytes,
}

/// Small things: what is known of a run's steps, files' buffers.
const SMALL: Bytes = Bytes(24 << 20);

impl Beside {
    /// The memory that `ranks` of `run` take.
    pub fn of(run: &Run, ranks: &[&Rank]) -> Self {
        // Each rank fills its own parameters, and needs them as numbers, as bytes and in pieces.
        let largest = |rank: &&Rank| {
            let tensors = rank.units.iter().flat_map(|unit| &unit.tensors.tensors);
            tensors.map(|tensor| 3 * size_of::<f64>() * tensor.elements()).max().unwrap_or_default()
        };
        let filling = Bytes(ranks.iter().map(largest).sum::<usize>() as u64);
        let memory = match run.settings.peers {
            Peers::Present => filling.max(memory_of_saving(&run.model, run.workload.state_type())),
            // What a rank alone has is not saved.
            Peers::Absent => filling,
        };
        let streams = |rank: &&Rank| rank.placement.streams.iter().filter(|list| !list.is_empty()).count();
        let threads = ranks.iter().map(streams).sum::<usize>() + run.settings.cores.max(ranks.len());
        let stacks = Bytes(threads as u64 * threads::ADDRESSES.0);
        Self { memory, addresses: memory + stacks + SMALL }
    }
}

/// Whose room is looked for.
#[derive(Clone, Copy)]
pub(super) enum Seekers<'a> {
    /// All ranks of a run, in this process.
    All,
    /// A rank whose peers are absent.
    One(usize),
    /// The ranks on this host, of which this process is one.
    Host(&'a World),
}

/// That ranks of these `placings` find room on `device`, with what they take beside the arenas: of the device by their
/// `needs`, of this process as `process` says.
///
/// # Errors
/// [`ExecuteError::Memory`] or [`ExecuteError::MemoryOfOne`] where they do not.
pub(super) fn check(
    device: &dyn Device,
    seekers: Seekers<'_>,
    placings: &[&Placing],
    (needs, process): (&[Need], &Beside),
) -> Result<(), ExecuteError> {
    let on_device = |bytes: fn(&Space) -> Bytes| placings.iter().map(|placing| bytes(&placing.device)).sum();
    let on_host = |bytes: fn(&Space) -> Bytes| placings.iter().map(|placing| bytes(&placing.host)).sum();
    let (extent, live) = (|space: &Space| space.extent, |space: &Space| space.live);
    let [device_extent, device_live, host_extent, host_live]: [Bytes; 4] =
        [on_device(extent), on_device(live), on_host(extent), on_host(live)];
    let free_memory = device.free_memory();
    let is_shared = matches!(free_memory, FreeMemory::Shared(_));
    let memory = process.memory + if is_shared { device.beside(needs) } else { Bytes::ZERO };
    let own = [device_extent, device_live, host_extent, host_live, memory];
    let [device_extent, device_live, host_extent, host_live, memory] = match seekers {
        Seekers::Host(world) => {
            let all = world.all_gather(&own)?;
            let on_host = || world.own.on_host.iter().map(|rank| &all[*rank]);
            std::array::from_fn(|of| on_host().map(|taken| taken[of]).sum())
        }
        Seekers::All | Seekers::One(_) => own,
    };
    let host = |available| Taking {
        holder: Holder::Host,
        extent: host_extent,
        live: host_live,
        beside: memory,
        available,
    };
    // A GPU is of this process's ranks: of all, or each of one.
    let on_gpu = |bytes: fn(&Space) -> Bytes| {
        let each = placings.iter().map(|placing| bytes(&placing.device));
        match free_memory {
            FreeMemory::Each { .. } => each.max().unwrap_or_default(),
            FreeMemory::Shared(_) | FreeMemory::Apart { .. } => each.sum(),
        }
    };
    let beside_arenas = match free_memory {
        FreeMemory::Each { .. } => {
            needs.iter().map(|need| device.beside(slice::from_ref(need))).max().unwrap_or_default()
        }
        FreeMemory::Shared(_) | FreeMemory::Apart { .. } => device.beside(needs),
    };
    let mut takings = match free_memory {
        FreeMemory::Shared(free) => vec![Taking {
            holder: Holder::Machine,
            extent: device_extent + host_extent,
            live: device_live + host_live,
            ..host(free)
        }],
        FreeMemory::Apart { device: free, host: free_on_host }
        | FreeMemory::Each { device: free, host: free_on_host } => vec![
            Taking {
                holder: Holder::Gpu,
                extent: on_gpu(extent),
                live: on_gpu(live),
                beside: beside_arenas,
                available: free,
            },
            host(free_on_host),
        ],
    };
    // Of what this process may map, the last is the arenas' on the host.
    if let Some(left) = limits::addresses() {
        let [device_extent, device_live, host_extent, host_live, _] = own;
        let with_device = |device, host| if is_shared { device + host } else { host };
        let (extent, live) = (with_device(device_extent, host_extent), with_device(device_live, host_live));
        let beside = process.addresses;
        takings.push(Taking { holder: Holder::Limit, extent, live, beside, available: left });
    }
    let lacking = takings.into_iter().find(|taking| taking.extent + taking.beside > taking.available);
    let Some(Taking { holder, extent, live, beside, available }) = lacking else { return Ok(()) };
    let ranks = match seekers {
        Seekers::Host(world) if holder == Holder::Gpu => {
            let rank = world.own.rank;
            return Err(ExecuteError::MemoryOfOne { rank, extent, live, beside, holder, available });
        }
        Seekers::One(rank) => {
            return Err(ExecuteError::MemoryOfOne { rank, extent, live, beside, holder, available });
        }
        Seekers::All => placings.len(),
        Seekers::Host(world) => world.own.on_host.len(),
    };
    Err(ExecuteError::Memory { ranks: ranks as u64, extent, live, beside, holder, available })
}
