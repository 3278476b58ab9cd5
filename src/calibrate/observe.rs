//! Runs a job for a few steps and looks at when its instructions ran.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::calibrate::error::CalibrateError;
use crate::calibrate::machine;
use crate::execute::data::{Batches, Synthetic, Tokens};
use crate::execute::device::Tracing;
use crate::execute::error::ExecuteError;
use crate::execute::fixed_kernel::FixedKernel;
use crate::execute::fleet::{Fleet, StepResult, Watcher};
use crate::execute::observe::span::Span;
use crate::execute::run::{DeviceKind, Job, Run, Settings};
use crate::execute::weights::Weights;
use crate::lower::Stream;
use crate::model::layer::LayerKind;
use crate::units::{Bytes, FlopsPerSecond, Seconds};

/// Spans of one rank in one step, by stream.
pub type RankSpans = [Vec<Span>; Stream::ALL.len()];

/// What a job's steps took.
pub struct Observation {
    pub fleet: Fleet,
    /// By step that was traced.
    pub seconds: Vec<f64>,
    /// By step that was not; none where tracing takes no time of its own.
    pub untraced: Vec<f64>,
    /// By step, then rank, of the steps nearest to the median.
    pub spans: Vec<Vec<RankSpans>>,
    /// Of the fixed kernel between the steps; nothing where a GPU made them.
    pub speed: FlopsPerSecond,
    /// Memory of the GPU that the steps took beside the ranks' own: code of kernels.
    pub code: Bytes,
}

impl Observation {
    /// The median step of those that were traced.
    pub fn step_time(&self) -> Seconds {
        Seconds(median(self.seconds.clone()))
    }
}

/// The middle of `values`; 0 where there are none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The mean of `values`; 0 where there are none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The share of steps whose spans are kept, those nearest to the median. A step is a sum: the ops of such a step sum up
/// to it, where the medians of ops, whose longest times are far from their middle, sum up to less.
const KEPT: f64 = 0.5;

/// Steps that are not looked at: caches are cold and pages new. On a GPU the second makes graphs.
pub(super) const WARM_UP: u64 = 2;

struct Looker<'a> {
    batches: &'a Batches,
    /// Steps made so far.
    made: u64,
    seconds: Vec<f64>,
    spans: Vec<Vec<RankSpans>>,
    /// Where cores make the steps.
    kernel: Option<FixedKernel>,
    /// By step that was not traced.
    untraced: Vec<f64>,
    /// No step is made behind this moment, once one counts.
    end: Option<Instant>,
}

impl Watcher for Looker<'_> {
    fn load(&mut self, fleet: &Fleet, step: u64) -> Result<(), ExecuteError> {
        fleet.load(self.batches, step)?;
        Ok(())
    }

    /// On a GPU tracing takes time of its own, so every other step is made without it.
    fn tracing(&self, fleet: &Fleet) -> Tracing {
        let is_even = self.made.is_multiple_of(2);
        if fleet.gpu().is_none() || is_even { Tracing::On } else { Tracing::Off }
    }

    fn wants_gradients(&self, _step: u64) -> bool {
        false
    }

    fn gradients(&mut self, _fleet: &Fleet, _step: u64) -> Result<(), ExecuteError> {
        Ok(())
    }

    fn step(&mut self, fleet: &Fleet, result: &StepResult) -> Result<ControlFlow<()>, ExecuteError> {
        let tracing = self.tracing(fleet);
        self.made += 1;
        if self.made <= WARM_UP {
            return Ok(ControlFlow::Continue(()));
        }
        if tracing == Tracing::Off {
            self.untraced.push(result.seconds);
        } else {
            self.seconds.push(result.seconds);
            let of = |rank: usize| Stream::ALL.map(|stream| fleet.spans(rank, stream));
            self.spans.push((0..fleet.ranks.len()).map(of).collect());
            if let Some(kernel) = &mut self.kernel {
                kernel.turn();
            }
        }
        let is_over = self.end.is_some_and(|end| Instant::now() >= end);
        Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// The vocabulary of an embedding.
const fn words(kind: &LayerKind) -> Option<u64> {
    match kind {
        LayerKind::Embedding(embedding) => Some(embedding.vocabulary),
        _ => None,
    }
}

/// Trains `job` on random weights and tokens: steps that warm up, then `steps` that are traced. It stops earlier when these
/// take longer than `limit`, but not before the first of them.
///
/// # Errors
/// If the job cannot be run here.
pub fn observe(
    job: Job,
    settings: Settings,
    (steps, limit): (u64, Option<Duration>),
) -> Result<Observation, CalibrateError> {
    let (workload, data) = (job.workload, job.strategy.data);
    let vocabulary =
        job.model.layers().map(|layer| &layer.kind).filter_map(words).max().unwrap_or(2).max(2) as u32;
    let tokens = Tokens::Synthetic(Synthetic::new(0, vocabulary)?);
    let batches = Batches::new(tokens, workload.seq_len, workload.global_batch, data, None)?;
    let weights = Weights::random(&job.model, 0);
    let fleet = Fleet::new(Run::new(job, settings)?)?;
    let free = fleet.free_on_gpu();
    let kernel = (settings.device == DeviceKind::Cpu).then(|| FixedKernel::new(machine::cores()));
    let end = limit.map(|limit| Instant::now() + limit);
    let (seconds, untraced, spans) = (Vec::new(), Vec::new(), Vec::new());
    let mut looker = Looker { batches: &batches, made: 0, seconds, untraced, spans, kernel, end };
    fleet.set_parameters(&weights);
    let steps = if fleet.gpu().is_some() { 2 * steps } else { steps };
    fleet.train((0, WARM_UP + steps), &mut looker)?;
    let Looker { seconds, untraced, spans, kernel, .. } = looker;
    let spans = nearest(&seconds, spans);
    let speed = kernel.and_then(|kernel| kernel.speed()).unwrap_or_default();
    let code = free.zip(fleet.free_on_gpu()).map_or(0, |(before, after)| before.0.saturating_sub(after.0));
    Ok(Observation { fleet, seconds, untraced, spans, speed, code: Bytes(code) })
}

/// Those of `spans`, one a step, whose steps took nearest to the median of `seconds`.
fn nearest(seconds: &[f64], spans: Vec<Vec<RankSpans>>) -> Vec<Vec<RankSpans>> {
    let middle = median(seconds.to_vec());
    let mut steps: Vec<_> = seconds.iter().map(|seconds| (seconds - middle).abs()).zip(spans).collect();
    steps.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    steps.truncate((KEPT * seconds.len() as f64).ceil() as usize);
    steps.into_iter().map(|(_, spans)| spans).collect()
}
