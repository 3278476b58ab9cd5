//! Fits to runs of our own making.

use serde_json::{Value, json};

use super::cases::{Cases, Depth};
use super::objective::Objective;
use super::*;
use crate::validate::Measured;

/// A run of a small GPT on A100s.
fn run(id: usize, hidden: u64, layers: u64, micro: u64, (data, tensor, pipeline): (u64, u64, u64)) -> Value {
    let gpus = data * tensor * pipeline;
    json!({
        "id": format!("made-{id}"), "family": format!("made-{}", id % 2), "quality": "A",
        "framework": "Megatron-DeepSpeed", "usable_for": ["step_time"],
        "model": {
            "name": "gpt", "type": "gpt", "layers": layers, "hidden": hidden, "ffn_hidden": 4 * hidden,
            "heads": hidden / 128, "vocab": 51200, "seq_len": 2048
        },
        "hardware": { "gpu": "A100-SXM-80GB", "num_gpus": gpus, "gpus_per_node": gpus },
        "strategy": {
            "dp": data, "tp": tensor, "pp": pipeline, "zero_stage": 0, "micro_batch": micro,
            "global_batch": 4 * pipeline * data * micro, "checkpointing": "none", "dtype": "fp16"
        },
        "measured": { "step_time_s": 1.0 }
    })
}

fn runs() -> Vec<Value> {
    let meshes = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 1), (1, 4, 1), (1, 2, 2)];
    let mut runs = Vec::new();
    for hidden in [1024, 2048, 4096] {
        for (index, mesh) in meshes.into_iter().enumerate() {
            runs.push(run(runs.len(), hidden, 4, 1 + index as u64 % 3, mesh));
        }
    }
    runs
}

fn read(runs: &[Value]) -> Vec<(String, Measured)> {
    let one = |run: &Value| {
        let id = run["id"].as_str().unwrap_or_default().to_owned();
        (id, Measured::Published(Box::new(serde_json::from_value(run.clone()).unwrap())))
    };
    runs.iter().map(one).collect()
}

fn parameter(devices: &[&str], engines: &[&str], path: &str, lower: f64, upper: f64) -> Parameter {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let (devices, engines) = (owned(devices), owned(engines));
    Parameter {
        devices,
        engines,
        path: path.to_owned(),
        lower,
        upper,
        expected: (lower * upper).sqrt(),
        spread: 3.0,
        kin: None,
        rests_on: None,
        meaning: String::new(),
    }
}

fn request() -> Request {
    let device = ["a100-sxm-80gb"];
    Request {
        models: Models::built_in(),
        parameters: vec![
            parameter(&device, &[], "gemm.efficiency", 0.3, 0.95),
            parameter(&device, &[], "scale_up.link.efficiency", 0.2, 0.95),
            parameter(&[], &["megatron-eager"], "timing.elementwise_passes", 0.5, 6.0),
        ],
        device: None,
        engine: None,
        is_quick: false,
    }
}

const MADE: [f64; 3] = [0.55, 0.5, 2.5];

/// `list` with the step times that our simulator makes of them with `MADE`, off by up to two per mille.
fn made(mut list: Vec<Value>) -> Vec<Value> {
    let request = request();
    let numbers = request.models.numbers().unwrap();
    let cases = Cases::of(read(&list), &numbers, &request);
    assert!(cases.skipped.is_empty(), "{:?}", cases.skipped);
    assert_eq!(cases.list.len(), list.len());
    let parameters = (request.parameters.clone(), Vec::new());
    let objective = Objective::new(&cases, &request.models, parameters, &|_, _| ());
    let position: Vec<f64> =
        request.parameters.iter().zip(MADE).map(|(parameter, made)| parameter.position(made)).collect();
    let logarithms = objective.residuals(&position, Depth::Whole).unwrap();
    for (index, (run, logarithm)) in list.iter_mut().zip(logarithms).enumerate() {
        let noise = 1.0 + 0.002 * ((index * 7 % 11) as f64 / 5.0 - 1.0);
        run["measured"]["step_time_s"] = json!(logarithm.exp() * noise);
    }
    list
}

fn measured() -> Vec<Value> {
    made(runs())
}

#[test]
fn numbers_that_made_runs_are_found_again_whatever_the_runs_are_called() {
    let list = measured();
    let fitted = fit(read(&list), &request(), &|_, _| ()).unwrap();
    for (parameter, made) in fitted.report.parameters.iter().zip(MADE) {
        let error = parameter.value / made - 1.0;
        assert!(error.abs() < 0.04, "{} is {}, not {made}", parameter.path, parameter.value);
        assert_eq!(parameter.at_bound, None);
        assert!(parameter.standard_error.is_some_and(|error| error > 0.0 && error < made));
    }
    assert!(fitted.report.shortcut < 0.02, "{}", fitted.report.shortcut);
    assert!(fitted.report.families.iter().all(|family| family.after < 0.01));
    let file = &fitted.files[&File::Device("a100-sxm-80gb".to_owned())];
    let model = crate::profile::parse_device_model(file).unwrap().0;
    assert_eq!(model.gemm.efficiency.value, fitted.report.parameters[0].value);
    assert_eq!(model.gemm.efficiency.kind, crate::profile::Evidence::Fitted);

    let mut renamed = list;
    for (index, run) in renamed.iter_mut().enumerate() {
        run["id"] = json!(format!("other-{}", 97 - index));
        run["notes"] = json!("fast");
        run["model"]["name"] = json!("something else");
    }
    let again = fit(read(&renamed), &request(), &|_, _| ()).unwrap();
    assert_eq!(again.report.parameters, fitted.report.parameters);
    assert!(fitted.report.parameters.iter().all(|one| !one.is_strained));
    let table = fitted.evidence.unwrap();
    assert!(table.runs.iter().all(|run| run.left_out.is_some()));
}

#[test]
fn a_number_beyond_its_limit_stays_at_it_and_says_so() {
    let mut request = request();
    request.parameters.truncate(1);
    (request.parameters[0].lower, request.parameters[0].expected) = (0.8, 0.85);
    request.is_quick = true;
    let fitted = fit(read(&measured()), &request, &|_, _| ()).unwrap().report;
    assert_eq!(fitted.parameters[0].at_bound, Some(report::Bound::Lower));
    assert_eq!(fitted.parameters[0].value, 0.8);
    assert_eq!(fitted.parameters[0].standard_error, None);
}

#[test]
fn what_cannot_be_fitted_is_said() {
    let list = measured();
    let failed = |change: &dyn Fn(&mut Request)| {
        let mut request = request();
        change(&mut request);
        fit(read(&list), &request, &|_, _| ()).unwrap_err().to_string()
    };
    let unknown = failed(&|request| request.device = Some("a100-sxm-80g".to_owned()));
    assert!(unknown.starts_with("device `a100-sxm-80g` is unknown; nearest: a100-sxm-80gb"), "{unknown}");
    let none = failed(&|request| request.device = Some("mi300x".to_owned()));
    assert_eq!(none, "no parameter of mi300x is fitted");
    let missing = failed(&|request| request.parameters[0].path = "gemm.speed".to_owned());
    assert!(missing.contains("`a100-sxm-80gb.json` has no number `gemm.speed`"), "{missing}");
    let mut spoilt = list.clone();
    for run in &mut spoilt {
        run["measured"]["step_time_s"] = Value::Null;
    }
    let error = fit(read(&spoilt), &request(), &|_, _| ()).unwrap_err();
    assert_eq!(error, FitError::NoRuns { selection: "any device".to_owned() });
}

#[test]
fn the_built_in_parameters_can_be_fitted_and_are_few() {
    let list = ParameterFile::built_in().unwrap().parameters;
    let models = Models::built_in();
    list.iter().try_for_each(|parameter| parameter.check(&models)).unwrap();
    assert!(list.len() <= 106, "at most a tenth as many as measured runs, of which 1,068 can be used");
    let names: std::collections::BTreeSet<_> = list
        .iter()
        .flat_map(|one| one.files().map(|file| (file, one.path.clone())).collect::<Vec<_>>())
        .collect();
    let all: usize = list.iter().map(|one| one.files().count()).sum();
    assert_eq!(names.len(), all, "no number is fitted twice");
}

#[test]
fn a_profile_that_inherits_is_fitted_in_its_own_file() {
    let mut request = request();
    request.parameters.remove(0);
    request.is_quick = true;
    let fitted = fit(read(&measured()), &request, &|_, _| ()).unwrap();
    let file = File::Engine("megatron-eager".to_owned());
    let (before, after) = (request.models.text(&file), &fitted.files[&file]);
    let changed: Vec<_> =
        before.lines().zip(after.lines()).filter(|(before, after)| before != after).collect();
    assert_eq!(before.lines().count(), after.lines().count());
    assert!(matches!(changed[..], [(_, line)] if line.contains("elementwise_passes")), "{changed:?}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("engines")).unwrap();
    std::fs::write(folder.path().join(file.path()), after).unwrap();
    let numbers = Models::read(folder.path()).unwrap().numbers().unwrap();
    let (profile, parent) = (&numbers.engines["megatron-eager"], &numbers.engines["megatron"]);
    assert_eq!(profile.timing.elementwise_passes.value, fitted.report.parameters[1].value);
    assert_eq!(profile.timing.softmax_multiple, parent.timing.softmax_multiple);
}

/// The request with models whose A100 reaches 0.7 of its peak in products, which the runs speak against, and the file and
/// JSON of that model.
fn request_with(kind: &str) -> (Request, File, Value) {
    let mut request = request();
    request.is_quick = true;
    let file = File::Device("a100-sxm-80gb".to_owned());
    let mut model: Value = serde_json::from_str(request.models.text(&file)).unwrap();
    model["gemm"]["efficiency"] = json!({ "value": 0.7, "kind": kind, "source": "a card" });
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(file.path()), model.to_string()).unwrap();
    request.models = Models::read(folder.path()).unwrap();
    (request, file, model)
}

#[test]
fn a_number_that_was_measured_is_not_moved_and_one_that_was_fitted_is() {
    let (mut request, file, model) = request_with("measured");
    let list = measured();
    let fitted = fit(read(&list), &request, &|_, _| ()).unwrap();
    assert!(fitted.report.parameters.iter().all(|one| one.path != "gemm.efficiency"));
    let after: Value = serde_json::from_str(&fitted.files[&file]).unwrap();
    assert_eq!(after["gemm"]["efficiency"], model["gemm"]["efficiency"]);
    let (other, ..) = request_with("fitted");
    let free = fit(read(&list), &other, &|_, _| ()).unwrap();
    let after: Value = serde_json::from_str(&free.files[&file]).unwrap();
    let found = after["gemm"]["efficiency"]["value"].as_f64().unwrap();
    assert!((found / MADE[0] - 1.0).abs() < 0.04, "{found}");
    assert!(free.report.loss < fitted.report.loss / 2.0, "the fit would have gained by moving it");
    request.parameters.truncate(1);
    let error = fit(read(&runs()), &request, &|_, _| ()).unwrap_err();
    assert_eq!(error, FitError::NoParameters { selection: "any device".to_owned() });
}

#[test]
fn a_number_that_is_inherited_is_not_fitted() {
    let failed = |engine: &str| {
        let mut request = request();
        request.parameters = vec![parameter(&[], &[engine], "timing.collective_host_time", 0.2, 1.0)];
        fit(read(&runs()), &request, &|_, _| ()).unwrap_err().to_string()
    };
    let own = failed("megatron-lm");
    assert!(own.contains("`engines/megatron-lm.json` has no number `timing.collective_host_time`"), "{own}");
    let parents = failed("megatron");
    assert!(parents.contains("inherits it and would move too"), "{parents}");
}

#[test]
fn numbers_of_kernels_are_expected_where_rates_were_measured() {
    let list = ParameterFile::built_in().unwrap();
    let models = Models::built_in();
    let kernels =
        ["gemm.efficiency", "attention.", "memory_bound.", "kernel_time", "scale_up.link.efficiency"];
    let mut known = 0;
    for parameter in
        list.parameters.iter().filter(|one| kernels.iter().any(|path| one.path.starts_with(path)))
    {
        assert!(parameter.rests_on.is_some(), "{}: nothing says what it rests on", parameter.name());
        // Of some, no rate was published.
        let is_known = parameter.rests_on.as_ref().is_some_and(|rates| !rates.starts_with("no rate"));
        let most = if is_known { 0.15 } else { 0.6 };
        assert!(parameter.deviation() < most, "{}: rates of kernels are known better", parameter.name());
        for file in parameter.files() {
            let value = models.number(&file, &parameter.path).unwrap();
            assert!((parameter.lower..=parameter.upper).contains(&value), "{}: {value}", parameter.name());
        }
        known += 1;
    }
    assert!(known > 20, "{known}");
    // What no product on random data over a long run exceeded (NVIDIA A100 and H100, measured by others).
    for (device, most) in [("a100-sxm-80gb", 0.87), ("h100-sxm", 0.82), ("gb200", 0.78)] {
        let is_of = |one: &&Parameter| {
            one.path == "gemm.efficiency" && one.devices.iter().any(|other| other == device)
        };
        let expected = list.parameters.iter().find(is_of).unwrap().expected;
        assert!(expected <= most, "{device}: {expected}");
    }
}

#[test]
fn kin_in_the_file_are_declared_once() {
    let read = |text: &str| ParameterFile::parse("list.json", text);
    let kin = r#"{"name":"k","path":"gemm.efficiency","lower":0.1,"upper":1,"expected":0.8,"spread":0.1,"within":0.05,"meaning":"m"}"#;
    let list =
        |kin: &str, parameter: &str| format!(r#"{{"version":2,"kin":[{kin}],"parameters":[{parameter}]}}"#);
    let own = r#"{"devices":["h100-sxm"],"kin":"k","expected":0.7}"#;
    let parameter = read(&list(kin, own)).unwrap().parameters.remove(0);
    assert_eq!((parameter.expected, parameter.spread, parameter.upper), (0.7, 0.1, 1.0));
    assert!((parameter.value(parameter.position(0.5)) - 0.5).abs() < 1e-12);
    let said = |kin: &str, parameter: &str| read(&list(kin, parameter)).unwrap_err().to_string();
    assert!(said("", own).contains("has no kin `k`, which h100-sxm names"));
    assert!(said(&format!("{kin},{kin}"), own).contains("has two kin `k`"));
    let both = r#"{"devices":["h100-sxm"],"kin":"k","spread":0.7}"#;
    assert!(said(kin, both).contains("what its kin say"));
    let open = r#"{"devices":["h100-sxm"],"path":"gemm.efficiency","lower":0.1,"upper":1,"spread":0.7,"meaning":"m"}"#;
    assert!(said(kin, open).contains("leaves `expected` of a parameter of h100-sxm open"));
}

/// Two sources that repeat each other on one device, and a third that alone has collectives.
fn three_sources() -> Vec<Value> {
    let mut list = Vec::new();
    for hidden in [1024, 2048, 4096] {
        for micro in [1, 2, 4] {
            for family in ["one", "other"] {
                let mut run = run(list.len(), hidden, 4, micro, (1, 1, 1));
                run["family"] = json!(family);
                list.push(run);
            }
        }
        for mesh in [(1, 2, 1), (1, 4, 1), (1, 8, 1)] {
            let mut run = run(list.len(), hidden, 4, 1, mesh);
            run["family"] = json!("alone");
            list.push(run);
        }
    }
    made(list)
}

#[test]
fn a_source_left_out_is_predicted_as_by_a_fit_that_never_saw_it() {
    let list = three_sources();
    let mut request = request();
    // Far from what made the runs, so that numbers go far where only one source fixes them.
    (request.parameters[1].expected, request.parameters[1].spread) = (0.9, 3.0);
    let fitted = fit(read(&list), &request, &|_, _| ()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("engines")).unwrap();
    let models = |files: &std::collections::BTreeMap<File, String>| {
        for (file, text) in files {
            std::fs::write(folder.path().join(file.path()), text).unwrap();
        }
        Models::read(folder.path()).unwrap()
    };
    let unseen = fitted.report.left_out.as_ref().unwrap();
    let of = |family: &str| unseen.sources.iter().find(|one| one.family == family).unwrap();
    for (family, is_alone) in [("alone", true), ("one", false), ("other", false)] {
        let errors = of(family).time.unwrap();
        let others: Vec<Value> = list.iter().filter(|run| run["family"] != family).cloned().collect();
        let own: Vec<Value> = list.iter().filter(|run| run["family"] == family).cloned().collect();
        let fresh = fit(read(&others), &request, &|_, _| ()).unwrap();
        let judged = Request { models: models(&fresh.files), ..request.clone() };
        let cases = Cases::of(read(&own), &judged.models.numbers().unwrap(), &judged);
        let parameters = (judged.parameters.clone(), Vec::new());
        let objective = Objective::new(&cases, &judged.models, parameters, &|_, _| ());
        let residuals = objective.residuals(&objective.start().unwrap(), Depth::Whole).unwrap();
        let fresh = report::mean_error(&residuals);
        let off = (errors.left_out.mean - fresh).abs();
        assert!(off < 0.003 + 0.05 * fresh, "{family}: {} left out, {fresh} afresh", errors.left_out.mean);
        if is_alone {
            assert!(errors.left_out.mean > 5.0 * errors.fitted.mean, "{errors:?}");
            assert!(of(family).moved[0].path == "scale_up.link.efficiency", "{:?}", of(family).moved);
        } else {
            assert!(errors.left_out.mean < 1.5 * errors.fitted.mean + 0.002, "{family}: {errors:?}");
        }
    }
    // The same from the files alone, without a fit.
    let there = Request { models: models(&fitted.files), ..request };
    let again = left_out(read(&list), &there, &|_, _| ()).unwrap();
    for (source, again) in unseen.sources.iter().zip(&again.report.sources) {
        let (one, other) = (source.time.unwrap().left_out.mean, again.time.unwrap().left_out.mean);
        assert!((one - other).abs() < 0.002 + 0.02 * one, "{}: {one} and {other}", source.family);
    }
    assert!(again.evidence.is_some());
}
