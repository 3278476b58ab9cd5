//! Fields that an engine builds otherwise than the plan has them, field by field, in the names of our model's own types.

use serde_json::{Map, Value};

use super::decoder::Decoder;
use crate::model::Model;
use crate::model::outline::outline;

/// The model that an engine builds from settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Build {
    pub decoder: Decoder,
    /// Fields that neither the settings nor the engine settle, such as `constants.initializer_range`.
    pub open: Vec<&'static str>,
}

/// A field of the model whose value an engine does not take from the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// As the file of a layer graph names it: `constants.rotary.theta`.
    pub field: String,
    pub planned: Value,
    /// None where nothing settles it.
    pub built: Option<Value>,
}

impl From<Decoder> for Build {
    fn from(decoder: Decoder) -> Self {
        Self { decoder, open: Vec::new() }
    }
}

/// The fields in which `build` differs from `planned`, in the order of the fields.
pub fn differences(planned: &Decoder, build: &Build) -> Vec<Difference> {
    let [one, other] = [planned, &build.decoder]
        .map(|decoder| serde_json::to_value(decoder.clone().normal()).unwrap_or_default());
    let mut list = Vec::new();
    compare("", &one, &other, &mut list);
    let is_open = |field: &str| build.open.iter().any(|open| is_inside(field, open));
    list.retain(|difference| !is_open(&difference.field));
    for field in &build.open {
        let value = field.split('.').try_fold(&one, |value, name| value.get(name)).cloned();
        list.push(Difference { field: (*field).to_owned(), planned: value.unwrap_or_default(), built: None });
    }
    list
}

/// Whether `field` is `section` or inside it.
fn is_inside(field: &str, section: &str) -> bool {
    field.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn compare(path: &str, planned: &Value, built: &Value, list: &mut Vec<Difference>) {
    match (planned, built) {
        (Value::Object(one), Value::Object(other)) if !are_variants(one, other) => {
            let missing = |name: &&String| !one.contains_key(*name);
            for name in one.keys().chain(other.keys().filter(missing)) {
                let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let value = |fields: &Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                compare(&inner, &value(one), &value(other), list);
            }
        }
        _ if is_same(planned, built) => {}
        _ => list.push(Difference {
            field: path.to_owned(),
            planned: planned.clone(),
            built: Some(built.clone()),
        }),
    }
}

/// Whether these are two variants of an enumeration: `{"llama3": …}` and `{"yarn": …}`.
fn are_variants(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let only = |fields: &Map<String, Value>| fields.keys().next().cloned().filter(|_| fields.len() == 1);
    only(one).zip(only(other)).is_some_and(|(one, other)| one != other)
}

/// Whether two values are one number or are equal; engines read settings as text, so 1 and 1.0 are one.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other || one.as_f64().is_some_and(|number| other.as_f64() == Some(number))
}

impl Difference {
    /// A sentence on it, about what is written for `target`.
    pub fn sentence(&self, target: &str) -> String {
        let (field, planned) = (self.name(), shown(&self.planned));
        match &self.built {
            Some(built) => {
                format!("{field} is {planned} in the plan, and {} as {target} builds it.", shown(built))
            }
            None => format!("{field} is {planned} in the plan, and no setting says it."),
        }
    }

    /// The field, without the section of constants.
    fn name(&self) -> &str {
        self.field.strip_prefix("constants.").unwrap_or(&self.field)
    }
}

/// All of `model` in a few sentences, for who has to make it by hand: its constants, and its layers by kind.
pub fn described(model: &Model) -> Vec<String> {
    let constants = serde_json::to_value(&model.constants).unwrap_or_default();
    let mut sentences: Vec<String> = outline(model)
        .into_iter()
        .map(|group| {
            let kind = serde_json::to_value(&group.first.kind).unwrap_or_default();
            let fields = kind.as_object().and_then(|kind| kind.values().next());
            let index = model.layers().position(|layer| std::ptr::eq(layer, group.first));
            let beside = match index.map_or(0, |index| model.inputs(index).len()) {
                0 | 1 => "",
                _ => "; it reads what attention beside it reads",
            };
            format!("{}: {}{beside}.", group.name, shown(fields.unwrap_or(&kind)))
        })
        .collect();
    sentences.push(format!("Constants: {}.", shown(&constants)));
    if let Some(longest) = model.max_sequence {
        sentences.push(format!("The longest sequence: {longest} tokens."));
    }
    sentences
}

/// A value for a sentence; what is absent or off is left out of lists of fields.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(on) => if *on { "on" } else { "off" }.to_owned(),
        Value::String(word) => word.clone(),
        Value::Array(list) => list.iter().map(shown).collect::<Vec<_>>().join("/"),
        Value::Object(fields) => {
            let said = fields.iter().filter(|(_, value)| !matches!(value, Value::Null | Value::Bool(false)));
            let each = said.map(|(name, value)| match value {
                Value::Object(_) => format!("{name} ({})", shown(value)),
                Value::Bool(_) => name.clone(),
                _ => format!("{name} {}", shown(value)),
            });
            each.collect::<Vec<_>>().join(", ")
        }
        Value::Number(number) => match number.as_f64() {
            Some(whole) if whole.fract() == 0.0 && whole.abs() < 1e15 => format!("{whole:.0}"),
            _ => number.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::load;

    #[test]
    fn fields_that_differ_are_named_with_both_values() {
        let planned = Decoder::of(&load("llama-3.1-8b").unwrap()).unwrap();
        let mut built = planned.clone();
        built.constants.rotary.theta = 1e4;
        built.constants.rotary.scaling = crate::model::constants::RotaryScaling::None;
        let list = differences(&planned, &built.clone().into());
        let fields: Vec<&str> = list.iter().map(|difference| difference.field.as_str()).collect();
        assert_eq!(fields, ["constants.rotary.scaling", "constants.rotary.theta"]);
        let sentence = list[1].sentence("it");
        assert_eq!(sentence, "rotary.theta is 500000 in the plan, and 10000 as it builds it.");
        assert_eq!(differences(&planned, &planned.clone().into()), []);
        let open = Build { decoder: built, open: vec!["constants.rotary"] };
        let list = differences(&planned, &open);
        assert_eq!((list.len(), list[0].built.as_ref()), (1, None));
    }
}
