//! The engines and versions that plans are exported to.

use super::dialect::Dialect;
use super::engines::{accelerate, colossalai, deepspeed, maxtext, megatron, nanotron, torchtitan};
use crate::spelling::nearest;

/// What `--to` names.
#[derive(Clone, Copy)]
pub struct Target {
    pub dialect: &'static dyn Dialect,
}

static DIALECTS: &[&dyn Dialect] = &[
    &torchtitan::Release,
    &torchtitan::V0_3,
    &torchtitan::MAIN,
    &megatron::CommandLine,
    &megatron::Recipe,
    &deepspeed::Config,
    &accelerate::Config,
    &nanotron::MAIN,
    &nanotron::PUBLISHED,
    &maxtext::CommandLine,
    &colossalai::Script,
    &colossalai::OpenSora,
];

/// All targets; of an engine's versions the first is taken where none is named.
pub fn targets() -> impl Iterator<Item = Target> {
    DIALECTS.iter().map(|dialect| Target { dialect: *dialect })
}

impl Target {
    /// `ENGINE@VERSION`.
    pub fn text(self) -> String {
        format!("{}@{}", self.dialect.name(), self.dialect.version())
    }

    /// The target that `text` names: an engine, or an engine, `@` and a version.
    ///
    /// # Errors
    /// A rule to read on behind the text, and the targets that are nearest.
    pub fn parse(text: &str) -> Result<Self, (String, Vec<String>)> {
        let (engine, version) =
            text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)));
        let known: Vec<Self> = targets().filter(|target| target.dialect.name() == engine).collect();
        let Some(first) = known.first() else {
            let mut names: Vec<&str> = targets().map(|target| target.dialect.name()).collect();
            names.dedup();
            let rule = format!("no such engine to export to; the known ones are {}", names.join(", "));
            return Err((rule, nearest(engine, names)));
        };
        let Some(version) = version else { return Ok(*first) };
        let bare = |text: &str| text.trim_start_matches('v').to_owned();
        let chosen = known.iter().find(|target| bare(target.dialect.version()) == bare(version));
        chosen.copied().ok_or_else(|| {
            let versions: Vec<String> = known.iter().map(|target| target.text()).collect();
            (format!("no such version; known are {}", versions.join(", ")), versions)
        })
    }
}
