//! Draft to strategy: defaults filled in, keys without effect set to their default, rules checked.

use super::{
    Axis, Checkpoint, CheckpointEntry, CheckpointMode, Compression, ContextKind, Defaults, Draft, Facts,
    GradientSync, Key, LossMode, Offload, OffloadCategory, Rule, RuleBreak, Schedule, Strategy, Workload,
    capabilities, cuts, defaults, rules,
};
use crate::model::Model;
use crate::profile::EngineProfile;

/// The strategy that `draft` means for this model, number of devices, workload and engine.
pub fn resolve(
    draft: &Draft,
    model: &Model,
    devices: u64,
    workload: &Workload,
    profile: &EngineProfile,
) -> Result<Strategy, RuleBreak> {
    draft.resolve(&Facts::new(model, devices, workload, profile))
}

impl Draft {
    /// The strategy that the draft means under these facts.
    ///
    /// # Errors
    /// The rule that it breaks, with the value of the key as the draft has it.
    pub fn resolve(&self, facts: &Facts) -> Result<Strategy, RuleBreak> {
        self.resolved(facts).map_err(|broken| {
            let given = broken.field.parse::<Key>().ok().and_then(|key| self.value(key));
            RuleBreak { value: given.unwrap_or(broken.value), ..broken }
        })
    }

    fn resolved(&self, facts: &Facts) -> Result<Strategy, RuleBreak> {
        let mut strategy = self.sizes(facts);
        // What the lists are as long as is bounded by these two.
        for rule in [Rule::Devices, Rule::VirtualStages] {
            rule.check(&strategy, facts)?;
        }
        strategy.cuts = match &self.cuts {
            Some(cuts) => cuts.clone(),
            None => cuts::left_out(facts, strategy.chunks() as usize),
        };
        strategy.checkpoint = self.checkpoints(&strategy.cuts);
        for (category, fractions) in self.offload.iter().flatten() {
            *strategy.offload.fractions_mut(*category) = match fractions.as_slice() {
                &[fraction] => vec![fraction; strategy.pipeline as usize],
                several => several.to_vec(),
            };
        }
        let (sequence_parallel, context_kind) = (strategy.sequence_parallel, strategy.context_kind);
        strategy.normalise(facts);
        let Err(broken) = rules::check(&strategy, facts) else { return Ok(strategy) };
        // An axis of 1 has neither. Advice about a longer axis has to respect both.
        (strategy.sequence_parallel, strategy.context_kind) = (sequence_parallel, context_kind);
        rules::check(&strategy, facts)?;
        Err(broken)
    }

    /// Everything but the lists a chunk or stage. What does not divide is rounded down, for the rules to find.
    fn sizes(&self, facts: &Facts) -> Strategy {
        let [tensor, context, pipeline] =
            [self.tensor, self.context, self.pipeline].map(|size| size.unwrap_or(1));
        let data = self.data.unwrap_or_else(|| left_over(facts.devices, &[tensor, context, pipeline]));
        let micro_batch = self.micro_batch.unwrap_or(1);
        let expert = self.expert.unwrap_or(1);
        let schedule = self.schedule.unwrap_or_else(|| capabilities::default_schedule(pipeline, facts));
        let zero = self.zero.unwrap_or(0);
        Strategy {
            tensor,
            sequence_parallel: self
                .sequence_parallel
                .unwrap_or_else(|| capabilities::default_sequence_parallel(tensor, facts)),
            context,
            context_kind: self.context_kind.unwrap_or(ContextKind::Ring),
            expert,
            expert_tensor: self
                .expert_tensor
                .unwrap_or_else(|| capabilities::default_expert_tensor(tensor, context, data, expert, facts)),
            capacity: self.capacity.unwrap_or(defaults::CAPACITY),
            pipeline,
            schedule,
            virtual_stages: self.virtual_stages.unwrap_or(defaults::virtual_stages(schedule)),
            cuts: Vec::new(),
            data,
            zero,
            shard: self.shard.unwrap_or(data),
            reshard_after_forward: self.reshard_after_forward.unwrap_or(true),
            micro_batch,
            accumulation: self
                .accumulation
                .unwrap_or_else(|| left_over(facts.workload.global_batch, &[data, micro_batch])),
            sync: self.sync.unwrap_or_else(|| capabilities::default_sync(zero, pipeline, facts)),
            checkpoint: Vec::new(),
            offload: Offload::default(),
            overlap: self.overlap.unwrap_or(true),
            compression: self.compression.unwrap_or(Compression::None),
            loss: self.loss.unwrap_or(LossMode::Full),
            attention: self.attention.unwrap_or(facts.defaults.attention),
            bucket: self.bucket.unwrap_or(defaults::BUCKET),
            gradient_type: self.gradient_type.unwrap_or(facts.defaults.gradient),
            reduce_type: self.reduce_type.unwrap_or(facts.defaults.reduce),
            order: self.order.unwrap_or_default(),
        }
    }

    /// The checkpoint modes of chunks of so many blocks. One entry stands for all chunks; otherwise there are as many as
    /// were given.
    pub fn checkpoints(&self, cuts: &[u32]) -> Vec<Checkpoint> {
        match self.checkpoint.as_deref() {
            None => cuts.iter().map(|&blocks| Checkpoint::uniform(CheckpointMode::None, blocks)).collect(),
            Some([entry]) => cuts.iter().map(|&blocks| entry.over(blocks)).collect(),
            Some(entries) => {
                let blocks = cuts.iter().copied().chain(std::iter::repeat(0));
                entries
                    .iter()
                    .zip(blocks)
                    .map(|(entry, blocks): (&CheckpointEntry, u32)| entry.over(blocks))
                    .collect()
            }
        }
    }
}

impl Strategy {
    /// Sets every key that has no effect to its default, so that strategies that do the same are equal.
    pub fn normalise(&mut self, facts: &Facts) {
        let Defaults { attention, reduce: default_reduce, .. } = facts.defaults;
        let state = &facts.profile.state;
        let compute = facts.workload.compute_type();
        self.gradient_type = state.gradient_kept.resolve(self.gradient_type, compute);
        self.reduce_type = state.reduced(self.gradient_type, self.reduce_type, compute);
        if self.tensor == 1 {
            self.sequence_parallel = false;
        }
        if self.context == 1 {
            self.context_kind = ContextKind::Ring;
        }
        if facts.heads.is_empty() {
            self.attention = attention;
        }
        if facts.experts.is_empty() {
            self.expert_tensor = defaults::expert_tensor(self.tensor, self.context, self.data, self.expert);
            self.capacity = defaults::CAPACITY;
        }
        if self.schedule == Schedule::GPipe && self.accumulation == 1 {
            self.schedule = Schedule::OneForwardOneBackward;
        }
        if self.zero > 0 && !self.sums_gradients(facts) && self.can_do_without_zero(facts) {
            self.zero = 0;
            self.shard = self.data;
        }
        if self.zero < 3 {
            self.reshard_after_forward = true;
        }
        self.normalise_mesh();
        if self.sync == GradientSync::Scatter && self.zero > 0 && self.shard == self.data {
            self.sync = GradientSync::Immediate;
        }
        if self.accumulation == 1 {
            self.sync = defaults::sync(self.zero);
        }
        let sums_nothing = self.zero == 0 && !self.sums_gradients(facts);
        if sums_nothing {
            self.sync = defaults::sync(self.zero);
            self.reduce_type = default_reduce;
        }
        if sums_nothing || !facts.profile.buffers.reduces_in_buckets() {
            self.bucket = defaults::BUCKET;
        }
        for &category in OffloadCategory::ALL {
            if self.offload.lacks(category) {
                self.offload.fractions_mut(category).clear();
            }
        }
        if self.offload.is_none() {
            self.overlap = true;
        }
        for modes in &mut self.checkpoint {
            *modes = std::mem::replace(modes, Checkpoint { runs: Vec::new() }).normalised();
        }
    }

    /// Axes of size 1 go to their place; without sharded state, a shard group means something only where the
    /// order tears it from its replicas.
    fn normalise_mesh(&mut self) {
        if !self.order.is_permutation() || self.shard == 0 || !self.data.is_multiple_of(self.shard) {
            return;
        }
        self.order = self.order.normalised(|axis| self.size(axis));
        let is_together = self.order.0.windows(2).any(|pair| pair == [Axis::Shard, Axis::Replica]);
        if self.zero == 0 && is_together {
            self.shard = self.data;
            self.order = self.order.normalised(|axis| self.size(axis));
        }
    }

    /// Whether the engine takes the strategy with all state on every rank too: some offload from a ZeRO stage on only.
    pub fn can_do_without_zero(&self, facts: &Facts) -> bool {
        let without = Self { zero: 0, ..self.clone() };
        let is_kept = |rule: Rule| rule.holds(&without, facts);
        [Rule::ZeroOffered, Rule::ZeroPipeline, Rule::ReplicationOffered, Rule::OffloadZero]
            .into_iter()
            .all(is_kept)
    }

    /// Whether any gradient is summed over ranks of a stage; where none is, ZeRO has nothing to shard.
    pub fn sums_gradients(&self, facts: &Facts) -> bool {
        let dense = u128::from(self.context) * u128::from(self.data);
        let experts = u128::from(self.expert) * u128::from(self.expert_tensor);
        dense > 1 || (!facts.experts.is_empty() && dense * u128::from(self.tensor) > experts)
    }
}

/// `whole` over the product of `sizes`, rounded down and at least 1.
fn left_over(whole: u64, sizes: &[u64]) -> u64 {
    rules::product(sizes).and_then(|product| whole.checked_div(product)).unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests;
