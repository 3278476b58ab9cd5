//! Sixty random legal strategies on up to eight ranks that share a GPU, against the CPU's.

use meshwright::model::Model;

use crate::strategies::{Dice, Draw, random_text, strategy};
use crate::{check, models, workload};

/// How many a test tries; `MESHWRIGHT_STRATEGIES` asks for more.
const COUNT: usize = 10;

fn check_random(model: &Model, seed: u64) {
    let count = std::env::var("MESHWRIGHT_STRATEGIES").ok().and_then(|count| count.parse().ok());
    let draw = Draw::of(model);
    let mut dice = Dice::new(seed);
    let mut checked = 0;
    while checked < count.unwrap_or(COUNT) {
        let devices = dice.pick(&[2, 2, 4, 4, 8]);
        let text = random_text(&mut dice, devices, draw);
        if strategy(model, &text, devices, &workload(0.0)).is_none() {
            continue;
        }
        eprintln!("{text} on {devices}");
        check(model, &text, devices, 0.0);
        checked += 1;
    }
}

#[test]
fn gpt2_under_random_strategies() {
    check_random(&models::gpt2(), 11);
}

#[test]
fn gpt2_under_more_random_strategies() {
    check_random(&models::gpt2(), 21);
}

#[test]
fn llama_under_random_strategies() {
    check_random(&models::llama(), 12);
}

#[test]
fn llama_under_more_random_strategies() {
    check_random(&models::llama(), 22);
}

#[test]
fn mixtral_under_random_strategies() {
    check_random(&models::mixtral(), 13);
}

#[test]
fn mixtral_under_more_random_strategies() {
    check_random(&models::mixtral(), 23);
}
