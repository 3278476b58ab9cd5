//! `--freeze GLOB`: which layers are not trained.

use super::error::{CliError, Kind};
use crate::model::Model;
use crate::model::outline::{name_globs, name_patterns};
use crate::plan::shell::quoted;
use crate::spelling::nearest;

/// Names of layers that an error lists.
const MOST_NAMES: usize = 12;

/// Marks the layers of `model` whose names match one of `globs` as frozen; `typed` is what the model was called, if it
/// was.
///
/// # Errors
/// When a glob matches no layer, or nothing is left to train.
pub fn freeze(model: &mut Model, globs: &[String], typed: Option<&str>) -> Result<(), CliError> {
    for glob in globs {
        let mut hit = false;
        for layer in model.graph.node_weights_mut() {
            if matches(glob, &layer.name) {
                layer.frozen = true;
                hit = true;
            }
        }
        if !hit {
            return Err(no_such_layer(model, glob, typed));
        }
    }
    if !globs.is_empty() && model.trainable_count() == 0 {
        return Err(refused(&globs.join(" "), "leaves nothing to train"));
    }
    Ok(())
}

/// `glob` matches no layer of `model`: which there are, and how to see them all.
fn no_such_layer(model: &Model, glob: &str, typed: Option<&str>) -> CliError {
    let patterns = name_patterns(model);
    let more = if patterns.len() > MOST_NAMES { ", ..." } else { "" };
    let names = patterns.into_iter().take(MOST_NAMES).collect::<Vec<_>>().join(", ");
    let command = typed.map_or_else(String::new, |typed| {
        format!("; `meshwright models {}` lists them with their sizes", quoted(typed))
    });
    let rule = format!("matches no layer of {}, which has {names}{more}{command}", model.name);
    let globs = name_globs(model);
    // What holds a star or a number is meant for blocks.
    let is_of_blocks = |text: &str| text.contains(|sign: char| sign == '*' || sign.is_ascii_digit());
    let has_blocks = is_of_blocks(glob) && globs.iter().any(|near| is_of_blocks(near));
    let near = globs.iter().map(String::as_str).filter(|near| !has_blocks || is_of_blocks(near));
    refused(glob, &rule).or(nearest(glob, near))
}

fn refused(glob: &str, rule: &str) -> CliError {
    CliError { kind: Kind::Input, ..CliError::usage("freeze", glob, rule) }
}

/// Whether `glob` matches all of `name`: `*` is any run of characters, `?` any one, all else itself.
fn matches(glob: &str, name: &str) -> bool {
    let glob: Vec<char> = glob.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut read) = (0, 0);
    // After the last star, and what it has taken up to: on a mismatch it takes one character more.
    let mut star = None;
    while read < name.len() {
        if at < glob.len() && glob[at] == '*' {
            at += 1;
            star = Some((at, read));
        } else if at < glob.len() && (glob[at] == '?' || glob[at] == name[read]) {
            at += 1;
            read += 1;
        } else if let Some((after, taken)) = star {
            (at, read) = (after, taken + 1);
            star = Some((after, taken + 1));
        } else {
            return false;
        }
    }
    glob[at..].iter().all(|&rest| rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::load;

    #[test]
    fn stars_take_runs_and_marks_take_one() {
        assert!(matches("block ? attention", "block 3 attention"));
        assert!(!matches("block ? attention", "block 13 attention"));
        assert!(matches("block*", "block 13 attention"));
        assert!(matches("*mlp", "block 0 mlp"));
        assert!(matches("*1*t*", "block 13 attention"));
        assert!(!matches("*1*z", "block 13 attention"));
        assert!(matches("**", ""));
        assert!(!matches("", "head"));
        assert!(!matches(&"*a".repeat(50), &"b".repeat(200)));
    }

    #[test]
    fn frozen_layers_are_not_trained() {
        let mut model = load("gpt2").unwrap();
        let all = model.trainable_count();
        freeze(&mut model, &["embedding".to_owned(), "block 0 *".to_owned()], None).unwrap();
        assert_eq!(model.layers().filter(|layer| layer.frozen).count(), 3);
        assert!(model.trainable_count() < all && model.parameter_count() == all);
        let error = freeze(&mut model, &["block 99 mlp".to_owned()], Some("gpt2")).unwrap_err();
        assert_eq!((error.kind, error.field.as_str()), (Kind::Input, "freeze"));
        assert!(error.nearest[0].starts_with("block "), "{:?}", error.nearest);
        assert!(
            error.message.contains("embedding, block {0..11} attention, block {0..11} mlp, head"),
            "{error}"
        );
        assert!(error.message.contains("`meshwright models gpt2`"), "{error}");
        assert!(freeze(&mut model, &["*".to_owned()], None).is_err());
    }
}
