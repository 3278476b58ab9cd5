//! Numbers and nouns agree, and no share is said to be nothing, in texts, pages and messages.

use crate::place::{Place, Run};

/// Settings in which as many counts as possible are 1.
const LINES: &[&str] = &[
    "plan gpt2 --cluster 1x1xh100-sxm --global-batch 1 --seq-len 1 --engine embedded",
    "plan gpt2 --cluster 1x1xh100-sxm --global-batch 1 --seq-len 1024 --engine megatron",
    "plan gpt2 --cluster 1x2xh100-sxm --global-batch 2 --seq-len 128 --engine torchtitan --sensitivity --maximize batch \
     --sweep devices=1,2 --report page.html",
    "plan gpt2 --cluster 1x2xh100-sxm --global-batch 2 --seq-len 128 --engine all",
    "plan gpt2 --cluster 1x2xh100-sxm --objective memory --global-batch 2 --seq-len 128 --engine deepspeed",
    "plan llama-3.1-70b --cluster 1x1xh100-sxm --global-batch 1",
    "plan one.json --cluster 1x1xcpu --global-batch 1 --seq-len 1 --report page.html",
    "plan one.json --cluster 1x3xcpu --global-batch 1 --seq-len 1",
    "simulate gpt2 --cluster 1x2xh100-sxm --strategy zero=3,shard=1 --global-batch 2",
    "simulate llama-3.1-8b --cluster 1x1xh100-sxm --strategy zero=0 --global-batch 1",
    "simulate one.json --cluster 1x2xcpu --strategy tp=2 --global-batch 1 --seq-len 1",
    "simulate one.json --cluster 1x2xcpu --strategy cp=2 --global-batch 1 --seq-len 1",
    "simulate one.json --cluster 1x1xcpu --strategy tp=2 --global-batch 1 --seq-len 1",
    "simulate one.json --cluster 1x1xcpu --strategy dp=2 --global-batch 1 --seq-len 1",
    "simulate one.json --cluster 1x1xcpu --strategy micro=2 --global-batch 1 --seq-len 1",
    "simulate one.json --cluster 1x1xcpu --strategy cuts=2 --global-batch 1 --seq-len 1",
    "simulate one.json --cluster 1x1xcpu --strategy cuts=1/1 --global-batch 1 --seq-len 1",
    "simulate one.json --cluster 1x1xcpu --strategy ckpt=full:2 --global-batch 1 --seq-len 1",
    "simulate one.json --cluster 1x1xcpu --strategy ckpt=full/none --global-batch 1 --seq-len 1",
    "simulate one.json --cluster 1x1xcpu --strategy offload=optimizer:1/0 --global-batch 1 --seq-len 1",
    "simulate one.json --cluster 1x2xcpu --strategy pp=2 --global-batch 1 --seq-len 1",
    "simulate one.json --cluster 1x2xcpu --strategy dp=2 --global-batch 1 --seq-len 1",
    "simulate mixtral-8x7b --cluster 1x1xh100-sxm --strategy ep=2 --global-batch 1",
    "explain one.json --cluster 1x1xcpu --strategy zero=1 --global-batch 1 --seq-len 1",
    "explain llama-3.1-70b --cluster 1x1xh100-sxm --strategy zero=0 --global-batch 1",
    "execute --steps 1 --no-calibrate --trace trace.json",
    "models one.json",
];

/// Nouns that are counted somewhere.
const NOUNS: &[&str] = &[
    "blocks",
    "changes",
    "chunks",
    "cores",
    "devices",
    "elements",
    "entries",
    "experts",
    "files",
    "fractions",
    "groups",
    "heads",
    "instructions",
    "keys",
    "layers",
    "micro-batches",
    "nodes",
    "parameters",
    "plans",
    "processes",
    "programs",
    "ranks",
    "replicas",
    "rules",
    "runs",
    "sequences",
    "shards",
    "stages",
    "steps",
    "strategies",
    "times",
    "tokens",
    "values",
    "windows",
];

/// What is wrong in `text`, each with the words around it.
fn faults(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let mut faults = Vec::new();
    for (place, word) in words.iter().enumerate() {
        let after = |count: usize| words.get(place + count).map_or_else(String::new, |next| bare(next));
        // A number that ends a sentence counts nothing of the next.
        let is_one = word.trim_start_matches(['(', '\u{201c}']) == "1";
        let is_plural = |noun: &String| NOUNS.contains(&noun.as_str());
        // `1 devices`, and `1 pipeline ranks`, but not `block 1 takes`.
        let is_adjective = !after(1).ends_with('s') && after(1).starts_with(char::is_alphabetic);
        let counts = is_one && (is_plural(&after(1)) || (is_adjective && is_plural(&after(2))));
        let is_nothing =
            bare(word) == "0.0" && words.get(place + 1).is_some_and(|next| next.starts_with('%'));
        let takes = ["optimizer", "overhead"].contains(word) && after(1) == "take"
            || ["parameters", "gradients", "activations", "logits", "buffers"].contains(word)
                && after(1) == "takes";
        if counts || is_nothing || takes {
            let around = place.saturating_sub(4)..(place + 5).min(words.len());
            faults.push(words[around].join(" "));
        }
    }
    faults
}

#[test]
fn faults_are_found() {
    for text in [
        "ZeRO-3 over 1 ranks, 2 more",
        "optimizer take most",
        "0.0 % less time",
        "(1 devices)",
        "1 pipeline ranks",
    ] {
        assert_eq!(faults(text).len(), 1, "{text}");
    }
    for text in [
        "stage 1 of 8 ranks",
        "11 ranks",
        "10.0 % less",
        "optimizer takes most",
        "1 node. All ranks",
        "1 rank of 2 devices",
    ] {
        assert_eq!(faults(text), [""; 0], "{text}");
    }
}

#[test]
fn numbers_and_nouns_agree() {
    let place = Place::new();
    place.write(
        "one.json",
        r#"{"model_type":"gpt2","n_embd":16,"n_layer":1,"n_head":1,"vocab_size":32,"n_positions":16}"#,
    );
    for line in LINES {
        let Run { stdout, stderr, .. } = place.wide(line, 200);
        let mut texts = vec![stdout, stderr];
        if line.contains("page.html") {
            // What stands between two tags is a text by itself.
            let page = place.read("page.html");
            texts.extend(page.split('<').filter_map(|part| Some(part.split_once('>')?.1.to_owned())));
        }
        for text in texts {
            assert_eq!(faults(&text), [""; 0], "{line}\n{text}");
        }
    }
}
