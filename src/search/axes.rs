//! The values that are tried on each key.

use std::collections::BTreeMap;

use crate::profile::capabilities::{CheckpointGrain, CutGrain, ShardGroups, Supports};
use crate::profile::choices::{Compression, ContextKind, GradientSync, LossMode, Schedule, switch};
use crate::search::choices::{FRACTIONS, splits};
use crate::search::problem::Problem;
use crate::search::request::Request;
use crate::strategy::grammar::{BucketSize, Grammar};
use crate::strategy::text_error::list;
use crate::strategy::{Capacity, Draft, Key, Strategy, defaults};
use crate::units::ElementType;

/// Most tokens of a micro-batch that are tried, where neither micro-batch nor accumulation is fixed.
const MOST_MICRO_TOKENS: u64 = 1 << 17;

/// Fewest tokens of a sequence that a context rank is given, where context parallelism is not fixed.
const LEAST_CONTEXT_TOKENS: u64 = 512;

/// Most chunks a rank that are tried.
const MOST_VIRTUAL: u64 = 8;

/// Capacities that are tried where the user frees them: none dropped, and the factors of Fedus et al. 2021
/// (arXiv 2101.03961).
const CAPACITIES: [Capacity; 3] = [Capacity::Full, Capacity::Factor(1.25), Capacity::Factor(1.0)];

/// Which cuts are tried, in words.
const CUTS: &str =
    "one chunk a rank: any; several: ⌊n⌋ or ⌈n⌉ blocks each, the remainder spread in three ways";

/// The same of an engine that leaves no choice.
const OWN_CUTS: &str = "where the engine cuts";

/// Which mesh orders are tried, in words.
const ORDERS: &str = "any order of tp, cp, shard, replica and pp";

/// Sizes of tensor, context, pipeline and data parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MeshSizes {
    pub tensor: u64,
    pub context: u64,
    pub pipeline: u64,
    pub data: u64,
}

/// What shards and reduces state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateChoice {
    pub zero: u8,
    pub shard: u64,
    pub reshard: bool,
    pub sync: GradientSync,
}

impl StateChoice {
    /// Writes the choice into `strategy`.
    pub fn apply(&self, strategy: &mut Strategy) {
        strategy.zero = self.zero;
        strategy.shard = self.shard;
        strategy.reshard_after_forward = self.reshard;
        strategy.sync = self.sync;
    }
}

/// Choices that change numerics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NumericsChoice {
    pub compression: Compression,
    pub gradient: ElementType,
    pub reduce: ElementType,
    pub capacity: Capacity,
}

/// The values on each key, a fixed key's one value alone.
#[derive(Clone, Debug)]
pub struct Axes<'a> {
    problem: &'a Problem<'a>,
    request: &'a Request,
    pub meshes: Vec<MeshSizes>,
    pub numerics: Vec<NumericsChoice>,
    pub loss: Vec<LossMode>,
}

/// All divisors of `number`, ascending.
pub fn divisors(number: u64) -> Vec<u64> {
    let mut low: Vec<u64> =
        (1..).take_while(|d| d * d <= number).filter(|d| number.is_multiple_of(*d)).collect();
    let high: Vec<u64> =
        low.iter().rev().map(|d| number / d).filter(|d| d * d != number || low.last() != Some(d)).collect();
    low.extend(high);
    low.dedup();
    low
}

/// Which checkpoint modes are tried, in words.
fn modes(supports: &Supports) -> String {
    let names: Vec<String> = supports.checkpoint.iter().map(ToString::to_string).collect();
    let names = list(&names);
    if supports.is_free_inside() {
        return format!(
            "{names}: any number of a rank's blocks, the first ones, or the first K of each chunk full"
        );
    }
    match *supports.checkpoint_grain {
        CheckpointGrain::All => format!("{names}: all blocks alike"),
        _ => format!("{names}: all blocks alike, or the first K of each chunk full"),
    }
}

/// Which fractions are tried on the host.
fn fractions(supports: &Supports) -> Vec<String> {
    let tried = splits(None, supports).into_iter().flatten();
    let mut tried: Vec<String> = tried.map(|fraction| fraction.to_string()).collect();
    tried.sort_unstable();
    tried.dedup();
    tried
}

impl<'a> Axes<'a> {
    /// The axes of `request` on `problem`.
    pub fn new(problem: &'a Problem<'a>, request: &'a Request) -> Self {
        let fix = &request.fix;
        let supports = &problem.engine.supports;
        let defaults = problem.facts.defaults;
        let is_free = |key: Key| request.free.contains(&key);
        let wide = [ElementType::Fp32, ElementType::Bf16];
        let is_mixed = problem.workload.has_master_weights();
        let is_said = fix.gradient_type.is_some() || fix.reduce_type.is_some();
        let of_recipes = problem.engine.defaults.gradient.filter(|_| is_mixed && !is_said);
        let varied = |key, fixed: Option<ElementType>, default: ElementType| match (fixed, of_recipes) {
            (Some(fixed), _) => vec![fixed],
            (None, _) if is_free(key) && is_mixed => wide.to_vec(),
            (None, of_recipes) => vec![of_recipes.unwrap_or(default)],
        };
        let compressions = match fix.compression {
            Some(fixed) => vec![fixed],
            None if is_free(Key::Compression) => supports.compress.value.clone(),
            None => vec![Compression::None],
        };
        let drops = *supports.token_dropping && !problem.facts.experts.is_empty();
        let capacities = match fix.capacity {
            Some(fixed) => vec![fixed],
            None if is_free(Key::Capacity) && drops => CAPACITIES.to_vec(),
            None => vec![defaults::CAPACITY],
        };
        let mut numerics = Vec::new();
        for &compression in &compressions {
            for &gradient in &varied(Key::Gradient, fix.gradient_type, defaults.gradient) {
                for &reduce in &varied(Key::Reduce, fix.reduce_type, defaults.reduce) {
                    numerics.extend(capacities.iter().map(|&capacity| NumericsChoice {
                        compression,
                        gradient,
                        reduce,
                        capacity,
                    }));
                }
            }
        }
        let loss = fix.loss.map_or_else(|| supports.loss.value.clone(), |fixed| vec![fixed]);
        Self { problem, request, meshes: meshes(problem, fix), numerics, loss }
    }

    /// Expert-parallel sizes and the tensor size inside an expert.
    pub fn experts(&self, mesh: MeshSizes) -> Vec<(u64, u64)> {
        let facts = &self.problem.facts;
        let Some(experts) = facts.experts.first() else {
            let expert = self.request.fix.expert.unwrap_or(1);
            return vec![(expert, self.request.fix.expert_tensor.unwrap_or(mesh.tensor))];
        };
        let ranks = mesh.tensor * mesh.context * mesh.data;
        let sizes = match self.request.fix.expert {
            Some(fixed) => vec![fixed],
            None if !*self.problem.engine.supports.expert_parallel => vec![1],
            None => divisors(experts.count).into_iter().filter(|size| *size <= ranks).collect(),
        };
        let offer = &self.problem.engine.supports.expert_tensor;
        let inside = |expert: u64| match self.request.fix.expert_tensor {
            Some(fixed) => vec![fixed],
            None if mesh.tensor == 1 => vec![1],
            None => offer.sizes(mesh.tensor, expert),
        };
        sizes.into_iter().flat_map(|size| inside(size).into_iter().map(move |etp| (size, etp))).collect()
    }

    /// Sequence parallelism.
    pub fn sequence_parallel(&self, mesh: MeshSizes) -> Vec<bool> {
        match self.request.fix.sequence_parallel {
            _ if mesh.tensor == 1 => vec![false],
            Some(fixed) => vec![fixed],
            None => self.problem.engine.supports.sequence_parallel.value.clone(),
        }
    }

    /// Kinds of context parallelism.
    pub fn context_kinds(&self, mesh: MeshSizes) -> Vec<ContextKind> {
        match self.request.fix.context_kind {
            _ if mesh.context == 1 => vec![ContextKind::Ring],
            Some(fixed) => vec![fixed],
            None => self.problem.engine.supports.context.value.clone(),
        }
    }

    /// Micro-batches and their number; empty where data parallelism does not divide the batch.
    pub fn micro_batches(&self, mesh: MeshSizes) -> Vec<(u64, u64)> {
        let batch = self.problem.workload.global_batch;
        if !batch.is_multiple_of(mesh.data) {
            return Vec::new();
        }
        let share = batch / mesh.data;
        divisors(share)
            .into_iter()
            .filter(|&micro| match (self.request.fix.micro_batch, self.request.fix.accumulation) {
                (Some(fixed), _) if fixed != micro => false,
                (_, Some(fixed)) if fixed != share / micro => false,
                (None, None) => micro == 1 || micro * self.problem.workload.seq_len <= MOST_MICRO_TOKENS,
                _ => true,
            })
            .map(|micro| (micro, share / micro))
            .collect()
    }

    /// Schedules and chunks a rank.
    pub fn schedules(&self, mesh: MeshSizes, accumulation: u64) -> Vec<(Schedule, u64)> {
        let blocks = u64::from(self.problem.facts.blocks);
        let schedules = match self.request.fix.schedule {
            Some(fixed) => vec![fixed],
            None if mesh.pipeline == 1 => vec![Schedule::OneForwardOneBackward],
            None => self.problem.engine.supports.schedules.value.clone(),
        };
        let mut list = Vec::new();
        for schedule in schedules {
            if schedule == Schedule::GPipe && accumulation == 1 && self.request.fix.schedule.is_none() {
                continue;
            }
            match (schedule, self.request.fix.virtual_stages) {
                (_, Some(fixed)) => list.push((schedule, fixed)),
                (Schedule::Interleaved, None) => {
                    let most = (blocks / mesh.pipeline).clamp(2, MOST_VIRTUAL);
                    let even = |chunks: &u64| blocks.is_multiple_of(mesh.pipeline * chunks);
                    let has_even = (2..=most).any(|chunks| even(&chunks));
                    // Where none divides the blocks, chunks differ by one. A chunk without blocks only passes on what comes.
                    let chunks = (2..=most).filter(|chunks| !has_even || even(chunks));
                    list.extend(chunks.map(|chunks| (schedule, chunks)));
                }
                (Schedule::ZeroBubbleV, None) => list.push((schedule, 2)),
                (_, None) => list.push((schedule, 1)),
            }
        }
        list
    }

    /// ZeRO stages, shard groups, resharding and synchronisation; each way to do the same once.
    pub fn states(&self, mesh: MeshSizes, accumulation: u64) -> Vec<StateChoice> {
        let supports = &self.problem.engine.supports;
        let stages = self.request.fix.zero.map_or_else(|| supports.zero.value.clone(), |fixed| vec![fixed]);
        let mut list = Vec::new();
        for zero in stages {
            let shards = match self.request.fix.shard {
                Some(fixed) => vec![fixed],
                None if zero == 0 || *supports.shard_groups == ShardGroups::None => vec![mesh.data],
                None if mesh.data == 1 => vec![1],
                None => divisors(mesh.data).into_iter().filter(|&shard| shard > 1).collect(),
            };
            let reshards = match self.request.fix.reshard_after_forward {
                _ if zero < 3 => vec![true],
                Some(fixed) => vec![fixed],
                None => supports.reshard.value.clone(),
            };
            for &shard in &shards {
                let syncs: Vec<GradientSync> = match self.request.fix.sync {
                    Some(fixed) => vec![fixed],
                    None if accumulation == 1 => vec![crate::strategy::defaults::sync(zero)],
                    None => supports
                        .syncs(zero, mesh.pipeline > 1)
                        .filter(|&sync| sync != GradientSync::Scatter || (zero >= 1 && shard < mesh.data))
                        .collect(),
                };
                for &reshard in &reshards {
                    list.extend(syncs.iter().map(|&sync| StateChoice { zero, shard, reshard, sync }));
                }
            }
        }
        list
    }

    /// The keys that stand still, as text: those of a fixed value, and of the others where the engine has them by
    /// default.
    pub fn held(&self) -> BTreeMap<String, String> {
        let defaults = self.problem.facts.defaults;
        let mut held = BTreeMap::from([
            (Key::Overlap.name().to_owned(), switch(true).to_owned()),
            (Key::Attention.name().to_owned(), defaults.attention.to_string()),
        ]);
        if self.problem.engine.buffers.reduces_in_buckets() {
            held.insert(Key::Bucket.name().to_owned(), BucketSize::print(&defaults::BUCKET));
        }
        if !self.problem.facts.experts.is_empty() && !self.request.free.contains(&Key::Capacity) {
            held.insert(Key::Capacity.name().to_owned(), defaults::CAPACITY.to_string());
        }
        let value = |key: Key| Some((key.name().to_owned(), self.request.fix.value(key)?));
        held.extend(self.request.fix.keys().into_iter().filter_map(value));
        held
    }

    /// What is fixed to values that a search would not try, as text.
    pub fn outside(&self) -> Vec<String> {
        let fix = &self.request.fix;
        let is_outside = |key: &Key| {
            let mut fewer = fix.clone();
            fewer.take(*key, &Draft::default());
            let request = Request { fix: fewer, ..self.request.clone() };
            let tried = Axes::new(self.problem, &request).listed().remove(key.name()).unwrap_or_default();
            match key {
                Key::Cuts | Key::Checkpoint | Key::Order => false,
                Key::Offload => {
                    let fractions = fix.offload.iter().flatten().flat_map(|(_, fractions)| fractions);
                    fractions.into_iter().any(|fraction| !FRACTIONS.contains(fraction))
                }
                _ => !tried.is_empty() && fix.value(*key).is_some_and(|value| !tried.contains(&value)),
            }
        };
        let outside = fix.keys().into_iter().filter(is_outside);
        outside.filter_map(|key| Some(format!("{key}={}", fix.value(key)?))).collect()
    }

    /// The values tried on each key, as text.
    pub fn listed(&self) -> BTreeMap<String, Vec<String>> {
        let mut list: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut put = |key: Key, mut values: Vec<u64>| {
            values.sort_unstable();
            values.dedup();
            list.insert(key.name().to_owned(), values.iter().map(u64::to_string).collect());
        };
        put(Key::Tensor, self.meshes.iter().map(|mesh| mesh.tensor).collect());
        put(Key::Context, self.meshes.iter().map(|mesh| mesh.context).collect());
        put(Key::Pipeline, self.meshes.iter().map(|mesh| mesh.pipeline).collect());
        put(Key::Data, self.meshes.iter().map(|mesh| mesh.data).collect());
        let micro = self.meshes.iter().flat_map(|&mesh| self.micro_batches(mesh));
        put(Key::MicroBatch, micro.clone().map(|(micro, _)| micro).collect());
        put(Key::Accumulation, micro.map(|(_, accumulation)| accumulation).collect());
        put(
            Key::Expert,
            self.meshes.iter().flat_map(|&mesh| self.experts(mesh)).map(|(expert, _)| expert).collect(),
        );
        put(
            Key::ExpertTensor,
            self.meshes.iter().flat_map(|&mesh| self.experts(mesh)).map(|(_, inside)| inside).collect(),
        );
        let states: Vec<StateChoice> = self.meshes.iter().flat_map(|&mesh| self.states(mesh, 2)).collect();
        put(Key::Zero, states.iter().map(|state| u64::from(state.zero)).collect());
        put(Key::Shard, states.iter().map(|state| state.shard).collect());
        let schedules: Vec<_> = self.meshes.iter().flat_map(|&mesh| self.schedules(mesh, 2)).collect();
        put(Key::VirtualStages, schedules.iter().map(|(_, chunks)| *chunks).collect());
        let mut say = |key: Key, mut values: Vec<String>| {
            values.sort_unstable();
            values.dedup();
            list.insert(key.name().to_owned(), values);
        };
        say(Key::Schedule, schedules.iter().map(|(schedule, _)| schedule.to_string()).collect());
        say(Key::Sync, states.iter().map(|state| state.sync.to_string()).collect());
        let on_off = |on: bool| switch(on).to_owned();
        say(Key::Reshard, states.iter().map(|state| on_off(state.reshard)).collect());
        say(
            Key::SequenceParallel,
            self.meshes.iter().flat_map(|&mesh| self.sequence_parallel(mesh)).map(on_off).collect(),
        );
        say(
            Key::ContextKind,
            self.meshes
                .iter()
                .flat_map(|&mesh| self.context_kinds(mesh))
                .map(|kind| kind.to_string())
                .collect(),
        );
        let (fix, supports) = (&self.request.fix, &self.problem.engine.supports);
        let mut inner =
            |key: Key, free: Vec<String>| say(key, fix.value(key).map_or(free, |fixed| vec![fixed]));
        let is_open = *supports.cuts == CutGrain::Any;
        inner(Key::Cuts, vec![if is_open { CUTS } else { OWN_CUTS }.to_owned()]);
        inner(Key::Checkpoint, vec![modes(supports)]);
        inner(Key::Offload, fractions(supports));
        inner(Key::Order, vec![ORDERS.to_owned()]);
        say(Key::Loss, self.loss.iter().map(|loss| loss.to_string()).collect());
        if !self.problem.facts.experts.is_empty() && self.request.free.contains(&Key::Capacity) {
            say(Key::Capacity, self.numerics.iter().map(|choice| choice.capacity.to_string()).collect());
        }
        say(Key::Compression, self.numerics.iter().map(|choice| choice.compression.to_string()).collect());
        say(Key::Gradient, self.numerics.iter().map(|choice| choice.gradient.to_string()).collect());
        say(Key::Reduce, self.numerics.iter().map(|choice| choice.reduce.to_string()).collect());
        list
    }
}

/// All ways to write the devices as tp · cp · pp · dp that hold the fixed sizes. Unless fixed, a pipeline has no more
/// stages than it takes for each block, and for the layers before and after the blocks, to have one of its own; a tensor
/// group no more ranks than heads; and a context rank a sensible share of the sequence.
fn meshes(problem: &Problem<'_>, fix: &Draft) -> Vec<MeshSizes> {
    let facts = &problem.facts;
    let devices = facts.devices;
    let own_stages = u64::from(facts.blocks) + 2;
    let most_context = (facts.workload.seq_len / LEAST_CONTEXT_TOKENS).max(1);
    let most_tensor = facts.heads.iter().map(|heads| heads.query).min().unwrap_or(devices);
    let mut list = Vec::new();
    let allowed = |fixed: Option<u64>, size: u64| fixed.is_none_or(|fixed| fixed == size);
    for tensor in divisors(devices).into_iter().filter(|&size| allowed(fix.tensor, size)) {
        if tensor > most_tensor && fix.tensor.is_none() {
            continue;
        }
        let left = devices / tensor;
        for context in divisors(left).into_iter().filter(|&size| allowed(fix.context, size)) {
            if context > most_context && fix.context.is_none() {
                continue;
            }
            let left = left / context;
            let pipelines = divisors(left);
            let most_stages = pipelines.iter().copied().find(|&size| size >= own_stages).unwrap_or(left);
            for pipeline in pipelines.into_iter().filter(|&size| allowed(fix.pipeline, size)) {
                let data = left / pipeline;
                if pipeline > most_stages && fix.pipeline.is_none() {
                    continue;
                }
                if allowed(fix.data, data) {
                    list.push(MeshSizes { tensor, context, pipeline, data });
                }
            }
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::divisors;

    #[test]
    fn divisors_are_all_there_and_ascend() {
        assert_eq!(divisors(1), [1]);
        assert_eq!(divisors(12), [1, 2, 3, 4, 6, 12]);
        assert_eq!(divisors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
        for number in 1..300 {
            let slow: Vec<u64> = (1..=number).filter(|d| number % d == 0).collect();
            assert_eq!(divisors(number), slow);
        }
    }
}
