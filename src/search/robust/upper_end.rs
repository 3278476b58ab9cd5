//! What a step takes at the upper end of its 80 % interval: its predicted time, and how far measured runs are off, more
//! for each feature that none of them covers.

use std::collections::BTreeMap;

use crate::profile::EngineProfile;
use crate::profile::choices::{Feature, OffloadCategory};
use crate::search::problem::{Candidate, Problem};
use crate::strategy::Strategy;
use crate::strategy::features::of_offload;
use crate::units::Seconds;

/// The widest half-width of an interval, as [`crate::profile::coverage::EvidenceTable::doubts`] has it.
const WIDEST: f64 = 0.95;

/// The ratios of upper end to time of a problem's strategies.
pub struct UpperEnds<'p, 'a> {
    problem: &'p Problem<'a>,
    /// Half-width for time if measured runs cover all features.
    base: f64,
    /// What each feature without runs adds to it.
    doubts: BTreeMap<Feature, f64>,
}

impl<'p, 'a> UpperEnds<'p, 'a> {
    /// Those of `problem`.
    pub fn new(problem: &'p Problem<'a>) -> Self {
        let base = problem.known_half_widths(&[]).time;
        let added = |&feature: &Feature| (feature, problem.known_half_widths(&[feature]).time - base);
        let doubts = Feature::ALL.iter().map(added).filter(|(_, added)| *added > 0.0).collect();
        Self { problem, base, doubts }
    }

    /// The upper end of `strategy`'s step over its time. What a heavier load of experts adds is left out: it is known
    /// only once the strategy is played.
    pub fn ratio(&self, strategy: &Strategy) -> f64 {
        let doubts = self.problem.features(strategy).into_iter().filter_map(|one| self.doubts.get(&one));
        1.0 + (self.base + doubts.sum::<f64>()).min(WIDEST)
    }

    /// The lowest ratio of any strategy.
    pub fn least_ratio(&self) -> f64 {
        1.0 + self.base.min(WIDEST)
    }

    /// The upper end of `candidate`'s step.
    pub fn of(&self, candidate: &Candidate) -> Seconds {
        Seconds(candidate.playback.step_time.0 * self.ratio(&candidate.strategy))
    }

    /// The least that keeping anything on the host adds to a ratio, if measured runs cover no category of it that the
    /// engine has.
    pub fn least_doubt_of_host(&self) -> Option<f64> {
        let categories = self.problem.engine.supports.offloads();
        let doubts = categories.filter_map(|category| self.doubt(category));
        doubts.reduce(f64::min)
    }

    /// The engine without what it keeps on the host and no run covers.
    pub fn engine_without_doubts(&self) -> EngineProfile {
        let mut engine = self.problem.engine.clone();
        let together = *engine.supports.offload_together;
        let has_doubts = self.least_doubt_of_host().is_some();
        engine.supports.offload.value.retain(|offer| {
            let is_covered = self.doubt(offer.category).is_none();
            if together { !has_doubts } else { is_covered }
        });
        engine
    }

    fn doubt(&self, category: OffloadCategory) -> Option<f64> {
        self.doubts.get(&of_offload(category)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster;
    use crate::model;
    use crate::profile::engines::engines_in_use;
    use crate::strategy::{Draft, Workload};
    use crate::units::ElementType;

    #[test]
    fn ratios_are_those_of_the_intervals_that_are_printed() {
        let model = model::load("llama-3.1-8b").unwrap();
        let cluster = cluster::load("2x8xh100-sxm").unwrap();
        let workload = Workload {
            global_batch: 64,
            seq_len: 4096,
            precision: ElementType::Bf16,
            dropout: 0.0,
            clip: 1.0,
        };
        let mut seen = Vec::new();
        for engine in engines_in_use() {
            let problem = Problem::new(&model, &cluster, workload, engine, None);
            let ends = UpperEnds::new(&problem);
            for text in [
                "",
                "zero=3",
                "tp=2,pp=4,sched=interleaved,micro=1",
                "cp=2,cp_kind=ulysses,micro=1",
                "zero=3,offload=optimizer:1+params:1,ckpt=full",
                "offload=activations:1,ckpt=full",
            ] {
                let Ok(strategy) = Draft::parse(text).unwrap().resolve(&problem.facts) else { continue };
                let half_width = problem.coverage(&strategy).half_widths.time;
                let ratio = ends.ratio(&strategy);
                assert!(
                    (ratio - 1.0 - half_width).abs() < 1e-12,
                    "{} {text}: {ratio} {half_width}",
                    engine.name
                );
                assert!(ends.least_ratio() <= ratio);
                seen.push(ratio.to_bits());
            }
            let without = ends.engine_without_doubts();
            assert!(UpperEnds::new(&problem.under(&without)).least_doubt_of_host().is_none());
        }
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 5, "{}", seen.len());
    }
}
