//! What is asked of a search, and what it answers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::search::problem::Candidate;
use crate::simulate::Stop;
use crate::strategy::rules::RuleBreak;
use crate::strategy::{Draft, Key};
use crate::units::{Bytes, Seconds, agreeing};

/// What makes a plan the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The shortest step.
    #[default]
    Time,
    /// The lowest peak memory.
    Memory,
}

/// How much longer than the fastest a plan may take that is chosen for its evidence and simplicity, unless told
/// otherwise.
pub const TOLERANCE: f64 = 0.03;

/// How to search.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Keys that are held.
    pub fix: Draft,
    /// Keys that change numerics and may vary all the same.
    pub free: Vec<Key>,
    pub objective: Objective,
    /// Of plans that take at most this share longer than the fastest, the one that rests on most evidence and is the
    /// simplest; the fastest if none is given.
    pub tolerance: Option<f64>,
    /// How many plans to return beside the best.
    pub top: usize,
    /// When to stop and say what is not proven; where none is given, after a fixed amount of work.
    pub time_limit: Option<Duration>,
    /// Asks the search to stop and to say what is not proven, as a time limit does.
    pub stop: Stop,
    /// Plays every strategy with every inner choice, whatever its bound.
    pub exhaustive: bool,
}

impl Request {
    /// The request if nothing else is said: the plan that somebody would run.
    pub fn plain() -> Self {
        Self { tolerance: Some(TOLERANCE), ..Self::default() }
    }
}

/// How far a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Parts of the space done, and all of them.
    pub done: u64,
    pub of: u64,
    /// Strategies considered so far.
    pub considered: u64,
}

/// The best strategies and what became of all others.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The best, or the answer in its place within the tolerance.
    pub winner: Candidate,
    /// The best by the objective's own measure, where the winner is another.
    pub fastest: Option<Candidate>,
    /// The next best, best first.
    pub alternatives: Vec<Candidate>,
    /// From plain data parallelism to the winner: what changed, and the strategy.
    pub ladder: Vec<(String, Candidate)>,
    /// No other beats these in both time and memory; the fastest first.
    pub pareto: Vec<Candidate>,
    pub account: Account,
}

/// Strategies by fate: considered = illegal + out of memory + bounded + priced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    pub considered: u64,
    pub illegal: u64,
    pub out_of_memory: u64,
    /// Ruled out by a lower bound of time alone.
    pub bounded: u64,
    /// Whose bound over all mesh orders was below the best plan known then; these were looked at one by one.
    pub survived: u64,
    /// Both closed forms computed.
    pub priced: u64,
    /// Of the priced, those played.
    pub played: u64,
    /// The least that any strategy could take as played, inner choices included, where it is below the winner's time.
    pub lowest_bound: Option<Seconds>,
    /// Of the robust plan, if one was asked for.
    pub robust: Option<RobustAccount>,
    /// The least that any strategy could peak at, inner choices included, where memory is what counts.
    pub least_memory: Option<Bytes>,
    pub inner_choices_log10: f64,
    pub wall_time: Seconds,
    /// The values tried on each key.
    pub axes: BTreeMap<String, Vec<String>>,
    /// The keys that stand still, and where.
    pub held: BTreeMap<String, String>,
    /// What is fixed to values that the search would not try, as `key=value`.
    pub outside: Vec<String>,
    /// What was asked for without effect, a sentence each.
    pub idle: Vec<String>,
}

/// What a search for a robust plan proves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RobustAccount {
    /// The least that a step takes at the upper end of its 80 % interval, of all plans known.
    pub upper: Seconds,
    /// No strategy that fits has a lower upper end.
    pub lower: Seconds,
}

impl Account {
    /// A strategy that was counted as bounded was played after all, or one that was not looked at.
    pub const fn count_played(&mut self) {
        match self.bounded.checked_sub(1) {
            Some(less) => self.bounded = less,
            None => self.considered += 1,
        }
        self.priced += 1;
        self.played += 1;
    }
}

/// Whose memory keeps everything from fitting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    Device,
    /// Devices would have room if more could be on the host, which has `room` for a device.
    Host {
        room: Bytes,
    },
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device => Ok(()),
            Self::Host { room } => {
                write!(f, "; the host binds: with more than {room} of it a device, more could be kept there")
            }
        }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, Error)]
pub enum Failure {
    /// Nothing was found in time, and nothing is known.
    #[error(
        "no plan was found within the time limit, and whether there is one is not known; allow more time"
    )]
    TimeIsUp { limit: Duration },
    /// It was asked to stop before anything was found.
    #[error("interrupted before a plan was found")]
    Interrupted,
    /// The fixed keys break a rule whatever the others are.
    #[error("{0}")]
    Illegal(RuleBreak),
    /// Legal strategies, but none fits.
    #[error(
        "nothing fits: the smallest peak {known} is {smallest} a device of {limit}, and {dominant} {} most of it{binds}; {advice}",
        agreeing(dominant, "take")
    )]
    NothingFits {
        /// Process bytes of the strategy that comes nearest.
        smallest: Bytes,
        /// Whether that is the least of any strategy, or what was found.
        known: &'static str,
        limit: Bytes,
        /// Its strategy text.
        strategy: String,
        /// The category that takes most.
        dominant: &'static str,
        binds: Binding,
        /// Which device count or single change would fit.
        advice: String,
    },
}
