//! Events: what they stand for, and how the host waits for them.

use super::give;
use crate::call::{Session, entries};
use crate::driver::Handle;
use crate::failure::{Answer, Error, refuse};
use crate::stream::{Event, Recorded, Ticket};
use crate::work::Work;
use std::sync::Arc;

const BLOCKING_SYNC: u32 = 1;
const DISABLE_TIMING: u32 = 2;

entries! {
    Context fn cuEventCreate(event: *mut Handle, flags: u32) |session| {
        if flags & !(BLOCKING_SYNC | DISABLE_TIMING) != 0 {
            return refuse(Error::CUDA_ERROR_NOT_SUPPORTED, format!("an event with flags {flags:#x}"));
        }
        let (number, device) = (session.handle(), session.current()?);
        session.events.insert(number, Event { device, timing: flags & DISABLE_TIMING == 0, latest: None });
        give(event, number as Handle)
    }

    Context fn cuEventDestroy_v2(event: Handle) |session| {
        session.event(event)?;
        session.events.remove(&(event as u64));
        Ok(())
    }

    Context fn cuEventRecord(event: Handle, stream: Handle) |session| { session.record(event, stream) }

    Context fn cuEventRecordWithFlags(event: Handle, stream: Handle, flags: u32) |session| {
        if flags != 0 {
            return refuse(Error::CUDA_ERROR_NOT_SUPPORTED, format!("a record with flags {flags:#x}"));
        }
        session.record(event, stream)
    }

    Context fn cuEventSynchronize(event: Handle) |session| {
        match session.ticket(event)? {
            Some(ticket) => session.wait_for(&[ticket]),
            None => Ok(()),
        }
    }

    Context fn cuEventQuery(event: Handle) |session| {
        let Some(ticket) = session.ticket(event)? else {
            return Ok(());
        };
        if ticket.done().is_none() {
            session.run_some()?;
        }
        match ticket.done() {
            Some(done) => {
                session.host_saw(&done.clock.clone());
                Ok(())
            }
            None => Err(Error::CUDA_ERROR_NOT_READY.into()),
        }
    }

    Context fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) |session| {
        give(milliseconds, session.elapsed(start, end)?)
    }
}

impl Session {
    fn record(&mut self, event: Handle, stream: Handle) -> Answer {
        let stream = self.stream(stream)?;
        let (device, name) = (self.streams[&stream].device, self.streams[&stream].name.clone());
        let of_event = self.event(event)?.device;
        if of_event != device {
            return refuse(
                Error::CUDA_ERROR_INVALID_HANDLE,
                format!("an event of device {of_event} is recorded on {name}"),
            );
        }
        let recorded = if self.streams[&stream].capture.is_some() {
            self.capture_record(stream)?
        } else {
            let ticket = Arc::new(Ticket::default());
            self.submit(stream, Work::Record(ticket.clone()))?;
            Recorded::Ticket(ticket)
        };
        self.event(event)?.latest = Some(recorded);
        Ok(())
    }

    /// What the event was last recorded as; none if it never was.
    fn ticket(&mut self, event: Handle) -> Answer<Option<Arc<Ticket>>> {
        match &self.event(event)?.latest {
            None => Ok(None),
            Some(Recorded::Ticket(ticket)) => Ok(Some(ticket.clone())),
            Some(Recorded::Captured { .. }) => {
                refuse(Error::CUDA_ERROR_CAPTURED_EVENT, "the event has been recorded in a capture")
            }
        }
    }

    fn elapsed(&mut self, start: Handle, end: Handle) -> Answer<f32> {
        let mut times = vec![];
        for event in [start, end] {
            if !self.event(event)?.timing {
                return refuse(Error::CUDA_ERROR_INVALID_HANDLE, "the event was made without timing");
            }
            let Some(ticket) = self.ticket(event)? else {
                return refuse(Error::CUDA_ERROR_INVALID_HANDLE, "the event has never been recorded");
            };
            times.push(ticket.done().ok_or(Error::CUDA_ERROR_NOT_READY)?.at);
        }
        let (start, end) = (times[0], times[1]);
        let seconds =
            |from: std::time::Instant, to: std::time::Instant| to.duration_since(from).as_secs_f32();
        Ok(1e3 * if end >= start { seconds(start, end) } else { -seconds(end, start) })
    }
}
