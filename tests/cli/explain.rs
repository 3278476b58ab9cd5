//! `explain` says why a strategy is illegal, does not fit or is slower, and ends 0 when it could.

use crate::place::Place;
use serde_json::Value;

const SMALL: &str = "explain gpt2 --cluster 1x4xrtx-4090 --global-batch 64";

/// The fields that scripts rely on; null where they say nothing.
const FIELDS: [&str; 9] =
    ["legal", "rule", "nearest", "fits", "over_bytes", "dominated_by", "fixes", "slower_by", "best"];

/// The document of a run that ends 0, checked against its schema.
fn explained(place: &Place, line: &str) -> Value {
    let run = place.line(&format!("{line} --json"));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{line}");
    let document = run.json();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schemas/explain.schema.json");
    let schema = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&document), "{line}: {:?}", validator.iter_errors(&document).next());
    for field in FIELDS {
        assert!(document.get(field).is_some(), "{field} is missing");
    }
    assert_eq!(document["version"], 1);
    let text = place.line(line);
    assert_eq!((text.code, text.stderr.as_str()), (0, ""), "{line}");
    assert_eq!(text.stdout.lines().last(), document["verdict"].as_str(), "{line}");
    document
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What `simulate` says of a strategy: its exit code and step time.
fn simulated(place: &Place, strategy: &Value) -> (i32, f64) {
    let line = SMALL.replace("explain", "simulate");
    let run = place.line(&format!("{line} --strategy {} --json", strategy.as_str().unwrap()));
    (run.code, number(&run.json()["prediction"]["step_time_s"]))
}

#[test]
fn what_is_illegal_gets_its_rule_and_the_nearest_that_is_legal() {
    let place = Place::new();
    let document = explained(&place, &format!("{SMALL} --strategy tp=3,zero=1"));
    assert_eq!((&document["legal"], &document["fits"]), (&Value::Bool(false), &Value::Null));
    assert_eq!((&document["rule"], &document["field"]), (&"devices".into(), &"tp".into()));
    assert!(document["message"].as_str().unwrap().contains("tp 3 does not divide 4 devices"));
    assert_eq!(document["nearest"], serde_json::json!(["2", "4"]));
    let near = &document["nearest_strategy"];
    assert_eq!(near["strategy"]["tensor_parallel"], 2);
    assert_eq!(near["strategy"]["zero_stage"], 1);
    assert_eq!(simulated(&place, &near["strategy"]["text"]).0, 0);
    assert_eq!(document["prediction"], Value::Null);
    assert!(number(&document["best"]["prediction"]["step_time_s"]) > 0.0);
}

#[test]
fn what_does_not_fit_gets_changes_that_do() {
    let place = Place::new();
    let line = format!("{SMALL} --memory-limit 6GiB --strategy dp=4,micro=16");
    let document = explained(&place, &line);
    assert_eq!((&document["legal"], &document["fits"]), (&Value::Bool(true), &Value::Bool(false)));
    let process = number(&document["prediction"]["safe_memory_bytes"]["process"]);
    let limit = 6.0 * f64::from(1 << 30);
    assert_eq!(number(&document["over_bytes"]), process - limit);
    assert_eq!(document["dominated_by"]["stage"], 0);
    assert!(document["dominated_by"]["instant"].as_str().unwrap().contains("micro-batch"));
    let fixes = document["fixes"].as_array().unwrap();
    assert!(fixes.len() > 3, "{fixes:?}");
    let mut before = 0.0;
    for fix in fixes {
        let (_, step) = simulated(&place, &fix["strategy"]);
        assert_eq!(number(&fix["step_time_s"]), step, "{fix}");
        assert!(step >= before && number(&fix["process_bytes"]) <= limit, "{fix}");
        before = step;
    }
    let numerics = |fix: &&Value| fix["changes_numerics"] == true;
    assert!(fixes.iter().filter(numerics).all(|fix| fix["key"] == "compress" || fix["key"] == "grad"));
    assert_eq!(document["best"]["prediction"]["fits"], true);
}

#[test]
fn what_is_slower_gets_causes_that_sum_and_keys_that_matter() {
    let place = Place::new();
    let document = explained(&place, &format!("{SMALL} --strategy tp=4"));
    let mine = number(&document["prediction"]["step_time_s"]);
    let best = number(&document["best"]["prediction"]["step_time_s"]);
    assert!((number(&document["slower_by"]) - (mine / best - 1.0)).abs() < 1e-12 && mine > best);
    let lost: f64 = document["causes"].as_array().unwrap().iter().map(|cause| number(&cause["lost_s"])).sum();
    assert!((lost - (mine - best)).abs() < 1e-9 * mine, "{lost} is not {}", mine - best);
    let changes = document["changes"].as_array().unwrap();
    let tensor = changes.iter().find(|change| change["key"] == "tp").expect("tp differs");
    assert_eq!((&tensor["from"], &tensor["to"]), (&"4".into(), &"1".into()));
    let (code, step) = simulated(&place, &tensor["strategy"]);
    assert_eq!((code, number(&tensor["step_time_s"])), (0, step));
    assert!((number(&tensor["saved_s"]) - (mine - step)).abs() < 1e-12);
    // The best one is told that it is.
    let text = document["best"]["strategy"]["text"].as_str().unwrap();
    let itself = explained(&place, &format!("{SMALL} --strategy {text}"));
    assert_eq!(number(&itself["slower_by"]), 0.0);
    assert_eq!((&itself["changes"], &itself["fixes"]), (&serde_json::json!([]), &serde_json::json!([])));
    assert!(itself["verdict"].as_str().unwrap().starts_with("This is the best plan"));
}

#[test]
fn where_nothing_fits_it_is_explained_all_the_same() {
    let place = Place::new();
    let document = explained(&place, &format!("{SMALL} --memory-limit 600MiB --strategy dp=4"));
    assert_eq!((&document["fits"], &document["best"]), (&Value::Bool(false), &Value::Null));
    assert!(number(&document["closest"]["over_bytes"]) > 0.0);
    assert!(document["verdict"].as_str().unwrap().contains("nothing fits"));
}

#[test]
fn what_cannot_be_read_ends_as_everywhere() {
    let place = Place::new();
    for (line, code, kind, field) in [
        (format!("{SMALL} --strategy tp=0"), 2, "usage", "tp"),
        (format!("{SMALL} --strategy tpp=2"), 2, "usage", "tpp"),
        (format!("{SMALL} --strategy tp=2 --memory-limit 0"), 2, "usage", "memory-limit"),
        (SMALL.to_owned(), 2, "usage", "strategy"),
        ("explain no-such-model --cluster 1x2xh100-sxm --strategy tp=2".to_owned(), 3, "input", "model"),
        ("explain gpt2 --cluster missing.json --strategy tp=2".to_owned(), 3, "input", "cluster"),
    ] {
        let run = place.line(&format!("{line} --json"));
        assert_eq!(run.code, code, "{line}: {}", run.stderr);
        let error = &run.json()["error"];
        assert_eq!((&error["kind"], &error["field"]), (&kind.into(), &field.into()), "{line}");
        assert!(run.stderr.starts_with("error: "), "{line}");
    }
}

/// Every step time that `document` says can be run with the same numbers.
fn runnable(document: &Value) -> Vec<f64> {
    let mut times = Vec::new();
    for place in ["/prediction", "/nearest_strategy/prediction", "/best/prediction"] {
        let prediction = document.pointer(place).filter(|prediction| prediction["fits"] == true);
        times.extend(prediction.map(|prediction| number(&prediction["step_time_s"])));
    }
    let same = |fix: &&Value| fix["changes_numerics"] == false;
    times.extend(
        document["fixes"].as_array().unwrap().iter().filter(same).map(|fix| number(&fix["step_time_s"])),
    );
    let fits = |step: &&Value| step["outcome"] == "fits";
    times.extend(
        document["changes"].as_array().unwrap().iter().filter(fits).map(|step| number(&step["step_time_s"])),
    );
    times
}

/// How far above the least upper end that of the best plan may be.
const TOLERANCE: f64 = 0.03;

/// That the best of `document` is the answer of `plan`, unless its upper end is lower by more than the tolerance; and that
/// no answer that is shown whole is better by so much.
fn check_best(document: &Value, plan: &Value, line: &str) {
    let upper = |document: &Value| number(&document["prediction"]["interval"]["step_time_s"][1]);
    let best = number(&document["best"]["prediction"]["step_time_s"]);
    if document["best"]["strategy"] != plan["strategy"] {
        assert!(upper(&document["best"]) * (1.0 + TOLERANCE) < upper(plan), "{line}");
    }
    assert!(runnable(document).contains(&best) && best <= upper(&document["best"]), "{line}");
    if document["fits"] == true {
        let says_best = document["verdict"].as_str().unwrap().starts_with("This is the best plan");
        let is_best = document["strategy"]["text"] == document["best"]["strategy"]["text"];
        assert_eq!(says_best, is_best, "{line}: {}", document["verdict"]);
        let mine = number(&document["prediction"]["step_time_s"]);
        assert!((number(&document["slower_by"]) - (mine / best - 1.0)).abs() < 1e-9, "{line}");
    }
}

#[test]
fn a_change_that_beats_all_that_was_searched_is_the_best() {
    let place = Place::new();
    let setting = "llama-3.1-8b --cluster 1x8xh100-sxm --engine nemo --seq-len 8192 --memory-limit 40GiB";
    let line = format!("explain {setting} --strategy tp=2,pp=2,dp=2,cuts=17/15,zero=1,micro=1");
    let document = place.line(&format!("{line} --json")).json();
    // Three quarters of the optimizer's state on the host are none of the shares that the search tries.
    assert_eq!(document["fixes"][0]["to"], "optimizer:0.75");
    let plan = place.line(&format!("plan {setting} --objective robust --json")).json();
    check_best(&document, &plan, &line);
}

#[test]
fn what_explain_calls_the_best_is_what_plan_answers() {
    let place = Place::new();
    for (engine, more) in [
        ("embedded", ""),
        ("embedded", "--memory-limit 4GiB"),
        ("torchtitan", "--memory-limit 3GiB"),
        ("megatron", "--global-batch 48"),
        ("deepspeed", "--memory-limit 3GiB"),
        ("colossalai", "--seq-len 512"),
    ] {
        let setting = format!("gpt2 --cluster 1x4xrtx-4090 --engine {engine} --global-batch 64 {more}");
        let setting =
            if more.contains("global-batch") { setting.replace("--global-batch 64 ", "") } else { setting };
        let plan = place.line(&format!("plan {setting} --objective robust --json")).json();
        let mut texts: Vec<String> = vec![plan["strategy"]["text"].as_str().unwrap().to_owned()];
        for list in ["alternatives", "ladder"] {
            let others = plan[list].as_array().unwrap().iter().take(2);
            texts.extend(others.map(|other| other["strategy"]["text"].as_str().unwrap().to_owned()));
        }
        texts.extend(["tp=3", "dp=4,micro=12", "tp=2,micro=4,ckpt=full", "pp=2,zero=3"].map(str::to_owned));
        for text in texts {
            let line = format!("explain {setting} --strategy {text}");
            check_best(&place.line(&format!("{line} --json")).json(), &plan, &line);
        }
    }
}
