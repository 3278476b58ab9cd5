//! Keys that were given and make no difference under a strategy: what stands in their place, and why.

use super::{Defaults, Draft, Key, Strategy};

impl Draft {
    /// For each key that is given and has no effect under `strategy`, which the draft became: a sentence that says so.
    pub fn idle(&self, strategy: &Strategy, defaults: Defaults) -> Vec<String> {
        let idle = |key: Key| {
            let given = self.value(key)?;
            let is = strategy.key_value(key, defaults);
            // Zero is always said: stage 0 is its default.
            let is_default = !is.is_said || (key == Key::Zero && is.value == "0");
            let is_idle = !key.is_inner() && is_default && is.value != given;
            is_idle.then(|| {
                format!("{key}={given} has no effect here and counts as {}: {}.", is.value, reason(key))
            })
        };
        self.keys().into_iter().filter_map(idle).collect()
    }
}

/// Why `key` has no effect where it has none.
const fn reason(key: Key) -> &'static str {
    match key {
        Key::Zero => "one rank holds the state of a stage (dp·cp is 1), so ZeRO shards nothing",
        Key::Shard => "no state is sharded",
        Key::Reshard => "parameters are whole below zero 3",
        Key::Sync => "gradients are summed once a step, or not at all",
        Key::SequenceParallel => "tp is 1",
        Key::ContextKind => "cp is 1",
        Key::Schedule => "one micro-batch runs alike under both",
        Key::Overlap => "nothing is offloaded",
        Key::Bucket => "nothing is reduced in buckets",
        Key::Reduce | Key::Gradient => "the engine fixes it, or nothing is summed",
        Key::Capacity | Key::Expert | Key::ExpertTensor => "the model has no experts",
        Key::Attention => "the model has no attention",
        Key::Order => "axes of size 1 may stand anywhere",
        _ => "nothing is left for it to do",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;
    use crate::profile::engines::engine;
    use crate::strategy::{Facts, Workload};
    use crate::units::ElementType;

    #[test]
    fn keys_without_effect_are_named_with_what_they_count_as() {
        let precision = ElementType::Bf16;
        let workload = Workload { global_batch: 8, seq_len: 64, precision, dropout: 0.0, clip: 1.0 };
        let model = model::load("gpt2").unwrap();
        for (name, devices, text, idle) in [
            ("embedded", 1, "zero=3", "zero=3"),
            ("embedded", 1, "zero=1,reshard=off", "zero=1,reshard=off"),
            ("embedded", 2, "tp=2,zero=2,sync=immediate", "zero=2,sync=immediate"),
            ("embedded", 2, "zero=3,accum=4", ""),
            ("embedded", 2, "cp=2,zero=1", ""),
            ("embedded", 2, "zero=2,accum=1,micro=4,sync=deferred", "sync=deferred"),
            ("embedded", 2, "sp=on,cp_kind=ulysses", "sp=on,cp_kind=ulysses"),
            ("embedded", 2, "order=dp-tp-cp-pp", "order=dp-tp-cp-pp"),
            ("embedded", 4, "tp=2,order=dp-tp-cp-pp", ""),
            // Here the stage is what makes offload possible.
            ("deepspeed", 1, "zero=2,offload=optimizer:1", ""),
            ("deepspeed", 1, "zero=2", "zero=2"),
        ] {
            let facts = Facts::new(&model, devices, &workload, engine(name).unwrap());
            let draft = Draft::parse(text).unwrap();
            let strategy = draft.resolve(&facts).unwrap();
            let found = draft.idle(&strategy, facts.defaults);
            let keys: Vec<&str> = found.iter().filter_map(|line| line.split(' ').next()).collect();
            assert_eq!(keys.join(","), idle, "{name} {text}");
        }
    }
}
