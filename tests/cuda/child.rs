//! Runs of this program's own tests as processes with settings of the stand-in for the driver.

use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// More than any run of a child takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// How the test `name` fares under these settings of the stand-in.
pub fn run(name: &str, settings: &[(&str, &str)]) -> Output {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program)
        .args(["--ignored", "--exact", name, "--nocapture"])
        .envs(settings.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("{settings:?}: no end after {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

/// How often the test `name`, which must pass, calls each entry point of the driver, how many threads of it do
/// (`threads_of_…`), and how often it does what the stand-in counts by itself.
pub fn counts(name: &str, settings: &[(&str, &str)]) -> BTreeMap<String, u64> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("counts");
    let settings = [settings, &[("FAKE_CUDA_COUNTS", path.to_str().unwrap())]].concat();
    let output = run(name, &settings);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&path).unwrap();
    text.lines()
        .filter_map(|line| {
            let (name, count) = line.split_once(' ')?;
            Some((name.to_owned(), count.trim().parse().ok()?))
        })
        .collect()
}
