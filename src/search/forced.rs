//! What memory forces on a rank: the least time in which recomputation and the host make room for its blocks.

use crate::lower::UnitParameters;
use crate::profile::choices::OffloadCategory;
use crate::program::state::{Gathering, StateRules};
use crate::search::load::{Kept, Passing};
use crate::search::occupancy::Flying;
use crate::search::state_floor::FrameFloor;
use crate::search::state_prices::StatePrices;
use crate::units::Bytes;

/// What ranks hold and what room costs under one state.
pub struct Forcing<'a> {
    floor: &'a FrameFloor<'a>,
    rules: &'a StateRules,
    prices: &'a StatePrices,
    /// Seconds that each block adds to the optimizer step.
    step: f64,
    /// A block, and what stands at the model's ends.
    block: Held,
    ends: [Held; 2],
    /// While a block's pass runs: beside what is kept, and with what the block itself keeps.
    beside: f64,
    alone: f64,
    /// Bytes that a block keeps for a micro-batch at the least, and that wait for its weight pass.
    kept: f64,
    waiting: f64,
    /// The most that the forward of a block takes.
    forward: f64,
}

/// What units hold over the step, in bytes; `owned` in elements of optimizer state.
#[derive(Clone, Copy, Default)]
struct Held {
    fixed: f64,
    parameters: f64,
    optimizer: f64,
    owned: f64,
}

/// Which of the model's ends a rank has beside its blocks.
#[derive(Clone, Copy)]
pub struct Ends {
    pub first: bool,
    pub last: bool,
}

impl<'a> Forcing<'a> {
    /// What is forced on ranks of the frame of `floor` under `rules`, if each block adds `step` seconds to the optimizer
    /// step.
    pub fn new(floor: &'a FrameFloor<'a>, rules: &'a StateRules, prices: &'a StatePrices, step: f64) -> Self {
        let modes = &floor.load.modes;
        let least = |bytes: fn(&Kept) -> f64| modes.iter().map(bytes).fold(f64::INFINITY, f64::min);
        let one = |parameters: &UnitParameters| held(floor, rules, parameters, 1);
        let (beside, alone) = passing(floor, rules);
        Self {
            floor,
            rules,
            prices,
            step,
            block: one(&floor.load.parameters),
            ends: floor.load.ends.each_ref().map(one),
            beside,
            alone,
            kept: least(|mode| mode.bytes),
            waiting: least(|mode| mode.waiting),
            forward: modes.iter().map(|mode| mode.forward).fold(0.0, f64::max),
        }
    }

    /// Seconds of all passes of `blocks` blocks and of what they add to the optimizer step, whatever memory says.
    pub fn work(&self, blocks: f64) -> f64 {
        let FrameFloor { load, pipeline, .. } = self.floor;
        blocks * (pipeline.micro as f64 * load.block.work + self.step)
    }

    /// The least time of a rank with `blocks` blocks, and with the `ends` of the model, of which so much is in flight, if
    /// it is to fit, which it does not with more blocks where it does not with these; where it is not known which ends it
    /// has, of any.
    pub fn least(&self, (blocks, flying): (u64, Flying), ends: Option<Ends>) -> Result<f64, Bytes> {
        if blocks == 0 {
            return Ok(0.0);
        }
        let FrameFloor { load, pipeline, engine, room, .. } = self.floor;
        let mut own = held(self.floor, self.rules, &load.parameters, blocks);
        let blocks = blocks as f64;
        let mut there = 0.0;
        let mut others = load.other_forwards;
        for (place, piece) in [load.front, load.back].into_iter().enumerate() {
            let has = ends.map(|ends| [ends.first, ends.last][place]);
            if has != Some(false) {
                others += piece.forward;
            }
            if has == Some(true) {
                there += self.ends[place].parameters;
                own.add(&self.ends[place]);
            }
        }
        // Nothing takes away what weight passes wait for.
        own.fixed += engine.buffers.workspace as f64
            + self.buckets(blocks as u64)
            + flying.waiting as f64 * self.waiting;
        let supports = |category| engine.supports.offload.contains(&category);
        let (kept, chunks) = (flying.kept as f64, flying.moment.kept as f64);
        // Parameters on the host are back for their block's passes.
        let (beside, alone, back) = if flying.moment.runs {
            (self.beside, self.alone, self.block.parameters)
        } else {
            (0.0, 0.0, 0.0)
        };
        let offloads = supports(OffloadCategory::Parameters);
        let fetched = if offloads { (own.parameters - back).max(0.0) } else { 0.0 };
        let updated = if supports(OffloadCategory::Optimizer) { own.optimizer } else { 0.0 };
        let leaves = supports(OffloadCategory::Activations);
        let holds = own.fixed + own.optimizer + own.parameters;
        let least_kept = if leaves { 0.0 } else { kept * self.kept };
        let leanest = holds - fetched - updated + alone.max(beside + least_kept);
        if leanest > *room {
            return Err(Bytes(leanest.max(0.0) as u64));
        }
        let free = room - holds - beside;
        let modes = &load.modes;
        let keeps_all = kept * modes[0].bytes;
        let over = keeps_all - free;
        if over <= 0.0 {
            return Ok(0.0);
        }
        let micro = pipeline.micro as f64;
        let work = self.work(blocks);
        // Recomputing alone, where that makes the most room.
        let densest = flying.moment.densest.max(1) as f64;
        let recomputing = match self.recomputed(free / kept.max(1.0)) {
            Some(more) => work + micro * kept / densest * more,
            None => f64::INFINITY,
        };
        // Or with something on the host: activations leave, and parameters come, as long as a chunk's forward runs, but
        // for parameters that are there before it. What is still over is paid for by longer forwards, the host's update
        // and recomputation, the cheapest first, each as far as it goes.
        let forward = |blocks: f64| blocks * self.forward + others;
        let mut left = over;
        // Seconds a byte, and bytes.
        let mut ways = [(f64::INFINITY, 0.0); 4];
        if fetched > 0.0 {
            let ahead = pipeline.chunks * engine.buffers.gathered_units.max(1);
            there += ahead as f64 * self.block.parameters;
            let free = fetched.min(there + self.prices.in_rate * forward(blocks));
            left -= free;
            ways[0] = (micro / self.prices.in_rate, fetched - free);
        }
        if leaves && chunks > 0.0 {
            let free = (chunks * self.prices.out_rate * forward(flying.largest as f64)).min(keeps_all);
            left -= free;
            ways[1] = (micro / (self.prices.out_rate * densest), keeps_all - free);
        }
        for mode in &modes[1..] {
            let saved = kept * (modes[0].bytes - mode.bytes);
            if saved > 0.0 {
                let each = micro * kept / densest * (mode.work - modes[0].work).max(0.0) / saved;
                ways[2] = (each.min(ways[2].0), saved.max(ways[2].1));
            }
        }
        if updated > 0.0 {
            ways[3] = (own.owned * self.prices.host_element / updated, updated);
        }
        ways.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut offloading = work;
        for (each, most) in ways {
            let bytes = left.min(most);
            if bytes > 0.0 {
                offloading += bytes * each;
                left -= bytes;
            }
        }
        Ok(recomputing.min(offloading))
    }

    /// Bytes of the buckets that gradients of `blocks` blocks are reduced in.
    fn buckets(&self, blocks: u64) -> f64 {
        let (p, rules) = (&self.floor.load.parameters, self.rules);
        let reduced = if rules.gradient_ranks > 1 { p.dense_trained } else { 0 }
            + if rules.expert_ranks > 1 { p.expert_trained } else { 0 };
        let elements = (reduced * blocks).min(self.floor.bucket);
        (self.floor.engine.buffers.reduce_buckets * elements * rules.reduce.size()) as f64
    }

    /// Seconds that a block must spend on recomputation, for each micro-batch, to keep `bytes` on average; none if no
    /// mode keeps so little.
    fn recomputed(&self, bytes: f64) -> Option<f64> {
        let modes = &self.floor.load.modes;
        let base = self.floor.load.block.work;
        let lean = || modes.iter().filter(|mode| mode.bytes <= bytes);
        let whole = lean().map(|mode| mode.work - base).reduce(f64::min)?;
        let mixed = lean().flat_map(|low| {
            let high = modes.iter().filter(|high| high.bytes > bytes && high.work < low.work);
            high.map(|high| {
                let share = (bytes - low.bytes) / (high.bytes - low.bytes);
                low.work + share * (high.work - low.work) - base
            })
        });
        Some(mixed.fold(whole, f64::min).max(0.0))
    }
}

impl Held {
    fn add(&mut self, other: &Self) {
        self.fixed += other.fixed;
        self.parameters += other.parameters;
        self.optimizer += other.optimizer;
        self.owned += other.owned;
    }
}

/// Bytes while a block's pass runs, whatever its mode: its values, the gradient that it writes, and the parameters that
/// are gathered for it; beside what is held and kept, and with what the block itself keeps.
fn passing(floor: &FrameFloor<'_>, rules: &StateRules) -> (f64, f64) {
    let p = &floor.load.parameters;
    let gathered = match rules.gathering {
        Gathering::EachPass => (p.dense + p.expert) * rules.compute.size(),
        _ => 0,
    };
    let gradient = if rules.keeps_whole_gradients {
        0
    } else {
        (p.dense_trained + p.expert_trained) * rules.gradient.size()
    };
    let least = |passing: fn(&Kept) -> Passing| {
        let modes = floor.load.modes.iter().map(passing);
        let most = modes.map(|passing| passing.before.max(passing.after + gradient as f64));
        most.fold(f64::INFINITY, f64::min) + gathered as f64
    };
    (least(|mode| mode.beside), least(|mode| mode.alone))
}

/// What `count` units with parameters `p` hold over the whole step.
fn held(floor: &FrameFloor<'_>, rules: &StateRules, p: &UnitParameters, count: u64) -> Held {
    let (dense, expert) = (p.dense * count, p.expert * count);
    let (dense_trained, expert_trained) = (p.dense_trained * count, p.expert_trained * count);
    let stored = rules.at_least(rules.shards_parameters, dense, expert) * rules.parameter.size();
    let trained = dense_trained + expert_trained;
    let gradients = if rules.keeps_whole_gradients {
        trained * rules.gradient.size()
    } else if rules.shards_gradients && !rules.gradients_reuse_parameters {
        rules.at_least(true, dense_trained, expert_trained) * rules.gradient.size()
    } else {
        0
    };
    // Without a pipeline, what is gathered until its backward is all there at the end of the forward.
    let gathered = match rules.gathering {
        Gathering::OnceAStep => dense + expert,
        Gathering::ForwardToBackward if floor.pipeline.ranks == 1 => dense + expert,
        _ => 0,
    };
    let gathered = gathered * rules.compute.size();
    let working =
        if rules.keeps_working_gradients(floor.engine) { trained * rules.compute.size() } else { 0 };
    let owned = rules.at_least(rules.shards_optimizer, dense_trained, expert_trained);
    Held {
        fixed: (gradients + gathered + working) as f64,
        parameters: stored as f64,
        optimizer: (owned * rules.optimizer_size) as f64,
        owned: owned as f64,
    }
}
