//! Whatever text is written, in a value or in a comment, comes back as it was from the parsers of others.

use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use saphyr_parser::{Event, Parser};
use serde_json::{Value, json};

use super::arguments::Form;
use super::*;
use crate::export::settings::Term;
use crate::plan::shell;

/// What has ended strings, comments and lines somewhere.
const ATTACKS: &[&str] = &[
    "",
    " ",
    "-",
    "--x",
    "-1",
    "'",
    "\"",
    "\\",
    "\\'",
    "\\\"",
    "\n",
    "\r",
    "\r\n",
    "\0",
    "\t",
    "\u{b}",
    "\u{c}",
    "\u{1b}[2J",
    "\u{7f}",
    "\u{85}",
    "\u{9b}31m",
    "\u{2028}",
    "\u{2029}",
    "\u{202e}",
    "\u{feff}",
    "\u{ffff}",
    "\u{1ffff}",
    "#",
    " #",
    "# ",
    "$(touch HIT)",
    "`touch HIT`",
    "${HIT}",
    "$'",
    "!!",
    "~",
    "*",
    "{a,b}",
    "[x]=1",
    "a=b",
    ";",
    "&",
    "|",
    ">HIT",
    "(",
    ")",
    "\"\"\"",
    "'''",
    "{{x}}",
    "%s",
    ": ",
    "- ",
    "? ",
    "&a",
    "*a",
    "!t",
    "---",
    "...",
    "null",
    "yes",
    "0x1",
    "1e3",
    "1_000",
    "=",
    "]",
    "}",
    ",",
    "\\u000a",
    "\\n",
    "\\x41",
    "\\101",
    "coding: unicode_escape",
    "coding=utf-7",
    "é",
    "模型",
    "🦙",
    "\u{fffd}",
    "quit()",
    "os.system()",
    "True",
    "é=\u{301}",
];

/// Any text, mostly of such pieces.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(ATTACKS).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => "[ -~]{0,8}",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

/// Two settings with `text` as value, in a list, as note and as head; names have a section.
fn settings(text: &str, name: impl Fn(&str) -> String) -> (Settings, Vec<Comment>) {
    let mut settings = Settings::default();
    settings.set_noted(&name("value"), text, text).set(&name("list"), vec![text, "b"]).set_noted(
        &name("last"),
        7,
        text,
    );
    (settings, vec![Comment::from(text), Comment::from(text)])
}

fn dotted(name: &str) -> String {
    format!("one.{name}")
}

fn expected(text: &str) -> Value {
    json!({ "value": text, "list": [text, "b"], "last": 7 })
}

/// What `toml_edit` read, as JSON.
fn toml(item: &toml_edit::Item) -> Value {
    fn one(value: &toml_edit::Value) -> Value {
        match value {
            toml_edit::Value::String(text) => json!(text.value()),
            toml_edit::Value::Integer(number) => json!(number.value()),
            toml_edit::Value::Array(list) => list.iter().map(one).collect(),
            other => panic!("{other:?}"),
        }
    }
    match item {
        toml_edit::Item::Value(value) => one(value),
        toml_edit::Item::Table(table) => {
            let fields = table.iter().map(|(name, item)| (name.to_owned(), toml(item)));
            fields.collect::<serde_json::Map<_, _>>().into()
        }
        other => panic!("{other:?}"),
    }
}

/// The same of a text.
fn read_toml(text: &str) -> Result<Value, TestCaseError> {
    let document =
        toml_edit::Document::parse(text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
    Ok(toml(document.as_item()))
}

/// The texts of a YAML document, in order.
fn scalars(text: &str) -> Vec<String> {
    let scalar = |event: Event<'_>| match event {
        Event::Scalar(text, ..) => Some(text.into_owned()),
        _ => None,
    };
    Parser::new_from_str(text).filter_map(|event| scalar(event.expect(text).0)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn toml_json_and_yaml_hold_any_text(text in text()) {
        let (settings, head) = settings(&text, dotted);
        let written = Syntax::Toml.write(&settings, &head);
        prop_assert_eq!(read_toml(&written)?, json!({ "one": expected(&text) }));

        let written = Syntax::Json.write(&settings, &head);
        prop_assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), json!({ "one": expected(&text) }));

        let written = Syntax::Yaml.write(&settings, &head);
        prop_assert_eq!(scalars(&written), ["one", "value", &text, "list", &text, "b", "last", "7"]);
    }

    #[test]
    fn keys_hold_any_text(name in text()) {
        // A dot is between sections.
        let name = name.replace('.', "_");
        let mut settings = Settings::default();
        settings.set(&format!("one.{name}.two"), 1).set(&format!("one.{name}.three"), 2);
        let inside = json!({ "one": { &name: { "two": 1, "three": 2 } } });
        prop_assert_eq!(read_toml(&Syntax::Toml.write(&settings, &[]))?, inside.clone());
        prop_assert_eq!(serde_json::from_str::<Value>(&Syntax::Json.write(&settings, &[])).unwrap(), inside);
        prop_assert_eq!(scalars(&Syntax::Yaml.write(&settings, &[])), ["one", &name, "two", "1", "three", "2"]);
    }

    #[test]
    fn what_is_written_is_what_we_read(text in text()) {
        for syntax in [Syntax::Toml, Syntax::Json, Syntax::Yaml, Syntax::Python, Syntax::Overrides, Syntax::Arguments] {
            let is_shell = matches!(syntax, Syntax::Overrides | Syntax::Arguments);
            // A shell has no U+0000; its words have no types; in lists no word begins like a name.
            let text = if is_shell { format!("w{}", text.replace('\0', "")) } else { text.clone() };
            let (settings, head) = settings(&text, |name| if syntax == Syntax::Arguments { name.to_owned() } else { dotted(name) });
            let written = syntax.write(&settings, &head);
            let document = syntax.read(&written).map_err(|error| TestCaseError::fail(format!("{error}\n{written}")))?;
            let wanted: Vec<_> = settings.iter().map(|setting| (&setting.path, &setting.value)).collect();
            let read: Vec<_> = document.found.iter().map(|found| (&found.path, &found.value)).collect();
            prop_assert!(syntax == Syntax::Overrides || read == wanted, "{written}");
            prop_assert_eq!(read[0], wanted[0], "{}", written);
        }
    }

    #[test]
    fn edits_hold_any_text(text in text()) {
        for syntax in [Syntax::Toml, Syntax::Json, Syntax::Yaml, Syntax::Python] {
            let (settings, head) = settings("tame", dotted);
            let document = syntax.read(&syntax.write(&settings, &head)).unwrap();
            let value = Some(json!(text));
            let edits = ["one.value", "one.new"].map(|path| Edit { path: path.to_owned(), value: value.clone(), callee: None, after: Vec::new() });
            let after = edited(&document, &edits);
            let read = syntax.read(&after).map_err(|error| TestCaseError::fail(format!("{syntax:?} {error}\n{after}")))?;
            for edit in &edits {
                prop_assert_eq!(read.get(&edit.path).map(|found| &found.value), value.as_ref(), "{}", after);
            }
            prop_assert_eq!(read.found.len(), 4, "{}", after);
        }
    }

    #[test]
    fn markdown_is_one_line_without_links_and_html(text in text()) {
        for written in [markdown::words(&text), markdown::sentence(&text)] {
            prop_assert_eq!(written.lines().count().max(1), 1);
            let mut escaped = false;
            for c in written.chars() {
                prop_assert!(escaped || !matches!(c, '<' | '[' | ']' | '&' | '|'), "{}", written);
                escaped = c == '\\' && !escaped;
            }
            prop_assert!(!escaped);
        }
        let code = markdown::code(&format!("{text} "));
        let fence = code.chars().take_while(|c| *c == '`').count();
        // Of no text, fences are all that is there.
        let inside = code.get(fence..code.len().saturating_sub(fence)).unwrap_or_default();
        prop_assert!(inside.split(|c| c != '`').all(|run| run.len() != fence), "{}", code);
    }
}

/// `count` texts of the same kind as above, the same on every run, none with U+0000.
fn texts(count: usize) -> Vec<String> {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let one = |_| text().new_tree(&mut runner).unwrap().current().replace('\0', "");
    ATTACKS.iter().map(|attack| attack.replace('\0', "")).chain((0..count).map(one)).collect()
}

/// What `program` prints that is given `script` in a file, from a folder where nothing must appear; none where there is no
/// such program, which is said.
fn printed(program: &str, arguments: &[&str], locale: &str, script: &str) -> Option<Vec<u8>> {
    let [folder, beside] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let file = beside.path().join("script");
    std::fs::write(&file, script).unwrap();
    let mut command = Command::new(program);
    command.args(arguments).arg(&file).current_dir(folder.path()).env("LC_ALL", locale).stdin(Stdio::null());
    let Ok(output) = command.output() else {
        // Past the capture of tests, because a test that passes keeps to itself.
        let _ = writeln!(
            std::io::stderr(),
            "there is no {program} here: what it would read was not checked by it"
        );
        return None;
    };
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{program} was made to write");
    Some(output.stdout)
}

#[test]
fn shells_take_any_text_as_it_is() {
    let texts = texts(300);
    let mut script = String::new();
    let mut wanted = Vec::new();
    for text in &texts {
        let (settings, head) = settings(text, str::to_owned);
        for form in [Form::Dashes, Form::Equals] {
            script += &arguments::write(&settings, &head, form);
            script += "printf '%s\\0' \"${ARGUMENTS[@]}\" end\n";
        }
        script += &format!("printf '%s\\0' {} end\n", shell::quoted(text));
        let list = json!([text, "b"]).to_string();
        match text.starts_with('-') {
            true => wanted.push(format!("--value={text}")),
            false => wanted.extend(["--value".to_owned(), text.clone()]),
        }
        wanted.extend(["--list", text, "b", "--last", "7", "end"].map(str::to_owned));
        wanted.extend([
            format!("value={text}"),
            format!("list={list}"),
            "last=7".to_owned(),
            "end".to_owned(),
        ]);
        wanted.extend([text.clone(), "end".to_owned()]);
    }
    for locale in ["C", "C.UTF-8"] {
        let Some(found) = printed("bash", &[], locale, &script) else { return };
        let found: Vec<String> = String::from_utf8(found).unwrap().split('\0').map(str::to_owned).collect();
        for (found, wanted) in found.iter().zip(&wanted) {
            assert_eq!(found, wanted);
        }
        assert_eq!(found.len(), wanted.len() + 1);
    }
}

#[test]
fn python_takes_any_text_as_it_is() {
    let mut script = String::new();
    let mut wanted = Vec::new();
    for text in texts(300) {
        let mut settings = Settings::default();
        settings.set_noted("value", text.as_str(), text.as_str());
        settings.put("call", Term::Call("dict()")).set_noted("call.named", text.as_str(), text.as_str());
        settings.set("pairs", json!({ &text: [&text] }));
        script += &Syntax::Python.write(&settings, &[text.as_str().into()]);
        script += "found.append([value, call, pairs])\n";
        wanted.push(json!([text, { "named": text }, { text.clone(): [text] }]));
    }
    // Each as a file of its own too, as the first two lines of one may name an encoding.
    let mut files = String::from("import json, sys\nfound = []\n");
    for text in texts(0) {
        let source = Syntax::Python
            .write(&Settings::default(), &[text.as_str().into(), text.as_str().into()])
            + "x = 1\n";
        let bytes: Vec<String> = source.bytes().map(|byte| byte.to_string()).collect();
        files +=
            &format!("scope = {{}}\nexec(compile(bytes([{}]), 'file', 'exec'), scope)\n", bytes.join(","));
        files += "assert sorted(set(scope) - {'__builtins__'}) == ['x'], scope\n";
    }
    let script = files + &script + "sys.stdout.buffer.write(json.dumps(found).encode())\n";
    let Some(found) = printed("python3", &["-I"], "C.UTF-8", &script) else { return };
    let found: Vec<Value> = serde_json::from_slice(&found).unwrap();
    assert_eq!(found, wanted);
}

#[test]
fn words_that_look_like_calls_are_words() {
    let mut settings = Settings::default();
    settings.set("value", "os.system()").set("value.arguments", "x").put("call", Term::Call("dict()"));
    let text = Syntax::Python.write(&settings, &[]);
    assert!(text.contains("value = \"os.system()\"\n") && text.contains("call = dict()\n"), "{text}");
}
