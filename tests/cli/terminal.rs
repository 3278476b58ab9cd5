//! On any terminal: text is as wide as it is told to be, and no word or name is broken.

use std::collections::BTreeSet;

use crate::place::Place;

const COMMANDS: &[&str] = &[
    "plan llama-3.1-8b --cluster 2x8xh100-sxm --global-batch 64 --engine nemo --objective robust",
    "plan gpt2 --cluster 1x4xrtx-4090 --global-batch 64 --seq-len 1024 --sensitivity --maximize batch --sweep devices=1,2,4",
    "plan gpt2 --cluster 1x8xh100-sxm --global-batch 64 --engine all --objective robust",
    "simulate llama-2-7b --cluster 2x4xa100-sxm-80gb --strategy tp=2,pp=4,sched=interleaved,virtual=4,cuts=1/2/2/2/2/2/2/2/2/2/2/2/2/3/2/2,zero=1,micro=1",
    "explain llama-3.1-8b --cluster 1x8xh100-sxm --strategy dp=8,micro=4",
    "explain llama-3.1-8b --cluster 1x8xh100-sxm --strategy tp=6",
    "execute --dry-run",
    "execute --steps 2 --grads all",
    "models",
    "clusters",
];

/// Words as they are looked for: whole between blanks, a strategy key by key; figures change from run to run, and with them
/// whether a search took milliseconds or seconds.
fn words(text: &str) -> BTreeSet<String> {
    let pieces = text.split(|c: char| c.is_whitespace() || c == ',' || c == '/' || c == '+');
    let is_word =
        |piece: &&str| piece.contains(|c: char| c.is_ascii_alphabetic()) && !["ms", "s"].contains(piece);
    pieces.filter(is_word).map(|piece| piece.trim_end_matches(['.', ';', ':']).to_owned()).collect()
}

#[test]
fn no_line_is_wider_than_asked_and_no_word_is_broken() {
    let place = Place::new();
    for command in COMMANDS {
        let wide = place.wide(command, 200);
        for columns in [60, 80, 100, 200] {
            let run = place.wide(command, columns);
            assert_eq!(run.code, wide.code, "{command}: {}", run.stderr);
            for line in run.stdout.lines() {
                let width = line.chars().count();
                assert!(width <= columns, "{command} at {columns}: {width} in\n{line}\n\n{}", run.stdout);
            }
            // A bar's letters are as many as there is room for.
            let is_bar = |word: &String| word.starts_with('[');
            let known = words(&run.stdout);
            let broken: Vec<_> = words(&wide.stdout)
                .into_iter()
                .filter(|word| !is_bar(word) && !known.contains(word))
                .collect();
            assert!(broken.is_empty(), "{command} at {columns}: {broken:?}\n{}", run.stdout);
        }
    }
}

#[test]
fn programs_read_the_verdict_in_one_last_line() {
    let place = Place::new();
    let line = "simulate gpt2 --cluster 1x2xh100-sxm --strategy tp=2";
    let piped = place.line(line);
    let verdict = place.line(&format!("{line} --json")).json()["verdict"].as_str().unwrap().to_owned();
    assert_eq!(piped.stdout.lines().last().unwrap(), verdict);
    let narrow = place.wide(line, 60);
    let end = narrow.stdout.rsplit("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(end, verdict);
}

#[test]
fn a_width_that_is_none_is_not_used() {
    let place = Place::new();
    for columns in ["0", "-5", "many", "", "99999999999999999999999"] {
        let run = place.with("COLUMNS", columns, "models");
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{columns}");
        assert!(run.stdout.lines().all(|line| line.chars().count() <= 200), "{columns}");
    }
}
