//! The single changes that may make a strategy fit: every key, each value that lowers or moves memory.

use crate::profile::choices::{AttentionKernel, CheckpointMode, LossMode, OffloadCategory, Schedule};
use crate::search::axes::divisors;
use crate::search::closed_forms::ClosedForms;
use crate::search::explain::cuts::even_cuts;
use crate::search::problem::Problem;
use crate::strategy::{Capacity, CheckpointEntry, Draft, Key, Strategy};
use crate::units::ElementType;

/// Most chunks a rank that are tried.
const MOST_VIRTUAL: u64 = 8;
/// Shares that are offloaded, the gentlest first.
const SHARES: [f64; 4] = [0.25, 0.5, 0.75, 1.0];
/// Elements of a bucket, the gentlest first.
const BUCKETS: [u64; 4] = [20_000_000, 10_000_000, 5_000_000, 1_000_000];

/// Values that are tried on one key; each draft gives that key, and what it needs beside it.
pub(super) struct Trial {
    pub(super) key: Key,
    pub(super) values: Vec<Draft>,
    pub(super) pick: Pick,
}

/// Which of a trial's values are looked at.
#[derive(Clone, Copy)]
pub(super) enum Pick {
    Each,
    /// They grow in strength and cost, so that the first that fits is the one to take.
    Gentlest,
}

/// All trials for `strategy`; a value that it has already, or that a rule forbids, is no change.
pub(super) fn trials(closed_forms: &ClosedForms<'_>, strategy: &Strategy) -> Vec<Trial> {
    let problem = closed_forms.problem;
    let draft = strategy.draft(problem.facts.defaults);
    let mut trials = Trials(Vec::new());
    trials.checkpoint(strategy, &draft);
    trials.state(problem, strategy);
    trials.mesh(problem, strategy);
    trials.schedule(closed_forms, strategy);
    trials.offload(problem, strategy, &draft);
    trials.passes(problem, strategy);
    trials.numerics(problem, strategy);
    trials.0.into_iter().filter(|trial| !trial.values.is_empty()).collect()
}

struct Trials(Vec<Trial>);

impl Trials {
    fn each<T>(&mut self, key: Key, values: impl IntoIterator<Item = T>, draft: impl Fn(T) -> Draft) {
        let values = values.into_iter().map(draft).collect();
        self.0.push(Trial { key, values, pick: Pick::Each });
    }

    fn gentlest<T>(&mut self, key: Key, values: impl IntoIterator<Item = T>, draft: impl Fn(T) -> Draft) {
        let values = values.into_iter().map(draft).collect();
        self.0.push(Trial { key, values, pick: Pick::Gentlest });
    }

    /// Recompute everywhere, or all of as few blocks a chunk as will do.
    fn checkpoint(&mut self, strategy: &Strategy, draft: &Draft) {
        let entry = |entry| Draft { checkpoint: Some(vec![entry]), ..Draft::default() };
        self.each(Key::Checkpoint, CheckpointMode::RECOMPUTING, |&mode| entry(CheckpointEntry::Whole(mode)));
        let first = match draft.checkpoint.as_deref() {
            None => Some(0),
            Some([CheckpointEntry::First(count)]) => Some(*count),
            Some(_) => None,
        };
        let longest = strategy.cuts.iter().copied().max().unwrap_or(0);
        let counts = first.map_or(0..0, |first| first + 1..longest);
        self.gentlest(Key::Checkpoint, counts, |count| entry(CheckpointEntry::First(count)));
    }

    /// How state is sharded, gathered and summed.
    fn state(&mut self, problem: &Problem<'_>, strategy: &Strategy) {
        let supports = &problem.engine.supports;
        let stages = supports.zero.iter().copied().filter(|&zero| zero > strategy.zero);
        self.each(Key::Zero, stages, |zero| Draft { zero: Some(zero), ..Draft::default() });
        let groups = divisors(strategy.data).into_iter().filter(|&group| group > strategy.shard);
        self.each(Key::Shard, groups, |group| Draft { shard: Some(group), ..Draft::default() });
        let on = Draft { reshard_after_forward: Some(true), ..Draft::default() };
        self.each(Key::Reshard, [on], |on| on);
        let syncs =
            supports.syncs(strategy.zero, strategy.pipeline > 1).filter(|&sync| sync != strategy.sync);
        self.each(Key::Sync, syncs, |sync| Draft { sync: Some(sync), ..Draft::default() });
        let buckets = BUCKETS.into_iter().filter(|&bucket| bucket < strategy.bucket);
        self.gentlest(Key::Bucket, buckets, |bucket| Draft { bucket: Some(bucket), ..Draft::default() });
    }

    /// More of one axis at the cost of data parallelism.
    fn mesh(&mut self, problem: &Problem<'_>, strategy: &Strategy) {
        let more = |size: u64| divisors(strategy.data).into_iter().skip(1).map(move |factor| size * factor);
        self.each(Key::Tensor, more(strategy.tensor), |size| Draft {
            tensor: Some(size),
            ..Draft::default()
        });
        self.each(Key::Context, more(strategy.context), |size| Draft {
            context: Some(size),
            ..Draft::default()
        });
        let stages = more(strategy.pipeline).filter(|&stages| stages <= u64::from(problem.facts.blocks));
        self.each(Key::Pipeline, stages, |size| Draft { pipeline: Some(size), ..Draft::default() });
        let experts = problem.facts.experts.iter().map(|experts| experts.count).max().unwrap_or(1);
        let groups = divisors(experts).into_iter().filter(|&size| size > strategy.expert);
        self.each(Key::Expert, groups, |size| Draft { expert: Some(size), ..Draft::default() });
        let whole = Draft { expert_tensor: Some(strategy.tensor), ..Draft::default() };
        self.each(Key::ExpertTensor, [whole], |whole| whole);
    }

    /// Other schedules, other chunks, and blocks moved from full stages to empty ones.
    fn schedule(&mut self, closed_forms: &ClosedForms<'_>, strategy: &Strategy) {
        if strategy.pipeline == 1 {
            return;
        }
        let others = closed_forms.problem.engine.supports.schedules.iter().copied();
        let others = others.filter(|&schedule| schedule != strategy.schedule);
        self.each(Key::Schedule, others, |schedule| Draft { schedule: Some(schedule), ..Draft::default() });
        if strategy.schedule == Schedule::Interleaved {
            let most = (u64::from(closed_forms.problem.facts.blocks) / strategy.pipeline).min(MOST_VIRTUAL);
            self.each(Key::VirtualStages, 2..=most, |chunks| Draft {
                virtual_stages: Some(chunks),
                ..Draft::default()
            });
        }
        let cuts = even_cuts(closed_forms, strategy);
        self.each(Key::Cuts, cuts, |cuts| Draft { cuts: Some(cuts), ..Draft::default() });
    }

    /// More of one category on the host.
    fn offload(&mut self, problem: &Problem<'_>, strategy: &Strategy, draft: &Draft) {
        for &category in OffloadCategory::ALL {
            let supports = &problem.engine.supports;
            if !supports.offloads().any(|offered| offered == category) {
                continue;
            }
            // What goes together is offloaded together.
            let with: Vec<OffloadCategory> = match *supports.offload_together {
                true => supports.offloads().collect(),
                false => vec![category],
            };
            let now = strategy.offload.fractions(category).iter().copied().fold(0.0, f64::max);
            let mut others = draft.offload.clone().unwrap_or_default();
            others.retain(|(other, _)| !with.contains(other));
            // Some offload from a stage on only; on one rank that stage shards nothing.
            let offers = supports.offload.iter().filter(|offer| with.contains(&offer.category));
            let lowest = offers.map(|offer| offer.from_zero).max();
            let zero = lowest.filter(|&zero| zero > strategy.zero);
            self.gentlest(Key::Offload, SHARES.into_iter().filter(|&share| share > now), |share| {
                let more = with.iter().map(|category| (*category, vec![share]));
                let offload = Some(others.iter().cloned().chain(more).collect());
                Draft { offload, zero, ..Draft::default() }
            });
            // Where it is the host that is full.
            let less =
                SHARES.into_iter().rev().filter(|&share| share < now).chain((now > 0.0).then_some(0.0));
            self.gentlest(Key::Offload, less, |share| {
                let kept = with.iter().filter(|_| share > 0.0).map(|category| (*category, vec![share]));
                Draft { offload: Some(others.iter().cloned().chain(kept).collect()), ..Draft::default() }
            });
        }
    }

    /// Smaller passes, and kernels that keep less.
    fn passes(&mut self, problem: &Problem<'_>, strategy: &Strategy) {
        let share = problem.workload.global_batch / strategy.data.max(1);
        let smaller = divisors(share).into_iter().filter(|&micro| micro < strategy.micro_batch);
        self.each(Key::MicroBatch, smaller, |micro| Draft { micro_batch: Some(micro), ..Draft::default() });
        let chunked = Draft { loss: Some(LossMode::Chunked), ..Draft::default() };
        self.each(Key::Loss, [chunked], |chunked| chunked);
        let fused = Draft { attention: Some(AttentionKernel::Fused), ..Draft::default() };
        self.each(Key::Attention, [fused], |fused| fused);
        let split =
            (strategy.tensor > 1).then(|| Draft { sequence_parallel: Some(true), ..Draft::default() });
        self.each(Key::SequenceParallel, split, |split| split);
    }

    /// What takes less memory and trains other numbers.
    fn numerics(&mut self, problem: &Problem<'_>, strategy: &Strategy) {
        let stronger = problem.engine.supports.compress.iter().copied();
        let stronger = stronger.filter(|&compression| compression > strategy.compression);
        self.each(Key::Compression, stronger, |compression| Draft {
            compression: Some(compression),
            ..Draft::default()
        });
        if problem.workload.has_master_weights() {
            let half = [ElementType::Bf16];
            self.each(Key::Gradient, half, |half| Draft { gradient_type: Some(half), ..Draft::default() });
            self.each(Key::Reduce, half, |half| Draft { reduce_type: Some(half), ..Draft::default() });
        }
        let factor = match strategy.capacity {
            Capacity::Factor(factor) => factor,
            Capacity::Full => f64::INFINITY,
        };
        let fewer = [2.0, 1.25, 1.0].into_iter().filter(|&fewer| fewer < factor);
        self.gentlest(Key::Capacity, fewer, |fewer| Draft {
            capacity: Some(Capacity::Factor(fewer)),
            ..Draft::default()
        });
    }
}
