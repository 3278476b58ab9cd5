//! Which numbers are fitted, within which bounds: a file of data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::FitError;
use super::models::{File, Models};

/// The file of parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParameterFile {
    pub version: u32,
    pub parameters: Vec<Parameter>,
}

/// One number, which all files that are named share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Cost models that it stands in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Engine profiles that it stands in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<String>,
    /// Where it stands in them, e.g. `gemm.efficiency`.
    pub path: String,
    pub lower: f64,
    pub upper: f64,
    /// What it is where no run says anything; the middle of the bounds if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
    /// What the bounds rest on: rates that were measured of kernels, copies and collectives alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<String>,
    /// What it means, in a line.
    pub meaning: String,
}

impl ParameterFile {
    /// The built-in list.
    ///
    /// # Errors
    /// If it cannot be read, which a test rules out.
    pub fn built_in() -> Result<Self, FitError> {
        Self::parse("fit/parameters.json", include_str!("../../../cost_models/fit/parameters.json"))
    }

    /// Reads the list in `text`, which stands in `file`.
    ///
    /// # Errors
    /// If it is no list of parameters.
    pub fn parse(file: &str, text: &str) -> Result<Self, FitError> {
        let failed = |reason: String| FitError::File { file: file.to_owned(), reason };
        let list: Self = serde_json::from_str(text)
            .map_err(|error| failed(format!("is no list of parameters: {error}")))?;
        if list.version != 1 {
            return Err(failed(format!("has version {}; 1 is read", list.version)));
        }
        Ok(list)
    }
}

impl Parameter {
    /// It in the files in which it was not measured; none where it was in all.
    pub fn unmeasured(mut self, models: &Models) -> Option<Self> {
        let path = self.path.clone();
        self.devices.retain(|name| !models.is_measured(&File::Device(name.clone()), &path));
        self.engines.retain(|name| !models.is_measured(&File::Engine(name.clone()), &path));
        (!self.devices.is_empty() || !self.engines.is_empty()).then_some(self)
    }

    /// The files that share it.
    pub fn files(&self) -> impl Iterator<Item = File> {
        let devices = self.devices.iter().cloned().map(File::Device);
        devices.chain(self.engines.iter().cloned().map(File::Engine))
    }

    /// Its files and path, for people.
    pub fn name(&self) -> String {
        let files: Vec<String> = self.files().map(|file| file.name().to_owned()).collect();
        format!("{} {}", files.join("+"), self.path)
    }

    /// The value at `position`: 0 is the lower bound and 1 the upper; equal steps are equal factors where the lower
    /// bound is above 0.
    pub fn value(&self, position: f64) -> f64 {
        let value = if self.lower > 0.0 {
            self.lower * (self.upper / self.lower).powf(position)
        } else {
            self.lower + (self.upper - self.lower) * position
        };
        value.clamp(self.lower, self.upper)
    }

    /// The position of `value`, within 0 and 1.
    pub fn position(&self, value: f64) -> f64 {
        let position = if self.lower > 0.0 {
            (value / self.lower).ln() / (self.upper / self.lower).ln()
        } else {
            (value - self.lower) / (self.upper - self.lower)
        };
        if position.is_nan() { 0.0 } else { position.clamp(0.0, 1.0) }
    }

    /// A change of position that changes the value by about a thousandth.
    pub fn small_step(&self) -> f64 {
        if self.lower > 0.0 { (1e-3 / (self.upper / self.lower).ln()).min(1e-2) } else { 1e-3 }
    }

    /// The position that is expected where no run says anything.
    pub fn expected_position(&self) -> f64 {
        self.expected.map_or(0.5, |value| self.position(value))
    }

    /// Whether it can be fitted.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn check(&self, models: &Models) -> Result<(), FitError> {
        let failed = |reason: String| Err(FitError::Parameter { parameter: self.name(), reason });
        if self.devices.is_empty() == self.engines.is_empty() {
            return failed("belongs to devices or to engines; one of both lists must name some".to_owned());
        }
        let bounds = self.lower.is_finite() && self.upper.is_finite() && 0.0 <= self.lower;
        if !bounds || self.lower >= self.upper {
            return failed(format!("0 ≤ lower < upper is needed, not {} and {}", self.lower, self.upper));
        }
        if self.expected.is_some_and(|value| !(self.lower..=self.upper).contains(&value)) {
            return failed("what is expected lies outside its bounds".to_owned());
        }
        for file in self.files() {
            if models.number(&file, &self.path).is_none() {
                return failed(format!("`{}` has no number `{}`", file.path(), self.path));
            }
            if let Some(heir) = models.heir(&file, &self.path) {
                let (heir, path) = (heir.path(), &self.path);
                return failed(format!(
                    "`{heir}` inherits it and would move too; give that file its own `{path}`"
                ));
            }
        }
        Ok(())
    }
}
