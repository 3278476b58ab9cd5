//! The entries of what an engine can run, by name: where each is written, and the values that it lists.

use super::capabilities::Supports;
use super::choices::switch;

/// Declares the capabilities, each with its field of [`Supports`].
macro_rules! capabilities {
    ($($capability:ident = $field:ident),+ $(,)?) => {
        /// An entry of [`Supports`]: what an engine must be able to do for some value of a strategy key.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Capability {
            $($capability),+
        }

        impl Capability {
            /// Every capability, in a fixed order.
            pub const ALL: &'static [Self] = &[$(Self::$capability),+];

            /// Where it is written what `supports` says of it.
            pub fn source(self, supports: &Supports) -> &str {
                match self {
                    $(Self::$capability => &supports.$field.source),+
                }
            }
        }
    };
}

capabilities! {
    Precisions = precisions,
    SequenceParallel = sequence_parallel,
    Context = context,
    ExpertParallel = expert_parallel,
    ExpertTensor = expert_tensor,
    TokenDropping = token_dropping,
    KeyValueReplication = key_value_replication,
    Schedules = schedules,
    Interleaved = interleaved,
    Pipelined = pipelined,
    Cuts = cuts,
    Zero = zero,
    ZeroWithPipeline = zero_with_pipeline,
    ReplicationBesideOthers = replication_beside_others,
    ShardGroups = shard_groups,
    Reshard = reshard,
    Sync = sync,
    Checkpoint = checkpoint,
    CheckpointGrain = checkpoint_grain,
    Offload = offload,
    OffloadTogether = offload_together,
    Compress = compress,
    Loss = loss,
    Attention = attention,
    ForeignGradientTypes = foreign_gradient_types,
}

impl Capability {
    /// The values that `supports` lists, as strategy texts write them; none of a capability that is not a list of values.
    pub fn values(self, supports: &Supports) -> Option<Vec<String>> {
        fn texts<T: ToString>(values: &[T]) -> Vec<String> {
            values.iter().map(T::to_string).collect()
        }
        let switches = |values: &[bool]| values.iter().map(|&on| switch(on).to_owned()).collect();
        Some(match self {
            Self::Precisions => texts(&supports.precisions),
            Self::SequenceParallel => switches(&supports.sequence_parallel),
            Self::Context => texts(&supports.context),
            Self::Schedules => texts(&supports.schedules),
            Self::Zero => texts(&supports.zero),
            Self::ZeroWithPipeline => texts(&supports.zero_with_pipeline),
            Self::Reshard => switches(&supports.reshard),
            Self::Checkpoint => texts(&supports.checkpoint),
            Self::Compress => texts(&supports.compress),
            Self::Loss => texts(&supports.loss),
            Self::Attention => texts(&supports.attention),
            Self::ExpertParallel
            | Self::ExpertTensor
            | Self::ForeignGradientTypes
            | Self::TokenDropping
            | Self::KeyValueReplication
            | Self::Interleaved
            | Self::Pipelined
            | Self::Cuts
            | Self::ReplicationBesideOthers
            | Self::ShardGroups
            | Self::Sync
            | Self::CheckpointGrain
            | Self::Offload
            | Self::OffloadTogether => return None,
        })
    }
}
