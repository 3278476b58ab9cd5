//! What is written stands in the engines' sources: names and types of ColossalAI's arguments, of MaxText's settings, and of
//! torchtitan's where no release has them.

use meshwright::export::exported::narrowed;
use meshwright::export::{Case, Target};
use meshwright::search::Problem;
use serde_json::{Map, Value};

use crate::random::{clusters, draw, models};

/// Legal plans of each target whose settings are looked at.
const PLANS: usize = 250;

/// Whether `value` is of the type that a schema calls `kind`.
fn is_of(value: &Value, kind: &str) -> bool {
    if let Some(kind) = kind.strip_suffix('?') {
        return value.is_null() || is_of(value, kind);
    }
    match kind {
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        // Nodes of a schedule are made by a call.
        "list" => value.is_array() || is_of(value, "call"),
        "call" => value.as_str().is_some_and(|text| text.ends_with("()")),
        "any" => true,
        other => panic!("a schema has no {other}"),
    }
}

/// The settings of random legal plans of `name`, with the text of the plan.
fn written(name: &str) -> Vec<(String, Vec<(String, Value)>)> {
    let target = Target::parse(name).unwrap_or_else(|(rule, _)| panic!("{name}: {rule}"));
    let (models, clusters) = (models(), clusters());
    let profile = narrowed(target).expect("its profile is there");
    let mut list = Vec::new();
    for seed in 0..100_000 {
        let draw = draw(seed, (&models, &clusters), &profile);
        let problem =
            Problem::new(&models[draw.model], &clusters[draw.cluster], draw.workload, &profile, None);
        let Some(strategy) = draw.strategy(&problem) else { continue };
        let settings = target.dialect.settings(&Case { problem: &problem, strategy: &strategy });
        let pairs = settings.iter().map(|setting| (setting.path.clone(), setting.value.clone())).collect();
        list.push((strategy.text(problem.facts.defaults), pairs));
        if list.len() == PLANS {
            break;
        }
    }
    assert_eq!(list.len(), PLANS, "{name}");
    list
}

fn schema(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).expect("the schema is JSON")
}

/// That all settings of plans of `target` are keys of the schema `text`, each of its type.
fn are_keys(target: &str, text: &str) {
    let schema = schema(text);
    for (plan, settings) in written(target) {
        for (path, value) in settings {
            let kind =
                schema["keys"][&path].as_str().unwrap_or_else(|| panic!("{plan}: {target} has no {path}"));
            assert!(is_of(&value, kind), "{plan}: {path} = {value} is no {kind}");
        }
    }
}

#[test]
fn maxtext_has_every_setting_that_is_written() {
    are_keys("maxtext", include_str!("own_parsers/maxtext.json"));
}

#[test]
fn the_main_branch_of_torchtitan_has_every_setting_that_is_written() {
    are_keys("torchtitan@main", include_str!("own_parsers/torchtitan_main.json"));
}

#[test]
fn plugins_have_every_argument_that_is_written() {
    let schema = schema(include_str!("own_parsers/colossalai.json"));
    let mut seen = std::collections::BTreeSet::new();
    for (text, settings) in written("colossalai") {
        let class_of = |path: &str| {
            let made = settings.iter().find(|(known, _)| known == path).and_then(|(_, value)| value.as_str());
            made.and_then(|made| made.strip_suffix("()")).unwrap_or_default().to_owned()
        };
        for (path, value) in &settings {
            let Some((owner, argument)) = path.rsplit_once('.') else { continue };
            let class = class_of(owner);
            let kind = schema["classes"][&class][argument].as_str();
            let kind = kind.unwrap_or_else(|| panic!("{text}: {class} has no {argument}"));
            assert!(is_of(value, kind), "{text}: {class}({argument}={value}) is no {kind}");
            seen.insert(class);
        }
    }
    assert_eq!(seen.len(), 5, "every plugin is written, and lists of recomputation: {seen:?}");
}

#[test]
fn open_sora_has_every_setting_that_is_written() {
    let schema = schema(include_str!("own_parsers/colossalai.json"));
    for (text, settings) in written("open-sora") {
        let plugin = settings.iter().find(|(path, _)| path == "plugin").map(|(_, value)| value.clone());
        let class = match plugin.as_ref().and_then(|plugin| plugin.as_str()) {
            Some("hybrid") => "HybridParallelPlugin",
            _ => "LowLevelZeroPlugin",
        };
        for (path, value) in &settings {
            let kind = match path.split_once('.') {
                Some(("plugin_config", "_delete_")) => "boolean",
                Some(("plugin_config", argument)) => schema["classes"][class][argument]
                    .as_str()
                    .unwrap_or_else(|| panic!("{text}: {class} has no {argument}")),
                Some(("model", _)) => "list",
                _ => schema["open_sora"]["keys"][path]
                    .as_str()
                    .unwrap_or_else(|| panic!("{text}: Open-Sora has no {path}")),
            };
            assert!(is_of(value, kind), "{text}: {path} = {value} is no {kind}");
        }
    }
}
