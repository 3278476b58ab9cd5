//! Safetensors files of a checkpoint, mapped into memory and read element by element.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::tensor::{Dtype, Metadata, SafeTensors};
use serde_json::Value;

use super::error::WeightsError;
use crate::files;
use crate::model::tensors::NamedTensor;
use crate::units::Bytes;

/// The largest index that is read.
const LARGEST_INDEX: Bytes = Bytes::mib(64);

/// What base models' names begin with in a causal language model, and without in a checkpoint of the base alone.
const BASE_PREFIXES: [&str; 3] = ["transformer.", "model.", "gpt_neox."];

/// The mapped files, and where each tensor of a list begins.
#[derive(Debug)]
pub(super) struct Checkpoint {
    files: Vec<Mapped>,
    /// One for each tensor, in the order of the list.
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    file: usize,
    /// Bytes from the beginning of the file.
    offset: usize,
    element: Stored,
}

/// The element types that can be read.
#[derive(Clone, Copy, Debug)]
enum Stored {
    F64,
    F32,
    F16,
    Bf16,
}

impl Checkpoint {
    /// The tensors of the list, each name with `suffix` behind it, in mapped files.
    pub fn find(files: Vec<Mapped>, tensors: &[NamedTensor], suffix: &str) -> Result<Self, WeightsError> {
        let owner: HashMap<String, usize> = (0..)
            .zip(&files)
            .flat_map(|(number, file)| file.metadata.tensors().into_keys().map(move |name| (name, number)))
            .collect();
        let place = |tensor: &NamedTensor| {
            let full = format!("{}{suffix}", tensor.name);
            let short = BASE_PREFIXES.iter().find_map(|prefix| full.strip_prefix(prefix));
            let found = [Some(full.as_str()), short].into_iter().flatten();
            let found = found.filter_map(|name| owner.get_key_value(name)).next();
            let Some((name, number)) = found else {
                let path = files.first().map_or_else(String::new, Mapped::shown);
                return Err(WeightsError::Missing { path, name: full });
            };
            files[*number].place(*number, name, &tensor.shape)
        };
        let places = tensors.iter().map(place).collect::<Result<_, _>>()?;
        Ok(Self { files, places })
    }

    /// Elements `start`, `start + stride`, … of tensor `index` of the list.
    pub fn read(&self, index: usize, start: u64, stride: u64, out: &mut [f64]) {
        let Place { file, offset, element } = self.places[index];
        let bytes = &self.files[file].bytes[offset..];
        let (start, stride) = (start as usize, stride as usize);
        match element {
            Stored::F64 => gather(bytes, start, stride, out, f64::from_le_bytes),
            Stored::F32 => gather(bytes, start, stride, out, |it| f64::from(f32::from_le_bytes(it))),
            Stored::F16 => gather(bytes, start, stride, out, |it| f16::from_le_bytes(it).to_f64()),
            Stored::Bf16 => gather(bytes, start, stride, out, |it| bf16::from_le_bytes(it).to_f64()),
        }
    }
}

/// Every `stride`-th element of `SIZE` bytes, from element `start` on.
fn gather<const SIZE: usize>(
    bytes: &[u8],
    start: usize,
    stride: usize,
    out: &mut [f64],
    decode: impl Fn([u8; SIZE]) -> f64,
) {
    let (elements, _) = bytes.as_chunks::<SIZE>();
    for (value, element) in out.iter_mut().zip(elements[start..].iter().step_by(stride)) {
        *value = decode(*element);
    }
}

/// The files that an index names, each once; they must lie beside it.
pub(super) fn indexed(index: &Path) -> Result<BTreeSet<String>, WeightsError> {
    let shown = || index.display().to_string();
    let text = files::text(index, LARGEST_INDEX)
        .map_err(|unread| WeightsError::Unreadable { path: shown(), reason: unread.to_string() })?;
    let malformed = |reason: String| WeightsError::Malformed { path: shown(), reason };
    let value: Value = serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
    let map = value.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| malformed("it has no object `weight_map`".to_owned()))?;
    map.values()
        .map(|file| match file.as_str() {
            Some(name) if Path::new(name).file_name().is_some_and(|last| last == name) => Ok(name.to_owned()),
            _ => Err(malformed(format!("its weight_map names {file}, which is no file beside it"))),
        })
        .collect()
}

/// One mapped file with what its header says.
#[derive(Clone, Debug)]
pub(super) struct Mapped {
    path: PathBuf,
    bytes: Arc<Mmap>,
    pub metadata: Metadata,
    /// Bytes before the first tensor.
    data: usize,
}

impl Mapped {
    /// The file at `path`, which errors name `shown`.
    pub fn open(path: &Path, shown: PathBuf) -> Result<Self, WeightsError> {
        let unreadable =
            |reason: String| WeightsError::Unreadable { path: shown.display().to_string(), reason };
        let file = files::regular(path).map_err(|unread| unreadable(unread.to_string()))?;
        let bytes = map(&file).map_err(|error| match file.metadata() {
            Ok(found) if error.kind() == io::ErrorKind::OutOfMemory => {
                WeightsError::NoRoom { path: shown.display().to_string(), bytes: Bytes(found.len()) }
            }
            _ => unreadable(error.to_string()),
        })?;
        let (header, metadata) = SafeTensors::read_metadata(&bytes).map_err(|error| {
            WeightsError::Malformed { path: shown.display().to_string(), reason: error.to_string() }
        })?;
        let data = header + size_of::<u64>();
        Ok(Self { path: shown, data, bytes: Arc::new(bytes), metadata })
    }

    /// The header's text.
    pub fn header(&self) -> &[u8] {
        &self.bytes[size_of::<u64>()..self.data]
    }

    /// All bytes after the header.
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.data..]
    }

    pub fn shown(&self) -> String {
        self.path.display().to_string()
    }

    /// A tensor that the header names, which must have the shape that is wanted.
    fn place(&self, file: usize, name: &str, wanted: &[u64]) -> Result<Place, WeightsError> {
        let (path, name) = (self.shown(), name.to_owned());
        let Some(info) = self.metadata.info(&name) else {
            return Err(WeightsError::Missing { path, name });
        };
        let found: Vec<u64> = info.shape.iter().map(|size| *size as u64).collect();
        if found != wanted {
            return Err(WeightsError::Shape { path, name, found, wanted: wanted.to_vec() });
        }
        let element = match info.dtype {
            Dtype::F64 => Stored::F64,
            Dtype::F32 => Stored::F32,
            Dtype::F16 => Stored::F16,
            Dtype::BF16 => Stored::Bf16,
            other => return Err(WeightsError::Type { path, name, found: format!("{other:?}") }),
        };
        Ok(Place { file, offset: self.data + info.data_offsets.0, element })
    }

    /// The only element of a tensor of whole numbers.
    pub fn whole(&self, name: &str) -> Result<u64, WeightsError> {
        let (path, name) = (self.shown(), name.to_owned());
        let Some(info) = self.metadata.info(&name) else {
            return Err(WeightsError::Missing { path, name });
        };
        let (from, to) = info.data_offsets;
        let bytes = self.bytes.get(self.data + from..self.data + to).and_then(|bytes| bytes.try_into().ok());
        match bytes {
            Some(bytes) if info.dtype == Dtype::U64 => Ok(u64::from_le_bytes(bytes)),
            _ => Err(WeightsError::Type { path, name, found: format!("{:?}", info.dtype) }),
        }
    }
}

#[expect(unsafe_code, reason = "checkpoints may be larger than memory, and mapping a file is unsafe")]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the map is read-only and is only ever read as bytes, any of which decode to a number. Our own
    // writers replace files by rename and never shorten one in place; if another program does so while we read,
    // the system ends this process.
    unsafe { Mmap::map(file) }
}
