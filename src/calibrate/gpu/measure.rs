//! What is measured of a GPU: as large programs as time and memory allow, launches, copies, and the host's AdamW.

use std::time::{Duration, Instant};

use crate::calibrate::error::CalibrateError;
use crate::calibrate::machine;
use crate::calibrate::measure::{Effort, memory};
use crate::calibrate::observe::{Observation, WARM_UP, mean, median, observe};
use crate::calibrate::programs::Small;
use crate::calibrate::samples;
use crate::execute::device::cuda::error::CudaError;
use crate::execute::device::cuda::measure::{Bench, Card, Copied, HostMemory, Launch};
use crate::execute::error::ExecuteError;
use crate::execute::run::{DeviceKind, Settings};
use crate::lower::Stream;
use crate::ops::Op;
use crate::units::{Bytes, ElementType};

use super::programs::{SIZES, Size, work};

/// An op, the mean seconds of the instructions that did it, and how many these were.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    pub op: Op,
    pub seconds: f64,
    pub count: usize,
}

/// What was measured. Seconds and bytes/s.
#[derive(Clone, Debug)]
pub struct Measured {
    pub card: Card,
    /// What a process has of the GPU before it takes anything: context and what the driver keeps.
    pub context: Bytes,
    /// The code of the kernels of one program at most.
    pub code: Bytes,
    pub bf16: Vec<Timed>,
    pub fp32: Vec<Timed>,
    /// NVIDIA's library, if it computed products.
    pub library: Option<String>,
    /// From the end of an instruction to the start of the next.
    pub gap: f64,
    /// What the instructions of a step take longer, each, because they are timed.
    pub tracing: f64,
    pub launch: Launch,
    pub copies: Vec<Copied>,
    /// Copies to and from the host inside of steps, and AdamW on the host.
    pub copied_in_steps: Vec<Timed>,
    pub host_steps: Vec<Timed>,
    /// Of AdamW on all cores of the host, beyond its caches.
    pub host_adamw: f64,
    pub cores: usize,
    pub host_memory: Bytes,
    /// Programs that ran, and those that did not for lack of time or of memory.
    pub programs: usize,
    pub left_out: usize,
}

impl Effort {
    /// Steps of each program that count on a GPU.
    const fn gpu_steps(self) -> u64 {
        match self {
            Self::Quick => 3,
            Self::Thorough => 9,
        }
    }

    /// What a GPU is measured in. What cannot be stopped, such as compiling kernels, may end a little later.
    pub const fn gpu_time(self) -> Duration {
        match self {
            Self::Quick => Duration::from_secs(60),
            Self::Thorough => Duration::from_secs(240),
        }
    }
}

/// More than a process has of an idle GPU before it takes anything: contexts take 0.3 to 0.6 GiB, and drivers keep as
/// much.
const MOST_CONTEXT: Bytes = Bytes(2 << 30);
/// The share of the time that is left which the programs of the next size may take.
const SHARE: f64 = 0.5;
/// Programs that tell what tracing takes, those with the shortest steps: in long ones it drowns.
const SHORTEST: usize = 5;
/// Sizes of copies.
const COPIES: [Bytes; 5] =
    [Bytes(4 << 10), Bytes(64 << 10), Bytes(1 << 20), Bytes(16 << 20), Bytes(128 << 20)];

/// Measures the GPU of `bench`, within a time that began at `began`. Calls `say` with the name of each part before it begins,
/// and with the share of that time that has passed.
///
/// # Errors
/// If another process holds memory of the GPU, or a program fails.
pub fn measure(
    bench: &Bench,
    effort: Effort,
    began: Instant,
    say: &dyn Fn(&'static str, f64),
) -> Result<Measured, CalibrateError> {
    let card = bench.card();
    let context = Bytes(card.memory.0.saturating_sub(bench.free_at_first.0));
    if context > MOST_CONTEXT {
        return Err(CalibrateError::Held { card: card.name, held: context, memory: card.memory });
    }
    say("launches and copies", 0.0);
    let launch = bench.launch()?;
    let mut copies = bench.copies(HostMemory::Pinned, &COPIES)?;
    copies.extend(bench.copies(HostMemory::Pageable, &COPIES)?);
    let host_adamw = memory(machine::cores());
    let mut found = Measured {
        card,
        context,
        code: Bytes::ZERO,
        bf16: Vec::new(),
        fp32: Vec::new(),
        library: None,
        gap: 0.0,
        tracing: 0.0,
        launch,
        copies,
        copied_in_steps: Vec::new(),
        host_steps: Vec::new(),
        host_adamw,
        cores: machine::cores(),
        host_memory: Bytes(machine::available_memory()),
        programs: 0,
        left_out: 0,
    };
    let mut runs = Runs {
        found: &mut found,
        gaps: Vec::new(),
        tracing: Vec::new(),
        effort,
        end: began + effort.gpu_time(),
        say,
    };
    let sizes = runs.climb()?;
    // The largest first; smaller ones tell what does not go with size.
    for size in sizes.into_iter().rev().take(2) {
        for small in size.others() {
            runs.add(&small)?;
        }
    }
    let (gaps, mut tracing) = (runs.gaps, runs.tracing);
    found.gap = median(gaps);
    tracing.sort_by(|one, other| one.0.total_cmp(&other.0));
    found.tracing = median(tracing.into_iter().take(SHORTEST).map(|(_, seconds)| seconds).collect()).max(0.0);
    Ok(found)
}

/// Programs that run until there is no time left.
struct Runs<'a> {
    found: &'a mut Measured,
    gaps: Vec<f64>,
    /// By program, the seconds of a step, and how much longer each instruction is for being timed.
    tracing: Vec<(f64, f64)>,
    effort: Effort,
    end: Instant,
    say: &'a dyn Fn(&'static str, f64),
}

impl Runs<'_> {
    /// Runs the first program of one size after the other, as far as there is time for all programs of that size, and
    /// memory. Gives the sizes that ran.
    fn climb(&mut self) -> Result<Vec<Size>, CalibrateError> {
        let mut climbed = Vec::new();
        // Seconds a FLOP, which larger programs stay below.
        let mut pace = 0.0;
        for size in SIZES {
            let first = size.first();
            let flops: f64 = size.others().iter().chain([&first]).map(work).sum();
            let steps = (WARM_UP + 2 * self.effort.gpu_steps()) as f64;
            if flops * steps * pace > SHARE * self.left() {
                break;
            }
            let Some(step) = self.add(&first)? else { break };
            climbed.push(size);
            pace = step / work(&first);
        }
        Ok(climbed)
    }

    /// Seconds until the end.
    fn left(&self) -> f64 {
        self.end.saturating_duration_since(Instant::now()).as_secs_f64()
    }

    /// Runs `small` and takes on what it shows; the seconds of its step, or none where it could not run.
    fn add(&mut self, small: &Small) -> Result<Option<f64>, CalibrateError> {
        let total = self.effort.gpu_time().as_secs_f64();
        let what = match small.precision {
            ElementType::Bf16 => "programs in bf16",
            _ => "programs in fp32",
        };
        (self.say)(what, 1.0 - self.left() / total);
        if self.left() <= 0.0 {
            self.found.left_out += 1;
            return Ok(None);
        }
        let settings = Settings { device: DeviceKind::Cuda, cores: self.found.cores, ..Settings::default() };
        let limit = Duration::from_secs_f64(SHARE * self.left());
        match observe(small.job()?, settings, (self.effort.gpu_steps(), Some(limit))) {
            Ok(seen) => {
                self.take(small, &seen);
                Ok(Some(seen.step_time().0))
            }
            Err(CalibrateError::Run(error)) if lacks_memory(&error) => {
                self.found.left_out += 1;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn take(&mut self, small: &Small, seen: &Observation) {
        let timed = |stream| {
            let times = samples::times(seen, stream).into_iter();
            times.map(|(op, times)| Timed { op, seconds: mean(&times), count: times.len() })
        };
        let found = &mut *self.found;
        let kernels = match small.precision {
            ElementType::Bf16 => &mut found.bf16,
            _ => &mut found.fp32,
        };
        kernels.extend(timed(Stream::Compute));
        found.copied_in_steps.extend(timed(Stream::CopyOut).chain(timed(Stream::CopyIn)));
        found.host_steps.extend(timed(Stream::Host).filter(|timed| matches!(timed.op, Op::AdamW(_))));
        found.code = found.code.max(seen.code);
        let products = seen.fleet.products().filter(|products| products.of_library > 0);
        found.library = products.and_then(|products| products.library).or(found.library.take());
        found.programs += 1;
        self.gaps.push(samples::gap(seen));
        let (traced, untraced) = (seen.step_time().0, median(seen.untraced.clone()));
        let instructions = seen.fleet.ranks[0].placement.streams[Stream::Compute as usize].len();
        if !seen.untraced.is_empty() {
            self.tracing.push((untraced, (traced - untraced) / instructions.max(1) as f64));
        }
    }
}

const fn lacks_memory(error: &ExecuteError) -> bool {
    match error {
        ExecuteError::Memory { .. } => true,
        ExecuteError::Cuda(error) => {
            matches!(**error, CudaError::Memory { .. } | CudaError::Full { .. } | CudaError::Unpinned { .. })
        }
        _ => false,
    }
}
