//! What is written reads back; what is edited keeps the rest; what is malformed is an error with its line.

use serde_json::{Value, json};

use super::*;

const ALL: [Syntax; 6] =
    [Syntax::Toml, Syntax::Json, Syntax::Yaml, Syntax::Arguments, Syntax::Overrides, Syntax::Python];

fn settings(syntax: Syntax) -> Settings {
    let mut settings = Settings::default();
    // Arguments have names without sections.
    let name = |section: &str, key: &str| match syntax {
        Syntax::Arguments => format!("{section}-{key}"),
        _ => format!("{section}.{key}"),
    };
    settings.set(&name("one", "count"), 4).set(&name("one", "word"), "some-word");
    settings.set_noted(&name("one", "layout"), "Et*3|(t|)*2,L", "with brackets, a note");
    settings
        .set(&name("two", "share"), 0.5)
        .set(&name("two", "tiny"), 1e-8)
        .set(&name("two", "switch"), true);
    settings.set(&name("two", "list"), vec!["a", "b"]);
    settings
}

#[test]
fn what_is_written_reads_back() {
    for syntax in ALL {
        let settings = settings(syntax);
        let text = syntax.write(&settings, &["a head".into()]);
        let document = syntax.read(&text).unwrap_or_else(|error| panic!("{syntax:?}: {error}\n{text}"));
        let read: Vec<(&str, &Value)> =
            document.found.iter().map(|found| (found.path.as_str(), &found.value)).collect();
        let written: Vec<(&str, &Value)> =
            settings.iter().map(|setting| (setting.path.as_str(), &setting.value)).collect();
        assert_eq!(read, written, "{syntax:?}\n{text}");
    }
}

#[test]
fn an_edit_leaves_the_rest() {
    for syntax in ALL {
        let text = syntax.write(&settings(syntax), &[]);
        let document = syntax.read(&text).unwrap();
        let path = |section: &str, key: &str| match syntax {
            Syntax::Arguments => format!("{section}-{key}"),
            _ => format!("{section}.{key}"),
        };
        let edits = [
            Edit { path: path("one", "count"), value: Some(json!(16)), callee: None, after: Vec::new() },
            Edit::remove(&path("one", "word")),
            Edit { path: path("two", "new"), value: Some(json!(7)), callee: None, after: Vec::new() },
        ];
        let after = edited(&document, &edits);
        let read = syntax.read(&after).unwrap_or_else(|error| panic!("{syntax:?}: {error}\n{after}"));
        let value = |path: &str| read.get(path).map(|found| found.value.clone());
        assert_eq!(value(&path("one", "count")), Some(json!(16)), "{syntax:?}\n{after}");
        assert_eq!(value(&path("one", "word")), None, "{syntax:?}\n{after}");
        assert_eq!(value(&path("two", "new")), Some(json!(7)), "{syntax:?}\n{after}");
        assert_eq!(read.found.len(), document.found.len(), "{syntax:?}\n{after}");
        // Lines that no edit touches are as they were.
        let same = text.lines().filter(|line| after.lines().any(|other| other == *line)).count();
        assert!(same + 3 >= text.lines().count(), "{syntax:?}\n{after}");
    }
}

#[test]
fn scripts_are_read_as_a_shell_would() {
    let text = "#!/bin/bash\nTP=4\nexport NAME=\"my run\" # a comment --not-this 1\nGPT_ARGS=(\n  --tensor-model-parallel-size ${TP}\n  \
                --swiglu\n  --recompute-modules core_attn mlp\n)\ntorchrun --nproc_per_node=8 pretrain_gpt.py \\\n    \
                \"${GPT_ARGS[@]}\" --lr 1.0e-4 --data-path $DATA --title 'a \"b\" c'\n";
    let document = Syntax::Arguments.read(text).unwrap();
    let found: Vec<(&str, Value, bool)> = document
        .found
        .iter()
        .map(|found| (found.path.as_str(), found.value.clone(), found.is_open))
        .collect();
    let expected = [
        ("nproc-per-node", json!(8), false),
        ("tensor-model-parallel-size", json!(4), false),
        ("swiglu", json!(true), false),
        ("recompute-modules", json!(["core_attn", "mlp"]), false),
        ("lr", json!(1.0e-4), false),
        ("data-path", json!("$DATA"), true),
        ("title", json!("a \"b\" c"), false),
    ];
    assert_eq!(found, expected);
    assert_eq!(document.line(document.get("lr").unwrap()), 10);
}

#[test]
fn strings_of_arguments_are_read_where_they_are_set() {
    let text = "TP=2\nARGS=\"--tensor-model-parallel-size $TP \\\n  --sequence-parallel\n  --lr 1e-4\"\n\
                MORE=\"$ARGS --micro-batch-size 4\"\nEXTRA='\n --bf16 '\n\
                torchrun pretrain_gpt.py $ARGS ${EXTRA} --seq-length 128 $OTHER\n";
    let document = Syntax::Arguments.read(text).unwrap();
    let found: Vec<(&str, Value)> =
        document.found.iter().map(|found| (found.path.as_str(), found.value.clone())).collect();
    let expected = [
        ("tensor-model-parallel-size", json!(2)),
        ("sequence-parallel", json!(true)),
        ("lr", json!(1e-4)),
        // MORE is handed to nothing.
        ("bf16", json!(true)),
        ("seq-length", json!(128)),
        ("$OTHER", json!(true)),
    ];
    assert_eq!(found, expected);
    let path = "tensor-model-parallel-size".to_owned();
    let edit = Edit { path, value: Some(json!(8)), callee: None, after: Vec::new() };
    assert!(edited(&document, &[edit]).contains("ARGS=\"--tensor-model-parallel-size 8 \\"));
}

#[test]
fn python_is_data() {
    let text = "from torchtitan import llama3_70b\n\ndef plan():\n    \"\"\"A docstring: c.x = 1\"\"\"\n    c = llama3_70b()\n    \
                p = c.parallelism\n    p.tensor_parallel_degree = 8  # a note\n    c.training.tokens = 2 * 8192\n    \
                c.activation_checkpoint = FullAC.Config()\n    if fast:\n        p.context = 2\n    return c\n";
    let document = Syntax::Python.read(text).unwrap();
    let value = |path: &str| document.get(path).map(|found| (found.value.clone(), found.is_open));
    assert_eq!(value("parallelism.tensor_parallel_degree"), Some((json!(8), false)));
    assert_eq!(value("training.tokens"), Some((json!(16384), false)));
    assert_eq!(value("activation_checkpoint"), Some((json!("FullAC.Config()"), false)));
    assert_eq!(value("parallelism.context"), Some((json!(2), true)), "a branch settles nothing");
    let call = "plugin = Hybrid(\n    tp_size=4,  # ranks\n    layers=[19, 20],\n    inner=Inner(ratio=0.5, on=None),\n    \
                name=NAME,\n)\n";
    let document = Syntax::Python.read(call).unwrap();
    let value = |path: &str| document.get(path).map(|found| (found.value.clone(), found.is_open));
    assert_eq!(value("plugin"), Some((json!("Hybrid()"), false)));
    assert_eq!(value("plugin.layers"), Some((json!([19, 20]), false)));
    assert_eq!(value("plugin.inner.ratio"), Some((json!(0.5), false)));
    assert_eq!(value("plugin.inner.on"), Some((Value::Null, false)));
    assert_eq!(value("plugin.name"), Some((json!("NAME"), true)));
}

#[test]
fn what_is_malformed_has_its_line() {
    let deep = |open: &str, close: &str| format!("a = 1\nb = {}1{}\n", open.repeat(40), close.repeat(40));
    let deep_json = format!("{}1{}", "{\"a\":".repeat(40), "}".repeat(40));
    let deep_yaml = format!("a: {}1{}", "[".repeat(40), "]".repeat(40));
    let cases: [(Syntax, &str, usize); 13] = [
        (Syntax::Toml, "a = 1\nb = \n", 2),
        (Syntax::Toml, "a = 1\na = 2\n", 2),
        (Syntax::Toml, "[x\n", 1),
        (Syntax::Json, "{\"a\": 1,\n \"b\": ", 2),
        (Syntax::Json, "{\"a\": 1,\n \"a\": 2}", 2),
        (Syntax::Json, "[1]", 1),
        (Syntax::Json, &deep_json, 1),
        (Syntax::Yaml, "a: 1\nb: [1, 2\n", 3),
        (Syntax::Yaml, "a: 1\na: 2\n", 2),
        (Syntax::Yaml, &deep_yaml, 1),
        (Syntax::Arguments, "--a 1\n--b 'x\n", 2),
        (Syntax::Python, "a = 1\nb = [1, 2\n", 2),
        (Syntax::Python, &deep("[", "]"), 2),
    ];
    for (syntax, text, line) in cases {
        let error = syntax.read(text).expect_err(text);
        assert_eq!(error.line(), line, "{syntax:?}: {text}: {error}");
    }
}
