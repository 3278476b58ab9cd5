//! What runs a configuration: the engine that it is of, or that it hands its settings to, with its switches set.

use std::fmt;

use super::meaning::Meaning;
use super::targets::Target;
use crate::profile::EngineProfile;
use crate::profile::capabilities::{OffloadGrain, OffloadOffer};
use crate::profile::engines::{embedded, engine};
use crate::strategy::{CheckpointMode, LossMode, OffloadCategory};

/// What runs a configuration.
#[derive(Clone, Copy)]
pub enum Runner {
    /// An engine of which a version is known.
    Engine(Target),
    /// The engine that this profile is of, which no version's rules narrow.
    Profile(&'static str),
}

/// Which strategies of an engine are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those that plans are chosen from and this version can say.
    Plans,
    /// Those that its files can say.
    Files,
}

impl Runner {
    /// The name of the profile that predicts it.
    pub fn profile(self) -> &'static str {
        match self {
            Self::Engine(target) => target.dialect.profile(),
            Self::Profile(name) => name,
        }
    }

    /// What it is called.
    pub fn text(self) -> String {
        match self {
            Self::Engine(target) => target.text(),
            Self::Profile(name) => name.to_owned(),
        }
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl From<Target> for Runner {
    fn from(target: Target) -> Self {
        Self::Engine(target)
    }
}

/// The profile that predicts what `runner` runs: its engine's, with its switches set as `meaning` has them.
pub fn profile_of(runner: impl Into<Runner>, meaning: &Meaning, reach: Reach) -> EngineProfile {
    let runner = runner.into();
    let profile = engine(runner.profile()).unwrap_or_else(|| embedded());
    profile_like(profile, runner, meaning, reach)
}

/// The same, of an engine that reads the files of `runner` too.
pub fn profile_like(
    engine: &EngineProfile,
    runner: impl Into<Runner>,
    meaning: &Meaning,
    reach: Reach,
) -> EngineProfile {
    let mut profile = engine.clone();
    if let Runner::Engine(target) = runner.into() {
        match reach {
            Reach::Plans => target.dialect.narrow(&mut profile.supports),
            Reach::Files => target.dialect.widen(&mut profile.supports),
        }
    }
    if meaning.is_compiled {
        profile.fuse();
        profile.drop_what_compilers_drop();
    }
    if meaning.compiles_loss {
        profile.compile_loss();
    }
    if let Some(recomputes) = &meaning.recomputes {
        profile.recompute_modules(recomputes.core, &recomputes.modules);
    }
    if meaning.is_asynchronous {
        profile.make_tensor_parallel_asynchronous();
    }
    if meaning.is_in_one_type {
        profile.keep_no_master_weights();
    }
    if meaning.moves_inputs && reach == Reach::Files {
        let offers = &mut profile.supports.offload.value;
        offers.retain(|offer| offer.category != OffloadCategory::Activations);
        offers.push(OffloadOffer {
            category: OffloadCategory::Activations,
            grain: OffloadGrain::Whole,
            from_zero: 0,
            split_from_zero: 0,
            serial: false,
            with_checkpoint: Some(CheckpointMode::Full),
        });
        profile.supports.offload_together.value = false;
    }
    let losses = &mut profile.supports.loss.value;
    if meaning.brings_chunked_loss && !losses.contains(&LossMode::Chunked) {
        losses.push(LossMode::Chunked);
    }
    profile
}
