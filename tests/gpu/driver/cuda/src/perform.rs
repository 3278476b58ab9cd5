//! Does one piece of work: on the emulator's memory, with a look at who else touches the same bytes.

use crate::clock::{Clock, Stamp};
use crate::driver::Driver;
use crate::failure::{Answer, illegal};
use crate::submit::{Declared, Range};
use crate::work::{Copy, HostFunction, Kernel, Place, Set, Work};
use gpu::{Access, Fault, Permits};

/// Who works: a stream, or a branch of a graph.
pub struct Actor {
    pub lane: usize,
    pub clock: Clock,
    /// In words.
    pub place: String,
}

impl Driver {
    /// A host function is given back, for whoever can call it without holding the driver.
    pub fn perform(
        &mut self,
        work: &Work,
        declared: &Declared,
        actor: &mut Actor,
    ) -> Answer<Option<HostFunction>> {
        let what = format!("{} {}", work.name(), actor.place);
        let faulty = |fault: Fault| format!("{what}: {}", fault.0);
        let accesses = match work {
            Work::Kernel(kernel) => {
                self.permit(kernel.device, declared);
                self.launch_kernel(kernel, declared)
                    .or_else(|fault| illegal(format!("{}, {}", fault.0, actor.place)))?
            }
            Work::Product(product) => {
                product.perform(&mut self.device.0).or_else(|fault| illegal(faulty(fault)))?
            }
            Work::Copy(copy) => self.move_rows(copy).or_else(|fault| illegal(faulty(fault)))?,
            Work::Set(set) => self.set_rows(set).or_else(|fault| illegal(faulty(fault)))?,
            Work::Free(address) => {
                let bytes = self.memory.allocations.get(address).map_or(0, |allocation| allocation.bytes);
                vec![Access { start: *address, end: address + bytes as u64, write: true }]
            }
            Work::Record(ticket) => {
                ticket.finish(actor.clock.clone());
                return Ok(None);
            }
            Work::Wait(ticket) => {
                if let Some(done) = ticket.done() {
                    actor.clock.join(&done.clock);
                }
                return Ok(None);
            }
            Work::HostFunction(function) => return Ok(Some(*function)),
            Work::Graph(_) | Work::Communication(_) => {
                return illegal(format!("{what}: it takes several steps"));
            }
        };
        let stamp = actor.clock.tick(actor.lane, what.as_str().into());
        if let (Work::Product(_) | Work::Copy(_) | Work::Set(_), Some(ranges)) = (work, &declared.ranges) {
            self.within(&accesses, ranges, &what)?;
        }
        for access in accesses {
            self.note(access, &actor.clock, &stamp)?;
        }
        if let Work::Free(address) = work {
            self.free(*address);
        }
        Ok(None)
    }

    /// Looks for an access of the same bytes that has no order with this one.
    pub fn note(&mut self, access: Access, clock: &Clock, stamp: &Stamp) -> Answer {
        let Access { start, end, write } = access;
        let Err(conflict) = self.history.access((start, end), write, clock, stamp) else {
            return Ok(());
        };
        let first = conflict.start.max(start);
        illegal(format!(
            "race: {} {} {} bytes from {} on, which {} {}, with no event or synchronisation that puts one before the other",
            stamp.what,
            if write { "writes" } else { "reads" },
            conflict.end.min(end) - first,
            self.memory.describe(first),
            conflict.other.what,
            conflict.verb,
        ))
    }

    /// Says which memory a kernel may touch: what was declared, else all that its device reaches.
    fn permit(&mut self, device: usize, declared: &Declared) {
        for (&start, allocation) in &self.memory.allocations {
            let reached =
                allocation.device == device || self.contexts[device].peers.contains(&allocation.device);
            let permits = match &declared.ranges {
                _ if !reached => Some(Permits::default()),
                Some(ranges) => Some(Permits::new(&inside(ranges, start, allocation.bytes))),
                None => None,
            };
            self.device.0.permit(start, permits);
        }
    }

    fn launch_kernel(&mut self, kernel: &Kernel, declared: &Declared) -> Result<Vec<Access>, Fault> {
        let Kernel { module, name, grid, block, shared_bytes, .. } = *kernel;
        let launch = gpu::Launch { kernel: name, grid, block, shared_bytes };
        let accesses = self.device.0.launch_packed(module, &launch, kernel.packed.clone())?;
        let by_word = !self.settings.checking;
        Ok(match &declared.ranges {
            // An emulator that doesn't check doesn't note what is touched, so that the program's word stands for it.
            Some(ranges) if by_word => ranges.iter().map(access).collect(),
            _ => accesses,
        })
    }

    fn move_rows(&mut self, copy: &Copy) -> Result<Vec<Access>, Fault> {
        let mut accesses = vec![];
        for row in 0..copy.height {
            let (to, from) = (row * copy.to_pitch, row * copy.from_pitch);
            let width = copy.width as u64;
            for (place, offset, write) in [(&copy.from, from, false), (&copy.to, to, true)] {
                if let Place::Device(start) | Place::Pinned(start) = place {
                    let start = start + offset as u64;
                    accesses.push(Access { start, end: start + width, write });
                }
            }
            self.move_row(copy, to, from)?;
        }
        Ok(accesses)
    }

    fn move_row(&mut self, copy: &Copy, to: usize, from: usize) -> Result<(), Fault> {
        let width = copy.width;
        if let (Place::Device(target), Place::Device(source)) = (&copy.to, &copy.from) {
            let (target, source) = (target + to as u64, source + from as u64);
            if target.abs_diff(source) < width as u64 {
                return Err(Fault(
                    "the bytes from which it copies and those to which it does overlap".into(),
                ));
            }
            return self.device.0.copy(target, source, width);
        }
        let bytes: &[u8] = match &copy.from {
            Place::Device(source) => self.device.0.read(source + from as u64, width)?,
            Place::Staged(rows) => &rows[from..from + width],
            Place::Pinned(source) | Place::Pageable(source) => {
                self.check_host(*source, &copy.from)?;
                // SAFETY: pinned memory that is still there, or pageable memory of a call that hasn't returned.
                unsafe { std::slice::from_raw_parts((source + from as u64) as *const u8, width) }
            }
        };
        match &copy.to {
            Place::Device(target) => {
                let bytes = bytes.to_vec();
                self.device.0.write(target + to as u64, &bytes)
            }
            Place::Pinned(target) | Place::Pageable(target) => {
                let (target, bytes) = ((target + to as u64) as *mut u8, bytes.to_vec());
                self.check_host(target as u64, &copy.to)?;
                // SAFETY: as above.
                unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), width) };
                Ok(())
            }
            Place::Staged(_) => Err(Fault("nothing is copied to a staging buffer".into())),
        }
    }

    /// Pinned memory must still be there when the copy runs.
    fn check_host(&self, address: u64, place: &Place) -> Result<(), Fault> {
        match place {
            Place::Pinned(_) if !matches!(self.memory.is_pinned(address, 1), Ok(true)) => Err(Fault(
                format!("the pinned memory at {address:#x} has been freed before the copy has run"),
            )),
            _ => Ok(()),
        }
    }

    fn set_rows(&mut self, set: &Set) -> Result<Vec<Access>, Fault> {
        let row: Vec<u8> = set.pattern.iter().copied().cycle().take(set.width).collect();
        let mut accesses = vec![];
        for number in 0..set.height {
            let start = set.to + (number * set.pitch) as u64;
            self.device.0.write(start, &row)?;
            accesses.push(Access { start, end: start + set.width as u64, write: true });
        }
        Ok(accesses)
    }

    /// Copies and products, too, keep to the ranges that the program has declared for them.
    pub fn within(&self, accesses: &[Access], ranges: &[Range], what: &str) -> Answer {
        for access in accesses {
            let Some((start, allocation)) = self.memory.allocation(access.start, 0) else {
                continue;
            };
            let permits = Permits::new(&inside(ranges, start, allocation.bytes));
            let (first, last) = ((access.start - start) as usize, (access.end - start) as usize);
            if !permits.allow(first, last, access.write) {
                let verb = if access.write { "writes" } else { "reads" };
                return illegal(format!(
                    "{what} {verb} bytes {first}..{last} of {}, of which it may {permits}",
                    allocation.name
                ));
            }
        }
        Ok(())
    }
}

/// The ranges that lie in an allocation, by their offsets in it.
fn inside(ranges: &[Range], start: u64, bytes: usize) -> Vec<(usize, usize, bool, bool)> {
    let within =
        |range: &&Range| range.address >= start && range.address + range.bytes <= start + bytes as u64;
    let offsets = |range: &Range| {
        let first = (range.address - start) as usize;
        (first, first + range.bytes as usize, range.reads(), range.writes())
    };
    ranges.iter().filter(within).map(offsets).collect()
}

fn access(range: &Range) -> Access {
    Access { start: range.address, end: range.address + range.bytes, write: range.writes() }
}
