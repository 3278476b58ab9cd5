//! Routing against plain sorting, and gradients against finite differences of a whole small mixture.

use super::*;

const TOKENS: usize = 23;
const WIDTH: usize = 5;

fn numbers(seed: f64, count: usize) -> Vec<f64> {
    (0..count).map(|turn| ((turn as f64 + seed) * 12.9898).sin() * 2.0).collect()
}

fn routers() -> impl Iterator<Item = Router> {
    [true, false].into_iter().flat_map(|renormalise| {
        [(4, 2, 23), (4, 2, 8), (6, 1, 3), (6, 3, 7), (5, 5, 23), (8, 2, 1)]
            .map(|(experts, top_k, slots)| Router { experts, top_k, renormalise, slots })
    })
}

/// (expert, weight, slot if it was not dropped) of each token, by sorting.
fn plain(router: &Router, logits: &[f64]) -> Vec<Vec<(usize, f64, Option<usize>)>> {
    let mut taken = vec![0; router.experts];
    let tokens = logits.chunks(router.experts).map(|row| {
        let sum: f64 = row.iter().map(|logit| logit.exp()).sum();
        let mut order: Vec<usize> = (0..router.experts).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
        order.truncate(router.top_k);
        let all: f64 = order.iter().map(|&expert| row[expert].exp() / sum).sum();
        let place = |expert: usize| {
            let weight = row[expert].exp() / sum / if router.renormalise { all } else { 1.0 };
            taken[expert] += 1;
            (expert, weight, (taken[expert] <= router.slots).then(|| taken[expert] - 1))
        };
        order.into_iter().map(place).collect()
    });
    tokens.collect()
}

/// What expert `expert` makes of a row: linear, so that its backward is itself.
fn scale(expert: usize, column: usize) -> f64 {
    1.0 + expert as f64 * 0.5 - column as f64 * 0.3
}

/// Tokens through the mixture, by plain loops.
fn oracle(router: &Router, logits: &[f64], tokens: &[f64]) -> Vec<f64> {
    let mut output = vec![0.0; tokens.len()];
    for (token, choices) in plain(router, logits).into_iter().enumerate() {
        for (expert, weight, slot) in choices {
            for column in 0..WIDTH {
                let value = tokens[token * WIDTH + column] * scale(expert, column);
                output[token * WIDTH + column] += if slot.is_some() { weight * value } else { 0.0 };
            }
        }
    }
    output
}

fn objective(router: &Router, logits: &[f64], tokens: &[f64]) -> f64 {
    oracle(router, logits, tokens).iter().zip(numbers(7.0, tokens.len())).map(|(a, b)| a * b).sum()
}

/// The experts, on slots.
fn experts(router: &Router, slots: &[f64]) -> Vec<f64> {
    let of = |(place, value): (usize, &f64)| value * scale(place / WIDTH / router.slots, place % WIDTH);
    slots.iter().enumerate().map(of).collect()
}

fn assert_near(left: &[f64], right: &[f64], tolerance: f64, what: &Router) {
    assert_eq!(left.len(), right.len());
    for (place, (left, right)) in left.iter().zip(right).enumerate() {
        assert!((left - right).abs() <= tolerance, "{what:?}, {place}: {left} is not {right}");
    }
}

/// Rows without what they carry, and what they carry.
fn parted(router: &Router, slots: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let blocks = slots.chunks(router.slots * (WIDTH + 1)).map(|block| block.split_at(router.slots * WIDTH));
    let (rows, carried): (Vec<_>, Vec<_>) = blocks.unzip();
    (rows.concat(), carried.concat())
}

/// Rows with what they carry behind those of each expert.
fn joined(router: &Router, rows: &[f64], carried: &[f64]) -> Vec<f64> {
    let parts = rows.chunks(router.slots * WIDTH).zip(carried.chunks(router.slots));
    parts.flat_map(|(rows, carried)| [rows, carried].concat()).collect()
}

/// Each row times its slot's weight.
fn weighted(rows: &[f64], weights: &[f64]) -> Vec<f64> {
    rows.iter().enumerate().map(|(place, value)| value * weights[place / WIDTH]).collect()
}

fn mixture(router: &Router, pool: Pool<'_>) -> [Vec<f64>; 4] {
    let (mut routing, tokens) = (numbers(1.0, TOKENS * router.experts), numbers(2.0, TOKENS * WIDTH));
    assign(router, &mut routing, pool);
    let mut slots = vec![f64::NAN; router.experts * router.slots * (WIDTH + 1)];
    to_slots(router, &routing, &tokens, &mut slots, Carried::Weights, pool);
    let (slots, weights) = parted(router, &slots);
    let rows = experts(router, &slots);
    let mut output = vec![f64::NAN; tokens.len()];
    from_slots(router, &routing, &weighted(&rows, &weights), &mut output, Carried::Nothing, pool);

    let mut gradients = vec![f64::NAN; slots.len()];
    let given = numbers(7.0, tokens.len());
    to_slots(router, &routing, &given, &mut gradients, Carried::Nothing, pool);
    let products = rows.chunks(WIDTH).zip(gradients.chunks(WIDTH));
    let products: Vec<f64> =
        products.map(|(row, gradient)| row.iter().zip(gradient).map(|(a, b)| a * b).sum()).collect();
    let gradients = joined(router, &experts(router, &weighted(&gradients, &weights)), &products);
    let mut router_gradients = vec![f64::NAN; routing.len()];
    router_gradient(router, &routing, (&gradients, WIDTH), &mut router_gradients, pool);
    let mut token_gradients = vec![f64::NAN; tokens.len()];
    from_slots(router, &routing, &gradients, &mut token_gradients, Carried::Weights, pool);
    [routing, output, router_gradients, token_gradients]
}

#[test]
fn choices_are_those_of_sorting() {
    for router in routers() {
        let logits = numbers(1.0, TOKENS * router.experts);
        let [routing, output, ..] = mixture(&router, Pool::Serial);
        for (row, expected) in routing.chunks(router.experts).zip(plain(&router, &logits)) {
            let choices = router.choices(row);
            assert_eq!(choices.len(), router.top_k);
            for (choice, (expert, weight, _)) in choices.iter().zip(expected) {
                assert_eq!(choice.expert, expert);
                assert!((choice.weight - weight).abs() < 1e-14);
            }
        }
        assert_near(&output, &oracle(&router, &logits, &numbers(2.0, TOKENS * WIDTH)), 1e-13, &router);
    }
}

#[test]
fn gradients_agree_with_finite_differences() {
    const STEP: f64 = 1e-5;
    for router in routers() {
        let [_, _, router_gradients, token_gradients] = mixture(&router, Pool::Serial);
        let (logits, tokens) = (numbers(1.0, TOKENS * router.experts), numbers(2.0, TOKENS * WIDTH));
        let moved = |values: &[f64], place: usize, step: f64| {
            let mut moved = values.to_vec();
            moved[place] += step;
            moved
        };
        let slope = |at: &dyn Fn(f64) -> f64| (at(STEP) - at(-STEP)) / (2.0 * STEP);
        let of_logits: Vec<f64> = (0..logits.len())
            .map(|place| slope(&|step| objective(&router, &moved(&logits, place, step), &tokens)))
            .collect();
        let of_tokens: Vec<f64> = (0..tokens.len())
            .map(|place| slope(&|step| objective(&router, &logits, &moved(&tokens, place, step))))
            .collect();
        assert_near(&router_gradients, &of_logits, 1e-8, &router);
        assert_near(&token_gradients, &of_tokens, 1e-8, &router);
    }
}

#[test]
fn threads_change_no_bit() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for router in routers() {
        assert_eq!(mixture(&router, Pool::Serial), mixture(&router, Pool::Threads(&pool)));
    }
}

#[test]
fn equal_logits_go_to_the_lowest_expert_and_nan_does_not_panic() {
    let router = Router { experts: 5, top_k: 2, renormalise: false, slots: 2 };
    let mut routing = vec![1.0_f32; 10];
    routing[7] = f32::NAN;
    assign(&router, &mut routing, Pool::Serial);
    let experts = |token: usize| {
        let choices = router.choices(&routing[token * 5..][..5]);
        choices.iter().map(|choice| choice.expert).collect::<Vec<_>>()
    };
    assert_eq!(experts(0), [0, 1]);
    assert_eq!(experts(1).len(), 2);
    // Far below the most probable expert: a probability of zero is chosen all the same.
    let mut routing = vec![0.0_f32, -1e9, 0.0, -1e9, -1e9];
    let router = Router { top_k: 4, ..router };
    assign(&router, &mut routing, Pool::Serial);
    let choices = router.choices(&routing);
    assert_eq!(choices.iter().map(|choice| choice.expert).collect::<Vec<_>>(), [0, 2, 1, 3]);
}
