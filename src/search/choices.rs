//! What a pipeline rank may choose: which of its blocks recompute what, and what it keeps on the host; and sets of such
//! choices.

use crate::profile::capabilities::{OffloadGrain, Supports};
use crate::profile::choices::OffloadCategory;
use crate::search::modes::{Modes, Recomputed};

/// Fractions of each category that are tried on the host.
pub const FRACTIONS: [f64; 3] = [0.0, 0.5, 1.0];

/// Fractions on the host, in the order of [`OffloadCategory::ALL`].
pub type Hosted = [f64; OffloadCategory::ALL.len()];

/// Nothing on the host.
pub const NOTHING: Hosted = [0.0; OffloadCategory::ALL.len()];

/// What a rank does at its best.
#[derive(Clone, Debug, PartialEq)]
pub struct RankChoice {
    pub modes: Modes,
    pub hosted: Hosted,
    /// When its step ends at the earliest, in seconds.
    pub seconds: f64,
    /// When the step ends at the earliest under any choice that fits.
    pub lower: f64,
}

/// Choices of a rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChoiceRange {
    pub hosted: Hosted,
    /// The fewest and the most blocks that recompute wholly.
    pub full: (u32, u32),
    /// The fewest and the most that recompute at all.
    pub recomputed: (u32, u32),
    /// None of them ends its step before so many seconds.
    pub lower: f64,
}

impl ChoiceRange {
    /// The fewest counts.
    pub const fn fewest(&self) -> Recomputed {
        Recomputed { full: self.full.0, selective: self.recomputed.0 - self.full.0 }
    }

    /// The most counts.
    pub const fn most(&self) -> Recomputed {
        Recomputed { full: self.full.1, selective: self.recomputed.1.saturating_sub(self.full.1) }
    }

    /// The choice of the fewest counts.
    #[must_use]
    pub const fn fewest_alone(mut self) -> Self {
        self.full.1 = self.full.0;
        self.recomputed.1 = self.recomputed.0;
        self
    }

    /// Everything but the choice of the fewest counts.
    pub fn others(&self) -> Vec<Self> {
        let (full, all) = (self.full, self.recomputed);
        let mut list = Vec::new();
        if all.0 < all.1 {
            list.push(Self { recomputed: (all.0 + 1, all.1), ..*self });
        }
        // With as few at all, more of them wholly.
        let most = full.1.min(all.0);
        if full.0 < most {
            list.push(Self { full: (full.0 + 1, most), recomputed: (all.0, all.0), ..*self });
        }
        list
    }

    /// Both halves of it, which is not single.
    pub fn halves(&self) -> [Self; 2] {
        let cut = |(low, high): (u32, u32)| {
            let middle = low + (high - low) / 2;
            [(low, middle), (middle + 1, high)]
        };
        if self.full.0 < self.full.1 {
            return cut(self.full).map(|full| {
                let recomputed = (self.recomputed.0.max(full.0), self.recomputed.1);
                Self { full, recomputed, ..*self }
            });
        }
        cut(self.recomputed).map(|recomputed| Self { recomputed, ..*self })
    }

    /// Whether it is one choice.
    pub const fn is_single(&self) -> bool {
        self.full.0 == self.full.1 && self.recomputed.0 == self.recomputed.1
    }
}

/// Fractions on the host, of each category one for all stages or one a stage.
type Fractions = Vec<(OffloadCategory, Vec<f64>)>;

/// What may be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// Checkpoint modes are free; otherwise those of the strategy stand.
    pub recomputes: bool,
    /// What is on the host in any case.
    fixed: Option<Fractions>,
    /// What may be there otherwise, nothing first.
    free: Vec<Hosted>,
    /// Whatever memory it takes.
    pub is_boundless: bool,
}

impl Options {
    /// Whatever is not fixed, of what the engine can keep on the host.
    pub fn new(fixes_checkpoint: bool, fixed: Option<&Fractions>, supports: &Supports) -> Self {
        Self {
            recomputes: !fixes_checkpoint,
            fixed: fixed.cloned(),
            free: splits(None, supports),
            is_boundless: false,
        }
    }

    /// One choice for all ranks: checkpoint modes that are given, and `hosted` on the host.
    pub fn one(hosted: Hosted) -> Self {
        Self { recomputes: false, fixed: None, free: vec![hosted], is_boundless: false }
    }

    /// The same as if memory had no end.
    #[must_use]
    pub fn boundless(self) -> Self {
        Self { is_boundless: true, ..self }
    }

    /// The same with the checkpoint modes of the strategy.
    pub fn with_given_modes(&self) -> Self {
        Self { recomputes: false, ..self.clone() }
    }

    /// The same without parameters and activations on the host, where that is free.
    pub fn without_copies(&self) -> Self {
        let mut quiet = self.clone();
        quiet.free.retain(|hosted| {
            let on_host = |category| hosted[category as usize] > 0.0;
            !on_host(OffloadCategory::Parameters) && !on_host(OffloadCategory::Activations)
        });
        quiet
    }

    /// What pipeline rank `stage` may have on the host under ZeRO stage `zero`, as `supports` offers it or as it is
    /// fixed.
    pub fn hosted(&self, stage: usize, zero: u8, supports: &Supports) -> Vec<Hosted> {
        let allows = |hosted: &&Hosted| is_offered(hosted, zero, supports);
        let Some(fixed) = &self.fixed else { return self.free.iter().filter(allows).copied().collect() };
        let mut hosted = NOTHING;
        for (category, fractions) in fixed {
            let own = if fractions.len() == 1 { fractions.first() } else { fractions.get(stage) };
            hosted[*category as usize] = own.copied().unwrap_or(0.0);
        }
        vec![hosted]
    }
}

/// All splits between device and host that a rank may have: one of the `fixed` fractions of each category, or else one
/// of those that are tried of what an engine `supports`. Of these, nothing on the host stands first.
pub fn splits(fixed: Option<&[(OffloadCategory, Vec<f64>)]>, supports: &Supports) -> Vec<Hosted> {
    let fractions = |category| -> Vec<f64> {
        let Some(fixed) = fixed else { return tried(category, supports) };
        let own = fixed.iter().find(|(of, fractions)| *of == category && !fractions.is_empty());
        own.map_or_else(|| vec![0.0], |(_, fractions)| fractions.clone())
    };
    let mut list = vec![NOTHING];
    for (place, &category) in OffloadCategory::ALL.iter().enumerate() {
        let fractions = fractions(category);
        list.iter_mut().for_each(|hosted| hosted[place] = fractions[0]);
        let others = list.iter().flat_map(|known| {
            fractions[1..].iter().map(|&fraction| {
                let mut hosted = *known;
                hosted[place] = fraction;
                hosted
            })
        });
        let others: Vec<Hosted> = others.collect();
        list.extend(others);
    }
    if fixed.is_none() && *supports.offload_together {
        list.retain(|hosted| {
            let all = supports.offloads().map(|category| hosted[category as usize] > 0.0);
            all.reduce(|one, other| one && other) == Some(true) || *hosted == NOTHING
        });
    }
    list
}

/// The fractions of `category` that are tried on the host.
fn tried(category: OffloadCategory, supports: &Supports) -> Vec<f64> {
    match supports.offload.iter().find(|offer| offer.category == category) {
        None => vec![0.0],
        Some(offer) if offer.grain == OffloadGrain::Whole => vec![0.0, 1.0],
        Some(_) => FRACTIONS.to_vec(),
    }
}

/// Whether `hosted` may be on the host under ZeRO stage `zero`.
pub fn is_offered(hosted: &Hosted, zero: u8, supports: &Supports) -> bool {
    OffloadCategory::ALL.iter().all(|&category| {
        let fraction = hosted[category as usize];
        let is_whole = fraction == 1.0;
        fraction == 0.0 || supports.offers(category, zero).is_some_and(|offer| is_whole || offer.splits(zero))
    })
}

/// `hosted` with activations on the device.
pub const fn without_activations(mut hosted: Hosted) -> Hosted {
    hosted[OffloadCategory::Activations as usize] = 0.0;
    hosted
}
