//! Scripts of a shell, small ones after what people have: what each means, what it asks for, and that it hands to its
//! program what bash does.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use meshwright::cluster;
use meshwright::export::error::ImportError;
use meshwright::export::syntax::{Document, Surroundings, Syntax};
use meshwright::export::{
    Assumptions, Environment, Imported, ModelClue, Reach, Said, Scene, import, profile_of,
};
use meshwright::model::{self, Model, MultiToken, hugging_face};
use meshwright::search::Problem;
use meshwright::strategy::Workload;
use meshwright::units::ElementType;

fn place(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/scripts").join(path)
}

fn opened(path: &str, environment: &[&str]) -> Result<Imported, ImportError> {
    let texts: Vec<String> = environment.iter().map(|text| (*text).to_owned()).collect();
    let said = Said { environment: Environment::parse(&texts)?, assumed: Assumptions::default() };
    import(&place(path), None, said)
}

fn model(imported: &Imported) -> Result<Model, ImportError> {
    Ok(match imported.model()? {
        Some(ModelClue::Preset(name)) => model::load(name).expect("a preset"),
        Some(ModelClue::Config(config)) => hugging_face::import(&config, "model").expect("a model"),
        Some(ModelClue::Made { decoder, longest }) => {
            decoder.model("model", longest, MultiToken::LeftOut).expect("a model")
        }
        other => panic!("{}: {other:?}", imported.path),
    })
}

/// Parameters, strategy, batch, sequence and precision in one line; what is noted; and the profile's activations.
fn read(path: &str, cluster: &str, environment: &[&str]) -> Result<(String, Vec<String>, u64), ImportError> {
    let imported = opened(path, environment)?;
    let model = model(&imported)?;
    let cluster = cluster::load(cluster).expect("a cluster");
    let understood = imported.understood(&Scene {
        model: &model,
        devices: cluster.devices(),
        devices_per_node: u64::from(cluster.devices_per_node),
        global_batch: None,
        seq_len: None,
        typed: None,
    })?;
    assert_eq!(understood.left, [], "{path}: settings that are not understood");
    let meaning = understood.meaning;
    let workload = Workload {
        global_batch: meaning.global_batch.expect("a batch"),
        seq_len: meaning.seq_len.expect("a length"),
        precision: meaning.precision.unwrap_or(ElementType::Bf16),
        dropout: meaning.dropout.unwrap_or(0.0),
        clip: meaning.clip.unwrap_or(1.0),
    };
    let profile = profile_of(understood.runner, &meaning, Reach::Files);
    let problem = Problem::new(&model, &cluster, workload, &profile, None);
    let strategy = meaning.draft.resolve(&problem.facts);
    let strategy = strategy.unwrap_or_else(|broken| panic!("{path}: {}", broken.message));
    let plan = meshwright::plan::simulate(&problem, strategy.clone());
    let line = format!(
        "{} in {}: {}; {} x {} {} dropout {}",
        model.parameter_count(),
        model.blocks(),
        strategy.text(problem.facts.defaults),
        workload.global_batch,
        workload.seq_len,
        workload.precision,
        workload.dropout
    );
    Ok((line, meaning.notes, plan.prediction.memory_bytes.activations.0))
}

#[track_caller]
fn means(path: &str, cluster: &str, environment: &[&str], wanted: &str) {
    let (line, ..) = read(path, cluster, environment).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(line, wanted, "{path}");
}

#[track_caller]
fn asks(path: &str, environment: &[&str], part: &str) {
    let error = read(path, "1x8xa100-sxm-80gb", environment).expect_err("it asks");
    assert!(error.to_string().contains(part), "{error}");
}

#[test]
fn scripts_of_megatron() {
    // 24 · (12 h² + 13 h) + 50257 h + 2048 h + 2 h, at h = 2048.
    means(
        "gpt.sh",
        "1x8xa100-sxm-80gb",
        &[],
        "1315723264 in 24: tp=2,pp=1,dp=4,sp=off,zero=0,micro=4,accum=8,grad=fp16,reduce=fp16; 128 x 2048 fp16 dropout 0.1",
    );
    asks("sizes.sh", &[], "argument $5 (line 7): give --env 5=VALUE");
    means(
        "sizes.sh",
        "1x8xa100-sxm-80gb",
        &["5=2"],
        "6738415616 in 32: tp=2,pp=1,dp=4,sp=off,zero=1,micro=1,accum=16; 64 x 4096 bf16 dropout 0",
    );
    means(
        "sizes.sh",
        "8x8xa100-sxm-80gb",
        &["2=70B", "5=8", "6=full", "4=512"],
        "68976648192 in 80: tp=8,pp=1,dp=8,sp=off,zero=1,micro=1,accum=64,ckpt=full; 512 x 4096 bf16 dropout 0",
    );
    asks("slurm.sh", &[], "--env SLURM_NNODES=VALUE");
    // 64000 h + h + 16 · (4 h² + 2 h) + 8 · 3 h · 8192 + 8 · (32 · 3 h · 1024 + 3 h · 2048 + 32 h), at h = 2048.
    means(
        "slurm.sh",
        "2x8xh100-sxm",
        &["SLURM_NNODES=2"],
        "2514028544 in 16: tp=2,pp=1,dp=8,ep=4,zero=1,micro=1,accum=32; 256 x 4096 bf16 dropout 0",
    );
}

#[test]
fn a_script_inside_quotes_asks_for_what_its_run_hangs_on_alone() {
    asks("inner.sh", &[], "--env MICRO=VALUE");
    let (line, ..) = read("inner.sh", "1x8xh100-sxm", &["MICRO=2"]).unwrap();
    assert!(line.ends_with("micro=2,accum=8; 64 x 4096 bf16 dropout 0"), "{line}");
}

#[test]
fn a_command_that_eval_runs_is_the_one_that_bash_would_run() {
    // 50257 h + h + 4 · (4 h² + 2 h) + 3 h · 4096 + 3 · (8 · 3 h · 512 + 8 h), at h = 1024.
    let wanted = "118605824 in 4: tp=1,pp=1,dp=8,ep=2,zero=0,micro=1,accum=8; 64 x 2048 bf16 dropout 0";
    means("eval.sh", "1x8xh100-sxm", &[], wanted);
    let (_, notes, _) = read("eval.sh", "1x8xh100-sxm", &[]).unwrap();
    assert!(notes.iter().any(|note| note.contains("grow to 64")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("`$SITE/setup-cuda12`")), "{notes:?}");
}

#[test]
fn what_eval_leaves_open_within_eval_is_told_apart() {
    asks("nested.sh", &[], "--env MICRO=VALUE");
    let (line, ..) = read("nested.sh", "1x8xh100-sxm", &["MICRO=4"]).unwrap();
    assert!(line.contains("micro=4,accum=2"), "{line}");
}

#[test]
fn another_program_is_not_read_as_megatron() {
    asks("deepspeed.sh", &[], "arguments of Megatron-DeepSpeed are not read");
    asks("deepspeed.sh", &["KIND=old"], "--recompute-granularity full");
    asks("deepspeed.sh", &["KIND=t5"], "`pretrain_t5.py` does not train a GPT");
    let (line, ..) = read("deepspeed.sh", "1x8xh100-sxm", &["KIND=plain"]).unwrap();
    // 51200 h + 2048 h + 24 · (12 h² + 13 h) + 2 h, at h = 2048.
    assert!(line.starts_with("1317654528 in 24: tp=1,pp=1,dp=8,"), "{line}");
}

#[test]
fn modules_that_recompute_are_kept_no_more() {
    let (line, _, some) = read("recompute.sh", "1x8xh100-sxm", &[]).unwrap();
    assert!(line.contains("tp=2,pp=1,dp=4,zero=1,micro=2,accum=4,ckpt=selective"), "{line}");
    let (_, _, core) = read("recompute.sh", "1x8xh100-sxm", &["MODULES=core"]).unwrap();
    // A gated MLP keeps three times its width of 10,880, and its input; attention keeps as before.
    assert!(some * 100 < core * 60 && some * 100 > core * 25, "{some} of {core}");
}

#[test]
fn commands_of_torchtitan() {
    means(
        "titan.sh",
        "1x8xh100-sxm",
        &[],
        "8030261248 in 32: tp=4,pp=1,dp=2,zero=3,micro=2,accum=1,ckpt=full; 4 x 8192 bf16 dropout 0",
    );
    means(
        "titan.sh",
        "1x8xh100-sxm",
        &["1=--training.local_batch_size", "2=1"],
        "8030261248 in 32: tp=4,pp=1,dp=2,zero=3,micro=1,accum=1,ckpt=full; 2 x 8192 bf16 dropout 0",
    );
    // Two micro-batches of a pipeline of two, each of half the rank's batch.
    means(
        "titan_2024.sh",
        "1x8xh100-sxm",
        &[],
        "8030261248 in 32: tp=4,pp=2,dp=1,zero=0,micro=2,accum=2; 4 x 4096 bf16 dropout 0",
    );
    means(
        "titan_main.sh",
        "1x8xh100-sxm",
        &[],
        "8030261248 in 32: tp=2,pp=1,dp=4,zero=3,micro=1,accum=1,ckpt=selective,loss=chunked; 4 x 8192 bf16 dropout 0",
    );
    let error =
        opened("titan.sh", &["CONFIG_FILE=none.toml"]).and_then(|imported| model(&imported)).unwrap_err();
    assert!(error.to_string().contains("none.toml"), "{error}");
}

/// The settings of the words that bash hands to `programs` in `script`.
fn of_bash(script: &str, environment: &[(&str, &str)], arguments: &[&str]) -> Option<Document> {
    let driver = "exec 3>&1 1>/dev/null\nwords() { printf ' %q' python \"$@\" >&3; exit 0; }\n\
                  torchrun() { words \"$@\"; }\npython() { words \"$@\"; }\n\
                  script=$1; shift; . \"$script\"\n";
    let output = Command::new("bash")
        .args(["--norc", "-c", driver])
        .arg(place("gpt.sh"))
        .arg(place(script))
        .args(arguments)
        .current_dir(tempfile::tempdir().unwrap().path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        let _ = writeln!(
            std::io::stderr(),
            "there is no bash here: {script} was not compared with what it hands over"
        );
        return None;
    };
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(Syntax::Arguments.read(&words).unwrap())
}

#[test]
fn scripts_hand_over_what_bash_does() {
    /// A script, its environment, and its arguments.
    type Call = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);
    let cases: [Call; 6] = [
        ("gpt.sh", &[], &["/save", "/data"]),
        ("sizes.sh", &[], &["x", "70B", "2", "128", "8", "full", "true"]),
        ("sizes.sh", &[], &["x", "7B", "2", "128", "8", "sel", "false"]),
        ("recompute.sh", &[("MODULES", "core")], &[]),
        ("recompute.sh", &[], &[]),
        ("titan.sh", &[("NGPU", "4")], &["--training.seq_len", "128"]),
    ];
    for (script, environment, arguments) in cases {
        let Some(bash) = of_bash(script, environment, arguments) else { return };
        let numbers = (1..).map(|number: usize| number.to_string());
        let own: Vec<(String, String)> = (environment.iter())
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .chain(numbers.zip(arguments.iter().map(|text| (*text).to_owned())))
            .collect();
        let text = std::fs::read_to_string(place(script)).unwrap();
        let surroundings = Surroundings { environment: &own, ..Surroundings::NONE };
        let documents = Syntax::Arguments.read_all(&text, &surroundings).unwrap();
        let ours = documents.into_iter().find(|document| document.found.len() >= bash.found.len()).unwrap();
        let settings = |document: &Document| -> Vec<_> {
            document
                .found
                .iter()
                .map(|found| (found.path.clone(), found.value.clone(), found.is_open))
                .collect()
        };
        assert_eq!(settings(&ours), settings(&bash), "{script}");
    }
}
