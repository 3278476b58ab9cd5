//! The checked-in cost models are the optimum of their fit to the published runs.

use std::path::Path;

use meshwright::calibrate::fitting::{Models, ParameterFile, Request, slope};
use meshwright::validate::read;

/// Whatever the report of the last refit stands for must still hold: `just refit` makes both anew.
#[test]
fn fitted_numbers_are_the_optimum() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !root.join("cost_models/fit/report.json").is_file() {
        // Nothing is said to be fitted yet.
        return;
    }
    let request = Request {
        models: Models::built_in(),
        parameters: ParameterFile::built_in().unwrap().parameters,
        device: None,
        engine: None,
        is_quick: false,
    };
    let slope = slope(read(&root.join("traces/published")).unwrap(), &request).unwrap();
    assert!(slope < 1e-4, "the loss still changes by {slope} of itself along the numbers: run `just refit`");
}
