//! Runs of the real program: of threads, and of processes under mpirun.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The program, with MPI.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_meshwright");

/// The program by itself.
pub fn alone(folder: &Path, arguments: &[&str]) -> Output {
    prepared(Command::new(PROGRAM), folder).args(arguments).output().unwrap()
}

/// The program as `ranks` processes.
pub fn together(folder: &Path, ranks: u64, arguments: &[&str]) -> Output {
    launcher(folder, ranks).arg(PROGRAM).args(arguments).output().unwrap()
}

/// An mpirun of `ranks` processes, of whatever is added.
pub fn launcher(folder: &Path, ranks: u64) -> Command {
    let mpirun = std::env::var("MESHWRIGHT_MPIRUN").unwrap_or_else(|_| "mpirun".to_owned());
    let mut command = prepared(Command::new(&mpirun), folder);
    command.args(["-n", &ranks.to_string()]);
    if !mpirun.contains("mpich") {
        // Ranks are more than cores here; that a rank failed is said once, by the program.
        command.args(["--oversubscribe", "--bind-to", "none", "--quiet"]);
    }
    command
}

fn prepared(mut command: Command, folder: &Path) -> Command {
    command
        .current_dir(folder)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        // Without it Open MPI tries each network of the machine.
        .env("OMPI_MCA_btl", "self,vader")
        .env("MESHWRIGHT_CACHE", folder.join("cache"))
        .stdin(Stdio::null());
    command
}

/// What a run printed, as a document.
pub fn document(output: &Output, case: &str) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{case}: {}\n{}", text, String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{case}: {error}: {text}"))
}

/// The text that a program wrote to stderr.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Writes a plan of the model with this config for `ranks` ranks on cores: `plan.json` of `folder`.
pub fn plan(folder: &Path, config: &str, ranks: u64, strategy: &str) -> PathBuf {
    fs::create_dir_all(folder.join("model")).unwrap();
    fs::write(folder.join("model/config.json"), config).unwrap();
    let cluster = format!("1x{ranks}xcpu");
    let output = alone(
        folder,
        &[
            "simulate",
            "./model",
            "--cluster",
            &cluster,
            "--strategy",
            strategy,
            "--global-batch",
            "8",
            "--seq-len",
            "16",
            "--precision",
            "fp64",
            "--engine",
            "embedded",
            "--out",
            "plan.json",
        ],
    );
    assert!(output.status.success(), "{}", said(&output));
    folder.join("plan.json")
}

/// GPT-2: learned positions, biases, layer norms, a tied head; an odd vocabulary.
pub const GPT2: &str = r#"{"model_type": "gpt2", "vocab_size": 61, "n_positions": 32, "n_embd": 16, "n_layer": 4,
    "n_head": 4, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true}"#;

/// Llama: rotary positions, two key-value heads for eight heads, gated, an untied head.
pub const LLAMA: &str = r#"{"model_type": "llama", "vocab_size": 61, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_act": "silu",
    "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "max_position_embeddings": 32, "initializer_range": 0.1}"#;

/// Mixtral: two of four experts a token.
pub const MIXTRAL: &str = r#"{"model_type": "mixtral", "vocab_size": 61, "hidden_size": 16, "intermediate_size": 8,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_act": "silu",
    "num_local_experts": 4, "num_experts_per_tok": 2, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
    "max_position_embeddings": 32, "initializer_range": 0.1}"#;

/// A job that runs, and is killed with this if it does not end.
pub struct Running {
    child: Option<Child>,
    began: Instant,
}

impl Running {
    /// Starts `command`.
    pub fn new(mut command: Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { child: Some(child), began: Instant::now() }
    }

    /// The processes of the program below the launcher, by rank, once there are `ranks`.
    pub fn ranks(&self, ranks: usize) -> Vec<u32> {
        let launcher = self.child.as_ref().unwrap().id();
        loop {
            let mut found = below(launcher);
            if found.len() == ranks {
                found.sort_unstable();
                return found.into_iter().map(|(_, process)| process).collect();
            }
            assert!(self.began.elapsed() < Duration::from_secs(60), "{found:?} of {ranks} ranks");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the job printed, and how long it took from `since` to its end, which comes before `limit`.
    pub fn end(mut self, since: Instant, limit: Duration) -> (Output, Duration) {
        let mut child = self.child.take().unwrap();
        loop {
            if child.try_wait().unwrap().is_some() {
                let took = since.elapsed();
                return (child.wait_with_output().unwrap(), took);
            }
            if since.elapsed() > limit {
                let ranks = below(child.id());
                ranks.iter().for_each(|(_, process)| signal(*process, libc::SIGKILL));
                child.kill().unwrap();
                let output = child.wait_with_output().unwrap();
                panic!("it hangs after {limit:?} ({ranks:?}): {}", said(&output));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn launcher(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        below(child.id()).iter().for_each(|(_, process)| signal(*process, libc::SIGKILL));
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Ranks and processes of the program below `process`.
fn below(process: u32) -> Vec<(usize, u32)> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse::<u32>().ok());
    children
        .flat_map(|child| rank_of(child).map_or_else(|| below(child), |rank| vec![(rank, child)]))
        .collect()
}

/// The rank that `process` is, if it is one of a job.
fn rank_of(process: u32) -> Option<usize> {
    let program = fs::read_link(format!("/proc/{process}/exe")).ok()?;
    if program != fs::canonicalize(PROGRAM).unwrap() {
        return None;
    }
    let variables = fs::read(format!("/proc/{process}/environ")).ok()?;
    let value = |name: &str| {
        let mut variables = variables.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        variables.find_map(|variable| variable.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    value("OMPI_COMM_WORLD_RANK").or_else(|| value("PMI_RANK"))
}

/// Sends `signal` to `process`.
#[expect(unsafe_code, reason = "the standard library sends no signals but one")]
pub fn signal(process: u32, signal: i32) {
    // SAFETY: the call touches no memory.
    unsafe { libc::kill(process as i32, signal) };
}

/// Whether `process` is there.
#[expect(unsafe_code, reason = "the standard library sends no signals but one")]
pub fn is_there(process: u32) -> bool {
    // SAFETY: no signal is sent.
    unsafe { libc::kill(process as i32, 0) == 0 }
}
