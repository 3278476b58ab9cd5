//! What a driver asks of the emulator: memory by its address, and launches with packed parameters.

use super::memory::{Byte, Memory, Range};
use super::{Emulator, Permits, geometry};
use crate::fault::{Fault, fault};
use crate::launch::Launch;
use crate::plain;

/// Bytes of device memory that a launch has read or written. Bytes that it has done both to count as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub start: u64,
    pub end: u64,
    pub write: bool,
}

impl Emulator {
    /// Device memory that nothing has written; its address is never given again.
    pub fn allocate(&mut self, name: &str, bytes: usize) -> u64 {
        let mut range = Range::new(plain::unwritten(bytes), Byte::Unwritten, 1);
        name.clone_into(&mut range.name);
        Memory::address(self.machine.memory.add(range))
    }

    /// Whoever touches it from now on touches memory of no bytes.
    pub fn free(&mut self, address: u64) {
        if let Some((buffer, _)) = self.machine.memory.place(address, 0) {
            let range = self.machine.memory.buffer(buffer);
            let name = format!("{}, which has been freed", range.name);
            *range = Range { name, ..Range::new(vec![], Byte::Unwritten, 1) };
        }
    }

    /// These bytes; an error if no allocation has all of them, or if nothing has written one.
    pub fn read(&mut self, address: u64, bytes: usize) -> Result<&[u8], Fault> {
        let (buffer, offset) = self.place(address, bytes)?;
        let checking = self.machine.checking;
        let range = self.machine.memory.buffer(buffer);
        let states = &range.states[offset..offset + bytes];
        match states.iter().position(|state| *state == Byte::Unwritten) {
            Some(at) if checking => {
                fault(format!("byte {} of {} has never been written", offset + at, range.name))
            }
            _ => Ok(&range.bytes[offset..offset + bytes]),
        }
    }

    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let (buffer, offset) = self.place(address, bytes.len())?;
        let range = self.machine.memory.buffer(buffer);
        range.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        range.states[offset..offset + bytes.len()].fill(Byte::Written);
        Ok(())
    }

    /// A copy of what has been written and what hasn't.
    pub fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Result<(), Fault> {
        let (source, offset) = self.place(from, bytes)?;
        let range = self.machine.memory.buffer(source);
        let (copied, states) =
            (range.bytes[offset..offset + bytes].to_vec(), range.states[offset..offset + bytes].to_vec());
        let (target, offset) = self.place(to, bytes)?;
        let range = self.machine.memory.buffer(target);
        range.bytes[offset..offset + bytes].copy_from_slice(&copied);
        range.states[offset..offset + bytes].copy_from_slice(&states);
        Ok(())
    }

    /// Whether one allocation has all of these bytes.
    pub fn has(&self, address: u64, bytes: usize) -> bool {
        self.machine.memory.place(address, bytes).is_some()
    }

    fn place(&self, address: u64, bytes: usize) -> Result<(usize, usize), Fault> {
        let text =
            || format!("the {bytes} bytes at {address:#x} aren't within one allocation of device memory");
        self.machine.memory.place(address, bytes).ok_or_else(|| Fault(text()))
    }

    /// Says what of an allocation the next launch may touch: all, or what is permitted.
    pub fn permit(&mut self, address: u64, permits: Option<Permits>) {
        if let Some((buffer, _)) = self.machine.memory.place(address, 0) {
            self.machine.memory.buffer(buffer).permits = permits;
        }
    }

    /// Whether a launch has a shape that the device takes.
    pub fn check(&self, module: usize, launch: &Launch) -> Result<(), Fault> {
        geometry(self.frame(module, launch.kernel)?, launch)
    }

    /// The names of a module's kernels.
    pub fn kernels(&self, module: usize) -> impl Iterator<Item = &str> {
        self.programs
            .get(module)
            .into_iter()
            .flat_map(|program| &program.frames)
            .map(|frame| frame.name.as_str())
    }

    /// Runs a launch on all memory, as far as it is permitted. A checking emulator says what it has touched.
    pub fn launch_packed(
        &mut self,
        module: usize,
        launch: &Launch,
        packed: Vec<u8>,
    ) -> Result<Vec<Access>, Fault> {
        let granule = self.frame(module, launch.kernel)?.granule;
        for range in self.machine.memory.buffers() {
            range.granule = granule;
        }
        let first_block = self.machine.first_block;
        let result = self.run(module, launch, packed);
        let mut accesses = vec![];
        for (buffer, range) in self.machine.memory.buffers().iter_mut().enumerate() {
            let base = Memory::address(buffer);
            for touch in range.histories.touches(first_block, granule) {
                let (start, end) =
                    (base + touch.start as u64, base + touch.end.min(range.bytes.len()) as u64);
                accesses.push(Access { start, end, write: touch.write });
            }
            range.histories.clear();
        }
        result.map(|()| accesses)
    }
}
