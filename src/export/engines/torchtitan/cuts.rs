//! Where torchtitan cuts a model, and how other cuts are said.

use serde_json::Value;

/// Blocks a chunk as torchtitan deals them: embedding and head count as `first` and `last` blocks, and what is left
/// over goes to the first chunks. None where it refuses
/// (v0.2.2 `distributed/pipeline_parallel.py`, `generate_llm_fqn_per_model_part`).
pub fn dealt(blocks: u32, chunks: u32, first: u32, last: u32) -> Option<Vec<u32>> {
    if chunks == 1 {
        return Some(vec![blocks]);
    }
    let all = blocks.checked_add(first)?.checked_add(last)?;
    let (each, left) = (all.checked_div(chunks)?, all % chunks);
    if each == 0 || first > each || last > each {
        return None;
    }
    let dealt = |chunk: u32| {
        let blocks = each + u32::from(chunk < left);
        if chunk == 0 {
            blocks - first
        } else if chunk + 1 == chunks {
            blocks - last
        } else {
            blocks
        }
    };
    Some((0..chunks).map(dealt).collect())
}

/// What v0.2.2 calls the module that computes logits.
pub const OUTPUT: &str = "output";

/// What it is called since v0.3.0. A name that no module has is passed over, so the wrong one leaves a model without.
pub const LM_HEAD: &str = "lm_head";

/// The names of the modules of each chunk; `head` computes logits.
pub fn modules(cuts: &[u32], head: &str) -> Value {
    let mut next = 0;
    let chunk = |(index, blocks): (usize, &u32)| {
        let mut names = Vec::new();
        if index == 0 {
            names.push("tok_embeddings".to_owned());
        }
        names.extend((next..next + blocks).map(|block| format!("layers.{block}")));
        next += blocks;
        if index + 1 == cuts.len() {
            names.extend(["norm".to_owned(), head.to_owned()]);
        }
        Value::from(names)
    };
    Value::Array(cuts.iter().enumerate().map(chunk).collect())
}

/// Blocks a chunk of the lists of modules; an error in words where blocks are out of order or embedding and `head` are
/// not at the ends.
pub fn cuts_of(lists: &[&Value], head: &str) -> Result<Vec<u32>, String> {
    let mut next = 0;
    let mut cuts = Vec::new();
    for (index, list) in lists.iter().enumerate() {
        let names = list.as_array().ok_or("a list of lists of module names is needed")?;
        let before = next;
        for name in names {
            let name = name.as_str().unwrap_or_default();
            match name.strip_prefix("layers.") {
                Some(number) if number.parse() == Ok(next) => next += 1,
                Some(_) => return Err(format!("{name} stands where layers.{next} is due")),
                None if name == "tok_embeddings" && index != 0 => {
                    return Err("only the first chunk can hold tok_embeddings".to_owned());
                }
                None if (name == "norm" || name == head) && index + 1 != lists.len() => {
                    return Err(format!("only the last chunk can hold {name}"));
                }
                None => {}
            }
        }
        let holds = |module: &str| names.iter().any(|name| name.as_str() == Some(module));
        let due = [
            (index == 0, "tok_embeddings"),
            (index + 1 == lists.len(), "norm"),
            (index + 1 == lists.len(), head),
        ];
        if let Some((_, module)) = due.into_iter().find(|(is_due, module)| *is_due && !holds(module)) {
            return Err(format!(
                "no chunk would hold {module}: the {} one must",
                if index == 0 { "first" } else { "last" }
            ));
        }
        cuts.push(next - before);
    }
    Ok(cuts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_dealt_as_torchtitan_deals_them() {
        // The example of capabilities of its pipeline, and those of its own docstring.
        assert_eq!(dealt(32, 4, 1, 1), Some(vec![8, 9, 8, 7]));
        assert_eq!(dealt(3, 2, 2, 2), Some(vec![2, 1]));
        assert_eq!(dealt(6, 4, 1, 1), Some(vec![1, 2, 2, 1]));
        assert_eq!(dealt(126, 8, 1, 1), Some(vec![15, 16, 16, 16, 16, 16, 16, 15]));
        assert_eq!(dealt(2, 5, 1, 1), None);
        assert_eq!(dealt(8, 1, 1, 1), Some(vec![8]));
    }

    #[test]
    fn lists_of_modules_say_the_cuts() {
        for cuts in [vec![1, 2, 0, 3], vec![4], vec![0, 0, 5]] {
            let Value::Array(lists) = modules(&cuts, OUTPUT) else { panic!() };
            assert_eq!(cuts_of(&lists.iter().collect::<Vec<_>>(), OUTPUT), Ok(cuts));
        }
        let wrong = serde_json::json!([["tok_embeddings", "layers.1"], ["layers.0", "norm", "output"]]);
        let lists: Vec<&Value> = wrong.as_array().unwrap().iter().collect();
        assert!(cuts_of(&lists, OUTPUT).unwrap_err().contains("layers.0 is due"));
    }

    #[test]
    fn the_head_is_called_as_the_version_calls_it() {
        let Value::Array(lists) = modules(&[1, 1], LM_HEAD) else { panic!() };
        let lists: Vec<&Value> = lists.iter().collect();
        assert_eq!(lists[1], &serde_json::json!(["layers.1", "norm", "lm_head"]));
        assert_eq!(cuts_of(&lists, LM_HEAD), Ok(vec![1, 1]));
        assert_eq!(cuts_of(&lists, OUTPUT), Err("no chunk would hold output: the last one must".to_owned()));
    }
}
