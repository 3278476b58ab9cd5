//! The checked-in cost models are the optimum of their fit to the published runs.

use std::fs;
use std::path::{Path, PathBuf};

use meshwright::calibrate::fitting::{File, FitReport, Models, ParameterFile, Request, slope};
use meshwright::validate::{Measured, read};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn report() -> FitReport {
    let path = root().join("cost_models/fit/report.json");
    let text = fs::read_to_string(path).expect("`just refit` writes what it found");
    serde_json::from_str(&text).unwrap()
}

/// What the last refit found is what stands in the files.
#[test]
fn fitted_numbers_are_those_of_the_report() {
    let (models, report) = (Models::built_in(), report());
    let parameters = ParameterFile::built_in().unwrap().parameters;
    assert_eq!(report.parameters.len(), parameters.len());
    for (fitted, parameter) in report.parameters.iter().zip(&parameters) {
        assert_eq!(fitted.path, parameter.path);
        assert!(parameter.lower <= fitted.value && fitted.value <= parameter.upper, "{}", fitted.path);
        for name in &fitted.files {
            let files = [File::Device(name.clone()), File::Engine(name.clone())];
            let stands = files.iter().find_map(|file| models.number(file, &fitted.path)).unwrap();
            // Files have five digits.
            let is_same = (stands - fitted.value).abs() <= 1e-4 * fitted.value.abs();
            assert!(is_same, "{name}: {} is {stands}, fitted {}", fitted.path, fitted.value);
        }
    }
}

/// Where a fit goes to a limit, a cause is missing; and there are few numbers for so many runs.
#[test]
fn no_number_stands_at_a_limit_and_they_are_few() {
    let report = report();
    for fitted in &report.parameters {
        assert_eq!(fitted.at_bound, None, "{} {}", fitted.files.join("+"), fitted.path);
    }
    let (count, runs) = (report.parameters.len() as u64, report.runs);
    assert!(10 * count <= runs, "{count} numbers for {runs} runs");
}

/// Plans promise that four of five runs lie within their interval: of sources that the numbers never saw.
#[test]
fn intervals_hold_most_runs_of_sources_left_out() {
    let left_out = report().left_out.expect("a whole fit leaves each source out");
    let held = left_out.intervals.expect("all runs took part").of_table;
    for (share, what) in [(held.time, "times"), (held.memory, "memories")] {
        assert!((0.75..=0.9).contains(&share), "intervals hold {share} of {what}");
    }
}

/// All published runs, and those that PyTorch did on a card of ours.
fn measured() -> Vec<(String, Measured)> {
    let mut runs = read(&root().join("traces/published")).unwrap();
    runs.extend(read(&root().join("traces/own/gpu_facts-h200-sxm.json")).unwrap());
    runs
}

/// The loss changes nowhere near where the numbers stand.
#[test]
fn fitted_numbers_are_the_optimum() {
    let request = Request {
        models: Models::built_in(),
        parameters: ParameterFile::built_in().unwrap().parameters,
        device: None,
        engine: None,
        is_quick: false,
    };
    let slope = slope(measured(), &request).unwrap();
    assert!(slope < 1e-4, "the loss still changes by {slope} of itself along the numbers: run `just refit`");
}
