//! Typed reading of a config's fields: limits, defaults and other spellings.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::families::{Absent, COMMON_ALIASES, Family, refuse};
use crate::model::error::ModelError;
use crate::model::layer::Activation;
use crate::model::sizes::{BLOCK_LIMIT, DIMENSION_LIMIT, EXPERT_LIMIT, HEAD_LIMIT, MULTI_TOKEN_LIMIT};
use crate::spelling::{hidden, nearest};

/// The fields of one config, read by the names that `transformers` gives them.
pub(super) struct Config<'a> {
    pub(super) family: &'static Family,
    pub(super) fields: &'a Map<String, Value>,
}

impl<'a> Config<'a> {
    /// # Errors
    /// When a field is refused, or two spellings of one disagree.
    pub fn new(family: &'static Family, fields: &'a Map<String, Value>) -> Result<Self, ModelError> {
        refuse(fields, family.refused)?;
        for (usual, alias) in family.aliases.iter().chain(COMMON_ALIASES) {
            agree((usual, fields.get(*usual)), (alias, fields.get(*alias)))?;
        }
        Ok(Self { family, fields })
    }

    /// The spellings of a field in this family, the usual one first.
    fn spellings(&self, field: &'static str) -> impl Iterator<Item = &'static str> {
        let aliases = self.family.aliases.iter().filter(move |(usual, _)| *usual == field);
        std::iter::once(field).chain(aliases.map(|(_, alias)| *alias))
    }

    /// The field as the file spells it, with its value; none where the file leaves it out.
    pub(super) fn given(&self, field: &'static str) -> Option<(&'static str, &'a Value)> {
        let given = || self.spellings(field).filter_map(|name| Some((name, self.fields.get(name)?)));
        given().find(|(_, value)| !value.is_null()).or_else(|| given().next())
    }

    fn absent(&self, field: &'static str) -> Absent {
        let row = self.family.fields.iter().find(|(name, _)| *name == field);
        row.map_or(Absent::Null, |(_, absent)| *absent)
    }

    /// A whole number from `least` to `most`; none where it is null.
    fn whole(&self, field: &'static str, least: u64, most: u64) -> Result<Option<u64>, ModelError> {
        let (name, value) = match (self.given(field), self.absent(field)) {
            (Some((_, Value::Null)), _) | (None, Absent::Null | Absent::Flag(_) | Absent::Word(_)) => {
                return Ok(None);
            }
            (None, Absent::Size(size)) => return Ok(Some(size)),
            (Some(given), _) => given,
        };
        let rule = |rule: String, nearest: u64| {
            Err(ModelError::rule(name, shown(value), rule, [nearest.clamp(least, most)]))
        };
        // A number in quotes.
        let quoted = || value.as_str()?.parse::<u64>().ok().filter(|size| (least..=most).contains(size));
        match (value.as_u64(), value.as_f64()) {
            (Some(size), _) if (least..=most).contains(&size) => Ok(Some(size)),
            (Some(size), _) => rule(format!("is outside {least} to {most}"), size),
            (None, Some(real)) if real.fract() == 0.0 => {
                rule(format!("is no whole number from {least} to {most}"), real as u64)
            }
            (None, Some(real)) => {
                let mut nearest =
                    [real.floor(), real.ceil()].map(|near| (near as u64).clamp(least, most)).to_vec();
                nearest.dedup();
                Err(ModelError::rule(name, shown(value), "is not a whole number", nearest))
            }
            (None, None) => {
                let rule = format!("must be a whole number from {least} to {most}");
                Err(ModelError::rule(name, shown(value), rule, quoted()))
            }
        }
    }

    fn required(&self, field: &'static str, size: Option<u64>) -> Result<u64, ModelError> {
        size.ok_or_else(|| {
            let name = self.given(field).map_or(field, |(name, _)| name);
            ModelError::rule(name, "null", "must be a whole number", [""; 0])
        })
    }

    /// A width: at least 1.
    pub fn size(&self, field: &'static str) -> Result<u64, ModelError> {
        let size = self.optional_size(field)?;
        self.required(field, size)
    }

    /// A width, or none where it is null.
    pub fn optional_size(&self, field: &'static str) -> Result<Option<u64>, ModelError> {
        self.whole(field, 1, DIMENSION_LIMIT)
    }

    /// A number that may be 0; null counts as 0.
    pub fn count(&self, field: &'static str) -> Result<u64, ModelError> {
        Ok(self.whole(field, 0, DIMENSION_LIMIT)?.unwrap_or(0))
    }

    /// The number of blocks.
    pub fn layers(&self) -> Result<u64, ModelError> {
        let layers = self.whole("num_hidden_layers", 1, BLOCK_LIMIT)?;
        self.required("num_hidden_layers", layers)
    }

    /// The number of query heads.
    pub fn heads(&self) -> Result<u64, ModelError> {
        let heads = self.whole("num_attention_heads", 1, HEAD_LIMIT)?;
        self.required("num_attention_heads", heads)
    }

    /// The number of routed experts, 0 for none.
    pub fn experts(&self, field: &'static str) -> Result<u64, ModelError> {
        Ok(self.whole(field, 0, EXPERT_LIMIT)?.unwrap_or(0))
    }

    /// The depth of multi-token prediction, 0 for none.
    pub fn multi_token_layers(&self) -> Result<u64, ModelError> {
        Ok(self.whole("num_nextn_predict_layers", 0, MULTI_TOKEN_LIMIT)?.unwrap_or(0))
    }

    /// How many of `experts` a token is sent to.
    pub fn top_k(&self, experts: u64) -> Result<u64, ModelError> {
        let top_k = self.whole("num_experts_per_tok", 1, experts)?;
        top_k.ok_or_else(|| {
            let rule = format!("must be given, for there are {experts} experts; a dense model has none");
            ModelError::rule("num_experts_per_tok", "null", rule, [1])
        })
    }

    /// Elements of one head: the field `head_dim`, or the width shared out to the heads.
    pub fn head_dim(&self, hidden: u64, heads: u64) -> Result<u64, ModelError> {
        if let Some(head_dim) = self.optional_size("head_dim")? {
            return Ok(head_dim);
        }
        if hidden.is_multiple_of(heads) {
            return Ok(hidden / heads);
        }
        let below = hidden / heads * heads;
        let nearest = [below, below + heads].into_iter().filter(|size| *size > 0);
        let name = self.given("hidden_size").map_or("hidden_size", |(name, _)| name);
        let has_head_dim = self.family.fields.iter().any(|(field, _)| *field == "head_dim");
        let given = if has_head_dim { ", and no head_dim is given" } else { "" };
        Err(ModelError::rule(name, hidden, format!("is not divisible by {heads} heads{given}"), nearest))
    }

    /// True or false; null counts as false.
    pub fn flag(&self, field: &'static str) -> Result<bool, ModelError> {
        match self.given(field) {
            Some((_, Value::Bool(flag))) => Ok(*flag),
            Some((_, Value::Null)) => Ok(false),
            Some((name, other)) => {
                Err(ModelError::rule(name, shown(other), "must be true or false", ["true", "false"]))
            }
            None => Ok(matches!(self.absent(field), Absent::Flag(true))),
        }
    }

    /// A string, or none where it is null.
    pub fn word(&self, field: &'static str) -> Result<Option<&'a str>, ModelError> {
        match (self.given(field), self.absent(field)) {
            (Some((_, Value::String(word))), _) => Ok(Some(word)),
            (None, Absent::Word(word)) => Ok(Some(word)),
            (Some((_, Value::Null)) | None, _) => Ok(None),
            (Some((name, other)), _) => {
                Err(ModelError::rule(name, shown(other), "must be a string", [""; 0]))
            }
        }
    }

    /// A list, or none where it is null.
    pub fn list(&self, field: &'static str) -> Result<Option<&'a [Value]>, ModelError> {
        match self.given(field) {
            Some((_, Value::Array(list))) => Ok(Some(list)),
            Some((_, Value::Null)) | None => Ok(None),
            Some((name, other)) => Err(ModelError::rule(name, shown(other), "must be a list", [""; 0])),
        }
    }

    /// A number above 0, or none where it is null or left out.
    pub fn number(&self, field: &'static str) -> Result<Option<f64>, ModelError> {
        match self.given(field) {
            Some((_, Value::Null)) | None => Ok(None),
            Some((name, value)) => above_zero(name, value).map(Some),
        }
    }

    /// An object of fields that are no layer sizes, or none where it is null or left out.
    pub fn object(&self, field: &'static str) -> Result<Option<&'a Map<String, Value>>, ModelError> {
        match self.given(field) {
            Some((_, Value::Object(fields))) => Ok(Some(fields)),
            Some((_, Value::Null)) | None => Ok(None),
            Some((name, other)) => Err(ModelError::rule(name, shown(other), "must be an object", [""; 0])),
        }
    }

    /// Whether the file names the field.
    pub fn has(&self, field: &'static str) -> bool {
        self.given(field).is_some()
    }

    /// The `model_type` of the family.
    pub fn model_type(&self) -> &'static str {
        self.family.model_type
    }

    /// Whether a soft cap is set: a number above 0; null sets none.
    pub fn caps(&self, field: &'static str) -> Result<bool, ModelError> {
        match self.given(field) {
            Some((_, Value::Null)) => Ok(false),
            Some((_, Value::Number(cap))) if cap.as_f64().is_some_and(|cap| cap > 0.0) => Ok(true),
            Some((name, other)) => {
                Err(ModelError::rule(name, shown(other), "must be null or a number above 0", [""; 0]))
            }
            None => Ok(matches!(self.absent(field), Absent::Flag(true))),
        }
    }

    /// The family's inner object; empty where the file has none.
    ///
    /// # Errors
    /// When it is no object, or a field inside is refused.
    pub fn inner(&self) -> Result<Option<Self>, ModelError> {
        static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
        let Some((field, family)) = self.family.inner else { return Ok(None) };
        let fields = match self.given(field) {
            Some((_, Value::Object(fields))) => fields,
            Some((_, Value::Null)) | None => &EMPTY,
            Some((name, other)) => {
                return Err(ModelError::rule(name, shown(other), "must be an object", [""; 0]));
            }
        };
        Self::new(family, fields).map(Some)
    }

    /// The activation function under the first of `fields` that is not null.
    pub fn activation(&self, fields: &[&'static str]) -> Result<Activation, ModelError> {
        for field in fields {
            let Some(word) = self.word(field)? else { continue };
            return match word {
                "gelu" | "gelu_python" => Ok(Activation::Gelu),
                "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" | "gelu_python_tanh" => {
                    Ok(Activation::GeluTanh)
                }
                "silu" | "swish" => Ok(Activation::Silu),
                "relu" => Ok(Activation::Relu),
                "relu2" => Ok(Activation::Relu2),
                _ => {
                    let name = self.given(field).map_or(*field, |(name, _)| name);
                    let known = ["gelu", "gelu_new", "silu", "relu", "relu2"];
                    let rule = format!("is no activation we know; {} are", known.join(", "));
                    Err(ModelError::rule(name, shortened(word), rule, nearest(word, known)))
                }
            };
        }
        let field = fields.first().copied().unwrap_or_default();
        Err(ModelError::rule(field, "null", "must name an activation", ["gelu", "gelu_new", "silu", "relu"]))
    }
}

/// That two spellings of a field, where both are given, say the same.
pub(super) fn agree(one: (&str, Option<&Value>), other: (&str, Option<&Value>)) -> Result<(), ModelError> {
    let given = |value: Option<&Value>| value.filter(|value| !value.is_null()).cloned();
    let (Some(first), Some(second)) = (given(one.1), given(other.1)) else { return Ok(()) };
    // 10000 and 10000.0 are one number.
    let same = first == second || first.as_f64().is_some_and(|number| second.as_f64() == Some(number));
    if same {
        return Ok(());
    }
    let rule = format!("and {} {} disagree; they are two names of one field", other.0, shown(&second));
    Err(ModelError::rule(one.0, shown(&first), rule, [""; 0]))
}

/// The number above 0 under `name`.
pub(super) fn above_zero(name: &str, value: &Value) -> Result<f64, ModelError> {
    let number = value.as_f64().filter(|number| *number > 0.0);
    number.ok_or_else(|| ModelError::rule(name, shown(value), "must be a number above 0", [""; 0]))
}

/// A JSON value short enough for a message.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("(a list of {})", list.len()),
        Value::Object(fields) => format!("(an object of {} fields)", fields.len()),
        other => shortened(&other.to_string()),
    }
}

/// A text cut to what fits a message, on one line of shown characters.
pub(super) fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    let short: String = text.chars().take(LONGEST).collect();
    let mut short = hidden::shown(&short).into_owned();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}
