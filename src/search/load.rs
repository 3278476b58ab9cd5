//! What a model weighs on its pipeline, for one micro-batch: the least that its blocks, and what stands before and
//! behind them, can take under any checkpoint mode.

use crate::cost::digest::{PassDigest, least};
use crate::cost::price::{LEVELS, Links};
use crate::lower::UnitParameters;
use crate::lower::unit::{UnitKind, UnitLayers};
use crate::search::forms::{ClassForms, Forms, MODES};

/// Seconds of one unit at the least over its checkpoint modes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Piece {
    /// All of its passes.
    pub work: f64,
    pub forward: f64,
    /// Its forward, and what of its backward must wait for the gradient that comes: a micro-batch's way there and
    /// back.
    pub way: f64,
    /// Its forward and its input's gradient, which must wait for the gradient that comes.
    pub round: f64,
}

/// The units of a model as a pipeline sees them.
#[derive(Clone, Debug, Default)]
pub struct Load {
    pub blocks: u64,
    /// The least of all classes of blocks.
    pub block: Piece,
    /// All blocks are alike.
    pub is_even: bool,
    /// What stands before the blocks, and behind them.
    pub front: Piece,
    pub back: Piece,
    /// All units together: passes, and of these kernels that fill the multiprocessors.
    pub work: f64,
    pub full: f64,
    /// And of these waiting for collectives of the layers, with the shares of links that any of those takes at the least.
    pub waits: f64,
    pub links: Links,
    /// How much earlier than its end a chunk's pass may send on what it made, there and back.
    pub slack: f64,
    /// The same both there and back, whatever the schedule.
    pub round_slack: f64,
    /// A gradient of one loss runs from the last unit to the first; elsewhere nothing is said of ways.
    pub is_plain: bool,
    /// The class of the last block that was looked at.
    pub class: usize,
    /// The least that any block keeps and takes, mode by mode.
    pub modes: [Kept; MODES],
    /// The least parameters of any block.
    pub parameters: UnitParameters,
    /// Bytes that enter a block.
    pub entering: u64,
}

/// What a block keeps under a mode, and what that costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// Bytes from forward to backward, for one micro-batch.
    pub bytes: f64,
    /// Seconds of all passes.
    pub work: f64,
    /// Bytes beside what is kept while a pass runs, before and after the first weight gradient is written.
    pub above: f64,
    pub after: f64,
}

impl Load {
    /// The load of `units` under `forms`; weight gradients in passes of their own do not stand in a gradient's way.
    pub fn new(units: &[UnitLayers], forms: &Forms, splits_weight: bool) -> Self {
        let mut load =
            Self { is_plain: true, is_even: true, links: [f64::INFINITY; LEVELS], ..Self::default() };
        let mut block: Option<Piece> = None;
        let mut slacks = [0.0_f64; 2];
        // Whether gradients flow through a unit is a fact of its class.
        let mut by_class = vec![(Piece::default(), (0.0, 0.0)); forms.classes.len()];
        for unit in units {
            let class = &forms.classes[unit.class];
            if by_class[unit.class].0.work == 0.0 {
                let piece = piece(class, unit.has_backward, splits_weight);
                by_class[unit.class] = (piece, shared(class, unit.has_backward));
                load.links = class
                    .digests
                    .iter()
                    .flat_map(|digest| [digest.forward, digest.backward, digest.weight])
                    .filter(|pass| pass.waits.0 > 0.0)
                    .map(|pass| pass.links)
                    .fold(load.links, least);
                for (most, seconds) in slacks.iter_mut().zip(slack(class)) {
                    *most = seconds.max(*most);
                }
            }
        }
        for (place, unit) in units.iter().enumerate() {
            let class = &forms.classes[unit.class];
            let (piece, (full, waits)) = by_class[unit.class];
            load.work += piece.work;
            load.full += full;
            load.waits += waits;
            load.is_plain &= unit.has_backward && (unit.loss.is_none() || place + 1 == units.len());
            match unit.kind {
                UnitKind::Block(_) => {
                    load.blocks += 1;
                    if block.is_some() && load.class == unit.class {
                        continue;
                    }
                    load.is_even &= block.is_none();
                    load.class = unit.class;
                    load.entering = class.digests[0].input.unsigned_abs();
                    load.modes = kept(class, load.modes, block.is_none());
                    load.parameters = fewest(&class.parameters, &load.parameters, block.is_none());
                    block = Some(block.map_or(piece, |block| block.least(piece)));
                }
                UnitKind::Front => load.front = load.front.and(piece),
                UnitKind::Back => {
                    load.is_plain &= place + 1 == units.len();
                    load.back = load.back.and(piece);
                }
            }
        }
        load.block = block.unwrap_or_default();
        load.links = load.links.map(|share| if share.is_finite() { share } else { 0.0 });
        load.round_slack = slacks.iter().sum();
        load.slack = if splits_weight { slacks[0] } else { load.round_slack };
        if !load.is_plain {
            for piece in [&mut load.block, &mut load.front, &mut load.back] {
                piece.way = 0.0;
                piece.round = 0.0;
            }
        }
        load
    }
}

fn kept(class: &ClassForms, known: [Kept; MODES], is_first: bool) -> [Kept; MODES] {
    let mut modes = known;
    for (mode, digest) in modes.iter_mut().zip(&class.digests) {
        let above = (digest.forward.before - digest.forward.net).max(digest.backward.before).max(0);
        let this = Kept {
            bytes: digest.kept.max(0) as f64,
            work: digest.forward.chain.0 + digest.backward.chain.0 + digest.weight.chain.0,
            above: above as f64,
            after: digest.backward.after.unwrap_or(0).max(0) as f64,
        };
        *mode = if is_first {
            this
        } else {
            Kept {
                bytes: this.bytes.min(mode.bytes),
                work: this.work.min(mode.work),
                above: this.above.min(mode.above),
                after: this.after.min(mode.after),
            }
        };
    }
    modes
}

fn fewest(one: &UnitParameters, other: &UnitParameters, is_first: bool) -> UnitParameters {
    if is_first {
        return *one;
    }
    UnitParameters {
        dense: one.dense.min(other.dense),
        expert: one.expert.min(other.expert),
        dense_trained: one.dense_trained.min(other.dense_trained),
        expert_trained: one.expert_trained.min(other.expert_trained),
        ..UnitParameters::default()
    }
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

    fn least(self, other: Self) -> Self {
        Self {
            work: self.work.min(other.work),
            forward: self.forward.min(other.forward),
            way: self.way.min(other.way),
            round: self.round.min(other.round),
        }
    }
}

fn piece(class: &ClassForms, has_backward: bool, splits_weight: bool) -> Piece {
    let least =
        |seconds: &dyn Fn(usize) -> f64| (0..class.digests.len()).map(seconds).fold(f64::INFINITY, f64::min);
    let passes = |mode: usize| {
        let digest = &class.digests[mode];
        let backward = if has_backward { digest.backward.chain.0 } else { 0.0 };
        digest.forward.chain.0 + backward + digest.weight.chain.0
    };
    let round = |mode: usize| {
        let digest = &class.digests[mode];
        let back = digest.backward.chain.0 - digest.backward.early.0;
        digest.forward.chain.0 + if has_backward { back.max(0.0) } else { 0.0 }
    };
    let forward = |mode: usize| class.digests[mode].forward.chain.0;
    let (forward, round) = (least(&forward), least(&round));
    Piece { work: least(&passes), forward, way: if splits_weight { forward } else { round }, round }
}

/// Seconds of kernels that fill the multiprocessors, and of waiting for collectives of the layers, at the least.
fn shared(class: &ClassForms, has_backward: bool) -> (f64, f64) {
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
fn slack(class: &ClassForms) -> [f64; 2] {
    let most = |seconds: &dyn Fn(usize) -> f64| (0..class.digests.len()).map(seconds).fold(0.0, f64::max);
    let forward = |mode: usize| class.digests[mode].forward.chain.0 - class.digests[mode].forward.ready.0;
    let backward = |mode: usize| class.digests[mode].backward.chain.0 - class.digests[mode].backward.ready.0;
    [most(&forward), most(&backward)]
}
