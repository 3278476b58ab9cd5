//! What a rank keeps over the whole step: parameters, gradients, optimizer state and staging buffers.

use crate::lower::UnitParameters;
use crate::ops::{AdamW, Op};
use crate::profile::EngineProfile;
use crate::profile::choices::{GradientSync, OffloadCategory, Schedule};
use crate::profile::engine::{MasterWeights, Overlap};
use crate::program::instruction::{Holds, Message, Persistent};
use crate::program::layout::PlacedUnit;
use crate::program::scalars::Scalars;
use crate::strategy::{Strategy, Workload};
use crate::units::{Bytes, ElementType, ceil_div};

/// How state is stored and moved: strategy, workload and engine profile boiled down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StateRules {
    pub zero: u8,
    /// Ranks that share dense state, and expert state.
    pub shards: u64,
    pub expert_shards: u64,
    pub replicas: u64,
    /// Ranks whose dense gradients are summed.
    pub gradient_ranks: u64,
    pub expert_ranks: u64,
    /// Type of stored parameters.
    pub parameter: ElementType,
    /// Type that parameters are gathered and used in.
    pub compute: ElementType,
    pub gradient: ElementType,
    pub reduce: ElementType,
    /// Bytes of optimizer state for each element.
    pub optimizer_size: u64,
    /// Bytes of one of its tensors.
    pub state_size: u64,
    pub has_separate_master: bool,
    pub shards_parameters: bool,
    pub shards_gradients: bool,
    pub shards_optimizer: bool,
    /// Whole gradients are kept until the last micro-batch.
    pub keeps_whole_gradients: bool,
    pub gathering: Gathering,
    /// Elements of a unit that are gathered at a time, or its largest tensor; all of it if there is no limit.
    pub gathers_at_most: u64,
    /// Gradient shards lie where gathered parameters lay.
    pub gradients_reuse_parameters: bool,
    /// Gradients of the step before are gone when it starts, and its one backward makes them.
    pub gradients_come_late: bool,
    /// Gradient shards are kept where the optimizer state is.
    pub gradients_follow_optimizer: bool,
    /// What passes gather are casts of parameters that are whole.
    pub casts_parameters: bool,
    /// Bytes on the host for each element of optimizer state there: with staging for its gradient and its parameter.
    pub host_size: u64,
    /// Gradients are reduced behind the last backward, by the step.
    pub reduces_behind: bool,
    /// Updated parameters are gathered beside the next step's first forward, and not behind the update.
    pub gathers_updates_ahead: bool,
    /// Elements of the buckets that gradients are reduced in, where the engine has such.
    pub bucket: Option<u64>,
    /// Tokens of a rank in a step.
    pub step_tokens: u64,
}

/// Strategies that share them, and are alike in all but their state, have one program but for what it says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistinctRules {
    rules: StateRules,
    sync: Option<GradientSync>,
}

/// When sharded parameters are gathered and given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathering {
    /// Parameters are whole.
    Never,
    /// Before and after each pass.
    EachPass,
    /// Before the forward, given back behind the backward of the same micro-batch.
    ForwardToBackward,
    /// Before the first forward of the step, given back at its end.
    OnceAStep,
}

impl StateRules {
    /// The rules of `strategy` on `workload` under `engine`.
    pub fn new(strategy: &Strategy, workload: &Workload, engine: &EngineProfile) -> Self {
        let state = &engine.state;
        let compute = workload.compute_type();
        let bare = state.master_weights == MasterWeights::None;
        let full = if bare { compute } else { workload.state_type() };
        let separate = state.master_weights == MasterWeights::Separate && workload.has_master_weights();
        let stored = state.master_weights == MasterWeights::Stored;
        let gradient = state.gradient_kept.resolve(strategy.gradient_type, compute);
        let reduce = state.reduced(gradient, strategy.reduce_type, compute);
        let shards_parameters = strategy.zero >= state.parameters_sharded_from;
        let shards = strategy.state_shards();
        let expert_shards = ceil_div(strategy.expert_data(), strategy.replicas()).max(1);
        let is_deferred = strategy.sync == GradientSync::Deferred;
        let keeps_whole_gradients = strategy.zero <= 1 || (is_deferred && strategy.accumulation > 1);
        let shards_optimizer = strategy.zero >= 1;
        let optimizer_size = full.size() * if separate { 3 } else { 2 };
        let parameter = if stored { full } else { compute };
        let follows = state.gradients_follow_optimizer && strategy.zero >= 2 && !keeps_whole_gradients;
        let is_one_pass = strategy.accumulation == 1 && strategy.pipeline == 1;
        // Where whole gradients are summed over ranks, the buckets that they are summed in stay.
        let are_summed_whole = strategy.zero < 2 && (strategy.data * strategy.context > 1);
        let wide_copy = follows && state.single_precision_gradient_copy && gradient.size() < 4;
        Self {
            zero: strategy.zero,
            shards,
            expert_shards,
            replicas: strategy.replicas(),
            gradient_ranks: strategy.context * strategy.data,
            expert_ranks: strategy.expert_data(),
            parameter,
            compute,
            gradient,
            reduce,
            optimizer_size,
            state_size: full.size(),
            has_separate_master: separate,
            shards_parameters,
            shards_gradients: strategy.zero >= 2,
            shards_optimizer,
            keeps_whole_gradients,
            gathering: if casts_parameters(strategy, engine, shards_parameters, (parameter, compute)) {
                Gathering::ForwardToBackward
            } else {
                gathering(strategy, engine, shards_parameters)
            },
            gathers_at_most: engine.buffers.gathers_at_most.unwrap_or(u64::MAX),
            gradients_reuse_parameters: state.gradients_reuse_parameters
                && strategy.zero == 3
                && strategy.accumulation == 1,
            gradients_come_late: state.gradients_given_back
                && is_one_pass
                && !strategy.schedule.splits_weight()
                && !are_summed_whole
                && !follows,
            gradients_follow_optimizer: follows,
            casts_parameters: casts_parameters(strategy, engine, shards_parameters, (parameter, compute)),
            host_size: optimizer_size + gradient.size() + parameter.size() + if wide_copy { 4 } else { 0 },
            reduces_behind: keeps_whole_gradients
                && is_deferred
                && !engine.timing.overlaps(Overlap::Gradients),
            gathers_updates_ahead: shards_optimizer
                && !shards_parameters
                && engine.timing.overlaps(Overlap::Updates),
            bucket: engine.buffers.reduces_in_buckets().then_some(strategy.bucket),
            step_tokens: strategy.accumulation * strategy.micro_batch * workload.seq_len / strategy.context,
        }
    }

    /// What of these rules, and of synchronising by `sync`, makes a difference to a program: stages 2 and 3 differ in
    /// what the rules say else, and a rank that is alone shards, reduces and gathers nothing.
    pub fn distinct(&self, sync: GradientSync) -> DistinctRules {
        let is_alone = self.gradient_ranks <= 1 && self.expert_ranks <= 1;
        let zero = match self.zero {
            0 | 1 if is_alone => 0,
            2 | 3 => 2,
            zero => zero,
        };
        let with_others = |rule: bool| rule && !is_alone;
        let rules = Self {
            zero,
            shards_parameters: with_others(self.shards_parameters),
            shards_optimizer: with_others(self.shards_optimizer),
            reduces_behind: with_others(self.reduces_behind),
            gathers_updates_ahead: with_others(self.gathers_updates_ahead),
            ..*self
        };
        DistinctRules { rules, sync: (!is_alone).then_some(sync) }
    }

    /// Tensors of optimizer state: two moments and, where they are apart, master weights.
    pub const fn optimizer_planes(&self) -> usize {
        if self.has_separate_master { 3 } else { 2 }
    }

    /// Elements of one shard of `dense` and `expert` elements, if `sharded`; all of them otherwise. At most what
    /// units hold that are sharded one by one.
    pub const fn at_least(&self, sharded: bool, dense: u64, expert: u64) -> u64 {
        if sharded {
            dense.div_ceil(self.shards) + expert.div_ceil(self.expert_shards)
        } else {
            dense + expert
        }
    }

    /// AdamW of `elements` elements, on the host or on the device.
    pub const fn adamw(&self, elements: u64, on_host: bool) -> Op {
        Op::AdamW(AdamW {
            elements,
            gradient_size: self.gradient.size(),
            state_size: self.state_size,
            working_size: if self.has_separate_master { self.parameter.size() } else { 0 },
            on_host,
        })
    }

    /// Elements whose optimizer state a rank holds for a unit.
    pub const fn optimizer_elements(&self, parameters: &UnitParameters) -> u64 {
        if self.shards_optimizer {
            parameters.trained_shard(self.shards, self.expert_shards)
        } else {
            parameters.trained()
        }
    }

    /// Elements of parameters a rank stores for a unit.
    pub const fn parameter_elements(&self, parameters: &UnitParameters) -> u64 {
        if self.shards_parameters {
            parameters.shard(self.shards, self.expert_shards)
        } else {
            parameters.total()
        }
    }

    /// Whether a micro-batch's gradients stay in the parameters' type beside wider ones that are kept whole.
    pub const fn keeps_working_gradients(&self, engine: &EngineProfile) -> bool {
        engine.state.keeps_working_gradients
            && self.keeps_whole_gradients
            && self.compute.size() < self.gradient.size()
    }

    /// Elements of parameters that a unit's passes find in its frame: its own and what it borrows.
    pub const fn gathered_elements(&self, parameters: &UnitParameters) -> u64 {
        match self.gathering {
            _ if self.casts_parameters && !parameters.is_multiplied => 0,
            Gathering::EachPass | Gathering::ForwardToBackward => {
                let (all, largest) = (parameters.total() + parameters.borrowed, parameters.largest);
                let together = if largest > self.gathers_at_most { largest } else { self.gathers_at_most };
                if all < together { all } else { together }
            }
            Gathering::Never | Gathering::OnceAStep => 0,
        }
    }

    /// Bytes of a unit's gradient that is kept until the update, whole or this rank's shard.
    pub const fn kept_gradient(&self, parameters: &UnitParameters) -> u64 {
        if self.keeps_whole_gradients {
            parameters.trained() * self.gradient.size()
        } else if self.shards_gradients && !self.gradients_reuse_parameters {
            // Behind a deferred reduction, the shards lie in the whole gradients.
            parameters.trained_shard(self.shards, self.expert_shards) * self.gradient.size()
        } else {
            0
        }
    }

    /// Bytes of the same that are on the host, where `on_host` elements of optimizer state are and `before` come before
    /// the unit's.
    pub fn gradients_on_host(&self, parameters: &UnitParameters, before: u64, on_host: u64) -> u64 {
        let elements = on_host.saturating_sub(before).min(self.optimizer_elements(parameters));
        if self.gradients_follow_optimizer { elements * self.gradient.size() } else { 0 }
    }

    /// Whether that comes with the unit's backward and is gone behind the update.
    pub const fn comes_late(&self, parameters: &UnitParameters) -> bool {
        self.gradients_come_late && parameters.has_own_gradient
    }

    /// Elements of a unit's own gradient in its frame, where none is kept whole.
    pub const fn unit_gradient_elements(&self, parameters: &UnitParameters) -> u64 {
        if self.keeps_whole_gradients { 0 } else { parameters.trained() + parameters.borrowed_trained() }
    }
}

/// Whether whole parameters of the first type are cast to the second for each forward, and the casts stay.
fn casts_parameters(
    strategy: &Strategy,
    engine: &EngineProfile,
    shards_parameters: bool,
    (parameter, compute): (ElementType, ElementType),
) -> bool {
    let is_cast = engine.state.casts_stay && compute.size() < parameter.size();
    is_cast && !shards_parameters && strategy.pipeline == 1
}

fn gathering(strategy: &Strategy, engine: &EngineProfile, shards_parameters: bool) -> Gathering {
    let stays = !strategy.reshard_after_forward || strategy.zero < 3;
    if !shards_parameters {
        Gathering::Never
    } else if (strategy.pipeline > 1 && (stays || engine.buffers.pipeline_keeps_gathered))
        || (stays && strategy.schedule == Schedule::GPipe)
    {
        Gathering::OnceAStep
    } else if stays {
        Gathering::ForwardToBackward
    } else {
        Gathering::EachPass
    }
}

/// Everything that the rank of `units` holds over the step; its trained matrices, one of each shape, have
/// `matrix_shapes` elements, the messages that it receives the sizes in `inboxes`.
pub fn persistent(
    units: &[&PlacedUnit],
    (stage, matrix_shapes): (usize, u64),
    inboxes: &[(Message, Bytes)],
    scalars: Scalars,
    rules: &StateRules,
    strategy: &Strategy,
    engine: &EngineProfile,
) -> Vec<Persistent> {
    let mut list = Vec::new();
    let mut add = |holds, unit: Option<&PlacedUnit>, device: u64, host: u64| {
        if device + host > 0 {
            let unit = unit.map(|unit| unit.unit);
            list.push(Persistent { holds, unit, device: Bytes(device), host: Bytes(host) });
        }
    };
    let elements: u64 = units.iter().map(|unit| rules.optimizer_elements(&unit.parameters)).sum();
    let on_host = offloaded_elements(strategy, stage, elements);
    let mut owned = 0;
    for unit in units {
        let parameters = &unit.parameters;
        let stored = rules.parameter_elements(parameters) * rules.parameter.size();
        let (device, host) = if unit.offloads_parameters { (0, stored) } else { (stored, 0) };
        add(Holds::Parameters, Some(unit), device, host);
        if rules.gathering == Gathering::OnceAStep {
            let bytes = parameters.total() * rules.compute.size();
            add(Holds::GatheredParameters, Some(unit), bytes, 0);
        }
        let kept = if rules.keeps_whole_gradients { Holds::Gradients } else { Holds::GradientShards };
        if !rules.comes_late(parameters) {
            let moved = rules.gradients_on_host(parameters, owned, on_host);
            add(kept, Some(unit), rules.kept_gradient(parameters) - moved, 0);
        }
        owned += rules.optimizer_elements(parameters);
    }
    // Gradients that live on the host are those that are staged for the update there.
    add(Holds::OptimizerState, None, (elements - on_host) * rules.optimizer_size, on_host * rules.host_size);
    add(Holds::ReductionBuckets, None, staging_bytes(units, rules, strategy, engine), 0);
    if rules.keeps_working_gradients(engine) {
        let trained: u64 = units.iter().map(|unit| unit.parameters.trained()).sum();
        add(Holds::WorkingGradients, None, trained * rules.compute.size(), 0);
    }
    if engine.buffers.placeholder_gradients {
        add(Holds::PlaceholderGradients, None, matrix_shapes * rules.compute.size(), 0);
    }
    let ids = rules.step_tokens * TOKEN_ID_SIZE;
    add(Holds::Tokens, None, if units.iter().any(|unit| unit.reads_tokens) { ids } else { 0 }, 0);
    add(Holds::Targets, None, if units.iter().any(|unit| unit.reads_targets) { ids } else { 0 }, 0);
    let copied = if on_host > 0 { Scalars::head_bytes().0 } else { 0 };
    add(Holds::Scalars, None, scalars.bytes().0, copied);
    for &(message, bytes) in inboxes {
        add(Holds::Inbox(message), None, bytes.0, 0);
    }
    add(Holds::Workspace, None, engine.buffers.workspace, 0);
    list
}

/// Bytes of a token id.
pub const TOKEN_ID_SIZE: u64 = 4;

/// Elements of optimizer state, of `elements`, that stage `stage` keeps on the host.
pub fn offloaded_elements(strategy: &Strategy, stage: usize, elements: u64) -> u64 {
    let fraction = strategy.offload.fraction(OffloadCategory::Optimizer, stage);
    ((fraction * elements as f64).ceil() as u64).min(elements)
}

/// Buckets that gradients are staged in on their way through a reduction.
fn staging_bytes(
    units: &[&PlacedUnit],
    rules: &StateRules,
    strategy: &Strategy,
    engine: &EngineProfile,
) -> u64 {
    let dense: u64 = units.iter().map(|unit| unit.parameters.dense_trained).sum();
    let expert: u64 = units.iter().map(|unit| unit.parameters.expert_trained).sum();
    let reduced =
        if rules.gradient_ranks > 1 { dense } else { 0 } + if rules.expert_ranks > 1 { expert } else { 0 };
    engine.buffers.reduce_buckets * strategy.bucket.min(reduced) * rules.reduce.size()
}
