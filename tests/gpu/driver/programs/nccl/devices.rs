//! Two devices of one process: in groups of one thread, and with a thread each.

use super::numbers::{equal, numbers, sums};
use super::{Config, FLOAT, Handle, INVALID_ARGUMENT, Id, SUM, expect_code, expect_words, nccl, ok};
use crate::setup::text;
use cudarc::driver::{CudaContext, CudaStream, result};
use std::ptr::null_mut;
use std::sync::Arc;

const COUNT: usize = 1000;

/// A device and its numbers.
struct Device {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    rank: usize,
    memory: u64,
}

impl Device {
    fn new(rank: usize) -> Result<Device, String> {
        let context = CudaContext::new(rank).map_err(text)?;
        let stream = context.new_stream().map_err(text)?;
        let memory = unsafe { result::malloc_sync(4 * COUNT) }.map_err(text)?;
        let device = Device { context, stream, rank, memory };
        device.fill()?;
        Ok(device)
    }

    fn fill(&self) -> Result<(), String> {
        unsafe { result::memcpy_htod_sync(self.memory, &numbers(FLOAT, self.rank, COUNT)) }.map_err(text)?;
        self.context.synchronize().map_err(text)
    }

    fn come(&self, id: Id, communicator: &mut Handle) -> Result<(), String> {
        self.context.bind_to_thread().map_err(text)?;
        let code = unsafe { (nccl().init)(communicator, 2, id, self.rank as i32, &Config::new(i32::MIN)) };
        ok("ncclCommInitRankConfig", code)
    }

    fn reduce(&self, memory: u64, communicator: Handle) -> u32 {
        let stream = self.stream.cu_stream().cast();
        unsafe { (nccl().all_reduce)(memory, memory, COUNT, FLOAT, SUM, communicator, stream) }
    }

    fn expect_sums(&self) -> Result<(), String> {
        self.context.bind_to_thread().map_err(text)?;
        self.stream.synchronize().map_err(text)?;
        let mut found = vec![0u8; 4 * COUNT];
        unsafe { result::memcpy_dtoh_sync(&mut found, self.memory) }.map_err(text)?;
        equal("all-reduce", &found, &sums(FLOAT, 2, COUNT))
    }
}

fn new_id() -> Result<Id, String> {
    let mut id = Id([0; 128]);
    ok("ncclGetUniqueId", unsafe { (nccl().unique_id)(&mut id) })?;
    Ok(id)
}

/// Both come in a group of one thread, and sum in a group.
pub fn in_a_group() -> Result<(), String> {
    let (library, id) = (nccl(), new_id()?);
    let devices = [Device::new(0)?, Device::new(1)?];
    let mut communicators = [null_mut(); 2];
    ok("ncclGroupStart", unsafe { (library.group_start)() })?;
    for (device, communicator) in devices.iter().zip(&mut communicators) {
        device.come(id, communicator)?;
    }
    ok("ncclGroupEnd", unsafe { (library.group_end)() })?;
    let code = devices[0].reduce(devices[1].memory, communicators[0]);
    expect_code("memory of the other device", code, INVALID_ARGUMENT)?;
    expect_words(null_mut(), &["it would read byte 0 of allocation 2", "on device 0"])?;
    ok("ncclGroupStart", unsafe { (library.group_start)() })?;
    for (device, communicator) in devices.iter().zip(communicators) {
        ok("ncclAllReduce", device.reduce(device.memory, communicator))?;
    }
    ok("ncclGroupEnd", unsafe { (library.group_end)() })?;
    devices.iter().try_for_each(Device::expect_sums)?;
    communicators.iter().try_for_each(|each| ok("ncclCommDestroy", unsafe { (library.destroy)(*each) }))
}

/// A thread each comes and sums again and again.
pub fn with_a_thread_each() -> Result<(), String> {
    let id = new_id()?;
    let rank = |rank: usize| {
        let (device, mut communicator) = (Device::new(rank)?, null_mut());
        device.come(id, &mut communicator)?;
        for _ in 0..20 {
            device.fill()?;
            ok("ncclAllReduce", device.reduce(device.memory, communicator))?;
            device.expect_sums()?;
        }
        ok("ncclCommDestroy", unsafe { (nccl().destroy)(communicator) })
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| rank(1));
        rank(0).and(other.join().map_err(|_| "a thread has panicked".to_owned())?)
    })
}
