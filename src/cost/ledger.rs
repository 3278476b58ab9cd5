//! The memory ledger: a rank's peak as the maximum over named instants, in closed form, without a program.
//!
//! Written apart from `program`: the tests hold its peak against the program's own, to the byte.

use crate::cost::digest::UnitDigest;
use crate::cost::instants::Instant;
use crate::cost::known_chunks::KnownChunks;
use crate::cost::unit_cost::{UnitCost, UnitCosts};
use crate::cost::walk::{PassPeak, Walk};
use crate::profile::EngineProfile;
use crate::program::layout::{Chunk, Layout, PlacedUnit};
use crate::program::scalars::Scalars;
use crate::program::state::{StateRules, offloaded_elements};
use crate::program::{Pass, build};
use crate::strategy::Strategy;
use crate::units::Bytes;

/// A strategy laid out, with the costs of its units.
#[derive(Clone, Copy)]
pub struct Ledger<'a> {
    pub layout: &'a Layout,
    pub costs: &'a UnitCosts,
    pub strategy: &'a Strategy,
    pub engine: &'a EngineProfile,
    pub rules: &'a StateRules,
    /// What is known of chunks like its own.
    pub known: &'a KnownChunks,
}

impl Ledger<'_> {
    /// The device peak of pipeline rank `stage` over `instants`, its schedule's named instants.
    pub fn peak(&self, stage: u32, instants: &[Instant]) -> Bytes {
        Bytes((self.persistent(stage) + self.above(stage, instants)) as u64)
    }

    /// The part of the peak that is not held over the whole step.
    pub fn above(&self, stage: u32, instants: &[Instant]) -> i64 {
        let passes: Vec<[PassPeak; 3]> =
            self.layout.chunks_of(stage).map(|chunk| self.passes(chunk)).collect();
        let sent = |before: Option<(Pass, u32)>| {
            before.map_or(0, |(pass, chunk)| passes[chunk as usize][pass as usize].sent)
        };
        // What a micro-batch leaves of each chunk between its forward and its backward, and behind that.
        let left: Vec<(i64, i64)> =
            passes.iter().map(|[f, b, _]| (f.net - f.sent, f.net - f.sent + b.net - b.sent)).collect();
        instants
            .iter()
            .map(|instant| {
                let of = |(&(forward, backward), left): (&(u32, u32), &(i64, i64))| {
                    i64::from(forward) * left.0 + i64::from(backward) * left.1
                };
                let held: i64 = instant.held.iter().zip(&left).map(of).sum();
                let own = match instant.action {
                    Some((pass, chunk)) => passes[chunk as usize][pass as usize].peak,
                    None => self.step(stage),
                };
                held + sent(instant.before) + own
            })
            .max()
            .unwrap_or(0)
            .max(0)
    }

    /// Bytes held over the whole step: for each parameter its type's size, times the share that the stage of ZeRO
    /// leaves on the rank.
    pub fn persistent(&self, stage: u32) -> i64 {
        let rules = self.rules;
        let (mut bytes, mut owned, mut dense, mut expert) = (0, 0, 0, 0);
        let on_host = offloaded_elements(self.strategy, stage as usize, self.owned(stage));
        let (mut reads_tokens, mut reads_targets) = (false, false);
        for (unit, count) in self.runs(stage) {
            let cost = self.cost(stage, unit);
            bytes += count * (cost.held + if unit.offloads_parameters { 0 } else { aligned(cost.stored) });
            bytes += if cost.comes_late {
                0
            } else if rules.gradients_follow_optimizer && owned < on_host {
                let left = |place| (on_host - owned).saturating_sub(place * cost.owned).min(cost.owned);
                let on_device = |place| (cost.owned - left(place)) * rules.gradient.size();
                (0..count).map(|place| aligned(on_device(place))).sum()
            } else {
                count * aligned(cost.gradients)
            };
            owned += count * cost.owned;
            dense += count * cost.trained.0;
            expert += count * cost.trained.1;
            reads_tokens |= unit.reads_tokens;
            reads_targets |= unit.reads_targets;
        }
        bytes += aligned((owned - on_host) * rules.optimizer_size);
        let reduced = if rules.gradient_ranks > 1 { dense } else { 0 }
            + if rules.expert_ranks > 1 { expert } else { 0 };
        let bucket = reduced.min(self.strategy.bucket) * rules.reduce.size();
        bytes += aligned(self.engine.buffers.reduce_buckets * bucket);
        if rules.keeps_working_gradients(self.engine) {
            bytes += aligned((dense + expert) * rules.compute.size());
        }
        if self.engine.buffers.placeholder_gradients {
            bytes += aligned(self.layout.matrix_shape_elements(stage) * rules.compute.size());
        }
        bytes += self.inboxes(stage) + self.layout.scalars(self.strategy.accumulation).bytes().aligned().0;
        let ids = u64::from(reads_tokens) + u64::from(reads_targets);
        bytes += ids * aligned(4 * rules.step_tokens) + aligned(self.engine.buffers.workspace);
        bytes as i64
    }

    /// Memory in which messages arrive: an input of each chunk behind the first, a gradient for each loss behind it.
    fn inboxes(&self, stage: u32) -> u64 {
        let of = |chunk: &Chunk| {
            let entering = build::entering_of(self.layout, chunk.index).aligned().0;
            let input = if chunk.index > 0 { entering } else { 0 };
            let gradients = chunk.receives.iter().map(|&loss| match units_of_loss(chunk, loss).first() {
                Some(unit) => self.cost(stage, unit).digest.output_gradient as u64,
                None if chunk.units.is_empty() => entering,
                None => 0,
            });
            input + gradients.sum::<u64>()
        };
        if self.engine.buffers.placed { self.layout.chunks_of(stage).map(of).sum() } else { 0 }
    }

    /// Host bytes of pipeline rank `stage`: offloaded state with its staging, and offloaded activations of
    /// micro-batches in flight.
    pub fn host(&self, stage: u32, instants: &[Instant]) -> Bytes {
        let rules = self.rules;
        let on_host = offloaded_elements(self.strategy, stage as usize, self.owned(stage));
        let stored: u64 = self
            .runs(stage)
            .filter(|(unit, _)| unit.offloads_parameters)
            .map(|(unit, count)| count * aligned(self.cost(stage, unit).stored))
            .sum();
        let scalars = if on_host > 0 { aligned(Scalars::head_bytes().0) } else { 0 };
        let state = aligned(on_host * rules.host_size) + scalars;
        let saved: Vec<i64> = self
            .layout
            .chunks_of(stage)
            .map(|chunk| {
                let copied = chunk.runs().filter(|(unit, _)| unit.offloads_activations);
                copied
                    .map(|(unit, count)| (count * self.cost(stage, unit).digest.copied.aligned().0) as i64)
                    .sum()
            })
            .collect();
        let most = instants
            .iter()
            .map(|instant| {
                let held: i64 =
                    instant.held.iter().zip(&saved).map(|(held, saved)| i64::from(held.0) * saved).sum();
                held + match instant.action {
                    Some((Pass::Forward, chunk)) => saved[chunk as usize],
                    _ => 0,
                }
            })
            .max()
            .unwrap_or(0);
        Bytes(state + stored + most.max(0) as u64)
    }

    fn runs(&self, stage: u32) -> impl Iterator<Item = (&PlacedUnit, u64)> {
        self.layout.chunks_of(stage).flat_map(Chunk::runs)
    }

    fn cost(&self, stage: u32, unit: &PlacedUnit) -> &UnitCost {
        self.costs.of(stage, unit)
    }

    /// Elements of optimizer state of `stage`.
    fn owned(&self, stage: u32) -> u64 {
        self.runs(stage).map(|(unit, count)| count * self.cost(stage, unit).owned).sum()
    }

    /// The optimizer step: a 32-bit copy of the gradients that the device owns, where the engine makes one, and room for
    /// the parameters that the host stores and the device updates.
    fn step(&self, stage: u32) -> i64 {
        let owned = self.owned(stage);
        let on_host = offloaded_elements(self.strategy, stage as usize, owned);
        let copies = self.engine.state.single_precision_gradient_copy && self.rules.gradient.size() < 4;
        let copy = if copies { 4 * (owned - on_host) } else { 0 };
        let (mut before, mut updated) = (0, 0);
        for (unit, count) in self.runs(stage) {
            let end = before + count * self.cost(stage, unit).owned;
            if unit.offloads_parameters {
                updated += end.saturating_sub(before.max(on_host));
            }
            before = end;
        }
        let late: u64 = self.runs(stage).map(|(unit, count)| count * self.late(stage, unit) as u64).sum();
        (aligned(copy) + aligned(updated * self.rules.parameter.size()) + late) as i64
    }

    /// The gradient that comes with the passes of `unit` and stays until the update.
    fn late(&self, stage: u32, unit: &PlacedUnit) -> i64 {
        let cost = self.cost(stage, unit);
        if cost.comes_late { aligned(cost.gradients) as i64 } else { 0 }
    }

    /// Its three passes.
    fn passes(&self, chunk: &Chunk) -> [PassPeak; 3] {
        let walk = || [self.forward(chunk), self.backward(chunk), self.weight(chunk)];
        self.known.peaks((self.layout, chunk), walk)
    }

    fn forward(&self, chunk: &Chunk) -> PassPeak {
        let mut walk = Walk::new(self, chunk.stage);
        let units: Vec<&PlacedUnit> = chunk.units.iter().collect();
        let digest = |unit: &PlacedUnit| &self.cost(chunk.stage, unit).digest;
        let entering = build::entering_of(self.layout, chunk.index).aligned().0 as i64;
        if chunk.index > 0 {
            walk.take(entering);
        }
        walk.over(
            &units,
            Pass::Forward,
            |_| false,
            |walk, place| {
                let unit = units[place];
                let UnitCost { digest, gradient, .. } = self.cost(chunk.stage, unit);
                walk.coming = self.late(chunk.stage, unit);
                walk.pass(&digest.forward, *gradient, false);
                if unit.offloads_activations && digest.kept > 0 {
                    walk.leaving.push(digest.kept);
                    walk.copied_out(usize::from(self.strategy.overlap));
                }
            },
        );
        walk.copied_out(0);
        if (chunk.index as usize) + 1 < self.layout.chunks.len() {
            walk.sent = units.last().map_or(entering, |unit| digest(unit).output);
        }
        walk.done()
    }

    fn backward(&self, chunk: &Chunk) -> PassPeak {
        let mut walk = Walk::new(self, chunk.stage);
        if chunk.units.is_empty() {
            let passing = build::entering_of(self.layout, chunk.index).aligned().0 as i64;
            for _ in &chunk.receives {
                walk.take(passing);
                walk.sent += passing;
            }
            return walk.done();
        }
        let digest = |unit: &PlacedUnit| &self.cost(chunk.stage, unit).digest;
        let shaped = self.layout.shaped();
        let losses = shaped.backward_order();
        let runs: Vec<Vec<&PlacedUnit>> = losses.iter().map(|&loss| units_of_loss(chunk, loss)).collect();
        for (turn, (units, &loss)) in runs.iter().zip(losses).enumerate() {
            let Some(first) = units.first() else { continue };
            walk.live -= walk.reducing.drain(..).sum::<i64>();
            if chunk.receives.contains(&loss) {
                walk.take(digest(first).output_gradient);
            }
            let overlap = self.strategy.overlap;
            let uses = |runs: &[Vec<&PlacedUnit>], unit: &PlacedUnit| {
                runs.iter().any(|run| run.iter().any(|other| other.unit == unit.unit))
            };
            // Saved activations come back for the first loss whose backward needs them.
            let saved = |unit: &PlacedUnit| {
                let comes = unit.offloads_activations && !uses(&runs[..turn], unit);
                if comes { digest(unit).kept } else { 0 }
            };
            let stays = |unit: &PlacedUnit| uses(&runs[turn + 1..], unit);
            let holds = |unit: &PlacedUnit| shaped.holds_gradient(loss, unit.unit);
            let last_held = units.iter().rposition(|unit| holds(unit));
            if overlap {
                walk.take(saved(first));
            }
            walk.over(units, Pass::Backward, stays, |walk, place| {
                let unit = units[place];
                match (overlap, units.get(place + 1)) {
                    (false, _) => walk.take(saved(unit)),
                    (true, Some(next)) => walk.take(saved(next)),
                    (true, None) => {}
                }
                let UnitCost { digest, gradient, whole_gradient, .. } = self.cost(chunk.stage, unit);
                let pass = if stays(unit) { &digest.backward_again } else { &digest.backward };
                // Kept whole over the step, a gradient that is held by itself has a buffer of its own for a while.
                let gradient = if holds(unit) { whole_gradient } else { gradient };
                let has_come = digest.forward.after.is_some();
                walk.coming = if has_come { 0 } else { self.late(chunk.stage, unit) };
                walk.pass(pass, *gradient, holds(unit));
                // Copies of gradients whose norms are taken over several ranks.
                for (_, watch) in shaped.watches_at(loss, unit.unit) {
                    let summed = watch.is_summed(self.rules);
                    let copy =
                        if summed { watch.parameters.trained() * self.rules.gradient.size() } else { 0 };
                    walk.take(aligned(copy) as i64);
                    walk.live -= aligned(copy) as i64;
                }
                if last_held == Some(place) || !shaped.is_weighed_late(loss) {
                    walk.weighed(self.rules.keeps_whole_gradients);
                }
            });
            if chunk.sends_gradient {
                walk.sent += digest(&chunk.units[0]).input_gradient;
            }
        }
        // The step holds what has come.
        let adds = |unit: &&PlacedUnit| {
            let UnitDigest { forward, backward, .. } = digest(unit);
            forward.after.is_some() || backward.after.is_some()
        };
        walk.live -= chunk.units.iter().filter(adds).map(|unit| self.late(chunk.stage, unit)).sum::<i64>();
        walk.done()
    }

    fn weight(&self, chunk: &Chunk) -> PassPeak {
        let mut walk = Walk::new(self, chunk.stage);
        for unit in chunk.units.iter().rev().filter(|unit| unit.has_backward) {
            let UnitCost { digest, gradient, .. } = self.cost(chunk.stage, unit);
            walk.pass(&digest.weight, *gradient, false);
        }
        walk.done()
    }
}

/// The memory that a buffer of `bytes` bytes takes.
const fn aligned(bytes: u64) -> u64 {
    Bytes(bytes).aligned().0
}

/// Units that the backward of `loss` runs through, last first.
fn units_of_loss(chunk: &Chunk, loss: u8) -> Vec<&PlacedUnit> {
    let own = chunk.units.iter().position(|unit| unit.loss == Some(loss));
    let end = match own {
        Some(place) => place + 1,
        None if chunk.receives.contains(&loss) => chunk.units.len(),
        None => 0,
    };
    chunk.units[..end]
        .iter()
        .rev()
        .filter(|unit| unit.has_backward && (unit.loss.is_none() || unit.loss == Some(loss)))
        .collect()
}
