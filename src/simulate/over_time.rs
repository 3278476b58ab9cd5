//! Memory over time: the memory curve, which has a logical clock, at the times at which the compute stream gets there.

use std::cmp::Ordering;

use crate::cost::Pricing;
use crate::lower::Stream;
use crate::program::{Program, RankProgram};
use crate::simulate::memory::MemoryPeak;
use crate::simulate::player::{Player, RankPlayback};
use crate::simulate::starts::Starts;
use crate::units::{Bytes, Seconds};

/// Moments of a curve at most.
pub const MOST_MOMENTS: usize = 400;

/// What a rank holds from an instant on, by category in the order of [`crate::lower::Category::ALL`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryMoment {
    pub at: Seconds,
    pub categories: [Bytes; 7],
}

/// What rank `stage` of `program` holds over the step: first what it holds before, then the most of each of equal parts
/// of the step where that changes, last what it holds at the end. The peak is reached in the part in which it is played.
pub fn memory_over_time(program: &Program, pricing: &dyn Pricing, stage: usize) -> Vec<MemoryMoment> {
    let (playback, starts) = Player::new(program, pricing, true).noting(stage);
    let mut curve = Envelope::new(playback.end.0);
    walk(&program.ranks[stage], &playback, &starts, &mut curve);
    curve.finished()
}

/// Gives `curve` what is held at each change, in issue order.
fn walk(rank: &RankProgram, playback: &RankPlayback, starts: &Starts, curve: &mut Envelope) {
    let mut live = [0_i64; 7];
    for state in &rank.persistent {
        live[state.holds.category() as usize] += state.device.aligned().0 as i64;
    }
    curve.begin(live);
    let MemoryPeak { call, instruction, .. } = playback.memory;
    // What is issued before the peak stands before it, whatever stream it is on.
    let around = |place: (u32, u32), time: f64| match place.cmp(&(call as u32, instruction as u32)) {
        Ordering::Less => time.min(playback.peak_at.0),
        Ordering::Equal => playback.peak_at.0,
        Ordering::Greater => time.max(playback.peak_at.0),
    };
    // When a call is done.
    let end = |call: u32, now: f64| {
        let end = playback.spans.get(call as usize).map_or(now, |span| span.end.0);
        around((call, u32::MAX), end.max(now))
    };
    let (mut now, mut in_call, mut computed) = (0.0, 0, 0);
    for issued in rank.issued() {
        if issued.call != in_call {
            curve.hold(end(in_call, now), live);
            (in_call, computed) = (issued.call, 0);
        }
        if issued.instruction.stream == Stream::Compute {
            let start = playback.spans.get(issued.call as usize).map_or(now, |span| span.start.0);
            now = start + starts.after(issued.call as usize).get(computed).copied().unwrap_or(0.0);
            computed += 1;
        }
        let frame = &rank.frames[issued.frame as usize];
        for &id in &issued.instruction.allocates {
            let buffer = &frame.buffers[id as usize];
            live[buffer.category as usize] += buffer.bytes.aligned().0 as i64;
        }
        now = around((issued.call, issued.index), now);
        curve.hold(now, live);
        for freed in rank.frees(&issued) {
            let buffer = &rank.frames[freed.frame as usize].buffers[freed.buffer as usize];
            live[buffer.category as usize] -= buffer.bytes.aligned().0 as i64;
        }
    }
    curve.hold(end(in_call, now), live);
    curve.hold(playback.end.0, live);
}

/// The most that is held in each of equal parts of the step.
struct Envelope {
    /// Seconds of a part.
    part: f64,
    /// The part at hand, and the most that was held in it.
    number: usize,
    most: [i64; 7],
    /// What is held now.
    live: [i64; 7],
    moments: Vec<MemoryMoment>,
    end: f64,
}

/// Start and end of the step are moments of their own.
const PARTS: usize = MOST_MOMENTS - 2;

impl Envelope {
    const fn new(end: f64) -> Self {
        let (most, live) = ([0; 7], [0; 7]);
        Self { part: end / PARTS as f64, number: 0, most, live, moments: Vec::new(), end }
    }

    /// `live` is held before the step.
    fn begin(&mut self, live: [i64; 7]) {
        (self.live, self.most) = (live, live);
        self.note(0.0, live);
    }

    /// `live` is held from `time` on; times do not go back.
    fn hold(&mut self, time: f64, live: [i64; 7]) {
        self.pass((time / self.part) as usize);
        if sum(&live) > sum(&self.most) {
            self.most = live;
        }
        self.live = live;
    }

    /// Closes the parts before `number`.
    fn pass(&mut self, number: usize) {
        while self.number < number.min(PARTS - 1) {
            self.note(self.number as f64 * self.part, self.most);
            self.most = self.live;
            self.number += 1;
        }
    }

    fn note(&mut self, at: f64, live: [i64; 7]) {
        let categories = live.map(|bytes| Bytes(bytes as u64));
        if self.moments.last().is_none_or(|last| last.categories != categories) {
            self.moments.push(MemoryMoment { at: Seconds(at), categories });
        }
    }

    fn finished(mut self) -> Vec<MemoryMoment> {
        self.pass(PARTS);
        self.note((PARTS - 1) as f64 * self.part, self.most);
        let categories = self.live.map(|bytes| Bytes(bytes as u64));
        self.moments.push(MemoryMoment { at: Seconds(self.end), categories });
        self.moments
    }
}

fn sum(live: &[i64; 7]) -> i64 {
    live.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::DevicePricing;
    use crate::program::build;
    use crate::strategy::{Draft, Workload, resolve};
    use crate::units::ElementType;
    use crate::{cluster, model, profile};

    /// GPT-2 for 64 sequences on four devices of one node.
    fn played(text: &str, compare: impl Fn(&Program, &dyn Pricing)) {
        let (model, cluster) = (model::load("gpt2").unwrap(), cluster::load("1x4xh100-sxm").unwrap());
        let workload = Workload {
            global_batch: 64,
            seq_len: 256,
            precision: ElementType::Bf16,
            dropout: 0.0,
            clip: 1.0,
        };
        let engine = &profile::engines::engines()[0];
        let strategy = resolve(&Draft::parse(text).unwrap(), &model, 4, &workload, engine).unwrap();
        let program = build(&model, &strategy, &workload, engine);
        compare(&program, &DevicePricing::new(&cluster, engine, &strategy, workload.compute_type()));
    }

    #[test]
    fn starts_are_those_of_every_instruction_played() {
        for text in [
            "pp=2,tp=2,micro=1",
            "pp=4,micro=1,sched=interleaved,virtual=3",
            "pp=4,micro=1,sched=zb-v",
            "dp=4,zero=3,micro=1",
            "dp=2,pp=2,zero=1,micro=1,offload=activations:0.5",
        ] {
            played(text, |program, pricing| {
                for stage in 0..program.ranks.len() {
                    let (rank, fast) = Player::new(program, pricing, true).noting(stage);
                    let (same, slow) = Player::new(program, pricing, false).noting(stage);
                    for (call, (span, other)) in rank.spans.iter().zip(&same.spans).enumerate() {
                        let (fast, slow) = (fast.after(call), slow.after(call));
                        assert_eq!(fast.len(), slow.len(), "{text}, rank {stage}, call {call}");
                        for (one, two) in fast.iter().zip(slow) {
                            let off = (span.start.0 + one - other.start.0 - two).abs();
                            assert!(off < 1e-8 * rank.end.0, "{text}, rank {stage}, call {call}: {off}");
                        }
                    }
                }
            });
        }
    }

    #[test]
    fn parts_hold_their_most() {
        let held = |amount| [amount, 0, 0, 0, 0, 0, 0];
        let mut curve = Envelope::new(PARTS as f64);
        curve.begin(held(5));
        // Two changes in part 2, of which the higher counts; 7 is held on.
        for (time, amount) in [(0.0, 5), (2.2, 9), (2.6, 7), (4.0, 5)] {
            curve.hold(time, held(amount));
        }
        let shown: Vec<(f64, u64)> =
            curve.finished().iter().map(|moment| (moment.at.0, moment.categories[0].0)).collect();
        assert_eq!(shown, [(0.0, 5), (2.0, 9), (3.0, 7), (5.0, 5), (PARTS as f64, 5)]);
    }
}
