//! The layers of one model, as `meshwright models MODEL` lists them.

use serde::Serialize;

use super::table::table;
use crate::model::Model;
use crate::model::outline::{LayerGroup, outline};
use crate::model::parameters::{ParameterTensor, parameters};
use crate::report::Column::{Name, Number, Text};
use crate::units::{grouped, several};

/// What `--json` prints.
#[derive(Serialize)]
pub struct Listing<'a> {
    name: &'a str,
    parameters: u64,
    layers: u32,
    /// The longest sequence; null where the model sets none.
    max_seq_len: Option<u64>,
    /// Layers that differ only in their block stand together.
    groups: Vec<Group>,
    /// The name of every layer, in model order.
    names: Vec<&'a str>,
    warnings: &'a [String],
}

/// Layers that are alike.
#[derive(Serialize)]
struct Group {
    name: String,
    kind: &'static str,
    count: u64,
    parameters: u64,
    frozen: bool,
    tensors: Vec<Tensor>,
}

/// One parameter tensor of each of them.
#[derive(Serialize)]
struct Tensor {
    role: &'static str,
    shape: Vec<u64>,
}

/// The layers of `model`.
pub fn listing(model: &Model) -> Listing<'_> {
    Listing {
        name: &model.name,
        parameters: model.parameter_count(),
        layers: model.blocks(),
        max_seq_len: model.max_sequence,
        groups: outline(model).into_iter().map(group).collect(),
        names: model.layers().map(|layer| layer.name.as_str()).collect(),
        warnings: &model.warnings,
    }
}

fn group(group: LayerGroup<'_>) -> Group {
    Group {
        kind: group.first.kind.name(),
        count: group.count,
        parameters: group.parameters,
        frozen: group.first.frozen,
        tensors: parameters(&group.first.kind)
            .iter()
            .map(|tensor| Tensor { role: tensor.role.name(), shape: shape(tensor) })
            .collect(),
        name: group.name,
    }
}

fn shape(tensor: &ParameterTensor) -> Vec<u64> {
    if tensor.columns == 1 { vec![tensor.rows] } else { vec![tensor.rows, tensor.columns] }
}

/// The same for people.
pub fn text(model: &Model) -> String {
    let Listing { name, parameters, layers, groups, warnings, .. } = listing(model);
    let tensor = |tensor: &Tensor| {
        let sizes: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
        format!("{} {}", tensor.role, sizes.join("x"))
    };
    let rows = groups.iter().map(|group| {
        [
            group.name.clone(),
            group.count.to_string(),
            grouped(group.parameters / group.count),
            grouped(group.parameters),
            group.tensors.iter().map(tensor).collect::<Vec<_>>().join(", "),
        ]
    });
    let columns = [
        ("LAYERS", Name),
        ("COUNT", Number),
        ("PARAMETERS EACH", Number),
        ("TOGETHER", Number),
        ("TENSORS OF EACH", Text),
    ];
    let layers = several("block", layers);
    let warnings: String = warnings.iter().map(|warning| format!("{warning}\n")).collect();
    format!(
        "{name}: {} parameters in {}, {layers}\n{warnings}\n{}\n\n--freeze takes these names, with `*` \
         for any run of characters: --freeze \"block * attention\".\n",
        grouped(parameters),
        several("layer", model.layers().len()),
        table(columns, rows),
    )
}
