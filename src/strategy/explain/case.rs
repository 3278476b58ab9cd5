//! A broken rule where it was broken: its words, and the nearest values under which the rules about a key hold.

use std::fmt::Display;

use crate::profile::capabilities::{Aspect, CheckpointGrain, CutGrain};
use crate::strategy::nearest::{divisors, neighbours};
use crate::strategy::rules::{gradient_types, product};
use crate::strategy::text_error::list;
use crate::strategy::{
    Facts, GradientSync, Key, Offload, Rule, RuleBreak, Schedule, Strategy, capabilities, cuts, defaults,
};
use crate::units::typed;

/// One broken rule, where it was broken.
pub(super) struct Case<'a> {
    pub(super) rule: Rule,
    pub(super) strategy: &'a Strategy,
    pub(super) facts: &'a Facts<'a>,
}

impl Case<'_> {
    pub(super) fn plain(
        &self,
        key: Key,
        value: impl Display,
        reason: String,
        nearest: &[impl Display],
    ) -> RuleBreak {
        let are = fine("", nearest, "is legal", "are legal");
        self.told(key, value, reason + &are, nearest)
    }

    pub(super) fn told(
        &self,
        key: Key,
        value: impl Display,
        message: String,
        nearest: &[impl Display],
    ) -> RuleBreak {
        RuleBreak {
            rule: self.rule,
            field: key.name().to_owned(),
            value: value.to_string(),
            message,
            nearest: nearest.iter().map(ToString::to_string).collect(),
        }
    }

    pub(super) fn dividing(&self, key: Key, value: u64, whole: &str, nearest: Vec<u64>) -> RuleBreak {
        let does = fine("", &nearest, "does", "do");
        self.told(key, value, format!("{key} {value} does not divide {whole}{does}"), &nearest)
    }

    pub(super) fn offered<T: Display>(&self, key: Key, value: T, offered: &[T]) -> RuleBreak {
        let reason = format!("{} does not offer {key} {value}", self.facts.profile.name);
        let message = reason + &fine("", offered, "it does", "it does");
        self.told(key, value, message, offered)
    }

    /// A value of `key` that is not among those that the engine lists.
    pub(super) fn listed(&self, key: Key) -> RuleBreak {
        let capability = key.capabilities().first();
        let offered = capability.and_then(|capability| capability.values(&self.facts.profile.supports));
        let value = self.strategy.key_value(key, self.facts.defaults).value;
        self.offered(key, value, &offered.unwrap_or_default())
    }

    /// Whether the rules hold that are about `key` once `set` has changed the strategy.
    pub(super) fn holds(&self, key: Key, set: impl FnOnce(&mut Strategy)) -> bool {
        let mut changed = self.strategy.clone();
        set(&mut changed);
        Rule::ALL.iter().all(|rule| !rule.is_about(key) || rule.holds(&changed, self.facts))
    }

    /// The `values` of `key` under which the rules about it hold.
    pub(super) fn legal<T: Copy>(&self, key: Key, values: &[T], set: impl Fn(&mut Strategy, T)) -> Vec<T> {
        values.iter().copied().filter(|&value| self.holds(key, |changed| set(changed, value))).collect()
    }

    /// Of those, the closest below and above `value`.
    pub(super) fn nearest(
        &self,
        key: Key,
        value: u64,
        candidates: Vec<u64>,
        set: impl Fn(&mut Strategy, u64),
    ) -> Vec<u64> {
        neighbours(value, self.legal(key, &candidates, set))
    }

    pub(super) fn syncs(&self) -> Vec<GradientSync> {
        let (s, supports) = (self.strategy, &self.facts.profile.supports);
        let offered: Vec<GradientSync> = supports.syncs(s.zero, s.pipeline > 1).collect();
        self.legal(Key::Sync, &offered, |s, sync| s.sync = sync)
    }

    /// What can be on the host: nothing, each category by itself, or all that the engine offers.
    pub(super) fn offloads(&self) -> Vec<String> {
        let supports = &self.facts.profile.supports;
        let stages = self.strategy.pipeline as usize;
        let sets = supports.offloads().map(|category| vec![category]);
        let sets = std::iter::once(Vec::new()).chain(sets).chain([supports.offloads().collect()]);
        let mut legal = Vec::new();
        for set in sets {
            let mut offload = Offload::default();
            set.iter().for_each(|&category| *offload.fractions_mut(category) = vec![1.0; stages]);
            let text = offload.to_string();
            if !legal.contains(&text) && self.holds(Key::Offload, |s| s.offload = offload) {
                legal.push(text);
            }
        }
        legal
    }

    /// The closest sizes of the axis `key` that keep the rules about it, as data parallelism takes the devices left;
    /// those that the batch then fits, if there are any or they `must`.
    pub(super) fn sizes(&self, key: Key, must: bool) -> Vec<u64> {
        let Facts { devices, .. } = *self.facts;
        let mut sizes = self.strategy.clone();
        let axis = |s: &mut Strategy, size| match key {
            Key::Tensor => std::mem::replace(&mut s.tensor, size),
            Key::Context => std::mem::replace(&mut s.context, size),
            _ => std::mem::replace(&mut s.pipeline, size),
        };
        let value = axis(&mut sizes, 1);
        let others = product(&[sizes.tensor, sizes.context, sizes.pipeline]).unwrap_or(u64::MAX);
        let left = if devices.is_multiple_of(others) { devices / others } else { devices };
        let legal = self.legal(key, &divisors(left), |s, size| {
            if axis(s, size) == 1 {
                s.sequence_parallel |= capabilities::default_sequence_parallel(s.tensor, self.facts);
            }
        });
        let fits = |size: &u64| {
            let stages = if key == Key::Pipeline { *size } else { self.strategy.pipeline };
            self.fits_batch((left / size).max(1), stages)
        };
        let mut legal = legal;
        legal.retain(|size| key != Key::Pipeline || self.is_cut_into(*size));
        let best: Vec<u64> = legal.iter().copied().filter(fits).collect();
        neighbours(value, if best.is_empty() && !must { legal } else { best })
    }

    /// Whether the engine can cut the model into so many stages, where it cuts by itself.
    fn is_cut_into(&self, stages: u64) -> bool {
        let (s, facts) = (self.strategy, self.facts);
        let chunks = usize::try_from(stages.saturating_mul(s.virtual_stages)).unwrap_or(usize::MAX);
        let is_cut_freely = *facts.profile.supports.cuts == CutGrain::Any;
        stages == 1 || is_cut_freely || cuts::of_engine(facts, chunks).is_some()
    }

    /// Whether the batch divides into `data` shares, each with enough micro-batches for `stages`.
    fn fits_batch(&self, data: u64, stages: u64) -> bool {
        let batch = self.facts.workload.global_batch;
        data > 0
            && batch.is_multiple_of(data)
            && self.facts.profile.supports.pipelined.takes(batch / data, stages, self.strategy.virtual_stages)
    }

    const fn size(&self, key: Key) -> u64 {
        match key {
            Key::Tensor => self.strategy.tensor,
            Key::Context => self.strategy.context,
            _ => self.strategy.pipeline,
        }
    }

    /// The axis to change, and its sizes, where the batch does not fit data parallelism.
    pub(super) fn mesh_of_batch(&self) -> Option<(Key, Vec<u64>)> {
        let keys = [Key::Pipeline, Key::Tensor, Key::Context];
        keys.into_iter().map(|key| (key, self.sizes(key, true))).find(|(_, sizes)| !sizes.is_empty())
    }

    /// Micro-batches whose number keeps the rules about them.
    pub(super) fn micro_batches(&self) -> Vec<u64> {
        let share = self.facts.workload.global_batch / self.strategy.data.max(1);
        self.nearest(Key::MicroBatch, self.strategy.micro_batch, divisors(share), |s, micro| {
            (s.micro_batch, s.accumulation) = (micro, share / micro);
        })
    }

    pub(super) fn devices(&self) -> RuleBreak {
        let s = self.strategy;
        let devices = self.facts.devices;
        let sizes = [(Key::Tensor, s.tensor), (Key::Context, s.context), (Key::Pipeline, s.pipeline)];
        let rest = product(&[s.tensor, s.context, s.pipeline]);
        if let Some(rest) = rest.filter(|&rest| devices.is_multiple_of(rest)) {
            let data = devices / rest;
            let product =
                product(&[rest, s.data]).map_or("too many devices".to_owned(), |all| typed("device", all));
            let message = format!(
                "tp {} · cp {} · pp {} · dp {} is {product}, not {devices}; dp {data} makes {devices}",
                s.tensor, s.context, s.pipeline, s.data
            );
            let can_be = self.fits_batch(data, s.pipeline) || self.mesh_of_batch().is_some();
            return self.told(
                Key::Data,
                s.data,
                message,
                &can_be.then_some(data).into_iter().collect::<Vec<_>>(),
            );
        }
        let undivided = sizes.into_iter().find(|&(_, size)| !devices.is_multiple_of(size));
        if let Some((key, size)) = undivided {
            let before = sizes.iter().take_while(|(other, _)| *other != key);
            let before = before.fold(1_u64, |product, (_, size)| product.saturating_mul(*size));
            let mut nearest = self.sizes(key, false);
            nearest.retain(|near| devices.is_multiple_of(before.saturating_mul(*near)));
            return self.dividing(key, size, &typed("device", devices), nearest);
        }
        // The first that, with those before it, does not divide; no size of it does where the others do not.
        let mut all = 1_u64;
        let fails = |&(_, size): &(Key, u64)| {
            all = all.saturating_mul(size);
            !devices.is_multiple_of(all)
        };
        let (key, size) = sizes.into_iter().find(fails).unwrap_or(sizes[0]);
        let others = sizes.iter().filter(|(other, _)| *other != key);
        let others = others.fold(1_u64, |product, (_, size)| product.saturating_mul(*size));
        let mut nearest = self.sizes(key, false);
        nearest.retain(|near| devices.is_multiple_of(others.saturating_mul(*near)));
        let message = format!(
            "tp {} · cp {} · pp {} does not divide {}{}",
            s.tensor,
            s.context,
            s.pipeline,
            typed("device", devices),
            fine(&format!("{key} "), &nearest, "does", "do"),
        );
        self.told(key, size, message, &nearest)
    }

    pub(super) fn batch(&self) -> RuleBreak {
        let s = self.strategy;
        let batch = self.facts.workload.global_batch;
        let sequences = product(&[s.data, s.micro_batch]);
        if let Some(sequences) =
            sequences.filter(|&sequences| sequences > 0 && batch.is_multiple_of(sequences))
        {
            let accumulation = batch / sequences;
            let message = format!(
                "dp {} · micro {} · accum {} is not the global batch of {batch}; accum {accumulation} makes it",
                s.data, s.micro_batch, s.accumulation
            );
            return self.told(Key::Accumulation, s.accumulation, message, &[accumulation]);
        }
        if batch.is_multiple_of(s.data) {
            let mut nearest = self.micro_batches();
            if nearest.is_empty() {
                nearest = neighbours(s.micro_batch, divisors(batch / s.data));
            }
            let whole = format!("the {} of a data rank", typed("sequence", batch / s.data));
            return self.dividing(Key::MicroBatch, s.micro_batch, &whole, nearest);
        }
        let message = format!("dp {} does not divide the global batch of {batch}", s.data);
        let Some((key, sizes)) = self.mesh_of_batch() else {
            return self.told(Key::Data, s.data, message, &[""; 0]);
        };
        let leaves = fine(&format!("{key} "), &sizes, "leaves a dp that does", "leave a dp that does");
        self.told(key, self.size(key), message + &leaves, &sizes)
    }

    pub(super) fn tensor(&self, whole: &str) -> RuleBreak {
        self.dividing(Key::Tensor, self.strategy.tensor, whole, self.sizes(Key::Tensor, false))
    }

    pub(super) fn context(&self, reason: String) -> RuleBreak {
        let nearest = self.sizes(Key::Context, false);
        let message = reason + &fine("cp ", &nearest, "does", "do");
        self.told(Key::Context, self.strategy.context, message, &nearest)
    }

    /// A sequence that is no multiple of what the engine asks for: fewer context ranks, or else fewer tensor ranks.
    pub(super) fn sequence(&self, reason: String) -> RuleBreak {
        let key = if self.strategy.context > 1 { Key::Context } else { Key::Tensor };
        let nearest = self.sizes(key, false);
        let message = reason + &fine(&format!("{key} "), &nearest, "does", "do");
        self.told(key, self.size(key), message, &nearest)
    }

    pub(super) fn experts(&self, reason: String) -> RuleBreak {
        let s = self.strategy;
        let whole = |s: &mut Strategy, expert| {
            s.expert = expert;
            s.expert_tensor = defaults::expert_tensor(s.tensor, s.context, s.data, expert);
        };
        // Whether the tensor ranks inside an expert were given or follow.
        let sizes = self.legal(Key::Expert, &divisors(s.tensor * s.context * s.data), whole);
        let nearest = self.nearest(Key::Expert, s.expert, sizes, |s, expert| s.expert = expert);
        let message = reason + &fine("ep ", &nearest, "is legal", "are legal");
        self.told(Key::Expert, s.expert, message, &nearest)
    }

    /// Micro-batches that do not make up whole rounds.
    pub(super) fn rounds(&self) -> RuleBreak {
        let s = self.strategy;
        let reason = format!(
            "{} interleaves whole rounds only, and accum {} is not made of rounds of pp {}",
            self.facts.profile.name, s.accumulation, s.pipeline
        );
        let nearest = self.micro_batches();
        if nearest.is_empty() {
            let plain = self.legal(Key::Schedule, &[Schedule::OneForwardOneBackward], |s, schedule| {
                s.schedule = schedule;
            });
            return self.plain(Key::Schedule, s.schedule, reason, &plain);
        }
        let message = reason + &fine("micro ", &nearest, "is legal", "are legal");
        self.told(Key::MicroBatch, s.micro_batch, message, &nearest)
    }

    /// A number of micro-batches that the engine does not pipeline over so many stages.
    pub(super) fn pipelined(&self) -> RuleBreak {
        let (s, profile) = (self.strategy, self.facts.profile);
        let reason = format!(
            "{} does not run {} in a pipeline of {}",
            profile.name,
            typed("micro-batch", s.accumulation),
            s.pipeline
        );
        let nearest = self.micro_batches();
        if !nearest.is_empty() {
            return self.plain(Key::MicroBatch, s.micro_batch, reason, &nearest);
        }
        // The batch is too small for so many stages beside so much data parallelism.
        let Some((key, sizes)) = self.mesh_of_batch() else {
            return self.plain(Key::Data, s.data, reason, &[""; 0]);
        };
        let message = reason + &fine(&format!("{key} "), &sizes, "leaves enough", "leave enough");
        self.told(key, self.size(key), message, &sizes)
    }

    /// What the offload of the strategy does not go beside, for the end of a sentence.
    pub(super) fn beside_offload(&self) -> String {
        let mut conflicts = capabilities::conflicts(self.strategy, self.facts);
        let aspects = conflicts.find(|conflict| conflict.is_of_offload()).map_or(&[][..], |found| &found.of);
        let others = aspects.iter().filter(|aspect| !aspect.is_on_host());
        list(&others.map(|aspect| aspect.name().to_owned()).collect::<Vec<_>>())
    }

    pub(super) fn together(&self) -> RuleBreak {
        let (s, profile) = (self.strategy, self.facts.profile);
        let mut conflicts = capabilities::conflicts(s, self.facts);
        let aspects = conflicts.find(|conflict| !conflict.is_of_offload()).map_or(&[][..], |found| &found.of);
        let words: Vec<String> = aspects.iter().map(|aspect| aspect.name().to_owned()).collect();
        let reason = format!("{} does not run {} at once", profile.name, list(&words));
        if aspects.contains(&Aspect::WholeSequences) {
            return self.plain(Key::SequenceParallel, "off", reason, &["on"]);
        }
        let key = if aspects.contains(&Aspect::Expert) {
            Key::Expert
        } else if aspects.contains(&Aspect::Pipeline) {
            Key::Pipeline
        } else {
            Key::Context
        };
        self.plain(key, self.size(key), reason, &[1])
    }

    pub(super) fn cuts(&self, reason: String) -> RuleBreak {
        let s = self.strategy;
        let slashed = |cuts: &[u32]| cuts.iter().map(u32::to_string).collect::<Vec<_>>().join("/");
        let own = cuts::left_out(self.facts, s.chunks() as usize);
        let legal = self.holds(Key::Cuts, |s| s.cuts.clone_from(&own)).then(|| slashed(&own));
        self.plain(Key::Cuts, slashed(&s.cuts), reason, legal.as_slice())
    }

    /// Cuts that are not the engine's; or a pipeline that it cannot cut the model for, where nobody named cuts.
    pub(super) fn cuts_offered(&self) -> RuleBreak {
        let (s, facts) = (self.strategy, self.facts);
        let name = &facts.profile.name;
        if cuts::of_engine(facts, s.chunks() as usize).is_some() {
            return self.cuts(format!("{name} does not cut a model so"));
        }
        let others = product(&[s.tensor, s.context]).unwrap_or(u64::MAX);
        let sizes = divisors(facts.devices.checked_div(others).unwrap_or(1));
        let most = sizes.into_iter().filter(|stages| self.is_cut_into(*stages));
        let mut nearest: Vec<u64> = most.filter(|stages| *stages < s.pipeline).collect();
        nearest.sort_unstable_by(|one, other| other.cmp(one));
        nearest.dedup();
        nearest.truncate(3);
        let reason = format!(
            "{name} cuts the model itself, and its {} blocks leave a stage of pp {} without any",
            facts.blocks, s.pipeline
        );
        let message = reason + &fine("pp ", &nearest, "does", "do");
        self.told(Key::Pipeline, s.pipeline, message, &nearest)
    }

    pub(super) fn checkpoint_blocks(&self) -> RuleBreak {
        let s = self.strategy;
        let wrong = s
            .checkpoint
            .iter()
            .zip(&s.cuts)
            .enumerate()
            .find(|(_, (modes, blocks))| modes.blocks() != u64::from(**blocks));
        let Some((chunk, (modes, blocks))) = wrong else {
            return self.told(Key::Checkpoint, s.checkpoint_text(), "ckpt is legal".to_owned(), &[""; 0]);
        };
        let reason =
            format!("ckpt names {} of chunk {chunk}, which has {blocks}", typed("block", modes.blocks()));
        // One entry stands for all chunks.
        let least = s.cuts.iter().copied().min().unwrap_or(0);
        let nearest = ["none".to_owned(), "full".to_owned(), format!("full:{least}")];
        let is_partial = *self.facts.profile.supports.checkpoint_grain != CheckpointGrain::All;
        let nearest = if least == 0 || !is_partial { &nearest[..2] } else { &nearest[..] };
        self.plain(Key::Checkpoint, modes, reason, nearest)
    }

    pub(super) fn gradient_type(&self, key: Key, verb: &str, element: impl Display) -> RuleBreak {
        let legal = gradient_types(self.facts);
        let precision = self.facts.workload.precision;
        let reason = format!("gradients cannot be {verb} in {element} under {precision}");
        self.plain(key, element, reason, legal)
    }
}

/// The first of `wholes` that `divisor` does not divide.
pub(super) fn first_undivided(wholes: impl Iterator<Item = u64>, divisor: u64) -> u64 {
    let mut last = 0;
    for whole in wholes {
        last = whole;
        if !whole.is_multiple_of(divisor) {
            break;
        }
    }
    last
}

/// `; 4 and 8 do`, with `subject` before the values; or nothing where there is nothing to name.
pub(super) fn fine(subject: &str, nearest: &[impl Display], one: &str, several: &str) -> String {
    let nearest: Vec<String> = nearest.iter().map(ToString::to_string).collect();
    match nearest.len() {
        0 => String::new(),
        1 => format!("; {subject}{} {one}", nearest[0]),
        _ => format!("; {subject}{} {several}", list(&nearest)),
    }
}
