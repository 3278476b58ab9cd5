//! The choices that engines offer and strategies make, with their spelling in strategy texts and files.

use std::str::FromStr;

/// A choice, for what treats all kinds of them alike.
pub trait Choice: Copy + FromStr<Err = Vec<&'static str>> + 'static {
    /// All that there are, in order.
    const CHOICES: &'static [Self];

    /// The spelling in texts and files.
    fn spelling(self) -> &'static str;

    /// What it means, for docs and help.
    fn meaning(self) -> &'static str;
}

/// Declares an enum whose variants have one spelling each, in texts and files alike.
macro_rules! spelled {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant),+
        }

        impl $name {
            /// Every variant, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The spelling in texts and files.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = Vec<&'static str>;

            /// Parses the spelling; the error lists the legal ones.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL
                    .iter()
                    .copied()
                    .find(|choice| choice.name() == text)
                    .ok_or_else(|| Self::ALL.iter().map(|choice| choice.name()).collect())
            }
        }
    };
}
pub(crate) use spelled;

/// Declares such an enum whose variants say what they mean: the comment above each is what docs and help say of it.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[doc = $meaning:tt])+ $variant:ident = $text:literal),+ $(,)? }) => {
        spelled! {
            $(#[$doc])*
            $name { $($(#[doc = $meaning])+ $variant = $text),+ }
        }

        impl Choice for $name {
            const CHOICES: &'static [Self] = Self::ALL;

            fn spelling(self) -> &'static str {
                self.name()
            }

            fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => const { concat!($($meaning),+).trim_ascii() }),+
                }
            }
        }
    };
}

/// How files and texts say whether something is so.
pub const fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

choice! {
    /// The order in which a pipeline rank runs forwards and backwards.
    Schedule {
        /// All forwards, then all backwards.
        GPipe = "gpipe",
        /// One forward, one backward.
        OneForwardOneBackward = "1f1b",
        /// 1F1B over several chunks a rank.
        Interleaved = "interleaved",
        /// Weight gradients fill the cool-down; memory as 1F1B.
        ZeroBubbleH1 = "zb-h1",
        /// Weight gradients fill warm-up and cool-down; about twice the memory of 1F1B.
        ZeroBubbleH2 = "zb-h2",
        /// Two chunks a rank, laid out as a V.
        ZeroBubbleV = "zb-v",
    }
}

impl Schedule {
    /// Whether weight gradients run in passes of their own.
    pub const fn splits_weight(self) -> bool {
        matches!(self, Self::ZeroBubbleH1 | Self::ZeroBubbleH2 | Self::ZeroBubbleV)
    }
}

choice! {
    /// When gradients are reduced over the data-parallel ranks.
    GradientSync {
        /// Reduce-scatter and all-reduce across replicas every micro-batch.
        Immediate = "immediate",
        /// Reduce-scatter every micro-batch, all-reduce across replicas once.
        Scatter = "scatter",
        /// Everything once, at the last micro-batch.
        Deferred = "deferred",
    }
}

choice! {
    /// How context parallelism shares keys and values.
    ContextKind {
        /// Keys and values travel round a ring while attention runs.
        Ring = "ring",
        /// All-to-all from sequence shards to head shards and back.
        Ulysses = "ulysses",
    }
}

choice! {
    /// What a block keeps from forward to backward.
    CheckpointMode {
        /// Everything its backward reads.
        None = "none",
        /// What the engine profile keeps; the rest is recomputed.
        Selective = "selective",
        /// Its input; its whole forward is recomputed.
        Full = "full",
    }
}

impl CheckpointMode {
    /// Those that recompute, from the least to the most.
    pub const RECOMPUTING: &'static [Self] = Self::ALL.split_at(1).1;
}

choice! {
    /// Attention kernels.
    AttentionKernel {
        /// Tiles with an online softmax; scores never reach memory.
        Fused = "fused",
        /// Scores and probabilities are tensors.
        Materialised = "materialised",
    }
}

choice! {
    /// How saved activations are stored.
    Compression {
        /// As they are.
        None = "none",
        /// 8-bit integers, one fp32 scale for 256 elements.
        EightBit = "8bit",
        /// 4-bit integers, one fp32 scale for 256 elements.
        FourBit = "4bit",
    }
}

choice! {
    /// How logits and loss are computed.
    LossMode {
        /// All tokens at once.
        Full = "full",
        /// A chunk of tokens at a time, forward and backward together.
        Chunked = "chunked",
    }
}

choice! {
    /// What can live in host memory.
    OffloadCategory {
        /// Master weights and moments; the step runs on the host.
        Optimizer = "optimizer",
        /// Working parameters.
        Parameters = "params",
        /// Saved activations.
        Activations = "activations",
    }
}

spelled! {
    /// What of a strategy its prediction rests on beside the engine and the device.
    Feature {
        Tensor = "tensor parallelism",
        TensorAcrossNodes = "tensor parallelism across nodes",
        Ring = "context parallelism (ring)",
        Ulysses = "context parallelism (Ulysses)",
        Expert = "expert parallelism",
        GPipe = "the GPipe schedule",
        OneForwardOneBackward = "the 1F1B schedule",
        Interleaved = "the interleaved schedule",
        ZeroBubbleH1 = "the zero-bubble schedule zb-h1",
        ZeroBubbleH2 = "the zero-bubble schedule zb-h2",
        ZeroBubbleV = "the zero-bubble schedule zb-v",
        ShardedState = "sharded optimizer state",
        ShardedParametersAcrossNodes = "ZeRO-3 across nodes",
        ShardGroups = "shard groups smaller than dp",
        Recomputation = "recomputation",
        OptimizerOffload = "optimizer offload",
        ParameterOffload = "parameter offload",
        ActivationOffload = "activation offload",
        EightBitProducts = "products in 8 bits",
        Compression = "activation compression",
        ChunkedLoss = "the chunked loss",
    }
}
