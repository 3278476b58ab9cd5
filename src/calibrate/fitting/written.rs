//! The file of parameters as it is written: kin are declared once.

use serde::Deserialize;

use super::parameters::{Kinship, Parameter};

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    #[serde(default)]
    kin: Vec<WrittenKin>,
    parameters: Vec<WrittenParameter>,
}

/// Numbers at one path that share an unknown mean.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenKin {
    name: String,
    path: String,
    lower: f64,
    upper: f64,
    expected: f64,
    spread: f64,
    within: f64,
    #[serde(default)]
    rests_on: Option<String>,
    meaning: String,
}

/// A number of its own, or a member of a kin, which says all but whose it is, and where it is not what its kin expect.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenParameter {
    #[serde(default)]
    devices: Vec<String>,
    #[serde(default)]
    engines: Vec<String>,
    #[serde(default)]
    kin: Option<String>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    lower: Option<f64>,
    #[serde(default)]
    upper: Option<f64>,
    #[serde(default)]
    expected: Option<f64>,
    #[serde(default)]
    spread: Option<f64>,
    #[serde(default)]
    rests_on: Option<String>,
    #[serde(default)]
    meaning: Option<String>,
}

/// The parameters in `text`.
///
/// # Errors
/// Says what the file is or lacks; reads on after its name.
pub(super) fn parameters(text: &str) -> Result<Vec<Parameter>, String> {
    let Written { version, kin, parameters } =
        serde_json::from_str(text).map_err(|error| format!("is no list of parameters: {error}"))?;
    if version != 2 {
        return Err(format!("has version {version}; 2 is read"));
    }
    for (place, one) in kin.iter().enumerate() {
        if kin[..place].iter().any(|other| other.name == one.name) {
            return Err(format!("has two kin `{}`", one.name));
        }
    }
    parameters.into_iter().map(|one| one.read(&kin)).collect()
}

impl WrittenParameter {
    /// It with what its kin say.
    fn read(self, kin: &[WrittenKin]) -> Result<Parameter, String> {
        let whose = self.devices.iter().chain(&self.engines).cloned().collect::<Vec<_>>().join("+");
        let Some(name) = self.kin else {
            let missing = |field: &str| format!("leaves `{field}` of a parameter of {whose} open");
            return Ok(Parameter {
                devices: self.devices,
                engines: self.engines,
                path: self.path.ok_or_else(|| missing("path"))?,
                lower: self.lower.ok_or_else(|| missing("lower"))?,
                upper: self.upper.ok_or_else(|| missing("upper"))?,
                expected: self.expected.ok_or_else(|| missing("expected"))?,
                spread: self.spread.ok_or_else(|| missing("spread"))?,
                kin: None,
                rests_on: self.rests_on,
                meaning: self.meaning.ok_or_else(|| missing("meaning"))?,
            });
        };
        let own = [self.path.is_some(), self.lower.is_some(), self.upper.is_some(), self.spread.is_some()];
        if own.contains(&true) {
            return Err(format!(
                "gives a member of kin `{name}` ({whose}) what its kin say: path, limits or spread"
            ));
        }
        let kin = kin.iter().find(|kin| kin.name == name);
        let kin = kin.ok_or_else(|| format!("has no kin `{name}`, which {whose} names"))?.clone();
        Ok(Parameter {
            devices: self.devices,
            engines: self.engines,
            path: kin.path,
            lower: kin.lower,
            upper: kin.upper,
            expected: self.expected.unwrap_or(kin.expected),
            spread: kin.spread,
            kin: Some(Kinship { name, expected: kin.expected, within: kin.within }),
            rests_on: self.rests_on.or(kin.rests_on),
            meaning: self.meaning.unwrap_or(kin.meaning),
        })
    }
}
