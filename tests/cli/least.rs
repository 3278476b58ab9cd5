//! The least memory: that no strategy from outside undercuts what `--objective memory` answers, and that what is said
//! where nothing fits is true.

use serde_json::Value;

use crate::place::Place;

const LARGE: &str = "llama-3.1-70b --cluster 8x8xh100-sxm --global-batch 512 --seq-len 8192";

fn peak(document: &Value) -> f64 {
    document["prediction"]["peak_memory_bytes"].as_f64().unwrap()
}

#[test]
fn no_strategy_is_leaner_than_the_least_memory_by_more_than_its_gap() {
    let place = Place::new();
    for (engine, strategies) in [
        (
            "embedded",
            &[
                "tp=8,zero=3,micro=1,ckpt=full,loss=chunked,offload=optimizer:1+params:1+activations:1",
                "tp=8,cp=8,zero=3,micro=1,ckpt=full,loss=chunked,offload=optimizer:1+params:1",
                "tp=8,pp=8,dp=1,micro=1,ckpt=full,loss=chunked,offload=optimizer:1+activations:1",
                "zero=3,micro=1,ckpt=full",
            ][..],
        ),
        (
            "torchtitan",
            &[
                "tp=8,zero=3,micro=1,ckpt=full,loss=chunked",
                "zero=3,micro=1,ckpt=full,offload=optimizer:1+params:1",
            ],
        ),
        ("nemo", &["tp=8,zero=1,micro=1,ckpt=full,offload=optimizer:1", "tp=8,cp=8,dp=1,micro=1,ckpt=full"]),
    ] {
        let answer = place.line(&format!("plan {LARGE} --engine {engine} --objective memory --json"));
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        let answer = answer.json();
        let search = &answer["search"];
        assert_eq!(search["objective"], "memory");
        let gap = search["gap"].as_f64().unwrap();
        let least = peak(&answer) * (1.0 - gap);
        let mut leanest = f64::INFINITY;
        for strategy in strategies {
            let other =
                place.line(&format!("simulate {LARGE} --engine {engine} --strategy {strategy} --json"));
            assert!([0, 4].contains(&other.code), "{engine} {strategy}: {}", other.stderr);
            let other = other.json();
            if other["prediction"]["fits"] == true {
                assert!(
                    peak(&other) >= least * (1.0 - 1e-9),
                    "{engine} {strategy}: {} below {least}",
                    peak(&other)
                );
                leanest = leanest.min(peak(&other));
            }
        }
        assert!(peak(&answer) <= leanest, "{engine}: {} above {leanest}", peak(&answer));
    }
}

/// `text` with other cuts.
fn with_cuts(text: &str, cuts: &[u32]) -> String {
    let others = text.split(',').filter(|part| !part.starts_with("cuts="));
    let cuts: Vec<String> = cuts.iter().map(u32::to_string).collect();
    others.map(str::to_owned).chain([format!("cuts={}", cuts.join("/"))]).collect::<Vec<_>>().join(",")
}

#[test]
fn no_cuts_are_leaner_than_the_least_memory() {
    let place = Place::new();
    // Cuts that were leaner than an answer said to be the least, by a quarter.
    let known = "cuts=2/7/7/7/1";
    for (setting, text) in [
        (
            "gpt2-medium --cluster 1x5xa10g --global-batch 10 --seq-len 512 --engine megatron",
            Some(format!(
                "tp=1,pp=5,dp=1,zero=1,micro=1,{known},ckpt=full,offload=optimizer:1+activations:1"
            )),
        ),
        ("gpt2-medium --cluster 1x5xa10g --global-batch 10 --seq-len 512 --engine embedded", None),
        ("llama-2-7b --cluster 1x8xa100-sxm-40gb --global-batch 16 --seq-len 1024 --engine torchtitan", None),
        // More stages than blocks.
        ("gpt2 --cluster 2x8xa10g --global-batch 32 --seq-len 512 --engine megatron", None),
    ] {
        let answer = place.line(&format!("plan {setting} --objective memory --json"));
        assert_eq!(answer.code, 0, "{setting}: {}", answer.stderr);
        let answer = answer.json();
        assert!(answer["search"]["gap"].as_f64().unwrap() <= 0.005, "{setting}: {}", answer["search"]["gap"]);
        let least = peak(&answer) * (1.0 - answer["search"]["gap"].as_f64().unwrap());
        let own = answer["strategy"]["text"].as_str().unwrap();
        let cuts: Vec<u32> = answer["strategy"]["stage_layers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|blocks| blocks.as_u64().unwrap() as u32)
            .collect();
        let moved = (0..cuts.len()).flat_map(|from| [(from, from + 1), (from + 1, from)]);
        let moved =
            moved.filter(|&(from, to)| from.max(to) < cuts.len() && cuts[from] > 0).map(|(from, to)| {
                let mut cuts = cuts.clone();
                cuts[from] -= 1;
                cuts[to] += 1;
                with_cuts(own, &cuts)
            });
        for strategy in moved.chain(text) {
            let other = place.line(&format!("simulate {setting} --strategy {strategy} --json")).json();
            let fits = other["prediction"]["fits"] == true;
            assert!(!fits || peak(&other) >= least * (1.0 - 1e-9), "{setting}: {strategy}: {}", peak(&other));
        }
    }
}

#[test]
fn the_front_is_a_front_in_what_it_prints() {
    let place = Place::new();
    for engine in ["nemo", "torchtitan", "embedded"] {
        let run = place.line(&format!("plan {LARGE} --engine {engine} --json"));
        let points: Vec<(f64, f64)> = run.json()["pareto"]
            .as_array()
            .unwrap()
            .iter()
            .map(|point| {
                let number = |key: &str| point[key].as_f64().unwrap();
                (number("step_time_s"), number("peak_memory_bytes"))
            })
            .collect();
        assert!(points.is_sorted_by(|one, next| one.0 < next.0 && one.1 > next.1), "{engine}: {points:?}");
    }
}

#[test]
fn where_nothing_fits_the_least_peak_is_named_and_what_would_do_does() {
    let place = Place::new();
    for (model, device, node, engine) in [
        ("qwen3-32b", "rtx-4090", 1, "torchtitan"),
        ("llama-3.1-70b", "a100-sxm-40gb", 8, "torchtitan"),
        ("llama-2-13b", "a100-sxm-40gb", 1, "nemo"),
    ] {
        let line = format!("plan {model} --cluster 1x{node}x{device} --engine {engine} --json");
        let run = place.line(&line);
        assert_eq!(run.code, 4, "{line}: {}", run.stderr);
        let error = &run.json()["error"];
        let message = error["message"].as_str().unwrap();
        let leanest = error["nearest"][0].as_str().unwrap();
        // What is named is legal, and takes what is said.
        let simulate = |strategy: &str| {
            let line = format!(
                "simulate {model} --cluster 1x{node}x{device} --engine {engine} --strategy {strategy}"
            );
            place.line(&format!("{line} --json"))
        };
        let process = |run: &Value| run["prediction"]["safe_memory_bytes"]["process"].as_f64().unwrap();
        let own = simulate(leanest);
        assert_eq!(own.code, 4, "{leanest}");
        for strategy in ["zero=3,ckpt=full", "ckpt=full", "tp=8,ckpt=full", "ckpt=full,loss=chunked"] {
            let other = simulate(strategy);
            if other.code == 4 && other.json()["prediction"].is_object() {
                assert!(process(&own.json()) <= process(&other.json()), "{line}: {leanest} above {strategy}");
            }
        }
        // The fewest devices that are named do, and one less does not.
        let Some(count) = message.split(" such devices would fit").next().filter(|before| *before != message)
        else {
            panic!("{line}: no count of devices in {message}");
        };
        let count: u64 = count.rsplit(' ').next().unwrap().replace(',', "").parse().unwrap();
        let fits = |devices: u64| {
            let cluster = if devices <= 8 {
                format!("1x{devices}x{device}")
            } else {
                format!("{}x8x{device}", devices / 8)
            };
            place.line(&format!("plan {model} --cluster {cluster} --engine {engine} --json")).code == 0
        };
        assert!(fits(count), "{line}: {count} do not fit");
        let fewer = if count <= 8 { count - 1 } else { count - 8 };
        assert!(fewer == 0 || !fits(fewer), "{line}: {fewer} fit, not only {count}");
    }
}
