//! Which keys a query sees: by positions, so that a rank may hold any part of a sequence.

/// What is visible. All sequences of a batch have the same positions.
#[derive(Clone, Copy, Debug)]
pub struct Mask<'a> {
    /// A query sees no key of a later position.
    pub causal: bool,
    /// A query sees only keys less than this far back.
    pub window: Option<u32>,
    /// Positions of the query tokens of one sequence.
    pub query_positions: &'a [u32],
    /// Positions of the key tokens of one sequence.
    pub key_positions: &'a [u32],
}

/// What a tile of queries sees of a tile of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visible {
    Nothing,
    Some,
    All,
}

impl Mask<'_> {
    /// Whether a query sees a key `distance` positions back.
    #[inline(always)]
    pub fn sees(&self, distance: i32) -> bool {
        (!self.causal || distance >= 0) && distance < self.reach()
    }

    /// Distance from which on keys are too far back.
    #[inline(always)]
    pub fn reach(&self) -> i32 {
        self.window.and_then(|window| i32::try_from(window).ok()).unwrap_or(i32::MAX)
    }

    /// What queries of these positions see of keys of those; by the extremes of both.
    pub fn between(&self, queries: &[u32], keys: &[u32]) -> Visible {
        let (nearest_query, farthest_query) = extremes(queries);
        let (nearest_key, farthest_key) = extremes(keys);
        let (least, most) = (nearest_query - farthest_key, farthest_query - nearest_key);
        if (self.causal && most < 0) || least >= self.reach() {
            Visible::Nothing
        } else if self.sees(least) && self.sees(most) {
            Visible::All
        } else {
            Visible::Some
        }
    }
}

/// Least and greatest position.
fn extremes(positions: &[u32]) -> (i32, i32) {
    let signed = positions.iter().map(|&position| position as i32);
    signed.fold((i32::MAX, i32::MIN), |(least, most), position| (least.min(position), most.max(position)))
}
