//! Processes on several hosts, which are network namespaces: what they train, and a host that is cut off in a step.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::job::{LLAMA, PROGRAM, Running, alone, document, plan, said};

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/hosts")
}

/// Two hosts, for as long as it lives.
struct Hosts;

impl Hosts {
    fn up() -> Self {
        let made = Command::new(script()).args(["up", "2"]).output().unwrap();
        assert!(made.status.success(), "{}", said(&made));
        Self
    }

    fn cut(&self, host: &str) {
        assert!(Command::new(script()).args(["cut", host]).status().unwrap().success());
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = Command::new(script()).arg("down").status();
    }
}

/// An mpirun of four ranks, two on each host.
fn launcher(folder: &Path) -> Command {
    fs::write(folder.join("hosts"), "10.77.0.1 slots=2\n10.77.0.2 slots=2\n").unwrap();
    let script = script().display().to_string();
    let mut command = Command::new(&script);
    command.args(["in", "1", "mpirun", "-n", "4", "--hostfile", "hosts", "--quiet", "--bind-to", "none"]);
    let network = "10.77.0.0/24";
    for (name, value) in [
        ("plm_rsh_agent", format!("{script} rsh").as_str()),
        ("btl", "tcp,self"),
        ("btl_tcp_if_include", network),
        ("oob_tcp_if_include", network),
        ("oob_tcp_keepalive_time", "5"),
        ("oob_tcp_keepalive_intvl", "2"),
        ("oob_tcp_keepalive_probes", "3"),
    ] {
        command.args(["--mca", name, value]);
    }
    command
        .args(["-x", "MESHWRIGHT_PATIENCE_S", "-x", "MESHWRIGHT_CACHE", PROGRAM])
        .current_dir(folder)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("MESHWRIGHT_PATIENCE_S", "4")
        .env("MESHWRIGHT_CACHE", folder.join("cache"));
    command
}

#[test]
#[ignore = "needs root and network namespaces, which .ci/cluster looks for"]
fn two_hosts_train_to_the_bit() {
    let _hosts = Hosts::up();
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 4, "tp=2,pp=2,micro=1");
    for strategy in ["tp=2,pp=2,micro=1", "zero=3,micro=1", "cp=2,cp_kind=ulysses,pp=2,micro=2"] {
        let flags =
            ["execute", "plan.json", "--strategy", strategy, "--steps", "2", "--no-calibrate", "--json"];
        let processes = document(&launcher(folder.path()).args(flags).output().unwrap(), strategy);
        assert_eq!(processes["losses"], document(&alone(folder.path(), &flags), strategy)["losses"]);
    }
}

#[test]
#[ignore = "a recipe: .ci/cluster cut"]
fn a_host_that_is_cut_off_ends_the_job() {
    let hosts = Hosts::up();
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 4, "tp=2,pp=2,micro=1");
    let flags = ["execute", "plan.json", "--steps", "100000000", "--no-calibrate", "--save", "never"];
    let mut command = launcher(folder.path());
    command.args(flags);
    let job = Running::new(command);
    thread::sleep(Duration::from_secs(8));
    hosts.cut("2");
    let (output, took) = job.end(Instant::now(), Duration::from_secs(60));
    let text = said(&output);
    assert!(text.contains("on host h2: it has not been heard of for 4 s"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("error:")).count(), 1, "{text}");
    assert!(took < Duration::from_secs(40), "{took:?}");
    assert!(!folder.path().join("never").exists());
}
