//! The tensors that a model's weights are stored in, and which part of which parameter each of them holds.

mod families;
mod placing;
#[cfg(test)]
mod tests;
mod trainable;

use super::graph::Model;
use super::layer::LayerKind;
use super::parameters::parameters;
use super::roles::Role;
use families::Names;
use placing::Parameter;
pub use trainable::{Untrainable, trainable};

/// A stored tensor, or the part of one, that holds a run of whole rows of one parameter.
///
/// Several may bear one name: GPT-2's `c_attn` holds queries, keys and values.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTensor {
    /// As in `AutoModelForCausalLM.state_dict()`; `<layer name>.<role>` where no family gives a name.
    pub name: String,
    /// The shape of the whole stored tensor.
    pub shape: Vec<u64>,
    /// Index of the layer in model order.
    pub layer: usize,
    /// The role of the parameter in its layer.
    pub role: Role,
    /// The first row of the parameter that it holds.
    pub first_row: u64,
    /// How many rows of the parameter it holds.
    pub rows: u64,
    /// Columns of the parameter, all of which it holds.
    pub columns: u64,
    pub layout: Layout,
    pub initial: Initial,
}

/// Where an element stands in a stored tensor, counted in elements from its start (row-major): row r (from
/// `first_row`) and column c stand at start + ⌊r / run⌋·run_stride + (r mod run)·row_stride + c·column_stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub start: u64,
    /// Rows that follow one another at `row_stride`.
    pub run: u64,
    pub run_stride: u64,
    pub row_stride: u64,
    pub column_stride: u64,
}

/// What a tensor holds before training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initial {
    /// Drawn from a normal distribution around 0.
    Normal {
        deviation: f64,
    },
    Constant(f64),
}

/// How tensor parallelism cuts a parameter that it does not replicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub along: Along,
    /// Equal runs along that dimension (within one expert), each of which is cut by itself: 2 for gate and up.
    pub parts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    Rows,
    Columns,
}

/// How tensor parallelism cuts the parameter `role` of a layer of this kind.
pub fn cut(kind: &LayerKind, role: Role) -> Cut {
    match role {
        Role::Output | Role::Down | Role::SharedDown | Role::ExpertDown => {
            Cut { along: Along::Columns, parts: 1 }
        }
        Role::Up | Role::UpBias | Role::SharedUp | Role::ExpertUp | Role::ExpertUpBias => {
            Cut { along: Along::Rows, parts: if gated(kind) { 2 } else { 1 } }
        }
        _ => Cut { along: Along::Rows, parts: 1 },
    }
}

fn gated(kind: &LayerKind) -> bool {
    match kind {
        LayerKind::Mlp(mlp) => mlp.gated,
        LayerKind::Moe(moe) => moe.gated,
        _ => false,
    }
}

impl NamedTensor {
    /// Elements of the whole stored tensor.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Where row `row` of the parameter (one that it holds) and column `column` stand, in elements.
    pub fn position(&self, row: u64, column: u64) -> u64 {
        let Layout { start, run, run_stride, row_stride, column_stride } = self.layout;
        let row = row - self.first_row;
        start + row / run * run_stride + row % run * row_stride + column * column_stride
    }

    /// Whether weight decay applies: to tensors of two or more dimensions.
    pub fn decays(&self) -> bool {
        self.shape.len() > 1
    }
}

/// The tensors of all layers, in model order, roles in the order of [`parameters`], rows ascending.
///
/// A tied weight appears once, under its embedding.
pub fn tensors(model: &Model) -> Vec<NamedTensor> {
    let names = Names::of(model);
    let mut list = Vec::new();
    for (index, layer) in model.layers().enumerate() {
        for tensor in parameters(&layer.kind) {
            Parameter { model, index, layer, tensor }.store(names, &mut list);
        }
    }
    list
}
