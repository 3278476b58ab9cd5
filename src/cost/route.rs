//! When a pipeline rank's step ends at the earliest: what it has to do, and what stands before and behind that.

/// What one rank has to do in a step, each part as if it were alone, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// All passes of all micro-batches, and of one of them: forward, and all of its backward.
    pub passes: f64,
    pub forward: f64,
    pub backward: f64,
    /// What of a backward needs not wait for the gradient that comes.
    pub early: f64,
    /// How much earlier than their ends the first chunk's forward and backward have written what they send.
    pub slack: [f64; 2],
    /// How much longer its forward and its backward take if what they need moves only when the call before is done.
    pub leads: [f64; 2],
    /// Reductions behind the last pass.
    pub reductions: f64,
    /// The passes' chains alone, and all collectives over parameters and gradients beside them.
    pub together: f64,
    pub copies: f64,
    /// How much later the first forward ends because its parameters are still on their way.
    pub lead: f64,
    /// What follows when all of these are done.
    pub step: f64,
}

/// What stands before and behind a rank's passes at the least, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Route {
    /// Until its first input is there.
    pub there: f64,
    /// From its last backward to the end of the first rank's, and the optimizer step there.
    pub back: f64,
    pub first_step: f64,
    /// Through the ranks behind it and back: from a micro-batch's forward to its gradient.
    pub beyond: f64,
    /// Micro-batches, and how many of them a rank may run forward before the first gradient comes; none where that
    /// says nothing.
    pub micro: f64,
    pub ahead: Option<f64>,
}

/// By this share of its copies a rank that keeps something on the host ends later than its bound, about: copies hold
/// up what waits for them, and share memory and links with the rest.
pub const EXPOSED_COPIES: f64 = 0.1;

impl Parts {
    /// When the step ends at the earliest, in seconds, for this rank on `route`.
    ///
    /// Under 1F1B with `ahead` micro-batches in flight, the first gradient comes behind the first forward and the way
    /// beyond, before which at most `ahead` forwards ran. With more micro-batches the last forward stands behind the
    /// first backward, and (micro - ahead) forwards and backwards between both; the last gradient comes as long behind
    /// it.
    pub fn end(&self, route: &Route) -> f64 {
        let Self { passes, forward, backward, early, slack, leads, reductions, together, copies, lead, step } =
            *self;
        let [forward_slack, backward_slack] = slack;
        let [forward_lead, backward_lead] = leads;
        let Route { there, back, first_step, beyond, micro, ahead } = *route;
        let mut last = there.max(lead) + passes;
        if let Some(ahead) = ahead.filter(|&ahead| ahead <= micro) {
            let beyond = beyond - forward_slack - early;
            let first_gradient = there + forward + beyond;
            // The first backward waits for that, and for nothing else.
            let round = forward + forward_lead + backward + backward_lead;
            let after = micro * round - ahead * (forward + forward_lead) - backward_lead;
            last = last.max(first_gradient + after);
            if ahead < micro {
                let between = (micro - ahead) * round - backward_lead;
                last = last.max(first_gradient + between + beyond + backward);
            }
        }
        let own = (last + reductions).max(together).max(copies) + step;
        own.max(last - backward_slack + back + first_step)
    }
}
