//! What a pass adds to a rank's memory while it walks over the units of a chunk.

use crate::cost::digest::PassDigest;
use crate::cost::ledger::Ledger;
use crate::program::Pass;
use crate::program::layout::PlacedUnit;
use crate::program::state::Gathering;
use crate::units::Bytes;

/// How high a pass of a chunk stands above what was there before, and what it leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PassPeak {
    pub(super) peak: i64,
    pub(super) net: i64,
    /// Part of `net` that is freed at the end of the rank's next call.
    pub(super) sent: i64,
}

/// So many units into a run of alike ones, each further unit does what the one before did: at most two older gradients
/// and copies are still there.
const STEADY: usize = 4;

/// What is alive while a pass walks over its units.
pub(super) struct Walk<'a> {
    ledger: &'a Ledger<'a>,
    stage: u32,
    pub(super) live: i64,
    peak: i64,
    pub(super) sent: i64,
    /// Unit gradients whose reduction may not be over.
    pub(super) reducing: Vec<i64>,
    /// Saved activations that are being copied out.
    pub(super) leaving: Vec<i64>,
    /// Unit gradients that wait for the weight of their loss.
    held: Vec<i64>,
    /// What the next pass leaves of its unit's gradient until the update.
    pub(super) coming: i64,
}

impl<'a> Walk<'a> {
    pub(super) const fn new(ledger: &'a Ledger<'a>, stage: u32) -> Self {
        Self {
            ledger,
            stage,
            live: 0,
            peak: 0,
            sent: 0,
            reducing: Vec::new(),
            leaving: Vec::new(),
            held: Vec::new(),
            coming: 0,
        }
    }

    pub(super) fn take(&mut self, bytes: i64) {
        self.live += bytes;
        self.peak = self.peak.max(self.live);
    }

    /// A unit's pass; `gradient` is its own gradient buffer, at most one older one stays beside it.
    pub(super) fn pass(&mut self, digest: &PassDigest, gradient: i64, is_held: bool) {
        // A whole gradient is there when it is first written to, a shard when the unit's own is reduced.
        let coming = std::mem::take(&mut self.coming);
        let (first, last) = if self.ledger.rules.keeps_whole_gradients { (coming, 0) } else { (0, coming) };
        self.peak = self.peak.max(self.live + digest.before);
        if let Some(after) = digest.after {
            if gradient > 0 {
                while self.reducing.len() > 1 {
                    self.live -= self.reducing.remove(0);
                }
                self.live += gradient;
                if is_held { self.held.push(gradient) } else { self.reducing.push(gradient) }
            }
            self.live += first;
            self.peak = self.peak.max(self.live + after);
        }
        self.live += digest.net;
        if digest.after.is_some() {
            self.take(last);
        }
    }

    /// Held gradients are weighed: added to what is kept, or reduced.
    pub(super) fn weighed(&mut self, is_kept: bool) {
        if is_kept {
            self.live -= self.held.drain(..).sum::<i64>();
        } else {
            self.reducing.append(&mut self.held);
        }
    }

    pub(super) fn copied_out(&mut self, most: usize) {
        while self.leaving.len() > most {
            self.live -= self.leaving.remove(0);
        }
    }

    /// Units in the order of a pass, their parameters there while they run and a few units ahead.
    /// What `stays` for a later loss's backward is given back behind that one.
    pub(super) fn over(
        &mut self,
        units: &[&PlacedUnit],
        pass: Pass,
        stays: impl Fn(&PlacedUnit) -> bool,
        mut visit: impl FnMut(&mut Self, usize),
    ) {
        let ledger = self.ledger;
        let gathers = pass == Pass::Forward || ledger.rules.gathering == Gathering::EachPass;
        let acquire = |walk: &mut Self, unit: &PlacedUnit| {
            let (gathered, fetched) = walk.acquired(unit);
            walk.take(fetched + if gathers { gathered } else { 0 });
        };
        let ahead = ledger.engine.buffers.gathered_units.max(1) as usize - 1;
        for unit in units.iter().take(ahead) {
            acquire(self, unit);
        }
        let one = |walk: &mut Self, visit: &mut dyn FnMut(&mut Self, usize), place: usize| {
            if let Some(next) = units.get(place + ahead) {
                acquire(walk, next);
            }
            visit(walk, place);
            let (gathered, fetched) = walk.acquired(units[place]);
            let gives = ledger.rules.gathering == Gathering::EachPass
                || !stays(units[place]) && (pass == Pass::Backward || !units[place].has_backward);
            walk.live -= fetched + if gives { gathered } else { 0 };
        };
        let mut place = 0;
        while place < units.len() {
            let is_alike = |unit: &&&PlacedUnit| self.are_alike(units[place], unit);
            let alike = 1 + units[place + 1..].iter().take_while(is_alike).count();
            let end = place + alike;
            // Behind the first few of units that are alike, and before the last, each does what the one before did.
            if let Some(skipped) = alike.checked_sub(STEADY + ahead + 1) {
                (place..place + STEADY - 1).for_each(|place| one(self, &mut visit, place));
                let (start, peak) = (self.live, std::mem::replace(&mut self.peak, i64::MIN));
                one(self, &mut visit, place + STEADY - 1);
                let grown = (self.live - start) * skipped as i64;
                self.live += grown;
                self.peak = peak.max(self.peak + grown.max(0));
                place += STEADY + skipped;
            }
            (place..end).for_each(|place| one(self, &mut visit, place));
            place = end;
        }
    }

    /// Bytes that a unit's parameters take while a pass uses them: gathered, and fetched from the host.
    fn acquired(&self, unit: &PlacedUnit) -> (i64, i64) {
        let cost = self.ledger.costs.of(self.stage, unit);
        (cost.gathered, if unit.offloads_parameters { Bytes(cost.stored).aligned().0 as i64 } else { 0 })
    }

    /// Whether all passes treat two units the same.
    fn are_alike(&self, one: &PlacedUnit, other: &PlacedUnit) -> bool {
        let looks =
            |unit: &PlacedUnit| (unit.lowered, unit.has_backward, unit.loss, unit.offloads_parameters);
        let shaped = self.ledger.layout.shaped();
        looks(one) == looks(other)
            && one.offloads_activations == other.offloads_activations
            && shaped.backward_order().len() <= 1
            && shaped.watches().is_empty()
    }

    pub(super) fn done(mut self) -> PassPeak {
        self.live -= self.reducing.iter().sum::<i64>();
        PassPeak { peak: self.peak, net: self.live, sent: self.sent }
    }
}
