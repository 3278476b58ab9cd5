//! What a model weighs on its pipeline, for one micro-batch: the least that its blocks, and what stands before and
//! behind them, can take under any checkpoint mode. Of blocks that differ, those of the class that weighs most speak
//! for all: what a bound says of these alone holds for the whole.

use std::ops::{Add, AddAssign, Mul, Sub};

use crate::cost::digest::{PassDigest, UnitDigest, least};
use crate::cost::price::{LEVELS, Links};
use crate::lower::UnitParameters;
use crate::lower::unit::{UnitKind, UnitLayers};
use crate::search::class_costs::{ClassCosts, MODES, ModelCosts};
use crate::search::pace::Pace;
use crate::search::trade::Trade;

/// Seconds of passes at the least, counted in three ways. Each adds up over units, and passes take at least the longest
/// sum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PassTime {
    /// As long as their longest chains.
    pub chain: f64,
    /// As long as their hosts take to issue them.
    pub host: f64,
    /// Forwards, backwards and weight passes each as whichever of these takes longer for blocks.
    pub longer: f64,
}

impl PassTime {
    /// The same in all ways.
    pub const fn of(seconds: f64) -> Self {
        Self { chain: seconds, host: seconds, longer: seconds }
    }

    /// `of` the ways of both.
    #[inline]
    fn with(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            chain: of(self.chain, other.chain),
            host: of(self.host, other.host),
            longer: of(self.longer, other.longer),
        }
    }

    /// The least of each.
    #[inline]
    pub fn least(self, other: Self) -> Self {
        self.with(other, f64::min)
    }

    /// The longest.
    pub const fn seconds(self) -> f64 {
        self.chain.max(self.host).max(self.longer)
    }
}

impl Add for PassTime {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        self.with(other, |one, other| one + other)
    }
}

impl Sub for PassTime {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        self.with(other, |one, other| one - other)
    }
}

impl AddAssign for PassTime {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<f64> for PassTime {
    type Output = Self;

    #[inline]
    fn mul(self, times: f64) -> Self {
        self.with(self, |seconds, _| times * seconds)
    }
}

/// What one unit takes at the least over its checkpoint modes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Piece {
    /// All of its passes.
    pub work: PassTime,
    pub forward: PassTime,
    /// Its forward, and what of its backward must wait for the gradient that comes: a micro-batch's way there and
    /// back.
    pub way: PassTime,
    /// Its forward and its input's gradient, which must wait for the gradient that comes.
    pub round: PassTime,
}

/// How a gradient comes from rank to rank.
#[derive(Clone, Copy, Debug)]
pub struct Hops {
    /// Weight gradients have passes of their own, which do not hold it up.
    pub splits_weight: bool,
    /// Messages go beside the kernels. A host may then be late while a backward waits for its gradient, or after it has
    /// sent one on: the way of a backward is its chain alone.
    pub sends_beside: bool,
}

/// The units of a model as a pipeline sees them.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Blocks of the class that weighs most, and one of them.
    pub blocks: u64,
    pub block: Piece,
    /// Blocks of other classes, and how many blocks stand up to the last of them.
    pub others: u64,
    pub last_other: u64,
    /// All blocks are alike.
    pub is_even: bool,
    /// What stands before the blocks, and behind them.
    pub front: Piece,
    pub back: Piece,
    /// All units together: passes, and of these kernels that fill the multiprocessors.
    pub work: PassTime,
    pub full: f64,
    /// And of these waiting for collectives of the layers, with the shares of links that any of those takes at the
    /// least.
    pub waits: f64,
    pub links: Links,
    /// How much of a pass needs no parameters, at the most: collectives before the first kernel.
    pub without_parameters: f64,
    /// What each second more of a host adds to a forward, a backward and a weight pass.
    pub late: [PassTime; 3],
    /// How much earlier than its end a chunk's pass may send on what it made, there and back.
    pub slack: PassTime,
    /// The same both there and back, whatever the schedule.
    pub round_slack: PassTime,
    /// A gradient of one loss runs from the last unit to the first; elsewhere nothing is said of ways.
    pub is_plain: bool,
    /// The class that weighs most; what its blocks keep, mode by mode, and their parameters.
    pub class: usize,
    pub modes: [Kept; MODES],
    /// How much longer a block takes under these modes for keeping less.
    pub trade: Trade,
    /// The longest chain of a forward of one under any mode, in seconds.
    pub longest_forward: f64,
    pub parameters: UnitParameters,
    /// Parameters of what stands before the blocks, and behind them.
    pub ends: [UnitParameters; 2],
    /// Bytes that enter a block at the least.
    pub entering: u64,
    /// Seconds of a micro-batch's way through the first blocks and back, by how many they are, and through any one at
    /// the least.
    ways: Vec<PassTime>,
    pub least_way: PassTime,
    /// Seconds of its way through the first blocks without the way back.
    forwards: Vec<PassTime>,
}

/// What a block keeps under a mode.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// Bytes from forward to backward, for one micro-batch.
    pub bytes: f64,
    /// Bytes from backward to weight pass, for one micro-batch.
    pub waiting: f64,
    /// While a pass runs: beside what is kept, and with what the block itself keeps.
    pub beside: Passing,
    pub alone: Passing,
}

/// Bytes while a pass runs, before and after the first weight gradient is written; the gradient is not counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passing {
    pub before: f64,
    pub after: f64,
}

impl Load {
    /// The load of `units` that cost `costs`, as `hops` pass gradients on.
    pub fn new(units: &[UnitLayers], costs: &ModelCosts, hops: Hops) -> Self {
        let pace = Pace::new(units, costs);
        let links = [f64::INFINITY; LEVELS];
        let mut load = Self { is_plain: true, links, late: pace.late(), ..Self::default() };
        let mut slacks = [vec![0.0; costs.classes.len()], vec![0.0; costs.classes.len()]];
        // Whether gradients flow through a unit is a fact of its class.
        let mut by_class = vec![(Piece::default(), (0.0, 0.0)); costs.classes.len()];
        let mut blocks = vec![0_u64; costs.classes.len()];
        for unit in units {
            let class = &costs.classes[unit.class];
            if by_class[unit.class].0.work.chain == 0.0 {
                let hosts = [pace.hosts(unit.class), pace.longer(unit.class)];
                let piece = piece(class, unit.has_backward, hops, hosts);
                by_class[unit.class] = (piece, shared(class, unit.has_backward));
                load.links = class
                    .digests
                    .iter()
                    .flat_map(|digest| [digest.forward, digest.backward, digest.weight])
                    .filter(|pass| pass.waits.0 > 0.0)
                    .map(|pass| pass.links)
                    .fold(load.links, least);
                let passes = class.digests.iter().flat_map(|digest| [digest.forward, digest.backward]);
                load.without_parameters =
                    passes.map(|pass| pass.without_parameters.0).fold(load.without_parameters, f64::max);
                for (slacks, seconds) in slacks.iter_mut().zip(slack(class)) {
                    slacks[unit.class] = seconds;
                }
            }
        }
        let (mut least_way, mut entering) = (PassTime::of(f64::INFINITY), u64::MAX);
        for (place, unit) in units.iter().enumerate() {
            let class = &costs.classes[unit.class];
            let (piece, (full, waits)) = by_class[unit.class];
            load.work += piece.work;
            load.full += full;
            load.waits += waits;
            load.is_plain &= unit.has_backward && (unit.loss.is_none() || place + 1 == units.len());
            match unit.kind {
                UnitKind::Block(_) => {
                    blocks[unit.class] += 1;
                    load.ways.push(load.ways.last().copied().unwrap_or_default() + piece.way);
                    load.forwards.push(load.forwards.last().copied().unwrap_or_default() + piece.forward);
                    least_way = piece.way.least(least_way);
                    entering = class.digests[0].input.unsigned_abs().min(entering);
                }
                UnitKind::Front => {
                    load.front = load.front.and(piece);
                    load.ends[0] = class.parameters;
                }
                UnitKind::Back => {
                    load.ends[1] = class.parameters;
                    load.is_plain &= place + 1 == units.len();
                    load.back = load.back.and(piece);
                }
            }
        }
        let weight = |class: &usize| blocks[*class] as f64 * by_class[*class].0.work.chain;
        let heaviest = (0..blocks.len()).max_by(|one, other| weight(one).total_cmp(&weight(other)));
        if let Some(class) = heaviest {
            load.of_class(class, &costs.classes[class]);
            (load.blocks, load.block) = (blocks[class], by_class[class].0);
            load.others = blocks.iter().sum::<u64>() - blocks[class];
            let all = units.iter().filter(|unit| matches!(unit.kind, UnitKind::Block(_)));
            load.last_other = all
                .enumerate()
                .filter(|(_, unit)| unit.class != class)
                .last()
                .map_or(0, |(place, _)| place as u64 + 1);
        }
        load.is_even = load.others == 0;
        load.entering = if entering < u64::MAX { entering } else { 0 };
        load.least_way = if least_way.chain.is_finite() { least_way } else { PassTime::default() };
        load.links = load.links.map(|share| if share.is_finite() { share } else { 0.0 });
        let [there, mut back] = [pace.slack(0, &slacks[0]), pace.slack(1, &slacks[1])];
        if hops.sends_beside {
            back = PassTime::of(back.chain);
        }
        load.round_slack = there + back;
        load.slack = if hops.splits_weight { there } else { load.round_slack };
        if !load.is_plain {
            for piece in [&mut load.block, &mut load.front, &mut load.back] {
                piece.way = PassTime::default();
                piece.round = PassTime::default();
            }
            load.ways.fill(PassTime::default());
            load.forwards.fill(PassTime::default());
            load.least_way = PassTime::default();
        }
        load
    }

    /// Seconds of a micro-batch's way through the first `blocks` blocks, of all classes, and back.
    pub fn way(&self, blocks: u64) -> PassTime {
        first(&self.ways, blocks)
    }

    /// The same without the way back.
    pub fn way_there(&self, blocks: u64) -> PassTime {
        first(&self.forwards, blocks)
    }

    /// What the blocks of class `class` keep and hold.
    fn of_class(&mut self, class: usize, costs: &ClassCosts) {
        self.class = class;
        self.modes = costs.digests.map(|UnitDigest { forward, backward, weight, kept, .. }| {
            let kept = kept.max(0);
            let passing = |before: i64, after: i64| Passing {
                before: before.max(0) as f64,
                after: after.max(0) as f64,
            };
            let after = backward.after.unwrap_or(0);
            Kept {
                bytes: kept as f64,
                waiting: (-weight.net).max(0) as f64,
                beside: passing((forward.before - forward.net).max(backward.before), after),
                alone: passing(
                    forward.before.max(kept + backward.before),
                    backward.after.map_or(0, |after| kept + after),
                ),
            }
        });
        self.trade =
            Trade::new(costs.digests.map(|UnitDigest { forward, backward, weight, kept, .. }| {
                (forward.chain.0 + backward.chain.0 + weight.chain.0, kept.max(0) as f64)
            }));
        let forwards = costs.digests.iter().map(|digest| digest.forward.chain.0);
        self.longest_forward = forwards.fold(0.0, f64::max);
        self.parameters = costs.parameters;
    }
}

/// The sum up to the first `blocks` blocks, of `sums` that rise block by block.
fn first(sums: &[PassTime], blocks: u64) -> PassTime {
    let last = blocks.checked_sub(1);
    last.and_then(|last| sums.get(last as usize).or(sums.last())).copied().unwrap_or_default()
}

impl Piece {
    fn and(self, other: Self) -> Self {
        Self {
            work: self.work + other.work,
            forward: self.forward + other.forward,
            way: self.way + other.way,
            round: self.round + other.round,
        }
    }
}

/// What a unit of `class` takes, of which a forward, a backward and a weight pass take `hosts` of hosts, and of the
/// longer ones.
fn piece(class: &ClassCosts, has_backward: bool, hops: Hops, hosts: [[f64; 3]; 2]) -> Piece {
    let digests = || class.digests.iter();
    // Of its backward, what waits for the gradient that comes: in seconds, and as a share.
    let waits = |digest: &UnitDigest| {
        let PassDigest { chain, early, .. } = digest.backward;
        let waits = if has_backward { (chain - early).0.max(0.0) } else { 0.0 };
        (waits, if chain.0 > 0.0 { waits / chain.0 } else { 0.0 })
    };
    let work = |digest: &UnitDigest| {
        let backward = if has_backward { digest.backward.chain.0 } else { 0.0 };
        digest.forward.chain.0 + backward + digest.weight.chain.0
    };
    let least = |seconds: &dyn Fn(&UnitDigest) -> f64| digests().map(seconds).fold(f64::INFINITY, f64::min);
    let time = |chain: f64, of: &dyn Fn([f64; 3]) -> f64| {
        let [host, longer] = hosts.map(of);
        PassTime { chain, host, longer }
    };
    let share = least(&|digest| waits(digest).1);
    let forward = time(least(&|digest| digest.forward.chain.0), &|[forward, ..]| forward);
    let round = least(&|digest| digest.forward.chain.0 + waits(digest).0);
    let gradient = least(&|digest| waits(digest).0);
    let round = time(round, &|[forward, backward, _]| {
        forward + if hops.sends_beside { gradient } else { share * backward }
    });
    let work = time(least(&work), &|passes| passes.iter().sum());
    Piece { work, forward, way: if hops.splits_weight { forward } else { round }, round }
}

/// Seconds of kernels that fill the multiprocessors, and of waiting for collectives of the layers, at the least.
fn shared(class: &ClassCosts, has_backward: bool) -> (f64, f64) {
    let least = |seconds: fn(&PassDigest) -> f64| {
        let all = class.digests.iter().map(|digest| {
            let backward = if has_backward { seconds(&digest.backward) } else { 0.0 };
            seconds(&digest.forward) + backward + seconds(&digest.weight)
        });
        all.fold(f64::INFINITY, f64::min)
    };
    (least(|pass| pass.full.0), least(|pass| pass.waits.0))
}

/// How much earlier than its end a unit has written what it sends on, and what it sends back.
fn slack(class: &ClassCosts) -> [f64; 2] {
    let most = |seconds: &dyn Fn(usize) -> f64| (0..class.digests.len()).map(seconds).fold(0.0, f64::max);
    let forward = |mode: usize| class.digests[mode].forward.chain.0 - class.digests[mode].forward.ready.0;
    let backward = |mode: usize| class.digests[mode].backward.chain.0 - class.digests[mode].backward.ready.0;
    [most(&forward), most(&backward)]
}
