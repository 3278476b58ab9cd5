//! Engine profiles that inherit: a file holds what differs from the profile that it names, and is read over it.

use serde_json::{Map, Value};

use super::engine::EngineProfile;
use super::error::ProfileError;
use crate::spelling::nearest;

/// The profile in `own`, the JSON of a file; `files` are name and JSON of all files that it may inherit from.
///
/// # Errors
/// If `own` inherits from no file of `files` or from one that inherits itself, or if what results is no profile; the
/// error names the field.
pub fn read_engine<'a>(
    own: &Value,
    files: impl Iterator<Item = (&'a str, &'a Value)>,
) -> Result<EngineProfile, ProfileError> {
    let whole = whole(own, files)?;
    serde_path_to_error::deserialize(&whole).map_err(|error| ProfileError::Engine {
        profile: name(own),
        field: error.path().to_string(),
        reason: error.inner().to_string(),
    })
}

/// The JSON of a file, `own`, over that of the file that it inherits from; `own` alone where it names none.
///
/// # Errors
/// As [`read_engine`], but for what results.
pub fn whole<'a>(
    own: &Value,
    files: impl Iterator<Item = (&'a str, &'a Value)>,
) -> Result<Value, ProfileError> {
    let Some(inherits) = own.get("inherits").filter(|inherits| !inherits.is_null()) else {
        return Ok(own.clone());
    };
    let files: Vec<(&str, &Value)> = files.collect();
    let wanted = inherits.as_str().unwrap_or_default();
    let Some((_, parent)) = files.iter().find(|(name, _)| *name == wanted) else {
        let names = files.iter().filter(|(_, file)| file.get("inherits").is_none()).map(|(name, _)| *name);
        return Err(ProfileError::UnknownParent {
            profile: name(own),
            parent: inherits.as_str().map_or_else(|| inherits.to_string(), str::to_owned),
            nearest: nearest(wanted, names),
        });
    };
    if let Some(root) = parent.get("inherits").filter(|root| !root.is_null()) {
        return Err(ProfileError::Chain {
            profile: name(own),
            parent: wanted.to_owned(),
            root: root.as_str().unwrap_or_default().to_owned(),
        });
    }
    let mut whole = (*parent).clone();
    // A profile is never called what its parent is.
    whole.as_object_mut().map(|fields| fields.remove("name"));
    merge(&mut whole, own);
    Ok(whole)
}

/// Puts `own` over `below`: sections by key, everything else as a whole. So does a value that comes with its source,
/// because the source of one value is not that of another.
fn merge(below: &mut Value, own: &Value) {
    let is_section = |fields: &Map<String, Value>| !fields.contains_key("value");
    match (below, own) {
        (Value::Object(below), Value::Object(own)) if is_section(below) && is_section(own) => {
            for (key, value) in own {
                merge(below.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (below, own) => *below = own.clone(),
    }
}

fn name(own: &Value) -> String {
    own.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::profile::engines;

    fn read(own: &Value) -> Result<EngineProfile, ProfileError> {
        read_engine(own, engines::files())
    }

    #[test]
    fn what_a_file_does_not_hold_is_its_parents() {
        let parent = engines::engine("megatron").unwrap();
        let kept = json!(["block_input"]);
        let own = json!({
            "version": 1, "name": "mine", "title": "Mine", "inherits": "megatron", "sources": ["a run"],
            "activations": { "keeps": kept },
            "timing": { "step_time": { "value": 0.5, "kind": "measured", "source": "a run" } }
        });
        let profile = read(&own).unwrap();
        assert_eq!((profile.name.as_str(), profile.title.as_str()), ("mine", "Mine"));
        assert_eq!(profile.inherits.as_deref(), Some("megatron"));
        assert_eq!(profile.sources, ["a run"]);
        assert_eq!(json!(profile.activations.keeps), kept);
        assert_eq!(profile.activations.selective_keeps, parent.activations.selective_keeps);
        assert_eq!(profile.timing.step_time.source, "a run");
        assert_eq!(profile.timing.host_time, parent.timing.host_time);
        assert_eq!(profile.supports, parent.supports);
    }

    #[test]
    fn what_a_file_inherits_moves_with_its_parent() {
        let own = json!({ "name": "mine", "inherits": "megatron" });
        let mut parent = engines::files().find(|(name, _)| *name == "megatron").unwrap().1.clone();
        let before = whole(&own, [("megatron", &parent)].into_iter()).unwrap();
        parent["timing"]["scatters_messages"] = json!(false);
        let after = whole(&own, [("megatron", &parent)].into_iter()).unwrap();
        assert_eq!((&before["name"], &after["name"]), (&json!("mine"), &json!("mine")));
        assert_eq!(before["timing"]["scatters_messages"], json!(true));
        assert_eq!(after["timing"]["scatters_messages"], json!(false));
    }

    /// JSON pointers to what `value` holds below `path`: sections are gone into, all else is one.
    fn pointers(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) if !fields.contains_key("value") => {
                fields.iter().for_each(|(key, value)| pointers(value, &format!("{path}/{key}"), found));
            }
            _ => found.push(path.to_owned()),
        }
    }

    /// Pointers to the numbers that `calibrate --fit` moves in the profile called `name`.
    fn fitted(name: &str) -> Vec<String> {
        let list = include_str!("../../cost_models/fit/parameters.json");
        let file: Value = serde_json::from_str(list).unwrap();
        let kin = file["kin"].as_array().unwrap();
        // A member of kin has their path.
        let path = |one: &Value| {
            let of_kin = || kin.iter().find(|kin| kin["name"] == one["kin"])?["path"].as_str();
            one["path"].as_str().or_else(of_kin).unwrap().replace('.', "/")
        };
        let list = file["parameters"].as_array().unwrap().iter();
        let of_this =
            list.filter(|one| one["engines"].as_array().is_some_and(|all| all.contains(&json!(name))));
        of_this.map(|one| format!("/{}", path(one))).collect()
    }

    #[test]
    fn files_hold_only_what_differs_from_their_parents() {
        let heirs: Vec<_> = engines::files().filter(|(_, own)| own.get("inherits").is_some()).collect();
        assert_eq!(heirs.len(), 10);
        for (name, own) in heirs {
            let profile = engines::engine(name).unwrap();
            let needed = fitted(name);
            let mut held = Vec::new();
            pointers(own, "", &mut held);
            held.retain(|path| !["/version", "/inherits"].contains(&path.as_str()) && !needed.contains(path));
            for path in held {
                let (section, key) = path.rsplit_once('/').unwrap();
                let mut without = own.clone();
                without.pointer_mut(section).unwrap().as_object_mut().unwrap().remove(key);
                assert_ne!(read(&without).as_ref(), Ok(profile), "{name}: {path} is what its parent has");
            }
        }
    }

    #[test]
    fn what_cannot_be_inherited_names_its_field() {
        let file = |parent: Value, key: &str, value: Value| json!({ "name": "mine", "inherits": parent, "timing": { key: value } });
        let failed = |own: &Value| {
            let error = read(own).unwrap_err();
            (error.field().to_owned(), error.to_string(), error.nearest())
        };
        let time = json!({ "value": 1e-5, "kind": "measured", "source": "a run" });
        let (field, text, near) = failed(&file(json!("megatrom"), "host_time", time.clone()));
        assert_eq!(field, "inherits");
        assert!(
            text.starts_with("engine profile `mine`: inherits is `megatrom`, which is no profile"),
            "{text}"
        );
        assert_eq!(near[0], "megatron");
        let (field, text, near) = failed(&file(json!("nemo"), "host_time", time.clone()));
        assert_eq!(field, "inherits");
        assert!(text.contains("is `nemo`, which inherits from `megatron` itself"), "{text}");
        assert_eq!(near, ["megatron"]);
        let (field, ..) = failed(&file(json!(7), "host_time", time.clone()));
        assert_eq!(field, "inherits");
        let (field, text, _) = failed(&file(json!("megatron"), "host_tim", time));
        assert!(field.starts_with("timing") && text.contains("unknown field `host_tim`"), "{field}: {text}");
        let (field, text, _) = failed(&file(json!("megatron"), "host_time", json!({ "value": 1e-5 })));
        assert!(field == "timing.host_time" && text.contains("missing field `kind`"), "{field}: {text}");
        let (_, text, _) = failed(&json!({ "inherits": "megatron" }));
        assert!(text.contains("missing field `name`"), "{text}");
    }
}
