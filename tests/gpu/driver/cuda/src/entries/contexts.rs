//! Primary contexts, which of them a thread works in, and whose memory they reach.

use super::give;
use crate::call::entries;
use crate::driver::{Handle, context_handle, current, pop_current, push_current, set_current};
use crate::failure::Error;

entries! {
    Initialised fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: i32) |session| {
        let device = session.ordinal(device)?;
        session.contexts[device].holders += 1;
        give(context, context_handle(Some(device)))
    }

    Initialised fn cuDevicePrimaryCtxRelease_v2(device: i32) |session| {
        let device = session.ordinal(device)?;
        match session.contexts[device].holders {
            0 => return Err(Error::CUDA_ERROR_INVALID_CONTEXT.into()),
            1 if session.broken.is_none() => {
                let streams = session.streams_of(device);
                session.synchronize(&streams)?;
            }
            _ => {}
        }
        session.contexts[device].holders -= 1;
        Ok(())
    }

    Initialised fn cuDevicePrimaryCtxSetFlags_v2(device: i32, _flags: u32) |session| {
        session.ordinal(device).map(drop)
    }

    Initialised fn cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, active: *mut i32) |session| {
        let device = session.ordinal(device)?;
        give(flags, 0)?;
        give(active, i32::from(session.contexts[device].holders > 0))
    }

    Initialised fn cuCtxGetCurrent(context: *mut Handle) |_session| { give(context, context_handle(current())) }

    Initialised fn cuCtxSetCurrent(context: Handle) |session| {
        set_current(session.context(context)?);
        Ok(())
    }

    Initialised fn cuCtxPushCurrent_v2(context: Handle) |session| {
        push_current(session.context(context)?);
        Ok(())
    }

    Initialised fn cuCtxPopCurrent_v2(context: *mut Handle) |_session| {
        let popped = pop_current().ok_or(Error::CUDA_ERROR_INVALID_CONTEXT)?;
        if context.is_null() { Ok(()) } else { give(context, context_handle(popped)) }
    }

    Context fn cuCtxGetDevice(device: *mut i32) |session| { give(device, session.current()? as i32) }

    Context fn cuCtxGetApiVersion(_context: Handle, version: *mut u32) |session| {
        give(version, session.settings.version as u32)
    }

    Context fn cuCtxSetFlags(_flags: u32) |_session| { Ok(()) }

    Context fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) |_session| {
        give(least, 0)?;
        give(greatest, -5)
    }

    Context fn cuCtxSynchronize() |session| {
        session.refuse_wait_for_all()?;
        let device = session.current()?;
        let streams = session.streams_of(device);
        session.synchronize(&streams)
    }

    Context fn cuCtxEnablePeerAccess(peer: Handle, flags: u32) |session| {
        let device = session.current()?;
        let peer = session.context(peer)?.filter(|_| flags == 0).ok_or(Error::CUDA_ERROR_INVALID_VALUE)?;
        if !session.settings.peers || peer == device {
            return Err(Error::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED.into());
        }
        if !session.contexts[device].peers.insert(peer) {
            return Err(Error::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED.into());
        }
        Ok(())
    }

    Context fn cuCtxDisablePeerAccess(peer: Handle) |session| {
        let device = session.current()?;
        let peer = session.context(peer)?.ok_or(Error::CUDA_ERROR_INVALID_VALUE)?;
        if !session.contexts[device].peers.remove(&peer) {
            return Err(Error::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED.into());
        }
        Ok(())
    }
}
