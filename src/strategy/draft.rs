//! A strategy as it was typed: each key may be left out; and what a checkpoint entry means.

pub use super::keys::Draft;
use super::{Checkpoint, CheckpointMode, Key};

/// How a chunk's checkpoint modes are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointEntry {
    /// Every block in this mode.
    Whole(CheckpointMode),
    /// The first blocks full, the rest none.
    First(u32),
    /// From the chunk's first block to its last.
    Runs(Vec<(CheckpointMode, u32)>),
}

impl CheckpointEntry {
    /// What the entry means for a chunk of `blocks` blocks. It may cover more or fewer, which breaks a rule.
    pub fn over(&self, blocks: u32) -> Checkpoint {
        let runs = match self {
            Self::Whole(mode) => vec![(*mode, blocks)],
            Self::First(count) => {
                vec![(CheckpointMode::Full, *count), (CheckpointMode::None, blocks.saturating_sub(*count))]
            }
            Self::Runs(runs) => runs.clone(),
        };
        Checkpoint { runs }.normalised()
    }
}

impl Checkpoint {
    /// Every one of `blocks` blocks in `mode`.
    pub fn uniform(mode: CheckpointMode, blocks: u32) -> Self {
        Self { runs: vec![(mode, blocks)] }.normalised()
    }

    /// The same modes in the fewest runs.
    pub fn normalised(self) -> Self {
        let mut runs: Vec<(CheckpointMode, u32)> = Vec::with_capacity(self.runs.len());
        for (mode, count) in self.runs {
            match runs.last_mut() {
                _ if count == 0 => {}
                Some((last, total)) if *last == mode => *total = total.saturating_add(count),
                _ => runs.push((mode, count)),
            }
        }
        Self { runs }
    }

    /// Blocks that the runs cover.
    pub fn blocks(&self) -> u64 {
        self.runs.iter().map(|&(_, count)| u64::from(count)).sum()
    }
}

impl Draft {
    /// The keys that are given, in the documented order.
    pub fn keys(&self) -> Vec<Key> {
        Key::ALL.iter().copied().filter(|&key| self.gives(key)).collect()
    }
}
