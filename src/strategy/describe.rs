//! A strategy in one line of plain English.

use super::{
    CheckpointMode, Compression, ContextKind, GradientSync, Group, LossMode, Mesh, OffloadCategory, Schedule,
    Strategy,
};
use crate::units::several;

impl Strategy {
    /// `tensor parallel 4 inside a node, pipeline 2 (1F1B), ZeRO-1 over 8 ranks, 16 micro-batches of 1`, for nodes
    /// of `node` devices.
    pub fn describe(&self, node: u64) -> String {
        let mesh = Mesh::new(self);
        let mut parts = Vec::new();
        let reach =
            |group| if mesh.is_inside(group, node.max(1)) { " inside a node" } else { " across nodes" };
        if self.tensor > 1 {
            let sequence = if self.sequence_parallel { "" } else { " without sequence parallelism" };
            parts.push(format!("tensor parallel {}{}{sequence}", self.tensor, reach(Group::Tensor)));
        }
        if self.context > 1 {
            let kind = match self.context_kind {
                ContextKind::Ring => "ring",
                ContextKind::Ulysses => "Ulysses",
            };
            parts.push(format!("context parallel {} ({kind}){}", self.context, reach(Group::Context)));
        }
        if self.expert > 1 {
            parts.push(format!("experts over {}{}", several("rank", self.expert), reach(Group::Expert)));
        }
        if self.pipeline > 1 {
            parts.push(format!("pipeline {} ({})", self.pipeline, self.schedule_words()));
        }
        parts.push(self.state_words());
        parts.push(match self.accumulation {
            1 => format!("one micro-batch of {}", self.micro_batch),
            many => format!("{many} micro-batches of {}", self.micro_batch),
        });
        if self.accumulation > 1 && self.sync != super::defaults::sync(self.zero) {
            parts.push(
                match self.sync {
                    GradientSync::Immediate => "gradients reduced every micro-batch",
                    GradientSync::Scatter => {
                        "gradients scattered every micro-batch and summed over replicas once"
                    }
                    GradientSync::Deferred => "gradients reduced once a step",
                }
                .to_owned(),
            );
        }
        parts.extend(self.checkpoint_words());
        for &category in OffloadCategory::ALL {
            if !self.offload.lacks(category) {
                parts.push(self.offload_words(category));
            }
        }
        match self.compression {
            Compression::None => {}
            Compression::EightBit => parts.push("8-bit saved activations".to_owned()),
            Compression::FourBit => parts.push("4-bit saved activations".to_owned()),
        }
        if self.loss == LossMode::Chunked {
            parts.push("chunked loss".to_owned());
        }
        parts.join(", ")
    }

    fn schedule_words(&self) -> String {
        match self.schedule {
            Schedule::GPipe => "GPipe".to_owned(),
            Schedule::OneForwardOneBackward => "1F1B".to_owned(),
            Schedule::Interleaved => format!("interleaved, {} a rank", several("chunk", self.virtual_stages)),
            Schedule::ZeroBubbleH1 => "zero bubble H1".to_owned(),
            Schedule::ZeroBubbleH2 => "zero bubble H2".to_owned(),
            Schedule::ZeroBubbleV => "zero bubble V".to_owned(),
        }
    }

    fn state_words(&self) -> String {
        if self.zero == 0 {
            return match self.data {
                1 => "no data parallelism".to_owned(),
                ranks => format!("data parallel {ranks}"),
            };
        }
        let kept = if self.zero == 3 && !self.reshard_after_forward { " kept after forward" } else { "" };
        match (self.state_shards(), self.replicas()) {
            (shards, 1) => format!("ZeRO-{}{kept} over {}", self.zero, several("rank", shards)),
            (shards, replicas) => format!(
                "ZeRO-{}{kept} over {} in {}",
                self.zero,
                several("rank", shards),
                several("replica", replicas)
            ),
        }
    }

    fn checkpoint_words(&self) -> Option<String> {
        let covered = |wanted| -> u64 {
            let runs = self.checkpoint.iter().flat_map(|modes| &modes.runs);
            runs.filter(|&&(mode, _)| mode == wanted).map(|&(_, count)| u64::from(count)).sum()
        };
        let blocks: u64 = self.cuts.iter().map(|&blocks| u64::from(blocks)).sum();
        let words: Vec<_> = CheckpointMode::RECOMPUTING
            .iter()
            .rev()
            .filter_map(|&mode| match covered(mode) {
                0 => None,
                all if all == blocks => Some(format!("{mode} recompute")),
                some => Some(format!("{mode} recompute of {some} of {}", several("block", blocks))),
            })
            .collect();
        (!words.is_empty()).then(|| words.join(" and "))
    }

    fn offload_words(&self, category: OffloadCategory) -> String {
        let what = match category {
            OffloadCategory::Optimizer => "optimizer state",
            OffloadCategory::Parameters => "parameters",
            OffloadCategory::Activations => "activations",
        };
        let fractions = self.offload.fractions(category);
        let least = fractions.iter().copied().fold(1.0, f64::min);
        let most = fractions.iter().copied().fold(0.0, f64::max);
        match (least, most) {
            (1.0, _) => format!("{what} on the host"),
            (least, most) if least == most => format!("{:.0}% of {what} on the host", 100.0 * most),
            (least, most) => {
                format!("{:.0} to {:.0}% of {what} on the host", 100.0 * least, 100.0 * most)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Draft;
    use super::super::sample::{dense, facts, moe};

    #[test]
    fn strategies_read_well() {
        let facts = facts(&dense(), 64, "embedded");
        for (text, line) in [
            ("", "data parallel 64, 8 micro-batches of 1"),
            (
                "tp=4,pp=2,zero=1",
                "tensor parallel 4 inside a node, pipeline 2 (1F1B), ZeRO-1 over 8 ranks, 64 micro-batches of 1",
            ),
            (
                "tp=8,cp=2,pp=4,sched=interleaved,sp=off,micro=2,ckpt=full:1",
                "tensor parallel 8 inside a node without sequence parallelism, context parallel 2 (ring) across \
                 nodes, pipeline 4 (interleaved, 2 chunks a rank), no data parallelism, 256 micro-batches of 2, \
                 full recompute of 8 of 16 blocks",
            ),
            (
                "zero=2,shard=8,sync=scatter,offload=optimizer:0.5,compress=8bit",
                "ZeRO-2 over 8 ranks in 8 replicas, 8 micro-batches of 1, gradients scattered every micro-batch \
                 and summed over replicas once, 50% of optimizer state on the host, 8-bit saved activations",
            ),
        ] {
            assert_eq!(Draft::parse(text).unwrap().resolve(&facts).unwrap().describe(8), line);
        }
    }

    #[test]
    fn experts_are_named() {
        let facts = facts(&moe(), 16, "embedded");
        let strategy = Draft::parse("ep=8,zero=3,reshard=off,micro=32").unwrap().resolve(&facts).unwrap();
        assert_eq!(
            strategy.describe(8),
            "experts over 8 ranks inside a node, ZeRO-3 kept after forward over 16 ranks, one micro-batch of 32"
        );
    }
}
