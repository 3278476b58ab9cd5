//! Gradients by name: under every strategy the ranks' shards make up the gradient that one rank has.

use std::collections::HashMap;
use std::ops::ControlFlow;

use meshwright::execute::contents::Kept;
use meshwright::execute::data::{Batches, Synthetic, Tokens};
use meshwright::execute::error::ExecuteError;
use meshwright::execute::fleet::{Fleet, StepResult, Watcher};
use meshwright::execute::gradients::{GradientShard, Gradients};
use meshwright::execute::run::{Job, Run, Settings};
use meshwright::execute::weights::Weights;
use meshwright::model::Model;
use meshwright::profile::engines::engine;
use meshwright::program::GradientBuffer;
use meshwright::program::instruction::Holds;
use meshwright::strategy::{Strategy, Workload};

use crate::models;
use crate::strategies::{Dice, Draw, random_text, strategy, workload};

/// What was seen of each gradient where a step halts before its optimizer.
#[derive(Default)]
struct Seen {
    names: Vec<String>,
    shards: HashMap<String, Vec<GradientShard>>,
    whole: HashMap<String, Vec<f64>>,
    norms: HashMap<String, f64>,
    global_norm: f64,
}

struct Looker {
    batches: Batches,
    seen: Seen,
}

impl Watcher for Looker {
    fn load(&mut self, fleet: &Fleet, step: u64) -> Result<(), ExecuteError> {
        assert!(matches!(fleet.gradients(), Err(ExecuteError::NoGradients)), "before step {step}");
        fleet.load(&self.batches, step)?;
        Ok(())
    }

    fn wants_gradients(&self, step: u64) -> bool {
        step == 1
    }

    fn gradients(&mut self, fleet: &Fleet, _step: u64) -> Result<(), ExecuteError> {
        let gradients = fleet.gradients()?;
        self.seen.names = gradients.names().into_iter().map(str::to_owned).collect();
        for name in &self.seen.names {
            let whole = gradients.whole(name)?;
            assert_eq!(whole.values.len() as u64, whole.shape.iter().product::<u64>(), "{name}");
            self.seen.whole.insert(name.clone(), whole.values);
            self.seen.shards.insert(name.clone(), gradients.shards(name)?);
            self.seen.norms.insert(name.clone(), gradients.norm(name)?);
        }
        let wrong = gradients.norm("wieght");
        assert!(matches!(wrong, Err(ExecuteError::UnknownParameter { .. })));
        check_read(fleet, &gradients);
        Ok(())
    }

    fn step(&mut self, fleet: &Fleet, result: &StepResult) -> Result<ControlFlow<()>, ExecuteError> {
        self.seen.global_norm = result.gradient_norm;
        // The optimizer leaves them as they were.
        let gradients = fleet.gradients()?;
        for name in &self.seen.names {
            assert_eq!(gradients.shards(name)?, self.seen.shards[name], "{name}");
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Sums of squares by name are those of the parameters that the names are parts of.
fn check_read(fleet: &Fleet, gradients: &Gradients<'_>) {
    let squares = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
    let by_role: f64 = fleet.read(Kept::Gradients).values().map(|values| squares(values)).sum();
    let by_name: f64 =
        gradients.names().iter().map(|name| squares(&gradients.whole(name).unwrap().values)).sum();
    assert!((by_role - by_name).abs() <= 1e-12 * by_role, "{by_role} {by_name}");
}

fn look(model: &Model, strategy: Strategy, workload: Workload) -> (Fleet, Seen) {
    let job = Job { model: model.clone(), strategy, workload, engine: engine("embedded").unwrap() };
    let settings = Settings { learning_rate: 1e-2, poison: true, cores: 1, ..Settings::default() };
    let run = Run::new(job, settings).unwrap();
    let vocabulary = if model.name == "golden" { 97 } else { 61 };
    let tokens = Tokens::Synthetic(Synthetic::new(7, vocabulary).unwrap());
    let (length, data) = (workload.seq_len, run.strategy.data);
    let batches = Batches::new(tokens, length, workload.global_batch, data, None).unwrap();
    let fleet = Fleet::new(run).unwrap();
    fleet.set_parameters(&Weights::random(model, 3));
    let mut looker = Looker { batches, seen: Seen::default() };
    fleet.train((0, 2), &mut looker).unwrap();
    (fleet, looker.seen)
}

/// Shards make up the whole, each element once; copies are the same to the bit; each lies in its buffer, beside the
/// others; and norms of shards are norms of wholes.
fn check_shards(fleet: &Fleet, seen: &Seen, case: &str) {
    let mut squares = 0.0;
    let mut taken: Vec<(usize, u32, std::ops::Range<usize>)> = Vec::new();
    for name in &seen.names {
        let whole = &seen.whole[name];
        let mut held = vec![0_u32; whole.len()];
        for GradientShard { place, values } in &seen.shards[name] {
            assert_eq!(place.elements.len(), values.len(), "{case}: {name}");
            assert_eq!(place.flat.len(), values.len(), "{case}: {name}");
            assert_eq!(place.indices().count(), values.len(), "{case}: {name}");
            for (index, value) in place.indices().zip(values) {
                held[index] += u32::from(place.counts);
                assert!(whole[index] == *value, "{case}: {name}[{index}] on rank {}", place.rank);
            }
            let rank = &fleet.ranks[place.rank];
            assert_eq!(place.stage, rank.stage);
            let holds = match place.buffer {
                GradientBuffer::Whole => Holds::Gradients,
                _ => Holds::GradientShards,
            };
            let buffer = rank.state(holds, Some(place.unit)).unwrap().device;
            assert!(place.elements.end * 8 <= buffer.bytes, "{case}: {name}");
            taken.push((place.rank, place.unit, place.elements.clone()));
        }
        assert!(held.iter().all(|&times| times == 1), "{case}: {name}: {held:?}");
        let exact = whole.iter().map(|value| value * value).sum::<f64>();
        let norm = seen.norms[name];
        assert!((norm - exact.sqrt()).abs() <= 1e-11 * exact.sqrt() + 1e-30, "{case}: {name}: {norm}");
        squares += norm * norm;
    }
    taken.sort_by_key(|(rank, unit, elements)| (*rank, *unit, elements.start));
    for pair in taken.windows(2) {
        let apart = (pair[0].0, pair[0].1) != (pair[1].0, pair[1].1) || pair[0].2.end <= pair[1].2.start;
        assert!(apart, "{case}: {pair:?}");
    }
    let norm = seen.global_norm;
    assert!((squares.sqrt() - norm).abs() <= 1e-11 * norm, "{case}: {} {norm}", squares.sqrt());
}

/// Whole gradients are those of one rank, relative to the largest norm of a weight.
fn check_equal(seen: &Seen, one: &Seen, case: &str) {
    assert_eq!(seen.names, one.names, "{case}");
    let largest = one.norms.values().fold(0.0_f64, |most, norm| most.max(*norm));
    for (name, expected) in &one.whole {
        for (index, (found, expected)) in seen.whole[name].iter().zip(expected).enumerate() {
            let error = (found - expected).abs() / one.norms[name].max(1e-3 * largest);
            assert!(error <= 1e-10, "{case}: {name}[{index}]: {found} in place of {expected}");
        }
    }
}

fn check(model: &Model, seed: u64, fixed: &[(&str, u64)], random: usize) {
    let workload = workload(1.0, 0.0);
    let is_moe = fixed.iter().any(|(text, _)| text.contains("ep="));
    let single = if is_moe { "micro=8,capacity=full" } else { "micro=8" };
    let (_, one) = look(model, strategy(model, single, 1, &workload).unwrap(), workload);
    let mut cases: Vec<(String, u64)> =
        fixed.iter().map(|(text, devices)| ((*text).to_owned(), *devices)).collect();
    let mut dice = Dice::new(seed);
    while cases.len() < fixed.len() + random {
        let devices = dice.pick(&[2, 4, 4, 8]);
        let text = random_text(&mut dice, devices, Draw::of(model));
        if strategy(model, &text, devices, &workload).is_some() {
            cases.push((text, devices));
        }
    }
    for (text, devices) in cases {
        let case = format!("{text} on {devices}");
        let strategy = strategy(model, &text, devices, &workload).unwrap_or_else(|| panic!("{case}"));
        let (fleet, seen) = look(model, strategy, workload);
        check_shards(&fleet, &seen, &case);
        check_equal(&seen, &one, &case);
    }
}

#[test]
fn shards_of_gpt2_make_up_its_gradients() {
    let cases = [
        ("dp=2,micro=2,zero=0", 2),
        ("dp=4,micro=1,zero=1,shard=2", 4),
        ("tp=2,pp=2,micro=2,zero=2", 4),
        ("pp=2,dp=2,micro=1,zero=1,sched=zb-v,virtual=2", 4),
    ];
    check(&models::gpt2(), 21, &cases, 8);
}

#[test]
fn shards_of_llama_make_up_its_gradients() {
    let cases = [
        ("dp=4,micro=1,zero=2,sync=immediate", 4),
        ("dp=4,micro=1,zero=3,shard=2,sync=scatter", 4),
        ("dp=2,micro=1,zero=3,sync=deferred", 2),
        ("tp=4,dp=2,micro=1,zero=1", 8),
        ("cp=2,dp=2,micro=2,zero=2", 4),
    ];
    check(&models::llama(), 22, &cases, 8);
}

#[test]
fn shards_of_mixtral_make_up_its_gradients() {
    let cases = [
        ("dp=4,micro=1,ep=2,zero=2,capacity=full", 4),
        ("tp=2,dp=2,micro=1,ep=2,zero=1,capacity=full", 4),
        ("tp=2,dp=2,micro=1,ep=2,etp=1,zero=3,capacity=full", 4),
    ];
    check(&models::mixtral(), 23, &cases, 6);
}

#[test]
fn shards_of_two_losses_make_up_their_gradients() {
    check(&models::two_losses(), 24, &[("dp=2,micro=1,zero=2", 2)], 4);
}

/// The flat gradient of a unit, put together from the shards of its ranks without their padding, is the gradients
/// of its weights one behind the other.
#[test]
fn concatenated_shards_are_the_flat_gradient() {
    let (model, workload) = (models::llama(), workload(1.0, 0.0));
    for text in ["dp=4,micro=1,zero=2,sync=immediate", "dp=4,micro=1,zero=1", "dp=4,micro=1,zero=3,shard=2"] {
        let (fleet, seen) = look(&model, strategy(&model, text, 4, &workload).unwrap(), workload);
        // The vocabulary has padding of its own.
        let blocks = fleet.ranks[0].units.iter().filter(|unit| unit.layers[0].block.is_some());
        for unit in blocks {
            let mut shards: Vec<(&str, &GradientShard)> = Vec::new();
            for (name, held) in &seen.shards {
                let own = held.iter().filter(|shard| shard.place.unit == unit.index && shard.place.counts);
                shards.extend(own.map(|shard| (name.as_str(), shard)));
            }
            shards.sort_by_key(|(_, shard)| shard.place.flat.start);
            let trained = unit.tensors.trained();
            let total: usize = shards.iter().map(|(_, shard)| shard.values.len()).sum();
            assert_eq!(total, trained, "{text}: unit {}", unit.index);
            let mut together: HashMap<&str, Vec<f64>> = HashMap::new();
            let mut end = 0;
            for (name, shard) in shards {
                assert_eq!(shard.place.flat.start, end, "{text}: only the end is padded");
                end = shard.place.flat.end;
                together.entry(name).or_default().extend(&shard.values);
            }
            for (name, values) in together {
                assert!(values == seen.whole[name], "{text}: {name}");
            }
        }
    }
}

/// A frozen weight has no gradient, and the error says so.
#[test]
fn frozen_weights_have_none() {
    let (mut model, workload) = (models::llama(), workload(1.0, 0.0));
    for layer in model.graph.node_weights_mut().filter(|layer| layer.block == Some(1)) {
        layer.frozen = true;
    }
    let (fleet, seen) =
        look(&model, strategy(&model, "dp=2,micro=2,zero=2", 2, &workload).unwrap(), workload);
    check_shards(&fleet, &seen, "frozen");
    let name = "model.layers.1.mlp.down_proj.weight";
    assert!(!seen.names.iter().any(|other| other == name));
    let error = fleet.gradients().unwrap().shards(name).unwrap_err();
    assert!(error.to_string().contains("frozen"), "{error}");
}
