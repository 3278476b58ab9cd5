//! Names, folders and files of hostile people: nothing of theirs is run, obeyed or taken for another value.
//!
//! What is written for a tame name says what is meant. For a hostile one each language's own parser must say the same, and
//! the scripts, run with programs of ours in place of torchrun and others, must start the same.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use meshwright::plan::{Plan, digest};
use saphyr_parser::{Event, Parser};
use serde_json::{Value, json};

use crate::place::{Place, Run};

const TAME: &str = "tame";

/// Folders that a config may lie in: all of it can be shown.
const HOSTILE: [&str; 4] = [
    "$(touch HIT)`touch HIT`'; touch HIT; '\"; touch HIT; \"${IFS}&& touch HIT | touch HIT > HIT # \\",
    "-rf --x=\"\"\" ''' ) ] } , touch HIT *?[a-z]{a,b} ~ !! %s {{x}} <b>[x](y)&amp;|*_ `code` é模型🦙 \\",
    "coding: unicode_escape coding=utf-7 \\u000aopen('HIT','w')\\n#\\x0aopen('HIT','w')\\012#'''\"\"\"",
    " #!SBATCH --wrap=touch\u{a0}HIT: - null & *a !t '\\''$'\\n'touch HIT'",
];

/// Characters that no name has.
const HIDDEN: [&str; 9] =
    ["\n", "\r", "\t", "\u{1b}[2J", "\u{7f}", "\u{85}", "\u{9b}31m", "\u{2028}", "\u{202e}"];

const LLAMA: &str = r#"{"model_type":"llama","hidden_size":256,"intermediate_size":512,"num_hidden_layers":4,
"num_attention_heads":4,"num_key_value_heads":4,"vocab_size":1024,"max_position_embeddings":512,"hidden_act":"silu",
"tie_word_embeddings":false,"rms_norm_eps":1e-5,"rope_theta":10000.0}"#;

const GPT2: &str =
    r#"{"model_type":"gpt2","n_embd":256,"n_layer":4,"n_head":4,"vocab_size":1024,"n_positions":512}"#;

/// Whether `c` may stand in what is shown to people.
fn is_shown(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Simulates `config` in a folder called `name` and writes the plan beside it.
fn planned(place: &Place, config: &str, name: &str) -> Run {
    fs::create_dir_all(place.path().join(name)).unwrap();
    place.write(&format!("{name}/config.json"), config);
    let model = format!("./{name}");
    place.run([
        "simulate",
        &model,
        "--cluster",
        "1x2xh100-sxm",
        "--global-batch",
        "4",
        "--seq-len",
        "128",
        "--engine",
        "megatron",
        "--strategy",
        "dp=2,zero=1,micro=1",
        "--out",
        "plan.json",
    ])
}

/// The files that each target writes for `config` in a folder called `name`, and where.
fn exported(place: &Place, config: &str, name: &str) -> BTreeMap<String, (PathBuf, Vec<String>)> {
    let run = planned(place, config, name);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.chars().all(|c| is_shown(c) || c == '\n'), "{:?}", run.stdout);
    let folder = place.path().join(format!("out {name}"));
    fs::create_dir(&folder).unwrap();
    let mut written = BTreeMap::new();
    for target in meshwright::export::targets() {
        let out = folder.join(target.text());
        let run = place.run(["export", "plan.json", "--to", &target.text(), "--out", out.to_str().unwrap()]);
        assert!(matches!(run.code, 0 | 4), "{}: {}", target.text(), run.stderr);
        if run.code == 0 {
            let mut names: Vec<String> = fs::read_dir(&out)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            written.insert(target.text(), (out, names));
        }
    }
    written
}

/// What `toml_edit` read, as JSON.
fn toml(item: &toml_edit::Item) -> Value {
    if let Some(table) = item.as_table_like() {
        let fields = table.iter().map(|(name, item)| (name.to_owned(), toml(item)));
        return fields.collect::<serde_json::Map<_, _>>().into();
    }
    if let Some(list) = item.as_array() {
        return list.iter().map(|value| toml(&value.clone().into())).collect();
    }
    let text = item.as_str().map(Value::from);
    let scalar = text.or(item.as_bool().map(Value::from)).or(item.as_integer().map(Value::from));
    scalar.or(item.as_float().map(Value::from)).unwrap_or_else(|| panic!("{item:?}"))
}

/// What the parser of its language finds in a file; none of scripts and Python, which are run.
fn parsed(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).unwrap();
    let name = file.extension().unwrap().to_str().unwrap();
    assert!(text.chars().all(|c| is_shown(c) || c == '\n'), "{}: {text:?}", file.display());
    Some(match name {
        "toml" => {
            let document =
                toml_edit::Document::parse(text.as_str()).unwrap_or_else(|error| panic!("{error}\n{text}"));
            toml(document.as_item()).to_string()
        }
        "yaml" => {
            let scalar = |event: Event<'_>| match event {
                Event::Scalar(text, style, ..) => Some(format!("{style:?} {text}\n")),
                _ => None,
            };
            Parser::new_from_str(&text).filter_map(|event| scalar(event.expect(&text).0)).collect()
        }
        "json" => serde_json::from_str::<Value>(&text).unwrap().to_string(),
        "md" => {
            // Lines that no name stands in are as they were, and none is more.
            assert!(!text.contains("<b>") && !text.contains("[x](y)"), "{text}");
            text.lines().count().to_string()
        }
        "sh" | "slurm" | "py" => return None,
        _ => text,
    })
}

/// Runs `program` in `folder`; none, and said so, where there is no such program.
fn ran(program: &str, arguments: &[&str], folder: &Path, variables: &[(&str, &str)]) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).envs(variables.iter().copied()).stdin(Stdio::null());
    let output = command.output().ok();
    if output.is_none() {
        // Not `eprintln!`, which a test that passes keeps to itself.
        let _ = writeln!(io::stderr(), "there is no {program} here: what is written for it was not run");
    }
    output
}

/// What the scripts of a folder start: names and arguments as programs of ours, which stand before others, were given them.
fn started(place: &Place, folder: &Path, scripts: &[String]) -> Option<String> {
    let log = place.path().join("started");
    let path = format!("{}:/usr/bin:/bin", place.path().join("stubs").display());
    let sora = place.path().join("sora").display().to_string();
    fs::create_dir_all(place.path().join("sora/configs/diffusion/train")).unwrap();
    let variables = [
        ("PATH", path.as_str()),
        ("STARTED", log.to_str().unwrap()),
        ("OPEN_SORA_PATH", &sora),
        ("TRAIN_SCRIPT", "train.py"),
    ];
    fs::write(&log, "").unwrap();
    for script in scripts {
        let file = folder.join(script);
        let file = file.to_str().unwrap();
        let read = ran("bash", &["-n", "--", file], folder, &[])?;
        assert!(read.status.success(), "{file}: {}", String::from_utf8_lossy(&read.stderr));
        // From elsewhere, as a scheduler may.
        let run = ran(
            "bash",
            &["--", file, "more words"],
            if script == "run.slurm" { folder } else { place.path() },
            &variables,
        )?;
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        // NeMo has no recipe for this model, which its script says.
        assert!(run.status.success() || said.contains("name the recipe"), "{file}: {said}");
    }
    Some(fs::read_to_string(&log).unwrap().replace(&sora, "sora"))
}

/// Programs that write down what they are given.
fn stubs(place: &Place) {
    let stub = "#!/bin/sh\n{ printf '%s\\n' \"${0##*/} in ${PWD##*/}\"; printf '  <%s>\\n' \"$@\"; } >> \"$STARTED\"\n";
    fs::create_dir(place.path().join("stubs")).unwrap();
    for name in ["torchrun", "python", "mpirun", "srun", "nemo", "scontrol"] {
        let path = format!("stubs/{name}");
        place.write(&path, stub);
        let status = Command::new("chmod").arg("+x").arg(place.path().join(path)).status().unwrap();
        assert!(status.success());
    }
}

/// Whether anything below `folder` is called HIT.
fn is_hit(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()).any(|entry| {
        entry.file_name() == "HIT" || (entry.file_type().unwrap().is_dir() && is_hit(&entry.path()))
    })
}

/// Reads each of the Python files that come behind it, runs it with modules that take anything, and prints what it means.
const READS_PYTHON: &str = r#"
import ast, importlib.machinery, sys
from unittest.mock import MagicMock
class Anything:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torchtitan", "colossalai", "accelerate", "opensora"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__path__ = []
        return module
    def exec_module(self, module):
        pass
sys.meta_path.insert(0, Anything())
for file in sys.argv[1:]:
    source = open(file, "rb").read()
    tree = ast.parse(source)
    print(ast.dump(tree))
    if not file.endswith("with_accelerate.py"):
        scope = {"__name__": "planned"}
        exec(compile(source, file, "exec"), scope)
        if "planned" in scope:
            scope["planned"]()
"#;

fn meant_by_python(place: &Place, files: &[PathBuf]) -> Option<Vec<String>> {
    let files = files.iter().map(|file| file.to_str().unwrap());
    let arguments: Vec<&str> = ["-I", "-c", READS_PYTHON].into_iter().chain(files).collect();
    let run = ran("python3", &arguments, place.path(), &[])?;
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some(String::from_utf8(run.stdout).unwrap().lines().map(str::to_owned).collect())
}

/// All that is written for `config` under hostile names is what is written under a tame one.
fn attack(config: &str, names: &[&str], least: usize) {
    let place = Place::new();
    stubs(&place);
    let tame = exported(&place, config, TAME);
    assert!(tame.len() >= least, "only {:?} export it", tame.keys());
    let python = |written: &BTreeMap<String, (PathBuf, Vec<String>)>| -> Vec<PathBuf> {
        let files = written.values().flat_map(|(folder, names)| names.iter().map(|name| folder.join(name)));
        files.filter(|file| file.extension().is_some_and(|extension| extension == "py")).collect()
    };
    let scripts = ["run.sh", "run.slurm", "run.mpirun.sh"].map(str::to_owned);
    let starts: BTreeMap<_, _> =
        tame.iter().map(|(target, (folder, _))| (target, started(&place, folder, &scripts))).collect();
    let means = meant_by_python(&place, &python(&tame));
    for name in names {
        let hostile = exported(&place, config, name);
        for (target, (folder, files)) in &hostile {
            let (tame_folder, tame_files) = &tame[target];
            assert_eq!(files, tame_files, "{target}: {name}");
            for file in files {
                let [found, wanted] = [folder, tame_folder].map(|folder| parsed(&folder.join(file)));
                assert_eq!(found, wanted, "{target}: {file}: {name}");
            }
            assert_eq!(started(&place, folder, &scripts), starts[target], "{target}: {name}");
        }
        assert_eq!(hostile.len(), tame.len(), "{name}");
        assert_eq!(meant_by_python(&place, &python(&hostile)), means, "{name}");
        assert!(!is_hit(place.path()), "{name}");
    }
}

#[test]
fn every_target_says_the_same_under_any_name() {
    attack(LLAMA, &HOSTILE[..2], 8);
}

#[test]
fn names_do_not_choose_the_encoding_of_a_file() {
    attack(LLAMA, &HOSTILE[2..3], 8);
}

/// torchtitan has no such model, so that its name is a value of the file.
#[test]
fn a_name_that_is_a_value_is_that_value() {
    let place = Place::new();
    for name in HOSTILE {
        assert_eq!(planned(&place, GPT2, name).code, 0);
        let run = place.run([
            "export",
            "plan.json",
            "--to",
            "torchtitan@v0.2.2",
            "--out",
            "run",
            "--force",
            "--json",
        ]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let text = place.read("run/train.toml");
        let document =
            toml_edit::Document::parse(text.as_str()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(document["model"]["name"].as_str(), Some(name), "{text}");
        // What is written is what is read.
        let model = format!("./{name}/config.json");
        let back = place.run([
            "simulate",
            &model,
            "--cluster",
            "1x2xh100-sxm",
            "--from",
            "run/train.toml",
            "--json",
        ]);
        assert_eq!(back.code, 0, "{}", back.stderr);
        assert_eq!(back.json()["model"]["name"], name);
    }
}

#[test]
fn one_command_plans_and_exports_a_hostile_name() {
    let place = Place::new();
    stubs(&place);
    fs::create_dir(place.path().join(HOSTILE[0])).unwrap();
    place.write(&format!("{}/config.json", HOSTILE[0]), LLAMA);
    let (model, out) = (format!("./{}", HOSTILE[0]), format!("out {}", HOSTILE[1]));
    let plan = ["plan", &model, "--cluster", "1x2xh100-sxm", "--global-batch", "4", "--seq-len", "128"];
    let run = place.run(plan.into_iter().chain([
        "--engine",
        "megatron",
        "--export",
        &out,
        "--report",
        "page.html",
    ]));
    assert_eq!(run.code, 0, "{}", run.stderr);
    started(&place, &place.path().join(&out), &["run.sh".to_owned()]);
    assert!(!is_hit(place.path()));
    let page = place.read("page.html");
    assert!(
        page.contains("$(touch HIT)") && !page.contains("\"; touch HIT; \"${IFS}&&"),
        "names are escaped in the page"
    );
}

/// `text` with `value` at `pointer`.
fn with(text: &str, pointer: &str, value: &str) -> String {
    let mut document: Value = serde_json::from_str(text).unwrap();
    *document.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = json!(value);
    document.to_string()
}

/// `run` ends with 3 and names `field`, and shows nothing that a terminal would obey.
fn refused(run: &Run, field: &str, what: &str) {
    assert_eq!(run.code, 3, "{what}: {}{}", run.stdout, run.stderr);
    for text in [&run.stdout, &run.stderr] {
        assert!(text.chars().all(|c| is_shown(c) || c == '\n'), "{what}: {text:?}");
    }
    assert_eq!(run.json()["error"]["field"], field, "{what}: {}", run.stderr);
}

#[test]
fn names_with_characters_that_are_not_shown_are_refused_where_they_are_read() {
    let place = Place::new();
    let graph = include_str!("../layer_graphs/two-losses.json");
    let device = include_str!("../../cost_models/h100-sxm.json");
    let run = planned(&place, LLAMA, TAME);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let plan = place.read("plan.json");
    let document: Value = serde_json::from_str(&plan).unwrap();
    let cluster = document["cluster"]["document"].to_string();
    for hidden in HIDDEN.into_iter().chain(["\0"]) {
        let name = format!("a{hidden}touch HIT{hidden}#");
        let what = format!("{hidden:?}");
        let simulate = |model: &str, cluster: &str| {
            place.run([
                "simulate",
                model,
                "--cluster",
                cluster,
                "--strategy",
                "dp=1",
                "--json",
                "--out",
                "new.json",
            ])
        };
        for field in ["model_type", "_name_or_path"] {
            let mut config: Value = serde_json::from_str(LLAMA).unwrap();
            config[field] = json!(name);
            place.write("model.json", config.to_string());
            refused(&simulate("model.json", "1x1xh100-sxm"), field, &what);
        }
        for (pointer, field) in
            [("/name", "name"), ("/layers/1/name", "layers[1].name"), ("/losses/1/name", "losses[1].name")]
        {
            place.write("model.json", with(graph, pointer, &name));
            refused(&simulate("model.json", "1x1xh100-sxm"), field, &what);
        }
        for (pointer, field) in [
            ("/name", "name"),
            ("/levels/0/name", "levels[0].name"),
            ("/device", "device"),
            ("/device_model/title", "device_model.title"),
        ] {
            place.write("cluster.json", with(&cluster, pointer, &name));
            refused(&simulate("gpt2", "cluster.json"), field, &what);
        }
        place.write("device.json", with(device, "/name", &name));
        refused(&simulate("gpt2", "1x1x./device.json"), "name", &what);
        for (pointer, field) in [
            ("/model/name", "model.name"),
            ("/cluster/name", "cluster.name"),
            ("/engine", "engine"),
            ("/verdict", "verdict"),
        ] {
            // As whoever changes a plan would write it.
            let mut changed: Plan = serde_json::from_str(&with(&plan, pointer, &name)).unwrap();
            changed.digest = digest(&changed);
            place.write("changed.json", serde_json::to_string(&changed).unwrap());
            refused(
                &place.run(["export", "changed.json", "--to", "megatron", "--out", "run", "--json"]),
                field,
                &what,
            );
            refused(&place.run(["report", "changed.json", "--out", "page.html", "--json"]), field, &what);
        }
        if hidden != "\0" {
            fs::create_dir(place.path().join(&name)).unwrap();
            place.write(&format!("{name}/config.json"), LLAMA);
            refused(&simulate(&format!("./{name}"), "1x1xh100-sxm"), "name", &what);
            fs::remove_dir_all(place.path().join(&name)).unwrap();
        }
    }
    for name in ["new.json", "run", "page.html", "HIT"] {
        assert!(!place.path().join(name).exists(), "{name}");
    }
}

/// What a model in a plan is called is said in two places; the graph's is the one that counts.
#[test]
fn a_changed_plan_exports_no_name_of_the_graph_that_is_not_shown() {
    let place = Place::new();
    assert_eq!(planned(&place, LLAMA, TAME).code, 0);
    let changed = with(&place.read("plan.json"), "/model/graph/name", "a\ntouch HIT\n#");
    let mut changed: Plan = serde_json::from_str(&changed).unwrap();
    changed.digest = digest(&changed);
    place.write("changed.json", serde_json::to_string(&changed).unwrap());
    let run = place.run(["export", "changed.json", "--to", "megatron", "--out", "run", "--json"]);
    refused(&run, "model.graph.name", "graph");
}

#[test]
fn files_and_folders_may_be_called_anything() {
    let place = Place::new();
    for hidden in HIDDEN {
        let folder = format!("a{hidden}'$(touch HIT)");
        fs::create_dir(place.path().join(&folder)).unwrap();
        let inside = |name: &str| format!("{folder}/{name}");
        place.write(&inside("model.json"), include_str!("../layer_graphs/two-losses.json"));
        let (model, plan) = (format!("./{}", inside("model.json")), inside("plan.json"));
        let simulate = ["simulate", &model, "--cluster", "1x1xh100-sxm", "--strategy", "dp=1"];
        let more = ["--seq-len", "128", "--global-batch", "2", "--out", &plan];
        let run = place.run(simulate.into_iter().chain(more));
        assert_eq!(run.code, 0, "{}", run.stderr);
        let run = place.run(["report", &plan, "--out", &inside("page.html"), "--json"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(run.json()["report"], inside("page.html"));
        let run = place.run(["export", &plan, "--to", "deepspeed", "--out", &inside("run")]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stdout.chars().all(|c| is_shown(c) || c == '\n'), "{:?}", run.stdout);
        assert!(!is_hit(place.path()));
    }
}

#[test]
fn a_terminal_obeys_nothing_of_what_was_typed() {
    let place = Place::new();
    for hidden in HIDDEN {
        let typed = format!("no{hidden}\u{1b}]0;title\u{7}.json");
        let lines: [&[&str]; 10] = [
            &["simulate", &typed, "--cluster", "1x1xh100-sxm", "--strategy", "dp=1"],
            &["simulate", "gpt2", "--cluster", &typed, "--strategy", "dp=1"],
            &["simulate", "gpt2", "--cluster", "1x1xh100-sxm", "--strategy", &typed],
            &["simulate", "gpt2", "--cluster", "1x1xh100-sxm", "--from", &typed],
            &["plan", "gpt2", "--cluster", "1x1xh100-sxm", "--engine", &typed],
            &["plan", "gpt2", "--cluster", "1x1xh100-sxm", "--out", &typed, "--precision", &typed],
            &["export", &typed, "--to", "megatron", "--out", "run"],
            &["export", "plan.json", "--to", &typed, "--out", "run"],
            &[&typed],
            &["models", "--", &typed, &typed],
        ];
        for line in lines {
            for json in [false, true] {
                let line = line.iter().copied().chain(json.then_some("--json"));
                let run = place.run(line.clone());
                assert!(matches!(run.code, 2 | 3), "{line:?}: {}{}", run.stdout, run.stderr);
                for text in [&run.stdout, &run.stderr] {
                    let shown =
                        text.chars().all(|c| is_shown(c) || c == '\n' || (c == '\t' && hidden == "\t"));
                    assert!(shown, "{line:?}: {text:?}");
                }
            }
        }
    }
}
