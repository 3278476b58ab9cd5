//! Whether any plan is predicted to be faster than the fastest run measured on its device without saying so: every
//! preset on one and on eight nodes of every device, planned for every engine in use. Takes half an hour:
//! `cargo bench --bench envelope`; words narrow it down as in `gaps`.

use std::collections::BTreeMap;
use std::env;
use std::process::Command;

use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_meshwright");
const EVIDENCE: &str = include_str!("../cost_models/fit/evidence.json");
const NODES: [u64; 2] = [1, 8];
const ENGINES: [&str; 8] =
    ["embedded", "torchtitan", "megatron", "nemo", "deepspeed", "colossalai", "nanotron", "maxtext"];
/// What a prediction may be above the fastest run.
const MARGIN: f64 = 1.05;

fn main() {
    if !env::args().any(|argument| argument == "--bench") {
        return;
    }
    let words: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let fastest = fastest_runs();
    let (mut plans, mut above, mut unmarked) = (0, 0, Vec::new());
    for (device, per_node) in devices() {
        let family = device.split('-').next().unwrap_or(&device);
        let of_family = || fastest.iter().filter(|(name, _)| name.starts_with(family)).map(|(_, mfu)| *mfu);
        let best = fastest.get(&device).copied().or_else(|| of_family().reduce(f64::max));
        for (model, engine, nodes) in settings() {
            let name = format!("{model} {nodes}x{per_node}x{device} {engine}");
            if !words.iter().all(|word| name.contains(word.as_str())) {
                continue;
            }
            let cluster = format!("{nodes}x{per_node}x{device}");
            let arguments = ["plan", &model, "--cluster", &cluster, "--engine", engine];
            let limits = ["--time-limit", "2s", "--json"];
            let Some(plan) = json(Command::new(BINARY).args(arguments).args(limits)) else { continue };
            let Some(mfu) = plan["prediction"]["mfu"].as_f64() else { continue };
            plans += 1;
            let is_marked = plan["evidence"]["unvalidated"].as_array().is_some_and(|marks| !marks.is_empty());
            if best.is_none_or(|best| mfu > MARGIN * best) {
                above += 1;
                let mark = if is_marked { "marked" } else { "NOT MARKED" };
                println!("{name:56} MFU {:5.1} %  {mark}", 100.0 * mfu);
                if !is_marked {
                    unmarked.push(name);
                }
            }
        }
    }
    println!(
        "{plans} plans, {above} above {MARGIN} times the fastest run, {} of them not marked",
        unmarked.len()
    );
    assert!(unmarked.is_empty(), "{unmarked:?}");
}

/// The greatest MFU of any run in the table of evidence, by device.
fn fastest_runs() -> BTreeMap<String, f64> {
    let table: Value = serde_json::from_str(EVIDENCE).expect("the table of evidence");
    let mut fastest = BTreeMap::new();
    for run in table["runs"].as_array().expect("runs") {
        if let (Some(device), Some(mfu)) = (run["device"].as_str(), run["mfu"].as_f64()) {
            let best: &mut f64 = fastest.entry(device.to_owned()).or_default();
            *best = best.max(mfu);
        }
    }
    fastest
}

/// Name and devices a node of every accelerator.
fn devices() -> Vec<(String, u64)> {
    let clusters = json(Command::new(BINARY).args(["clusters", "--json"])).expect("the list of devices");
    let devices = clusters["devices"].as_array().expect("a list");
    let device = |one: &Value| Some((one["name"].as_str()?.to_owned(), one["devices_per_node"].as_u64()?));
    devices.iter().filter_map(device).filter(|(name, _)| name != "cpu").collect()
}

/// Every preset for every engine on every number of nodes.
fn settings() -> Vec<(String, &'static str, u64)> {
    let models = json(Command::new(BINARY).args(["models", "--json"])).expect("the list of presets");
    let models = models["models"].as_array().expect("a list");
    let names: Vec<&str> = models.iter().filter_map(|model| model["name"].as_str()).collect();
    let engines = |nodes| ENGINES.iter().map(move |engine| (nodes, *engine));
    NODES
        .into_iter()
        .flat_map(engines)
        .flat_map(|(nodes, engine)| names.iter().map(move |model| ((*model).to_owned(), engine, nodes)))
        .collect()
}

/// What `command` prints as JSON, if it does.
fn json(command: &mut Command) -> Option<Value> {
    let output = command.output().expect("the program starts");
    serde_json::from_slice(&output.stdout).ok()
}
