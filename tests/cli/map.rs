//! The map around a plan: sweeps, what if, the largest that fits, money and runs.

use std::fs;

use crate::place::Place;
use serde_json::Value;

/// Small enough that every search takes a few hundredths of a second.
const TINY: &str =
    r#"{"model_type":"gpt2","n_embd":64,"n_layer":2,"n_head":4,"vocab_size":512,"n_positions":1024}"#;
const PLAN: &str = "plan tiny.json --cluster 1x4xh100-sxm --global-batch 16 --seq-len 128 --top 0";

fn place() -> Place {
    let place = Place::new();
    place.write("tiny.json", TINY);
    place
}

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}: {value}"))
}

/// The document of a plan with these flags, which must be as the schema says and its text and page be made of.
fn plan(place: &Place, flags: &str) -> Value {
    let run = place.line(&format!("{PLAN} {flags} --json --out plan.json --report page.html"));
    assert_eq!((run.code, run.complaints()), (0, Vec::<&str>::new()), "{flags}");
    let document = run.json();
    let schema =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schemas/plan.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let wrong: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
    assert_eq!(wrong, Vec::<String>::new(), "{flags}");
    // What was written is read again: its digest covers the map.
    let again = place.line("report plan.json --out again.html");
    assert_eq!((again.code, place.read("again.html")), (0, place.read("page.html")), "{flags}");
    document
}

#[test]
fn a_sweep_is_a_plan_of_each_count() {
    let place = place();
    let document = plan(&place, "--sweep devices=1..16 --price h100-sxm=2.5/h");
    let sweep = document["sweep"].as_array().unwrap();
    let counts: Vec<_> = sweep.iter().map(|point| point["devices"].as_u64().unwrap()).collect();
    assert_eq!((counts, &document["swept"]), (vec![1, 2, 4, 8, 16], &Value::from("devices")));
    assert_eq!(number(&sweep[0], "/efficiency"), 1.0);
    for point in sweep {
        let devices = point["devices"].as_u64().unwrap();
        let alone = place.line(&format!(
            "plan tiny.json --cluster {}x{}xh100-sxm --global-batch 16 --seq-len 128 --json",
            devices.div_ceil(4),
            devices.min(4)
        ));
        assert_eq!(point["strategy"], alone.json()["strategy"], "{devices}");
        assert_eq!(point["prediction"], alone.json()["prediction"], "{devices}");
        let step = number(point, "/prediction/step_time_s");
        let cost = 2.5 * devices as f64 * step / 3600.0;
        assert!((number(point, "/cost/step") / cost - 1.0).abs() < 1e-9);
        assert!((number(point, "/cost/token") * 16.0 * 128.0 / cost - 1.0).abs() < 1e-9);
        assert!((number(point, "/tokens_per_s") * step - 16.0 * 128.0).abs() < 1e-6);
    }
    // The plan itself is the one of its own count, and no plan of the front is beaten by another.
    assert_eq!(document["strategy"], sweep[2]["strategy"]);
    let front: Vec<[f64; 4]> = document["pareto"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| {
            ["/step_time_s", "/peak_memory_bytes", "/devices", "/cost_token"].map(|name| number(point, name))
        })
        .collect();
    for one in &front {
        let beats =
            |other: &&[f64; 4]| *other != one && other.iter().zip(one).all(|(other, one)| other <= one);
        assert_eq!(front.iter().find(beats), None);
    }
    let page = place.read("page.html");
    assert!(page.contains("<section id=\"sweep\"") && page.contains("perfect scaling"));
    let text = place.line(&format!("{PLAN} --sweep devices=1..16 --price 2.5")).stdout;
    assert!(text.contains("scaling") && text.contains("* the plan above"), "{text}");
}

#[test]
fn other_keys_are_swept_in_the_same_way() {
    let place = place();
    for (flags, key, values) in [
        ("--sweep batch=4..16", "global_batch", [4_u64, 8, 16]),
        ("--sweep seq-len=64,256,128", "seq_len", [64, 128, 256]),
        ("--sweep memory=2GiB,20GiB,40GiB", "device_memory_bytes", [2, 20, 40].map(|gib: u64| gib << 30)),
    ] {
        let document = plan(&place, flags);
        let found: Vec<_> =
            document["sweep"].as_array().unwrap().iter().map(|point| point[key].as_u64().unwrap()).collect();
        assert_eq!(found, values, "{flags}");
        assert!(document["sweep"][0].get("efficiency").is_none(), "{flags}");
    }
}

#[test]
fn points_without_a_plan_say_why_and_the_plan_is_the_nearest_that_fits() {
    let place = place();
    let line = "plan gpt2 --cluster 1x1xh100-sxm --global-batch 8 --seq-len 128 --memory-limit 2500MiB --fix offload=none --json";
    assert_eq!(place.line(line).code, 4);
    let run = place.line(&format!("{line} --sweep devices=1,2,8"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let document = run.json();
    assert_eq!(document["sweep"][0]["strategy"], Value::Null);
    assert!(document["sweep"][0]["reason"].as_str().unwrap().contains("nothing fits"));
    let fitting = document["sweep"].as_array().unwrap().iter().find(|point| !point["strategy"].is_null());
    assert_eq!(document["cluster"]["devices"], fitting.unwrap()["devices"]);
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("no plan for 1 x h100-sxm"), "{warnings}");
}

#[test]
fn objectives_choose_among_the_counts_of_the_cluster() {
    let place = place();
    let cheapest = plan(&place, "--objective cost --price 2");
    let cost = |point: &Value| number(point, "/cost/token");
    let sweep = cheapest["sweep"].as_array().unwrap();
    let counts: Vec<_> = sweep.iter().map(|point| point["devices"].as_u64().unwrap()).collect();
    assert_eq!(counts, [1, 2, 4]);
    assert!(sweep.iter().all(|point| cost(&cheapest) <= cost(point)));
    let fewest = plan(&place, "--objective devices");
    assert_eq!(
        (&fewest["cluster"]["devices"], fewest["sweep"].as_array().unwrap().len()),
        (&Value::from(1), 1)
    );
    assert_eq!(fewest["cluster"]["name"], "1x1xh100-sxm");
}

#[test]
fn sensitivity_and_maximum_are_answered_on_request() {
    let place = place();
    let document = plan(&place, "--sensitivity --maximize batch");
    let scenarios: Vec<_> =
        document["sensitivity"].as_array().unwrap().iter().map(|answer| answer["scenario"].clone()).collect();
    assert_eq!(scenarios, ["less-memory", "double-batch", "half-batch"]);
    for answer in document["sensitivity"].as_array().unwrap() {
        if answer["kept"]["fits"] == true {
            assert!(number(answer, "/kept/slower_by") >= 0.0);
        } else {
            assert!(answer["kept"]["reason"].is_string());
        }
    }
    assert_eq!(document["maximum"]["what"], "batch");
    assert_eq!(document["maximum"]["strategy"]["accumulation"], 1);
    let longest = plan(&place, "--maximize seq-len");
    assert_eq!(
        (&longest["maximum"]["value"], &longest["maximum"]["next_value"]),
        (&Value::from(1024), &Value::from(1025))
    );
    let why = longest["maximum"]["next_value_fails_because"].as_str().unwrap();
    assert!(why.starts_with("tiny has learned positions"), "{why}");
    let bare = plan(&place, "");
    for absent in ["sweep", "swept", "break_evens", "sensitivity", "maximum", "cost", "goodput"] {
        assert!(bare.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn runs_take_days_and_failures_cost_some() {
    let place = place();
    let smooth = plan(&place, "--tokens 1B --price 2.5");
    let steps = (1e9_f64 / (16.0 * 128.0)).ceil();
    assert_eq!(number(&smooth, "/goodput/steps"), steps);
    let days = steps * number(&smooth, "/prediction/step_time_s") / 86_400.0;
    assert!((number(&smooth, "/goodput/days") / days - 1.0).abs() < 1e-9);
    assert!((number(&smooth, "/cost/run") / (days * 24.0 * 4.0 * 2.5) - 1.0).abs() < 1e-9);
    let goodput = |flags: &str| number(&plan(&place, flags), "/goodput/goodput");
    let (rare, often) = (goodput("--tokens 1B --mtbf 10d"), goodput("--tokens 1B --mtbf 1h"));
    assert!(often < rare && rare < 1.0, "{often} {rare}");
    // Ten days between failures of the job are forty of each of its four devices.
    assert_eq!(goodput("--tokens 1B --mtbf-device 40d"), rare);
    assert!(goodput("--tokens 1B --mtbf 1h --restart-time 30m") < often);
    assert!(goodput("--tokens 1B --mtbf 1h --checkpoint-interval 50m") < often);
    assert!(goodput("--tokens 1B --mtbf 1h --checkpoint-bandwidth 1KB/s") < often);
    let never = plan(&place, "--tokens 1B --price 2.5 --mtbf 1s --restart-time 1h");
    assert_eq!((&never["goodput"]["days"], never["cost"].get("run")), (&Value::Null, None));
}

#[test]
fn what_cannot_be_asked_says_what_can() {
    let place = place();
    for (flags, code, kind, field, says) in [
        ("--sweep devices=0..8", 2, "usage", "sweep", "from 1 to 1048576"),
        ("--sweep devices=8..2", 2, "usage", "sweep", "from the lower to the upper"),
        ("--sweep devices=4..", 2, "usage", "sweep", "from 1 to 1048576"),
        ("--sweep nodes=1..8", 2, "usage", "sweep", "devices, batch, seq-len, memory"),
        ("--sweep devices", 2, "usage", "sweep", "devices=8..64"),
        ("--sweep memory=40gigs", 2, "usage", "sweep", "80GiB"),
        ("--sweep devices=6", 3, "input", "sweep", "whole nodes of 4"),
        ("--sweep devices=4..6", 3, "input", "sweep", "whole nodes of 4"),
        ("--sweep seq-len=2048", 3, "input", "sweep", "learned positions for 1024"),
        ("--price a100-sxm-80gb=2", 2, "usage", "price", "it has h100-sxm"),
        ("--price -2", 2, "usage", "price", "above 0"),
        ("--price h100-sxm=NaN", 2, "usage", "price", "above 0"),
        ("--price 2 --price 3", 2, "usage", "price", "already"),
        ("--objective cost", 2, "usage", "objective", "--price"),
        ("--objective devices --sweep batch=2..4", 2, "usage", "sweep", "sweep devices"),
        ("--mtbf 3h", 2, "usage", "mtbf", "--tokens"),
        ("--mtbf-device 3y", 2, "usage", "mtbf-device", "--tokens"),
        ("--tokens 1T --mtbf 3h --mtbf-device 1y", 2, "usage", "mtbf-device", "--mtbf"),
        ("--tokens 1T --mtbf 0", 2, "usage", "mtbf", "above 0"),
        ("--tokens 1T --mtbf 3w", 2, "usage", "mtbf", "s, m, h, d or y"),
        ("--tokens 15X", 2, "usage", "tokens", "K, M, B or T"),
        ("--tokens 0", 2, "usage", "tokens", "from 1"),
        ("--tokens 1T --restart-time 5m", 2, "usage", "restart-time", "--mtbf"),
        ("--tokens 1T --mtbf 3h --checkpoint-bandwidth 0", 2, "usage", "checkpoint-bandwidth", "2GB/s"),
        ("--maximize batch --fix micro=2", 2, "usage", "maximize", "accum 1"),
        ("--maximize memory", 2, "usage", "maximize", "memory"),
    ] {
        let run = place.line(&format!("{PLAN} {flags} --json"));
        let error = &run.json()["error"];
        assert_eq!(
            (run.code, &error["kind"], &error["field"]),
            (code, &kind.into(), &field.into()),
            "{flags}"
        );
        assert!(error["message"].as_str().unwrap().contains(says), "{flags}: {error}");
    }
}
