//! Which numbers are fitted, and what is known of each beforehand: a file of data.

use super::error::FitError;
use super::models::{File, Models};
use super::prior::Held;
use super::written;

/// The file of parameters, as it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterFile {
    pub parameters: Vec<Parameter>,
}

/// One number, which all files that are named share.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Cost models that it stands in.
    pub devices: Vec<String>,
    /// Engine profiles that it stands in.
    pub engines: Vec<String>,
    /// Where it stands in them, e.g. `gemm.efficiency`.
    pub path: String,
    /// Physical limits, which a fit that lacks no cause stays away from.
    pub lower: f64,
    pub upper: f64,
    /// What rates that were measured alone say of it, or an estimate.
    pub expected: f64,
    /// How far the truth may lie from there: a standard deviation of its logarithm, or in its own unit where it may be
    /// 0. Of kin it is that of their mean.
    pub spread: f64,
    /// Those that it has its mean in common with.
    pub kin: Option<Kinship>,
    /// What the expectation rests on: rates that were measured of kernels, copies and collectives alone.
    pub rests_on: Option<String>,
    /// What it means, in a line.
    pub meaning: String,
}

/// What a parameter shares with its kin.
#[derive(Clone, Debug, PartialEq)]
pub struct Kinship {
    pub name: String,
    /// What is expected of the mean.
    pub expected: f64,
    /// How far members lie from their mean: a standard deviation like `spread`.
    pub within: f64,
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
        Ok(Self { parameters: written::parameters(text).map_err(failed)? })
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

    /// Whether its prior is one of its logarithm; of the number itself where that may be 0.
    fn is_by_factors(&self) -> bool {
        self.lower > 0.0
    }

    /// `value` in the scale of its prior.
    fn scaled(&self, value: f64) -> f64 {
        let value = value.clamp(self.lower, self.upper);
        if self.is_by_factors() { value.ln() } else { value }
    }

    /// How far the truth may lie from what is expected, in the scale of its prior: one unit of position.
    pub fn deviation(&self) -> f64 {
        self.kin.as_ref().map_or(self.spread, |kin| self.spread.hypot(kin.within))
    }

    /// How far `value` lies from what is expected, in the scale of its prior.
    pub fn offset(&self, value: f64) -> f64 {
        self.scaled(value) - self.scaled(self.expected)
    }

    /// The value `offset` away from what is expected, in the scale of its prior.
    pub fn at_offset(&self, offset: f64) -> f64 {
        let value = if self.is_by_factors() { self.expected * offset.exp() } else { self.expected + offset };
        value.clamp(self.lower, self.upper)
    }

    /// The value at `position`: 0 is what is expected, and 1 its deviation above that.
    pub fn value(&self, position: f64) -> f64 {
        self.at_offset(position * self.deviation())
    }

    /// The position of `value`, within its limits.
    pub fn position(&self, value: f64) -> f64 {
        let position = self.offset(value) / self.deviation();
        if position.is_nan() { 0.0 } else { position }
    }

    /// The positions of its limits.
    pub fn limits(&self) -> (f64, f64) {
        (self.position(self.lower), self.position(self.upper))
    }

    /// By how much the value at `position` changes with the position.
    pub fn unit(&self, position: f64) -> f64 {
        self.deviation() * if self.is_by_factors() { self.value(position) } else { 1.0 }
    }

    /// A change of position that changes the value by about a thousandth; of one that may be 0, a hundredth of its
    /// deviation.
    pub fn small_step(&self) -> f64 {
        if self.is_by_factors() { 1e-3 / self.deviation() } else { 1e-2 }
    }

    /// What holds for its kin where it is not fitted and stands at `value`.
    pub fn held(&self, value: f64) -> Option<Held> {
        let kin = self.kin.as_ref()?;
        Some(Held { kin: kin.name.clone(), offset: self.offset(value) })
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
        let has_limits = self.lower.is_finite() && self.upper.is_finite() && 0.0 <= self.lower;
        if !has_limits || self.lower >= self.upper {
            return failed(format!("0 ≤ lower < upper is needed, not {} and {}", self.lower, self.upper));
        }
        if !(self.lower..=self.upper).contains(&self.expected) {
            return failed(format!("what is expected, {}, lies outside its limits", self.expected));
        }
        let within = self.kin.as_ref().map(|kin| kin.within);
        for spread in [self.spread].into_iter().chain(within) {
            if !spread.is_finite() || spread <= 0.0 {
                return failed(format!("a spread is above 0, not {spread}"));
            }
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
