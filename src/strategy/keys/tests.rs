//! Tests that walk the table of keys: what one column of a row says agrees with what the others say.

use std::collections::BTreeSet;

use super::super::sample::{dense, facts, moe};
use super::*;
use crate::profile::engines::engines_in_use;
use crate::strategy::Facts;

/// Facts under which every key has an effect, or as many as may have one by the engine.
fn all_facts() -> Vec<Facts<'static>> {
    let names = engines_in_use().map(|profile| profile.name.as_str());
    names.flat_map(|name| [facts(&dense(), 64, name), facts(&moe(), 64, name)]).collect()
}

fn resolved(text: &str, facts: &Facts) -> Option<Strategy> {
    Draft::parse(text).unwrap().resolve(facts).ok()
}

#[test]
fn what_is_left_out_is_the_default_and_says_nothing() {
    for facts in all_facts() {
        let plain = resolved("", &facts).expect("plain data parallelism is legal");
        let always = [Key::Tensor, Key::Pipeline, Key::Data, Key::Zero, Key::MicroBatch, Key::Accumulation];
        for item in plain.values(facts.defaults) {
            let KeyValue { key, value, is_said } = item;
            // The text's defaults are the same for all engines.
            let follows_the_engine = key.default_words().contains("the engine has");
            let is_expected = is_said == always.contains(&key) || follows_the_engine;
            assert!(is_expected, "{key}={value} of {}", facts.profile.name);
            // What is printed is read, is printed again so, and typed out changes nothing.
            let typed = Draft::parse(&format!("{key}={value}")).unwrap();
            assert_eq!(typed.keys(), [key]);
            assert_eq!(typed.value(key).as_ref(), Some(&value), "{key}");
            assert_eq!(typed.resolve(&facts).as_ref(), Ok(&plain), "{key}={value} of {}", facts.profile.name);
        }
    }
}

#[test]
fn defaults_in_words_that_are_values_are_the_defaults() {
    let facts = facts(&moe(), 64, "embedded");
    let plain = resolved("", &facts).unwrap();
    let mut parsed = BTreeSet::new();
    for &key in Key::ALL {
        let words = key.default_words();
        let words = words.split(", ").next().unwrap();
        if let Ok(draft) = Draft::parse(&format!("{key}={words}")) {
            parsed.insert(key);
            let strategy = draft.resolve(&facts).unwrap();
            assert_eq!(strategy, plain, "{key}={words} is no default");
        }
    }
    let in_words = [
        Key::Data,
        Key::SequenceParallel,
        Key::ExpertTensor,
        Key::VirtualStages,
        Key::Cuts,
        Key::Shard,
        Key::Accumulation,
        Key::Sync,
        Key::Attention,
        Key::Reduce,
    ];
    let others = Key::ALL.iter().copied().filter(|key| !in_words.contains(key));
    assert_eq!(parsed, others.collect(), "which defaults are values and which depend on others");
}

#[test]
fn what_a_key_says_is_said_in_words_that_it_reads() {
    for &key in Key::ALL {
        assert!(key.doc().ends_with('.') && !key.doc().contains("  "), "{key}: {}", key.doc());
        assert!(!key.form().is_empty() && !key.default_words().is_empty(), "{key}");
        for (word, meaning) in key.words() {
            let mut values = [word.to_owned(), format!("{word}:1")].into_iter();
            assert!(values.any(|value| Draft::parse(&format!("{key}={value}")).is_ok()), "{key} {word}");
            assert!(key.form().contains(word) && meaning.ends_with('.'), "{key} {word}");
        }
        // A form in backquotes alone is a list of values.
        let form = key.form();
        let values: Vec<&str> =
            form.split(", ").filter_map(|value| value.strip_prefix('`')?.strip_suffix('`')).collect();
        if values.len() == form.split(", ").count() {
            for value in values {
                assert!(Draft::parse(&format!("{key}={value}")).is_ok(), "{key}={value} is of its form");
            }
        }
    }
}

#[test]
fn what_engines_list_for_a_key_is_read_under_that_key() {
    for profile in engines_in_use() {
        for &key in Key::ALL {
            for capability in key.capabilities() {
                for value in capability.values(&profile.supports).into_iter().flatten() {
                    let read =
                        Draft::parse(&format!("{key}={value}")).ok().and_then(|draft| draft.value(key));
                    assert_eq!(read, Some(value), "{key} of {}", profile.name);
                }
            }
        }
    }
}

#[test]
fn what_an_engine_lacks_is_refused_with_what_it_lists() {
    let mut refused = BTreeSet::new();
    for facts in all_facts() {
        let supports = &facts.profile.supports;
        for &key in Key::ALL {
            let first = key.capabilities().first();
            let Some(listed) = first.and_then(|capability| capability.values(supports)) else { continue };
            let words =
                key.words().into_iter().map(|(word, _)| word).chain(["on", "off", "0", "1", "2", "3"]);
            let lacking = words.filter(|word| !listed.iter().any(|known| known == word));
            for typed in
                lacking.map(|word| format!("{key}={word}")).filter(|typed| Draft::parse(typed).is_ok())
            {
                for under in ["dp=64", "tp=2", "cp=2", "pp=2", "zero=3,dp=64"] {
                    let Ok(draft) = Draft::parse(&format!("{under},{typed}")) else { continue };
                    match draft.resolve(&facts) {
                        Ok(strategy) => {
                            let without = resolved(under, &facts);
                            assert_eq!(Some(strategy), without, "{} lacks {typed}", facts.profile.name);
                        }
                        Err(broken) if broken.field == key.name() => {
                            let is_listed = |near: &String| listed.contains(near);
                            assert!(broken.nearest.iter().all(is_listed), "{typed}: {broken:?}");
                            refused.insert(key.name());
                        }
                        Err(_) => {}
                    }
                }
            }
        }
    }
    let expected = ["attention", "ckpt", "compress", "cp_kind", "loss", "reshard", "sched", "sp", "zero"];
    assert_eq!(refused, BTreeSet::from(expected), "the keys that are judged by what engines list");
}

#[test]
fn each_capability_but_the_precision_is_needed_by_one_key() {
    for &capability in Capability::ALL {
        let keys = Key::ALL.iter().filter(|key| key.capabilities().contains(&capability)).count();
        assert_eq!(keys, usize::from(capability != Capability::Precisions), "{capability:?}");
    }
}

#[test]
fn followers_are_others_and_named_once() {
    for &key in Key::ALL {
        let followers: BTreeSet<Key> = key.followers().iter().copied().collect();
        assert_eq!(followers.len(), key.followers().len(), "{key}");
        assert!(!followers.contains(&key), "{key}");
    }
}

#[test]
fn parts_are_those_of_the_search() {
    let of =
        |part| Key::ALL.iter().filter(|key| key.part() == part).map(|key| key.name()).collect::<Vec<_>>();
    assert_eq!(of(Part::Inner), ["cuts", "ckpt", "offload"]);
    assert_eq!(of(Part::Numerics), ["capacity", "compress", "grad", "reduce"]);
    assert!(Key::ALL.iter().all(|key| key.is_inner() == (key.part() == Part::Inner)));
}
