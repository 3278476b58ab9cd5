//! Work that is given as a whole: a CUDA graph, which costs the host one launch.

#![expect(unsafe_code, reason = "the driver is a C library")]

pub mod calls;
pub mod step;

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{self, CUstreamCaptureMode};

use super::error::{CudaError, Doing};
use super::stream::Stream;

/// A graph that can be launched.
#[derive(Debug)]
pub struct Graph(sys::CUgraphExec);

// SAFETY: only a number to the driver.
unsafe impl Send for Graph {}

/// A graph that others may have to give back: communicators end only once no graph has work of theirs.
pub type Slot = Arc<Mutex<Option<Graph>>>;

/// Gives back the graph of `slot`, if it has one.
pub fn give_back(slot: &Slot) {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take();
}

/// What streams were given while they were captured, given back when it is dropped.
struct Captured(sys::CUgraph);

impl Drop for Captured {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: made by the end of a capture.
            let _ = unsafe { sys::cuGraphDestroy(self.0) };
        }
    }
}

/// From here on, what `stream` is given is not done, but kept for a graph.
fn begin(stream: &Stream) -> Result<(), CudaError> {
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: a stream that lives.
    unsafe { sys::cuStreamBeginCapture_v2(stream.handle, mode) }.result().doing("the begin of a graph")
}

/// Ends what [`begin`] began, as must be done in any case.
fn end(stream: &Stream) -> Result<Captured, CudaError> {
    let mut captured = Captured(std::ptr::null_mut());
    // SAFETY: a stream that lives; a place for the handle.
    unsafe { sys::cuStreamEndCapture(stream.handle, &raw mut captured.0) }
        .result()
        .doing("the end of a graph")?;
    Ok(captured)
}

impl Graph {
    /// The graph of all that `give` gives to `stream`, which does none of it yet.
    ///
    /// # Errors
    /// What `give` or the driver says.
    pub fn capture(stream: &Stream, give: impl FnOnce() -> Result<(), CudaError>) -> Result<Self, CudaError> {
        begin(stream)?;
        let given = give();
        let captured = end(stream);
        given?;
        Self::new(&captured?)
    }

    fn new(captured: &Captured) -> Result<Self, CudaError> {
        let mut graph = std::ptr::null_mut();
        // SAFETY: a whole graph, a place for the handle.
        unsafe { sys::cuGraphInstantiateWithFlags(&raw mut graph, captured.0, 0) }
            .result()
            .doing("making a graph")?;
        Ok(Self(graph))
    }

    /// Brings it to the GPU, so that its first launch lasts no longer than others.
    fn upload(&self, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: both live.
        unsafe { sys::cuGraphUpload(self.0, stream.handle) }.result().doing("bringing a graph to a GPU")
    }

    /// Does all of it after what was submitted to `stream` before.
    ///
    /// # Errors
    /// What the driver says.
    pub fn launch(&self, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: both live.
        unsafe { sys::cuGraphLaunch(self.0, stream.handle) }.result().doing("a graph")
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: instantiated once. What was launched goes on by itself.
        let _ = unsafe { sys::cuGraphExecDestroy(self.0) };
    }
}
