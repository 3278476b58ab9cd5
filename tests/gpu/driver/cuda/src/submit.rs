//! How work enters a stream: it's captured, or queued behind what the default stream has to wait for.

use crate::call::Session;
use crate::driver::Driver;
use crate::failure::{Answer, Error, refuse};
use crate::settings::Eagerness;
use crate::stream::Ticket;
use crate::work::{Copy, Operation, Place, Work};
use std::sync::Arc;

/// What the program has told of its next work.
#[derive(Clone, Default)]
pub struct Declared {
    /// The device memory that the work may touch.
    pub ranges: Option<Arc<[Range]>>,
    /// The bytes of each argument of a kernel.
    pub arguments: Option<Vec<u32>>,
}

/// A range of device memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub address: u64,
    pub bytes: u64,
    /// 1 to read it, 2 to write it, 3 for both.
    pub access: u32,
    pub padding: u32,
}

impl Range {
    pub fn reads(&self) -> bool {
        self.access & 1 != 0
    }

    pub fn writes(&self) -> bool {
        self.access & 2 != 0
    }
}

impl Session {
    /// Gives a stream something to do.
    pub fn submit(&mut self, stream: u64, work: Work) -> Answer {
        let declared = self.declared.remove(&stream).unwrap_or_default();
        if self.streams[&stream].capture.is_some() {
            return self.capture_work(stream, work, declared);
        }
        self.refuse_hidden_capture(stream)?;
        self.join_default_stream(stream);
        self.push(stream, work, declared);
        match self.settings.eagerness {
            Eagerness::Lazy => Ok(()),
            Eagerness::Eager => self.settle(),
        }
    }

    /// Runs what the stream has been given, up to now, and has the host know of it.
    pub fn synchronize(&mut self, streams: &[u64]) -> Answer {
        let tickets: Vec<Arc<Ticket>> = streams.iter().map(|&stream| self.mark(stream)).collect();
        self.wait_for(&tickets)
    }

    /// Runs what these wait for, and has the host know of it.
    pub fn wait_for(&mut self, tickets: &[Arc<Ticket>]) -> Answer {
        self.run_until(|_| tickets.iter().all(|ticket| ticket.done().is_some()))?;
        for done in tickets.iter().filter_map(|ticket| ticket.done()) {
            self.host_saw(&done.clock.clone());
        }
        Ok(())
    }

    /// All streams of a device.
    pub fn streams_of(&self, device: usize) -> Vec<u64> {
        self.streams.iter().filter(|(_, stream)| stream.device == device).map(|(&number, _)| number).collect()
    }

    /// Copies from or to the host's memory as CUDA documents: pageable memory is read at once and has been written when
    /// the call returns; pinned memory is read and written when the copy runs.
    pub fn copy(&mut self, stream: u64, mut copy: Copy) -> Answer {
        if copy.width == 0 || copy.height == 0 {
            return Ok(());
        }
        self.check_copy(&copy)?;
        let pageable = |place: &Place| matches!(place, Place::Pageable(_));
        let waits = pageable(&copy.to);
        if (waits || pageable(&copy.from)) && self.streams[&stream].capture.is_some() {
            return refuse(
                Error::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                "a copy from or to pageable memory of the host is captured",
            );
        }
        if let Place::Pageable(from) = copy.from {
            let mut rows = vec![0; copy.width * copy.height];
            for (row, bytes) in rows.chunks_exact_mut(copy.width).enumerate() {
                if !crate::kernel::peek(from + (row * copy.from_pitch) as u64, bytes) {
                    return refuse(
                        Error::CUDA_ERROR_INVALID_VALUE,
                        format!("the {} bytes at {from:#x} of the host aren't the program's", copy.width),
                    );
                }
            }
            (copy.from, copy.from_pitch) = (Place::Staged(rows), copy.width);
        }
        self.submit(stream, Work::Copy(copy))?;
        if waits { self.synchronize(&[stream]) } else { Ok(()) }
    }

    /// The same with the host waiting as it does for copies without a stream of their own.
    pub fn copy_now(&mut self, copy: Copy) -> Answer {
        self.refuse_unsafe_call()?;
        let stream = self.contexts[self.current()?].default_stream;
        let waits = !matches!((&copy.from, &copy.to), (Place::Device(_), Place::Device(_)));
        let staged = matches!(copy.from, Place::Pageable(_)) && matches!(copy.to, Place::Device(_));
        if staged {
            self.join_default_stream(stream);
            self.synchronize(&[stream])?;
        }
        self.copy(stream, copy)?;
        if waits && !staged { self.synchronize(&[stream]) } else { Ok(()) }
    }
}

impl Driver {
    fn push(&mut self, stream: u64, work: Work, declared: Declared) {
        let operation = Operation { work, host: self.host.clone(), declared };
        let stream = self.stream_mut(stream);
        stream.used = true;
        stream.queue.push_back(operation);
    }

    /// A ticket that is done once the stream has done what it has been given.
    pub fn mark(&mut self, stream: u64) -> Arc<Ticket> {
        let ticket = Arc::new(Ticket::default());
        self.push(stream, Work::Record(ticket.clone()), Declared::default());
        ticket
    }

    pub fn host_saw(&mut self, clock: &crate::clock::Clock) {
        Arc::make_mut(&mut self.host).join(clock);
    }

    /// The default stream and the blocking streams of a context wait for each other.
    pub fn join_default_stream(&mut self, stream: u64) {
        let Some(joining) = self.streams.get(&stream).filter(|stream| stream.blocking) else {
            return;
        };
        let default = self.contexts[joining.device].default_stream;
        let device = joining.device;
        let earlier: Vec<u64> = self
            .streams
            .iter()
            .filter(|(other, state)| {
                let pair = if stream == default { **other != default } else { **other == default };
                pair && state.used && state.blocking && state.device == device && state.capture.is_none()
            })
            .map(|(&other, _)| other)
            .collect();
        for other in earlier {
            let ticket = self.mark(other);
            self.push(stream, Work::Wait(ticket), Declared::default());
        }
    }

    pub fn is_idle(&self) -> bool {
        self.streams.values().all(|stream| stream.queue.is_empty() && !stream.busy)
    }

    /// A copy's memory must be there when it's submitted.
    fn check_copy(&self, copy: &Copy) -> Answer {
        let rows = [(&copy.to, copy.to_pitch), (&copy.from, copy.from_pitch)];
        for (place, pitch) in rows {
            if copy.height > 1 && pitch < copy.width {
                let text = format!("rows of {} bytes, {pitch} bytes apart", copy.width);
                return refuse(Error::CUDA_ERROR_INVALID_VALUE, text);
            }
            let bytes = (copy.height - 1) * pitch + copy.width;
            if let Place::Device(address) = place
                && self.memory.allocation(*address, bytes).is_none()
            {
                return refuse(
                    Error::CUDA_ERROR_INVALID_VALUE,
                    format!(
                        "a copy of {bytes} bytes at {}, which no allocation has",
                        self.memory.describe(*address)
                    ),
                );
            }
        }
        Ok(())
    }

    /// Declared ranges must be of memory that there is.
    pub fn check_ranges(&self, ranges: &[Range]) -> Answer {
        let strange = ranges.iter().find(|range| {
            range.access == 0
                || range.access > 3
                || self.memory.allocation(range.address, range.bytes as usize).is_none()
        });
        match strange {
            None => Ok(()),
            Some(range) => refuse(
                Error::CUDA_ERROR_INVALID_VALUE,
                format!("the declared {range:?} isn't within one allocation, or its access isn't 1, 2 or 3"),
            ),
        }
    }

    /// Which kind of the host's memory an address is.
    pub fn host_place(&self, address: u64, bytes: usize) -> Answer<Place> {
        let pinned = self.memory.is_pinned(address, bytes)?;
        Ok(if pinned { Place::Pinned(address) } else { Place::Pageable(address) })
    }
}
