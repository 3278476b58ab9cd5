//! A loss weight in JSON: a number, or `{"adaptive": {"of": …, "at": …}}`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::graph::LossWeight;

/// How much a loss counts; 1 where it is left out.
#[derive(Clone, Debug, PartialEq)]
pub enum Weight {
    Fixed(f64),
    Adaptive(Adaptive),
}

/// `clamp(|dL_of/dW_at| / (|dL/dW_at| + 1e-4), 0, 1e4)`, taken anew each micro-batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Adaptive {
    /// Name of the loss whose gradient norm is the numerator.
    pub of: String,
    /// Name of the layer at whose weight both norms are taken.
    pub at: String,
}

impl Default for Weight {
    fn default() -> Self {
        Self::Fixed(1.0)
    }
}

impl From<Weight> for LossWeight {
    fn from(weight: Weight) -> Self {
        match weight {
            Weight::Fixed(weight) => Self::Fixed(weight),
            Weight::Adaptive(Adaptive { of, at }) => Self::Adaptive { of, at },
        }
    }
}

impl From<LossWeight> for Weight {
    fn from(weight: LossWeight) -> Self {
        match weight {
            LossWeight::Fixed(weight) => Self::Fixed(weight),
            LossWeight::Adaptive { of, at } => Self::Adaptive(Adaptive { of, at }),
        }
    }
}

impl Serialize for Weight {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(weight) => serializer.serialize_f64(*weight),
            Self::Adaptive(adaptive) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("adaptive", adaptive)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WeightVisitor)
    }
}

struct WeightVisitor;

impl<'de> Visitor<'de> for WeightVisitor {
    type Value = Weight;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or {\"adaptive\": {\"of\": …, \"at\": …}}")
    }

    fn visit_f64<E: Error>(self, weight: f64) -> Result<Weight, E> {
        Ok(Weight::Fixed(weight))
    }

    fn visit_u64<E: Error>(self, weight: u64) -> Result<Weight, E> {
        Ok(Weight::Fixed(weight as f64))
    }

    fn visit_i64<E: Error>(self, weight: i64) -> Result<Weight, E> {
        Ok(Weight::Fixed(weight as f64))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Weight, A::Error> {
        let Some(key) = map.next_key::<String>()? else {
            return Err(A::Error::missing_field("adaptive"));
        };
        if key != "adaptive" {
            return Err(A::Error::unknown_field(&key, &["adaptive"]));
        }
        let adaptive = map.next_value()?;
        match map.next_key::<String>()? {
            None => Ok(Weight::Adaptive(adaptive)),
            Some(key) => Err(A::Error::unknown_field(&key, &["adaptive"])),
        }
    }
}

impl JsonSchema for Weight {
    fn schema_name() -> Cow<'static, str> {
        "Weight".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "How much a loss counts; 1 where it is left out.",
            "anyOf": [
                { "type": "number" },
                {
                    "type": "object",
                    "properties": { "adaptive": generator.subschema_for::<Adaptive>() },
                    "required": ["adaptive"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}
