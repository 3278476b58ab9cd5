//! Device memory and the host's pinned memory: who owns what, and how much is left.

use crate::driver::Driver;
use crate::failure::{Answer, Error, refuse};
use std::alloc::Layout;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Memory {
    /// Device memory by its address.
    pub allocations: BTreeMap<u64, Allocation>,
    /// Pinned memory of the host by its address.
    pub pinned: BTreeMap<u64, Pinned>,
    /// Physical memory by its handle.
    pub physical: BTreeMap<u64, Physical>,
    /// Ranges of addresses by where they begin.
    pub reserved: BTreeMap<u64, Reserved>,
    count: u64,
}

pub struct Allocation {
    pub device: usize,
    pub bytes: usize,
    /// In words.
    pub name: String,
    /// It is physical memory that is mapped.
    pub is_mapped: bool,
}

pub struct Physical {
    pub device: usize,
    pub bytes: usize,
    /// It goes once no range has it any more.
    pub is_released: bool,
}

pub struct Reserved {
    pub bytes: usize,
    /// The physical memory that is mapped to all of it.
    pub physical: Option<u64>,
}

pub struct Pinned {
    pub bytes: usize,
    /// Of memory that the driver has allocated; other memory was the program's and only registered.
    pub layout: Option<Layout>,
}

/// Pinned memory begins at a page, as the driver's does.
const PAGE: usize = 4096;

impl Memory {
    /// The allocation that has all of these bytes.
    pub fn allocation(&self, address: u64, bytes: usize) -> Option<(u64, &Allocation)> {
        let (&start, allocation) = self.allocations.range(..=address).next_back()?;
        let end = (address - start).checked_add(bytes as u64)?;
        (end <= allocation.bytes as u64 && (end > 0 || bytes == 0)).then_some((start, allocation))
    }

    /// Whether these bytes of the host are pinned; an error if only some of them are.
    pub fn is_pinned(&self, address: u64, bytes: usize) -> Answer<bool> {
        let end = address.saturating_add(bytes as u64);
        let over = self.pinned.range(..end.max(address + 1)).next_back();
        match over.map(|(&start, pinned)| (start, start + pinned.bytes as u64)) {
            Some((first, last)) if first <= address && end <= last && address < last => Ok(true),
            Some((_, last)) if last > address => refuse(
                Error::CUDA_ERROR_INVALID_VALUE,
                format!("only some of the {bytes} bytes at {address:#x} of the host are pinned"),
            ),
            _ => Ok(false),
        }
    }

    fn used(&self, device: usize) -> usize {
        let plain = self.allocations.values().filter(|one| one.device == device && !one.is_mapped);
        let physical = self.physical.values().filter(|one| one.device == device);
        plain.map(|one| one.bytes).chain(physical.map(|one| one.bytes)).sum()
    }

    /// Where an address lies, in words.
    pub fn describe(&self, address: u64) -> String {
        if let Some((start, allocation)) = self.allocation(address, 0) {
            return format!("byte {} of {}", address - start, allocation.name);
        }
        match self.pinned.range(..=address).next_back() {
            Some((start, pinned)) if address < start + pinned.bytes as u64 => {
                format!("byte {} of {} pinned bytes of the host", address - start, pinned.bytes)
            }
            _ => format!("address {address:#x}"),
        }
    }
}

impl Driver {
    /// The bytes that a device still has.
    pub fn free_memory(&self, device: usize) -> usize {
        self.settings.memory.saturating_sub(self.memory.used(device))
    }

    pub fn allocate(&mut self, device: usize, bytes: usize) -> Answer<u64> {
        if bytes == 0 {
            return refuse(Error::CUDA_ERROR_INVALID_VALUE, "an allocation of no bytes");
        }
        if bytes > self.free_memory(device) {
            return Err(Error::CUDA_ERROR_OUT_OF_MEMORY.into());
        }
        let name = self.name_of_next(device, bytes);
        let address = self.device.0.allocate(&name, bytes);
        self.memory.allocations.insert(address, Allocation { device, bytes, name, is_mapped: false });
        Ok(address)
    }

    pub fn name_of_next(&mut self, device: usize, bytes: usize) -> String {
        self.memory.count += 1;
        format!("allocation {} ({bytes} bytes of device {device})", self.memory.count)
    }

    pub fn free(&mut self, address: u64) {
        if let Some(allocation) = self.memory.allocations.remove(&address) {
            self.device.0.free(address);
            self.history.forget(address, address + allocation.bytes as u64);
        }
    }

    /// Memory of the host that copies read and write when they run, filled with what means nothing.
    pub fn allocate_pinned(&mut self, bytes: usize) -> Answer<u64> {
        let layout = Layout::from_size_align(bytes, PAGE).ok().filter(|_| bytes > 0);
        let layout = layout.ok_or(Error::CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: the layout has a size.
        let start = unsafe { std::alloc::alloc(layout) };
        if start.is_null() {
            return Err(Error::CUDA_ERROR_OUT_OF_MEMORY.into());
        }
        // SAFETY: just allocated with this size.
        unsafe { start.write_bytes(0xf5, bytes) };
        self.memory.pinned.insert(start as u64, Pinned { bytes, layout: Some(layout) });
        Ok(start as u64)
    }
}
