//! Captured work: replayed, without the order that it needs, and without its end.

use crate::setup::{COUNT, Setup, expect, numbers, text};
use cudarc::driver::{CudaEvent, CudaStream, result, sys};
use std::sync::Arc;

const MODE: sys::CUstreamCaptureMode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

struct Fork {
    setup: Setup,
    first: Arc<CudaStream>,
    second: Arc<CudaStream>,
    from: u64,
    sums: [u64; 2],
}

impl Fork {
    fn new() -> Result<Fork, String> {
        let setup = Setup::new(0)?;
        let (first, second) = (setup.stream()?, setup.stream()?);
        let (from, one) = (setup.upload(&numbers())?, setup.upload(&numbers())?);
        let other = setup.upload(&numbers())?;
        Ok(Fork { setup, first, second, from, sums: [one, other] })
    }

    fn event(&self) -> Result<CudaEvent, String> {
        self.setup.context.new_event(None).map_err(text)
    }

    /// Both streams add at once, to these sums; the first waits for the second if `join`.
    fn capture(&self, sums: [u64; 2], join: bool) -> Result<sys::CUgraph, String> {
        let (stream, begin, end) = (self.first.cu_stream(), self.event()?, self.event()?);
        unsafe { result::stream::begin_capture(stream, MODE) }.map_err(text)?;
        begin.record(&self.first).map_err(text)?;
        self.second.wait(&begin).map_err(text)?;
        self.setup.add(&self.first, self.from, sums[0], COUNT)?;
        self.setup.add(&self.second, self.from, sums[1], COUNT)?;
        end.record(&self.second).map_err(text)?;
        if join {
            self.first.wait(&end).map_err(text)?;
        }
        unsafe { result::stream::end_capture(stream) }.map_err(text)
    }

    fn launch(&self, graph: sys::CUgraph, times: usize) -> Result<sys::CUgraphExec, String> {
        let mut executable = std::ptr::null_mut();
        unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0) }.result().map_err(text)?;
        self.replay(executable, times)?;
        Ok(executable)
    }

    fn replay(&self, executable: sys::CUgraphExec, times: usize) -> Result<(), String> {
        for _ in 0..times {
            unsafe { result::graph::launch(executable, self.first.cu_stream()) }.map_err(text)?;
        }
        self.setup.context.synchronize().map_err(text)
    }
}

/// Three replays, and two of another capture that takes the first one's place.
pub fn replays() -> Result<(), String> {
    let fork = Fork::new()?;
    let [one, other] = fork.sums;
    let executable = fork.launch(fork.capture([one, other], true)?, 3)?;
    expect(&fork.setup.download(one)?, 4.0)?;
    expect(&fork.setup.download(other)?, 4.0)?;
    let third = fork.setup.upload(&numbers())?;
    let mut info = sys::CUgraphExecUpdateResultInfo_st {
        result: sys::CUgraphExecUpdateResult_enum::CU_GRAPH_EXEC_UPDATE_ERROR,
        errorNode: std::ptr::null_mut(),
        errorFromNode: std::ptr::null_mut(),
    };
    let graph = fork.capture([third, other], true)?;
    unsafe { sys::cuGraphExecUpdate_v2(executable, graph, &mut info) }.result().map_err(text)?;
    fork.replay(executable, 2)?;
    expect(&fork.setup.download(one)?, 4.0)?;
    expect(&fork.setup.download(other)?, 6.0)?;
    expect(&fork.setup.download(third)?, 3.0)
}

/// Both branches add to the same sum.
pub fn without_order() -> Result<(), String> {
    let fork = Fork::new()?;
    let [one, _] = fork.sums;
    fork.launch(fork.capture([one, one], true)?, 1).map(drop)
}

pub fn unjoined() -> Result<(), String> {
    let fork = Fork::new()?;
    fork.capture(fork.sums, false).map(drop)
}

/// Another thread waits for the context while a stream is captured, as an H200 was seen to refuse.
pub fn context_wait_beside_capture() -> Result<(), String> {
    let fork = Fork::new()?;
    let stream = fork.first.cu_stream();
    unsafe { result::stream::begin_capture(stream, MODE) }.map_err(text)?;
    let waited = std::thread::scope(|scope| {
        let wait = || fork.setup.context.synchronize().map_err(text);
        scope.spawn(wait).join().map_err(|_| "a thread has panicked".to_owned())
    })?;
    match unsafe { result::stream::end_capture(stream) } {
        Ok(_) => Err(format!("the capture goes on: {waited:?}")),
        Err(error) => waited.map_err(|refused| format!("{refused}; {}", text(error))),
    }
}
