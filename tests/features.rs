//! What each engine can run, in `docs/reference/features.md`, is what its profile says; `MESHWRIGHT_BLESS=1` rewrites it.

use std::{env, fs};

use meshwright::profile::capabilities::{Cited, OffloadGrain, Supports};
use meshwright::profile::engines::engines_in_use;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/features.md");
const MARK: &str = "<!-- From here on made from cost_models/engines. -->\n";

fn words<T: ToString>(values: &[T]) -> String {
    if values.is_empty() {
        "none".to_owned()
    } else {
        values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// The spelling in the profile's file.
fn spelled(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().replace('_', " ")
}

fn switches(values: &[bool]) -> String {
    words(&values.iter().map(|on| if *on { "on" } else { "off" }).collect::<Vec<_>>())
}

fn offload(supports: &Supports) -> String {
    let words = supports.offload.iter().map(|offer| {
        let mut text = format!(
            "{} ({})",
            offer.category,
            match offer.grain {
                OffloadGrain::Stage => "a fraction a stage",
                OffloadGrain::All => "one fraction",
                OffloadGrain::Whole => "all or nothing",
            }
        );
        if offer.from_zero > 0 {
            text += &format!(" from zero {}", offer.from_zero);
        }
        if offer.split_from_zero > 0 {
            text += &format!(", split from zero {}", offer.split_from_zero);
        }
        if let Some(mode) = offer.with_checkpoint {
            text += &format!(" with ckpt={mode}");
        }
        text
    });
    let all: Vec<String> = words.collect();
    let together = if *supports.offload_together { ", together" } else { "" };
    if all.is_empty() { "none".to_owned() } else { all.join("; ") + together }
}

fn sync(supports: &Supports) -> String {
    let words = supports.sync.iter().map(|offer| {
        let pipeline = match offer.pipeline {
            None => "",
            Some(true) => " with pp",
            Some(false) => " without pp",
        };
        format!("{} (zero {}{pipeline})", offer.kind, words(&offer.zero))
    });
    words.collect::<Vec<_>>().join("; ")
}

/// The rows of one engine's table: key, value, source.
fn rows(s: &Supports) -> Vec<(&'static str, String, String)> {
    fn row<T>(key: &'static str, cited: &Cited<T>, text: String) -> (&'static str, String, String) {
        (key, text, cited.source.clone())
    }
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    vec![
        row("precision", &s.precisions, words(&s.precisions)),
        row("sp", &s.sequence_parallel, switches(&s.sequence_parallel)),
        row("cp_kind", &s.context, words(&s.context)),
        row("ep", &s.expert_parallel, yes(*s.expert_parallel)),
        row("tp beyond key-value heads", &s.key_value_replication, yes(*s.key_value_replication)),
        row("sched", &s.schedules, words(&s.schedules)),
        row("micro-batches, interleaved", &s.interleaved, spelled(&*s.interleaved)),
        row("micro-batches of a pipeline", &s.pipelined, spelled(&*s.pipelined)),
        row("cuts", &s.cuts, spelled(&*s.cuts)),
        row("zero", &s.zero, words(&s.zero)),
        row("zero with pp", &s.zero_with_pipeline, words(&s.zero_with_pipeline)),
        row("zero 0 beside tp, cp, pp", &s.replication_beside_others, yes(*s.replication_beside_others)),
        row("shard < dp", &s.shard_groups, yes(*s.shard_groups)),
        row("reshard", &s.reshard, switches(&s.reshard)),
        row("sync", &s.sync, sync(s)),
        row("ckpt", &s.checkpoint, words(&s.checkpoint)),
        row("ckpt, grain", &s.checkpoint_grain, spelled(&*s.checkpoint_grain)),
        row("offload", &s.offload, offload(s)),
        row("compress", &s.compress, words(&s.compress)),
        row("loss", &s.loss, words(&s.loss)),
    ]
}

#[test]
fn the_page_says_what_the_profiles_say() {
    let mut made = String::from(
        "\n# What each engine can run\n\nThe planner stays inside these, and `simulate` refuses what lies outside with the nearest that does not.\n",
    );
    for profile in engines_in_use() {
        made += &format!(
            "\n## {}\n\n{}.\n\n| key | what it can be | source |\n|---|---|---|\n",
            profile.name, profile.title
        );
        for (key, text, source) in rows(&profile.supports) {
            made += &format!("| {key} | {text} | {} |\n", source.replace('|', "\\|"));
        }
    }
    let file = fs::read_to_string(PATH).unwrap();
    let written = file.split_once(MARK).map_or(file.as_str(), |(own, _)| own);
    let wanted = format!("{}\n\n{MARK}{made}", written.trim_end());
    if env::var_os("MESHWRIGHT_BLESS").is_some() {
        fs::write(PATH, &wanted).unwrap();
    } else {
        assert!(
            file == wanted,
            "features.md has drifted; MESHWRIGHT_BLESS=1 cargo test --test features rewrites it"
        );
    }
}

#[test]
fn every_capability_has_a_source() {
    for profile in engines_in_use() {
        for (key, _, source) in rows(&profile.supports) {
            assert!(source.len() > 5, "{} says nothing of {key}", profile.name);
        }
    }
}
