//! The cost models and engine profiles whose numbers are fitted: their texts, and their numbers with some set anew.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::error::FitError;
use crate::files;
use crate::profile::catalog;
use crate::profile::engines;
use crate::profile::inherit::read_engine;
use crate::profile::{DeviceModel, EngineProfile};
use crate::spelling::nearest;
use crate::units::Bytes;

/// The largest cost model, profile or list of parameters that is read.
pub const LARGEST_FILE: Bytes = Bytes::mib(16);

/// A file of numbers, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum File {
    /// A cost model.
    Device(String),
    /// An engine profile.
    Engine(String),
}

impl File {
    /// Its path below `cost_models/`.
    pub fn path(&self) -> String {
        match self {
            Self::Device(name) => format!("{name}.json"),
            Self::Engine(name) => format!("engines/{name}.json"),
        }
    }

    /// The name of the device or engine.
    pub fn name(&self) -> &str {
        match self {
            Self::Device(name) | Self::Engine(name) => name,
        }
    }
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The files, as text and as JSON; what an engine profile inherits stands in its parent's.
#[derive(Clone, Debug)]
pub struct Models {
    files: BTreeMap<File, (String, Value)>,
}

/// What the files say, ready to predict with.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    pub devices: BTreeMap<String, DeviceModel>,
    pub engines: BTreeMap<String, EngineProfile>,
}

impl Models {
    /// The built-in files.
    pub fn built_in() -> Self {
        let devices = catalog::texts().map(|(name, text)| (File::Device(name.to_owned()), text));
        let engines = engines::texts().map(|(name, text)| (File::Engine(name.to_owned()), text));
        let parsed = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
        let files = devices.chain(engines).map(|(file, text)| (file, (text.to_owned(), parsed(text))));
        Self { files: files.collect() }
    }

    /// The files of a folder laid out like `cost_models/`; what it does not hold is built in.
    ///
    /// # Errors
    /// If there is no such folder, or a file cannot be read.
    pub fn read(folder: &Path) -> Result<Self, FitError> {
        if !folder.is_dir() {
            let file = folder.display().to_string();
            return Err(FitError::File { file, reason: "is no folder of cost models".to_owned() });
        }
        let mut models = Self::built_in();
        for (file, entry) in &mut models.files {
            let path = folder.join(file.path());
            if path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
                continue;
            }
            let failed = |reason: String| FitError::File { file: path.display().to_string(), reason };
            let text = files::text(&path, LARGEST_FILE)
                .map_err(|unread| failed(format!("cannot be read: {unread}")))?;
            let value =
                serde_json::from_str(&text).map_err(|error| failed(format!("is no JSON: {error}")))?;
            *entry = (text, value);
        }
        Ok(models)
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.files.keys()
    }

    /// Whether there is such a file.
    ///
    /// # Errors
    /// With the nearest names where there is none.
    pub fn check(&self, file: &File) -> Result<(), FitError> {
        if self.files.contains_key(file) {
            return Ok(());
        }
        let alike = |other: &&File| {
            matches!((file, other), (File::Device(_), File::Device(_)) | (File::Engine(_), File::Engine(_)))
        };
        let kind = if matches!(file, File::Device(_)) { "device" } else { "engine" };
        let nearest = nearest(file.name(), self.files.keys().filter(alike).map(File::name));
        Err(FitError::Unknown { kind, name: file.name().to_owned(), nearest })
    }

    /// The text of a file.
    pub fn text(&self, file: &File) -> &str {
        self.files.get(file).map_or("", |(text, _)| text)
    }

    /// The number that `file` itself holds at `path`, e.g. `gemm.efficiency`; what it inherits is its parent's.
    pub fn number(&self, file: &File, path: &str) -> Option<f64> {
        self.files.get(file)?.1.pointer(&pointer(path))?.as_f64()
    }

    /// Whether the number that `file` holds at `path` was measured, so that no fit moves it.
    pub fn is_measured(&self, file: &File, path: &str) -> bool {
        let kind = format!("/{}/kind", path.replace('.', "/"));
        let value = self.files.get(file).and_then(|(_, value)| value.pointer(&kind));
        value.is_some_and(|kind| kind == "measured")
    }

    /// All numbers as they stand.
    ///
    /// # Errors
    /// If a file is no cost model or profile.
    pub fn numbers(&self) -> Result<Numbers, FitError> {
        let mut numbers = Numbers::default();
        for (file, (_, value)) in &self.files {
            self.put(&mut numbers, file, value)?;
        }
        Ok(numbers)
    }

    /// `numbers` with `settings` (file, path, value) on top of what the files say, for the files that they name.
    ///
    /// # Errors
    /// If a number does not stand in its file or cannot be what it is set to.
    pub fn with<'a>(
        &self,
        mut numbers: Numbers,
        settings: impl IntoIterator<Item = (File, &'a str, f64)>,
    ) -> Result<Numbers, FitError> {
        let mut changed: BTreeMap<File, Value> = BTreeMap::new();
        for (file, path, number) in settings {
            let value = changed
                .entry(file.clone())
                .or_insert_with(|| self.files.get(&file).map_or(Value::Null, |(_, value)| value.clone()));
            let place = value.pointer_mut(&pointer(path)).ok_or_else(|| FitError::File {
                file: file.path(),
                reason: format!("has no number `{path}`"),
            })?;
            *place = as_it_was(place, number);
        }
        for (file, value) in changed {
            self.put(&mut numbers, &file, &value)?;
        }
        Ok(numbers)
    }

    /// The profile that inherits the number at `path` from `file`; none where each holds its own.
    pub fn heir(&self, file: &File, path: &str) -> Option<&File> {
        let is_heir = |(other, (_, value)): &(&File, &(String, Value))| {
            matches!(file, File::Engine(name) if value["inherits"] == **name)
                && self.number(other, path).is_none()
        };
        self.files.iter().find(is_heir).map(|(other, _)| other)
    }

    /// Reads `value`, the JSON of `file`, into `numbers`.
    fn put(&self, numbers: &mut Numbers, file: &File, value: &Value) -> Result<(), FitError> {
        let failed = |reason: String| FitError::File { file: file.path(), reason };
        match file {
            File::Device(name) => {
                let model = DeviceModel::deserialize(value).map_err(|error| failed(error.to_string()))?;
                numbers.devices.insert(name.clone(), model);
            }
            File::Engine(name) => {
                let engines = self.files.iter().filter(|(other, _)| matches!(other, File::Engine(_)));
                let files = engines.map(|(other, (_, value))| (other.name(), value));
                let profile = read_engine(value, files).map_err(|error| failed(error.to_string()))?;
                numbers.engines.insert(name.clone(), profile);
            }
        }
        Ok(())
    }
}

/// `number` as JSON: whole where what stood there was.
pub fn as_it_was(before: &Value, number: f64) -> Value {
    if before.is_u64() && number >= 0.0 { Value::from(number.round() as u64) } else { Value::from(number) }
}

fn pointer(path: &str) -> String {
    format!("/{}/value", path.replace('.', "/"))
}
