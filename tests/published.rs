//! Published runs: their files, and that predictions see nothing that a user would not know beforehand.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use meshwright::program::Cause;
use meshwright::search::Problem;
use meshwright::simulate::{play, play_every_instruction};
use meshwright::trace::published::{PublishedMeasurement, PublishedRun, PublishedTrace};
use meshwright::units::Seconds;
use meshwright::validate::published::scenario;
use meshwright::validate::{Measured, Quantities, Validation, validate};
use serde_json::{Value, json};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/published");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn trace(path: &Path) -> PublishedTrace {
    serde_json::from_str(&fs::read_to_string(path).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The first run of each program that each source names.
fn sample() -> Vec<PublishedRun> {
    let mut seen = BTreeSet::new();
    let runs = files().into_iter().flat_map(|path| trace(&path).runs);
    runs.filter(|run| seen.insert((run.family.clone(), run.framework.clone()))).collect()
}

/// Predictions by place; ids may be anything.
fn predicted(runs: &[PublishedRun]) -> BTreeMap<usize, Quantities> {
    let numbered: Vec<_> = runs
        .iter()
        .enumerate()
        .map(|(place, run)| (place.to_string(), Measured::Published(Box::new(run.clone()))))
        .collect();
    let validation = validate(numbered, None);
    let skipped: BTreeSet<usize> =
        validation.skipped.iter().map(|skipped| skipped.id.parse().unwrap()).collect();
    let left = (0..runs.len()).filter(|place| !skipped.contains(place));
    left.zip(validation.runs).map(|(place, run)| (place, run.predicted)).collect()
}

#[test]
fn each_source_has_one_file_and_each_run_one_id() {
    let schema = serde_json::to_value(schemars::schema_for!(PublishedTrace)).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let (mut families, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for path in files() {
        let text = fs::read_to_string(&path).unwrap();
        assert!(validator.is_valid(&serde_json::from_str(&text).unwrap()), "{}", path.display());
        let trace = trace(&path);
        assert_eq!(trace.version, 1);
        assert_eq!(path.file_stem().unwrap().to_string_lossy(), trace.family);
        assert!(families.insert(trace.family.clone()), "{} stands twice", trace.family);
        let mut sources = BTreeSet::new();
        for run in &trace.runs {
            assert_eq!(run.family, trace.family, "{}", run.id);
            assert!(ids.insert(run.id.clone()), "{} stands twice", run.id);
            sources.insert(run.other["source"].as_str().unwrap().to_owned());
        }
        assert_eq!(trace.citations.iter().cloned().collect::<BTreeSet<_>>(), sources);
    }
    assert!(families.len() == 56 && ids.len() == 1254, "{} {}", families.len(), ids.len());
}

#[test]
fn predictions_do_not_see_who_ran_what_they_are_called_or_what_was_measured() {
    let runs = sample();
    let count = runs.len();
    let plain = predicted(&runs);
    assert!(plain.len() > 30, "{} runs", plain.len());
    let mut shuffled = runs.clone();
    for (place, run) in shuffled.iter_mut().enumerate() {
        let other = &runs[(place * 7 + 3) % count];
        run.id.clone_from(&other.id);
        run.family.clone_from(&other.family);
        run.quality = other.quality;
        run.usable_for.clone_from(&other.usable_for);
        run.model.name.clone_from(&other.model.name);
        // Source, notes, year and what else is kept for people.
        run.other.clone_from(&other.other);
        let kind = run.measured.peak_memory_kind.take();
        // Which memory is compared depends on what was measured; what is predicted of it does not.
        let (peak, other) = (run.measured.peak_memory_gib, other.measured.clone());
        run.measured = PublishedMeasurement { peak_memory_kind: kind, peak_memory_gib: peak, ..other };
    }
    assert_eq!(predicted(&shuffled), plain);
}

#[test]
fn scenarios_are_read_without_the_measurement() {
    for run in sample() {
        let plain = format!("{:?}", scenario(&run, &|_| None, None));
        let blind = PublishedRun { measured: PublishedMeasurement::default(), ..run };
        assert_eq!(format!("{:?}", scenario(&blind, &|_| None, None)), plain, "{}", blind.id);
    }
}

#[test]
fn passes_counted_whole_give_what_every_instruction_gives() {
    for run in sample().iter().filter(|run| run.strategy.pp.is_some_and(|stages| stages > 1)) {
        let Ok(scenario) = scenario(run, &|_| None, None) else { continue };
        let problem =
            Problem::new(&scenario.model, &scenario.cluster, scenario.workload, &scenario.engine, None);
        let (program, pricing) = (problem.program(&scenario.strategy), problem.pricing(&scenario.strategy));
        if program.ranks.iter().map(|rank| rank.instruction_count()).sum::<usize>() > 400_000 {
            continue;
        }
        let (whole, single) = (play(&program, &pricing), play_every_instruction(&program, &pricing));
        let near = |one: Seconds, other: Seconds| (one.0 - other.0).abs() <= 1e-9 * single.step_time.0;
        for (whole, single) in whole.ranks.iter().zip(&single.ranks) {
            assert!(near(whole.end, single.end), "{}: {} {}", run.id, whole.end.0, single.end.0);
            let (one, other) = (whole.causes, single.causes);
            assert!(near(one.of(Cause::Compute), other.of(Cause::Compute)), "{}: {one:?} {other:?}", run.id);
            assert!(near(one.bubble, other.bubble), "{}: {one:?} {other:?}", run.id);
        }
    }
}

/// A run that is simulated quickly, as JSON.
fn plain() -> Value {
    let path = files().into_iter().find(|path| path.ends_with("vtrain-single.json")).unwrap();
    serde_json::to_value(&trace(&path).runs[0]).unwrap()
}

/// `run` with the value at a path like `/strategy/dp` replaced.
fn changed(run: &Value, path: &str, value: Value) -> Value {
    let mut run = run.clone();
    let (section, field) = path.rsplit_once('/').unwrap();
    run.pointer_mut(section).unwrap()[field] = value;
    run
}

fn of_value(run: Value) -> Validation {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.json");
    fs::write(&path, json!([run]).to_string()).unwrap();
    validate(meshwright::validate::read(&path).unwrap(), None)
}

#[test]
fn contradictions_are_skipped_by_id_and_field() {
    for (path, value, said) in [
        ("/strategy/dp", json!(3), "strategy.dp·tp·pp·cp = "),
        ("/strategy/cp", json!(0), "strategy.cp is 0"),
        ("/strategy/dp", json!(null), "strategy.dp"),
        ("/strategy/grad_accum", json!(7), "contradicts strategy.global_batch"),
        ("/strategy/global_batch", json!(-3), "strategy.global_batch"),
        ("/strategy/zero_stage", json!("three"), "strategy.zero_stage"),
        ("/hardware/gpus_per_node", json!(0), "hardware.gpus_per_node is 0"),
        ("/hardware/num_gpus", json!(u64::MAX), "hardware.num_gpus is"),
        ("/hardware/gpu", json!("abacus"), "abacus"),
        ("/model/experts", json!(8), "model.topk"),
        ("/model/hidden", json!(null), "model.hidden"),
        ("/model/seq_len", json!("NaN"), "model.seq_len"),
        ("/measured/step_time_s", json!("NaN"), "measured.step_time_s"),
        ("/framework", json!("pencil"), "pencil"),
        ("/quality", json!("D"), "quality"),
    ] {
        let run = changed(&plain(), path, value.clone());
        let id = run["id"].as_str().unwrap().to_owned();
        let validation = of_value(run);
        assert!(validation.runs.is_empty(), "{path} = {value} is simulated");
        assert_eq!(validation.skipped[0].id, id);
        assert!(validation.skipped[0].reason.contains(said), "{path} = {value}: {:?}", validation.skipped[0]);
        assert_eq!(validation.groups.iter().map(|group| group.runs).max(), Some(1));
    }
    let mut run = changed(&plain(), "/model/experts", json!(2));
    for (field, value) in [("topk", 4), ("moe_ffn_hidden", 1024)] {
        run["model"][field] = json!(value);
    }
    assert!(of_value(run).skipped[0].reason.contains("model.topk = 4 contradicts model.experts = 2"));
}

#[test]
fn values_that_cannot_be_are_flagged_and_not_compared() {
    for (field, value, is_compared) in [
        ("step_time_s", json!(-4.0), false),
        ("step_time_s", json!(0), false),
        ("step_time_s", json!(1e-9), false),
        ("mfu_pct", json!(140.0), true),
        ("tflops_per_gpu", json!(-1), true),
    ] {
        let mut run = changed(&plain(), &format!("/measured/{field}"), value.clone());
        if !is_compared {
            run["measured"]["tokens_per_s_per_gpu"] = Value::Null;
            run["measured"]["tflops_per_gpu"] = Value::Null;
        }
        let validation = of_value(run);
        assert_eq!(validation.flags.len(), 1, "{field} = {value}: {:?}", validation.flags);
        assert_eq!(validation.flags[0].field, format!("measured.{field}"));
        assert_eq!(validation.runs[0].error.step_time.is_some(), is_compared, "{field} = {value}");
    }
    let mut run = changed(&plain(), "/measured/peak_memory_gib", json!(81.5));
    run["measured"]["peak_memory_kind"] = json!("allocated");
    let validation = of_value(run.clone());
    assert_eq!(validation.flags[0].field, "measured.peak_memory_gib");
    assert_eq!(validation.runs[0].error.memory, None);
    run["measured"]["peak_memory_gib"] = json!(61.5);
    let validation = of_value(run);
    assert!(validation.flags.is_empty() && validation.runs[0].error.memory.is_some());
}

#[test]
fn no_value_of_a_record_ends_the_program() {
    let run = plain();
    let mut tried = 0;
    for section in ["model", "hardware", "strategy", "measured"] {
        for field in run[section].as_object().unwrap().keys() {
            for value in [
                json!(null),
                json!(0),
                json!(1),
                json!(3),
                json!(1_000_003),
                json!(u64::MAX),
                json!(-1.5),
                json!("x"),
            ] {
                let validation = of_value(changed(&run, &format!("/{section}/{field}"), value.clone()));
                tried += 1;
                assert_eq!(
                    validation.runs.len() + validation.skipped.len(),
                    1,
                    "{section}.{field} = {value}"
                );
                let text = serde_json::to_string(&validation).unwrap();
                for run in &validation.runs {
                    let seconds = run.predicted.step_time_s.unwrap().0;
                    assert!(seconds.is_finite() && seconds > 0.0, "{section}.{field} = {value}: {text}");
                }
            }
        }
    }
    assert!(tried > 300, "{tried}");
}
