//! One pass of a chunk with what moves beside it: parameters gathered or fetched a few units ahead, gradients reduced
//! behind, activations on their way to the host and back. Nothing competes, so the end is a lower bound.
//!
//! What moves takes memory, so it waits for the calls before. The first units therefore wait for what they need from
//! the start of their pass on, unless the pass itself waits for its input meanwhile.

use smallvec::SmallVec;

use crate::cost::price::Links;

/// What moves for one unit of a pass, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnitFlow {
    /// Its longest chain of ops.
    pub chain: f64,
    /// Of these, seconds of kernels that fill the multiprocessors, and in which kernels wait for other collectives.
    pub full: f64,
    pub waits: f64,
    /// Its parameters from the host, and from the other shards.
    pub fetch: f64,
    pub gather: f64,
    /// The reduction of its own gradient, which the pass waits for.
    pub reduce: f64,
    /// Its saved activations to the host, or back.
    pub out: f64,
    pub back: f64,
    /// Until they are written.
    pub kept: f64,
    /// What of its chain needs wait neither for its parameters, nor for its activations.
    pub without_parameters: f64,
    pub without_kept: f64,
}

/// How the moves of a pass wait for its units.
#[derive(Clone, Copy, Debug)]
pub struct FlowRules {
    /// Units that are gathered at once: a later one waits until an earlier one is given back.
    pub depth: usize,
    /// Gathers and reductions stand on a stream of their own, and not between the kernels.
    pub gathers_beside: bool,
    pub reduces_beside: bool,
    /// Copies run beside the pass, one unit behind or ahead.
    pub copies_beside: bool,
    pub beside: Beside,
}

/// The end of a pass, if all that its first units need is there when it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowEnd {
    /// Of the last unit's ops.
    pub computed: f64,
    /// Of all that the pass waits for.
    pub ended: f64,
    /// How much later both are if what the first units need moves from the start of the pass on.
    pub lead: f64,
}

/// When a pass over `units` ends.
pub fn end(units: &[UnitFlow], rules: FlowRules) -> FlowEnd {
    let (computed, ended) = walked(Walk::new(units, rules));
    let mut moving = Walk::new(units, rules);
    if !moving.begin() {
        return FlowEnd { computed, ended, lead: 0.0 };
    }
    let (computed_behind, ended_behind) = walked(moving);
    let lead = (ended_behind - ended).max(0.0);
    // Of both walks, the shorter time from which something may leave.
    FlowEnd { computed: computed.min(computed_behind - lead), ended, lead }
}

/// When the last unit's ops end under `walk`, and all that the pass waits for.
fn walked(mut walk: Walk<'_>) -> (f64, f64) {
    let (units, rules) = (walk.units, walk.rules);
    // Each unit looks so many ahead.
    let reach = rules.depth.max(2);
    let mut place = 0;
    while place < units.len() {
        let alike = units[place..].iter().take_while(|unit| **unit == units[place]).count();
        let end = place + alike;
        // Units that have only like ones within reach all do the same.
        let last = end.saturating_sub(reach);
        while place < end {
            let before = (place + 1 < last).then(|| walk.standing(place, reach));
            walk.pass(place);
            place += 1;
            let Some(seconds) = before.and_then(|before| walk.standing(place, reach).moved_on(&before))
            else {
                continue;
            };
            walk.skip(place, last - place, (reach, seconds));
            place = last;
        }
    }
    let Walk { clocks, busy, moved, .. } = walk;
    let Clocks { now, data, outward, computed, .. } = clocks;
    (computed, now.max(data).max(outward).max(together(busy, moved, rules.beside)))
}

/// Moments of a pass, in seconds from its start; 0 is never.
#[derive(Clone, Copy, Debug, Default)]
struct Clocks {
    now: f64,
    /// When the streams of collectives and of copies are free.
    data: f64,
    outward: f64,
    inward: f64,
    left_before: f64,
    started: f64,
    computed: f64,
}

/// A pass on its way.
struct Walk<'a> {
    units: &'a [UnitFlow],
    rules: FlowRules,
    clocks: Clocks,
    /// When the units that come next have their parameters and activations.
    arrives: Vec<f64>,
    busy: Busy,
    moved: f64,
}

/// The clocks at a place of a pass, and when the next units have what they need.
struct Standing {
    clocks: Clocks,
    arrives: SmallVec<[f64; 4]>,
}

impl Standing {
    fn moments(&self) -> impl Iterator<Item = f64> {
        let Clocks { now, data, outward, inward, left_before, started, computed } = self.clocks;
        let clocks = [now, data, outward, inward, left_before, started, computed];
        clocks.into_iter().chain(self.arrives.iter().copied())
    }

    /// By how many seconds all moments came later than `before`, if by the same, but for those that never come.
    fn moved_on(&self, before: &Self) -> Option<f64> {
        let seconds = self.clocks.now - before.clocks.now;
        let close = SAME * self.clocks.now;
        let is_same = |(one, other): (f64, f64)| {
            (one == 0.0 && other == 0.0) || (one > 0.0 && (other - one - seconds).abs() <= close)
        };
        before.moments().zip(self.moments()).all(is_same).then_some(seconds)
    }
}

/// Two moments are one if they differ by no more than this share of the pass.
const SAME: f64 = 1e-14;

impl<'a> Walk<'a> {
    fn new(units: &'a [UnitFlow], rules: FlowRules) -> Self {
        let arrives = vec![0.0; units.len()];
        Self { units, rules, clocks: Clocks::default(), arrives, busy: Busy::default(), moved: 0.0 }
    }

    /// Moves what the first units need, in the order in which a pass asks for it; false if that is nothing.
    fn begin(&mut self) -> bool {
        self.bring_back(0);
        let Self { units, rules, clocks, arrives, moved, .. } = self;
        for (unit, arrives) in units.iter().zip(arrives).take(rules.depth) {
            let mut from = 0.0;
            if unit.fetch > 0.0 && rules.copies_beside {
                clocks.inward += unit.fetch;
                from = clocks.inward;
            }
            if unit.gather > 0.0 && rules.gathers_beside {
                clocks.data = clocks.data.max(from) + unit.gather;
                *moved += unit.gather;
                from = clocks.data;
            }
            *arrives = arrives.max(from - unit.without_parameters);
        }
        self.bring_back(1);
        self.arrives.iter().take(self.rules.depth.max(2)).any(|&arrives| arrives > 0.0)
    }

    /// Brings activations of the unit at `place` back, as soon as the copies before are done.
    fn bring_back(&mut self, place: usize) {
        if let Some(unit) = self.units.get(place).filter(|unit| unit.back > 0.0 && self.rules.copies_beside) {
            self.clocks.inward += unit.back;
            self.arrives[place] = self.arrives[place].max(self.clocks.inward - unit.without_kept);
        }
    }

    fn standing(&self, place: usize, reach: usize) -> Standing {
        let arrives = SmallVec::from_slice(&self.arrives[place..place + reach]);
        Standing { clocks: self.clocks, arrives }
    }

    /// Adds what the unit at `place` has to do, `times` times.
    fn count(&mut self, place: usize, times: f64) {
        let UnitFlow { chain, full, waits, reduce, .. } = self.units[place];
        self.busy.chain += times * chain;
        self.busy.full += times * full;
        self.busy.waits += times * waits;
        if self.rules.reduces_beside {
            self.moved += times * reduce;
        }
        if let Some(next) = self.units.get(place + self.rules.depth).filter(|_| self.rules.gathers_beside) {
            self.moved += times * next.gather;
        }
    }

    /// Passes over `skipped` units from `place` on, each of which moves everything on by `seconds`.
    fn skip(&mut self, place: usize, skipped: usize, (reach, seconds): (usize, f64)) {
        let by = seconds * skipped as f64;
        let later = |moment: &mut f64| *moment += if *moment > 0.0 { by } else { 0.0 };
        let Clocks { now, data, outward, inward, left_before, started, computed } = &mut self.clocks;
        [now, data, outward, inward, left_before, started, computed].into_iter().for_each(later);
        self.arrives.copy_within(place..place + reach, place + skipped);
        self.arrives[place + skipped..place + skipped + reach].iter_mut().for_each(later);
        self.count(place, skipped as f64);
    }

    /// Passes over the unit at `place`.
    fn pass(&mut self, place: usize) {
        self.count(place, 1.0);
        let Self { units, rules, clocks, arrives, .. } = self;
        let Clocks { now, data, outward, inward, left_before, started, computed } = clocks;
        let unit = &units[place];
        if !rules.gathers_beside {
            *now += unit.gather;
        }
        let before = *started;
        *started = now.max(arrives[place]);
        // What is kept may be a unit's input alone, which the one before has written.
        let written = if unit.kept > 0.0 { *started + unit.kept } else { before };
        *now = *started + unit.chain;
        *computed = *now;
        if unit.reduce > 0.0 {
            if rules.reduces_beside {
                *data = data.max(*now) + unit.reduce;
            } else {
                *now += unit.reduce;
            }
        }
        if unit.out > 0.0 {
            *outward = outward.max(written) + unit.out;
            *now = now.max(if rules.copies_beside { *left_before } else { *outward });
            *left_before = *outward;
        }
        if let Some(next) = units.get(place + rules.depth) {
            let mut from = *now;
            if next.fetch > 0.0 {
                *inward = inward.max(from) + next.fetch;
                from = *inward;
            }
            if next.gather > 0.0 && rules.gathers_beside {
                *data = data.max(from) + next.gather;
                from = *data;
            }
            let arrival = if next.fetch + next.gather > 0.0 { from - next.without_parameters } else { 0.0 };
            arrives[place + rules.depth] = arrives[place + rules.depth].max(arrival);
        }
        // Activations of the next unit but one are fetched behind its parameters.
        if let Some(next) = units.get(place + 2).filter(|next| next.back > 0.0 && rules.copies_beside) {
            *inward = inward.max(*computed) + next.back;
            arrives[place + 2] = arrives[place + 2].max(*inward - next.without_kept);
        }
    }
}

/// How passes are slowed down by collectives beside them: what runs together runs at 1/(1 + share) of its speed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Beside {
    /// Kernels that fill the multiprocessors, of which a collective takes a share.
    pub full: f64,
    /// Collectives of the layers, which share links.
    pub waits: f64,
}

impl Beside {
    /// A collective that takes the share `multiprocessors`, and of links what is left beside those of the layers.
    pub fn new(multiprocessors: f64, layers: Links, state: Links) -> Self {
        let over = layers.iter().zip(state).map(|(layers, state)| layers + state - 1.0);
        Self { full: multiprocessors, waits: over.fold(0.0, f64::max) }
    }
}

/// Seconds of passes: all of them, of these kernels that fill the multiprocessors, and waiting for collectives of the
/// layers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Busy {
    pub chain: f64,
    pub full: f64,
    pub waits: f64,
}

/// How long `busy` passes take at the least beside `moved` seconds of other collectives. With x seconds of both at
/// once, where that slows them down by a share s, the whole takes chain + moved − (1 − s) · x: so the best is to run
/// them together where s is least.
pub fn together(busy: Busy, moved: f64, beside: Beside) -> f64 {
    let Busy { chain, full, waits } = busy;
    let full = full.min(chain);
    let waits = waits.min(chain - full);
    let mut slowed = [(full, beside.full), (waits, beside.waits)];
    if beside.waits < beside.full {
        slowed.reverse();
    }
    let (mut left, mut saved) = (moved, 0.0);
    for (seconds, share) in [(chain - full - waits, 0.0)].into_iter().chain(slowed) {
        let both = seconds.min(left);
        left -= both;
        saved += (1.0 - share).max(0.0) * both;
    }
    chain + moved - saved
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: FlowRules = FlowRules {
        depth: 2,
        gathers_beside: true,
        reduces_beside: true,
        copies_beside: true,
        beside: NOTHING,
    };
    const NOTHING: Beside = Beside { full: 0.0, waits: 0.0 };

    fn units(count: usize, unit: UnitFlow) -> Vec<UnitFlow> {
        vec![unit; count]
    }

    #[test]
    fn a_pass_that_moves_nothing_is_its_chains() {
        let end = end(&units(5, UnitFlow { chain: 2.0, ..UnitFlow::default() }), RULES);
        assert_eq!(end, FlowEnd { computed: 10.0, ended: 10.0, lead: 0.0 });
    }

    #[test]
    fn slow_gathers_set_the_pace_behind_the_first_units() {
        // Two units may be there before; the other four are gathered one behind the other from the first one's end.
        let unit = UnitFlow { chain: 1.0, gather: 3.0, ..UnitFlow::default() };
        assert_eq!(end(&units(6, unit), RULES).ended, 1.0 + 4.0 * 3.0 + 1.0);
        // Quick ones hide.
        let unit = UnitFlow { chain: 3.0, gather: 1.0, ..UnitFlow::default() };
        assert_eq!(end(&units(6, unit), RULES).ended, 18.0);
    }

    #[test]
    fn the_first_units_wait_for_what_they_need() {
        // The first gather ends at 1, the second at 2: both are hidden but for the first.
        let unit = UnitFlow { chain: 3.0, gather: 1.0, ..UnitFlow::default() };
        assert_eq!(end(&units(6, unit), RULES).lead, 1.0);
        // Activations come back one behind the other, and set the pace.
        let unit = UnitFlow { chain: 1.0, back: 3.0, ..UnitFlow::default() };
        let end = end(&units(4, unit), RULES);
        assert_eq!(end.ended + end.lead, 4.0 * 3.0 + 1.0);
    }

    #[test]
    fn a_pass_waits_for_its_reductions_and_copies() {
        let unit = UnitFlow { chain: 1.0, reduce: 2.0, ..UnitFlow::default() };
        assert_eq!(end(&units(3, unit), RULES), FlowEnd { computed: 3.0, ended: 7.0, lead: 0.0 });
        let unit = UnitFlow { chain: 1.0, out: 2.0, ..UnitFlow::default() };
        assert_eq!(end(&units(3, unit), RULES).ended, 6.0);
    }

    #[test]
    fn multiprocessors_are_not_shared_for_nothing() {
        let unit = UnitFlow { chain: 1.0, full: 1.0, gather: 1.0, ..UnitFlow::default() };
        let beside = Beside { full: 0.5, waits: 0.0 };
        let rules = FlowRules { beside, ..RULES };
        assert_eq!(end(&units(4, unit), rules).ended, 4.0 + 2.0 * 0.5);
        // Played by hand: 8 s of kernels and 6 s of collectives, all together for 9 s, then 2 s of kernels.
        let busy = |chain, full, waits| Busy { chain, full, waits };
        assert_eq!(together(busy(8.0, 8.0, 0.0), 6.0, beside), 6.0 * 1.5 + 2.0);
        assert_eq!(together(busy(6.0, 6.0, 0.0), 8.0, beside), 6.0 * 1.5 + 2.0);
        assert_eq!(together(busy(8.0, 2.0, 0.0), 6.0, beside), 8.0);
        // All links are taken by both for 2 s: one behind the other.
        let beside = Beside::new(0.0, [1.0, 0.2, 0.0, 0.0], [1.0, 0.8, 0.0, 0.0]);
        assert_eq!(together(busy(8.0, 6.0, 2.0), 7.0, beside), 9.0);
        assert_eq!(together(busy(8.0, 6.0, 2.0), 6.0, beside), 8.0);
    }
}
