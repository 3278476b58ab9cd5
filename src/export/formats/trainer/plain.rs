//! Arguments of the Trainer under one spelling, whatever file they come from.

use serde_json::Value;

use crate::export::error::ImportError;
use crate::export::reader::Reader;
use crate::export::syntax::{Document, Found, Syntax};

/// Classes of arguments, with the programs that train by them: the Trainer's own, and TRL's for fine-tuning.
const CLASSES: [&str; 4] =
    ["TrainingArguments()", "Seq2SeqTrainingArguments()", "SFTConfig()", "transformers.TrainingArguments()"];

/// Calls that train something else than the whole model.
const ADAPTERS: [(&str, &str); 4] = [
    ("LoraConfig()", "LoRA is not planned yet; full fine-tuning is"),
    ("BitsAndBytesConfig()", "a quantised model under adapters is not planned yet; full fine-tuning is"),
    ("DPOConfig()", "training on preferences runs a second model, which is not planned"),
    ("GRPOConfig()", "reinforcement learning is not planned"),
];

/// The arguments of `document` by the names that the Trainer has for them; none where it has none of them.
pub fn plain(document: &Document) -> Option<Document> {
    match document.syntax {
        Syntax::Arguments => {
            let mut plain = Document::translated(Syntax::Arguments);
            for found in &document.found {
                let name = found.path.replace('-', "_");
                put(&mut plain, &name, found, document);
            }
            Some(plain)
        }
        Syntax::Python => python(document),
        _ => Some(document.clone()),
    }
}

fn put(plain: &mut Document, name: &str, found: &Found, document: &Document) {
    plain.take(name, found, document);
}

/// The arguments of the one call of a class of arguments.
fn python(document: &Document) -> Option<Document> {
    let is_class = |found: &&Found| found.value.as_str().is_some_and(|word| CLASSES.contains(&word));
    let call = document.found.iter().find(is_class)?;
    let mut plain = Document::translated(Syntax::Python);
    let below = format!("{}.", call.path);
    for found in &document.found {
        if let Some(name) = found.path.strip_prefix(&below) {
            put(&mut plain, name, &settled(found, document), document);
        }
    }
    let model = document.found.iter().find(|found| {
        let word = found.value.as_str().unwrap_or_default();
        word.ends_with(".from_pretrained()") && word.contains("Model")
    });
    if let Some(model) = model {
        for (argument, name) in [
            ("0", "model_name_or_path"),
            ("pretrained_model_name_or_path", "model_name_or_path"),
            ("attn_implementation", "attn_implementation"),
            ("torch_dtype", "torch_dtype"),
            ("dtype", "torch_dtype"),
            ("load_in_4bit", "load_in_4bit"),
            ("load_in_8bit", "load_in_8bit"),
        ] {
            if let Some(found) = document.get(&format!("{}.{argument}", model.path)) {
                put(&mut plain, name, &settled(found, document), document);
            }
        }
    }
    Some(plain)
}

/// `found` with the value of the variable that it names, where the file assigns one that is settled.
fn settled(found: &Found, document: &Document) -> Found {
    let word = found.value.as_str().unwrap_or_default();
    // A type is a name of a module, and says what it is.
    let is_type = word.starts_with("torch.") && !word.ends_with(')');
    let named = document.get(word).filter(|known| found.is_open && !known.is_open);
    match named {
        Some(known) => Found { value: known.value.clone(), is_open: false, ..found.clone() },
        None => Found { is_open: found.is_open && !is_type, ..found.clone() },
    }
}

/// Refuses files of Python that train adapters or run other models beside.
pub fn adapters(reader: &Reader<'_>) -> Result<(), ImportError> {
    if reader.document().syntax != Syntax::Python {
        return Ok(());
    }
    for found in &reader.document().found {
        let word = found.value.as_str().unwrap_or_default();
        if let Some((_, rule)) =
            ADAPTERS.iter().find(|(call, _)| word == *call || word.ends_with(&format!(".{call}")))
        {
            return Err(reader.refused(&found.path, rule));
        }
    }
    Ok(())
}

/// Marks what was read of the plain spelling as read in the file, and of Python all that is no argument.
pub fn seen(reader: &Reader<'_>, inner: &Reader<'_>) {
    for found in &reader.document().found {
        reader.name(&found.path);
    }
    // Names that may be assumed.
    for name in inner.asked() {
        reader.name(&name);
    }
}

/// Whether Python switches recomputation on by a call.
pub fn recomputes_by_call(document: &Document) -> bool {
    document.syntax == Syntax::Python && document.text.contains(".gradient_checkpointing_enable(")
}

/// What a value says of a type: `torch.bfloat16`, `bfloat16`, `bf16`.
pub fn type_word(value: &Value) -> Option<&str> {
    value.as_str().map(|word| word.trim_start_matches("torch."))
}
