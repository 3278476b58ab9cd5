//! What each engine can run, in `docs/reference/features.md`, is what its profile says; `MESHWRIGHT_BLESS=1` rewrites it.

use std::{env, fs};

use meshwright::profile::capabilities::{ExpertWidth, OffloadGrain, Supports};
use meshwright::profile::capability::Capability;
use meshwright::profile::engines::engines_in_use;
use meshwright::strategy::Key;

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
        if offer.serial {
            text += ", overlap off too";
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

/// How the page names a capability: by its key, and where a key has several by what it is about.
fn title(capability: Capability) -> String {
    let key = Key::ALL.iter().find(|key| key.capabilities().contains(&capability));
    let Some(key) = key else { return "precision".to_owned() };
    match capability {
        Capability::KeyValueReplication => format!("{key} beyond key-value heads"),
        Capability::TokenDropping => format!("{key} by factor"),
        Capability::Interleaved => "micro-batches, interleaved".to_owned(),
        Capability::Pipelined => "micro-batches of a pipeline".to_owned(),
        Capability::ZeroWithPipeline => format!("{key} with pp"),
        Capability::ReplicationBesideOthers => format!("{key} 0 beside tp, cp, pp"),
        Capability::ShardGroups => format!("{key} < dp"),
        Capability::ForeignGradientTypes => format!("{key}, reduce: any 16-bit type"),
        Capability::CheckpointGrain => format!("{key}, grain"),
        _ => key.to_string(),
    }
}

/// What `s` says of a capability, in words.
fn text(capability: Capability, s: &Supports) -> String {
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    match capability {
        Capability::ExpertParallel => yes(*s.expert_parallel),
        Capability::TokenDropping => yes(*s.token_dropping),
        Capability::KeyValueReplication => yes(*s.key_value_replication),
        Capability::ReplicationBesideOthers => yes(*s.replication_beside_others),
        Capability::ShardGroups => spelled(&*s.shard_groups),
        Capability::ForeignGradientTypes => yes(*s.foreign_gradient_types),
        Capability::ExpertTensor => {
            let widths = |list: &[ExpertWidth]| {
                let words: Vec<String> = list
                    .iter()
                    .map(|width| match width {
                        ExpertWidth::One => "1".to_owned(),
                        ExpertWidth::Tensor => "tp".to_owned(),
                    })
                    .collect();
                words.join(" or ")
            };
            format!("{} at ep 1, {} beyond", widths(&s.expert_tensor.alone), widths(&s.expert_tensor.spread))
        }
        Capability::OffloadTogether => yes(*s.offload_together),
        Capability::Interleaved => spelled(&*s.interleaved),
        Capability::Pipelined => spelled(&*s.pipelined),
        Capability::Cuts => spelled(&*s.cuts),
        Capability::CheckpointGrain => spelled(&*s.checkpoint_grain),
        Capability::Sync => sync(s),
        Capability::Offload => offload(s),
        _ => words(&capability.values(s).expect("it is a list of values")),
    }
}

/// The rows of one engine's table: key, value, source. What is offloaded together stands in the row of the categories.
fn rows(s: &Supports) -> impl Iterator<Item = (String, String, &str)> {
    let shown = Capability::ALL.iter().filter(|capability| **capability != Capability::OffloadTogether);
    shown.map(|&capability| (title(capability), text(capability, s), capability.source(s)))
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
        if let Some(divisor) = &profile.supports.sequence_divisor {
            made += &format!("| sequence, a multiple of | {} | {} |\n", spelled(&**divisor), divisor.source);
        }
        for conflict in &profile.supports.conflicts {
            made += &format!("| not at once | {} | {} |\n", words(&conflict.of), conflict.source);
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
