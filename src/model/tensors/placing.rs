//! How one parameter is laid out in the tensors that a family stores it in, and what it holds at first.

use super::families::{Form, Names};
use super::{Initial, Layout, NamedTensor, gated};
use crate::model::graph::Model;
use crate::model::layer::{Attention, Layer, LayerKind, NormKind, Projection};
use crate::model::parameters::ParameterTensor;
use crate::model::roles::Role;

/// One parameter of a layer on its way into stored tensors.
pub(super) struct Parameter<'a> {
    pub model: &'a Model,
    pub index: usize,
    pub layer: &'a Layer,
    pub tensor: ParameterTensor,
}

/// Rows `first` to `first + rows` of a parameter, under the stem of a name and with what is appended to it.
struct Part<'a> {
    stem: &'a str,
    suffix: &'static str,
    first: u64,
    rows: u64,
}

impl Parameter<'_> {
    /// Adds the tensors that hold the parameter, rows ascending.
    pub fn store(&self, names: Option<&'static Names>, list: &mut Vec<NamedTensor>) {
        let ParameterTensor { role, rows, .. } = self.tensor;
        let (stem_role, bias) = role.biased().map_or((role, false), |stem| (stem, true));
        let suffix = if bias { ".bias" } else { ".weight" };
        let found = names.and_then(|names| names.find(self.layer, stem_role));
        let Some((prefix, form)) = found else {
            let name = format!("{}.{}", self.layer.name, role.name()).replace(' ', "_");
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
                let ups = if matches!(role, Role::ExpertUp | Role::ExpertUpBias) && gated(&self.layer.kind) {
                    2
                } else {
                    1
                };
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
            Role::Key | Role::KeyBias => query,
            Role::Value | Role::ValueBias => query + key,
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
            Role::Key | Role::KeyBias => (group, head),
            Role::Value | Role::ValueBias => (group + head, head),
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
        self.tensor.role.is_vector()
    }

    /// Elements of a norm's weight; none for what is no norm.
    fn norm_width(&self) -> Option<u64> {
        if !self.tensor.role.is_norm() {
            return None;
        }
        let norm = match (&self.layer.kind, self.tensor.role) {
            (LayerKind::Attention(attention), Role::QueryNorm | Role::KeyNorm) => attention.query_key_norm,
            (LayerKind::Attention(attention), Role::Norm) => attention.norm.map(|norm| norm.kind),
            (LayerKind::Attention(attention), Role::OutputNorm) => {
                attention.output_norm.map(|norm| norm.kind)
            }
            (LayerKind::Attention(attention), Role::ResidualNorm) => {
                attention.residual_norm.map(|norm| norm.kind)
            }
            (LayerKind::Mlp(mlp), Role::Norm) => mlp.norm.map(|norm| norm.kind),
            (LayerKind::Mlp(mlp), Role::OutputNorm) => mlp.output_norm.map(|norm| norm.kind),
            (LayerKind::Moe(moe), Role::OutputNorm) => moe.output_norm.map(|norm| norm.kind),
            (LayerKind::Mlp(mlp), Role::ResidualNorm) => mlp.residual_norm.map(|norm| norm.kind),
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
            Role::Output | Role::Down | Role::ExpertDown | Role::SharedDown => {
                let blocks = f64::from(self.model.blocks());
                Initial::Normal { deviation: deviation / (2.0 * blocks).sqrt() }
            }
            role if role.biased().is_some() => Initial::Constant(0.0),
            _ => Initial::Normal { deviation },
        }
    }
}
