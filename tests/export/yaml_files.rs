//! YAML files of MaxText and of NeMo 1, small ones after what people have: what each means, and what is refused.

use std::path::Path;

use meshwright::cluster;
use meshwright::export::error::ImportError;
use meshwright::export::import::import;
use meshwright::export::{Assumptions, ModelClue, Reach, Scene, profile_of};
use meshwright::model::{Model, hugging_face, load, preset};
use meshwright::search::Problem;
use meshwright::strategy::{Draft, Workload};
use meshwright::units::ElementType;

/// What a file says, in one line, and the notes; `model` is typed where the file does not say one.
fn read(path: &str, model: Option<&str>, cluster: &str) -> Result<(String, Vec<String>), ImportError> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/programs").join(path);
    let imported = import(&place, None, Assumptions::parse(&[])?)?;
    let model: Model = match (model, imported.model()) {
        (Some(name), _) => load(name).expect("a preset"),
        (None, Err(error)) => return Err(error),
        (None, Ok(Some(ModelClue::Preset(name)))) => preset(name).expect("a preset").model().expect("its model"),
        (None, Ok(Some(ModelClue::Config(config)))) => hugging_face::import(&config, "own").expect("a config"),
        (None, Ok(other)) => panic!("{path}: {other:?}"),
    };
    let cluster = cluster::load(cluster).expect("a cluster");
    let typed = Draft::parse("").expect("nothing");
    let understood = imported.understood(&Scene {
        model: &model,
        devices: cluster.devices(),
        devices_per_node: u64::from(cluster.devices_per_node),
        global_batch: None,
        seq_len: None,
        typed: Some(&typed),
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
    let Workload { global_batch, seq_len, precision, dropout, clip } = workload;
    let line = format!(
        "{} parameters, {}: {}; {global_batch} x {seq_len} {precision} dropout {dropout} clip {clip}",
        model.parameter_count(),
        profile.name,
        strategy.text(problem.facts.defaults),
    );
    Ok((line, meaning.notes))
}

#[track_caller]
fn means(path: &str, model: Option<&str>, cluster: &str, wanted: &str) {
    let (line, _) = read(path, model, cluster).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(line, wanted, "{path}");
}

#[test]
fn nemo_files_are_arguments_of_megatron() {
    means("nemo/gpt_175b.yaml", None, "16x8xa100-sxm-80gb", "");
    means("nemo/llama2_7b.yaml", None, "1x8xa100-sxm-80gb", "");
    means("nemo/mixtral.yaml", None, "2x8xa100-sxm-80gb", "");
}

#[test]
fn a_vocabulary_of_a_tokenizer_is_asked_for() {
    let error = read("nemo/gpt_126m.yaml", None, "1x8xa100-sxm-80gb").unwrap_err().to_string();
    assert!(error.contains("vocabulary"), "{error}");
    let (line, notes) = read("nemo/gpt_126m.yaml", Some("gpt2"), "1x8xa100-sxm-80gb").unwrap();
    assert_eq!(line, "");
    assert!(notes.iter().any(|note| note.starts_with("Without megatron_amp_O2")), "{notes:?}");
}

#[test]
fn what_nemo_runs_otherwise_is_refused_with_its_place() {
    let error = read("nemo/lora.yaml", Some("llama-2-7b"), "1x8xa100-sxm-80gb").unwrap_err();
    assert_eq!(error.field(), "model.peft.peft_scheme", "{error}");
    assert!(error.to_string().contains("line 13"), "{error}");
}

#[test]
fn maxtext_files_say_what_its_arguments_say() {
    means("maxtext/llama2_7b.yml", None, "4x8xh100-sxm", "");
    means("maxtext/mixtral.yml", None, "2x8xh100-sxm", "");
    means("maxtext/own_sizes.yml", None, "1x8xh100-sxm", "");
    means("maxtext/offload.yml", None, "1x8xh100-sxm", "");
}
