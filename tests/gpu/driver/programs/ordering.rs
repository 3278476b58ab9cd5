//! Streams, events and the host: orders that are kept, and one that is forgotten.

use crate::setup::{COUNT, Setup, expect, numbers, text};
use cudarc::driver::result;
use cudarc::driver::sys;
use std::ffi::c_void;
use std::sync::Mutex;

/// Two streams add to the same sum, the second one after the first.
pub fn waits() -> Result<(), String> {
    two_streams(true)
}

pub fn forgets_to_wait() -> Result<(), String> {
    two_streams(false)
}

fn two_streams(wait: bool) -> Result<(), String> {
    let setup = Setup::new(0)?;
    let (first, second) = (setup.stream()?, setup.stream()?);
    let (from, sum) = (setup.upload(&[0.0; COUNT])?, setup.upload(&numbers())?);
    unsafe { result::memcpy_htod_async(from, &numbers(), first.cu_stream()) }.map_err(text)?;
    setup.add(&first, from, sum, COUNT)?;
    let event = first.record_event(None).map_err(text)?;
    if wait {
        second.wait(&event).map_err(text)?;
    }
    setup.add(&second, from, sum, COUNT)?;
    let mut values = vec![0f32; COUNT];
    unsafe { result::memcpy_dtoh_async(&mut values, sum, second.cu_stream()) }.map_err(text)?;
    setup.context.synchronize().map_err(text)?;
    expect(&values, 3.0)
}

/// A copy without a stream has only been staged when it returns, so that a stream apart doesn't see it for certain.
pub fn reads_too_early() -> Result<(), String> {
    let setup = Setup::new(0)?;
    let stream = setup.stream()?;
    let (from, sum) = (setup.upload(&[0.0; COUNT])?, setup.upload(&numbers())?);
    unsafe { result::memcpy_htod_sync(from, &numbers()) }.map_err(text)?;
    setup.add(&stream, from, sum, COUNT)?;
    setup.context.synchronize().map_err(text)
}

/// Host functions run in the order of their stream, on whichever thread.
pub fn host_functions() -> Result<(), String> {
    static CALLS: Mutex<Vec<usize>> = Mutex::new(vec![]);
    unsafe extern "C" fn note(number: *mut c_void) {
        CALLS.lock().expect("no call panics").push(number as usize);
    }
    let setup = Setup::new(0)?;
    let stream = setup.stream()?;
    for number in 0..5usize {
        unsafe { result::stream::launch_host_function(stream.cu_stream(), note, number as *mut c_void) }
            .map_err(text)?;
    }
    stream.synchronize().map_err(text)?;
    let calls = CALLS.lock().map_err(text)?;
    if *calls == [0, 1, 2, 3, 4] { Ok(()) } else { Err(format!("the host functions ran as {calls:?}")) }
}

/// The default stream and a blocking stream wait for each other without events.
pub fn default_stream() -> Result<(), String> {
    let setup = Setup::new(0)?;
    let blocking = result::stream::create(result::stream::StreamKind::Default).map_err(text)?;
    let sum = setup.allocate(COUNT)?;
    unsafe {
        result::memcpy_htod_async(sum, &numbers(), blocking).map_err(text)?;
        result::memcpy_dtod_sync(setup.upload(&numbers())?, sum, COUNT * 4).map_err(text)?;
        result::memset_d8_async(sum, 0, COUNT * 4, blocking).map_err(text)?;
    }
    expect(&setup.download(sum)?, 0.0)
}

/// A thread a device; each takes the other's numbers once the other's event has come.
pub fn threads() -> Result<(), String> {
    let setups = [Setup::new(0)?, Setup::new(1)?];
    let mut sources = vec![];
    for setup in &setups {
        setup.context.bind_to_thread().map_err(text)?;
        let (stream, memory) = (setup.stream()?, setup.allocate(COUNT)?);
        unsafe { result::memcpy_htod_async(memory, &numbers(), stream.cu_stream()) }.map_err(text)?;
        let event = stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)).map_err(text)?;
        sources.push((memory, event, stream));
    }
    let rank = |rank: usize| {
        let (setup, (other, event, _)) = (&setups[rank], &sources[1 - rank]);
        setup.context.bind_to_thread().map_err(text)?;
        let stream = setup.stream()?;
        stream.wait(event).map_err(text)?;
        let (mine, sum) = (setup.allocate(COUNT)?, setup.upload(&numbers())?);
        let (here, there) = (setup.context.cu_ctx(), setups[1 - rank].context.cu_ctx());
        unsafe { result::memcpy_peer_async(here, mine, there, *other, COUNT * 4, stream.cu_stream()) }
            .map_err(text)?;
        setup.add(&stream, mine, sum, COUNT)?;
        stream.synchronize().map_err(text)?;
        expect(&setup.download(sum)?, 2.0)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| rank(1));
        rank(0).and(other.join().map_err(|_| "a thread has panicked".to_owned())?)
    })
}
