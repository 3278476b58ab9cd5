//! Strategy to text: the documented order, defaults left out, and what is printed parses back to itself.

use std::fmt;

use super::{
    Axis, Capacity, Checkpoint, CheckpointEntry, CheckpointMode, ContextKind, Defaults, Draft, Key, LossMode,
    MeshOrder, Offload, OffloadCategory, Schedule, Strategy, defaults,
};
use crate::profile::choices::Compression;

/// What a strategy says of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Key,
    pub value: String,
    /// Whether the text says it; what it leaves out is a default.
    pub is_said: bool,
}

impl Strategy {
    /// The strategy text. Defaults are left out except tp, pp, dp, zero, micro and accum; those that come from
    /// workload and engine are `defaults`.
    pub fn text(&self, defaults: Defaults) -> String {
        let said = self.values(defaults).into_iter().filter(|item| item.is_said);
        join(&said.map(|item| format!("{}={}", item.key, item.value)).collect::<Vec<_>>(), ",")
    }

    /// The value of every key, in the order of the text.
    pub fn values(&self, defaults: Defaults) -> Vec<KeyValue> {
        let mut text = Values::default();
        text.always(Key::Tensor, self.tensor);
        text.unless(1, Key::Context, self.context);
        text.always(Key::Pipeline, self.pipeline);
        text.always(Key::Data, self.data);
        text.unless(switch(self.tensor > 1), Key::SequenceParallel, switch(self.sequence_parallel));
        text.unless(ContextKind::Ring, Key::ContextKind, self.context_kind);
        text.unless(1, Key::Expert, self.expert);
        let expert_tensor = defaults::expert_tensor(self.tensor, self.context, self.data, self.expert);
        text.unless(expert_tensor, Key::ExpertTensor, self.expert_tensor);
        text.unless(defaults::CAPACITY, Key::Capacity, self.capacity);
        text.unless(Schedule::OneForwardOneBackward, Key::Schedule, self.schedule);
        text.unless(defaults::virtual_stages(self.schedule), Key::VirtualStages, self.virtual_stages);
        let cuts = defaults::cuts(self.cuts.iter().sum(), self.cuts.len());
        text.unless(join(&cuts, "/"), Key::Cuts, join(&self.cuts, "/"));
        text.always(Key::Zero, self.zero);
        text.unless(self.data, Key::Shard, self.shard);
        text.unless("on", Key::Reshard, switch(self.reshard_after_forward));
        text.always(Key::MicroBatch, self.micro_batch);
        text.always(Key::Accumulation, self.accumulation);
        text.unless(defaults::sync(self.zero), Key::Sync, self.sync);
        text.unless("none", Key::Checkpoint, self.checkpoint_text().as_str());
        text.unless("none", Key::Offload, self.offload.to_string().as_str());
        text.unless("on", Key::Overlap, switch(self.overlap));
        text.unless(Compression::None, Key::Compression, self.compression);
        text.unless(LossMode::Full, Key::Loss, self.loss);
        text.unless(defaults.attention, Key::Attention, self.attention);
        text.unless(bucket(defaults::BUCKET), Key::Bucket, bucket(self.bucket));
        text.unless(defaults.gradient, Key::Gradient, self.gradient_type);
        text.unless(defaults.reduce, Key::Reduce, self.reduce_type);
        text.unless(MeshOrder::default(), Key::Order, self.order);
        text.0
    }

    /// The value of `ckpt`: one entry where it says the same of every chunk, otherwise one a chunk.
    pub fn checkpoint_text(&self) -> String {
        let entries: Vec<String> = self.checkpoint.iter().map(Checkpoint::to_string).collect();
        // Of a chunk without blocks, whole modes say the same, and `none` is what it prints.
        let mut said = self.checkpoint.iter().zip(&entries).filter(|(modes, _)| !modes.runs.is_empty());
        let Some((modes, first)) = said.next() else { return "none".to_owned() };
        let is_same = said.all(|(_, entry)| entry == first);
        let has_empty = self.checkpoint.iter().any(|modes| modes.runs.is_empty());
        if is_same && !(has_empty && modes.runs.len() > 1) { first.clone() } else { entries.join("/") }
    }
}

impl Draft {
    /// The value of `key` as it is typed; none where it is left out.
    pub fn value(&self, key: Key) -> Option<String> {
        fn said<T: fmt::Display>(value: &Option<T>) -> Option<String> {
            value.as_ref().map(T::to_string)
        }
        match key {
            Key::Tensor => said(&self.tensor),
            Key::Context => said(&self.context),
            Key::Pipeline => said(&self.pipeline),
            Key::Data => said(&self.data),
            Key::SequenceParallel => said(&self.sequence_parallel.map(switch)),
            Key::ContextKind => said(&self.context_kind),
            Key::Expert => said(&self.expert),
            Key::ExpertTensor => said(&self.expert_tensor),
            Key::Capacity => said(&self.capacity),
            Key::Schedule => said(&self.schedule),
            Key::VirtualStages => said(&self.virtual_stages),
            Key::Cuts => self.cuts.as_ref().map(|cuts| join(cuts, "/")),
            Key::Zero => said(&self.zero),
            Key::Shard => said(&self.shard),
            Key::Reshard => said(&self.reshard_after_forward.map(switch)),
            Key::MicroBatch => said(&self.micro_batch),
            Key::Accumulation => said(&self.accumulation),
            Key::Sync => said(&self.sync),
            Key::Checkpoint => self.checkpoint.as_ref().map(|entries| join(entries, "/")),
            Key::Offload => self.offload.as_ref().map(|parts| {
                let part = |(category, fractions): &(OffloadCategory, Vec<f64>)| {
                    format!("{category}:{}", join(fractions, "/"))
                };
                let parts: Vec<String> = parts.iter().map(part).collect();
                if parts.is_empty() { "none".to_owned() } else { parts.join("+") }
            }),
            Key::Overlap => said(&self.overlap.map(switch)),
            Key::Compression => said(&self.compression),
            Key::Loss => said(&self.loss),
            Key::Attention => said(&self.attention),
            Key::Bucket => self.bucket.map(bucket),
            Key::Gradient => said(&self.gradient_type),
            Key::Reduce => said(&self.reduce_type),
            Key::Order => said(&self.order),
        }
    }
}

/// Values of keys, one behind the other.
#[derive(Default)]
struct Values(Vec<KeyValue>);

impl Values {
    fn always(&mut self, key: Key, value: impl fmt::Display) {
        self.0.push(KeyValue { key, value: value.to_string(), is_said: true });
    }

    fn unless<T: fmt::Display + PartialEq>(&mut self, default: T, key: Key, value: T) {
        let is_said = value != default;
        self.0.push(KeyValue { key, value: value.to_string(), is_said });
    }
}

const fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn join<T: fmt::Display>(items: &[T], separator: &str) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(separator)
}

/// Elements with the largest decimal unit that leaves a whole number.
pub fn bucket(elements: u64) -> String {
    [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "K")]
        .into_iter()
        .find(|&(unit, _)| elements.is_multiple_of(unit))
        .map_or_else(|| elements.to_string(), |(unit, name)| format!("{}{name}", elements / unit))
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Factor(factor) => write!(f, "{factor}"),
            Self::Full => f.write_str("full"),
        }
    }
}

impl fmt::Display for Checkpoint {
    /// One entry of `ckpt`; of no blocks it is `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use CheckpointMode::{Full, None};
        match self.runs.as_slice() {
            [] => f.write_str("none"),
            [(mode, _)] => write!(f, "{mode}"),
            [(Full, count), (None, _)] => write!(f, "full:{count}"),
            runs => {
                let runs: Vec<_> = runs.iter().map(|(mode, count)| format!("{mode}*{count}")).collect();
                f.write_str(&runs.join("+"))
            }
        }
    }
}

impl fmt::Display for CheckpointEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(mode) => write!(f, "{mode}"),
            Self::First(count) => write!(f, "full:{count}"),
            Self::Runs(runs) => {
                let runs: Vec<_> = runs.iter().map(|(mode, count)| format!("{mode}*{count}")).collect();
                f.write_str(&runs.join("+"))
            }
        }
    }
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for &category in OffloadCategory::ALL {
            let fractions = self.fractions(category);
            if let Some(&first) = fractions.first()
                && fractions.iter().any(|&fraction| fraction != 0.0)
            {
                let is_same = fractions.iter().all(|&fraction| fraction == first);
                let shown = if is_same { &fractions[..1] } else { fractions };
                parts.push(format!("{category}:{}", join(shown, "/")));
            }
        }
        f.write_str(if parts.is_empty() { "none".to_owned() } else { parts.join("+") }.as_str())
    }
}

impl fmt::Display for MeshOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Vec::with_capacity(5);
        let mut axes = self.0.as_slice();
        while let [axis, rest @ ..] = axes {
            axes = rest;
            names.push(match axis {
                Axis::Tensor => "tp",
                Axis::Context => "cp",
                Axis::Pipeline => "pp",
                Axis::Replica => "replica",
                Axis::Shard => match rest {
                    [Axis::Replica, after @ ..] => {
                        axes = after;
                        "dp"
                    }
                    _ => "shard",
                },
            });
        }
        f.write_str(&names.join("-"))
    }
}
