//! The whole step of a rank as one graph, over all its streams: captured once, and from then on all that is launched.
//!
//! ```text
//! fork ─┬─ compute ─────┬─ join      streams wait for one another inside the capture, by the events by which they
//!       ├─ collectives ─┤            always do
//!       └─ copies ──────┘
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::driver::Gpu;
use super::super::error::CudaError;
use super::super::nccl::links::Links;
use super::super::standing::Standing;
use super::super::stream::{Event, Stream, Timing};
use super::super::work::Span;
use super::{Graph, Slot, begin, end, give_back};
use crate::execute::device::{Readiness, WholeStep};
use crate::execute::error::ExecuteError;

type Done = Result<(), ExecuteError>;

/// A number that must be finite, looked at when the step is done.
pub struct Look {
    pub at: Span,
    pub rank: usize,
    pub layer: Box<str>,
    pub what: String,
}

/// The step of a rank that is alone on its GPU. Its thread alone uses it.
pub struct StepGraph {
    gpu: Arc<Gpu>,
    links: Option<Arc<Links>>,
    standing: Arc<Standing>,
    /// The capture begins and ends here, and the graph is launched here.
    on: Stream,
    fork: Event,
    join: Event,
    is_captured: AtomicBool,
    /// Something in it needs the host, or it could not be captured.
    is_refused: AtomicBool,
    /// Streams are given graphs of their own: this step is none, or that of another rank.
    is_in_parts: AtomicBool,
    looks: Mutex<Vec<Look>>,
    graph: Slot,
}

impl StepGraph {
    /// Of the rank with this `standing` on `gpu`, which reaches others by `links`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(
        gpu: &Arc<Gpu>,
        links: Option<&Arc<Links>>,
        standing: &Arc<Standing>,
    ) -> Result<Self, CudaError> {
        Ok(Self {
            gpu: Arc::clone(gpu),
            links: links.cloned(),
            standing: Arc::clone(standing),
            on: Stream::new()?,
            fork: Event::new(Timing::None)?,
            join: Event::new(Timing::None)?,
            is_captured: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            is_in_parts: AtomicBool::new(false),
            looks: Mutex::default(),
            graph: links.map_or_else(Slot::default, |links| Arc::clone(&links.graph)),
        })
    }

    fn graph(&self) -> MutexGuard<'_, Option<Graph>> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn looks(&self) -> MutexGuard<'_, Vec<Look>> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something in the step needs the host.
    pub fn refuse(&self) {
        self.is_refused.store(true, Ordering::Release);
        self.is_in_parts.store(true, Ordering::Release);
    }

    /// Whether what streams are given becomes part of the graph.
    pub fn is_captured(&self) -> bool {
        self.is_captured.load(Ordering::Acquire)
    }

    /// Whether streams are given graphs of their own.
    pub fn is_in_parts(&self) -> bool {
        self.is_in_parts.load(Ordering::Acquire)
    }

    /// `stream` becomes part of the capture.
    ///
    /// # Errors
    /// What the driver says.
    pub fn enter(&self, stream: &Stream) -> Result<(), CudaError> {
        stream.wait(&self.fork)
    }

    /// The end of the graph comes after what `stream` was given.
    ///
    /// # Errors
    /// What the driver says.
    pub fn leave(&self, stream: &Stream) -> Result<(), CudaError> {
        self.join.record(stream)?;
        self.on.wait(&self.join)
    }

    /// Looks at a number once the step is done.
    pub fn look_later(&self, look: Look) {
        self.looks().push(look);
    }

    /// The streams of messages that come in, which no queue has.
    fn incoming(&self) -> impl Iterator<Item = &Stream> {
        self.links.iter().flat_map(|links| links.incoming_streams())
    }

    fn settle(&self) -> Done {
        match &self.links {
            None => Ok(self.on.synchronize()?),
            Some(links) => links.wait(&self.on),
        }
    }

    fn launch(&self) -> Result<(), CudaError> {
        self.gpu.bind()?;
        self.graph().as_ref().map_or(Ok(()), |graph| graph.launch(&self.on))
    }

    /// Looks at the numbers of step `step`, which is done: all lie in the small buffer of its numbers.
    fn look(&self, step: u64) -> Done {
        let looks = self.looks();
        let Some(start) = looks.iter().map(|look| look.at.address).min() else { return Ok(()) };
        let end = looks.iter().map(|look| look.at.address + look.at.bytes).max().unwrap_or(start);
        let mut bytes = vec![0; (end - start) as usize];
        // SAFETY: a span from one buffer of the rank to as many bytes here; the GPU is idle.
        unsafe { self.on.copy_now(bytes.as_mut_ptr() as u64, start, bytes.len()) }?;
        for Look { at, rank, layer, what } in &*looks {
            let first = (at.address - start) as usize;
            let value = bytes[first..].first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes));
            if !value.is_finite() {
                let (rank, layer, what) = (*rank, layer.to_string(), what.clone());
                return Err(ExecuteError::NotFinite { step, value, rank, layer, what });
            }
        }
        Ok(())
    }
}

impl WholeStep for StepGraph {
    fn readiness(&self) -> Readiness {
        if self.graph().is_some() {
            Readiness::Ready
        } else if self.is_refused.load(Ordering::Acquire) {
            Readiness::Never
        } else {
            Readiness::Able
        }
    }

    fn begin(&self) -> Done {
        self.standing.restart();
        self.looks().clear();
        begin(&self.on)?;
        self.is_captured.store(true, Ordering::Release);
        self.fork.record(&self.on)?;
        Ok(self.incoming().try_for_each(|stream| self.enter(stream))?)
    }

    fn end(&self) -> Done {
        self.incoming().try_for_each(|stream| self.leave(stream))?;
        self.is_captured.store(false, Ordering::Release);
        let graph = Graph::new(&end(&self.on)?)?;
        graph.upload(&self.on)?;
        *self.graph() = Some(graph);
        self.standing.restart();
        Ok(())
    }

    fn give_up(&self) {
        if self.is_captured.swap(false, Ordering::AcqRel) {
            let _ = end(&self.on);
        }
        give_back(&self.graph);
        self.refuse();
        self.standing.restart();
    }

    fn forget(&self) {
        give_back(&self.graph);
        self.is_in_parts.store(true, Ordering::Release);
    }

    fn perform(&self, step: u64) -> Done {
        let done =
            self.launch().map_err(Into::into).and_then(|()| self.settle()).and_then(|()| self.look(step));
        if let (Err(_), Some(links)) = (&done, &self.links) {
            links.abort();
        }
        done
    }
}

impl Drop for StepGraph {
    fn drop(&mut self) {
        give_back(&self.graph);
    }
}
