//! Runs the real program in a folder of its own.

use std::fs;
use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin_cmd;
use serde_json::Value;
use tempfile::TempDir;

/// What a run left behind.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// A folder to run in, and one for what is kept between runs.
pub struct Place {
    folder: TempDir,
    cache: TempDir,
    sees_gpus: bool,
}

impl Place {
    pub fn new() -> Self {
        let [folder, cache] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        Self { folder, cache, sees_gpus: false }
    }

    /// Where runs see the machine's GPUs, and the kernels that were compiled for them before.
    #[allow(dead_code, reason = "most tests need no GPU")]
    pub fn with_gpus() -> Self {
        Self { sees_gpus: true, ..Self::new() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder for what is kept between runs: empty, unless a run was told to measure.
    pub fn cache(&self) -> &Path {
        self.cache.path()
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path().join(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap()
    }

    /// Names of what is here.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Runs the program with these arguments.
    pub fn run<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Run {
        self.run_on(None, arguments)
    }

    /// The same on so many threads.
    pub fn run_on<S: AsRef<std::ffi::OsStr>>(
        &self,
        threads: Option<u32>,
        arguments: impl IntoIterator<Item = S>,
    ) -> Run {
        let mut arguments: Vec<std::ffi::OsString> =
            arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        settle(&mut arguments);
        let threads = threads.map(|threads| ("RAYON_NUM_THREADS", threads.to_string()));
        self.start(threads, arguments)
    }

    /// Runs `line` on a terminal of so many columns.
    pub fn wide(&self, line: &str, columns: usize) -> Run {
        self.with("COLUMNS", &columns.to_string(), line)
    }

    /// Runs `line` with a variable of its environment set.
    pub fn with(&self, name: &'static str, value: &str, line: &str) -> Run {
        let mut arguments = line.split_whitespace().map(Into::into).collect();
        settle(&mut arguments);
        self.start(Some((name, value.to_owned())), arguments)
    }

    /// Runs `line` as it is typed: `execute` measures the machine where nothing is kept of it.
    pub fn typed(&self, line: &str) -> Run {
        self.start(None, line.split_whitespace().map(Into::into).collect())
    }

    fn start(&self, variable: Option<(&str, String)>, arguments: Vec<std::ffi::OsString>) -> Run {
        let mut command = match std::env::var_os("MESHWRIGHT_PROGRAM") {
            // Where these tests run on another machine than they were built on.
            Some(program) => Command::new(program),
            None => cargo_bin_cmd!("meshwright"),
        };
        command.env_remove("COLUMNS").envs(variable);
        if !self.sees_gpus {
            // Whoever has a GPU sees the same answers.
            command.env("MESHWRIGHT_CACHE", self.cache()).env("CUDA_VISIBLE_DEVICES", "");
        }
        command.args(arguments).current_dir(self.path()).timeout(Duration::from_secs(120));
        let output = command.output().unwrap();
        Run {
            code: output.status.code().expect("ended by itself"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command line whose words hold no blanks.
    pub fn line(&self, line: &str) -> Run {
        self.run(line.split_whitespace())
    }
}

/// No test measures the machine unless it says so. What tests ask of plans is asked of our own backend, and of the fastest plan, where they name no other.
/// `tests/cli/choice.rs` looks at what stands for `auto` and `robust`.
fn settle(arguments: &mut Vec<std::ffi::OsString>) {
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let is_given = |flag: &str| arguments.iter().any(|argument| argument.to_string_lossy().starts_with(flag));
    let is_planned = ["plan", "simulate", "explain"].into_iter().any(has) && is_given("--cluster");
    let is_told = is_given("--engine") || is_given("--from") || is_given("--help");
    let needs_objective = has("plan") && !is_given("--objective");
    let is_modelled = is_given("--cost-model") || is_given("--no-calibrate") || is_given("--help");
    if arguments.first().is_some_and(|command| command == "execute") && !is_modelled {
        arguments.push("--no-calibrate".into());
    }
    if is_planned && !is_told {
        arguments.extend(["--engine", "embedded"].map(Into::into));
    }
    if is_planned && needs_objective {
        arguments.extend(["--objective", "time"].map(Into::into));
    }
}

impl Run {
    /// What stands on stderr beside how far long work is, such as `10 s: 40 %, 26 strategies`.
    pub fn complaints(&self) -> Vec<&str> {
        let is_progress = |line: &&str| {
            line.split_once(" s: ").is_some_and(|(seconds, _)| seconds.bytes().all(|c| c.is_ascii_digit()))
        };
        self.stderr.lines().filter(|line| !is_progress(line)).collect()
    }

    /// The one JSON document on stdout.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}
