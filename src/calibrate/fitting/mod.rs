//! `calibrate --fit`: fits numbers of cost models and engine profiles to published runs.

pub mod cases;
mod derivatives;
pub mod edit;
pub mod error;
pub mod evidence;
pub mod left_out;
pub mod linear;
pub mod models;
pub mod objective;
pub mod parameters;
pub mod prior;
pub mod programs;
pub mod report;
pub mod solver;
pub mod unseen;
pub mod values;
mod written;

#[cfg(test)]
mod tests;

pub use error::FitError;
pub use models::{File, LARGEST_FILE, Models};
pub use parameters::{Parameter, ParameterFile};
pub use report::{Fit, FitReport};
pub use unseen::LeftOut;

use std::time::Instant;

use crate::calibrate::fitting::cases::{Cases, Depth};
use crate::calibrate::fitting::left_out::{Kind, Way, each};
use crate::calibrate::fitting::objective::Objective;
use crate::calibrate::fitting::prior::Held;
use crate::calibrate::fitting::solver::{Effort, Residuals, Solution};
use crate::profile::coverage::EvidenceTable;
use crate::validate::Measured;

/// What is to be fitted: the parameters of `device`, of `engine`, of both, or all.
#[derive(Clone, Debug)]
pub struct Request {
    pub models: Models,
    pub parameters: Vec<Parameter>,
    pub device: Option<String>,
    pub engine: Option<String>,
    /// Derivatives are not played, a fit leaves no source out, and without a source numbers go by one linear step: for a
    /// first look.
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
    let cases = cases(runs, request, say)?;
    let mut objective = Objective::new(&cases, &request.models, parameters, say);
    let start = objective.start()?;
    let before = objective.residuals(&start, Depth::Steady)?;
    let mut solution = descend(&mut objective, start)?;
    if request.is_quick {
        let after = objective.residuals(&solution.position, Depth::Steady)?;
        let mut fitted = Fit::new(&objective, (&before, &after), &solution, &cases.skipped)?;
        fitted.report.seconds = began.elapsed().as_secs_f64();
        return Ok(fitted);
    }
    // From where the cheap derivatives lead, the played ones go on.
    objective.slopes = Depth::Few;
    solution = descend(&mut objective, solution.position)?;
    let slope = objective.slope(&solution.position)?;
    let after = objective.residuals(&solution.position, Depth::Whole)?;
    let mut fitted = Fit::new(&objective, (&before, &after), &solution, &cases.skipped)?;
    let fitting = began.elapsed();
    let unseen = unseen(&objective, &solution, &after, (request, &[]))?;
    fitted.evidence = unseen.evidence;
    let seconds = (began.elapsed() - fitting).as_secs_f64();
    fitted.report.left_out = Some(LeftOut { seconds, ..unseen.report });
    (fitted.report.slope, fitted.report.seconds) = (Some(slope), began.elapsed().as_secs_f64());
    Ok(fitted)
}

/// What leaving each source out showed, and the table of evidence where all runs and numbers took part.
#[derive(Clone, Debug)]
pub struct Unseen {
    pub report: LeftOut,
    pub evidence: Option<EvidenceTable>,
}

/// How well the numbers of `request`, as its files have them, do on sources that they have not seen: each is left out
/// in turn, what the others do not say as well is fitted anew from there, and its runs are predicted. The files should
/// be the optimum of a fit; if they are not, each fit without a source goes towards it.
///
/// # Errors
/// As [`fit`].
pub fn left_out(
    runs: Vec<(String, Measured)>,
    request: &Request,
    say: &(dyn Fn(&'static str, f64) + Sync),
) -> Result<Unseen, FitError> {
    let began = Instant::now();
    let parameters = request.selected()?;
    let cases = cases(runs, request, say)?;
    let mut objective = Objective::new(&cases, &request.models, parameters, say);
    if !request.is_quick {
        objective.slopes = Depth::Few;
    }
    let position = objective.start()?;
    let residuals = objective.anchor(&position, Depth::Steady)?;
    let fitted = objective.residuals(&position, Depth::Whole)?;
    let optimum = Solution {
        jacobian: objective.jacobian(&position)?,
        loss: objective.loss().value(&residuals, &position),
        position,
        residuals,
        left: 0.0,
        evaluations: 1,
        jacobians: 1,
    };
    if !optimum.loss.is_finite() {
        return Err(FitError::NotANumber);
    }
    let mut unseen = unseen(&objective, &optimum, &fitted, (request, &cases.skipped))?;
    unseen.report.seconds = began.elapsed().as_secs_f64();
    Ok(unseen)
}

/// Leaves out each source, and of all runs each device, engine and feature too.
fn unseen(
    objective: &Objective<'_>,
    optimum: &Solution,
    fitted: &[f64],
    (request, skipped): (&Request, &[(String, String)]),
) -> Result<Unseen, FitError> {
    let way = if request.is_quick { Way::Linear } else { Way::Stepping };
    let source = each(objective, optimum, Kind::Source, way)?;
    let mut report = LeftOut::new(objective, optimum, fitted, &source, skipped);
    if !request.selection_is_all() {
        return Ok(Unseen { report, evidence: None });
    }
    let device = each(objective, optimum, Kind::Device, way)?;
    let engine = each(objective, optimum, Kind::Engine, way)?;
    let table = evidence::table(objective, optimum, fitted, [&source, &device, &engine])?;
    report.intervals = Some(evidence::intervals(&table));
    Ok(Unseen { report, evidence: Some(table) })
}

/// The runs of `request` that can be predicted.
fn cases(
    runs: Vec<(String, Measured)>,
    request: &Request,
    say: &(dyn Fn(&'static str, f64) + Sync),
) -> Result<Cases, FitError> {
    say("reading runs", 0.0);
    let numbers = request.models.numbers()?;
    let mut cases = Cases::of(runs, &numbers, request);
    cases.keep_usable(&numbers);
    if cases.list.is_empty() {
        return Err(FitError::NoRuns { selection: request.selection() });
    }
    Ok(cases)
}

/// Makes the loss smallest by residuals that are cheap, set right where each round of it ends.
fn descend(objective: &mut Objective<'_>, start: Vec<f64>) -> Result<Solution, FitError> {
    objective.anchor(&start, Depth::Steady)?;
    let mut solution = solver::minimise(objective, start, Effort::FULL)?;
    for _ in 1..ROUNDS {
        let reached = objective.anchor(&solution.position, Depth::Steady)?;
        let value = objective.loss().value(&reached, &solution.position);
        let is_settled = (solution.loss - value).abs() < SETTLED * value;
        solution = solver::minimise(objective, solution.position, Effort::FULL)?;
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
/// along a direction in which every parameter that is at no limit moves by a thousandth of its value. At an optimum it
/// changes along none.
///
/// # Errors
/// As [`fit`].
pub fn slope(runs: Vec<(String, Measured)>, request: &Request) -> Result<f64, FitError> {
    let cases = cases(runs, request, &|_, _| ())?;
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

    /// The parameters to fit, and the members of their kin that stand still: those of other files, and those that were
    /// measured.
    fn selected(&self) -> Result<(Vec<Parameter>, Vec<Held>), FitError> {
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
        let (selected, others): (Vec<&Parameter>, Vec<&Parameter>) =
            self.parameters.iter().partition(is_wanted);
        let none = || FitError::NoParameters { selection: self.selection() };
        if selected.is_empty() {
            return Err(none());
        }
        selected.iter().try_for_each(|parameter| parameter.check(&self.models))?;
        let stands =
            |parameter: &Parameter, file: File| parameter.held(self.models.number(&file, &parameter.path)?);
        let mut held: Vec<Held> =
            others.iter().filter_map(|other| stands(other, other.files().next()?)).collect();
        for parameter in &selected {
            let measured = parameter.files().filter(|file| self.models.is_measured(file, &parameter.path));
            held.extend(measured.filter_map(|file| stands(parameter, file)));
        }
        let free: Vec<Parameter> =
            selected.into_iter().filter_map(|one| one.clone().unmeasured(&self.models)).collect();
        if free.is_empty() { Err(none()) } else { Ok((free, held)) }
    }
}
