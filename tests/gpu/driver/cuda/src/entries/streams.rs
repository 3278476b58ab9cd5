//! Streams, and what the host calls in their order.

use super::give;
use crate::call::{Session, entries};
use crate::capture::Mode;
use crate::driver::Handle;
use crate::failure::{Answer, Error, refuse};
use crate::spoil::Spoil;
use crate::stream::Recorded;
use crate::work::{HostFunction, Work};
use std::ffi::c_void;

const NON_BLOCKING: u32 = 1;

entries! {
    Context fn cuStreamCreate(stream: *mut Handle, flags: u32) |session| {
        give(stream, session.create(flags, 0)?)
    }

    Context fn cuStreamCreateWithPriority(stream: *mut Handle, flags: u32, priority: i32) |session| {
        give(stream, session.create(flags, priority.clamp(-5, 0))?)
    }

    Context fn cuStreamDestroy_v2(stream: Handle) |session| {
        let number = session.stream(stream)?;
        session.refuse_captured(number, "a stream is destroyed while it's captured")?;
        if session.contexts.iter().any(|context| context.default_stream == number) {
            return refuse(Error::CUDA_ERROR_INVALID_HANDLE, "the default stream can't be destroyed");
        }
        session.stream_mut(number).destroyed = true;
        session.declared.remove(&number);
        Ok(())
    }

    Context fn cuStreamSynchronize(stream: Handle) |session| {
        let stream = session.stream(stream)?;
        session.refuse_captured(stream, "a stream is waited for while it's captured")?;
        session.refuse_hidden_capture(stream)?;
        session.join_default_stream(stream);
        session.synchronize(&[stream])
    }

    Context fn cuStreamQuery(stream: Handle) |session| {
        let stream = session.stream(stream)?;
        session.refuse_captured(stream, "a stream is asked whether it's done while it's captured")?;
        session.run_some()?;
        let state = &session.streams[&stream];
        if state.busy || !state.queue.is_empty() {
            return Err(Error::CUDA_ERROR_NOT_READY.into());
        }
        let clock = state.clock.clone();
        session.host_saw(&clock);
        Ok(())
    }

    Context fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: u32) |session| {
        let stream = session.stream(stream)?;
        if session.spoil.take_if(|spoil| *spoil == Spoil::Ignored).is_some() {
            return Ok(());
        }
        let Some(recorded) = session.event(event)?.latest.clone() else {
            return Ok(());
        };
        match recorded {
            Recorded::Ticket(ticket) if session.streams[&stream].capture.is_none() => {
                session.submit(stream, Work::Wait(ticket))
            }
            recorded => session.capture_wait(stream, &recorded),
        }
    }

    Context fn cuLaunchHostFunc(
        stream: Handle,
        function: Option<unsafe extern "C" fn(*mut c_void)>,
        data: *mut c_void,
    ) |session| {
        let stream = session.stream(stream)?;
        let function = function.ok_or(Error::CUDA_ERROR_INVALID_VALUE)?;
        session.submit(stream, Work::HostFunction(HostFunction { function, data }))
    }

    Context fn cuStreamGetFlags(stream: Handle, flags: *mut u32) |session| {
        let stream = session.stream(stream)?;
        give(flags, if session.streams[&stream].blocking { 0 } else { NON_BLOCKING })
    }

    Context fn cuStreamGetPriority(stream: Handle, priority: *mut i32) |session| {
        let stream = session.stream(stream)?;
        give(priority, session.streams[&stream].priority)
    }

    Context fn cuStreamGetCtx(stream: Handle, context: *mut Handle) |session| {
        let stream = session.stream(stream)?;
        give(context, crate::driver::context_handle(Some(session.streams[&stream].device)))
    }

    Context fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) |session| {
        let stream = session.stream(stream)?;
        let mode = [Mode::Global, Mode::ThreadLocal, Mode::Relaxed].get(mode as usize).copied();
        session.begin_capture(stream, mode.ok_or(Error::CUDA_ERROR_INVALID_VALUE)?)
    }

    Context fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) |session| {
        let stream = session.stream(stream)?;
        let captured = session.end_capture(stream)?;
        let number = session.handle();
        session.graphs.insert(number, captured);
        give(graph, number as Handle)
    }

    Context fn cuStreamIsCapturing(stream: Handle, status: *mut u32) |session| {
        let stream = session.stream(stream)?;
        let capture = session.streams[&stream].capture.and_then(|number| session.captures.get(&number));
        give(status, capture.map_or(0, |capture| if capture.invalid { 2 } else { 1 }))
    }
}

impl Session {
    fn create(&mut self, flags: u32, priority: i32) -> Answer<Handle> {
        if flags & !NON_BLOCKING != 0 {
            return Err(Error::CUDA_ERROR_INVALID_VALUE.into());
        }
        let device = self.current()?;
        let number = self.streams.values().filter(|stream| stream.device == device).count();
        let name = format!("stream {number} of device {device}");
        Ok(self.add_stream(name, device, flags & NON_BLOCKING == 0, priority) as Handle)
    }
}
