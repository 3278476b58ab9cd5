//! `meshwright models`: the models that can be named, and what else can be read; or the layers of one.

use clap::Args;
use serde::Serialize;

use super::document::{pretty, style};
use super::error::CliError;
use super::hints;
use super::layers;
use super::output::print;
use super::table::table;
use crate::model::hugging_face::model_types;
use crate::model::layer::LayerKind;
use crate::model::{self, Model, presets};
use crate::report::{Column, broken};
use crate::units::grouped;

pub const EXAMPLES: &str = "\
Examples:
  meshwright models
  meshwright models --json

  # Its layers, by the names that --freeze takes
  meshwright models llama-3.1-8b
  meshwright models ./my-model/config.json --json";

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct ModelsArgs {
    /// List the layers of this model: a preset's name, a config.json or its folder, or a layer-graph JSON
    #[arg(value_name = "MODEL", value_parser = hints::MODEL, hide_possible_values = true)]
    model: Option<String>,
    /// Print the list as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Listing {
    models: Vec<Entry>,
    /// The `model_type`s of a config.json that can be read.
    model_types: Vec<&'static str>,
}

/// One preset.
#[derive(Serialize)]
struct Entry {
    name: &'static str,
    parameters: u64,
    layers: u32,
    hidden: u64,
    heads: u64,
    key_value_heads: u64,
    vocabulary: u64,
    /// The longest sequence; null where the model sets none.
    max_seq_len: Option<u64>,
    description: &'static str,
    source: &'static str,
}

/// Runs the command.
pub fn run(args: &ModelsArgs) -> Result<(), CliError> {
    if let Some(model) = &args.model {
        let model = model::load(model)?;
        return print(&if args.json { pretty(&layers::listing(&model)) } else { layers::text(&model) });
    }
    let mut models = Vec::new();
    for preset in presets() {
        let model = preset.model()?;
        models.push(entry(&model, preset.name, preset.description, preset.source));
    }
    let listing = Listing { models, model_types: model_types().collect() };
    print(&if args.json { pretty(&listing) } else { text(&listing) })
}

fn entry(model: &Model, name: &'static str, description: &'static str, source: &'static str) -> Entry {
    let mut entry = Entry {
        name,
        parameters: model.parameter_count(),
        layers: model.blocks(),
        hidden: 0,
        heads: 0,
        key_value_heads: 0,
        vocabulary: 0,
        max_seq_len: model.max_sequence,
        description,
        source,
    };
    for layer in model.layers() {
        match &layer.kind {
            LayerKind::Attention(attention) => {
                entry.heads = entry.heads.max(attention.heads);
                entry.key_value_heads = entry.key_value_heads.max(attention.kv_heads());
            }
            LayerKind::Head(head) => {
                (entry.hidden, entry.vocabulary) = (head.hidden, head.vocabulary);
            }
            _ => {}
        }
    }
    entry
}

fn text(listing: &Listing) -> String {
    use Column::{Name, Number, Text};
    let columns = [
        ("MODEL", Name),
        ("PARAMETERS", Number),
        ("BLOCKS", Number),
        ("HIDDEN", Number),
        ("HEADS", Number),
        ("KV", Number),
        ("VOCABULARY", Number),
        ("LONGEST", Number),
        ("", Text),
    ];
    let rows = listing.models.iter().map(|model| {
        [
            model.name.to_owned(),
            grouped(model.parameters),
            model.layers.to_string(),
            model.hidden.to_string(),
            model.heads.to_string(),
            model.key_value_heads.to_string(),
            model.vocabulary.to_string(),
            model.max_seq_len.map_or_else(|| "any".to_owned(), |longest| longest.to_string()),
            model.description.to_owned(),
        ]
    });
    let width = style().width;
    let more = format!(
        "A Hugging Face config.json, or its folder, of one of these types can be read too: {}. And our own \
         layer-graph JSON (docs/schemas/layer-graph.schema.json), for anything else.",
        listing.model_types.join(", ")
    );
    format!("{}\n\n{}\n", table(columns, rows), broken(&more, width).join("\n"))
}
