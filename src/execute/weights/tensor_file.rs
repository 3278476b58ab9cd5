//! Writing tensors to a safetensors file one after the other, so that no more than a few are in memory at once.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::error::WeightsError;
use super::seal::Seal;
use crate::execute::contents::{Kept, Parameter};
use crate::model::tensors::NamedTensor;
use crate::units::{Bytes, ElementType};

/// Hands out what is kept of a parameter, whole and row-major; none means zeros.
pub type Source<'a> = dyn Fn(Kept, Parameter) -> Option<Vec<f64>> + 'a;

/// Something that is kept of one parameter.
type Key = (Kept, Parameter);

/// A header as it is in a file: after its length.
pub(super) fn framed(header: &str) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()
}

/// The stored tensors of a file, by name, each with its parts.
pub(super) struct TensorFile<'a> {
    /// Bytes of an element.
    size: usize,
    stored: BTreeMap<String, (Kept, Vec<&'a NamedTensor>)>,
    numbers: BTreeMap<&'a str, u64>,
}

/// Parameters on their way into stored tensors: each is held until the last of the tensors with rows of it is written.
struct Passing<'a> {
    source: &'a Source<'a>,
    held: HashMap<Key, Option<Vec<f64>>>,
    needed: HashMap<Key, (usize, u64)>,
}

impl Passing<'_> {
    /// Does `work` with what is kept of the parameter that `part` has rows of.
    fn with(&mut self, kept: Kept, part: &NamedTensor, work: impl FnOnce(&[f64])) {
        let key = key(kept, part);
        if let Some(values) = self.held.entry(key).or_insert_with(|| (self.source)(kept, key.1)) {
            work(values);
        }
        if is_last(self.needed.get_mut(&key)) {
            self.held.remove(&key);
        }
    }
}

impl<'a> TensorFile<'a> {
    pub fn new(element: ElementType) -> Self {
        let size = if element == ElementType::Fp64 { 8 } else { 4 };
        Self { size, stored: BTreeMap::new(), numbers: BTreeMap::new() }
    }

    /// Adds tensors under their names with `suffix` after each, and what is kept of the parameters that they hold.
    pub fn group(&mut self, suffix: &str, tensors: &'a [NamedTensor], kept: Kept) {
        for tensor in tensors {
            let entry = self.stored.entry(format!("{}{suffix}", tensor.name));
            entry.or_insert_with(|| (kept, Vec::new())).1.push(tensor);
        }
    }

    /// Adds a whole number as a tensor of one element.
    pub fn number(&mut self, name: &'a str, value: u64) {
        self.numbers.insert(name, value);
    }

    /// The header, with `metadata` beside the format.
    pub fn header(&self, mut metadata: Map<String, Value>) -> String {
        let mut header = Map::new();
        // Hugging Face's loader asks for the format.
        metadata.insert("format".to_owned(), json!("pt"));
        header.insert("__metadata__".to_owned(), Value::Object(metadata));
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

    /// Writes a new file at `path`, whose header is still to be replaced by that of the seal that is found then: the file
    /// and the digest of its tensors. Errors name it `shown`.
    pub fn begin(
        &self,
        path: &Path,
        blank: &Seal,
        shown: &Path,
        source: &Source<'_>,
    ) -> Result<(File, String), WeightsError> {
        let unwritable = |error: io::Error| WeightsError::unwritable(shown, &error);
        let file = File::create_new(path).map_err(unwritable)?;
        let mut file = BufWriter::with_capacity(1 << 20, file);
        file.write_all(&framed(&self.header(blank.metadata()))).map_err(unwritable)?;
        let mut hash = Sha256::new();
        self.tensors(source, |name, bytes, odd| {
            if let Some(value) = odd {
                return Err(WeightsError::NotFinite { name: name.to_owned(), value, step: blank.step });
            }
            hash.update(bytes);
            file.write_all(bytes).map_err(unwritable)
        })?;
        let file = file.into_inner().map_err(|error| unwritable(error.into_error()))?;
        Ok((file, format!("{:x}", hash.finalize())))
    }

    /// That all values are finite as they would be stored after step `step`.
    pub fn check(&self, step: u64, source: &Source<'_>) -> Result<(), WeightsError> {
        self.tensors(source, |name, _, odd| match odd {
            Some(value) => Err(WeightsError::NotFinite { name: name.to_owned(), value, step }),
            None => Ok(()),
        })
    }

    /// Hands out all that comes after the header, one tensor after the other: name, bytes, and a value that is not finite if
    /// there is one.
    pub fn tensors<E>(
        &self,
        source: &Source<'_>,
        mut take: impl FnMut(&str, &[u8], Option<f64>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (name, value) in &self.numbers {
            take(name, &value.to_le_bytes(), None)?;
        }
        let mut passing = Passing { source, held: HashMap::new(), needed: self.needed() };
        for (name, (kept, parts)) in &self.stored {
            let (bytes, odd) = self.bytes(&mut passing, *kept, parts);
            take(name, &bytes, odd)?;
        }
        Ok(())
    }

    /// One stored tensor, put together from its parts, and the last of its values that is not finite as it is stored.
    fn bytes(&self, passing: &mut Passing<'_>, kept: Kept, parts: &[&NamedTensor]) -> (Vec<u8>, Option<f64>) {
        let size = self.size;
        let mut bytes = vec![0; parts[0].elements() as usize * size];
        let mut odd = None;
        for part in parts {
            passing.with(kept, part, |values| {
                let rows = values.chunks(part.columns as usize).enumerate().skip(part.first_row as usize);
                for (row, values) in rows.take(part.rows as usize) {
                    for (column, value) in (0..).zip(values) {
                        let at = part.position(row as u64, column) as usize * size;
                        let single = *value as f32;
                        let is_finite = if size == 8 { value.is_finite() } else { single.is_finite() };
                        if !is_finite {
                            odd = Some(*value);
                        }
                        if size == 8 {
                            bytes[at..at + size].copy_from_slice(&value.to_le_bytes());
                        } else {
                            bytes[at..at + size].copy_from_slice(&single.to_le_bytes());
                        }
                    }
                }
            });
        }
        (bytes, odd)
    }

    /// By what is kept of a parameter, how many tensors hold rows of it, and the elements that it has.
    fn needed(&self) -> HashMap<Key, (usize, u64)> {
        let mut needed = HashMap::<Key, (usize, u64)>::new();
        for (kept, parts) in self.stored.values() {
            for part in parts {
                let (tensors, elements) = needed.entry(key(*kept, part)).or_default();
                *tensors += 1;
                *elements = (*elements).max((part.first_row + part.rows) * part.columns);
            }
        }
        needed
    }

    /// The most that writing holds at once: whole parameters, one of them also as it lies on its ranks, and the tensor that
    /// they go to.
    pub fn memory(&self) -> Bytes {
        let mut needed = self.needed();
        let mut held = HashMap::new();
        let mut most = 0;
        for (kept, parts) in self.stored.values() {
            let keys = || parts.iter().map(|part| key(*kept, part));
            keys().for_each(|key| {
                held.entry(key).or_insert_with(|| needed[&key].1 * size_of::<f64>() as u64);
            });
            let reading = keys().map(|key| 2 * held[&key]).max().unwrap_or_default();
            let tensor = parts[0].elements() * self.size as u64;
            most = most.max(held.values().sum::<u64>() + reading + tensor);
            for key in keys() {
                if is_last(needed.get_mut(&key)) {
                    held.remove(&key);
                }
            }
        }
        Bytes(most)
    }
}

fn key(kept: Kept, part: &NamedTensor) -> Key {
    (kept, (part.layer, part.role))
}

/// Counts one tensor down; whether it was the last that needs its parameter.
fn is_last(needed: Option<&mut (usize, u64)>) -> bool {
    let Some((tensors, _)) = needed else { return true };
    *tensors = tensors.saturating_sub(1);
    *tensors == 0
}
