//! `calibrate --fit`: fits numbers of cost models and engine profiles to published runs.

pub mod cases;
pub mod edit;
pub mod error;
pub mod evidence;
pub mod left_out;
pub mod linear;
pub mod models;
pub mod objective;
pub mod parameters;
pub mod programs;
pub mod report;
pub mod solver;
#[cfg(test)]
mod tests;

pub use error::FitError;
pub use models::{File, LARGEST_FILE, Models};
pub use parameters::{Parameter, ParameterFile};
pub use report::{Fit, FitReport};

use std::time::Instant;

use crate::calibrate::fitting::cases::{Cases, Depth};
use crate::calibrate::fitting::objective::Objective;
use crate::calibrate::fitting::solver::{Residuals, Solution};
use crate::validate::Measured;

/// What is to be fitted: the parameters of `device`, of `engine`, of both, or all.
#[derive(Clone, Debug)]
pub struct Request {
    pub models: Models,
    pub parameters: Vec<Parameter>,
    pub device: Option<String>,
    pub engine: Option<String>,
    /// Derivatives are not played, and no source is left out: for a first look.
    pub is_quick: bool,
}

/// Fits the parameters of `request` to `runs`; `say` is told what is under way and the share that is done.
///
/// # Errors
/// If a parameter, device or engine is not known, or no run fixes any of them.
pub fn fit(
    runs: Vec<(String, Measured)>,
    request: &Request,
    say: &(dyn Fn(&'static str, f64) + Sync),
) -> Result<Fit, FitError> {
    let began = Instant::now();
    let parameters = request.selected()?;
    say("reading runs", 0.0);
    let numbers = request.models.numbers()?;
    let mut cases = Cases::of(runs, &numbers, request);
    cases.keep_usable(&numbers);
    if cases.list.is_empty() {
        return Err(FitError::NoRuns { selection: request.selection() });
    }
    let mut objective = Objective::new(&cases, &request.models, parameters, say);
    let start = objective.start()?;
    let before = objective.residuals(&start, Depth::Steady)?;
    let mut solution = descend(&mut objective, start)?;
    let (mut left_out, mut slope) = (Vec::new(), None);
    let mut after = objective.residuals(&solution.position, Depth::Steady)?;
    if !request.is_quick {
        // From where the cheap derivatives lead, the played ones go on.
        objective.slopes = Depth::Few;
        solution = descend(&mut objective, solution.position)?;
        left_out = left_out::each(&objective, &solution)?;
        slope = Some(objective.slope(&solution.position)?);
        after = objective.residuals(&solution.position, Depth::Whole)?;
    }
    let mut fitted = Fit::new(&objective, (&before, &after), &solution, left_out, &cases.skipped)?;
    if !request.is_quick && request.selection_is_all() {
        fitted.evidence = Some(evidence::table(&objective, &solution, &after)?);
    }
    (fitted.report.slope, fitted.report.seconds) = (slope, began.elapsed().as_secs_f64());
    Ok(fitted)
}

/// Makes the loss smallest by residuals that are cheap, set right where each round of it ends.
fn descend(objective: &mut Objective<'_>, start: Vec<f64>) -> Result<Solution, FitError> {
    objective.anchor(&start, Depth::Steady)?;
    let mut solution = solver::minimise(objective, start)?;
    for _ in 1..ROUNDS {
        let reached = objective.anchor(&solution.position, Depth::Steady)?;
        let value = objective.loss().value(&reached, &solution.position);
        let is_settled = (solution.loss - value).abs() < SETTLED * value;
        solution = solver::minimise(objective, solution.position)?;
        if is_settled {
            break;
        }
    }
    Ok(solution)
}

/// How often cheap residuals are set right at most.
const ROUNDS: usize = 5;
/// The share of the loss within which they are right.
const SETTLED: f64 = 1e-4;

/// How far the files of `request` are from being the optimum of its fit: the share of it by which the loss changes
/// along a direction in which every parameter that is at no bound moves by a thousandth of its value. At an optimum it
/// changes along none.
///
/// # Errors
/// As [`fit`].
pub fn slope(runs: Vec<(String, Measured)>, request: &Request) -> Result<f64, FitError> {
    let numbers = request.models.numbers()?;
    let mut cases = Cases::of(runs, &numbers, request);
    cases.keep_usable(&numbers);
    let objective = Objective::new(&cases, &request.models, request.selected()?, &|_, _| ());
    objective.slope(&objective.start()?)
}

impl Request {
    /// Whether all parameters are fitted to all runs.
    const fn selection_is_all(&self) -> bool {
        self.device.is_none() && self.engine.is_none()
    }

    fn selection(&self) -> String {
        let named = [self.device.as_deref(), self.engine.as_deref()];
        let named: Vec<&str> = named.into_iter().flatten().collect();
        if named.is_empty() { "any device".to_owned() } else { named.join(" with ") }
    }

    /// The parameters to fit.
    fn selected(&self) -> Result<Vec<Parameter>, FitError> {
        for file in self.parameters.iter().flat_map(Parameter::files) {
            self.models.check(&file)?;
        }
        let device = self.device.clone().map(File::Device);
        let engine = self.engine.clone().map(File::Engine);
        let wanted: Vec<File> = device.into_iter().chain(engine).collect();
        for file in &wanted {
            self.models.check(file)?;
        }
        let is_wanted = |parameter: &&Parameter| {
            wanted.is_empty() || parameter.files().any(|file| wanted.contains(&file))
        };
        let selected: Vec<Parameter> = self.parameters.iter().filter(is_wanted).cloned().collect();
        if selected.is_empty() {
            return Err(FitError::NoParameters { selection: self.selection() });
        }
        selected.iter().try_for_each(|parameter| parameter.check(&self.models))?;
        let free: Vec<Parameter> =
            selected.into_iter().filter_map(|one| one.unmeasured(&self.models)).collect();
        if free.is_empty() {
            return Err(FitError::NoParameters { selection: self.selection() });
        }
        Ok(free)
    }
}
