//! The measurements that a cost model is fitted to.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::calibrate::error::CalibrateError;
use crate::calibrate::fit::non_negative;
use crate::calibrate::machine;
use crate::calibrate::observe::{Observation, median, observe};
use crate::calibrate::programs::{self, Small};
use crate::calibrate::samples::{self, Sample};
use crate::cost::cores::{copied, meetings};
use crate::execute::comm::{Channel, Hub, Reduction};
use crate::execute::error::ExecuteError;
use crate::execute::kernels::adamw::{self, AdamW};
use crate::execute::pool::Pool;
use crate::execute::run::Settings;
use crate::execute::threads::{STACK, Work, together};
use crate::lower::Stream;
use crate::ops::{Collective, CollectiveKind, Group, Op};
use crate::units::{Bytes, ElementType, FlopsPerSecond};

/// What was measured. Seconds and bytes/s.
#[derive(Clone, Debug)]
pub struct Measured {
    pub cores: usize,
    /// Ops of one rank on one core.
    pub fp32: Vec<Sample>,
    pub fp64: Vec<Sample>,
    pub bf16: Vec<Sample>,
    /// From one instruction to the next.
    pub gap: f64,
    /// Cores, each as fast as one alone, that do as much as all together.
    pub effective: f64,
    /// To hand a kernel to all cores, and the share of its work that they do not share.
    pub dispatch: f64,
    pub serial_share: f64,
    /// Of one meeting of two ranks, and of what each of them copies or adds up there.
    pub meeting: f64,
    pub collective_rate: f64,
    /// Of copies between arenas.
    pub copy_rate: f64,
    /// Of AdamW over more than caches hold, on one core and on all.
    pub memory_one: f64,
    pub memory_all: f64,
    /// Of the fixed kernel between the steps of all programs: what a quarter of the programs reached.
    pub fixed_kernel: FlopsPerSecond,
}

/// How long a machine is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A few seconds, before a run.
    Quick,
    Thorough,
}

impl Effort {
    /// Steps of each program that count.
    const fn steps(self) -> u64 {
        match self {
            Self::Quick => 5,
            Self::Thorough => 9,
        }
    }

    /// The time of one program: more where its first steps take longer.
    const fn limit(self) -> Option<Duration> {
        match self {
            Self::Quick => Some(Duration::from_millis(400)),
            Self::Thorough => None,
        }
    }

    /// Times that each way of sharing cores is observed, in turns: a machine's speed wanders.
    const fn turns(self) -> usize {
        match self {
            Self::Quick => 1,
            Self::Thorough => 3,
        }
    }
}

/// Elements of each array of the memory test, and of the largest collective.
const LARGE: usize = 1 << 23;

/// What a quarter of `speeds` reach; zero of none.
fn upper_quarter(mut speeds: Vec<f64>) -> f64 {
    speeds.sort_by(|one, other| other.total_cmp(one));
    speeds.get(speeds.len() / 4).copied().unwrap_or_default()
}

/// Runs programs, and notes how fast the fixed kernel was between their steps.
struct Bench {
    effort: Effort,
    speeds: RefCell<Vec<f64>>,
}

impl Bench {
    fn run(&self, small: &Small, cores: usize) -> Result<Observation, CalibrateError> {
        let settings = Settings { cores, ..Settings::default() };
        let seen = observe(small.job()?, settings, (self.effort.steps(), self.effort.limit()))?;
        self.speeds.borrow_mut().push(seen.speed.0);
        Ok(seen)
    }

    fn run_all(&self, list: &[Small], cores: usize) -> Result<Vec<Observation>, CalibrateError> {
        list.iter().map(|small| self.run(small, cores)).collect()
    }
}

/// Measures this machine; `say` is told what comes next and the share that is done.
///
/// # Errors
/// If a program cannot be run here.
pub fn measure(effort: Effort, say: &dyn Fn(&'static str, f64)) -> Result<Measured, CalibrateError> {
    let cores = machine::cores();
    say("kernels", 0.0);
    let bench = Bench { effort, speeds: RefCell::default() };
    let seen = bench.run_all(&programs::serial(), 1)?;
    let ops = |seen: &Observation| samples::ops(seen, Stream::Compute);
    let fp32: Vec<Sample> = seen.iter().flat_map(ops).collect();
    say("element types", 0.4);
    let fp64 = ops(&bench.run(&programs::in_precision(ElementType::Fp64), 1)?);
    let bf16 = ops(&bench.run(&programs::in_precision(ElementType::Bf16), 1)?);
    say("threads", 0.6);
    let Sharing { effective, dispatch, serial_share } = sharing(&bench, cores)?;
    say("collectives", 0.7);
    let (meeting, collective_rate) = collectives(&bench, cores, effective)?;
    say("memory", 0.9);
    Ok(Measured {
        cores,
        fp32,
        fp64,
        bf16,
        gap: median(seen.iter().map(samples::gap).collect()),
        effective,
        dispatch,
        serial_share,
        meeting,
        collective_rate,
        copy_rate: copies(&seen).unwrap_or(collective_rate),
        memory_one: memory(1),
        memory_all: memory(cores),
        fixed_kernel: FlopsPerSecond(upper_quarter(bench.speeds.into_inner())),
    })
}

/// What it costs that cores work at the same time.
struct Sharing {
    effective: f64,
    dispatch: f64,
    serial_share: f64,
}

/// The same ops by one rank on one core, by as many such ranks as cores, and by one rank on all cores.
fn sharing(bench: &Bench, cores: usize) -> Result<Sharing, CalibrateError> {
    if cores < 2 {
        return Ok(Sharing { effective: 1.0, dispatch: 0.0, serial_share: 0.0 });
    }
    let [one, many] = programs::sharing(cores as u64);
    let (mut alone, mut beside, mut together) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.effort.turns() {
        alone.push(samples::kernels(&bench.run(&one, 1)?));
        beside.push(samples::kernels(&bench.run(&many, cores)?));
        together.push(samples::kernels(&bench.run(&one, cores)?));
    }
    let [alone, beside, together] = [alone, beside, together].map(samples::merged);
    let both = alone.iter().filter_map(|(op, seconds)| Some((seconds, beside.get(op)?)));
    let (own, slowed) = both.fold((0.0, 0.0), |(own, slowed), (a, b)| (own + a, slowed + b));
    let slowdown = (slowed / own).clamp(1.0, cores as f64);
    let rows: Vec<_> = alone
        .iter()
        .filter_map(|(op, seconds)| {
            let (work, measured) = (seconds * slowdown, *together.get(op)?);
            let shared = work / cores as f64;
            Some(([1.0, work - shared], measured - shared, measured))
        })
        .collect();
    let [dispatch, serial] = non_negative(&rows);
    Ok(Sharing { effective: cores as f64 / slowdown, dispatch, serial_share: serial.min(1.0) })
}

/// Seconds of a meeting and bytes/s: large collectives by themselves show the rate; what those inside layers take beyond
/// it is meetings. Both as they would be if two busy cores were each as fast as one of `effective` alone.
fn collectives(bench: &Bench, cores: usize, effective: f64) -> Result<(f64, f64), CalibrateError> {
    let large = |kind| {
        let bytes = Bytes((LARGE / 8 * size_of::<f32>()) as u64);
        Ok(copied(&Collective::new(kind, Group::World, bytes), 2.0) / alone(kind, LARGE / 8)?)
    };
    let kinds = [CollectiveKind::AllReduce, CollectiveKind::AllGather].into_iter();
    let rate = median(kinds.map(large).collect::<Result<_, CalibrateError>>()?);
    let mut meeting = Vec::new();
    for seen in bench.run_all(&programs::collectives(), cores)? {
        let inside = samples::collectives(&seen).into_iter();
        meeting.extend(inside.map(|(op, seconds)| (seconds - copied(&op, 2.0) / rate) / meetings(op.kind)));
    }
    let slowdown = (2.0 / effective).max(1.0);
    Ok((median(meeting).max(0.0) / slowdown, rate * slowdown))
}

/// The median time of a collective of `elements` elements between two threads.
fn alone(kind: CollectiveKind, elements: usize) -> Result<f64, CalibrateError> {
    const TURNS: usize = 7;
    let hub = Hub::new(2);
    let channel = Channel { group: Group::World, stream: Stream::Data };
    let member = |rank: usize| {
        let mut data = vec![1.0_f32; elements];
        let mut times = Vec::with_capacity(TURNS);
        let Ok(mut endpoint) = hub.endpoint(rank, channel, &[0, 1]) else { return times };
        for _ in 0..TURNS {
            if endpoint.barrier().is_err() {
                break;
            }
            let began = Instant::now();
            let done = match kind {
                CollectiveKind::AllReduce => {
                    endpoint.all_reduce(&mut data, Reduction::sum(ElementType::Fp32))
                }
                _ => endpoint.all_gather(&mut data),
            };
            if done.is_err() {
                break;
            }
            times.push(began.elapsed().as_secs_f64());
        }
        times
    };
    let other: Work<'_> = Box::new(|| drop(member(1)));
    let times = together(vec![other], || member(0));
    times.map(median).map_err(|error| ExecuteError::Threads { threads: 2, reason: error.to_string() }.into())
}

/// Bytes/s of copies to and from the host arena.
fn copies(seen: &[Observation]) -> Option<f64> {
    let rates = seen.iter().flat_map(|seen| {
        let mut all = samples::ops(seen, Stream::CopyOut);
        all.extend(samples::ops(seen, Stream::CopyIn));
        all.into_iter().filter(|(op, seconds)| *seconds > 0.0 && op.bytes_moved() > LEAST_COPY)
    });
    let rates: Vec<f64> = rates.map(|(op, seconds): (Op, f64)| op.bytes_moved().0 as f64 / seconds).collect();
    (!rates.is_empty()).then(|| median(rates))
}

/// Shorter copies show the clock more than the memory.
const LEAST_COPY: Bytes = Bytes(64 << 10);

/// Bytes/s of AdamW over arrays that no cache holds, on `cores` cores.
pub(super) fn memory(cores: usize) -> f64 {
    let pool = (cores > 1)
        .then(|| rayon::ThreadPoolBuilder::new().num_threads(cores).stack_size(STACK).build().ok())
        .flatten();
    let pool = pool.as_ref().map_or(Pool::Serial, Pool::Threads);
    let update = AdamW {
        learning_rate: 1e-4,
        betas: (0.9, 0.95),
        epsilon: 1e-8,
        weight_decay: 0.1,
        step: 1,
        clip: 1.0,
    };
    let gradient = vec![1e-3_f32; LARGE];
    let mut state = [vec![0.5_f32; LARGE], vec![0.0; LARGE], vec![0.0; LARGE]];
    let times = (0..5)
        .map(|_| {
            let [parameter, first, second] = &mut state;
            let began = Instant::now();
            adamw::step(pool, &update, &gradient, parameter, (first, second), None::<&mut [f32]>);
            began.elapsed().as_secs_f64()
        })
        .collect();
    // Each of three arrays read and written, one read.
    (7 * LARGE * size_of::<f32>()) as f64 / median(times)
}
