//! One key of a strategy changed, with what has to follow from it; and the keys in which two strategies differ.

use super::{Defaults, Draft, Facts, Key, RuleBreak, Strategy};

/// A key with its value before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    pub key: Key,
    pub from: String,
    pub to: String,
}

impl Draft {
    /// The draft with `key` as in `from`, and its strategy. Where the other keys do not allow it, those that follow
    /// from this one go to their defaults, as few as will do.
    ///
    /// # Errors
    /// The rule that is broken even so.
    pub fn changed(&self, key: Key, from: &Self, facts: &Facts) -> Result<(Self, Strategy), RuleBreak> {
        let mut draft = self.clone();
        draft.take(key, from);
        let mut outcome = draft.resolve(facts);
        for &follower in key.followers() {
            if outcome.is_ok() {
                break;
            }
            draft.take(follower, &Self::default());
            outcome = draft.resolve(facts);
        }
        outcome.map(|strategy| (draft, strategy))
    }
}

impl Strategy {
    /// The draft that says the least and resolves to this strategy.
    pub fn draft(&self, defaults: Defaults) -> Draft {
        // What is printed parses back to itself.
        Draft::parse(&self.text(defaults)).unwrap_or_default()
    }

    /// The keys in which `other` differs, in the order of the text; what is a default in both is none.
    pub fn changes_to(&self, other: &Self, defaults: Defaults) -> Vec<KeyChange> {
        let pairs = self.values(defaults).into_iter().zip(other.values(defaults));
        let differing =
            pairs.filter(|(mine, theirs)| (mine.is_said || theirs.is_said) && mine.value != theirs.value);
        differing
            .map(|(mine, theirs)| KeyChange { key: mine.key, from: mine.value, to: theirs.value })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{dense, facts};
    use super::*;

    fn changed(text: &str, key: Key, value: &str) -> Result<String, RuleBreak> {
        let model = dense();
        let facts = facts(&model, 16, "embedded");
        let value = Draft::parse(value).unwrap();
        let (draft, strategy) = Draft::parse(text).unwrap().changed(key, &value, &facts)?;
        assert_eq!(draft.resolve(&facts).as_ref(), Ok(&strategy));
        Ok(strategy.text(facts.defaults))
    }

    #[test]
    fn only_what_must_follow_follows() {
        for (text, key, value, expected) in [
            ("tp=2,dp=8,accum=64", Key::Tensor, "tp=4", "tp=4,pp=1,dp=4,zero=0,micro=1,accum=128"),
            (
                "zero=1,sync=deferred",
                Key::Zero,
                "zero=3",
                "tp=1,pp=1,dp=16,zero=3,micro=1,accum=32,sync=deferred",
            ),
            ("zero=1,shard=4", Key::Tensor, "tp=2", "tp=2,pp=1,dp=8,zero=1,shard=4,micro=1,accum=64"),
            ("zero=1,shard=16,dp=16", Key::Tensor, "tp=2", "tp=2,pp=1,dp=8,zero=1,micro=1,accum=64"),
            ("pp=2,cuts=10/6,dp=8", Key::Pipeline, "pp=4", "tp=1,pp=4,dp=4,zero=0,micro=1,accum=128"),
            ("pp=2,sched=interleaved,virtual=4", Key::Schedule, "", "tp=1,pp=2,dp=8,zero=0,micro=1,accum=64"),
            ("micro=4,accum=8", Key::MicroBatch, "micro=2", "tp=1,pp=1,dp=16,zero=0,micro=2,accum=16"),
        ] {
            assert_eq!(changed(text, key, value).as_deref(), Ok(expected), "{text} with {value}");
        }
        assert_eq!(changed("", Key::Tensor, "tp=3").unwrap_err().field, "tp");
    }

    #[test]
    fn every_key_is_taken() {
        let all = "tp=2,cp=1,pp=2,dp=4,sp=off,cp_kind=ulysses,ep=1,etp=1,capacity=2,sched=1f1b,virtual=1,\
                   cuts=8/8,zero=1,shard=2,reshard=off,micro=2,accum=64,sync=immediate,ckpt=full,\
                   offload=optimizer:1,overlap=off,compress=8bit,loss=chunked,attention=fused,bucket=1M,\
                   grad=bf16,reduce=bf16,order=cp-tp-dp-pp";
        let from = Draft::parse(all).unwrap();
        let mut draft = Draft::default();
        for &key in Key::ALL {
            assert!(from.gives(key), "{key}");
            draft.take(key, &from);
        }
        assert_eq!(draft, from);
    }

    #[test]
    fn defaults_that_follow_are_no_difference() {
        let model = dense();
        let facts = facts(&model, 16, "embedded");
        let resolved = |text: &str| Draft::parse(text).unwrap().resolve(&facts).unwrap();
        let changes = resolved("tp=2,zero=1").changes_to(&resolved("pp=2,ckpt=full,zero=1"), facts.defaults);
        let words: Vec<_> = changes.iter().map(|c| format!("{} {} {}", c.key, c.from, c.to)).collect();
        assert_eq!(words, ["tp 2 1", "pp 1 2", "ckpt none full"]);
    }
}
