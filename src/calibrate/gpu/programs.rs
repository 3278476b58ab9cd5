//! The small programs that are measured on a GPU, in five sizes: from what any device does in a moment to layers as large
//! ones are trained with.

use crate::calibrate::programs::{Family, Small};
use crate::units::ElementType;

/// How large programs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub hidden: u64,
    pub seq_len: u64,
    pub sequences: u64,
    pub vocabulary: u64,
}

/// From small to large.
pub const SIZES: [Size; 5] = [
    Size { hidden: 64, seq_len: 32, sequences: 2, vocabulary: 256 },
    Size { hidden: 256, seq_len: 256, sequences: 4, vocabulary: 1024 },
    Size { hidden: 1024, seq_len: 1024, sequences: 4, vocabulary: 8192 },
    Size { hidden: 2048, seq_len: 2048, sequences: 4, vocabulary: 16_384 },
    Size { hidden: 4096, seq_len: 2048, sequences: 4, vocabulary: 16_384 },
];

impl Size {
    /// A GPT-2 in bf16 with heads of 64.
    pub fn first(self) -> Small {
        self.gpt2("")
    }

    /// Llama with heads of 128 and twice as long sequences, and four times as long ones of half its width; narrower
    /// products; activations as integers; optimizer and activations on the host; and both families in fp32. Each kind of
    /// kernel is in both types: a cost model has no rate of a kind without that in fp32.
    pub fn others(self) -> Vec<Small> {
        let half = Self { hidden: self.hidden / 2, ..self };
        let with = |size: Self, length: u64, shorter: u64| Self {
            seq_len: size.seq_len * length / shorter,
            sequences: (size.sequences * shorter / length).max(1),
            ..size
        };
        let fp32 = |small: Small| Small { precision: ElementType::Fp32, ..small };
        vec![
            with(self, 2, 1).llama(),
            half.gpt2(",offload=optimizer:1+activations:1"),
            with(half, 4, 1).llama(),
            fp32(with(half, 1, 2).gpt2(",compress=8bit")),
            fp32(half.llama()),
            with(half, 1, 2).gpt2(",compress=8bit"),
        ]
    }

    fn gpt2(self, more: &str) -> Small {
        let Self { hidden, seq_len, sequences, vocabulary } = self;
        Small {
            blocks: 1,
            vocabulary,
            global_batch: sequences,
            precision: ElementType::Bf16,
            ..Small::gpt2((hidden, (hidden / 64).max(1)), seq_len, &format!("micro={sequences}{more}"))
        }
    }

    fn llama(self) -> Small {
        Small { family: Family::Llama, heads: (self.hidden / 128).max(1), ..self.gpt2("") }
    }
}

/// FLOPs of a step of `small`, nearly: what its steps take on the same device goes with it at most.
pub fn work(small: &Small) -> f64 {
    let Small { hidden, blocks, vocabulary, seq_len, global_batch, .. } = *small;
    let wide = match small.family {
        Family::Gpt2 => 12,
        Family::Llama => 13,
    };
    let weights = blocks * wide * hidden * hidden + vocabulary * hidden;
    let pairs = blocks * 2 * hidden * seq_len;
    6.0 * (weights + pairs) as f64 * (global_batch * seq_len) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_can_be_built_and_sizes_ascend() {
        for size in SIZES {
            for small in size.others().into_iter().chain([size.first()]) {
                small.job().unwrap_or_else(|error| panic!("{small:?}: {error}"));
                assert!(work(&small) <= 4.0 * work(&size.first()), "{small:?}");
            }
        }
        assert!(SIZES.map(|size| work(&size.first())).is_sorted());
    }
}
