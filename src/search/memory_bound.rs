//! A lower bound of a rank's memory over all its inner choices: the leanest checkpoint mode, and one of the splits of
//! its state between device and host.

use crate::lower::UnitParameters;
use crate::profile::choices::OffloadCategory;
use crate::program::layout::offloaded_blocks;
use crate::program::state::{Gathering, StateRules};
use crate::search::choices::{Hosted, is_offered};
use crate::search::in_flight::InFlight;
use crate::search::load::{Kept, Passing};
use crate::search::strategy_bound::StrategyBounds;
use crate::units::Bytes;

/// What ranks hold at the least under one pass choice and one state, in bytes.
pub struct MemoryBound<'a> {
    bounds: &'a StrategyBounds<'a>,
    rules: &'a StateRules,
    /// What stands at the model's ends, beside its optimizer state.
    ends: [f64; 2],
    /// While a block's pass runs: beside what is kept, and with what the block itself keeps.
    beside: f64,
    alone: f64,
    /// What a block keeps for a micro-batch, and what of it waits for its weight pass.
    kept: f64,
    waiting: f64,
}

/// Bytes of activations that a rank may save if `hosted` is on its host.
pub struct Budget<'a> {
    pub hosted: &'a Hosted,
    pub device: f64,
    /// On the host, where activations may be.
    pub host: f64,
}

/// Bytes of a rank beside what it keeps for its backwards.
struct Held {
    /// On the device at all times.
    always: f64,
    host: f64,
    /// More on the device while a block's pass runs: with what the block itself keeps, and beside what is kept.
    alone: f64,
    beside: f64,
    /// More on the device during the update.
    late: f64,
}

/// Which of the model's ends a rank has beside its blocks.
#[derive(Clone, Copy)]
pub struct Ends {
    pub first: bool,
    pub last: bool,
}

impl<'a> MemoryBound<'a> {
    /// The memory bound of ranks with the passes of `bounds` under `rules`.
    pub fn new(bounds: &'a StrategyBounds<'a>, rules: &'a StateRules) -> Self {
        let modes = &bounds.load.modes;
        let least = |bytes: fn(&Kept) -> f64| modes.iter().map(bytes).fold(f64::INFINITY, f64::min);
        let (beside, alone) = passing(bounds, rules);
        // Blocks alone keep parameters on the host.
        let end = |parameters| held(bounds, rules, parameters, 1) + stored(rules, parameters, 1);
        Self {
            bounds,
            rules,
            ends: bounds.load.ends.each_ref().map(end),
            beside,
            alone,
            kept: least(|mode| mode.bytes),
            waiting: least(|mode| mode.waiting),
        }
    }

    /// Whether a rank with `blocks` blocks, of which so much is in flight, and with the `ends` of the model may have
    /// room; where it is not known which ends it has, of any. With more blocks it has none where it has none with
    /// these.
    ///
    /// # Errors
    /// The bytes that it takes at the least, where that is more than there are.
    pub fn fits(&self, held: (u64, InFlight), ends: Option<Ends>) -> Result<(), Bytes> {
        let room = self.bounds.room.device;
        let least = self.least(held, ends, room);
        if least <= room { Ok(()) } else { Err(Bytes(least as u64)) }
    }

    /// The bytes that such a rank takes at the least; of what is no more than `enough`, any.
    pub fn least(&self, (blocks, in_flight): (u64, InFlight), ends: Option<Ends>, enough: f64) -> f64 {
        if blocks == 0 {
            return 0.0;
        }
        let room = self.bounds.room;
        let mut least = f64::INFINITY;
        // The most on the host first, which mostly fits.
        for hosted in self.splits().rev() {
            let Held { always, host, alone, beside, late } = self.held((blocks, in_flight), ends, hosted);
            let keeps = hosted[OffloadCategory::Activations as usize] == 0.0;
            let kept = if keeps { in_flight.kept as f64 * self.kept } else { 0.0 };
            let passing = if in_flight.runs { alone.max(beside + kept) } else { kept };
            let device = always + passing.max(late);
            if device <= enough && host <= room.host {
                return device;
            }
            if host <= room.host {
                least = least.min(device);
            }
        }
        least
    }

    /// The room for saved activations of a rank with `held` in flight, under each split between device and host that it may have.
    pub fn budgets(&self, held: (u64, InFlight), ends: Option<Ends>) -> impl Iterator<Item = Budget<'a>> {
        let room = self.bounds.room;
        self.splits().filter_map(move |hosted| {
            let Held { always, host, alone, beside, late } = self.held(held, ends, hosted);
            let (alone, beside) = if held.1.runs { (alone, beside) } else { (0.0, 0.0) };
            let has_room = always + alone.max(late) <= room.device && host <= room.host;
            has_room.then_some(Budget {
                hosted,
                device: room.device - always - beside,
                host: room.host - host,
            })
        })
    }

    /// Bytes of a rank with `blocks` blocks under the split `hosted`, without its saved activations.
    fn held(&self, (blocks, in_flight): (u64, InFlight), ends: Option<Ends>, hosted: &Hosted) -> Held {
        let StrategyBounds { load, engine, .. } = self.bounds;
        let end = |is_there: bool, place: usize| {
            if is_there { (self.ends[place], owned(self.rules, &load.ends[place], 1)) } else { (0.0, 0) }
        };
        let Ends { first, last } = ends.unwrap_or(Ends { first: false, last: false });
        let [first, last] = [end(first, 0), end(last, 1)];
        let own = owned(self.rules, &load.parameters, blocks) + first.1 + last.1;
        let (state, host) = self.split(hosted, blocks, own);
        // Where all are on the host, a block's parameters are back for its passes.
        let fetched = if hosted[OffloadCategory::Parameters as usize] == 1.0 {
            stored(self.rules, &load.parameters, 1)
        } else {
            0.0
        };
        // The update has all gradients and nothing of a pass.
        let late = if self.rules.gradients_come_late { own * self.rules.gradient.size() } else { 0 };
        // Nothing takes away what weight passes wait for.
        let always = held(self.bounds, self.rules, &load.parameters, blocks)
            + first.0
            + last.0
            + engine.buffers.workspace as f64
            + self.buckets(blocks)
            + in_flight.waiting as f64 * self.waiting
            + state;
        Held { always, host, alone: fetched + self.alone, beside: fetched + self.beside, late: late as f64 }
    }

    /// What of its state may be on the host under its ZeRO stage.
    fn splits(&self) -> impl DoubleEndedIterator<Item = &'a Hosted> {
        let (zero, supports) = (self.rules.zero, &self.bounds.engine.supports);
        self.bounds.splits.iter().filter(move |hosted| is_offered(hosted, zero, supports))
    }

    /// Bytes of optimizer state and of the parameters of `blocks` blocks that `hosted` leaves on the device, of `owned`
    /// elements of state in all, and bytes that these take on the host.
    fn split(&self, hosted: &Hosted, blocks: u64, owned: u64) -> (f64, f64) {
        let (rules, parameters) = (self.rules, &self.bounds.load.parameters);
        let fraction = hosted[OffloadCategory::Optimizer as usize];
        // Of elements, one more or less.
        let on_host = (fraction * owned as f64) as u64;
        let gradient = if rules.gradients_follow_optimizer { rules.gradient.size() } else { 0 };
        let device = (owned.saturating_sub(on_host + 1) * (rules.optimizer_size + gradient)) as f64;
        let host = (on_host * rules.host_size) as f64;
        let fraction = hosted[OffloadCategory::Parameters as usize];
        match fraction {
            0.0 => (device + stored(rules, parameters, blocks), host),
            // Of blocks that differ, it is not known which are the first.
            _ if !self.bounds.load.is_even => (device, host),
            1.0 => (device, host + stored(rules, parameters, blocks)),
            _ => {
                let out = u64::from(offloaded_blocks(fraction, blocks as u32));
                let [stays, out] = [blocks - out, out].map(|count| stored(rules, parameters, count));
                (device + stays, host + out)
            }
        }
    }

    /// Bytes of the buckets that gradients of `blocks` blocks are reduced in.
    fn buckets(&self, blocks: u64) -> f64 {
        let (p, rules) = (&self.bounds.load.parameters, self.rules);
        let reduced = if rules.gradient_ranks > 1 { p.dense_trained } else { 0 }
            + if rules.expert_ranks > 1 { p.expert_trained } else { 0 };
        let elements = (reduced * blocks).min(self.bounds.bucket);
        (self.bounds.engine.buffers.reduce_buckets * elements * rules.reduce.size()) as f64
    }
}

/// Bytes while a block's pass runs, whatever its mode: its values, the gradient that it writes, and the parameters that
/// are gathered for it; beside what is held and kept, and with what the block itself keeps.
fn passing(bounds: &StrategyBounds<'_>, rules: &StateRules) -> (f64, f64) {
    let p = &bounds.load.parameters;
    let gathered = match rules.gathering {
        Gathering::EachPass => (p.dense + p.expert).min(rules.gathers_at_most) * rules.compute.size(),
        _ => 0,
    };
    let gradient = if rules.keeps_whole_gradients {
        0
    } else {
        (p.dense_trained + p.expert_trained) * rules.gradient.size()
    };
    let least = |passing: fn(&Kept) -> Passing| {
        let modes = bounds.load.modes.iter().map(passing);
        let most = modes.map(|passing| passing.before.max(passing.after + gradient as f64));
        most.fold(f64::INFINITY, f64::min) + gathered as f64
    };
    (least(|mode| mode.beside), least(|mode| mode.alone))
}

/// What `count` units with parameters `p` store of them.
fn stored(rules: &StateRules, p: &UnitParameters, count: u64) -> f64 {
    let elements = rules.at_least(rules.shards_parameters, p.dense * count, p.expert * count);
    (elements * rules.parameter.size()) as f64
}

/// Elements of `count` units with parameters `p` whose optimizer state a rank has.
fn owned(rules: &StateRules, p: &UnitParameters, count: u64) -> u64 {
    rules.at_least(rules.shards_optimizer, p.dense_trained * count, p.expert_trained * count)
}

/// What of `count` units with parameters `p` is on the device over the whole step, whatever is on the host.
fn held(bounds: &StrategyBounds<'_>, rules: &StateRules, p: &UnitParameters, count: u64) -> f64 {
    let (dense, expert) = (p.dense * count, p.expert * count);
    let (dense_trained, expert_trained) = (p.dense_trained * count, p.expert_trained * count);
    let trained = dense_trained + expert_trained;
    let gradients = if rules.gradients_come_late || rules.gradients_follow_optimizer {
        // They are counted where they are, or left out.
        0
    } else if rules.keeps_whole_gradients {
        trained * rules.gradient.size()
    } else if rules.shards_gradients && !rules.gradients_reuse_parameters {
        rules.at_least(true, dense_trained, expert_trained) * rules.gradient.size()
    } else {
        0
    };
    // Without a pipeline, what is gathered until its backward is all there at the end of the forward.
    let gathered = match rules.gathering {
        Gathering::OnceAStep => dense + expert,
        Gathering::ForwardToBackward if bounds.pipeline.ranks == 1 && rules.gathers_at_most == u64::MAX => {
            dense + expert
        }
        _ => 0,
    };
    let gathered = gathered * rules.compute.size();
    let working =
        if rules.keeps_working_gradients(bounds.engine) { trained * rules.compute.size() } else { 0 };
    (gradients + gathered + working) as f64
}
