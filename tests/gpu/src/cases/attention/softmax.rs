//! What lies between the products of attention that keeps its probabilities, against the reference.

use super::reference::{Tensors, Trial, dot};
use super::setup::Setup;
use crate::cases::operands::{NULL, Outcome, Stored, run};
use crate::compare::Random;
use crate::launch::attention;
use crate::{Argument, Gpu};

impl Trial {
    /// Probabilities of scores of `products` [sequences, heads, queries, keys], and what dropout leaves of them.
    fn softmax(&self, products: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let mut probabilities = Vec::new();
        let mut left = Vec::new();
        for ((sequence, head, query), row) in self.rows().zip(products.chunks(self.key_tokens())) {
            let weight = |(key, &product): (usize, &f64)| {
                let seen = self.sees(query, key);
                if seen { self.score(product, head, query, key).0.exp() } else { 0.0 }
            };
            let weights: Vec<f64> = row.iter().enumerate().map(weight).collect();
            let sum = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            for (key, weight) in weights.into_iter().enumerate() {
                probabilities.push(weight / sum);
                left.push(weight / sum * self.dropped(sequence, head, query, key));
            }
        }
        (probabilities, left)
    }

    /// Gradients of the scores, times the scale, by those of what dropout left.
    fn softmax_backward(&self, probabilities: &[f64], gradients: &[f64]) -> Vec<f64> {
        let keys = self.key_tokens();
        let rows = self.rows().zip(probabilities.chunks(keys).zip(gradients.chunks(keys)));
        let of_row = |((sequence, head, query), (row, gradients)): (_, (&[f64], &[f64]))| {
            let dropped =
                |(key, gradient): (usize, &f64)| gradient * self.dropped(sequence, head, query, key);
            let gradients: Vec<f64> = gradients.iter().enumerate().map(dropped).collect();
            let delta = dot(row, &gradients);
            row.iter()
                .zip(gradients)
                .map(|(p, gradient)| p * (gradient - delta) * self.scale)
                .collect::<Vec<_>>()
        };
        rows.flat_map(of_row).collect()
    }

    /// Gradients of products, but for the scale, from those of what the cap made of them. Where a key is not seen, its own
    /// stays: it is zero in a step.
    fn uncapped(&self, of: &Tensors, gradients: &[f64]) -> Vec<f64> {
        let scores = self.rows().flat_map(|(sequence, head, query)| self.scores(of, sequence, head, query));
        let factors = scores.map(|(score, by)| if score.is_finite() { by / self.scale } else { 1.0 });
        factors.zip(gradients).map(|(factor, gradient)| factor * gradient).collect()
    }
}

/// Forward and backward of the softmax, and of the soft cap where there is one.
pub fn check(gpu: &mut Gpu, stored: Stored, trial: Trial) -> Outcome {
    let setup = Setup::new(gpu, stored, trial);
    let trial = &setup.trial;
    let mut random = Random(trial.tokens() as u64);
    let keys = trial.key_tokens();
    let pairs = trial.batch * trial.heads * trial.tokens() * keys;

    let products = stored.random(gpu, &mut random, pairs, (trial.query_dim as f32).sqrt());
    let dropped = trial.dropout.map(|_| stored.output(gpu, pairs));
    let (source, launch) = attention::softmax(&setup.shape);
    let results = [products.argument(), dropped.map_or(NULL, Argument::Buffer)];
    run(gpu, &source, &launch, &[&results[..], &setup.core()].concat())?;
    let (probabilities, left) = trial.softmax(&products.values);
    let what = |name| format!("{name} of {:?}", setup.shape);
    stored.close(gpu, &what("probabilities"), products.buffer, &probabilities, keys)?;
    if let Some(dropped) = dropped {
        stored.close(gpu, &what("probabilities after dropout"), dropped, &left, keys)?;
    }

    let kept = stored.upload(gpu, &probabilities.iter().map(|&one| one as f32).collect::<Vec<_>>());
    let gradients = stored.random(gpu, &mut random, pairs, 1.0);
    let (source, launch) = attention::softmax_backward(&setup.shape);
    let tensors = [kept.argument(), gradients.argument()];
    run(gpu, &source, &launch, &[&tensors[..], &setup.core()].concat())?;
    let expected = trial.softmax_backward(&kept.values, &gradients.values);
    stored.close(gpu, &what("gradients of scores"), gradients.buffer, &expected, keys)?;
    if trial.soft_cap.is_some() { soft_cap(gpu, stored, &setup) } else { Ok(()) }
}

fn soft_cap(gpu: &mut Gpu, stored: Stored, setup: &Setup) -> Outcome {
    let trial = &setup.trial;
    let pairs = trial.batch * trial.heads * trial.tokens() * trial.key_tokens();
    let gradients = stored.random(gpu, &mut Random(3), pairs, 1.0);
    let (source, launch) = attention::soft_cap_backward(&setup.shape);
    let inputs = setup.inputs();
    let arguments = [&inputs[..3], &inputs[4..], &[gradients.argument()]].concat();
    run(gpu, &source, &launch, &[arguments, setup.core()].concat())?;
    let expected = trial.uncapped(&setup.tensors, &gradients.values);
    let what = format!("gradients through the cap of {:?}", setup.shape);
    stored.close(gpu, &what, gradients.buffer, &expected, trial.key_tokens())
}
