//! What the closed forms need of a lowered unit: how high each pass stands in memory, what it leaves, how long it
//! takes at the least.

use crate::cost::price::{LEVELS, Links, Price, Pricing, Resource};
use crate::lower::{LoweredUnit, Step, Stream, ValueId};
use crate::units::{Bytes, Seconds};

/// One pass of one unit, relative to the moment it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PassDigest {
    /// Highest bytes before the first weight gradient is written.
    pub before: i64,
    /// Highest bytes from then on, the gradient itself not counted; none without weight gradients.
    pub after: Option<i64>,
    /// Bytes left behind.
    pub net: i64,
    /// Lower bound of its time: its longest chain, nothing competing.
    pub chain: Seconds,
    /// Seconds of kernels that fill the multiprocessors.
    pub full: Seconds,
    /// Seconds in which kernels wait for a collective of the layers, and the shares of links that any of these takes
    /// at the least.
    pub waits: Seconds,
    pub links: Links,
    /// Likewise until what leaves the unit is written, and all that it keeps.
    pub ready: Seconds,
    pub kept: Seconds,
    /// The part of `chain` that needs not wait for what enters the unit: recomputation before a gradient comes.
    pub early: Seconds,
    /// The parts of it that run before parameters are read, and before anything of what the unit keeps is.
    pub without_parameters: Seconds,
    pub without_kept: Seconds,
    /// What its host takes to issue what it runs.
    pub host: Seconds,
}

/// Units of one pass that a host issues: sums over them, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Issued {
    pub host: f64,
    pub chain: f64,
}

impl Issued {
    /// One unit.
    pub fn new(digest: &PassDigest) -> Self {
        Self { host: digest.host.0, chain: digest.chain.0 }
    }
}

impl std::ops::Add for Issued {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { host: self.host + other.host, chain: self.chain + other.chain }
    }
}

impl std::ops::Mul<f64> for Issued {
    type Output = Self;

    fn mul(self, times: f64) -> Self {
        Self { host: times * self.host, chain: times * self.chain }
    }
}

/// The passes of one lowered unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnitDigest {
    pub forward: PassDigest,
    pub backward: PassDigest,
    /// A backward behind which another loss's backward still reads what is kept.
    pub backward_again: PassDigest,
    pub weight: PassDigest,
    /// Memory kept from forward to backward.
    pub kept: i64,
    /// The bytes in it, which go to the host and back where they are offloaded.
    pub copied: Bytes,
    pub input: i64,
    pub output: i64,
    /// The gradient that arrives, and the one that leaves.
    pub output_gradient: i64,
    pub input_gradient: i64,
}

impl UnitDigest {
    /// The digest of `unit` at the prices of `pricing`.
    pub fn new(unit: &LoweredUnit, pricing: &dyn Pricing) -> Self {
        let size = |id: Option<ValueId>| id.map_or(0, |id| held(unit, id));
        let backward = pass(unit, &unit.backward, (unit.output_gradient, unit.input_gradient), pricing);
        Self {
            forward: pass(unit, &unit.forward, (unit.input, unit.output), pricing),
            backward,
            backward_again: stand(unit, &unit.backward, &unit.kept, backward),
            weight: pass(unit, &unit.weight, (None, None), pricing),
            kept: unit.kept.iter().map(|&id| held(unit, id)).sum(),
            copied: unit.kept_bytes(),
            input: size(unit.input),
            output: size(unit.output),
            output_gradient: size(unit.output_gradient),
            input_gradient: size(unit.input_gradient),
        }
    }
}

/// The least that forms of one unit hold, moment by moment: a rank whose units have this digest never holds more than
/// one whose units have any of the `forms`, whichever each of them has. Times are those of the first form.
///
/// A unit holds what its passes left so far and what the pass under way takes beside that. Of each such sum the least
/// is kept here, not of each part.
pub fn leanest(forms: &[UnitDigest]) -> UnitDigest {
    let Some(&first) = forms.first() else { return UnitDigest::default() };
    let least = |bytes: &dyn Fn(&UnitDigest) -> i64| forms.iter().map(bytes).min().unwrap_or_default();
    // What a form leaves after its forward, and after its backward.
    let forward = |form: &UnitDigest| form.forward.net;
    let backward = |form: &UnitDigest| form.forward.net + form.backward.net;
    let pass = |of: &dyn Fn(&UnitDigest) -> PassDigest, there: &dyn Fn(&UnitDigest) -> i64| {
        let stood = least(there);
        let after = forms.iter().map(|form| of(form).after.map(|after| there(form) + after));
        let after = after.collect::<Option<Vec<i64>>>().and_then(|after| after.into_iter().min());
        PassDigest {
            before: least(&|form| there(form) + of(form).before) - stood,
            after: after.map(|after| after - stood),
            net: least(&|form| there(form) + of(form).net) - stood,
            ..of(&first)
        }
    };
    let again = pass(&|form| form.backward_again, &forward);
    UnitDigest {
        forward: pass(&|form| form.forward, &|_| 0),
        backward: pass(&|form| form.backward, &forward),
        // The next backward starts from what the forward left.
        backward_again: PassDigest { net: least(&|form| form.backward_again.net), ..again },
        weight: pass(&|form| form.weight, &backward),
        // On the host it leaves what else there is.
        kept: least(&forward) - least(&|form| form.forward.net - form.kept),
        copied: forms.iter().map(|form| form.copied).min().unwrap_or_default(),
        input: least(&|form| form.input),
        output: least(&|form| form.output),
        output_gradient: least(&|form| form.output_gradient),
        input_gradient: least(&|form| form.input_gradient),
    }
}

/// The memory that value `id` of `unit` takes.
fn held(unit: &LoweredUnit, id: ValueId) -> i64 {
    unit.values[usize::from(id)].bytes.aligned().0 as i64
}

fn pass(
    unit: &LoweredUnit,
    steps: &[Step],
    ends: (Option<ValueId>, Option<ValueId>),
    pricing: &dyn Pricing,
) -> PassDigest {
    let prices: Vec<Price> = steps.iter().map(|step| pricing.price(&step.op, 0)).collect();
    let chained = chain(unit, steps, &prices, ends.1);
    // What of the chain is behind the first of some steps, and what before it.
    let before = |first: Option<usize>| {
        let first = first.unwrap_or(0);
        let is_all = first == 0;
        let behind =
            if is_all { chained.end } else { chain(unit, &steps[first..], &prices[first..], ends.1).end };
        chained.end - behind
    };
    let times = PassDigest {
        chain: chained.end,
        ready: chained.ready,
        kept: chained.kept,
        early: before(first_reading(steps, ends.0.as_slice())),
        // Kernels read parameters, collectives between them do not.
        without_parameters: before(steps.iter().position(|step| step.stream == Stream::Compute)),
        without_kept: before(first_reading(steps, &unit.kept)),
        waits: chained.waits,
        links: chained.links,
        full: prices.iter().filter(|price| fills(price)).map(|price| price.seconds).sum(),
        host: steps.iter().map(|step| pricing.host_time(&step.op)).sum(),
        ..PassDigest::default()
    };
    stand(unit, steps, &[], times)
}

/// `times`, with how high the pass stands in memory if `not_freed` stay.
fn stand(unit: &LoweredUnit, steps: &[Step], not_freed: &[ValueId], times: PassDigest) -> PassDigest {
    let bytes = |id: &ValueId| held(unit, *id);
    let mut digest = PassDigest { before: 0, after: None, net: 0, ..times };
    let mut live = 0;
    for step in steps {
        live += step.allocates.iter().map(bytes).sum::<i64>();
        if step.adds_gradient {
            digest.after.get_or_insert(live);
        }
        match &mut digest.after {
            Some(after) => *after = live.max(*after),
            None => digest.before = live.max(digest.before),
        }
        live -= step.frees.iter().filter(|id| !not_freed.contains(id)).map(bytes).sum::<i64>();
    }
    digest.net = live;
    digest
}

/// Whether nothing else runs on the multiprocessors without slowing this down.
fn fills(price: &Price) -> bool {
    price.demand[Resource::Multiprocessors as usize] >= 1.0
}

/// The first step that reads any of `values`.
fn first_reading(steps: &[Step], values: &[ValueId]) -> Option<usize> {
    steps.iter().position(|step| step.reads.iter().any(|value| values.contains(value)))
}

/// One pass of one unit if nothing competes.
struct Chain {
    /// Of the last compute step, of what leaves, and of all that is kept.
    end: Seconds,
    ready: Seconds,
    kept: Seconds,
    waits: Seconds,
    links: Links,
}

/// Each stream runs its steps in order, reads wait for their writers, collectives for the compute steps issued before
/// them, and nothing competes. Every pass of a unit starts behind the last compute step before it, so the chains of
/// units in a row sum to a lower bound.
fn chain(unit: &LoweredUnit, steps: &[Step], prices: &[Price], leaving: Option<ValueId>) -> Chain {
    // When each value is there, and the links that the collective takes which writes it.
    let mut ready = vec![(0.0_f64, None); unit.values.len()];
    let (mut compute, mut model, mut waits) = (0.0_f64, 0.0_f64, 0.0);
    let mut links = [f64::INFINITY; LEVELS];
    for (step, price) in steps.iter().zip(prices) {
        let read = step.reads.iter().map(|&id| ready[usize::from(id)]);
        let (read, writer) = read.fold((0.0, None), |last, next| if next.0 > last.0 { next } else { last });
        let seconds = price.seconds.0;
        let written = if step.stream == Stream::Compute {
            if let Some(writer) = writer.filter(|_| read > compute) {
                waits += read - compute;
                links = least(links, writer);
            }
            compute = compute.max(read) + seconds;
            (compute, None)
        } else {
            model = model.max(compute).max(read) + seconds;
            (model, Some(price.links()))
        };
        for &id in &step.writes {
            ready[usize::from(id)] = written;
        }
    }
    let written = leaving.map_or(compute, |id| ready[usize::from(id)].0);
    let kept = unit.kept.iter().map(|&id| ready[usize::from(id)].0).fold(0.0, f64::max);
    if waits == 0.0 {
        links = [0.0; LEVELS];
    }
    let [ready, kept] = [written, kept].map(|moment| Seconds(moment.min(compute)));
    Chain { end: Seconds(compute), ready, kept, waits: Seconds(waits), links }
}

/// The least of both on each level.
pub fn least(one: Links, other: Links) -> Links {
    std::array::from_fn(|level| one[level].min(other[level]))
}
