//! What the ranks of a group do together.

use super::view::View;
use crate::execute::comm::Reduction;

/// A run of columns that context ranks exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadRun {
    /// Its first column among all heads, and among this rank's own.
    pub all: usize,
    pub own: usize,
    /// Columns of one rank's part.
    pub width: usize,
    /// Ranks that share each part.
    pub copies: usize,
}

/// Which tokens and columns each context rank has while heads are exchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadExchange {
    pub runs: Vec<HeadRun>,
    /// Columns of a row of all heads, and of this rank's own.
    pub all_width: usize,
    pub own_width: usize,
    /// Rows of this rank's tokens, of all sequences and of one.
    pub rows: usize,
    pub local: usize,
    pub contexts: usize,
    pub context: usize,
    /// From tokens to heads; otherwise back.
    pub to_heads: bool,
}

/// What the ranks of a group do together.
#[derive(Clone, Debug, PartialEq)]
pub enum Exchange {
    /// `data` becomes the sum of all ranks'.
    AllReduce {
        data: View,
        reduction: Reduction,
    },
    /// `own` becomes this rank's shard of the sum of all ranks' `whole`.
    ReduceScatter {
        whole: View,
        own: View,
        reduction: Reduction,
    },
    /// This rank's shard of `whole` becomes that of the sum; the rest of it stays.
    ReduceScatterInPlace {
        whole: View,
        reduction: Reduction,
    },
    /// `whole` becomes all ranks' `own`.
    AllGather {
        own: View,
        whole: View,
    },
    /// Each rank's shard of `whole` is copied to all ranks' `whole`.
    AllGatherInPlace {
        whole: View,
    },
    AllToAll {
        from: View,
        to: View,
    },
    /// To the next rank of the group; the first comes after the last.
    Shift {
        from: View,
        to: View,
    },
    Heads {
        from: View,
        to: View,
        layout: Box<HeadExchange>,
    },
    /// `data` becomes the sum over runs of `copies` neighbours.
    SumNeighbours {
        data: View,
        copies: usize,
        scratch: View,
    },
}
