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

use crate::execute::element::{Element, Real};
use crate::execute::pool::Pool;

#[cfg(test)]
mod tests;

/// Experts of a layer, at most.
pub const MAX_EXPERTS: usize = 1024;
/// Experts of a token, at most.
pub const MAX_TOP_K: usize = 32;

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

/// Whether rows are multiplied by their weights on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighting {
    None,
    Weights,
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

/// What is known of each slot for the router's gradient: a number, namely the product of the gradient that reaches an
/// expert's output row and that row itself. A row and its gradient may as well be taken before the expert's last
/// projection ("activated"): the product is the same.
#[derive(Clone, Copy, Debug)]
pub enum SlotProducts<'a, T: Element> {
    /// [experts·slots] products.
    Numbers(&'a [T::Wide]),
    /// Behind the [slots, width] rows of each expert.
    Carried { slots: usize, width: usize, data: &'a [T] },
    /// [experts·slots, width] rows and their gradients.
    Rows { rows: &'a [T], gradients: &'a [T], width: usize },
}

/// One expert that a token is sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Choice<R> {
    pub expert: usize,
    pub weight: R,
}

/// Choices of one token, in order.
#[derive(Clone, Copy, Debug)]
pub struct Choices<R> {
    choices: [Choice<R>; MAX_TOP_K],
    count: usize,
}

impl<R: Real> Choices<R> {
    pub fn as_slice(&self) -> &[Choice<R>] {
        &self.choices[..self.count]
    }
}

impl Router {
    /// Choices of a token from its row of assigned probabilities.
    pub fn choices<R: Real>(&self, row: &[R]) -> Choices<R> {
        let mut found = Choices { choices: [Choice::default(); MAX_TOP_K], count: 0 };
        for (expert, &marked) in row.iter().enumerate().filter(|(_, marked)| is_chosen(**marked)) {
            let choice = Choice { expert, weight: -marked };
            let places = &mut found.choices[..=found.count];
            let place = places[..found.count].iter().take_while(|held| held.weight >= choice.weight).count();
            places[place..].rotate_right(1);
            places[place] = choice;
            found.count += 1;
        }
        if self.renormalise {
            let sum: R = found.as_slice().iter().map(|choice| choice.weight).sum();
            found.choices.iter_mut().for_each(|choice| choice.weight = choice.weight / sum);
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

/// Rows of `tokens` [tokens, width] into `slots` [experts·slots, width]; empty slots become zero. Weighted, this takes
/// the gradient of [`from_slots`]' result to the experts' outputs.
pub fn to_slots<T: Element>(
    router: &Router,
    routing: &[T::Wide],
    tokens: &[T],
    slots: &mut [T],
    (weighting, carried): (Weighting, Carried),
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
        for (turn, slots) in experts.chunks_exact_mut(block).enumerate() {
            let (slots, weights) = slots.split_at_mut(router.slots * width);
            let mut weights = weights.iter_mut();
            let expert = first + turn;
            let rows = routing.chunks_exact(router.experts).zip(tokens.chunks_exact(width));
            let mut chosen = rows.filter(|(row, _)| is_chosen(row[expert]));
            for slot in slots.chunks_exact_mut(width) {
                let chosen = chosen.next();
                let weight = chosen.map_or(T::Wide::ZERO, |(row, _)| {
                    let choices = router.choices(row);
                    let choice = choices.as_slice().iter().find(|choice| choice.expert == expert);
                    choice.map_or(T::Wide::ZERO, |choice| choice.weight)
                });
                if let Some(place) = weights.next() {
                    *place = T::narrow(weight);
                }
                match chosen {
                    Some((_, token)) if weighting == Weighting::None => slot.copy_from_slice(token),
                    Some((_, token)) => {
                        let places = slot.iter_mut().zip(token);
                        places.for_each(|(place, value)| *place = T::narrow(value.wide() * weight));
                    }
                    None => slot.fill(T::default()),
                }
            }
        }
    });
}

/// Rows of `slots` [experts·slots, width] back to `tokens` [tokens, width]: each token's sum over its choices in their
/// order; zero where all of them dropped it. Unweighted, this takes the gradient of [`to_slots`]' result to its tokens.
pub fn from_slots<T: Element>(
    router: &Router,
    routing: &[T::Wide],
    slots: &[T],
    tokens: &mut [T],
    (weighting, carried): (Weighting, Carried),
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
            let choices = router.choices(row);
            let sources = Sources::new(router, choices.as_slice(), &mut taken, (slots, block), width);
            for (column, place) in token.iter_mut().enumerate() {
                *place = T::narrow(sources.sum(column, weighting));
            }
        }
    });
}

/// Slot rows of one token's choices that were not dropped.
struct Sources<'a, T: Element> {
    rows: [(&'a [T], T::Wide); MAX_TOP_K],
    count: usize,
}

impl<'a, T: Element> Sources<'a, T> {
    fn new(
        router: &Router,
        choices: &[Choice<T::Wide>],
        taken: &mut [usize; MAX_EXPERTS],
        (slots, block): (&'a [T], usize),
        width: usize,
    ) -> Self {
        let mut sources = Self { rows: [(&[], T::Wide::ZERO); MAX_TOP_K], count: 0 };
        for choice in choices {
            let slot = taken[choice.expert];
            taken[choice.expert] += 1;
            if slot < router.slots {
                let row = choice.expert * block + slot * width;
                sources.rows[sources.count] = (&slots[row..][..width], choice.weight);
                sources.count += 1;
            }
        }
        sources
    }

    fn sum(&self, column: usize, weighting: Weighting) -> T::Wide {
        let values = self.rows[..self.count].iter().map(|(row, weight)| match weighting {
            Weighting::None => row[column].wide(),
            Weighting::Weights => row[column].wide() * *weight,
        });
        values.sum()
    }
}

/// Gradient of the logits [tokens, experts]. `weighting` says whether the gradients in `products` were multiplied by
/// the weights already (as weighted [`to_slots`] does) or are those of the weighted sum itself.
///
/// With a = weight·d(loss)/d(weight), 0 where unchosen or dropped: d(loss)/d(logit) = a − q·Σa, where q is the weight
/// (0 for unchosen experts) if weights are renormalised, and the probability of any expert if not.
pub fn router_gradient<T: Element>(
    router: &Router,
    routing: &[T::Wide],
    products: SlotProducts<'_, T>,
    weighting: Weighting,
    gradient: &mut [T::Wide],
    pool: Pool<'_>,
) {
    router.check(routing);
    assert_eq!(gradient.len(), routing.len(), "elements of the routing gradient");
    let rows = router.experts * router.slots;
    match products {
        SlotProducts::Numbers(numbers) => assert_eq!(numbers.len(), rows, "products of the slots"),
        SlotProducts::Carried { width, data, .. } => {
            assert_eq!(data.len(), rows * (width + 1), "elements of the slots");
        }
        SlotProducts::Rows { rows: data, gradients, width } => {
            assert_eq!(data.len(), rows * width, "elements of the slots");
            assert_eq!(gradients.len(), data.len(), "elements of the slots' gradients");
        }
    }
    pool.rows(gradient, router.experts, |first, gradient| {
        let mut taken = router.taken(routing, first);
        let rows = routing.chunks_exact(router.experts).skip(first);
        for (gradient, row) in gradient.chunks_exact_mut(router.experts).zip(rows) {
            let choices = router.choices(row);
            gradient.fill(T::Wide::ZERO);
            let mut sum = T::Wide::ZERO;
            for choice in choices.as_slice() {
                let slot = taken[choice.expert];
                taken[choice.expert] += 1;
                if slot < router.slots {
                    let product = products.of(choice.expert * router.slots + slot);
                    let factor = if weighting == Weighting::None { choice.weight } else { T::Wide::ONE };
                    gradient[choice.expert] = product * factor;
                    sum += product * factor;
                }
            }
            if router.renormalise {
                for choice in choices.as_slice() {
                    gradient[choice.expert] -= choice.weight * sum;
                }
            } else {
                gradient.iter_mut().zip(row).for_each(|(gradient, marked)| *gradient -= marked.abs() * sum);
            }
        }
    });
}

impl<T: Element> SlotProducts<'_, T> {
    fn of(&self, slot: usize) -> T::Wide {
        match self {
            Self::Numbers(numbers) => numbers[slot],
            Self::Carried { slots, width, data } => {
                let (expert, slot) = (slot / slots, slot % slots);
                data[expert * slots * (width + 1) + slots * width + slot].wide()
            }
            Self::Rows { rows, gradients, width } => {
                let (rows, gradients) =
                    (&rows[slot * width..][..*width], &gradients[slot * width..][..*width]);
                rows.iter().zip(gradients).map(|(row, gradient)| row.wide() * gradient.wide()).sum()
            }
        }
    }
}
