//! The JSON schemas in `docs/schemas/` are those of the code; `MESHWRIGHT_BLESS=1` rewrites them.

use std::path::Path;
use std::{env, fs};

use meshwright::cluster::ClusterDocument;
use meshwright::plan::{Explanation, Plan};
use meshwright::profile::DeviceModel;
use meshwright::trace::published::PublishedTrace;
use meshwright::trace::{RunReport, Trace};
use meshwright::validate::Validation;
use schemars::{Schema, schema_for};

/// Compares a schema with its file, or writes it.
fn check(name: &str, schema: &Schema) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas").join(name);
    let text = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if env::var_os("MESHWRIGHT_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &text).unwrap();
    }
    let file = fs::read_to_string(&path).unwrap_or_default();
    assert!(file == text, "{name} has drifted; MESHWRIGHT_BLESS=1 cargo test --test schemas rewrites it");
}

#[test]
fn cost_model() {
    check("cost-model.schema.json", &schema_for!(DeviceModel));
}

#[test]
fn cluster() {
    check("cluster.schema.json", &schema_for!(ClusterDocument));
}

#[test]
fn built_in_cost_models_are_as_their_schema_says() {
    let schema = serde_json::to_value(schema_for!(DeviceModel)).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/cost_models")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let model = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            assert!(validator.is_valid(&model), "{}", path.display());
        }
    }
}

#[test]
fn plan() {
    check("plan.schema.json", &schema_for!(Plan));
}

#[test]
fn explain() {
    check("explain.schema.json", &schema_for!(Explanation));
}

#[test]
fn trace() {
    check("trace.schema.json", &schema_for!(Trace));
}

#[test]
fn published_trace() {
    check("published-trace.schema.json", &schema_for!(PublishedTrace));
}

#[test]
fn validate() {
    check("validate.schema.json", &schema_for!(Validation));
}

#[test]
fn execute() {
    check("execute.schema.json", &schema_for!(RunReport));
}
