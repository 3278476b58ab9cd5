//! What blocks recompute, as it is written: one entry for all chunks, or one a chunk.

use std::fmt;

use super::number::blocks;
use super::{Grammar, Parsed, choice, per_chunk, quoted, unknown, words};
use crate::profile::choices::Choice;
use crate::strategy::{Checkpoint, CheckpointEntry, CheckpointMode};

/// Checkpoint modes of all chunks.
pub struct Checkpoints;

impl Grammar for Checkpoints {
    type Value = Vec<CheckpointEntry>;

    fn form() -> String {
        let modes = quoted(CheckpointMode::ALL.iter().map(|mode| mode.name()));
        format!(
            "one entry, or one a chunk joined by `/`, of which `ENTRY@N` is N in a row: {modes}, `full:K` (the first K blocks), or \
             `MODE*COUNT+MODE*COUNT…` from the chunk's first block to its last"
        )
    }

    fn words() -> Vec<(&'static str, &'static str)> {
        words::<CheckpointMode>()
    }

    fn parse(text: &str) -> Parsed<Vec<CheckpointEntry>> {
        per_chunk::parse(text, entry)
    }

    fn print(entries: &Vec<CheckpointEntry>) -> String {
        per_chunk::short(entries)
    }
}

fn entry(text: &str) -> Parsed<CheckpointEntry> {
    if let Some(count) = text.strip_prefix("full:") {
        return Ok(CheckpointEntry::First(blocks(count)?));
    }
    if !text.contains('*') {
        let mode = text.parse().map(CheckpointEntry::Whole);
        return mode.map_err(|legal| unknown(text, legal, ["full:K", "MODE*COUNT+MODE*COUNT"]));
    }
    let run = |run: &str| match run.split_once('*') {
        Some((mode, count)) => Ok((choice(mode)?, blocks(count)?)),
        None => Err(unknown(run, [], ["MODE*COUNT"])),
    };
    Ok(CheckpointEntry::Runs(text.split('+').map(run).collect::<Parsed<_>>()?))
}

impl fmt::Display for CheckpointEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(mode) => write!(f, "{mode}"),
            Self::First(count) => write!(f, "full:{count}"),
            Self::Runs(runs) => f.write_str(&runs_text(runs)),
        }
    }
}

impl fmt::Display for Checkpoint {
    /// One entry of `ckpt`; of no blocks it is `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use CheckpointMode::{Full, None};
        match self.runs.as_slice() {
            [] => f.write_str(None.spelling()),
            [(mode, _)] => write!(f, "{mode}"),
            [(Full, count), (None, _)] => write!(f, "full:{count}"),
            runs => f.write_str(&runs_text(runs)),
        }
    }
}

fn runs_text(runs: &[(CheckpointMode, u32)]) -> String {
    runs.iter().map(|(mode, count)| format!("{mode}*{count}")).collect::<Vec<_>>().join("+")
}
