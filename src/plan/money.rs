//! What a plan costs: a step, a token, and a whole run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::goodput::Goodput;
use crate::search::{Candidate, Problem};
use crate::units::{Money, Price, Seconds};

/// Money in the currency of the price.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// One device for an hour, as it was given.
    pub device_hour: Price,
    pub step: Money,
    /// A step's cost over its tokens: what failures add is in `run` alone.
    pub token: Money,
    /// All devices for the wall time of the run; absent where no run is asked for or it would never end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Money>,
}

/// What `candidate` costs at `price`, and the run that `goodput` is of.
pub fn cost(problem: &Problem<'_>, candidate: &Candidate, price: Price, goodput: Option<&Goodput>) -> Cost {
    let devices = candidate.strategy.devices();
    let step = price.of(devices, candidate.playback.step_time);
    let days = goodput.and_then(|goodput| goodput.days);
    Cost {
        device_hour: price,
        step,
        token: step / problem.workload.tokens() as f64,
        run: days.map(|days| price.of(devices, Seconds(days * 86_400.0))),
    }
}
