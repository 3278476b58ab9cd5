//! Which blocks of a rank recompute what, written down as the checkpoint modes of its chunks.

use crate::program::Layout;
use crate::strategy::{Checkpoint, CheckpointMode, Strategy};

/// How many blocks recompute wholly, and how many selectively: the first ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recomputed {
    pub full: u32,
    pub selective: u32,
}

impl Recomputed {
    /// The mode of the next block, which is then given.
    const fn next(&mut self) -> CheckpointMode {
        if self.full > 0 {
            self.full -= 1;
            CheckpointMode::Full
        } else if self.selective > 0 {
            self.selective -= 1;
            CheckpointMode::Selective
        } else {
            CheckpointMode::None
        }
    }
}

/// Which blocks of a rank recompute.
#[derive(Clone, Debug, PartialEq)]
pub enum Modes {
    /// Of all of its blocks, whatever they are.
    All(Recomputed),
    /// Of each chunk's blocks of each kind: the chunk, the class, and how many.
    Kinds(Vec<(usize, usize, Recomputed)>),
}

impl Modes {
    /// Writes the modes of `chunks`, those of one rank, into `strategy`, which `layout` lays out.
    pub fn write(&self, strategy: &mut Strategy, layout: &Layout, chunks: &[usize]) {
        match self {
            Self::All(recomputed) => {
                let mut left = *recomputed;
                for &chunk in chunks {
                    let modes = (0..strategy.cuts[chunk]).map(|_| left.next());
                    strategy.checkpoint[chunk] = Checkpoint::of(modes);
                }
            }
            Self::Kinds(kinds) => {
                for &chunk in chunks {
                    let mut left: Vec<_> = kinds.iter().filter(|(of, ..)| *of == chunk).copied().collect();
                    let modes = layout.block_classes(chunk).map(|class| {
                        let own = left.iter_mut().find(|(_, of, _)| *of == class);
                        own.map_or(CheckpointMode::None, |(.., left)| left.next())
                    });
                    strategy.checkpoint[chunk] = Checkpoint::of(modes);
                }
            }
        }
    }
}
