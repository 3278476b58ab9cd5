//! The tensors that a model's weights are stored in, and which part of which parameter each of them holds.

mod families;
#[cfg(test)]
mod tests;
mod trainable;

use super::graph::Model;
use super::layer::{Attention, Layer, LayerKind, NormKind, Projection};
use super::parameters::{ParameterTensor, parameters};
use families::{Form, Names};
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
    pub role: &'static str,
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
pub fn cut(kind: &LayerKind, role: &str) -> Cut {
    match role {
        "output" | "down" | "shared down" | "expert down" => Cut { along: Along::Columns, parts: 1 },
        "up" | "up bias" | "shared up" | "expert up" | "expert up bias" => {
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

/// One parameter of a layer on its way into stored tensors.
struct Parameter<'a> {
    model: &'a Model,
    index: usize,
    layer: &'a Layer,
    tensor: ParameterTensor,
}

/// Rows `first` to `first + rows` of a parameter, under the stem of a name and with what is appended to it.
struct Part<'a> {
    stem: &'a str,
    suffix: &'static str,
    first: u64,
    rows: u64,
}

impl Parameter<'_> {
    fn store(&self, names: Option<&'static Names>, list: &mut Vec<NamedTensor>) {
        let ParameterTensor { role, rows, .. } = self.tensor;
        let (stem_role, bias) = role.strip_suffix(" bias").map_or((role, false), |stem| (stem, true));
        let suffix = if bias { ".bias" } else { ".weight" };
        let found = names.and_then(|names| names.find(self.layer, stem_role));
        let Some((prefix, form)) = found else {
            let name = format!("{}.{role}", self.layer.name).replace(' ', "_");
            return self.generic(&name, list);
        };
        let whole = |stem: &str, list: &mut Vec<NamedTensor>| {
            self.norm_or_whole(&format!("{prefix}{stem}"), suffix, list);
        };
        match form {
            Form::Whole(stem) => whole(stem, list),
            Form::Bare(stem) => {
                let part = Part { stem: &format!("{prefix}{stem}"), suffix: "", first: 0, rows };
                list.push(self.plain(&part));
            }
            Form::Transposed(stem) if bias => whole(stem, list),
            Form::Transposed(stem) => {
                let part = Part { stem: &format!("{prefix}{stem}"), suffix, first: 0, rows };
                list.push(self.transposed(&part, 0, rows));
            }
            Form::Gated { up, .. } if !gated(&self.layer.kind) => whole(up, list),
            Form::Gated { gate, up } => {
                for (stem, first) in [(gate, 0), (up, rows / 2)] {
                    let stem = &format!("{prefix}{stem}");
                    list.push(self.plain(&Part { stem, suffix, first, rows: rows / 2 }));
                }
            }
            Form::Experts(stems) => {
                let ups = if role.starts_with("expert up") && gated(&self.layer.kind) { 2 } else { 1 };
                self.experts(&prefix, &stems[stems.len() - ups.min(stems.len())..], suffix, list);
            }
            Form::Stacked(stem) => {
                let (start, total) = self.stacked();
                let part = Part { stem: &format!("{prefix}{stem}"), suffix, first: 0, rows };
                list.push(self.placed(
                    &part,
                    total,
                    Layout { start: start * self.tensor.columns, ..self.rows() },
                ));
            }
            Form::StackedTransposed(stem) => {
                let (start, total) = self.stacked();
                let part = Part { stem: &format!("{prefix}{stem}"), suffix, first: 0, rows };
                list.push(self.transposed(&part, start, total));
            }
            Form::ByHead(stem) => {
                let part = Part { stem: &format!("{prefix}{stem}"), suffix, first: 0, rows };
                list.push(self.by_head(&part));
            }
        }
    }

    /// Without a family's names: one tensor a parameter.
    fn generic(&self, name: &str, list: &mut Vec<NamedTensor>) {
        let ParameterTensor { rows, .. } = self.tensor;
        let weights = self.norm_width().unwrap_or(rows);
        for (first, part) in [(0, weights), (weights, rows - weights)] {
            if part > 0 {
                let start = first * self.tensor.columns;
                let part = Part { stem: name, suffix: "", first, rows: part };
                list.push(self.placed(&part, rows, Layout { start, ..self.rows() }));
            }
        }
    }

    /// A norm's weight and bias are two tensors, everything else is one.
    fn norm_or_whole(&self, stem: &str, suffix: &'static str, list: &mut Vec<NamedTensor>) {
        let rows = self.tensor.rows;
        let Some(width) = self.norm_width() else {
            return list.push(self.plain(&Part { stem, suffix, first: 0, rows }));
        };
        list.push(self.plain(&Part { stem, suffix: ".weight", first: 0, rows: width }));
        if rows > width {
            list.push(self.plain(&Part { stem, suffix: ".bias", first: width, rows: rows - width }));
        }
    }

    /// Each expert has its own tensors: gate and up, or one.
    fn experts(&self, prefix: &str, stems: &[&str], suffix: &'static str, list: &mut Vec<NamedTensor>) {
        let LayerKind::Moe(moe) = &self.layer.kind else { return };
        let rows = self.tensor.rows / moe.experts / stems.len() as u64;
        for expert in 0..moe.experts {
            for (stem, turn) in stems.iter().zip(0..) {
                let stem = &format!("{prefix}{}", stem.replace("{}", &expert.to_string()));
                let first = (expert * stems.len() as u64 + turn) * rows;
                list.push(self.plain(&Part { stem, suffix, first, rows }));
            }
        }
    }

    /// The first row of this query, key or value in all three one behind the other, and the rows of all.
    fn stacked(&self) -> (u64, u64) {
        let (query, key) = self.query_and_key_rows();
        let start = match self.tensor.role {
            "key" | "key bias" => query,
            "value" | "value bias" => query + key,
            _ => 0,
        };
        (start, query + 2 * key)
    }

    /// For each key-value head: its query heads, its key head, its value head.
    fn by_head(&self, part: &Part<'_>) -> NamedTensor {
        let (query, key) = self.query_and_key_rows();
        let (group, head) = match &self.layer.kind {
            LayerKind::Attention(attention) => (query / attention.kv_heads(), key / attention.kv_heads()),
            _ => (query, key),
        };
        let (start, run) = match self.tensor.role {
            "key" | "key bias" => (group, head),
            "value" | "value bias" => (group + head, head),
            _ => (0, group),
        };
        let columns = self.tensor.columns;
        let run_stride = (group + 2 * head) * columns;
        let layout = Layout { start: start * columns, run, run_stride, ..self.rows() };
        self.placed(part, query + 2 * key, layout)
    }

    fn query_and_key_rows(&self) -> (u64, u64) {
        match &self.layer.kind {
            LayerKind::Attention(Attention {
                heads,
                projection: Projection::Grouped { kv_heads, head_dim },
                ..
            }) => (heads * head_dim, kv_heads * head_dim),
            _ => (self.tensor.rows, 0),
        }
    }

    /// Row after row.
    fn rows(&self) -> Layout {
        let columns = self.tensor.columns;
        Layout { start: 0, run: self.tensor.rows, run_stride: 0, row_stride: columns, column_stride: 1 }
    }

    /// A tensor of its own.
    fn plain(&self, part: &Part<'_>) -> NamedTensor {
        self.placed(part, part.rows, self.rows())
    }

    /// Columns `start` and on of a stored tensor with `total` columns (rows of the parameter), as GPT-2's Conv1D
    /// keeps it; a bias has one dimension, so its rows just follow one another.
    fn transposed(&self, part: &Part<'_>, start: u64, total: u64) -> NamedTensor {
        let layout = Layout { start, row_stride: 1, column_stride: total, ..self.rows() };
        let mut tensor = self.placed(part, total, layout);
        tensor.shape.reverse();
        tensor
    }

    /// In a stored tensor of `total` rows.
    fn placed(&self, part: &Part<'_>, total: u64, layout: Layout) -> NamedTensor {
        let ParameterTensor { role, columns, .. } = self.tensor;
        let shape = if self.is_vector() { vec![total] } else { vec![total, columns] };
        let name = format!("{}{}", part.stem, part.suffix);
        let Part { first, rows, .. } = *part;
        let initial = self.initial(first);
        NamedTensor { name, shape, layer: self.index, role, first_row: first, rows, columns, layout, initial }
    }

    fn is_vector(&self) -> bool {
        let role = self.tensor.role;
        role.ends_with("norm") || role.ends_with("bias") || role == "sinks"
    }

    /// Elements of a norm's weight; none for what is no norm.
    fn norm_width(&self) -> Option<u64> {
        if !self.tensor.role.ends_with("norm") {
            return None;
        }
        let norm = match (&self.layer.kind, self.tensor.role) {
            (LayerKind::Attention(attention), "query norm" | "key norm") => attention.query_key_norm,
            (LayerKind::Attention(attention), "norm") => attention.norm.map(|norm| norm.kind),
            (LayerKind::Attention(attention), "output norm") => attention.output_norm.map(|norm| norm.kind),
            (LayerKind::Attention(attention), "residual norm") => {
                attention.residual_norm.map(|norm| norm.kind)
            }
            (LayerKind::Mlp(mlp), "norm") => mlp.norm.map(|norm| norm.kind),
            (LayerKind::Mlp(mlp), "output norm") => mlp.output_norm.map(|norm| norm.kind),
            (LayerKind::Mlp(mlp), "residual norm") => mlp.residual_norm.map(|norm| norm.kind),
            (LayerKind::Moe(moe), _) => moe.norm.map(|norm| norm.kind),
            (LayerKind::Embedding(embedding), _) => embedding.norm.map(|norm| norm.kind),
            (LayerKind::Head(head), _) => head.norm.map(|norm| norm.kind),
            _ => None,
        };
        Some(if norm == Some(NormKind::Layer) { self.tensor.rows / 2 } else { self.tensor.rows })
    }

    /// Norm weights 1, biases 0, the rest drawn, with those that write to the residual stream made smaller
    /// (Radford et al. 2019, section 2.3).
    fn initial(&self, first: u64) -> Initial {
        let constants = &self.model.constants;
        if let Some(width) = self.norm_width() {
            let weight = 1.0 - constants.norm_weight_offset;
            return Initial::Constant(if first < width { weight } else { 0.0 });
        }
        let deviation = constants.initializer_range;
        match self.tensor.role {
            "output" | "down" | "expert down" | "shared down" => {
                let blocks = f64::from(self.model.blocks());
                Initial::Normal { deviation: deviation / (2.0 * blocks).sqrt() }
            }
            role if role.ends_with("bias") => Initial::Constant(0.0),
            _ => Initial::Normal { deviation },
        }
    }
}
