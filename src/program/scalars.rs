//! The numbers of a step: where each lies in the small buffer that every rank keeps for them.
//!
//! Before a step come its number, the seed of its dropout and its learning rate; kernels make all others. They are read
//! when the step is done: no instruction waits for anybody who looks at them.

use std::ops::Range;

use crate::units::Bytes;

/// Bytes of one: all are 64 bits wide.
pub const SCALAR_SIZE: u64 = 8;

/// Numbers of a sum of squares that does not depend on the order in which it is taken.
pub const SQUARES: u64 = 4;

/// One of them, or the few that make up a sum of squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Steps made before.
    Step,
    /// Of dropout; an integer.
    Seed,
    LearningRate,
    /// What gradients are multiplied by before the update.
    Clip,
    /// Squares of the owned gradients, then of all.
    Squares,
    /// Sum of the losses of the rank's tokens in one micro-batch, unweighted.
    Loss {
        loss: u8,
        micro: u32,
    },
    /// What a micro-batch's gradients of a loss are weighed with, where that is not known before.
    Weight {
        loss: u8,
        micro: u32,
    },
    /// Squares of the last gradient that was looked at.
    Watched {
        watch: u8,
    },
}

/// Which numbers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalars {
    pub losses: u64,
    pub watches: u64,
    pub micro_batches: u64,
}

impl Scalars {
    /// The head of the buffer, which a step on the host has a copy of: all up to [`Scalar::Squares`].
    pub const HEAD: u64 = 4 + SQUARES;

    /// Where `scalar` lies, counted in numbers.
    pub fn places(&self, scalar: Scalar) -> Range<usize> {
        let by_micro = |loss: u8, micro: u32| u64::from(loss) * self.micro_batches + u64::from(micro);
        let all = self.losses * self.micro_batches;
        let (start, count) = match scalar {
            Scalar::Step => (0, 1),
            Scalar::Seed => (1, 1),
            Scalar::LearningRate => (2, 1),
            Scalar::Clip => (3, 1),
            Scalar::Squares => (4, SQUARES),
            Scalar::Loss { loss, micro } => (Self::HEAD + by_micro(loss, micro), 1),
            Scalar::Watched { watch } => (Self::HEAD + all + u64::from(watch) * SQUARES, SQUARES),
            Scalar::Weight { loss, micro } => {
                (Self::HEAD + all + self.watches * SQUARES + by_micro(loss, micro), 1)
            }
        };
        start as usize..(start + count) as usize
    }

    /// How many losses lie behind the head.
    pub const fn all_losses(&self) -> usize {
        (self.losses * self.micro_batches) as usize
    }

    /// Bytes of all. Weights are there where some gradient is looked at.
    pub const fn bytes(&self) -> Bytes {
        let by_micro = self.losses * self.micro_batches * if self.watches > 0 { 2 } else { 1 };
        Bytes((Self::HEAD + by_micro + self.watches * SQUARES) * SCALAR_SIZE)
    }

    /// Where `scalar`, one of the head, lies in it.
    pub fn in_head(scalar: Scalar) -> usize {
        Self { losses: 0, watches: 0, micro_batches: 0 }.places(scalar).start
    }

    /// Bytes of the head.
    pub const fn head_bytes() -> Bytes {
        Bytes(Self::HEAD * SCALAR_SIZE)
    }
}
