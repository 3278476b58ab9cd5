//! Routing of a mixture of experts: which experts a token is sent to, by which weights, into which slots.
//!
//! One matrix `routing` [tokens, experts] says it all and is all that the backward needs. It comes as the router's
//! logits; [`assign`] turns it in place into the probabilities of all experts, those of the chosen ones with a minus
//! sign (−0 too is chosen). Order, weights and slots follow from it:
//! - a token's choices are its `top_k` most probable experts, the most probable first, of equals the lower expert;
//! - their weights are their probabilities, divided by their sum where `renormalise` says so (Mixtral; the same as a
//!   softmax over the chosen logits);
//! - each expert has `slots` rows for this matrix's tokens, taken in the order of the tokens; a token that comes when
//!   all are taken is dropped by that expert.

use smallvec::SmallVec;

use crate::execute::element::{Element, Real};
use crate::execute::pool::Pool;

#[cfg(test)]
mod tests;

/// Experts of a layer, at most.
pub const MAX_EXPERTS: usize = 1024;
/// Experts of a token, at most.
pub const MAX_TOP_K: usize = 32;

/// One for each expert of a token.
type OfToken<T> = SmallVec<[T; MAX_TOP_K]>;

/// How tokens are sent to experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    pub experts: usize,
    /// Experts a token is sent to.
    pub top_k: usize,
    /// The weights of a token sum to one.
    pub renormalise: bool,
    /// Rows that each expert has for the tokens of one routing matrix.
    pub slots: usize,
}

/// What stands behind the rows of each expert's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    Nothing,
    /// The weight of each slot, or its gradient.
    Weights,
}

impl Carried {
    /// Elements of the block of one expert.
    const fn block(self, slots: usize, width: usize) -> usize {
        slots * (width + matches!(self, Self::Weights) as usize)
    }
}

/// One expert that a token is sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Choice<R> {
    pub expert: usize,
    pub weight: R,
}

impl Router {
    /// Choices of a token, in order, from its row of assigned probabilities.
    pub fn choices<R: Real>(&self, row: &[R]) -> OfToken<Choice<R>> {
        let mut found = OfToken::<Choice<R>>::new();
        for (expert, &marked) in row.iter().enumerate().filter(|(_, marked)| is_chosen(**marked)) {
            let choice = Choice { expert, weight: -marked };
            let place = found.iter().take_while(|held| held.weight >= choice.weight).count();
            found.insert(place, choice);
        }
        if self.renormalise {
            let sum: R = found.iter().map(|choice| choice.weight).sum();
            found.iter_mut().for_each(|choice| choice.weight = choice.weight / sum);
        }
        found
    }

    fn check<R: Real>(&self, routing: &[R]) -> usize {
        assert!(self.top_k <= self.experts.min(MAX_TOP_K), "{} of {} experts", self.top_k, self.experts);
        assert!(self.experts <= MAX_EXPERTS, "{} experts: at most {MAX_EXPERTS}", self.experts);
        assert_eq!(routing.len() % self.experts, 0, "elements of the routing matrix");
        routing.len() / self.experts
    }

    /// Tokens before `token` that each expert was chosen by.
    fn taken<R: Real>(&self, routing: &[R], token: usize) -> [usize; MAX_EXPERTS] {
        let mut taken = [0; MAX_EXPERTS];
        for row in routing.chunks_exact(self.experts).take(token) {
            taken.iter_mut().zip(row).for_each(|(taken, &marked)| *taken += usize::from(is_chosen(marked)));
        }
        taken
    }

    /// The choices of the next token that were not dropped, with their slots; `taken` are those of the tokens before.
    fn kept<R: Real>(&self, row: &[R], taken: &mut [usize; MAX_EXPERTS]) -> OfToken<(Choice<R>, usize)> {
        let placed = self.choices(row).into_iter().map(|choice| {
            taken[choice.expert] += 1;
            (choice, taken[choice.expert] - 1)
        });
        placed.filter(|(_, slot)| *slot < self.slots).collect()
    }
}

fn is_chosen<R: Real>(marked: R) -> bool {
    marked.to_f64().is_sign_negative()
}

/// Logits become probabilities, those of the chosen experts with a minus sign.
pub fn assign<R: Real>(router: &Router, routing: &mut [R], pool: Pool<'_>) {
    router.check(routing);
    pool.rows(routing, router.experts, |_, rows| {
        for row in rows.chunks_exact_mut(router.experts) {
            let greatest = row.iter().fold(R::NEG_INFINITY, |greatest, &logit| greatest.max(logit));
            row.iter_mut().for_each(|logit| *logit = (*logit - greatest).exp());
            let sum: R = row.iter().copied().sum();
            // Not a number: no sign but the mark's.
            row.iter_mut().for_each(|value| *value = (*value / sum).abs());
            for _ in 0..router.top_k {
                let rest = row.iter().enumerate().filter(|(_, value)| !is_chosen(**value));
                let best = rest.reduce(|best, other| if other.1 > best.1 { other } else { best });
                if let Some((best, &value)) = best {
                    row[best] = -value;
                }
            }
        }
    });
}

/// Rows of `tokens` [tokens, width] into `slots` [experts·slots, width]; empty slots become zero. This takes the gradient
/// of [`from_slots`]' result to the experts' outputs, too.
pub fn to_slots<T: Element>(
    router: &Router,
    routing: &[T::Wide],
    tokens: &[T],
    slots: &mut [T],
    carried: Carried,
    pool: Pool<'_>,
) {
    let count = router.check(routing);
    let width = tokens.len() / count.max(1);
    let block = carried.block(router.slots, width);
    assert_eq!(slots.len(), router.experts * block, "elements of the slots");
    assert_eq!(tokens.len(), count * width, "elements of the tokens");
    if slots.is_empty() {
        return;
    }
    pool.rows(slots, block, |first, experts| {
        for (expert, slots) in (first..).zip(experts.chunks_exact_mut(block)) {
            let (slots, weights) = slots.split_at_mut(router.slots * width);
            let mut weights = weights.iter_mut();
            let rows = routing.chunks_exact(router.experts).zip(tokens.chunks_exact(width));
            let mut chosen = rows.filter(|(row, _)| is_chosen(row[expert]));
            for slot in slots.chunks_exact_mut(width) {
                let chosen = chosen.next();
                match chosen {
                    Some((_, token)) => slot.copy_from_slice(token),
                    None => slot.fill(T::default()),
                }
                if let Some(place) = weights.next() {
                    let choices = chosen.map(|(row, _)| router.choices(row)).unwrap_or_default();
                    let choice = choices.iter().find(|choice| choice.expert == expert);
                    *place = T::narrow(choice.map_or(T::Wide::ZERO, |choice| choice.weight));
                }
            }
        }
    });
}

/// Rows of `slots` [experts·slots, width] back to `tokens` [tokens, width]: each token's sum over its choices in their
/// order; zero where all of them dropped it. This takes the gradient of [`to_slots`]' result to its tokens, too.
pub fn from_slots<T: Element>(
    router: &Router,
    routing: &[T::Wide],
    slots: &[T],
    tokens: &mut [T],
    carried: Carried,
    pool: Pool<'_>,
) {
    let count = router.check(routing);
    let width = tokens.len() / count.max(1);
    assert_eq!(tokens.len(), count * width, "elements of the tokens");
    let block = carried.block(router.slots, width);
    assert_eq!(slots.len(), router.experts * block, "elements of the slots");
    if tokens.is_empty() {
        return;
    }
    pool.rows(tokens, width, |first, tokens| {
        let mut taken = router.taken(routing, first);
        let rows = routing.chunks_exact(router.experts).skip(first);
        for (token, row) in tokens.chunks_exact_mut(width).zip(rows) {
            let kept = router.kept(row, &mut taken).into_iter();
            let of = |(choice, slot): (Choice<T::Wide>, usize)| choice.expert * block + slot * width;
            let rows: OfToken<&[T]> = kept.map(|kept| &slots[of(kept)..][..width]).collect();
            for (column, place) in token.iter_mut().enumerate() {
                *place = T::narrow(rows.iter().map(|row| row[column].wide()).sum());
            }
        }
    });
}

/// Gradient of the logits [tokens, experts]. `slots` [experts·slots, width] carry the gradient of each slot's weight: the
/// product of its expert's output and the gradient that reaches it.
///
/// With a = weight·d(loss)/d(weight), 0 where unchosen or dropped: d(loss)/d(logit) = a − q·Σa, where q is the weight
/// (0 for unchosen experts) if weights are renormalised, and the probability of any expert if not.
pub fn router_gradient<T: Element>(
    router: &Router,
    routing: &[T::Wide],
    (slots, width): (&[T], usize),
    gradient: &mut [T::Wide],
    pool: Pool<'_>,
) {
    router.check(routing);
    let block = Carried::Weights.block(router.slots, width);
    assert_eq!(gradient.len(), routing.len(), "elements of the routing gradient");
    assert_eq!(slots.len(), router.experts * block, "elements of the slots");
    pool.rows(gradient, router.experts, |first, gradient| {
        let mut taken = router.taken(routing, first);
        let rows = routing.chunks_exact(router.experts).skip(first);
        for (gradient, row) in gradient.chunks_exact_mut(router.experts).zip(rows) {
            gradient.fill(T::Wide::ZERO);
            let mut sum = T::Wide::ZERO;
            for (choice, slot) in router.kept(row, &mut taken) {
                let of_weight = slots[choice.expert * block + router.slots * width + slot].wide();
                gradient[choice.expert] = of_weight * choice.weight;
                sum += of_weight * choice.weight;
            }
            if router.renormalise {
                for choice in router.choices(row) {
                    gradient[choice.expert] -= choice.weight * sum;
                }
            } else {
                gradient.iter_mut().zip(row).for_each(|(gradient, marked)| *gradient -= marked.abs() * sum);
            }
        }
    });
}
