//! Answers that were beaten from outside once: none of these strategies is faster than its answer by more than the gap.

use serde_json::Value;

use crate::place::Place;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What `plan SETTING` finds in seconds, and the least that it leaves open.
fn planned(place: &Place, setting: &str) -> (f64, f64) {
    let plan = place.line(&format!("plan {setting} --json")).json();
    let found = number(&plan["prediction"]["step_time_s"]);
    (found, found * (1.0 - number(&plan["search"]["gap"])))
}

/// Each with its limit of memory, and a strategy that was faster than its answer and its gaps.
const STRATEGIES: [(&str, &str, &str); 3] = [
    (
        "llama-3.1-70b --cluster 8x8xh100-sxm --engine embedded --global-batch 512 --seq-len 8192",
        "80GiB",
        "dp=64,zero=3,micro=2,accum=4,ckpt=selective,offload=activations:1",
    ),
    (
        "llama-2-7b --cluster 1x8xrtx-4090 --engine embedded --global-batch 32 --seq-len 4096",
        "24GiB",
        "dp=8,zero=3,micro=4,ckpt=selective,offload=activations:1",
    ),
    (
        "gpt2-large --cluster 1x2xa10g --engine embedded --global-batch 16 --seq-len 1024",
        "7GiB",
        "dp=2,zero=3,reshard=off,micro=8,ckpt=selective,offload=optimizer:0.5+params:1+activations:1,loss=chunked",
    ),
];

#[test]
fn strategies_that_beat_an_answer_do_so_no_more() {
    let place = Place::new();
    for (setting, limit, strategy) in STRATEGIES {
        let (_, least) = planned(&place, &format!("{setting} --memory-limit {limit}"));
        let other = place.line(&format!("simulate {setting} --strategy {strategy} --json")).json();
        let bytes = number(&other["prediction"]["safe_memory_bytes"]["process"]);
        let gib: f64 = limit.trim_end_matches("GiB").parse().expect("a number");
        assert!(
            other["prediction"]["fits"] == true && bytes <= gib * f64::from(1 << 30),
            "{setting}: {strategy}"
        );
        let seconds = number(&other["prediction"]["step_time_s"]);
        assert!(
            seconds >= least * (1.0 - 1e-9),
            "{setting}: {strategy} takes {seconds} s, {least} s were proven"
        );
    }
}

#[test]
fn keys_that_beat_an_answer_do_so_no_more() {
    let place = Place::new();
    for engine in ["deepspeed", "colossalai", "nemo"] {
        let setting =
            format!("gpt2 --cluster 1x8xh100-sxm --engine {engine} --global-batch 64 --seq-len 1024");
        let (found, least) = planned(&place, &setting);
        let (held, _) = planned(&place, &format!("{setting} --fix offload=optimizer:1"));
        assert!(held >= least * (1.0 - 1e-9), "{setting}: {held} s with offload held, {found} s without");
    }
    let setting = "llama-3.1-70b --cluster 8x8xh100-sxm --engine megatron --global-batch 512 --seq-len 8192";
    let (found, least) = planned(&place, setting);
    let (leaner, _) = planned(&place, &format!("{setting} --memory-limit 76GiB"));
    assert!(leaner >= least * (1.0 - 1e-9), "{setting}: {leaner} s with less memory, {found} s with all");
}
