//! A stream of a rank on a GPU: each call becomes work once, and the same work is submitted in every step.

#![expect(unsafe_code, reason = "the driver is a C library")]

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{result, sys};
use smallvec::SmallVec;

use super::collectives::Group as Members;
use super::driver::{Event, Gpu, Stream as GpuStream, Timing, copy_now};
use super::encode::Encoder;
use super::error::{CudaError, Doing};
use super::kernels::{Function, Kernels};
use super::memory::Memory;
use super::messages::Inboxes;
use super::ranges;
use super::standing::{End, Standing};
use super::work::{Access, Argument, Span, Work};
use crate::execute::call::{Call, View};
use crate::execute::comm::Mailbox;
use crate::execute::device::Queue;
use crate::execute::error::ExecuteError;
use crate::execute::observe::words;
use crate::lower::{Kernel as LoweredKernel, Stream};
use crate::ops::Group;
use crate::program::issue_order::Waits;

pub type Done = Result<(), ExecuteError>;

/// A stream of a rank.
pub struct CudaQueue<'r> {
    pub gpu: Arc<Gpu>,
    pub kernels: &'r Kernels,
    pub encoder: Encoder<'r>,
    /// By rank, memory that messages are put into.
    pub peers: &'r [Memory],
    pub rank: usize,
    pub stream: Stream,
    pub on: GpuStream,
    pub standing: &'r Standing,
    pub known: Waits,
    /// By group, where the stream has collectives in it.
    pub groups: [Option<Members>; Group::COUNT],
    pub mailbox: Mailbox,
    pub inboxes: &'r Inboxes,
    /// Where the look at a tensor leaves its result.
    pub found: Span,
    pub step: u64,
    /// The begin of the step on the GPU.
    pub start: &'r Event,
    pub marks: Vec<Arc<Event>>,
    pub last_mark: usize,
    /// By address of a call, which stays where it is while queues are open.
    pub prepared: HashMap<*const Call, Box<[Prepared]>>,
    pub failure: Option<CudaError>,
}

// SAFETY: the addresses of calls are only keys.
unsafe impl Send for CudaQueue<'_> {}

/// Work that needs nothing more than to be submitted.
#[derive(Debug)]
pub enum Prepared {
    Kernel {
        function: Function,
        name: &'static str,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        arguments: Box<[Argument]>,
        touches: Box<[(Span, Access)]>,
    },
    Copy {
        from: Span,
        to: Span,
    },
    Fill {
        to: Span,
        value: u8,
    },
}

impl CudaQueue<'_> {
    /// Looks up the kernels of `work`.
    ///
    /// # Errors
    /// As [`Kernels::function`].
    pub fn prepare(&self, work: Work) -> Result<Prepared, CudaError> {
        Ok(match work {
            Work::Copy { from, to } => Prepared::Copy { from, to },
            Work::Fill { to, value } => Prepared::Fill { to, value },
            Work::Kernel(kernel) => Prepared::Kernel {
                function: self.kernels.function(&kernel)?,
                name: kernel.launch.kernel,
                grid: kernel.launch.grid,
                block: kernel.launch.block,
                shared_bytes: kernel.launch.shared_bytes,
                arguments: kernel.arguments.into_iter().collect(),
                touches: kernel.touches.into_iter().collect(),
            },
        })
    }

    /// Does `work` behind all that was submitted before.
    ///
    /// # Errors
    /// What the driver says.
    pub fn put(&self, work: &Prepared) -> Result<(), CudaError> {
        let stream = self.on.handle;
        match work {
            Prepared::Copy { from, to } => {
                debug_assert_eq!(from.bytes, to.bytes, "a copy's sides");
                ranges::tell(stream, &[(*from, Access::Read), (*to, Access::Write)]);
                // SAFETY: both lie in memory of ranks, and the program keeps their users apart.
                unsafe { sys::cuMemcpyAsync(to.address, from.address, to.bytes as usize, stream) }
                    .result()
                    .doing("a copy")
            }
            Prepared::Fill { to, value } => {
                ranges::tell(stream, &[(*to, Access::Write)]);
                // SAFETY: as above.
                unsafe { sys::cuMemsetD8Async(to.address, *value, to.bytes as usize, stream) }
                    .result()
                    .doing("a fill")
            }
            Prepared::Kernel { function, name, grid, block, shared_bytes, arguments, touches } => {
                ranges::tell(stream, touches);
                let mut pointers: SmallVec<[*mut c_void; 32]> = arguments
                    .iter()
                    .map(|argument| (&raw const argument.bits).cast_mut().cast::<c_void>())
                    .collect();
                let [x, y, z] = *grid;
                let [block_x, block_y, block_z] = *block;
                // SAFETY: the arguments are as many and as large as the kernel's, which was checked where the driver can
                // tell; they point to memory of ranks, as above.
                unsafe {
                    result::launch_kernel(
                        function.0,
                        (x, y, z),
                        (block_x, block_y, block_z),
                        *shared_bytes,
                        stream,
                        &mut pointers,
                    )
                }
                .doing(&format!("kernel {name}"))
            }
        }
    }

    fn perform(&mut self, call: &Call) -> Result<(), CudaError> {
        let key = std::ptr::from_ref(call);
        if !self.prepared.contains_key(&key) {
            let works = self.encoder.encode(call)?;
            let works: Result<Box<[Prepared]>, _> =
                works.into_iter().map(|work| self.prepare(work)).collect();
            self.prepared.insert(key, works?);
        }
        self.prepared[&key].iter().try_for_each(|work| self.put(work))
    }

    /// Does `work` now, whatever it is.
    ///
    /// # Errors
    /// As [`Self::prepare`] and [`Self::put`].
    pub fn perform_now(&self, work: Work) -> Result<(), CudaError> {
        self.put(&self.prepare(work)?)
    }

    /// Reads a number once all that was submitted is done.
    fn read_number(&self, at: Span) -> Result<[u8; 8], CudaError> {
        self.on.synchronize()?;
        let mut bytes = [0; 8];
        let count = bytes.len().min(at.bytes as usize);
        // SAFETY: what was submitted is done, and the program lets nobody write there before this call is over.
        unsafe { copy_now(bytes.as_mut_ptr() as u64, at.address, count) }?;
        Ok(bytes)
    }

    /// Looks for a number that is not finite. The host waits for what it finds: a step that lost its numbers must not
    /// reach the optimizer.
    fn check(&self, values: View, kernel: LoweredKernel, layer: &str) -> Done {
        let Some(value) = self.first_not_finite(values)? else { return Ok(()) };
        Err(ExecuteError::NotFinite {
            step: self.step,
            value,
            rank: self.rank,
            layer: layer.to_owned(),
            what: words::kernel(kernel),
        })
    }

    fn first_not_finite(&self, values: View) -> Result<Option<f64>, CudaError> {
        use crate::execute::storage::Storage;
        use crate::units::ElementType;
        let at = self.encoder.memory.at(values);
        if values.storage == Storage::Number(ElementType::Fp64) {
            let value = f64::from_le_bytes(self.read_number(at)?);
            return Ok((!value.is_finite()).then_some(value));
        }
        if values.is_empty() {
            return Ok(None);
        }
        self.perform_now(Work::Fill { to: self.found, value: 0xff })?;
        self.perform_now(self.encoder.find_not_finite(values, self.found)?)?;
        let place = u64::from_le_bytes(self.read_number(self.found)?);
        if place == u64::MAX {
            return Ok(None);
        }
        let size = values.storage.size() as u64;
        let bytes = self.read_number(at.behind(place * size).first(size))?;
        let [a, b, c, d, ..] = bytes;
        Ok(Some(match values.storage {
            Storage::Number(ElementType::Bf16) => half::bf16::from_le_bytes([a, b]).to_f64(),
            _ => f64::from(f32::from_le_bytes([a, b, c, d])),
        }))
    }

    fn wait_for(&mut self, waits: &Waits) -> Result<bool, CudaError> {
        let Some(ends) = self.standing.wait(waits, &self.known) else { return Ok(false) };
        for end in ends {
            if let End::Event(event) = end {
                self.on.wait(&event)?;
            }
        }
        self.known.iter_mut().zip(waits).for_each(|(known, wait)| *known = (*known).max(*wait));
        Ok(true)
    }

    fn mark(&mut self, mark: usize) -> Result<(), CudaError> {
        while self.marks.len() <= mark {
            self.marks.push(Arc::new(Event::new(Timing::Kept)?));
        }
        self.last_mark = mark;
        self.marks[mark].record(&self.on)
    }

    /// Keeps the first failure of a call that cannot tell of one; the next that can tells of it.
    fn keep(&mut self, result: Result<(), CudaError>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }
}

impl Queue for CudaQueue<'_> {
    fn begin(&mut self, step: u64, _began: Instant) {
        (self.step, self.known) = (step, Waits::default());
        let bound = self.gpu.bind();
        self.keep(bound);
    }

    fn wait(&mut self, waits: &Waits) -> bool {
        match self.wait_for(waits) {
            Ok(goes_on) => goes_on,
            Err(error) => {
                self.keep(Err(error));
                true
            }
        }
    }

    unsafe fn submit(&mut self, call: &Call) -> Done {
        if let Some(failure) = self.failure.take() {
            return Err(failure.into());
        }
        match call {
            Call::Collective { group, exchange } => self.collective(*group, exchange),
            Call::Send { to, message, micro, from, inbox } => {
                self.send(*to, (*message, *micro), *from, *inbox)
            }
            Call::Receive { from, message, micro, inbox, to } => {
                self.receive(*from, (*message, *micro), *inbox, *to)
            }
            Call::Check { values, kernel, layer } => self.check(*values, *kernel, layer),
            Call::LossWeight(weight) => {
                self.perform(call)?;
                let value = f64::from_le_bytes(self.read_number(self.encoder.memory.at(weight.weight))?);
                if value.is_finite() {
                    return Ok(());
                }
                Err(ExecuteError::NotFinite {
                    step: self.step,
                    value,
                    rank: self.rank,
                    layer: weight.loss.clone(),
                    what: "adaptive weight".to_owned(),
                })
            }
            _ => Ok(self.perform(call)?),
        }
    }

    fn record(&mut self, mark: usize) {
        let recorded = self.mark(mark);
        self.keep(recorded);
    }

    /// The mark behind the instruction's calls is what others wait for.
    fn advance(&mut self) {
        let end = self.marks.get(self.last_mark).map_or(End::Past, |event| End::Event(Arc::clone(event)));
        self.standing.advance(self.stream, end);
    }

    fn finish(&mut self) -> Done {
        match self.failure.take() {
            Some(failure) => Err(failure.into()),
            None => Ok(self.on.synchronize()?),
        }
    }

    /// An event that was not recorded has no time.
    fn elapsed(&self, mark: usize) -> f64 {
        self.marks.get(mark).and_then(|event| event.seconds_since(self.start).ok()).unwrap_or_default()
    }
}
