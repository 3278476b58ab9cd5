//! What a reader of a config should know: what was left out, what is planned otherwise, what means nothing to us.

use serde_json::{Map, Value};

use super::MultiToken;
use super::config::{Config, shortened};
use super::families::{Absent, COMMON_HARMLESS, OUTER_HARMLESS, STORAGE, in_use};
use crate::model::error::ModelError;

/// Unknown fields that are named one by one; the rest are counted.
const NAMED_WARNINGS: usize = 12;

/// A line each, in the order defaults, what is not used, storage of weights, multi-token prediction, unknown fields; `outer` is
/// what stands around a `text_config`.
pub(super) fn notes(
    config: &Config<'_>,
    outer: Option<&Map<String, Value>>,
    multi_token: MultiToken,
) -> Result<Vec<String>, ModelError> {
    let mut notes = defaults(config);
    let ratio = config.optional_size("expansion_ratio")?.filter(|ratio| *ratio != 4);
    notes.extend(ratio.map(|ratio| {
        format!(
            "expansion_ratio {ratio} is not used, as transformers does: MLPs are 4 times as wide as the model"
        )
    }));
    for field in STORAGE {
        if in_use(config.fields, field) || outer.is_some_and(|outer| in_use(outer, field)) {
            notes.push(format!("{field} is left out: the model in full precision is planned"));
        }
    }
    notes.extend(multi_token_layers(config.multi_token_layers()?, multi_token));
    notes.extend(unknown(config, outer));
    Ok(notes)
}

/// Each field that shapes the model and is missing. A switch that is off by default is not missed, except for tied
/// embeddings: transformers 4 writes these where they are not tied, and leaves them out where they are.
fn defaults(config: &Config<'_>) -> Vec<String> {
    let missing = config.family.fields.iter().filter(|(field, _)| config.given(field).is_none());
    let value = |field: &str, absent: Absent| match (absent, field) {
        (Absent::Size(size), _) => Some(size.to_string()),
        (Absent::Word(word), _) => Some(word.to_owned()),
        (Absent::Flag(tied), "tie_word_embeddings") => (!tied).then(|| "false".to_owned()),
        (Absent::Flag(on), _) => on.then(|| "true".to_owned()),
        (Absent::Null, "num_key_value_heads") => Some("as many as num_attention_heads".to_owned()),
        (Absent::Null, _) => None,
    };
    let line = |(field, absent): &(&str, Absent)| {
        let value = value(field, *absent)?;
        Some(format!("{field} is missing: {value}, the default of {}", config.family.model_type))
    };
    missing.filter_map(line).collect()
}

fn multi_token_layers(layers: u64, multi_token: MultiToken) -> Option<String> {
    let (what, is, it) = match layers {
        0 => return None,
        1 => ("1 multi-token prediction layer".to_owned(), "is", "it"),
        _ => (format!("{layers} multi-token prediction layers"), "are", "them"),
    };
    Some(match multi_token {
        MultiToken::LeftOut => {
            format!("{what} {is} left out, as transformers does; --mtp counts and prices {it}")
        }
        MultiToken::Counted => format!(
            "{what} {is} counted, behind the last block: norms, projection and block, and one more pass each of \
             the head; the embedding is not looked up once more"
        ),
    })
}

fn unknown(config: &Config<'_>, outer: Option<&Map<String, Value>>) -> Vec<String> {
    let inside = config.fields.keys().filter(|field| !config.family.knows(field)).cloned();
    let outside = outer.into_iter().flat_map(Map::keys).filter(|field| {
        !OUTER_HARMLESS.contains(&field.as_str()) && !COMMON_HARMLESS.contains(&field.as_str())
    });
    let deeper = config.inner().ok().flatten();
    let deeper =
        deeper.iter().flat_map(|inner| inner.fields.keys().filter(|field| !inner.family.knows(field)));
    let unknown: Vec<String> = inside.chain(outside.cloned()).chain(deeper.cloned()).collect();
    let mut lines: Vec<String> = unknown
        .iter()
        .take(NAMED_WARNINGS)
        .map(|field| format!("unknown field `{}` is ignored", shortened(field)))
        .collect();
    if unknown.len() > NAMED_WARNINGS {
        lines.push(format!("{} more unknown fields are ignored", unknown.len() - NAMED_WARNINGS));
    }
    lines
}
