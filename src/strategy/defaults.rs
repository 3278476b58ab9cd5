//! What a key means where it is left out; some defaults follow from other keys, some from workload and engine.

use super::{AttentionKernel, Capacity, GradientSync, Schedule, Workload};
use crate::profile::EngineProfile;
use crate::units::ElementType;

/// Elements a gradient or parameter bucket.
pub const BUCKET: u64 = 40_000_000;
/// Slots an expert, as a factor of its even share.
pub const CAPACITY: Capacity = Capacity::Full;

/// The defaults that come from workload and engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    pub attention: AttentionKernel,
    /// Type gradients are kept in.
    pub gradient: ElementType,
    /// Type gradients are reduced in.
    pub reduce: ElementType,
}

impl Defaults {
    /// The defaults under this precision and engine; types that the engine fixes are the engine's.
    pub fn new(workload: &Workload, profile: &EngineProfile) -> Self {
        let compute = workload.compute_type();
        let gradient = profile.state.gradient_kept.resolve(plain_gradient(workload), compute);
        Self {
            attention: profile.attention,
            gradient,
            reduce: profile.state.reduced(gradient, compute, compute),
        }
    }
}

/// The type that plain data parallelism keeps gradients in: 32 bits, or 64 under fp64.
pub const fn plain_gradient(workload: &Workload) -> ElementType {
    workload.state_type()
}

/// `tp` where `ep` divides `cp * dp`, otherwise 1.
pub const fn expert_tensor(tensor: u64, context: u64, data: u64, expert: u64) -> u64 {
    if context.saturating_mul(data).is_multiple_of(expert) { tensor } else { 1 }
}

/// Chunks a pipeline rank.
pub const fn virtual_stages(schedule: Schedule) -> u64 {
    match schedule {
        Schedule::Interleaved | Schedule::ZeroBubbleV => 2,
        _ => 1,
    }
}

/// Deferred where whole gradients are kept anyway, otherwise immediate.
pub const fn sync(zero: u8) -> GradientSync {
    if zero <= 1 { GradientSync::Deferred } else { GradientSync::Immediate }
}

/// Blocks a chunk: the quotient each, the remainder one each to the second up to the last but one, then to the
/// first, which shares its rank with the embedding; the last has the head.
pub fn cuts(blocks: u32, chunks: usize) -> Vec<u32> {
    let chunks = chunks.max(1);
    let quotient = (blocks as usize / chunks) as u32;
    let mut remainder = blocks as usize % chunks;
    let mut cuts = vec![quotient; chunks];
    for chunk in (1..chunks.saturating_sub(1)).chain([0]) {
        if remainder > 0 {
            cuts[chunk] += 1;
            remainder -= 1;
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::profile::engines::engine;

    #[test]
    fn the_remainder_of_the_blocks_goes_to_the_middle_and_then_to_the_front() {
        assert_eq!(cuts(80, 4), [20, 20, 20, 20]);
        assert_eq!(cuts(126, 8), [15, 16, 16, 16, 16, 16, 16, 15]);
        assert_eq!(cuts(7, 4), [2, 2, 2, 1]);
        assert_eq!(cuts(5, 2), [3, 2]);
        assert_eq!(cuts(2, 4), [0, 1, 1, 0]);
        assert_eq!(cuts(80, 1), [80]);
    }

    proptest! {
        #[test]
        fn default_cuts_cover_the_blocks(blocks in 0u32..500, chunks in 1usize..64) {
            let cuts = cuts(blocks, chunks);
            prop_assert_eq!(cuts.len(), chunks);
            prop_assert_eq!(cuts.iter().sum::<u32>(), blocks);
        }
    }

    #[test]
    fn expert_tensor_follows_the_tensor_size_where_the_experts_fit_beside_it() {
        assert_eq!(expert_tensor(4, 1, 8, 8), 4);
        assert_eq!(expert_tensor(4, 2, 8, 16), 4);
        assert_eq!(expert_tensor(4, 1, 2, 8), 1);
    }

    #[test]
    fn gradient_types_follow_precision_and_engine() {
        use ElementType::{Bf16, Fp8, Fp16, Fp32, Fp64};
        let types = |name, precision| {
            let workload = Workload { global_batch: 8, seq_len: 64, precision, dropout: 0.0, clip: 1.0 };
            let defaults = Defaults::new(&workload, engine(name).unwrap());
            (defaults.gradient, defaults.reduce)
        };
        for (name, precision, expected) in [
            ("embedded", Bf16, (Fp32, Bf16)),
            ("embedded", Fp16, (Fp32, Fp16)),
            ("embedded", Fp8, (Fp32, Bf16)),
            ("embedded", Fp32, (Fp32, Fp32)),
            ("embedded", Fp64, (Fp64, Fp64)),
            ("torchtitan", Bf16, (Fp32, Fp32)),
            ("deepspeed", Bf16, (Bf16, Bf16)),
            ("colossalai", Fp16, (Fp16, Fp16)),
            ("deepspeed", Fp64, (Fp64, Fp64)),
        ] {
            assert_eq!(types(name, precision), expected, "{name} under {precision}");
        }
    }
}
