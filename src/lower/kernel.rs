//! What an op of a unit computes, beside its shape: enough to perform it.

/// The kernel of a node. Operands are the node's reads and writes, in the order that each kernel names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Planned and priced only: the embedded backend has no kernel for it.
    Planned,
    /// What the op's own collective says, from the first read to the first write.
    Collective,
    /// The all-gather of row statistics, which are wider than activations may be.
    GatherStatistics,
    /// Ulysses: reads this rank's tokens of all heads, writes all tokens of its heads. Packed, these are queries,
    /// keys and values; otherwise the output's.
    ToHeads {
        packed: bool,
    },
    /// The way back.
    ToTokens {
        packed: bool,
    },
    /// Writes rows of the token table; rows of other vocabulary shards are zero.
    Embed,
    /// Adds learned positions, in place.
    AddPositions,
    /// Reads the gradients of the looked-up rows and of the residual stream; into the tables' gradients.
    EmbedGradient,
    /// Reads input; writes output and, where kept, statistics.
    Norm(Place),
    /// Reads the output's gradient, input, statistics (and the target that it adds to); writes the input's
    /// gradient. Adds the gradients of weight and bias, unless a `NormWeight` does.
    NormGradient(Place, Into),
    /// Reads the output's gradient, input, statistics; into the gradients of weight and bias.
    NormWeight(Place),
    /// Reads input, writes the product with the transposed matrix (and its bias).
    Linear(Matrix),
    /// Reads the output's gradient, writes the input's.
    InputGradient(Matrix, Into),
    /// Reads input and the output's gradient (and what a bias behind a sum takes); into the matrix's gradient.
    WeightGradient(Matrix),
    /// Rotary positions on queries and keys, in place.
    Rotary,
    RotaryGradient,
    /// Keys and values out of (gradients: into) the columns beside the queries.
    PackKeysValues,
    UnpackKeysValues,
    /// Reads queries, keys, values (and those that travel a ring); writes output, log-sum-exp or probabilities.
    Attention {
        ring: u16,
    },
    /// Reads queries, keys, values, output, its gradient, what the forward left (and what travels); writes their
    /// gradients (and travelling ones, score gradients).
    AttentionGradient {
        ring: u16,
    },
    /// Reads (gate and) up, writes their activation.
    Activation,
    /// Reads the activation's gradient, up (and gate); writes the gradients of up (and gate).
    ActivationGradient,
    /// Reads a branch and the residual, writes their sum; drops out elements of the branch.
    Residual(Branch),
    /// A branch's gradient through its dropout.
    BranchGradient(Branch),
    /// Drops out elements in place, behind the embedding.
    Dropout,
    DropoutGradient,
    /// Reads logits of the router and tokens; writes slots: a token and its weight.
    Permute,
    /// Reads slots and the router's logits, writes the sum of each token's slots.
    Combine,
    /// Reads the gradient of that sum; writes the gradients of slots.
    CombineGradient,
    /// Reads the gradients of slots and of their weights; writes those of tokens and of the router's logits.
    PermuteGradient,
    /// Reads (gate and) up and slots; writes their activation times the slot's weight.
    ExpertActivation,
    /// Reads the activation's gradient, up, slots (and gate); writes the gradients of up (and gate) and weights.
    ExpertActivationGradient,
    /// Reads logits (of chunk `chunk` of `chunks` of the rows); writes each row's maximum, sum of exponentials and
    /// target.
    CrossEntropy {
        chunk: u16,
        chunks: u16,
    },
    /// Reads all shards' statistics; writes each row's, and adds up the loss.
    Loss,
    /// Reads logits and statistics; writes the logits' gradient over them.
    CrossEntropyGradient {
        chunk: u16,
        chunks: u16,
    },
    /// The first read against zero; adds up the loss.
    SquaredError,
    SquaredErrorGradient,
    /// Writes += first read.
    Add,
    /// Writes = first read, converted where types differ.
    Copy,
    /// Writes = 0.
    Zero,
    Quantise,
    Dequantise,
}

impl Kernel {
    /// Whether it goes on with a matrix whose gradient another kernel of the same pass has started.
    pub const fn continues(self) -> bool {
        matches!(self, Self::WeightGradient(Matrix::Vocabulary { chunk: 1.., .. }))
    }

    /// Whether it writes to the gradient of a table that an embedding and a head share.
    pub const fn is_of_table(self) -> bool {
        matches!(self, Self::EmbedGradient | Self::WeightGradient(Matrix::Vocabulary { .. }))
    }

    /// Whether it adds to the step's losses.
    pub const fn counts_loss(self) -> bool {
        matches!(self, Self::Loss | Self::SquaredError)
    }
}

/// Whether a result replaces what is there or is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Into {
    Set,
    Add,
}

/// Which norm of its layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// On the way in (of an embedding: on the way out).
    Input,
    /// On the way out, before the residual add.
    Output,
    /// Behind the residual add.
    Residual,
}

/// Which matrix of its layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Matrix {
    QueryKeyValue,
    AttentionOutput,
    Gate,
    Up,
    Down,
    Router,
    ExpertGate,
    ExpertUp,
    ExpertDown,
    /// Gate and up of the shared experts, side by side.
    SharedUp,
    SharedDown,
    /// Of the rows of chunk `chunk` of `chunks`.
    Vocabulary {
        chunk: u16,
        chunks: u16,
    },
}

/// The branch that a residual add takes: its bias, and its place among the dropouts of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Branch {
    Attention,
    Mlp,
    Moe,
}
