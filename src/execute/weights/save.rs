//! Writing weights as Hugging Face keeps them: `model.safetensors` and `config.json`, each whole or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Map, Value, json};
use tempfile::Builder;

use super::error::WeightsError;
use crate::execute::contents::Tensors;
use crate::files::Target;
use crate::model::tensors::{NamedTensor, tensors};
use crate::model::{Model, layer_graph};
use crate::units::ElementType;

/// Writes `model.safetensors` and `config.json` into a folder, which is made where there is none.
///
/// Elements are fp64 under fp64, otherwise fp32. A model of our own layer graph has that graph as `config.json`.
///
/// # Errors
/// When a file cannot be written.
pub fn save_weights(
    folder: &Path,
    model: &Model,
    element: ElementType,
    values: &Tensors,
) -> Result<(), WeightsError> {
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    let tensors = tensors(model);
    let mut file = TensorFile::new(element);
    file.group("", &tensors, values);
    file.write(&folder.join("model.safetensors"))?;
    let config = match &model.config {
        Some(config) => serde_json::to_string_pretty(config),
        None => serde_json::to_string_pretty(&layer_graph::document(model)),
    };
    let config = config.map_err(|error| unwritable(&folder.join("config.json"), &error.into()))?;
    whole_file(&folder.join("config.json"), |file| writeln!(file, "{config}"))
}

/// Writes some of a model's tensors (all parts of each) as one safetensors file, e.g. gradients, to `target`.
///
/// # Errors
/// When it cannot be written.
pub fn save_tensors(
    target: &Target,
    tensors: &[NamedTensor],
    element: ElementType,
    values: &Tensors,
) -> std::io::Result<()> {
    let mut file = TensorFile::new(element);
    file.group("", tensors, values);
    target.write(|out| file.fill(out))
}

/// The stored tensors of a file, by name, each with its parts.
pub(super) struct TensorFile<'a> {
    /// Bytes of an element.
    size: usize,
    stored: BTreeMap<String, (&'a Tensors, Vec<&'a NamedTensor>)>,
    numbers: BTreeMap<&'a str, u64>,
}

impl<'a> TensorFile<'a> {
    pub fn new(element: ElementType) -> Self {
        let size = if element == ElementType::Fp64 { 8 } else { 4 };
        Self { size, stored: BTreeMap::new(), numbers: BTreeMap::new() }
    }

    /// Adds tensors under their names with `suffix` behind each, and `values` of the parameters that they hold; what is
    /// not among them is 0.
    pub fn group(&mut self, suffix: &str, tensors: &'a [NamedTensor], values: &'a Tensors) {
        for tensor in tensors {
            let entry = self.stored.entry(format!("{}{suffix}", tensor.name));
            entry.or_insert_with(|| (values, Vec::new())).1.push(tensor);
        }
    }

    /// Adds a whole number as a tensor of one element.
    pub fn number(&mut self, name: &'a str, value: u64) {
        self.numbers.insert(name, value);
    }

    /// The header, and the length of all tensors after it.
    fn header(&self) -> String {
        let mut header = Map::new();
        // Hugging Face's loader asks for the format.
        header.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
        let mut end = 0;
        let mut entry = |name: &str, kind: &str, shape: &[u64], bytes: u64| {
            let begin = end;
            end += bytes;
            let value = json!({ "dtype": kind, "shape": shape, "data_offsets": [begin, end] });
            header.insert(name.to_owned(), value);
        };
        for name in self.numbers.keys() {
            entry(name, "U64", &[1], 8);
        }
        let kind = if self.size == 8 { "F64" } else { "F32" };
        for (name, (_, parts)) in &self.stored {
            entry(name, kind, &parts[0].shape, parts[0].elements() * self.size as u64);
        }
        let mut text = Value::Object(header).to_string();
        let aligned = text.len().next_multiple_of(8);
        text.extend(std::iter::repeat_n(' ', aligned - text.len()));
        text
    }

    /// Writes the file to `path`, so that it appears whole.
    pub fn write(&self, path: &Path) -> Result<(), WeightsError> {
        whole_file(path, |file| self.fill(file))
    }

    /// Writes what the file holds to `out`, one tensor after the other.
    fn fill(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let header = self.header();
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(header.as_bytes())?;
        for value in self.numbers.values() {
            out.write_all(&value.to_le_bytes())?;
        }
        for (values, parts) in self.stored.values() {
            out.write_all(&self.bytes(values, parts))?;
        }
        Ok(())
    }

    /// One stored tensor, put together from its parts.
    fn bytes(&self, values: &Tensors, parts: &[&NamedTensor]) -> Vec<u8> {
        let size = self.size;
        let mut bytes = vec![0; parts[0].elements() as usize * size];
        for part in parts {
            let Some(values) = values.get(&(part.layer, part.role)) else { continue };
            let rows = values.chunks(part.columns as usize).enumerate().skip(part.first_row as usize);
            for (row, values) in rows.take(part.rows as usize) {
                for (column, value) in (0..).zip(values) {
                    let at = part.position(row as u64, column) as usize * size;
                    if size == 8 {
                        bytes[at..at + size].copy_from_slice(&value.to_le_bytes());
                    } else {
                        bytes[at..at + size].copy_from_slice(&(*value as f32).to_le_bytes());
                    }
                }
            }
        }
        bytes
    }
}

/// Writes a file beside its place and renames it, so that it appears whole.
fn whole_file(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), WeightsError> {
    let write = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut builder = Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.prefix(".meshwright-").tempfile_in(folder.unwrap_or(Path::new(".")))?;
        let mut buffered = BufWriter::with_capacity(1 << 20, file);
        fill(&mut buffered)?;
        let file = buffered.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> WeightsError {
    WeightsError::Unwritable { path: path.display().to_string(), reason: error.to_string() }
}
