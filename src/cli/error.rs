//! What ends a command early: its kind, exit code, text form and JSON form.

use std::fmt;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde::{Deserialize, Serialize};

use super::interrupt;
use crate::cluster::ClusterError;
use crate::export::error::ImportError;
use crate::model::ModelError;
use crate::plan::PlanFileError;
use crate::search::Failure;
use crate::spelling::distance;
use crate::spelling::hidden::{self, shown_but};
use crate::strategy::{RuleBreak, StrategyTextError};

/// So many values are offered in place of one that was not given.
const MOST_OFFERED: usize = 12;

/// Whose fault it is; each kind has its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A flag or value that does not parse or is below its least.
    Usage,
    /// A file or value that cannot be used.
    Input,
    /// A strategy that breaks a rule.
    Illegal,
    /// Nothing fits.
    Infeasible,
    /// An output that cannot be written.
    Output,
    /// A run that failed: a rank, a device, numbers.
    Run,
    /// Somebody did not want to wait.
    Interrupted,
}

impl Kind {
    /// The exit code of the process.
    pub const fn code(self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::Input => 3,
            Self::Illegal | Self::Infeasible => 4,
            Self::Output => 5,
            Self::Run => 6,
            Self::Interrupted => interrupt::CODE,
        }
    }
}

/// Why a command ended early.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CliError {
    pub kind: Kind,
    /// The flag, key or field at fault, without dashes; empty where there is none.
    pub field: String,
    pub value: String,
    pub message: String,
    /// What would do in its place, nearest first.
    pub nearest: Vec<String>,
}

impl CliError {
    /// A flag `field` whose `value` does not do; `rule` reads on after both.
    pub fn usage(field: &str, value: &str, rule: impl fmt::Display) -> Self {
        let message = format!("--{field} {}: {rule}", shown(value));
        Self { kind: Kind::Usage, field: field.to_owned(), value: shown(value), message, nearest: Vec::new() }
    }

    /// The same with the value of flag `field` as it was typed, in place of what it was read as.
    pub fn with_typed(self, field: &str, typed: Option<&str>) -> Self {
        match typed {
            Some(typed) if self.field == field => {
                let message = format!("--{field} {}: {}", shown(typed), self.message);
                Self { value: shown(typed), message, ..self }
            }
            _ => self,
        }
    }

    /// The same with what would do instead.
    pub fn or<N: ToString>(self, nearest: impl IntoIterator<Item = N>) -> Self {
        Self { nearest: nearest.into_iter().map(|near| near.to_string()).collect(), ..self }
    }
}

/// `{"error": {...}}`: what stands on stdout under `--json`.
#[derive(Serialize)]
pub struct ErrorDocument {
    pub error: CliError,
}

impl fmt::Display for CliError {
    /// `error: ...`, and a line `nearest: ...` where the message does not name them all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What was typed or read may hold ends of lines; of the program's own texts only the log of a compiler does.
        let is_log = |c: char| c == '\n' && self.kind == Kind::Run;
        write!(f, "error: {}", shown_but(&self.message, is_log))?;
        if self.nearest.iter().all(|near| self.message.contains(near.as_str())) {
            return Ok(());
        }
        write!(f, "\n  nearest: {}", hidden::shown(&self.nearest.join(", ")))
    }
}

/// At most 200 characters of what was typed: enough to know it again.
pub(super) fn shown(value: &str) -> String {
    const LONGEST: usize = 200;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    }
}

impl From<ModelError> for CliError {
    fn from(error: ModelError) -> Self {
        Self {
            kind: Kind::Input,
            field: error.field().unwrap_or("model").to_owned(),
            value: shown(error.value().unwrap_or_default()),
            message: error.to_string(),
            nearest: error.nearest().to_vec(),
        }
    }
}

impl From<ClusterError> for CliError {
    fn from(error: ClusterError) -> Self {
        let kind = match error {
            // The counts of a shorthand are part of the flag's own text.
            ClusterError::Count { .. } => Kind::Usage,
            _ => Kind::Input,
        };
        Self {
            kind,
            field: error.field().to_owned(),
            value: shown(&error.value()),
            message: error.to_string(),
            nearest: error.nearest(),
        }
    }
}

impl From<ImportError> for CliError {
    fn from(error: ImportError) -> Self {
        let mut message = error.to_string();
        if let ImportError::Value { path, nearest, .. } | ImportError::Elsewhere { path, nearest, .. } =
            &error
            && let Some(near) = nearest.first()
        {
            message += &format!(" (--assume {path}={near} reads the file as if it said that)");
        }
        Self {
            kind: Kind::Input,
            field: shown(&error.field()),
            value: shown(&error.value()),
            message,
            nearest: error.nearest(),
        }
    }
}

impl From<StrategyTextError> for CliError {
    fn from(error: StrategyTextError) -> Self {
        let (field, value) = (shown(error.field()), shown(error.value()));
        let message = format!("strategy: {}", with_value(&field, &value, error.to_string()));
        Self { kind: Kind::Usage, field, value, message, nearest: error.nearest() }
    }
}

/// `message`, behind `field=value` where it does not name the value.
fn with_value(field: &str, value: &str, message: String) -> String {
    if message.contains(value) { message } else { format!("{field}={value}: {message}") }
}

impl From<RuleBreak> for CliError {
    fn from(error: RuleBreak) -> Self {
        let RuleBreak { field, value, nearest, message, .. } = error;
        let value = shown(&value);
        // Of several keys the message names each.
        let message = if field.contains(',') { message } else { with_value(&field, &value, message) };
        Self { kind: Kind::Illegal, field, value, message, nearest }
    }
}

impl From<Failure> for CliError {
    fn from(error: Failure) -> Self {
        let message = error.to_string();
        match error {
            Failure::Illegal(broken) => broken.into(),
            Failure::Interrupted => Self {
                kind: Kind::Interrupted,
                field: String::new(),
                value: String::new(),
                message,
                nearest: Vec::new(),
            },
            Failure::TimeIsUp { limit } => Self {
                kind: Kind::Infeasible,
                field: "time-limit".to_owned(),
                value: short(limit.as_secs_f64()),
                message,
                nearest: vec![short(10.0 * limit.as_secs_f64())],
            },
            Failure::NothingFits { limit, strategy, .. } => Self {
                kind: Kind::Infeasible,
                field: "memory-limit".to_owned(),
                value: limit.0.to_string(),
                message,
                nearest: vec![strategy],
            },
        }
    }
}

/// A time as it would be typed, to three decimals: `10us`.
fn short(seconds: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)];
    let thousandths = |scale: f64| (1e3 * seconds * scale).round();
    let (unit, scale) = UNITS.into_iter().find(|(_, scale)| thousandths(*scale) >= 1e3).unwrap_or(UNITS[3]);
    format!("{}{unit}", thousandths(scale) / 1e3)
}

impl From<PlanFileError> for CliError {
    fn from(error: PlanFileError) -> Self {
        Self {
            kind: Kind::Input,
            field: error.field().to_owned(),
            value: shown(&error.value()),
            message: error.to_string(),
            nearest: error.nearest(),
        }
    }
}

impl From<clap::Error> for CliError {
    fn from(error: clap::Error) -> Self {
        let strings = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => vec![text.clone()],
            Some(ContextValue::Strings(texts)) => texts.clone(),
            _ => Vec::new(),
        };
        let first = |kind| strings(kind).into_iter().next().unwrap_or_default();
        let arguments = strings(ContextKind::InvalidArg);
        let (field, value) = match error.kind() {
            ErrorKind::InvalidSubcommand => ("command".to_owned(), first(ContextKind::InvalidSubcommand)),
            ErrorKind::UnknownArgument => {
                let typed = first(ContextKind::InvalidArg);
                (bare(&typed), typed)
            }
            _ => {
                let names: Vec<_> = arguments.iter().map(|argument| bare(argument)).collect();
                (names.join(", "), first(ContextKind::InvalidValue))
            }
        };
        let mut nearest = [
            ContextKind::SuggestedSubcommand,
            ContextKind::SuggestedArg,
            ContextKind::SuggestedValue,
            ContextKind::ValidValue,
            ContextKind::ValidSubcommand,
        ]
        .into_iter()
        .map(strings)
        .find(|list| !list.is_empty())
        .unwrap_or_default();
        // Of a value that was not given none is nearer than others, and many say nothing.
        if value.is_empty() && nearest.len() > MOST_OFFERED {
            nearest.clear();
        }
        nearest.sort_by_key(|near| distance(&value, near));
        // The first paragraph says it; tips and usage follow.
        let text = error.render().to_string();
        let said = text.split("\n\n").next().unwrap_or_default();
        let said = said.strip_prefix("error: ").unwrap_or(said);
        let said = said.split("[possible values").next().filter(|_| nearest.is_empty()).unwrap_or(said);
        let message = said.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { kind: Kind::Usage, field: shown(&field), value: shown(&value), message, nearest }
    }
}

/// `--global-batch <N>` is `global-batch`, `<MODEL>` is `model`.
fn bare(argument: &str) -> String {
    let name = argument.split_whitespace().next().unwrap_or_default();
    if name.starts_with('-') {
        name.trim_start_matches('-').split('=').next().unwrap_or_default().to_owned()
    } else {
        name.trim_matches(['<', '>', '[', ']', '.']).to_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_named_without_dashes() {
        assert_eq!(bare("--global-batch <N>"), "global-batch");
        assert_eq!(bare("<MODEL>"), "model");
        assert_eq!(bare("--out=x"), "out");
    }

    #[test]
    fn times_are_short() {
        let texts = [1e-6, 1e-5, 0.999_999_9, 2.5, 0.0125, 3e-9].map(short);
        assert_eq!(texts, ["1us", "10us", "1s", "2.5s", "12.5ms", "3ns"]);
    }

    #[test]
    fn nearest_values_stand_once() {
        let error = CliError::usage("top", "x", "1 to 3 are possible");
        assert_eq!(error.clone().or([1]).to_string(), "error: --top x: 1 to 3 are possible");
        assert_eq!(error.or([7]).to_string(), "error: --top x: 1 to 3 are possible\n  nearest: 7");
    }
}
