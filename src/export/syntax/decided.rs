//! What scripts decide by themselves, what they ask for by name, and what ends in a refusal.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Document, Surroundings, Syntax};
use crate::export::beside::Beside;

fn read(text: &str, environment: &[(&str, &str)], files: &[(&str, &str)]) -> Result<Document, String> {
    let own = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let (environment, files) = (own(environment), own(files));
    let surroundings = Surroundings { environment: &environment, beside: Beside::Files(&files) };
    let documents = Syntax::Arguments.read_all(text, &surroundings).map_err(|error| error.to_string())?;
    super::script::main(documents).ok_or_else(|| "no command".to_owned())
}

/// The value of `--tp`, or why it is not known.
fn tensor(script: &str, environment: &[(&str, &str)]) -> Result<i64, String> {
    let text = format!("{script}\npython pretrain_gpt.py --tp $TP --bf16\n");
    let document = read(&text, environment, &[]).unwrap_or_else(|error| panic!("{script}: {error}"));
    let found = document.get("tp").unwrap_or_else(|| panic!("{script}: {document:?}"));
    match found.is_open {
        true => Err(document.hangs["tp"].unsettled.clone().unwrap_or_default()),
        false => Ok(found.value.as_i64().unwrap_or_else(|| panic!("{script}: {:?}", found.value))),
    }
}

#[test]
fn scripts_decide_what_they_can() {
    for (script, value) in [
        ("TP=${TP:-2}", 2),
        ("TP=${TP-2}", 2),
        (": ${TP:=2}", 2),
        (": \"${TP:=2}\"; export TP", 2),
        ("TP=4; TP=${TP:-2}", 4),
        ("if [ -z \"$TP\" ]; then TP=2; fi", 2),
        ("[ -z \"$TP\" ] && TP=2", 2),
        ("[[ -n $TP ]] || TP=2", 2),
        ("[[ -v TP ]] || TP=2", 2),
        ("TP=2\nif [ $# -gt 0 ]; then TP=$1; fi", 2),
        ("TP=2\nwhile [[ $# -gt 0 ]]; do case $1 in --tp) TP=$2; shift 2;; *) shift;; esac; done", 2),
        ("TP=${1:-2}", 2),
        ("if [ -z \"$RANK\" ]; then echo 'RANK is needed'; exit 1; fi\nTP=2", 2),
        ("if ! command -v nvidia-smi; then exit 1; fi\nTP=2", 2),
        ("if [ ! -d out ]; then mkdir -p out; fi; cd out || exit 1; TP=2", 2),
        ("mkdir -p logs && TP=2", 2),
        ("case ${SIZE:-7b} in 7b) TP=2;; 70b) TP=8;; esac", 2),
        ("GPUS=8; TP=$((GPUS / 4))", 2),
        ("GPUS=$(nvidia-smi | wc -l)\nTP=2", 2),
        ("TP=$(expr 1 + 1)", 2),
        ("TP=$(echo '4 / 2' | bc)", 2),
        ("size() { echo 2; }; TP=$(size)", 2),
        ("declare -A SIZES=([7b]=2 [70b]=8); SIZE=7b; TP=${SIZES[$SIZE]}", 2),
        ("A=(1 2 4); TP=${A[1]}", 2),
        ("source ~/.bashrc; TP=2", 2),
        ("if [ \"$WANDB\" = on ]; then LOG=x; fi; TP=2", 2),
        ("for TP in 1 2; do :; done", 2),
        ("TP=2 # TP=4\ncat > notes <<EOF\nTP=8\n--tp 9 it's\nEOF", 2),
        ("set -euo pipefail; TP=2", 2),
    ] {
        assert_eq!(tensor(script, &[]), Ok(value), "{script}");
    }
}

#[test]
fn what_is_not_known_is_asked_for_by_name() {
    for (script, environment, name) in [
        ("TP=$SIZE", [("SIZE", "2")], "SIZE"),
        ("", [("TP", "2")], "TP"),
        ("TP=$((NODES * 2))", [("NODES", "1")], "NODES"),
        ("if [ \"$SIZE\" = big ]; then TP=8; else TP=2; fi", [("SIZE", "small")], "SIZE"),
        ("case $SIZE in big) TP=8;; *) TP=2;; esac", [("SIZE", "7b")], "SIZE"),
        ("TP=$(nvidia-smi | wc -l)", [("TP", "2")], "TP"),
        ("if nvidia-smi | grep H100; then TP=8; else TP=4; fi", [("TP", "2")], "TP"),
        ("if [ -f big ]; then TP=8; else TP=4; fi", [("TP", "2")], "TP"),
        ("TP=$1", [("1", "2")], "1"),
        ("TP=${2:?the tensor size}", [("2", "2")], "2"),
        ("read TP", [("TP", "2")], "TP"),
        ("f() { if [ $SIZE -gt 4 ]; then TP=8; return; fi; TP=2; }; f", [("SIZE", "1")], "SIZE"),
        ("TP=2; for f in $LIST; do TP=$f; done", [("LIST", "1 2")], "LIST"),
    ] {
        let why = tensor(script, &[]).expect_err(script);
        assert!(why.contains(&format!("--env {name}=VALUE")), "{script}: {why}");
        assert_eq!(tensor(script, &environment), Ok(2), "{script}");
    }
    // The environment goes before defaults, and after what the script sets.
    assert_eq!(tensor("TP=${TP:-2}", &[("TP", "8")]), Ok(8));
    assert_eq!(tensor("TP=2", &[("TP", "8")]), Ok(2));
}

#[test]
fn branches_that_change_no_argument_are_no_matter() {
    let text = "if [ \"$MODE\" = debug ]; then\n  EXTRA=\"--lr 1 --seed 2\"\nelse\n  EXTRA=\"--lr 2 --seed 2\"\nfi\n\
                python pretrain_gpt.py --tp 2 $EXTRA --bf16\n";
    let document = read(text, &[], &[]).unwrap();
    let open = |path: &str| document.get(path).map(|found| (found.value.clone(), found.is_open));
    assert_eq!(open("tp"), Some((json!(2), false)));
    assert_eq!(open("seed"), Some((json!(2), false)));
    assert_eq!(open("bf16"), Some((json!(true), false)));
    assert_eq!(open("lr"), Some((json!(1), true)));
    let text = "ARGS=(--tp 2)\nif [ \"$FP8\" = 1 ]; then ARGS+=(--fp8-format hybrid); fi\npython x.py \"${ARGS[@]}\"\n";
    let document = read(text, &[], &[]).unwrap();
    assert!(
        document.get("fp8-format").is_some_and(|found| found.is_open) && !document.get("tp").unwrap().is_open
    );
    assert!(read(text, &[("FP8", "0")], &[]).unwrap().get("fp8-format").is_none());
}

#[test]
fn words_may_be_more_arguments() {
    let document = read("python x.py --tp 2 $EXTRA\n", &[], &[]).unwrap();
    assert!(document.get("$EXTRA").is_some_and(|found| found.is_open));
    let document = read("python x.py --tp 2 $EXTRA\n", &[("EXTRA", "--tp 4 --bf16")], &[]).unwrap();
    assert_eq!(document.get("tp").map(|found| &found.value), Some(&json!(4)), "the later one holds");
    let document = read("python x.py --tp 2 \"$@\"\n", &[], &[]).unwrap();
    assert_eq!(document.found.len(), 1);
    let document = read("python x.py --tp 2 \"$@\"\n", &[("1", "--tp"), ("2", "4")], &[]).unwrap();
    assert_eq!(document.get("tp").map(|found| &found.value), Some(&json!(4)));
}

#[test]
fn commands_inside_others_are_read() {
    for script in [
        "bash -c \"python x.py --tp 2\"",
        "TP=2; srun -N 4 bash -c \"torchrun --nproc_per_node 8 x.py --tp $TP\"",
        "CMD=\"python x.py --tp 2\"; eval $CMD",
        "CMD=\"python x.py --tp 2\"; echo $CMD; $CMD 2>&1 | tee log",
        "sbatch <<EOF\n#!/bin/bash\npython x.py --tp 2\nEOF",
        "run() { \"$@\"; }; run python x.py --tp 2",
        "(cd /x && python x.py --tp 2) &\nwait",
        "docker run --gpus all --tp 4 image torchrun x.py --tp 2",
        "source ./env.sh\npython x.py --tp $TP",
        ". \"$(dirname \"$0\")/env.sh\"; python x.py --tp $TP",
        "bash other.sh 2",
        "OMP_NUM_THREADS=1 nohup python x.py --tp 2 > log 2>&1 &",
    ] {
        let files = [("env.sh", "export TP=2\n"), ("other.sh", "python x.py --tp $1\n")];
        let document = read(script, &[], &files).unwrap_or_else(|error| panic!("{script}: {error}"));
        let found = document.get("tp").unwrap_or_else(|| panic!("{script}: {document:?}"));
        assert_eq!((&found.value, found.is_open), (&json!(2), false), "{script}");
    }
    let error = read("source config.sh\npython x.py --tp $TP\n", &[], &[]).unwrap_err();
    assert!(error.contains("line 1") && error.contains("config.sh"), "{error}");
}

#[test]
fn what_is_sourced_has_its_own_lines() {
    let files = [("env.sh", "# sizes\nARGS=\"--tp 2\"\n")];
    let document = read("source env.sh\npython x.py $ARGS\n", &[], &files).unwrap();
    let origin = document.origin(document.get("tp").unwrap());
    assert_eq!(origin.place, super::Place::File("env.sh".to_owned(), 2));
}

#[test]
fn hostile_scripts_end_at_once() {
    let many = "if [ \"$A\" = 1 ]; then B=$B$C; else C=$B; fi\n".repeat(8000);
    let nested = format!("{}x{}", "$(echo ".repeat(3000), ")".repeat(3000));
    let deep = format!("{}x{}", "if x; then ".repeat(3000), "; fi".repeat(3000));
    let parentheses = format!("A=$(({}1{}))", "(".repeat(9000), ")".repeat(9000));
    let growing = "A=xxxxxxxx\nfor i in {1..60}; do A=$A$A; done";
    let functions: String = (0..40).map(|n| format!("f{n}() {{ f{}; f{}; }}\n", n + 1, n + 1)).collect();
    let forked: String = (0..40)
        .map(|n| format!("f{n}() {{ if [ $X = 1 ]; then f{}; else f{}; fi; }}\n", n + 1, n + 1))
        .collect();
    let text = format!("A={}\n", "a".repeat(100_000));
    for script in [
        "while true; do :; done".to_owned(),
        "until false; do A=x$A; done".to_owned(),
        "while [ $X = 1 ]; do while true; do :; done; done".to_owned(),
        "for ((;;)); do :; done".to_owned(),
        "f() { f; }; f".to_owned(),
        "f() { f & f; }; f".to_owned(),
        "eval \"$(cat x)\"; f() { eval f; }; f".to_owned(),
        "source script.sh".to_owned(),
        "A=A; echo $((A))".to_owned(),
        "for a in {1..4000}; do for b in {1..4000}; do for c in {1..4000}; do :; done; done; done".to_owned(),
        "A={1..4000}{1..4000}{1..4000}; echo {1..4000}{1..4000}{1..4000}".to_owned(),
        format!("{functions}f0"),
        format!("{forked}f0"),
        format!("{text}echo ${{A//*a*a*a*b/}}; echo ${{A%%*b*b}}; [[ $A =~ (a*)*(a*)*b ]]"),
        format!("{text}for i in {{1..2000}}; do B=$A$A; L+=($A); done"),
        growing.to_owned(),
        many,
        nested,
        deep,
        parentheses,
        "A='".to_owned(),
        "x=$((1/0))".to_owned(),
        "\u{0}\u{1}${".to_owned(),
    ] {
        let begun = Instant::now();
        let found =
            read(&format!("{script}\npython x.py --tp 2\n"), &[], &[("script.sh", "source script.sh")]);
        let took = begun.elapsed();
        let shown: String = script.chars().take(80).collect();
        assert!(took < Duration::from_secs(20), "{shown}: {took:?}");
        if let Err(error) = found {
            assert!(error.contains("line "), "{shown}: {error}");
        }
    }
}

#[test]
fn nothing_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let hit = folder.path().join("HIT");
    let shown = hit.display();
    let text = format!(
        "touch {shown}; A=$(touch {shown}); B=`touch {shown}`; eval \"touch {shown}\"; : > {shown}\n\
         echo x | tee {shown}; bash -c 'touch {shown}'; cat <(touch {shown}); [[ -n $(touch {shown}) ]]\n\
         python x.py --tp 2 --load \"$(touch {shown})\"\n"
    );
    let document = read(&text, &[], &[]).unwrap();
    assert_eq!(document.get("tp").map(|found| &found.value), Some(&json!(2)));
    assert!(!hit.exists());
}
