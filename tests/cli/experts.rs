//! Mixtures without dropped tokens: what is predicted of them, and how a plan says so.

use serde_json::Value;

use crate::place::Place;

const PLAN: &str = "plan mixtral-8x7b --cluster 2x8xh100-sxm --global-batch 64 --json";

fn number(document: &Value, pointer: &str) -> f64 {
    document.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}"))
}

fn width(document: &Value, what: &str) -> f64 {
    let bound = |at: usize| number(document, &format!("/prediction/interval/{what}/{at}"));
    bound(1) - bound(0)
}

#[test]
fn dropless_engines_are_planned_for_a_stated_load_that_widens_the_intervals() {
    let place = Place::new();
    let plan = place.line(&format!("{PLAN} --engine nemo")).json();
    let text = plan["strategy"]["text"].as_str().unwrap();
    assert!(!text.contains("capacity"), "{text}");
    assert_eq!(plan["search"]["held"]["capacity"], "full");
    let warnings = plan["warnings"].to_string();
    assert!(
        warnings.contains("1.15 ± 0.15 times the tokens of an even spread over experts (estimate)"),
        "{warnings}"
    );
    // The chosen plan stands on the front with the memory that the report begins with.
    let itself = plan["pareto"].as_array().unwrap().iter().find(|point| point["strategy"] == *text).unwrap();
    assert_eq!(itself["peak_memory_bytes"], plan["prediction"]["peak_memory_bytes"]);

    let simulate = |capacity: &str| {
        let line = format!(
            "simulate mixtral-8x7b --cluster 2x8xh100-sxm --global-batch 64 --engine nemo --json --strategy {text}{capacity}"
        );
        place.line(&line).json()
    };
    let [full, more, fewer] = ["", ",capacity=1.3", ",capacity=1"].map(simulate);
    for what in ["step_time_s", "peak_memory_bytes"] {
        let of = |document: &Value| number(document, &format!("/prediction/{what}"));
        assert!(of(&fewer) < of(&full) && of(&full) < of(&more), "{what}");
        // A factor settles the load, so that nothing of it is uncertain.
        let share = |document: &Value| width(document, what) / of(document);
        assert!(share(&full) > share(&fewer), "{what}");
        assert!((share(&more) / share(&fewer) - 1.0).abs() < 1e-9, "{what}");
    }
}

#[test]
fn embedded_keeps_slots_for_the_worst_case_and_says_so() {
    let place = Place::new();
    let line = "simulate mixtral-8x7b --cluster 4x8xh100-sxm --global-batch 64 --engine embedded --json --strategy ep=8,zero=1,ckpt=full";
    let full = place.line(line).json();
    let warnings = full["warnings"].to_string();
    assert!(warnings.contains("4.0 times those of an even spread"), "{warnings}");
    // Top 2 of 8 experts: with a factor of 4 every expert has a slot for every token.
    let four = place.line(&format!("{line},capacity=4")).json();
    assert_eq!(full["prediction"], four["prediction"]);
    assert!(!four["warnings"].to_string().contains("even spread"));
    let one = place.line(&format!("{line},capacity=1")).json();
    assert!(number(&one, "/prediction/step_time_s") < number(&full, "/prediction/step_time_s"));
}

#[test]
fn freed_capacities_are_searched_where_the_engine_drops_tokens() {
    let place = Place::new();
    let held = place.line(&format!("{PLAN} --engine megatron --objective time")).json();
    let freed = place.line(&format!("{PLAN} --engine megatron --objective time --free capacity")).json();
    assert_eq!(freed["search"]["axes"]["capacity"], serde_json::json!(["1", "1.25", "full"]));
    let time = |document: &Value| number(document, "/prediction/step_time_s");
    assert!(time(&freed) < time(&held), "fewer tokens take less time");
    assert!(freed["strategy"]["numerics"].to_string().contains("drop tokens"), "{}", freed["strategy"]);
    let refused = place.line(
        "simulate mixtral-8x7b --cluster 2x8xh100-sxm --engine torchtitan --json --strategy capacity=1.25",
    );
    assert_eq!(refused.code, 4);
    let error = &refused.json()["error"];
    assert_eq!((&error["field"], &error["nearest"][0]), (&Value::from("capacity"), &Value::from("full")));
}
