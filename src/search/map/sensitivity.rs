//! What the plan would be were one thing different, and what it would cost to keep it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Setting, Watch};
use crate::search::problem::Candidate;
use crate::search::request::{Failure, Request};
use crate::search::robust::beats;
use crate::search::run::search;
use crate::strategy::{Draft, RuleBreak, Strategy};
use crate::units::{Bytes, BytesPerSecond};

/// The one thing that is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// Links beyond the node have half their bandwidth.
    HalfNetwork,
    /// A plan may use a fifth less of the device's memory.
    LessMemory,
    DoubleBatch,
    HalfBatch,
    /// Between device and host, twice the bandwidth.
    FastHostLink,
}

/// What becomes of the plan that was chosen without the difference.
#[derive(Clone, Debug)]
pub enum Kept {
    Fits(Candidate),
    /// It needs more memory than there is.
    TooLarge(Candidate),
    /// It breaks a rule, such as that of the batch.
    Illegal(RuleBreak),
}

/// A scenario, its best plan, and the old one in it.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    pub scenario: Scenario,
    pub setting: Setting<'a>,
    pub best: Result<Candidate, Failure>,
    pub kept: Kept,
}

impl Scenario {
    const ALL: [Self; 5] =
        [Self::HalfNetwork, Self::LessMemory, Self::DoubleBatch, Self::HalfBatch, Self::FastHostLink];

    /// In a few words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::HalfNetwork => "half the network bandwidth",
            Self::LessMemory => "20 % less device memory",
            Self::DoubleBatch => "twice the batch",
            Self::HalfBatch => "half the batch",
            Self::FastHostLink => "a host link twice as fast",
        }
    }

    /// `home` with the difference; nothing where it makes none to `chosen`.
    fn setting<'a>(self, home: &Setting<'a>, chosen: &Strategy) -> Option<Setting<'a>> {
        let mut setting = home.clone();
        match self {
            Self::HalfNetwork => {
                let node = u64::from(setting.cluster.devices_per_node);
                let mut beyond =
                    setting.cluster.levels.iter_mut().skip(1).filter(|level| level.span > node).peekable();
                beyond.peek()?;
                for level in beyond {
                    let half = |rate: &mut BytesPerSecond| *rate = *rate / 2.0;
                    half(&mut level.link.bandwidth);
                    level.slower.iter_mut().for_each(|(_, bandwidth)| half(bandwidth));
                }
            }
            Self::LessMemory => {
                let limit = home.problem().memory_limit;
                setting.memory_limit = Some(Bytes(limit.0 - limit.0 / 5));
            }
            Self::DoubleBatch => setting.workload.global_batch *= 2,
            Self::HalfBatch if home.workload.global_batch.is_multiple_of(2) => {
                setting.workload.global_batch /= 2;
            }
            Self::FastHostLink if !chosen.offload.is_none() => {
                let link = &mut setting.cluster.host_link;
                link.bandwidth = link.bandwidth * 2.0;
            }
            Self::HalfBatch | Self::FastHostLink => return None,
        }
        Some(setting)
    }
}

/// Searches every scenario that makes a difference to `chosen`, the plan of `home`, and plays `chosen` in it.
pub fn sensitivity<'a>(
    home: &Setting<'a>,
    request: &Request,
    chosen: &Strategy,
    watch: Watch<'_>,
) -> Vec<Answer<'a>> {
    let request = Request { top: 0, ..request.clone() };
    let answer = |scenario: Scenario| {
        let setting = scenario.setting(home, chosen).filter(|_| !request.stop.is_asked())?;
        (watch.part)(scenario.words());
        let problem = setting.problem();
        let kept = match again(chosen, home, &setting) {
            Err(broken) => Kept::Illegal(broken),
            Ok(strategy) => {
                let candidate = problem.play(strategy);
                if problem.fits(&candidate) { Kept::Fits(candidate) } else { Kept::TooLarge(candidate) }
            }
        };
        let found = search(&problem, &request, watch.progress).map(|outcome| outcome.winner);
        if request.stop.is_asked() {
            return None;
        }
        // A search that does not prove its answer may pass over what is known to be as good.
        let best = match (&kept, found) {
            (Kept::Fits(kept), Err(_)) => Ok(kept.clone()),
            (Kept::Fits(kept), Ok(found)) if beats(&problem, &request, kept, &found) => Ok(kept.clone()),
            (_, found) => found,
        };
        Some(Answer { scenario, setting, best, kept })
    };
    Scenario::ALL.into_iter().filter_map(answer).collect()
}

/// `chosen` under the facts of `setting`: what it does to a batch of another size is more or fewer micro-batches.
fn again(chosen: &Strategy, home: &Setting<'_>, setting: &Setting<'_>) -> Result<Strategy, RuleBreak> {
    let text = chosen.text(home.problem().facts.defaults);
    // What a strategy prints parses back to itself.
    let draft = Draft::parse(&text).unwrap_or_default();
    Draft { accumulation: None, ..draft }.resolve(&setting.problem().facts)
}
