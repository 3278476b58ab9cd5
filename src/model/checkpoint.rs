//! The weights that lie beside a configuration: whether they are those of the model that it describes.
//!
//! Of safetensors files the headers alone are read, and of an index its totals.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};

use super::graph::Model;
use super::tensors::tensors;
use crate::files;
use crate::units::{Bytes, grouped};

const INDEX: &str = "model.safetensors.index.json";
const WHOLE: &str = "model.safetensors";

/// The largest index, and the largest header, which the format limits too.
const LIMIT: Bytes = Bytes::mib(100);

/// Names of tensors that no gradient trains, or that other parts of a larger model own.
const OTHERS: [&str; 12] = [
    "e_score_correction_bias",
    "expert_bias",
    "inv_freq",
    "masked_bias",
    ".attn.bias",
    ".attention.bias",
    "vision",
    "visual",
    "audio",
    "multi_modal_projector",
    "mm_projector",
    "image_newline",
];

/// What is to be said of the weights in `folder` beside the configuration of `model`: nothing where there are none or
/// they are its own.
pub(super) fn disagreements(model: &Model, folder: &Path) -> Vec<String> {
    let (headers, index) = found(folder);
    match (headers, index) {
        (Some(headers), index) => {
            let file = if index.is_some() { INDEX } else { WHOLE };
            of_headers(model, file, &headers)
        }
        (None, Some(index)) => index.total.and_then(|total| of_total(model, total)).into_iter().collect(),
        (None, None) => Vec::new(),
    }
}

/// Whether weights lie in `folder` and have exactly the parameters of `model`.
pub(super) fn confirms(model: &Model, folder: &Path) -> bool {
    let (headers, index) = found(folder);
    let described = model.parameter_count();
    match (headers, index.and_then(|index| index.total)) {
        (Some(headers), _) => {
            let stored = own_elements(&headers);
            stored == described || is_tied_twice(model, stored)
        }
        (None, Some(Total::Parameters(parameters))) => parameters == described,
        (None, Some(Total::Bytes(bytes))) => described.checked_mul(element(model)) == Some(bytes),
        (None, None) => false,
    }
}

/// Elements of all tensors but buffers and those of towers.
fn own_elements(headers: &[Header]) -> u64 {
    let is_own = |name: &str| !OTHERS.iter().any(|part| name.contains(part));
    let elements = |shape: &Vec<u64>| shape.iter().fold(1_u64, |all, size| all.saturating_mul(*size));
    let own = headers.iter().flatten().filter(|(name, _)| is_own(name));
    own.fold(0_u64, |sum, (_, shape)| sum.saturating_add(elements(shape)))
}

/// The headers of the weights in `folder`, where all are there, and their index.
fn found(folder: &Path) -> (Option<Vec<Header>>, Option<Index>) {
    let index = index(folder);
    let shards: Vec<String> = match &index {
        Some(index) => index.files.iter().cloned().collect(),
        None => vec![WHOLE.to_owned()],
    };
    let headers: Option<Vec<Header>> = shards.iter().map(|file| header(&folder.join(file))).collect();
    (headers.filter(|headers| !headers.is_empty()), index)
}

/// What an index says.
struct Index {
    files: BTreeSet<String>,
    total: Option<Total>,
}

#[derive(Clone, Copy)]
enum Total {
    Parameters(u64),
    Bytes(u64),
}

fn index(folder: &Path) -> Option<Index> {
    let text = files::regular_text(&folder.join(INDEX), LIMIT).ok()?;
    let index: Value = serde_json::from_str(&text).ok()?;
    let total = |name: &str| index.get("metadata")?.get(name)?.as_u64();
    let map = index.get("weight_map")?.as_object()?;
    // A name with a folder in it is no file beside the index.
    let files = map.values().filter_map(Value::as_str).filter(|name| !name.contains(['/', '\\']));
    Some(Index {
        files: files.map(str::to_owned).collect(),
        total: total("total_parameters")
            .map(Total::Parameters)
            .or_else(|| total("total_size").map(Total::Bytes)),
    })
}

/// Shapes by name.
type Header = BTreeMap<String, Vec<u64>>;

/// The header of a safetensors file: eight bytes of its length, then JSON.
fn header(path: &Path) -> Option<Header> {
    let mut file = files::regular(path).ok()?;
    let mut length = [0; 8];
    file.read_exact(&mut length).ok()?;
    let length = u64::from_le_bytes(length);
    if length > LIMIT.0 {
        return None;
    }
    let mut text = Vec::new();
    file.take(length).read_to_end(&mut text).ok()?;
    let fields: Map<String, Value> = serde_json::from_slice(&text).ok()?;
    let shape = |(name, tensor): (String, Value)| {
        let shape = tensor.get("shape")?.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<_>>>()?;
        Some((name, shape))
    };
    Some(fields.into_iter().filter(|(name, _)| name != "__metadata__").filter_map(shape).collect())
}

fn of_headers(model: &Model, file: &str, headers: &[Header]) -> Vec<String> {
    let stored = || headers.iter().flatten();
    let mut said = Vec::new();
    let described = tensors(model);
    let expected: BTreeMap<&str, &[u64]> =
        described.iter().map(|tensor| (tensor.name.as_str(), tensor.shape.as_slice())).collect();
    let unlike = stored().find_map(|(name, shape)| {
        let expected = expected.get(name.as_str())?;
        (*expected != shape.as_slice()).then_some((name, shape, *expected))
    });
    if let Some((name, shape, expected)) = unlike {
        said.push(format!(
            "{file} beside it holds `{name}` of {}, and by this configuration it is {}: they are of different models",
            by(shape),
            by(expected)
        ));
        return said;
    }
    // Packed integers of a quantised checkpoint are no parameters.
    let quantised = stored().any(|(name, _)| name.ends_with(".qweight") || name.ends_with("_scale_inv"));
    let stored = own_elements(headers);
    if !quantised && stored != model.parameter_count() && !is_tied_twice(model, stored) {
        said.push(counts(file, stored, model.parameter_count()));
    }
    said
}

/// Whether the checkpoint holds a tied head beside the table that it is.
fn is_tied_twice(model: &Model, stored: u64) -> bool {
    let table = model.layers().find_map(|layer| match &layer.kind {
        super::LayerKind::Head(head) if head.tied => {
            Some(head.vocabulary.saturating_mul(head.table_width.unwrap_or(head.hidden)))
        }
        _ => None,
    });
    table.is_some_and(|table| stored == model.parameter_count().saturating_add(table))
}

fn of_total(model: &Model, total: Total) -> Option<String> {
    let described = model.parameter_count();
    let stored = match total {
        Total::Parameters(parameters) => parameters,
        Total::Bytes(bytes) => {
            // What type they are stored in, configurations say of training.
            let sizes = [2, 4, 8];
            let fits = |size: &&u64| described.checked_mul(**size) == Some(bytes);
            let size = sizes.iter().find(fits).copied().unwrap_or_else(|| element(model));
            bytes / size
        }
    };
    // An index does not say which tensors are buffers or parts of towers: a few parameters more are no other model.
    let close = stored.abs_diff(described) <= described / 1000;
    (!close && !is_tied_twice(model, stored)).then(|| counts(INDEX, stored, described))
}

/// Bytes of an element by the configuration.
fn element(model: &Model) -> u64 {
    let named = |config: &Map<String, Value>| {
        config.get("torch_dtype").or_else(|| config.get("dtype"))?.as_str().map(str::to_owned)
    };
    match model.config.as_ref().and_then(named).as_deref() {
        Some("float32") => 4,
        Some("float64") => 8,
        _ => 2,
    }
}

fn counts(file: &str, stored: u64, described: u64) -> String {
    format!(
        "{file} beside it is of {} parameters, and this configuration of {}: one of them is of another model, or has parts \
         that are not planned",
        grouped(stored),
        grouped(described)
    )
}

fn by(shape: &[u64]) -> String {
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::model::from_text;

    const LLAMA: &str = r#"{"model_type":"llama","vocab_size":100,"hidden_size":16,"intermediate_size":32,
        "num_hidden_layers":1,"num_attention_heads":2,"tie_word_embeddings":false,"torch_dtype":"bfloat16"}"#;

    /// A safetensors file of zeros with the tensors of the model, those of `changed` with another shape.
    fn file(model: &Model, changed: &[(&str, Vec<u64>)]) -> Vec<u8> {
        let mut header = Map::new();
        for tensor in tensors(model) {
            let other = changed.iter().find(|(name, _)| *name == tensor.name);
            let shape = other.map_or(tensor.shape.clone(), |(_, shape)| shape.clone());
            header.insert(
                tensor.name.clone(),
                serde_json::json!({"dtype": "BF16", "shape": shape, "data_offsets": [0, 0]}),
            );
        }
        let header = Value::Object(header).to_string();
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat()
    }

    #[test]
    fn headers_are_compared_by_shape_and_by_sum() {
        let folder = tempfile::tempdir().unwrap();
        let model = from_text(LLAMA, "llama", "llama").unwrap();
        assert_eq!(disagreements(&model, folder.path()), Vec::<String>::new());
        fs::write(folder.path().join(WHOLE), file(&model, &[])).unwrap();
        assert_eq!(disagreements(&model, folder.path()), Vec::<String>::new());
        let wider = [("model.embed_tokens.weight", vec![120, 16])];
        fs::write(folder.path().join(WHOLE), file(&model, &wider)).unwrap();
        assert_eq!(
            disagreements(&model, folder.path()),
            [
                "model.safetensors beside it holds `model.embed_tokens.weight` of 120 x 16, and by this configuration it is \
              100 x 16: they are of different models"
            ]
        );
        let deeper = from_text(&LLAMA.replace("_layers\":1", "_layers\":2"), "llama", "llama").unwrap();
        fs::write(folder.path().join(WHOLE), file(&deeper, &[])).unwrap();
        let said = disagreements(&model, folder.path());
        assert!(
            said[0].contains("and this configuration of 5,808: one of them is of another model"),
            "{said:?}"
        );
        for broken in [&b"short"[..], &u64::MAX.to_le_bytes()[..], &[4, 0, 0, 0, 0, 0, 0, 0, b'{'][..]] {
            fs::write(folder.path().join(WHOLE), broken).unwrap();
            assert_eq!(disagreements(&model, folder.path()), Vec::<String>::new());
        }
    }

    #[test]
    fn an_index_without_its_files_is_compared_by_its_total() {
        let folder = tempfile::tempdir().unwrap();
        let model = from_text(LLAMA, "llama", "llama").unwrap();
        let count = model.parameter_count();
        let write = |metadata: Value| {
            let index = serde_json::json!({"metadata": metadata, "weight_map": {"a": "model-1.safetensors"}});
            fs::write(folder.path().join(INDEX), index.to_string()).unwrap();
            disagreements(&model, folder.path())
        };
        assert_eq!(write(serde_json::json!({"total_size": 2 * count})), Vec::<String>::new());
        assert_eq!(write(serde_json::json!({"total_size": 4 * count})), Vec::<String>::new());
        let said = write(serde_json::json!({"total_size": 3 * count}));
        assert!(said[0].starts_with("model.safetensors.index.json beside it is of "), "{said:?}");
        let said = write(serde_json::json!({"total_parameters": count + 1000}));
        assert!(said[0].contains("one of them is of another model"), "{said:?}");
    }
}
