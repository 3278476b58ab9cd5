//! The table of malformed inputs: exit code, field, value and nearest legal value of each; no panic, none over a second.

use std::fs::{self, File};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::{Place, Run};

const TABLE: &str = include_str!("malformed.txt");

/// The longest that any row may take.
const LONGEST: Duration = Duration::from_secs(1);
/// Times that a row is run, of which the fastest counts: the machine may be busy with other tests.
const TRIES: usize = 4;
/// Rows that run at once.
const THREADS: usize = 2;

/// A line of the table.
struct Row<'a> {
    line: usize,
    code: i32,
    field: &'a str,
    value: &'a str,
    nearest: &'a str,
    arguments: &'a str,
    file: Option<&'a str>,
}

impl<'a> Row<'a> {
    fn read(line: usize, text: &'a str) -> Self {
        let columns: Vec<&str> = text.splitn(6, " | ").map(str::trim).collect();
        let [code, field, value, nearest, arguments, rest @ ..] = columns.as_slice() else {
            panic!("malformed.txt:{line} has too few columns")
        };
        let code = code.parse().unwrap();
        Self { line, code, field, value, nearest, arguments, file: rest.first().copied() }
    }

    /// The path of its own file.
    fn path(&self) -> String {
        let extension = if self.file == Some("!folder") { "" } else { ".json" };
        format!("row-{}{extension}", self.line)
    }

    /// A column, with the row's path in the place of `@`.
    fn text(&self, column: &str) -> String {
        if column == "\"\"" { String::new() } else { column.replace('@', &self.path()) }
    }

    /// The command line in full.
    fn words(&self) -> Vec<String> {
        let is_given = |flag: &str| self.arguments.split(' ').any(|word| word.starts_with(flag));
        let unless = |flag: &str, value: &str| {
            if is_given(flag) { String::new() } else { format!("{flag} {value}") }
        };
        let two = unless("--cluster", "1x2xh100-sxm");
        let eight = unless("--global-batch", "8");
        let engine = unless("--engine", "embedded");
        let known = unless("--cost-model", "--no-calibrate").replace("--cost-model ", "");
        let line = match self.arguments.split_once(' ').unwrap_or((self.arguments, "")) {
            ("$sim", rest) => format!("simulate gpt2 {two} {eight} {engine} {rest}"),
            ("$plan", rest) => format!("plan gpt2 --cluster 1x4xh100-sxm {eight} {engine} {rest}"),
            ("$model", rest) => {
                format!("simulate {rest} {two} {eight} --seq-len 64 {engine} --strategy dp=2")
            }
            ("$cluster", rest) => format!("simulate gpt2 {eight} {engine} --strategy dp=2 --cluster {rest}"),
            ("$exe", rest) => format!("execute {known} {rest}"),
            _ => self.arguments.to_owned(),
        };
        line.split_whitespace().map(|word| self.text(word)).collect()
    }

    /// Writes its file, if it has one.
    fn prepare(&self, place: &Place) {
        let Some(file) = self.file else { return };
        let path = place.path().join(self.path());
        let (kind, rest) = file.split_once(' ').unwrap_or((file, ""));
        let text = match kind {
            "!folder" => return fs::create_dir(path).unwrap(),
            "!size" => return File::create(path).unwrap().set_len(rest.parse().unwrap()).unwrap(),
            "!bytes" => {
                let bytes = rest.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap());
                return fs::write(path, bytes.collect::<Vec<u8>>()).unwrap();
            }
            "!deep" => "[".repeat(200_000),
            "!cut" => {
                let whole = sound(place, rest).to_string();
                whole[..whole.len() / 2].to_owned()
            }
            _ => match kind.strip_prefix('!') {
                Some(name) => {
                    let changes: Value = serde_json::from_str(rest).unwrap();
                    changed(sound(place, name), &changes).to_string()
                }
                None => self.text(file),
            },
        };
        fs::write(path, text).unwrap();
    }

    /// Runs it, and says what is not as the table has it.
    fn judge(&self, place: &Place) -> Option<String> {
        self.prepare(place);
        let mut words = self.words();
        words.push("--json".to_owned());
        let mut fastest = Duration::MAX;
        let mut run = None;
        for _ in 0..TRIES {
            let start = Instant::now();
            run = Some(place.run(&words));
            fastest = fastest.min(start.elapsed());
            if fastest < LONGEST {
                break;
            }
        }
        let mut wrong = self.compare(&run?);
        if fastest >= LONGEST {
            wrong.push(format!("it took {fastest:?}"));
        }
        let command = words.join(" ");
        (!wrong.is_empty())
            .then(|| format!("malformed.txt:{} {command}\n    {}", self.line, wrong.join("\n    ")))
    }

    fn compare(&self, run: &Run) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut same = |what: &str, is: &str, expected: &str| {
            if is != expected {
                wrong.push(format!("{what} is `{is}`, not `{expected}`"));
            }
        };
        same("code", &run.code.to_string(), &self.code.to_string());
        let document: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
        let error = &document["error"];
        let text = |key: &str| error[key].as_str().unwrap_or("nothing").to_owned();
        same("field", &text("field"), &self.text(self.field));
        if self.value != "?" {
            same("value", &text("value"), &self.text(self.value));
        }
        let nearest = error["nearest"][0].as_str().unwrap_or("-");
        if self.nearest != "?" {
            same("nearest", nearest, self.nearest);
        }
        let kind = match self.code {
            2 => "usage",
            3 => "input",
            5 => "output",
            6 => "run",
            _ => "",
        };
        if !kind.is_empty() {
            same("kind", &text("kind"), kind);
        }
        if run.stderr.contains("panicked") {
            wrong.push("it panicked".to_owned());
        }
        // What is wrong is named to people too.
        if !run.stderr.contains(&text("value")) {
            wrong.push(format!("the message does not name `{}`", text("value")));
        }
        if !wrong.is_empty() {
            wrong.push(run.stderr.trim().to_owned());
        }
        wrong
    }
}

/// The sound document of that name.
fn sound(place: &Place, name: &str) -> Value {
    let llama = json!({ "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 128,
        "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 1e4, "tie_word_embeddings": false });
    let norm = json!({ "kind": "rms", "width": 64 });
    match name {
        "gpt2" => json!({ "model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 512,
            "n_positions": 128 }),
        "llama" => llama,
        "mixtral" => changed(
            llama,
            &json!({ "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2 }),
        ),
        "graph" => json!({ "version": 1, "name": "graph", "max_sequence": 2048, "layers": [
            { "name": "embedding", "kind": { "embedding": { "vocabulary": 512, "hidden": 64 } } },
            { "name": "attention", "inputs": ["embedding"], "kind": { "attention": { "hidden": 64, "heads": 4,
                "norm": norm, "position": "rotary", "projection": { "grouped": { "kv_heads": 4, "head_dim": 16 } } } } },
            { "name": "mlp", "inputs": ["attention"], "kind": { "mlp": { "hidden": 64, "intermediate": 128,
                "activation": "silu", "norm": norm } } },
            { "name": "head", "inputs": ["mlp"], "kind": { "head": { "hidden": 64, "vocabulary": 512, "norm": norm,
                "tied": true } } },
            { "name": "loss", "inputs": ["head"], "kind": { "loss": "cross_entropy" } } ],
            "repeat": [{ "first": "attention", "last": "mlp", "count": 2 }],
            "losses": [{ "name": "tokens", "layer": "loss" }] }),
        "cluster" => {
            json!({ "version": 1, "name": "lab", "device": "h100-sxm", "nodes": 2, "devices_per_node": 4,
            "memory": "64GiB", "host": { "memory": "512GiB", "cores": 64 },
            "levels": [{ "name": "scale-up", "span": 4, "bandwidth": 3e11 },
                       { "name": "network", "span": 8, "bandwidth": "25GB/s" }],
            "slower": [{ "level": "network", "domain": 1, "bandwidth": "10GB/s" }] })
        }
        "device" => serde_json::from_str(include_str!("../../cost_models/cpu.json")).unwrap(),
        "plan" => serde_json::from_str(&place.read("plan.json")).unwrap(),
        other => panic!("there is no sound `{other}`"),
    }
}

/// `document` with each path of `changes`, such as `levels.0.span`, set to its value; null takes a field away.
fn changed(mut document: Value, changes: &Value) -> Value {
    for (path, value) in changes.as_object().unwrap() {
        let mut place = &mut document;
        let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
        for step in parents.split('.').filter(|step| !step.is_empty()) {
            place = match step.parse::<usize>() {
                Ok(index) => &mut place[index],
                Err(_) => &mut place[step],
            };
        }
        match (place, last.parse::<usize>()) {
            (Value::Array(list), Ok(index)) => list[index] = value.clone(),
            (Value::Object(fields), _) if value.is_null() => drop(fields.remove(last)),
            (place, _) => place[last] = value.clone(),
        }
    }
    document
}

#[test]
fn malformed_inputs_end_in_the_error_that_the_table_has() {
    let place = Place::new();
    place.write("gpt2.json", sound(&place, "gpt2").to_string());
    let plan = "simulate gpt2.json --cluster 1x2xcpu --global-batch 4 --seq-len 16 --precision fp32 --strategy dp=2 \
                --out plan.json";
    assert_eq!(place.line(plan).code, 0);
    let lines = TABLE.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let rows: Vec<Row<'_>> = lines.map(|(at, line)| Row::read(at + 1, line)).collect();
    assert!(rows.len() >= 300, "{} rows", rows.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let rows = std::iter::from_fn(|| rows.get(next.fetch_add(1, Ordering::Relaxed)));
        rows.filter_map(|row| row.judge(&place)).collect::<Vec<_>>()
    };
    let wrong: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
