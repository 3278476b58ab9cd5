//! A lower bound of the passes of a step over all cuts, checkpoint modes and offloads, in a few operations.
//!
//! Rank s cannot start before the first micro-batch has come through the ranks before it, has all its passes to run,
//! and its last gradient must still go back through these. So with M micro-batches, and counting blocks,
//! T ≥ way(blocks before s) + M · work(blocks of s) for every rank s. Blocks are whole, so some rank has at least
//! ⌈blocks / ranks⌉, and as many ranks as the remainder asks for have that many, or one has more.

use crate::cost::route::Route;
use crate::profile::choices::Schedule;
use crate::search::load::{Load, PassTime};

/// A pipeline and what one micro-batch meets between two of its ranks.
#[derive(Clone, Copy, Debug)]
pub struct Pipeline {
    pub ranks: u64,
    /// Chunks of a rank.
    pub chunks: u64,
    pub micro: u64,
    pub schedule: Schedule,
    /// Seconds of a message from rank to rank.
    pub send: f64,
    /// Messages stand in the queue of the kernels, behind the pass that makes them.
    pub sends_within: bool,
}

/// What comes to the work of a rank, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct More {
    /// For each of its blocks, beside all passes and behind them.
    pub block: PassTime,
    /// For each micro-batch in each of its chunks: what its forward waits for before its first kernel, and its backward
    /// before the first and behind the last one.
    pub pass: PassTime,
    /// Until its first forward can end, beside that forward.
    pub start: f64,
}

impl Pipeline {
    /// A lower bound of all passes of a step over every inner choice, with what follows them.
    pub fn lower_bound(&self, load: &Load, more: More) -> f64 {
        let micro = self.micro as f64;
        let blocks = load.blocks as f64;
        let ranks = self.ranks as f64;
        if self.ranks == 1 {
            return more.start + ((load.work + more.pass) * micro + more.block * blocks).seconds();
        }
        let even = more.start + (load.work * micro + more.block * blocks).seconds() / ranks;
        if !load.is_plain || load.blocks == 0 {
            return even;
        }
        let whole = if self.chunks == 1 { self.contiguous(load, more) } else { self.scattered(load, more) };
        even.max(whole).max(if load.is_even { 0.0 } else { self.uneven(load, more.block) })
    }

    /// Whether rank `rank` has the last chunk.
    pub fn holds_last(&self, rank: u64) -> bool {
        // A V comes back to the first rank.
        rank == if self.schedule == Schedule::ZeroBubbleV { 0 } else { self.ranks - 1 }
    }

    /// Seconds between ranks that a micro-batch cannot do without: there, and back where weight gradients do not follow
    /// apart.
    fn hop(&self) -> f64 {
        if self.schedule.splits_weight() { self.send } else { 2.0 * self.send }
    }

    /// How much earlier than its end a pass may send, of the `slack` that its ops leave.
    fn early(&self, slack: PassTime) -> PassTime {
        if self.sends_within { PassTime::default() } else { slack }
    }

    /// The passes of a rank with `blocks` blocks in `chunks` chunks, of which none is empty, and what follows them.
    fn passes(&self, load: &Load, (blocks, chunks): (u64, u64), more: More) -> PassTime {
        let chunks = chunks.min(blocks) as f64;
        let blocks = blocks as f64;
        let passes = load.block.work * blocks + more.pass * chunks;
        passes * self.micro as f64 + more.block * blocks
    }

    /// The last chunk, with `last` blocks, meets all its forwards and backwards between the first micro-batch's way
    /// there and the last one's way back.
    fn round(&self, load: &Load, last: u64) -> f64 {
        let steps = self.ranks * self.chunks - 1;
        // In a V, the chunks in the middle are on one rank.
        let sends = steps - u64::from(self.schedule == Schedule::ZeroBubbleV);
        let hops = PassTime::of(sends as f64 * 2.0 * self.send) - self.early(load.round_slack) * steps as f64;
        let before = load.front.round + load.block.round * (load.blocks - last) as f64 + hops;
        let own = load.back.round + load.block.round * last as f64;
        before.seconds().max(0.0) + self.micro as f64 * own.seconds()
    }

    /// Seconds until the first micro-batch has come through `ranks` ranks with `blocks` of the heaviest blocks, and
    /// back.
    pub fn way(&self, load: &Load, ranks: u64, blocks: u64) -> f64 {
        self.through(load, ranks, load.block.way * blocks as f64)
    }

    /// The same through the first `blocks` blocks, of all classes.
    pub fn way_behind(&self, load: &Load, ranks: u64, blocks: u64) -> f64 {
        self.through(load, ranks, load.way(blocks))
    }

    /// What stands before and behind rank `rank`, with `count` blocks behind the first `used`, of one chunk a rank; the
    /// first rank's optimizer step takes `first_step` seconds at the least.
    pub fn route(&self, load: &Load, rank: u64, (used, count): (u64, u64), first_step: f64) -> Route {
        let micro = self.micro as f64;
        let way = self.way_behind(load, rank, used);
        let slack = self.early(load.slack);
        let hops = (PassTime::of(self.send) - slack) * rank as f64;
        let there = load.front.forward + load.way_there(used) + hops;
        let there = if rank == 0 { 0.0 } else { there.seconds().clamp(0.0, way) };
        let behind = self.ranks - 1 - rank;
        let splits = self.schedule.splits_weight();
        let (rest, hop) = if splits {
            let rest = load.block.round * load.blocks.saturating_sub(used + count) as f64 + load.back.round;
            (rest, PassTime::of(2.0 * self.send) - self.early(load.round_slack))
        } else {
            let rest = load.way(u64::MAX) - load.way(used + count) + load.back.way;
            (rest, PassTime::of(self.hop()) - slack)
        };
        let beyond = (rest + hop * behind as f64).seconds();
        // Before its first gradient comes, a rank has run no more than all its forwards.
        let ahead =
            if self.schedule == Schedule::OneForwardOneBackward { (behind + 1) as f64 } else { micro };
        let is_known = load.is_plain && self.chunks == 1 && (load.is_even || !splits);
        Route {
            there,
            back: way - there,
            first_step: if rank == 0 { 0.0 } else { first_step },
            beyond: beyond.max(0.0),
            micro,
            ahead: (is_known && behind > 0).then_some(ahead),
        }
    }

    fn through(&self, load: &Load, ranks: u64, blocks: PassTime) -> f64 {
        if ranks == 0 {
            return 0.0;
        }
        let hops = (PassTime::of(self.hop()) - self.early(load.slack)) * ranks as f64;
        (load.front.way + blocks + hops).seconds().max(0.0)
    }

    /// One chunk a rank. The last rank, which has the head, has `last` of the blocks; its bound rises with them, that
    /// of the others falls.
    fn contiguous(&self, load: &Load, more: More) -> f64 {
        let micro = self.micro as f64;
        let others = self.ranks - 1;
        let mut least = f64::INFINITY;
        for last in 0..=load.blocks {
            let work = load.back.work * micro + self.passes(load, (last, 1), more);
            let way = self.way(load, others, load.blocks - last);
            let of_last = (work.seconds() + way).max(self.round(load, last));
            if of_last >= least {
                break;
            }
            least = least.min(of_last.max(self.shared(load, load.blocks - last, others, more)));
        }
        least
    }

    /// `blocks` blocks over the first `ranks` ranks, one chunk each.
    fn shared(&self, load: &Load, blocks: u64, ranks: u64, more: More) -> f64 {
        let of = |blocks: u64| self.passes(load, (blocks, 1), more);
        let most = blocks.div_ceil(ranks);
        if most == 0 {
            return self.micro as f64 * load.front.work.seconds();
        }
        // With at most `most` blocks a rank, this many have them all; the last of these waits for the others.
        let full = blocks - ranks * (most - 1);
        let first = load.front.work * self.micro as f64 + of(most);
        let first = if full == ranks { first.seconds() } else { 0.0 };
        let within = (of(most).seconds() + self.way(load, full - 1, (full - 1) * most)).max(first);
        let beyond = of(most + 1).seconds() + self.waited(load, most + 1);
        within.min(beyond)
    }

    /// What a rank with `blocks` blocks waits at the least under 1F1B: behind other ranks' blocks for its first
    /// input, or, with few before it, for its first gradient, when it has run all the forwards that it may.
    fn waited(&self, load: &Load, blocks: u64) -> f64 {
        let (way, forward) = (load.block.way.chain, load.block.forward.chain);
        if self.schedule != Schedule::OneForwardOneBackward || way <= 0.0 {
            return 0.0;
        }
        let back = way - forward;
        let ahead = self.ranks.min(self.micro) as f64;
        let round = load.blocks as f64 * way - self.ranks as f64 * self.early(load.slack).chain;
        let gradient = round - blocks as f64 * (back + ahead * forward);
        (gradient / (1.0 + back / way)).max(0.0)
    }

    /// Several chunks a rank, of ⌊n⌋ or ⌈n⌉ of all blocks each. Of blocks that differ it is not known which chunks the
    /// heaviest are in.
    fn scattered(&self, load: &Load, more: More) -> f64 {
        let micro = self.micro as f64;
        let chunks = self.ranks * self.chunks;
        let (each, left) = ((load.blocks + load.others) / chunks, load.blocks % chunks);
        let full = if load.is_even && load.blocks >= chunks { self.chunks } else { 0 };
        let of = |blocks: u64| self.passes(load, (blocks, full), more);
        let front = load.front.work * micro;
        let back = load.back.work * micro;
        // So many ranks have the most blocks, or one has more; the last of them waits for the others.
        let most = load.blocks.div_ceil(self.ranks);
        let full = load.blocks - self.ranks * (most - 1);
        let within = of(most).seconds() + self.way_behind(load, full - 1, (full - 1) * each);
        let is_same = load.is_even && left == 0;
        let ranks = if is_same { within } else { within.min(of(most + 1).seconds()) };
        let own = if load.is_even { each } else { 0 };
        let least = own * self.chunks;
        let ends = match self.schedule {
            // The V comes back to the first rank.
            Schedule::ZeroBubbleV => (of(least) + front + back).seconds(),
            _ => {
                let way = self.way_behind(load, self.ranks - 1, (self.ranks - 1) * each);
                let last = (of(least) + back).seconds() + way;
                last.max((of(least) + front).seconds())
            }
        };
        ranks.max(ends).max(self.round(load, own))
    }

    /// Blocks of several kinds: with m ranks at work, the k-th of them behind at least k − 1 blocks, the sum over the
    /// ranks is at least M · work + way · m(m − 1)/2, and the longest at least an m-th of it.
    fn uneven(&self, load: &Load, more: PassTime) -> f64 {
        let work = load.work * self.micro as f64 + more * load.blocks as f64;
        let front = load.front.way;
        let way = if front.chain > 0.0 { load.least_way.least(front) } else { load.least_way };
        let step = way + PassTime::of(self.hop()) - self.early(load.slack);
        let of = |work: f64, step: f64| {
            let of = |ranks: f64| work / ranks + step.max(0.0) * (ranks - 1.0) / 2.0;
            let best = if step > 0.0 { (2.0 * work / step).sqrt() } else { f64::INFINITY };
            of(best.clamp(1.0, self.ranks as f64))
        };
        let all = [(work.chain, step.chain), (work.host, step.host), (work.longer, step.longer)];
        all.into_iter().map(|(work, step)| of(work, step)).fold(self.round(load, 0), f64::max)
    }
}
