//! Every path that can be typed, and the same hostile things tried on each: nothing hangs, nothing that was there is lost,
//! and what cannot be is said before the work, in one sentence.
//!
//! The paths are those of the program's own definition: one that is not listed here fails the test.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueHint;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::place::Place;

/// The longest that anything may take that is refused, on a busy machine.
const LONGEST: Duration = Duration::from_secs(20);

/// Programs that run at once; most of them wait.
const THREADS: usize = 4;

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A file that is read whole: the sound one in its place is this one.
    Input(&'static str),
    /// The same of any size, of which parts are read.
    LargeInput(&'static str),
    /// A folder that is read, and the file in it that must be sound.
    InputFolder(&'static str, &'static str),
    Output,
    OutputFolder,
}

use Kind::{Input, InputFolder, LargeInput, Output, OutputFolder};

/// An argument that is a path: its command, its name, what it is, and a command line in which `@` is the path.
type Row = (&'static str, &'static str, Kind, &'static str);

/// Of `plan`, `simulate` and `explain` on a small model.
const SMALL: &str = "--global-batch 2 --seq-len 16 --precision fp32";

#[rustfmt::skip]
const TABLE: &[Row] = &[
    ("plan", "model", Input("tiny.json"), "plan @ --cluster 1x1xcpu --top 0 $"),
    ("plan", "model", InputFolder("model", "config.json"), "plan @ --cluster 1x1xcpu --top 0 $"),
    ("plan", "cluster", Input("cluster.json"), "plan tiny.json --cluster @ --top 0 $"),
    ("plan", "out", Output, "plan tiny.json --cluster cluster.json --top 0 $ --out @"),
    ("plan", "report", Output, "plan tiny.json --cluster cluster.json --top 0 $ --report @"),
    ("plan", "export", OutputFolder, "plan gpt2 --cluster 1x1xh100-sxm --engine torchtitan --global-batch 1 --seq-len 64 --top 0 --export @"),
    ("simulate", "model", Input("tiny.json"), "simulate @ --cluster 1x1xcpu $ --strategy dp=1"),
    ("simulate", "model", InputFolder("model", "config.json"), "simulate @ --cluster 1x1xcpu $ --strategy dp=1"),
    ("simulate", "cluster", Input("cluster.json"), "simulate tiny.json --cluster @ $ --strategy dp=1"),
    ("simulate", "cluster", Input("cpu.json"), "simulate tiny.json --cluster 1x1x@ $ --strategy dp=1"),
    ("simulate", "from", Input("alone.toml"), "simulate --cluster 1x4xh100-sxm --from @"),
    ("simulate", "out", Output, "simulate tiny.json --cluster cluster.json $ --strategy dp=1 --out @"),
    ("simulate", "report", Output, "simulate tiny.json --cluster cluster.json $ --strategy dp=1 --report @"),
    ("simulate", "timeline", Output, "simulate tiny.json --cluster cluster.json $ --strategy dp=1 --timeline @"),
    ("explain", "model", Input("tiny.json"), "explain @ --cluster 1x1xcpu $ --strategy dp=1"),
    ("explain", "cluster", Input("cluster.json"), "explain tiny.json --cluster @ $ --strategy dp=1"),
    ("explain", "from", Input("alone.toml"), "explain --cluster 1x4xh100-sxm --from @"),
    ("execute", "plan", Input("plan.json"), "execute @ --dry-run"),
    ("execute", "data", LargeInput("data.txt"), "execute plan.json --no-calibrate --steps 1 --data @"),
    ("execute", "init", InputFolder("saved", "model.safetensors"), "execute plan.json --no-calibrate --steps 1 --init @"),
    ("execute", "init", InputFolder("saved", "state.safetensors"), "execute plan.json --no-calibrate --steps 1 --init @"),
    ("execute", "save", OutputFolder, "execute plan.json --no-calibrate --steps 1 --save @"),
    ("execute", "trace", Output, "execute plan.json --no-calibrate --steps 1 --trace @"),
    ("execute", "grads_out", Output, "execute plan.json --no-calibrate --steps 1 --grads all --grads-out @"),
    ("execute", "cost_model", Input("cpu.json"), "execute plan.json --steps 1 --cost-model @"),
    ("calibrate", "fit", Input("trace.json"), "calibrate --fit @ --device none --out fitted.json"),
    ("calibrate", "fit", InputFolder("traces", "a.json"), "calibrate --fit @ --device none --out fitted.json"),
    ("calibrate", "models", InputFolder("models", "cpu.json"), "calibrate --fit trace.json --models @ --device none --out fitted.json"),
    ("calibrate", "models", InputFolder("models", "fit/parameters.json"), "calibrate --fit trace.json --models @ --device none --out fitted.json"),
    ("calibrate", "facts", Input("facts.json"), "calibrate --facts @ --out card.json"),
    ("calibrate", "trace", Output, "calibrate --facts trained.json --out card.json --trace @"),
    ("calibrate", "out", Output, "calibrate --facts facts.json --out @"),
    ("validate", "traces", Input("trace.json"), "validate @"),
    ("validate", "traces", InputFolder("traces", "a.json"), "validate @"),
    ("validate", "report", Output, "validate trace.json --report @"),
    ("export", "plan", Input("h100.json"), "export @ --to torchtitan --out exported"),
    ("export", "out", OutputFolder, "export h100.json --to torchtitan --out @"),
    ("report", "plan", Input("plan.json"), "report @ --out page.html"),
    ("report", "out", Output, "report plan.json --out @"),
    ("models", "model", Input("tiny.json"), "models @"),
];

/// Arguments that are texts and may name a file, by command; all others that may are paths for clap too.
const TEXTS: &[(&str, &str)] = &[
    ("plan", "model"),
    ("plan", "cluster"),
    ("simulate", "model"),
    ("simulate", "cluster"),
    ("explain", "model"),
    ("explain", "cluster"),
    ("models", "model"),
];

/// A file is never called otherwise in help.
const FILE_NAMES: &[&str] =
    &["FILE", "DIR", "PATH", "FOLDER", "PLAN.json", "TRACES", "TRACE", "MODEL", "CLUSTER"];

#[test]
fn every_path_of_the_program_is_attacked_here() {
    let mut unlisted = Vec::new();
    let mut known = BTreeSet::new();
    for command in meshwright::cli::command().get_subcommands() {
        for argument in command.get_arguments().filter(|argument| argument.get_action().takes_values()) {
            let name = (command.get_name().to_owned(), argument.get_id().as_str().to_owned());
            let hint = argument.get_value_hint();
            let is_path = matches!(hint, ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath);
            let called = argument.get_value_names().unwrap_or_default();
            let is_called_so = called.iter().any(|called| FILE_NAMES.contains(&called.as_str()));
            if (is_path || is_called_so) && !TABLE.iter().any(|row| (row.0, row.1) == (&name.0, &name.1)) {
                unlisted.push(name.clone());
            }
            let is_text = TEXTS.contains(&(name.0.as_str(), name.1.as_str()));
            assert!(!is_called_so || is_path || is_text, "{name:?} is called {called:?} and is no path");
            known.insert(name);
        }
    }
    assert!(unlisted.is_empty(), "no attack on {unlisted:?}");
    let gone: Vec<_> =
        TABLE.iter().filter(|row| !known.contains(&(row.0.to_owned(), row.1.to_owned()))).collect();
    assert!(gone.is_empty(), "there is no {gone:?}");
}

/// Sound files of every kind.
struct Sound(Place);

impl Sound {
    fn new() -> Self {
        let place = Place::new();
        let tiny = json!({ "model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 128, "n_positions": 16 });
        place.write("tiny.json", tiny.to_string());
        let cluster =
            json!({ "version": 1, "name": "lab", "device": "cpu", "nodes": 1, "devices_per_node": 1 });
        place.write("cluster.json", cluster.to_string());
        place.write("cpu.json", include_str!("../../cost_models/cpu.json"));
        place.write("data.txt", "a line of text for a small model to learn\n".repeat(9));
        place.write("facts.json", FACTS);
        place.write(
            "trained.json",
            FACTS.replace(r#""launch""#, &format!(r#""training":[{TRAINED}],"launch""#)),
        );
        for folder in ["model", "models/fit", "traces"] {
            fs::create_dir_all(place.path().join(folder)).unwrap();
        }
        place.write("model/config.json", tiny.to_string());
        place.write("models/cpu.json", include_str!("../../cost_models/cpu.json"));
        place.write("models/fit/parameters.json", include_str!("../../cost_models/fit/parameters.json"));
        for line in [
            &format!("simulate tiny.json --cluster 1x1xcpu {SMALL} --strategy dp=1 --out plan.json"),
            "simulate llama-3.1-8b --cluster 1x4xh100-sxm --engine torchtitan --global-batch 8 --seq-len 512 --strategy \
             pp=4,sched=zb-h1,zero=1,micro=1,ckpt=full --out h100.json",
            "export h100.json --to torchtitan --out run --as-is",
            "simulate llama-3.1-8b --cluster 1x4xh100-sxm --engine torchtitan --global-batch 8 --seq-len 512 --strategy \
             zero=3,ckpt=full --out alone.json",
            "export alone.json --to torchtitan --out alone --as-is",
            "execute plan.json --steps 1 --save saved --trace trace.json",
        ] {
            let run = place.line(line);
            assert_eq!(run.code, 0, "{line}\n{}", run.stderr);
        }
        for (from, to) in [("trace.json", "traces/a.json"), ("alone/train.toml", "alone.toml")] {
            fs::copy(place.path().join(from), place.path().join(to)).unwrap();
        }
        Self(place)
    }

    /// A folder of its own with all of them, by copies.
    fn folder(&self) -> Folder {
        let folder = TempDir::new().unwrap();
        copy(self.0.path(), folder.path());
        Folder(folder)
    }
}

const FACTS: &str = r#"{"tool":"gpu_facts","torch":"2.9","date":"2026-11-24",
    "device":{"name":"NVIDIA H100 80GB HBM3","multiprocessors":132,"memory_bytes":85000000000},
    "launch":{"seconds_a_small_kernel":3.1e-6},
    "memory_bound":{"copy_1073741824_B":{"seconds":0.0008,"bytes_per_s":2.6e12}}}"#;

const TRAINED: &str = r#"{"model":"gpt2","shape":{"layers":12,"hidden":768,"ffn":3072,"heads":12,"kv":12,"vocab":50304,
    "llama":false},"micro_batch":16,"seq_len":1024,"accumulation":1,"checkpointing":"none","compile":false,
    "step_time_s":0.12,"parameters":163000000,"allocated_bytes":20000000000,"reserved_bytes":21000000000}"#;

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let place = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&place).unwrap();
            copy(&entry.path(), &place);
        } else {
            fs::copy(entry.path(), place).unwrap();
        }
    }
}

/// How a program ended.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    took: Duration,
}

/// The program, or the one to be tried in its place.
fn program() -> OsString {
    std::env::var_os("MESHWRIGHT_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_meshwright").into())
}

struct Folder(TempDir);

impl Folder {
    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `line` with `path` for its `@`.
    fn run(&self, line: &str, path: &OsStr) -> Ended {
        self.fed(line, path, Stdio::null(), &[])
    }

    fn fed(&self, line: &str, path: &OsStr, stdin: Stdio, more: &[&str]) -> Ended {
        let mut command = Command::new(program());
        command.args(words(line, path)).args(more).current_dir(self.0.path());
        command.env("MESHWRIGHT_CACHE", self.path(".cache")).env("CUDA_VISIBLE_DEVICES", "");
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let start = Instant::now();
        let mut child = command.spawn().unwrap();
        let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let reading = thread::spawn(move || {
            let mut text = Vec::new();
            stderr.read_to_end(&mut text).unwrap();
            text
        });
        let watched = child.id().to_string();
        let (done, waits) = std::sync::mpsc::channel::<()>();
        // A program that hangs is ended, so that the test does not.
        let watch = thread::spawn(move || {
            if waits.recv_timeout(3 * LONGEST).is_err() {
                Command::new("kill").args(["-KILL", &watched]).status().unwrap();
            }
        });
        let mut text = Vec::new();
        stdout.read_to_end(&mut text).unwrap();
        let code = child.wait().unwrap().code();
        let took = start.elapsed();
        done.send(()).unwrap_or_default();
        watch.join().unwrap();
        let lossy = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ended { code, stdout: lossy(text), stderr: lossy(reading.join().unwrap()), took }
    }

    /// All that is here: names, kinds, contents of small files, and permissions.
    fn state(&self) -> BTreeSet<String> {
        let mut state = BTreeSet::new();
        look(self.0.path(), &mut state);
        state
    }
}

fn look(folder: &Path, state: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let metadata = fs::symlink_metadata(&path).unwrap();
        let contents = if kind.is_symlink() {
            format!("{:?}", fs::read_link(&path).unwrap())
        } else if kind.is_file() && metadata.len() < 1 << 20 {
            format!("{:?}", String::from_utf8_lossy(&fs::read(&path).unwrap()))
        } else {
            format!("{kind:?}")
        };
        state.insert(format!("{path:?} {:o} {contents}", metadata.mode()));
        if kind.is_dir() {
            look(&path, state);
        }
    }
}

/// The words of `line`; `@` is the path, also behind a prefix, and `$` the rest of a small workload.
fn words(line: &str, path: &OsStr) -> Vec<OsString> {
    let line = line.replace('$', SMALL);
    let word = |word: &str| match word.strip_suffix('@') {
        Some(prefix) => {
            let mut word = OsString::from(prefix);
            word.push(path);
            word
        }
        None => word.into(),
    };
    let mut words: Vec<OsString> = line.split_whitespace().map(word).collect();
    let is_planned = ["plan", "simulate", "explain"].contains(&&*words[0].to_string_lossy());
    if is_planned && !line.contains("--engine") && !line.contains("--from") {
        words.extend(["--engine", "embedded"].map(Into::into));
    }
    words
}

/// Something hostile at a path that is read: what it is called, how it is made, and the path that is typed.
type Hostile = (&'static str, fn(&Path));

/// What may stand in the place of a file that is read.
const HOSTILE: &[Hostile] = &[
    ("missing", |_| {}),
    ("folder", |path| fs::create_dir(path).unwrap()),
    ("pipe", make_pipe),
    ("link to a pipe", |path| {
        make_pipe(&path.with_extension("pipe"));
        symlink(path.with_extension("pipe"), path).unwrap();
    }),
    ("zeros", |path| symlink("/dev/zero", path).unwrap()),
    ("null", |path| symlink("/dev/null", path).unwrap()),
    ("full", |path| symlink("/dev/full", path).unwrap()),
    ("noise", |path| symlink("/dev/urandom", path).unwrap()),
    ("terminal", |path| symlink("/dev/tty", path).unwrap()),
    ("dangling", |path| symlink("nowhere", path).unwrap()),
    ("circle", |path| symlink(path, path).unwrap()),
    ("empty", |path| fs::write(path, "").unwrap()),
    ("bytes", |path| fs::write(path, [0xff, 0xfe, 0, 1, 0x80]).unwrap()),
    ("half", |path| fs::write(path, "{\"version\": 1, \"name").unwrap()),
    ("deep", |path| fs::write(path, "[".repeat(100_000)).unwrap()),
    ("huge", |path| File::create(path).unwrap().set_len(5 << 30).unwrap()),
    ("socket", |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap())),
    ("made up by the system", |path| symlink("/proc/self/status", path).unwrap()),
];

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Does `work` for each of `items` on several threads; what they say is wrong comes back.
fn each<T: Sync>(items: &[T], work: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let take = || std::iter::from_fn(|| items.get(next.fetch_add(1, Ordering::Relaxed)));
    thread::scope(|scope| {
        let run = || take().filter_map(&work).collect::<Vec<_>>();
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

/// What is wrong with an end that should be a refusal with one of `codes`, in one sentence and soon.
fn refusal(ended: &Ended, codes: &[i32]) -> Option<String> {
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
    let message = document["error"]["message"].as_str().unwrap_or_default();
    let wrong = if !ended.code.is_some_and(|code| codes.contains(&code)) {
        format!("ended with {:?}, not {codes:?}", ended.code)
    } else if ended.took > LONGEST {
        format!("took {:?}", ended.took)
    } else if message.is_empty() {
        format!("said no error in JSON but {}", ended.stdout)
    } else if ended.stderr.matches("error: ").count() != 1 || ended.stderr.contains("panicked") {
        "said no one error".to_owned()
    } else {
        return None;
    };
    Some(format!("{wrong}\n    {}", ended.stderr.trim()))
}

#[test]
fn nothing_hostile_that_is_read_is_more_than_an_error() {
    let sound = Sound::new();
    let mut cases: Vec<(&Row, Hostile)> = Vec::new();
    for row in TABLE {
        let hostile = HOSTILE.iter().filter(|(what, _)| match row.2 {
            // Data may be of any size, and any bytes are text.
            LargeInput(_) => !["huge", "half", "deep", "made up by the system"].contains(what),
            Input(_) => true,
            // What is not there is built in, or there is nothing to go on from.
            InputFolder(_, name) => {
                let may_lack = row.1 == "models" || name == "state.safetensors";
                let is_any = row.1 == "init" && *what == "huge";
                !(is_any || may_lack && *what == "missing")
            }
            Output | OutputFolder => false,
        });
        // These two read their models and clusters as `simulate` does.
        let is_short = ["plan", "explain"].contains(&row.0);
        let hostile =
            hostile.filter(|(what, _)| !is_short || ["pipe", "zeros", "huge", "circle"].contains(what));
        cases.extend(hostile.map(|hostile| (row, *hostile)));
    }
    assert!(cases.len() > 250, "{}", cases.len());
    let wrong = each(&cases, |(row, (what, make))| {
        let folder = sound.folder();
        let (typed, place) = match row.2 {
            InputFolder(name, inside) => (name.to_owned(), format!("{name}/{inside}")),
            _ => {
                let extension = if row.1 == "from" { "toml" } else { "json" };
                (format!("hostile.{extension}"), format!("hostile.{extension}"))
            }
        };
        let place = folder.path(place);
        fs::remove_file(&place).unwrap_or_default();
        make(&place);
        let before = folder.state();
        let ended = folder.fed(row.3, typed.as_ref(), Stdio::null(), &["--json"]);
        let changed = (folder.state() != before).then(|| "something was changed".to_owned());
        let wrong = refusal(&ended, &[3]).or(changed)?;
        Some(format!("{what} for {}: {wrong}", row.3))
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn paths_that_name_nothing_are_errors() {
    let sound = Sound::new();
    let long = "n".repeat(300);
    let odd = OsString::from_vec(b"od\xffd \n\x1b[31m.json".to_vec());
    let names: [&OsStr; 8] = [
        "".as_ref(),
        "-".as_ref(),
        "tiny.json/x.json".as_ref(),
        long.as_ref(),
        &odd,
        "missing/x.json".as_ref(),
        "../\u{202e}.json".as_ref(),
        "/".as_ref(),
    ];
    let cases: Vec<(&Row, &OsStr)> =
        TABLE.iter().flat_map(|row| names.into_iter().map(move |name| (row, name))).collect();
    let wrong = each(&cases, |(row, name)| {
        let is_new_file = *name == odd || *name == "../\u{202e}.json";
        let is_made = row.1 == "save" && (*name == "missing/x.json" || *name == "/");
        if matches!(row.2, Output | OutputFolder) && (is_new_file || is_made) {
            return None;
        }
        let folder = sound.folder();
        let before = folder.state();
        let ended = folder.fed(row.3, name, Stdio::null(), &["--json"]);
        let changed = (folder.state() != before).then(|| "something was changed".to_owned());
        let codes: &[i32] = if matches!(row.2, Output | OutputFolder) { &[2, 5] } else { &[2, 3] };
        let wrong = refusal(&ended, codes).or(changed)?;
        Some(format!("{name:?} for {}: {wrong}", row.3))
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// What a run says, without what is new in each.
fn said(ended: &Ended) -> (Option<i32>, usize) {
    (ended.code, ended.stdout.lines().count())
}

/// A sound file by a way that is not the plain one: prepares it, and gives the path to be typed and the standard input.
type Way = (&'static str, fn(&Folder, &Path) -> (OsString, Stdio));

const WAYS: &[Way] = &[
    ("a link to a link", |folder, file| {
        let extension = file.extension().unwrap();
        let names = ["one", "two"].map(|name| PathBuf::from(name).with_extension(extension));
        symlink(file, folder.path(&names[0])).unwrap();
        symlink(&names[0], folder.path(&names[1])).unwrap();
        (names[1].clone().into(), Stdio::null())
    }),
    ("a hard link", |folder, file| {
        let name = PathBuf::from("hard").with_extension(file.extension().unwrap());
        fs::hard_link(folder.path(file), folder.path(&name)).unwrap();
        (name.into(), Stdio::null())
    }),
    ("a pipe that is written late", |folder, file| {
        let name = PathBuf::from("late").with_extension(file.extension().unwrap());
        make_pipe(&folder.path(&name));
        let (pipe, bytes) = (folder.path(&name), fs::read(folder.path(file)).unwrap());
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            let mut pipe = File::options().write(true).open(pipe).unwrap();
            let (first, rest) = bytes.split_at(bytes.len() / 2);
            pipe.write_all(first).unwrap();
            thread::sleep(Duration::from_millis(300));
            // Who has read enough may be gone.
            pipe.write_all(rest).unwrap_or_default();
        });
        (name.into(), Stdio::null())
    }),
    ("the standard input, a file", |folder, file| {
        ("/dev/stdin".into(), File::open(folder.path(file)).unwrap().into())
    }),
    ("the standard input, a pipe", |folder, file| {
        let (read, mut write) = std::io::pipe().unwrap();
        let bytes = fs::read(folder.path(file)).unwrap();
        thread::spawn(move || write.write_all(&bytes).unwrap_or_default());
        ("/dev/stdin".into(), read.into())
    }),
];

#[test]
fn sound_files_are_read_by_every_way() {
    let sound = Sound::new();
    let mut cases = Vec::new();
    for row in TABLE {
        let Input(name) = row.2 else { continue };
        // Which engine a file is for, and that a word of a cluster is a file, its name says.
        let needs_name = row.1 == "from" || row.3.contains("1x1x@");
        let ways = WAYS.iter().filter(|way| !(needs_name && way.0.starts_with("the standard input")));
        cases.extend(ways.map(|way| (row, Path::new(name), way)));
    }
    let wrong = each(&cases, |(row, name, (what, prepare))| {
        let folder = sound.folder();
        let plain = said(&folder.run(row.3, name.as_os_str()));
        let again = sound.folder();
        let (typed, stdin) = prepare(&again, name);
        let ended = again.fed(row.3, &typed, stdin, &[]);
        let is_same = said(&ended) == plain && ended.took < LONGEST;
        (!is_same)
            .then(|| format!("{what} for {}: {:?}, not {plain:?}\n{}", row.3, said(&ended), ended.stderr))
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// A place that can be written to: how it is made, the path that is typed, and the one where the text must be then.
type Good = (&'static str, fn(&Folder), &'static [u8], &'static [u8]);

const GOOD: &[Good] = &[
    ("a new file", |_| {}, b"new", b"new"),
    (
        "a file that only its owner reads",
        |folder| {
            fs::write(folder.path("own"), "old").unwrap();
            fs::set_permissions(folder.path("own"), Permissions::from_mode(0o600)).unwrap();
        },
        b"own",
        b"own",
    ),
    (
        "a link",
        |folder| {
            fs::write(folder.path("traces/old"), "old").unwrap();
            symlink("traces/old", folder.path("link")).unwrap();
        },
        b"link",
        b"traces/old",
    ),
    (
        "a link to what is not there yet",
        |folder| symlink("traces/yet", folder.path("link")).unwrap(),
        b"link",
        b"traces/yet",
    ),
    (
        "a folder by a link",
        |folder| symlink("traces", folder.path("side")).unwrap(),
        b"side/new",
        b"traces/new",
    ),
    ("an odd name", |_| {}, b"od\xffd \n\x1b[31m$(x)", b"od\xffd \n\x1b[31m$(x)"),
    ("a file named like a flag", |_| {}, b"./-", b"-"),
];

#[test]
fn outputs_appear_whole_where_their_path_leads() {
    let sound = Sound::new();
    let outputs = || TABLE.iter().filter(|row| row.2 == Output);
    let cases: Vec<(&Row, &Good)> =
        outputs().flat_map(|row| GOOD.iter().map(move |good| (row, good))).collect();
    let wrong = each(&cases, |(row, (what, make, typed, place))| {
        let folder = sound.folder();
        make(&folder);
        let names = || fs::read_dir(folder.path("")).unwrap().count();
        let before = names();
        let place = folder.path(OsStr::from_bytes(place));
        let mode = fs::metadata(&place).ok().map(|found| found.mode());
        let typed = OsStr::from_bytes(typed);
        let is_link = folder.path(typed).is_symlink();
        let ended = folder.run(row.3, typed);
        let text = String::from_utf8_lossy(&fs::read(&place).unwrap_or_default()).into_owned();
        let is_whole = text.len() > 100 && (text.ends_with(['\n', '>']) || row.1 == "grads_out");
        let is_kept = mode.is_none_or(|mode| mode == fs::metadata(&place).unwrap().mode());
        let is_clean = names() <= before + 3 && folder.path(typed).is_symlink() == is_link;
        (!(ended.code == Some(0) && is_whole && is_kept && is_clean)).then(|| {
            format!("{what} for {}: {:?} {} bytes\n    {}", row.3, ended.code, text.len(), ended.stderr)
        })
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn devices_and_pipes_are_written_into() {
    let sound = Sound::new();
    let rows: Vec<&Row> = TABLE.iter().filter(|row| row.2 == Output).collect();
    let wrong = each(&rows, |row| {
        let folder = sound.folder();
        symlink("/dev/null", folder.path("null")).unwrap();
        for path in ["/dev/null", "null"] {
            let ended = folder.run(row.3, path.as_ref());
            let is_device = fs::metadata("/dev/null").unwrap().file_type().is_char_device();
            if ended.code != Some(0) || !is_device || !folder.path("null").is_symlink() {
                return Some(format!("{path} for {}: {:?} {}", row.3, ended.code, ended.stderr));
            }
        }
        let plain = folder.run(row.3, "/dev/null".as_ref());
        let both = folder.run(row.3, "/dev/stdout".as_ref());
        if both.code != Some(0) || both.stdout.len() < plain.stdout.len() + 100 {
            return Some(format!("/dev/stdout for {}: {:?} {}", row.3, both.code, both.stderr));
        }
        make_pipe(&folder.path("pipe"));
        let pipe = folder.path("pipe");
        let reader = thread::spawn(move || fs::read(pipe).unwrap());
        let ended = folder.run(row.3, "pipe".as_ref());
        let read = reader.join().unwrap();
        let is_pipe = fs::metadata(folder.path("pipe")).unwrap().file_type().is_fifo();
        (ended.code != Some(0) || read.len() < 100 || !is_pipe)
            .then(|| format!("a pipe for {}: {:?} {} bytes {}", row.3, ended.code, read.len(), ended.stderr))
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn what_a_shell_has_opened_is_written_into() {
    let sound = Sound::new();
    let folder = sound.folder();
    let program = program().to_string_lossy().into_owned();
    let simulate = format!(
        "{program} simulate tiny.json --cluster cluster.json {SMALL} --engine embedded --strategy dp=1"
    );
    let shell = |line: &str| {
        let done = Command::new("bash").args(["-c", line]).current_dir(folder.path("")).output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let plan = |name: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(folder.path(name)).unwrap()).unwrap()
    };
    assert_eq!(shell(&format!("{simulate} --out plain.json > /dev/null")).0, Some(0));
    for line in [
        format!("{simulate} --out /dev/fd/3 3> other.json > /dev/null"),
        format!("{simulate} --out >(cat > late.json; mv late.json other.json) | cat > /dev/null; sleep 0.5"),
        format!("{simulate} --out /dev/stderr 2> other.json > /dev/null"),
        format!(
            "{simulate} --json | {program} report /dev/stdin --out other.html && cp plain.json other.json"
        ),
        format!("{program} report <({simulate} --json) --out other.html && cp plain.json other.json"),
        format!("{program} report <(sleep 3; cat plain.json) --out other.html && cp plain.json other.json"),
    ] {
        let (code, stderr) = shell(&line);
        assert_eq!(code, Some(0), "{line}\n{stderr}");
        assert_eq!(plan("other.json"), plan("plain.json"), "{line}");
        fs::remove_file(folder.path("other.json")).unwrap();
    }
    // What is printed comes after, and neither is lost.
    let (code, stderr) = shell(&format!("{simulate} --out /dev/stdout > both.txt"));
    assert_eq!(code, Some(0), "{stderr}");
    let both = fs::read_to_string(folder.path("both.txt")).unwrap();
    let whole = fs::read_to_string(folder.path("plain.json")).unwrap();
    assert!(both.starts_with(&whole) && both.len() > whole.len() + 100, "{both}");
    // Two ways to one file.
    let (code, stderr) = shell(&format!("{simulate} --out both.txt > both.txt"));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("standard output"), "{stderr}");
}

#[test]
fn places_that_cannot_be_written_are_said_before_the_work() {
    let sound = Sound::new();
    let refused: Vec<&Hostile> = HOSTILE
        .iter()
        .filter(|(what, _)| ["folder", "pipe", "link to a pipe", "full", "circle", "socket"].contains(what))
        .collect();
    let rows = TABLE.iter().filter(|row| matches!(row.2, Output | OutputFolder));
    let cases: Vec<(&Row, &Hostile)> =
        rows.flat_map(|row| refused.iter().map(move |hostile| (row, *hostile))).collect();
    let wrong = each(&cases, |(row, (what, make))| {
        // A folder is what these want.
        if row.2 == OutputFolder && *what == "folder" {
            return None;
        }
        let folder = sound.folder();
        make(&folder.path("hostile"));
        let before = folder.state();
        let ended = folder.fed(row.3, "hostile".as_ref(), Stdio::null(), &["--json"]);
        let changed = (folder.state() != before).then(|| "something was changed".to_owned());
        let wrong = refusal(&ended, &[5]).or(changed)?;
        Some(format!("{what} for {}: {wrong}", row.3))
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Every second of `all`, by turns these and the others.
fn half<T>(turn: usize, all: &[T]) -> impl Iterator<Item = &T> {
    all.iter().skip(turn % 2).step_by(2)
}

/// Other names of the file `name`, which may not be there yet: how each is made.
type Alias = (&'static str, fn(&Folder, &str) -> String);

const ALIASES: &[Alias] = &[
    ("its own name", |_, name| name.to_owned()),
    ("its own name with a dot", |_, name| format!("./{name}")),
    ("a way around", |_, name| format!("traces/../models/../{name}")),
    ("the whole path", |folder, name| {
        fs::canonicalize(folder.path("")).unwrap().join(name).to_string_lossy().into_owned()
    }),
    ("a link", |folder, name| {
        symlink(name, folder.path("alias")).unwrap();
        "alias".to_owned()
    }),
    ("a link to a link", |folder, name| {
        symlink(name, folder.path("first")).unwrap();
        symlink(folder.path("first"), folder.path("second")).unwrap();
        "second".to_owned()
    }),
    ("a link to its folder", |folder, name| {
        symlink(".", folder.path("here")).unwrap();
        format!("here/{name}")
    }),
    ("a hard link", |folder, name| {
        let _ = fs::hard_link(folder.path(name), folder.path("hard"));
        if folder.path("hard").exists() { "hard".to_owned() } else { name.to_owned() }
    }),
];

#[test]
fn nothing_is_written_over_what_is_read() {
    let sound = Sound::new();
    let inputs = [
        "tiny.json",
        "cluster.json",
        "plan.json",
        "facts.json",
        "trained.json",
        "trace.json",
        "data.txt",
        "cpu.json",
    ];
    let mut lines: Vec<(&str, &str)> = Vec::new();
    for row in TABLE.iter().filter(|row| row.2 == Output) {
        lines.extend(inputs.iter().filter(|name| row.3.contains(**name)).map(|name| (row.3, *name)));
    }
    let more = "execute plan.json --steps 1 --data data.txt --init saved --cost-model cpu.json";
    let more = ["--trace @", "--grads all --grads-out @"].map(|flag| format!("{more} {flag}"));
    for line in &more {
        lines.extend(
            ["data.txt", "cpu.json", "saved/model.safetensors", "saved/state.safetensors"]
                .map(|name| (line.as_str(), name)),
        );
    }
    lines.extend([
        ("simulate model --cluster 1x1xcpu $ --strategy dp=1 --out @", "model/config.json"),
        ("simulate tiny.json --cluster 1x1x./cpu.json $ --strategy dp=1 --timeline @", "cpu.json"),
        ("simulate --cluster 1x4xh100-sxm --from run/train.toml --report @", "run/train.toml"),
        ("simulate --cluster 1x4xh100-sxm --from run/train.toml --report @", "run/schedule.csv"),
        ("plan model --cluster 1x1xcpu $ --report @", "model/config.json"),
        ("validate traces --report @", "traces/a.json"),
        ("calibrate --fit traces --device a100-sxm-80gb --out @", "traces/a.json"),
    ]);
    let cases: Vec<((&str, &str), &Alias)> = lines
        .iter()
        .enumerate()
        .flat_map(|(at, line)| half(at, ALIASES).map(move |alias| (*line, alias)))
        .collect();
    assert!(cases.len() > 100, "{}", cases.len());
    let wrong = each(&cases, |((line, name), (what, make))| {
        let folder = sound.folder();
        let path = make(&folder, name);
        let before = folder.state();
        let ended = folder.fed(line, path.as_ref(), Stdio::null(), &["--json"]);
        let changed = (folder.state() != before).then(|| "something was changed".to_owned());
        // Without the end of a file's name a folder is asked for.
        let codes: &[i32] = if line.contains("--fit") { &[2, 5] } else { &[2] };
        let wrong = refusal(&ended, codes).or(changed)?;
        Some(format!("{name} by {what} for {line}: {wrong}"))
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn no_two_outputs_go_to_one_place() {
    let sound = Sound::new();
    let simulate = "simulate tiny.json --cluster cluster.json $ --strategy dp=1";
    let execute = "execute plan.json --no-calibrate --steps 1 --grads all";
    let lines = [
        format!("{simulate} --out one --report @"),
        format!("{simulate} --report one --timeline @"),
        format!("{simulate} --out @ --timeline one"),
        "plan tiny.json --cluster cluster.json $ --out one --report @".to_owned(),
        format!("{execute} --trace one --grads-out @"),
        format!("{execute} --trace @ --save one"),
        format!("{execute} --grads-out one --save @"),
        format!("{execute} --trace one --save @/inside"),
        "calibrate --facts trained.json --out one --trace @".to_owned(),
        "plan gpt2 --cluster 1x1xh100-sxm --engine torchtitan $ --out one --export @".to_owned(),
    ];
    let mut cases = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        for alias in half(at, ALIASES) {
            // A folder is not at a link to a file.
            let is_folder =
                line.contains("--save one") || line.contains("--export @") || line.contains("--save @");
            for is_there in [false, true] {
                if !(is_folder && is_there) {
                    cases.push((line, alias, is_there));
                }
            }
        }
    }
    let wrong = each(&cases, |(line, (what, make), is_there)| {
        let folder = sound.folder();
        if *is_there {
            fs::write(folder.path("one"), "old").unwrap();
        }
        let path = make(&folder, "one");
        let line = line.replace("@/inside", &format!("{path}/inside"));
        let before = folder.state();
        let ended = folder.fed(&line, path.as_ref(), Stdio::null(), &["--json"]);
        let changed = (folder.state() != before).then(|| "something was changed".to_owned());
        let wrong = refusal(&ended, &[2]).or(changed)?;
        Some(format!("{what} for {line}: {wrong}"))
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn a_save_goes_over_nothing_that_is_read_or_written_besides() {
    let sound = Sound::new();
    let folder = sound.folder();
    fs::create_dir(folder.path("begun")).unwrap();
    fs::copy(folder.path("plan.json"), folder.path("begun/config.json")).unwrap();
    fs::copy(folder.path("data.txt"), folder.path("begun/state.safetensors")).unwrap();
    let execute = "--no-calibrate --steps 1 --save begun --json";
    for line in [
        format!("execute begun/config.json {execute}"),
        format!("execute plan.json --data begun/state.safetensors {execute}"),
        format!("execute plan.json --trace begun/model.safetensors {execute}"),
        format!("execute plan.json --grads all --grads-out begun/../begun/config.json {execute}"),
    ] {
        let before = folder.state();
        let ended = folder.run(&line, "".as_ref());
        assert_eq!((refusal(&ended, &[2]), folder.state() == before), (None, true), "{line}");
    }
    // What a run goes on from, it may be saved over.
    let ended = folder.run(
        "execute plan.json --no-calibrate --steps 1 --init saved --save saved --trace saved/trace.json",
        "".as_ref(),
    );
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}
