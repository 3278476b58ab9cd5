//! What a fit makes small: the logarithms of predicted over measured, each family of runs weighted by the root of its
//! size.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::cases::{Case, Cases, Depth, Prediction};
use super::error::FitError;
use super::models::{Models, Numbers};
use super::parameters::Parameter;
use super::prior::{Held, Prior};
use super::solver::Residuals;

/// Power of a family's size that each of its runs is divided by: 0 lets large families rule, 1 gives all the same say.
const EVENING: f64 = 0.5;

/// What a residual is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    Time,
    Memory,
}

impl Quantity {
    /// As documents spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Memory => "memory",
        }
    }
}

/// One residual.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Index of its case.
    pub case: usize,
    pub quantity: Quantity,
    measured: f64,
}

/// Cases and parameters.
pub struct Objective<'a> {
    pub cases: &'a [Case],
    pub models: &'a Models,
    pub parameters: Vec<Parameter>,
    pub rows: Vec<Row>,
    pub(super) weights: Vec<f64>,
    /// Members of kin that are not fitted.
    pub held: Vec<Held>,
    pub(super) prior: Prior,
    pub(super) limits: Vec<(f64, f64)>,
    /// How deep steps are played for derivatives.
    pub slopes: Depth,
    /// What residuals so played lack, one a row.
    pub(super) offsets: Vec<f64>,
    say: &'a (dyn Fn(&'static str, f64) + Sync),
}

impl<'a> Objective<'a> {
    pub fn new(
        cases: &'a Cases,
        models: &'a Models,
        (parameters, held): (Vec<Parameter>, Vec<Held>),
        say: &'a (dyn Fn(&'static str, f64) + Sync),
    ) -> Self {
        let cases = &cases.list[..];
        let rows: Vec<Row> = cases
            .iter()
            .enumerate()
            .flat_map(|(index, case)| {
                let row = |quantity, measured| Row { case: index, quantity, measured };
                let time = case.time.map(|seconds| row(Quantity::Time, seconds));
                time.into_iter().chain(case.memory.map(|(bytes, _)| row(Quantity::Memory, bytes)))
            })
            .collect();
        let mut sizes: BTreeMap<(Quantity, &str), f64> = BTreeMap::new();
        for row in &rows {
            *sizes.entry((row.quantity, &cases[row.case].family)).or_default() += cases[row.case].weight;
        }
        let weights = rows.iter().map(|row| {
            let case = &cases[row.case];
            case.weight / sizes[&(row.quantity, case.family.as_str())].powf(EVENING)
        });
        let weights = weights.collect();
        let prior = Prior::of(&parameters, &held);
        let limits = parameters.iter().map(Parameter::limits).collect();
        let offsets = vec![0.0; rows.len()];
        let slopes = Depth::Passes;
        Self { cases, models, parameters, rows, weights, held, prior, limits, slopes, offsets, say }
    }

    /// Where the files stand.
    ///
    /// # Errors
    /// If a file has no such number.
    pub fn start(&self) -> Result<Vec<f64>, FitError> {
        let position = |parameter: &Parameter| {
            let file = parameter.files().next()?;
            Some(parameter.position(self.models.number(&file, &parameter.path)?))
        };
        let missing = |parameter: &Parameter| FitError::Parameter {
            parameter: parameter.name(),
            reason: "stands in no file".to_owned(),
        };
        self.parameters.iter().map(|one| position(one).ok_or_else(|| missing(one))).collect()
    }

    /// The numbers of all files with the parameters at `position`.
    pub(super) fn numbers(&self, position: &[f64]) -> Result<Numbers, FitError> {
        let settings = self.parameters.iter().zip(position).flat_map(|(parameter, &position)| {
            let value = parameter.value(position);
            parameter.files().map(move |file| (file, parameter.path.as_str(), value))
        });
        self.models.with(self.models.numbers()?, settings)
    }

    /// Whether `parameter` is a number of the device or the engine of `case`.
    pub fn touches(parameter: &Parameter, case: &Case) -> bool {
        if parameter.path.starts_with("network.") && !case.spans_nodes {
            return false;
        }
        parameter.devices.contains(&case.device) || parameter.engines.contains(&case.engine)
    }

    /// Name of the family of a row.
    pub fn family(&self, row: &Row) -> &str {
        &self.cases[row.case].family
    }

    pub(super) fn residual(row: &Row, prediction: Prediction) -> f64 {
        let predicted = match row.quantity {
            Quantity::Time => prediction.time,
            Quantity::Memory => prediction.memory,
        };
        (predicted / row.measured).ln()
    }

    /// Residuals at `position`, steps played to `depth`.
    ///
    /// # Errors
    /// If a number cannot be what it is set to.
    pub fn residuals(&self, position: &[f64], depth: Depth) -> Result<Vec<f64>, FitError> {
        let numbers = self.numbers(position)?;
        let predictions: Vec<Prediction> =
            self.cases.par_iter().map(|case| case.predict(&numbers, Some(depth))).collect();
        Ok(self.rows.iter().map(|row| Self::residual(row, predictions[row.case])).collect())
    }

    /// Makes residuals at `position` those of steps played to `depth`: what `slopes` gives less is added everywhere.
    ///
    /// # Errors
    /// If a number cannot be what it is set to.
    pub fn anchor(&mut self, position: &[f64], depth: Depth) -> Result<Vec<f64>, FitError> {
        let deep = self.residuals(position, depth)?;
        let cheap = self.residuals(position, self.slopes)?;
        self.offsets = deep.iter().zip(&cheap).map(|(deep, cheap)| deep - cheap).collect();
        Ok(deep)
    }

    /// The share of the loss by which it differs between the two ends of a short way through `position`; parameters at
    /// a limit stay there.
    ///
    /// # Errors
    /// If a number cannot be what it is set to.
    pub fn slope(&self, position: &[f64]) -> Result<f64, FitError> {
        let there = |sign: f64| -> Vec<f64> {
            let parts = self.parameters.iter().zip(position).enumerate();
            parts
                .map(|(index, (parameter, &at))| {
                    // Signs of no pattern, always the same (Weyl's sequence).
                    let turn = if (index as f64 * 0.618_033_988_75).fract() < 0.5 { -sign } else { sign };
                    let (least, most) = self.limits[index];
                    let step = parameter.small_step();
                    let is_bound = at <= least + step || at >= most - step;
                    if is_bound { at } else { at + turn * step }
                })
                .collect()
        };
        let loss = |position: &[f64]| -> Result<f64, FitError> {
            Ok(self.loss().value(&self.residuals(position, Depth::Steady)?, position))
        };
        let (ahead, behind) = (loss(&there(1.0))?, loss(&there(-1.0))?);
        Ok((ahead - behind).abs() / (ahead + behind))
    }

    /// Says what is under way and the share that is done.
    pub fn tell(&self, part: &'static str, share: f64) {
        (self.say)(part, share);
    }

    /// Residuals of the rows that `is_wanted` at `position`, in their order.
    ///
    /// # Errors
    /// If a number cannot be what it is set to.
    pub fn predicted(
        &self,
        position: &[f64],
        is_wanted: impl Fn(&Row) -> bool + Sync,
    ) -> Result<Vec<f64>, FitError> {
        let numbers = self.numbers(position)?;
        let rows: Vec<&Row> = self.rows.iter().filter(|row| is_wanted(row)).collect();
        let one = |row: &&Row| {
            let depth = (row.quantity == Quantity::Time).then_some(Depth::Steady);
            Self::residual(row, self.cases[row.case].predict(&numbers, depth))
        };
        Ok(rows.par_iter().map(one).collect())
    }

    /// Residuals at `position` as derivatives are taken of them, set right by the last anchor; of the rows that are not
    /// `wanted` they are as `guessed`.
    ///
    /// # Errors
    /// If a number cannot be what it is set to.
    pub fn residuals_near(
        &self,
        position: &[f64],
        mut guessed: Vec<f64>,
        wanted: &[bool],
    ) -> Result<Vec<f64>, FitError> {
        let numbers = self.numbers(position)?;
        let rows = self.rows.iter().zip(&self.offsets).zip(wanted);
        guessed.par_iter_mut().zip(rows.collect::<Vec<_>>()).for_each(
            |(residual, ((row, offset), &is_wanted))| {
                if is_wanted {
                    let depth = (row.quantity == Quantity::Time).then_some(self.slopes);
                    *residual = Self::residual(row, self.cases[row.case].predict(&numbers, depth)) + offset;
                }
            },
        );
        Ok(guessed)
    }
}
