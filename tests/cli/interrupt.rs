//! An interrupt ends a run with exit code 130.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::place::Place;

#[test]
fn an_interrupt_ends_with_130_and_leaves_nothing() {
    let place = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshwright"));
    // A million micro-batches: far longer than the test waits.
    command.args("simulate gpt2 --cluster 1x2xh100-sxm --strategy zero=3,micro=1".split(' '));
    command.args("--global-batch 1000000 --out plan.json".split(' ')).current_dir(place.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    sleep(Duration::from_millis(300));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(place.names(), [""; 0]);
}
