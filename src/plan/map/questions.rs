//! What is asked about a plan's surroundings, and what a plan costs by these questions.

use crate::plan::goodput::{Goodput, Run, goodput};
use crate::plan::money::{Cost, cost};
use crate::search::map::{Ceiling, Maximize, Sweep};
use crate::search::{Candidate, Problem};
use crate::units::Price;

/// Which setting the plan is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goal {
    /// The one that was asked about.
    #[default]
    Given,
    /// Of the sweep over devices, the fewest on which something fits.
    FewestDevices,
    /// Of the sweep over devices, that with the cheapest run, or token where no run is asked for.
    Cheapest,
}

/// What is asked beside the best strategy.
#[derive(Clone, Debug, Default)]
pub struct Questions<'a> {
    pub goal: Goal,
    /// Over devices, where the goal is to choose among them.
    pub sweep: Option<Sweep<'a>>,
    pub sensitivity: bool,
    pub maximize: Option<(Maximize, Ceiling)>,
    pub price: Option<Price>,
    pub run: Option<Run>,
}

impl Questions<'_> {
    /// How many questions are answered one after the other, the plan itself among them.
    pub fn steps(&self) -> u64 {
        let asked = [self.sweep.is_some(), self.maximize.is_some(), true, self.sensitivity];
        asked.into_iter().filter(|is_asked| *is_asked).count() as u64
    }

    /// Time and money of the run that is asked about, under `candidate`.
    pub fn money(&self, problem: &Problem<'_>, candidate: &Candidate) -> (Option<Goodput>, Option<Cost>) {
        let goodput = self.run.as_ref().map(|run| goodput(problem, candidate, run));
        let cost = self.price.map(|price| cost(problem, candidate, price, goodput.as_ref()));
        (goodput, cost)
    }

    /// What is to be least where the cheapest is wanted; a run that never ends is dearest.
    pub fn expense(&self, problem: &Problem<'_>, candidate: &Candidate) -> f64 {
        let (goodput, cost) = self.money(problem, candidate);
        let run = |cost: &Cost| match goodput {
            Some(_) => cost.run.map_or(f64::INFINITY, |run| run.0),
            None => cost.token.0,
        };
        cost.as_ref().map_or(f64::INFINITY, run)
    }
}
