//! Routing against sorted probabilities, slots filled by hand, and a gradient by the chain rule, in f64.

use super::operands::{BOTH, Outcome, Stored, Tensor, run};
use crate::compare::{Random, close_f32, equal};
use crate::launch::routing;
use crate::{Argument, Buffer, Case, Gpu};

pub const CASES: &[Case] = &[
    Case { name: "probabilities and choices", run: assign },
    Case { name: "ties and numbers that are none", run: ties },
    Case { name: "to slots and back, some empty, some tokens dropped", run: slots },
    Case { name: "gradient of the router", run: gradient },
];

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Router {
    tokens: usize,
    experts: usize,
    top_k: usize,
    renormalise: bool,
    slots: usize,
}

const ROUTERS: [Router; 5] = [
    Router { tokens: 1, experts: 2, top_k: 1, renormalise: false, slots: 1 },
    Router { tokens: 37, experts: 8, top_k: 2, renormalise: true, slots: 7 },
    // More slots than tokens: many stay empty.
    Router { tokens: 9, experts: 5, top_k: 3, renormalise: false, slots: 20 },
    Router { tokens: 21, experts: 100, top_k: 32, renormalise: true, slots: 5 },
    // More choices than a block looks at together.
    Router { tokens: 700, experts: 4, top_k: 2, renormalise: true, slots: 300 },
];

/// What a token is sent to: experts in order, their weights.
#[derive(Clone, Debug)]
struct Exact {
    probabilities: Vec<f64>,
    choices: Vec<usize>,
    weights: Vec<f64>,
}

impl Router {
    fn exact(&self, logits: &[f64]) -> Exact {
        let greatest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logits.iter().map(|x| (x - greatest).exp()).sum();
        let probabilities: Vec<f64> = logits.iter().map(|x| (x - greatest).exp() / sum).collect();
        let mut choices: Vec<usize> = (0..self.experts).collect();
        // Stable, so of equals the lower comes first.
        choices.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        choices.truncate(self.top_k);
        let all: f64 = choices.iter().map(|&expert| probabilities[expert]).sum();
        let share = if self.renormalise { all } else { 1.0 };
        let weights = choices.iter().map(|&expert| probabilities[expert] / share).collect();
        Exact { probabilities, choices, weights }
    }

    fn all(&self, logits: &[f64]) -> Vec<Exact> {
        logits.chunks(self.experts).map(|row| self.exact(row)).collect()
    }

    /// Slots of all choices, NONE where dropped.
    fn places(&self, exact: &[Exact]) -> Vec<u32> {
        let mut taken = vec![0; self.experts];
        let take = |&expert: &usize| {
            taken[expert] += 1;
            if taken[expert] <= self.slots { taken[expert] as u32 - 1 } else { NONE }
        };
        exact.iter().flat_map(|token| &token.choices).map(take).collect()
    }

    fn logits(&self, random: &mut Random, spread: f32) -> Vec<f32> {
        // No expert is as probable as another but by chance; the first ones are chosen more often than others.
        let value = |(at, x): (usize, &f32)| spread * x - 0.02 * (at % self.experts) as f32;
        random.values(self.tokens * self.experts).iter().enumerate().map(value).collect()
    }
}

/// A routing matrix on the device after `assign`, with what is read from it.
struct Assigned {
    routing: Buffer,
    experts: Buffer,
    weights: Buffer,
    slots: Buffer,
    entries: Buffer,
}

fn u32s<const N: usize>(sizes: [usize; N]) -> [Argument; N] {
    sizes.map(|size| Argument::U32(size as u32))
}

fn assigned(gpu: &mut Gpu, router: Router, logits: &[f32]) -> Result<Assigned, String> {
    let Router { tokens, experts, top_k, renormalise, slots } = router;
    let source = routing::source(Stored::F32.types());
    let found = Assigned {
        routing: gpu.upload(logits),
        experts: gpu.uninitialised::<u32>(tokens * top_k),
        weights: gpu.uninitialised::<f32>(tokens * top_k),
        slots: gpu.uninitialised::<u32>(tokens * top_k),
        entries: gpu.uninitialised::<u32>(experts * slots),
    };
    let [routing, of_experts, weights, of_slots, entries] =
        [found.routing, found.experts, found.weights, found.slots, found.entries].map(Argument::Buffer);
    let sizes = u32s([tokens, experts, top_k]);
    let launch = routing::assign(tokens as u32);
    run(gpu, &source, &launch, &[&[routing][..], &sizes].concat())?;
    let last = [Argument::U32(renormalise.into())];
    let launch = routing::choose(tokens as u32);
    run(gpu, &source, &launch, &[&[routing, of_experts, weights][..], &sizes, &last].concat())?;
    let launch = routing::place(experts as u32);
    let arguments = [&[of_experts, of_slots, entries][..], &u32s([tokens * top_k, slots])].concat();
    run(gpu, &source, &launch, &arguments)?;
    Ok(found)
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

fn assign(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(1);
    for router in ROUTERS {
        let logits = router.logits(&mut random, 3.0);
        let exact = router.all(&wide(&logits));
        let found = assigned(gpu, router, &logits)?;
        let mut marked = Vec::new();
        for token in &exact {
            let sign = |expert| if token.choices.contains(&expert) { -1.0 } else { 1.0 };
            marked.extend(token.probabilities.iter().enumerate().map(|(expert, p)| sign(expert) * p));
        }
        let routing: Vec<f32> = gpu.download(found.routing);
        close_f32(&format!("{router:?}"), &routing, &marked, router.experts)?;
        let choices: Vec<u32> =
            exact.iter().flat_map(|token| &token.choices).map(|&one| one as u32).collect();
        equal("choices", &gpu.download::<u32>(found.experts), &choices)?;
        let weights: Vec<f64> = exact.iter().flat_map(|token| token.weights.clone()).collect();
        close_f32("weights", &gpu.download::<f32>(found.weights), &weights, router.top_k)?;
        let places = router.places(&exact);
        equal("slots", &gpu.download::<u32>(found.slots), &places)?;
        let mut entries = vec![NONE; router.experts * router.slots];
        for (entry, (&expert, &slot)) in choices.iter().zip(&places).enumerate() {
            if slot != NONE {
                entries[expert as usize * router.slots + slot as usize] = entry as u32;
            }
        }
        equal("entries", &gpu.download::<u32>(found.entries), &entries)?;
    }
    Ok(())
}

/// Of equals the lower expert; experts that are ruled out; a row that holds no number at all.
fn ties(gpu: &mut Gpu) -> Outcome {
    let router = Router { tokens: 4, experts: 40, top_k: 3, renormalise: false, slots: 2 };
    let mut logits = vec![0f32; 160];
    logits[40..80].fill(f32::NEG_INFINITY);
    logits[60] = 1.0;
    logits[80..120].fill(f32::NAN);
    logits[120 + 39] = 2.0;
    logits[120 + 33] = 2.0;
    let found = assigned(gpu, router, &logits)?;
    let expected = [0, 1, 2, 20, 0, 1, 0, 1, 2, 33, 39, 0];
    equal("choices", &gpu.download::<u32>(found.experts), &expected)?;
    let routing: Vec<f32> = gpu.download(found.routing);
    let signs: Vec<usize> = (0..160).filter(|&at| routing[at].is_sign_negative()).collect();
    equal("marks", &signs, &[0, 1, 2, 40, 41, 60, 80, 81, 82, 120, 153, 159])?;
    equal("certainty", &routing[60..61], &[-1.0])
}

fn slots(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(2);
    for (stored, router) in BOTH.into_iter().flat_map(|stored| ROUTERS.map(|router| (stored, router))) {
        let Router { tokens, experts, top_k, slots, .. } = router;
        let source = routing::source(stored.types());
        let logits = router.logits(&mut random, 3.0);
        let exact = router.all(&wide(&logits));
        let places = router.places(&exact);
        let found = assigned(gpu, router, &logits)?;
        for (width, carried) in [(24, false), (24, true), (5, true)] {
            let x = stored.random(gpu, &mut random, tokens * width, 1.0);
            let block = slots * (width + usize::from(carried));
            let filled = stored.output(gpu, experts * block);
            let read = [found.entries, found.weights].map(Argument::Buffer);
            let more = [x.argument(), Argument::Buffer(filled)];
            let sizes = u32s([width, slots, top_k, usize::from(carried)]);
            let launch = routing::to_slots(experts as u32, slots as u32, width as u32);
            run(gpu, &source, &launch, &[&read[..], &more, &sizes].concat())?;
            let mut expected = vec![0.0; experts * block];
            for (entry, &slot) in places.iter().enumerate().filter(|(_, slot)| **slot != NONE) {
                let (token, slot) = (entry / top_k, slot as usize);
                let first = exact[token].choices[entry % top_k] * block;
                expected[first + slot * width..][..width]
                    .copy_from_slice(&x.values[token * width..][..width]);
                if carried {
                    expected[first + slots * width + slot] = exact[token].weights[entry % top_k];
                }
            }
            stored.close(gpu, &format!("slots of {router:?}"), filled, &expected, block)?;

            // Back from other values, of which the weights must not be read.
            let y = stored.random(gpu, &mut random, experts * block, 1.0);
            let tokens_back = stored.output(gpu, tokens * width);
            let read = [found.experts, found.slots].map(Argument::Buffer);
            let more = [y.argument(), Argument::Buffer(tokens_back)];
            let sizes = u32s([tokens, width, slots, top_k, usize::from(carried)]);
            let launch = routing::from_slots(tokens as u32, width as u32);
            run(gpu, &source, &launch, &[&read[..], &more, &sizes].concat())?;
            let mut expected = vec![0.0; tokens * width];
            for (entry, &slot) in places.iter().enumerate().filter(|(_, slot)| **slot != NONE) {
                let token = entry / top_k;
                let first = exact[token].choices[entry % top_k] * block + slot as usize * width;
                let row = &mut expected[token * width..(token + 1) * width];
                row.iter_mut().zip(&y.values[first..]).for_each(|(sum, value)| *sum += value);
            }
            stored.close(gpu, &format!("tokens of {router:?}"), tokens_back, &expected, width)?;
        }
    }
    Ok(())
}

/// Of Σ weight · c over the choices that kept their slot, by way of the gradients of all probabilities.
fn chain_rule(router: Router, exact: &[Exact], places: &[u32], c: &Tensor, width: usize) -> Vec<f64> {
    let block = router.slots * (width + 1);
    let mut gradient = Vec::new();
    for (token, Exact { probabilities, choices, weights }) in exact.iter().enumerate() {
        let of_weight = |choice: usize| match places[token * router.top_k + choice] {
            NONE => 0.0,
            slot => c.values[choices[choice] * block + router.slots * width + slot as usize],
        };
        let all: f64 = choices.iter().map(|&expert| probabilities[expert]).sum();
        let value: f64 = (0..router.top_k).map(|choice| weights[choice] * of_weight(choice)).sum();
        let mut of_probability = vec![0.0; router.experts];
        for (choice, &expert) in choices.iter().enumerate() {
            let c = of_weight(choice);
            of_probability[expert] = if router.renormalise { (c - value) / all } else { c };
        }
        let mean: f64 = of_probability.iter().zip(probabilities).map(|(d, p)| d * p).sum();
        gradient.extend(of_probability.iter().zip(probabilities).map(|(d, p)| p * (d - mean)));
    }
    gradient
}

fn gradient(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(3);
    let width = 7;
    for (stored, router) in BOTH.into_iter().flat_map(|stored| ROUTERS.map(|router| (stored, router))) {
        let Router { tokens, experts, top_k, renormalise, slots } = router;
        // A token that is all but sure has a gradient of differences that f32 does not hold.
        let logits = router.logits(&mut random, 1.0);
        let exact = router.all(&wide(&logits));
        let found = assigned(gpu, router, &logits)?;
        let c = stored.random(gpu, &mut random, experts * slots * (width + 1), 1.0);
        let result = gpu.uninitialised::<f32>(tokens * experts);
        let read = [found.routing, found.experts, found.weights, found.slots].map(Argument::Buffer);
        let more = [c.argument(), Argument::Buffer(result)];
        let sizes = u32s([tokens, experts, width, slots, top_k, usize::from(renormalise)]);
        let launch = routing::gradient(tokens as u32);
        run(gpu, &routing::source(stored.types()), &launch, &[&read[..], &more, &sizes].concat())?;
        let expected = chain_rule(router, &exact, &router.places(&exact), &c, width);
        close_f32(&format!("{router:?}"), &gpu.download::<f32>(result), &expected, experts)?;
    }
    Ok(())
}
