//! Weights that all differ from one another, biases and gains of norms too: where a program moves some to a wrong place, its
//! numbers tell.

use meshwright::execute::weights::Weights;
use meshwright::model::Model;
use meshwright::model::tensors::{Initial, tensors};
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};

use crate::dice::Dice;

/// How far a weight lies from what its kind begins with.
const SPREAD: f64 = 0.1;

/// Weights of `model`, the same ones each time.
pub fn uneven(model: &Model) -> Weights {
    weights(model, "")
}

/// The same, but that the tensor `odd` is of values that are no numbers.
pub fn weights(model: &Model, odd: &str) -> Weights {
    let folder = tempfile::tempdir().unwrap();
    let mut dice = Dice::new(3);
    let mut number = |middle: f64| {
        let fraction = (dice.next() >> 11) as f64 / (1u64 << 53) as f64;
        (middle + SPREAD * (2.0 * fraction - 1.0)) as f32
    };
    let mut stored = tensors(model);
    // Several parameters may lie in one tensor, as queries, keys and values do.
    stored.sort_by(|one, other| one.name.cmp(&other.name));
    stored.dedup_by(|one, other| one.name == other.name);
    let kept: Vec<(String, Vec<usize>, Vec<u8>)> = stored
        .into_iter()
        .map(|tensor| {
            let middle = match tensor.initial {
                _ if tensor.name == odd => f32::NAN.into(),
                Initial::Normal { .. } => 0.0,
                Initial::Constant(value) => value,
            };
            let shape: Vec<usize> = tensor.shape.iter().map(|size| *size as usize).collect();
            let values = (0..shape.iter().product()).flat_map(|_| number(middle).to_le_bytes()).collect();
            (tensor.name, shape, values)
        })
        .collect();
    let views = kept.iter().map(|(name, shape, bytes)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
    });
    serialize_to_file(views, None, &folder.path().join("model.safetensors")).unwrap();
    Weights::open(model, folder.path()).unwrap()
}
