//! The largest batch without accumulation, or the longest sequence, that still fits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Setting, Watch};
use crate::search::axes::divisors;
use crate::search::contradiction::contradiction;
use crate::search::request::{Failure, Outcome, Request};
use crate::search::run::search;
use crate::strategy::Draft;
use crate::strategy::rules::Rule;
use crate::units::grouped;

/// What is to be as large as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Maximize {
    /// Sequences of a step that does not accumulate: dp · micro with accum 1.
    Batch,
    /// Tokens a sequence, in multiples of 1024, or of 128 or 1 where nothing longer fits.
    SeqLen,
}

/// The largest value that may be asked for whatever the memory, and why no larger one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceiling {
    pub most: u64,
    pub reason: String,
}

/// The largest value that fits.
#[derive(Clone, Debug)]
pub struct Maximum<'a> {
    pub what: Maximize,
    pub value: u64,
    /// The setting with that value.
    pub setting: Setting<'a>,
    pub outcome: Outcome,
    /// The least larger value that was looked at.
    pub next: u64,
    pub next_fails_because: String,
}

/// Steps of a sequence's length, the coarsest first, and how many of each are looked at.
const LENGTHS: [(u64, u64); 3] = [(1024, u64::MAX), (128, 7), (1, 127)];

/// Looks for the largest value by doubling and bisection; settings are as `home` otherwise, and keys that `request`
/// fixes are held.
///
/// # Errors
/// Why the smallest value does not fit.
pub fn maximum<'a>(
    home: &Setting<'a>,
    request: &Request,
    what: Maximize,
    ceiling: &Ceiling,
    watch: Watch<'_>,
) -> Result<Maximum<'a>, Failure> {
    let request = Request { top: 0, ..request.clone() };
    // Whether anything fits has nothing to do with which of it is chosen.
    let any = Request { tolerance: None, ..request.clone() };
    let mut probe = Probe { home, request: &any, what, watch, best: None, failures: Vec::new() };
    match what {
        Maximize::Batch => probe.batches(ceiling.most),
        Maximize::SeqLen => probe.lengths(ceiling.most),
    }
    let Probe { best, mut failures, .. } = probe;
    failures.sort_by_key(|(value, _)| *value);
    let Some((value, outcome)) = best else {
        let smallest = failures.into_iter().next().map(|(_, failure)| failure);
        return Err(smallest.unwrap_or_else(|| illegal(home, &request.fix)));
    };
    let setting = with(home, what, value);
    // Any data-parallel size may be the best at the batch that one of them reaches.
    let fix = match what {
        Maximize::Batch => Draft { accumulation: Some(1), ..request.fix.clone() },
        Maximize::SeqLen => request.fix.clone(),
    };
    let outcome = search(&setting.problem(), &Request { fix, ..request }, watch.progress).unwrap_or(outcome);
    let failed = failures.into_iter().find(|(failed, _)| *failed > value);
    let (next, next_fails_because) = match failed {
        Some((failed, failure)) => (failed, reason(&failure)),
        None => (ceiling.most.saturating_add(1), ceiling.reason.clone()),
    };
    Ok(Maximum { what, value, setting, outcome, next, next_fails_because })
}

/// `home` with another batch or sequence length.
fn with<'a>(home: &Setting<'a>, what: Maximize, value: u64) -> Setting<'a> {
    let mut setting = home.clone();
    match what {
        Maximize::Batch => setting.workload.global_batch = value,
        Maximize::SeqLen => setting.workload.seq_len = value,
    }
    setting
}

/// The fixed keys leave no data-parallel size at all.
fn illegal(home: &Setting<'_>, fix: &Draft) -> Failure {
    let setting = with(home, Maximize::Batch, home.cluster.devices());
    let fix = Draft { accumulation: Some(1), ..fix.clone() };
    Failure::Illegal(contradiction(&setting.problem(), &Request { fix, ..Request::default() }))
}

/// What was tried so far.
struct Probe<'p, 'a> {
    home: &'p Setting<'a>,
    request: &'p Request,
    what: Maximize,
    watch: Watch<'p>,
    /// The largest value that fits.
    best: Option<(u64, Outcome)>,
    failures: Vec<(u64, Failure)>,
}

impl Probe<'_, '_> {
    /// Every data-parallel size with the largest micro-batch beside it; of those after the first, only what is more
    /// than the best so far. For one size, less fits wherever more does.
    fn batches(&mut self, most: u64) {
        let devices = self.home.cluster.devices();
        for data in divisors(devices).into_iter().rev() {
            if !is_possible(&self.request.fix, data, devices) {
                continue;
            }
            let known = self.best.as_ref().map_or(0, |(best, _)| best / data);
            largest(known, most / data, |micro| {
                let fix = Draft {
                    data: Some(data),
                    micro_batch: Some(micro),
                    accumulation: Some(1),
                    ..self.request.fix.clone()
                };
                self.fits(data * micro, fix)
            });
        }
    }

    /// Multiples of 1024; of the finer steps where not even the first of these fits.
    fn lengths(&mut self, most: u64) {
        for (step, count) in LENGTHS {
            largest(0, count.min(most / step), |steps| self.fits(steps * step, self.request.fix.clone()));
            if self.best.is_some() {
                return;
            }
        }
    }

    fn fits(&mut self, value: u64, fix: Draft) -> bool {
        let name = match self.what {
            Maximize::Batch => "batch",
            Maximize::SeqLen => "seq-len",
        };
        (self.watch.part)(&format!("{name} {}", grouped(value)));
        let setting = with(self.home, self.what, value);
        match search(&setting.problem(), &Request { fix, ..self.request.clone() }, self.watch.progress) {
            Ok(outcome) => {
                if self.best.as_ref().is_none_or(|(best, _)| value > *best) {
                    self.best = Some((value, outcome));
                }
                true
            }
            Err(failure) => {
                self.failures.push((value, failure));
                false
            }
        }
    }
}

/// Whether the fixed sizes leave this data-parallel size.
fn is_possible(fix: &Draft, data: u64, devices: u64) -> bool {
    let others = [fix.tensor, fix.context, fix.pipeline];
    let fixed = others.into_iter().flatten().fold(data, u64::saturating_mul);
    let is_whole = others.iter().all(Option::is_some);
    fix.data.is_none_or(|fixed| fixed == data)
        && devices.is_multiple_of(fixed)
        && (!is_whole || fixed == devices)
}

/// Why a value fails, whose mesh is possible: where the search has no strategy left after exact sums, nothing fits.
fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Illegal(broken) if broken.rule == Rule::Devices => {
            "nothing fits: every strategy is a little too large".to_owned()
        }
        failure => failure.to_string(),
    }
}

/// The largest number above `known` and up to `most` that fits, by doubling what was added and bisection; `known`
/// where not even the next does.
fn largest(known: u64, most: u64, mut fits: impl FnMut(u64) -> bool) -> u64 {
    let (mut low, mut step) = (known, 1);
    let mut high = loop {
        let next = low.saturating_add(step).min(most);
        if next <= low {
            return low;
        }
        if !fits(next) {
            break next;
        }
        (low, step) = (next, if low == known { next } else { step * 2 });
    };
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::largest;

    proptest! {
        #[test]
        fn the_largest_is_found_in_few_tries(known in 0u64..1000, more in 0u64..100_000, room in 0u64..200_000) {
            let (limit, most) = (known + more, known + room);
            let mut tries = 0;
            let found = largest(known, most, |value| {
                tries += 1;
                assert!(value > known && value <= most);
                value <= limit
            });
            prop_assert_eq!(found, limit.min(most));
            prop_assert!(tries <= 2 * 18 + 2, "{}", tries);
        }
    }
}
