//! The table of measured runs that predictions rest on: which device, engine and features each had, and how far off it
//! is predicted; written by a fit, `cost_models/fit/evidence.json`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choices::Feature;
use super::engines::{kin, root};

/// All measured runs of quality A and B, and what leaving some of them out costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvidenceTable {
    pub version: u32,
    /// Half-widths of 80 % intervals where runs of the same device with the same engine are known: of runs whose source
    /// was left out of the fit.
    pub source_left_out: HalfWidths,
    /// The same where the device is new to the fit.
    pub device_left_out: HalfWidths,
    /// The same where the engine is.
    pub engine_left_out: HalfWidths,
    /// The same by engine and device, and by engine, of runs whose source was left out, where these are enough.
    pub pairs: BTreeMap<String, HalfWidths>,
    pub engines: BTreeMap<String, HalfWidths>,
    /// By how much the half-width for time grows where no run with the feature is in the fit.
    pub features: BTreeMap<Feature, f64>,
    pub runs: Vec<MeasuredRun>,
}

/// Half-widths of an interval, as shares of the prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HalfWidths {
    pub time: f64,
    pub memory: f64,
}

/// One measured run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRun {
    pub id: String,
    /// The source that it is of.
    pub family: String,
    pub device: String,
    /// The engine profile that it is predicted by.
    pub engine: String,
    pub features: Vec<Feature>,
    /// Predicted over measured step time, less 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_error: Option<f64>,
    /// Predicted over measured memory, less 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_error: Option<f64>,
    /// The error of its step time as predicted by fits that saw nothing of its source, its device, its engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<[f64; 3]>,
    /// The same of its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_left_out: Option<[f64; 3]>,
    /// Share of the device's dense peak that its model's operations reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
}

/// So many runs of any engine cover a feature for all.
const ENOUGH: usize = 10;
/// Above the fastest measured run by this factor, no speed was ever seen.
const FASTER: f64 = 1.05;

static TABLE: LazyLock<EvidenceTable> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../cost_models/fit/evidence.json"))
        .expect("the built-in table of evidence is valid, as a test shows")
});

/// The built-in table.
pub fn evidence_table() -> &'static EvidenceTable {
    &TABLE
}

/// The run called `id` in the built-in table.
pub fn measured_run(id: &str) -> Option<&'static MeasuredRun> {
    static PLACES: LazyLock<BTreeMap<&str, &MeasuredRun>> =
        LazyLock::new(|| TABLE.runs.iter().map(|run| (run.id.as_str(), run)).collect());
    PLACES.get(id).copied()
}

/// A plan as evidence is asked for it.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    pub device: &'q str,
    pub engine: &'q str,
    pub features: &'q [Feature],
}

/// What measured runs say of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coverage {
    /// Runs on the device by the engine or its kin, the nearest by features first.
    pub near: Vec<&'static MeasuredRun>,
    /// Features, or the pair of device and engine, that no run covers.
    pub unvalidated: Vec<String>,
    pub half_widths: HalfWidths,
}

impl EvidenceTable {
    /// What the table says of `question`.
    pub fn coverage(&'static self, question: Question<'_>) -> Coverage {
        let Question { device, engine, features } = question;
        let is_kin = |run: &&MeasuredRun| kin(&run.engine, engine);
        let mut near: Vec<&MeasuredRun> =
            self.runs.iter().filter(is_kin).filter(|run| run.device == device).collect();
        near.sort_by_cached_key(|run| {
            let shared = features.iter().filter(|one| run.has(**one)).count();
            (run.engine != engine, features.len() - shared, run.features.len() - shared, run.id.as_str())
        });
        let (unvalidated, half_widths) = self.doubts(question);
        Coverage { near, unvalidated, half_widths }
    }

    /// What of `question` no run covers, and half-widths of its intervals.
    pub fn doubts(&self, question: Question<'_>) -> (Vec<String>, HalfWidths) {
        let Question { device, engine, features } = question;
        let mut unvalidated = Vec::new();
        let is_kin = |run: &MeasuredRun| kin(&run.engine, engine);
        let knows_pair = self.runs.iter().any(|run| is_kin(run) && run.device == device);
        let knows_device = self.runs.iter().any(|run| run.device == device);
        let knows_engine = self.runs.iter().any(is_kin);
        let mut half = match (knows_pair, knows_device, knows_engine) {
            (true, ..) => self.known(device, engine),
            (false, false, true) => self.device_left_out,
            (false, true, false) => self.engine_left_out,
            (false, ..) => self.device_left_out.wider(self.engine_left_out),
        };
        if !knows_pair {
            unvalidated.push(pair_name(engine, device));
        }
        for &feature in features {
            let runs = || self.runs.iter().filter(|run| run.has(feature));
            if !runs().any(is_kin) && runs().count() < ENOUGH {
                unvalidated.push(feature.to_string());
                half.time += self.cost_of(feature);
            }
        }
        half.time = half.time.min(0.95);
        (unvalidated, half)
    }

    /// The share of its peak that the fastest measured run on `device` reached; of its nearest kin where it has none.
    pub fn fastest(&self, device: &str) -> Option<(f64, &MeasuredRun)> {
        fn stem(name: &str) -> &str {
            name.split('-').next().unwrap_or(name)
        }
        let best = |is_near: &dyn Fn(&str) -> bool| {
            let runs = self.runs.iter().filter(|run| is_near(&run.device));
            let reached = runs.filter_map(|run| Some((run.mfu?, run)));
            reached.max_by(|one, other| one.0.total_cmp(&other.0))
        };
        best(&|other| other == device)
            .or_else(|| best(&|other| stem(other) == stem(device)))
            .or_else(|| best(&|_| true))
    }

    /// The words for a speed that no run ever reached, if `mfu` on `device` is one.
    pub fn faster_than_life(&self, device: &str, mfu: f64) -> Option<String> {
        let (fastest, run) = self.fastest(device)?;
        (mfu > FASTER * fastest).then(|| {
            format!(
                "a speed of {:.0} % of the peak: the fastest run measured on {} has {:.0} %",
                100.0 * mfu,
                run.device,
                100.0 * fastest
            )
        })
    }

    /// The half-widths for a device and an engine whose runs are known.
    fn known(&self, device: &str, engine: &str) -> HalfWidths {
        let pair = self.pairs.get(&pair_name(engine, device));
        let own = pair.or_else(|| self.engines.get(engine)).or_else(|| self.engines.get(root(engine)));
        own.copied().unwrap_or(self.source_left_out)
    }

    /// What the lack of runs with `feature` adds; where there never were any, as much as for any other.
    fn cost_of(&self, feature: Feature) -> f64 {
        let most = self.features.values().copied().fold(0.0, f64::max);
        self.features.get(&feature).copied().unwrap_or(most)
    }
}

/// An engine on a device, as the table names it.
pub fn pair_name(engine: &str, device: &str) -> String {
    format!("{engine} on {device}")
}

impl HalfWidths {
    /// The wider of both.
    #[must_use]
    pub const fn wider(self, other: Self) -> Self {
        Self { time: self.time.max(other.time), memory: self.memory.max(other.memory) }
    }
}

impl MeasuredRun {
    /// Whether the run had `feature`.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::catalog::device_models;
    use crate::profile::engines::engine;

    fn asked(device: &str, engine: &str, features: &[Feature]) -> Coverage {
        evidence_table().coverage(Question { device, engine, features })
    }

    #[test]
    fn the_built_in_table_names_what_there_is() {
        let table = evidence_table();
        assert_eq!(table.version, 1);
        assert!(table.runs.len() > 900);
        for run in &table.runs {
            assert!(engine(&run.engine).is_some(), "{}", run.engine);
            assert!(device_models().any(|(name, _)| name == run.device), "{}", run.device);
        }
        let narrowest = table.source_left_out.time;
        assert!(table.device_left_out.time >= narrowest && table.engine_left_out.time >= narrowest);
    }

    #[test]
    fn what_no_run_covers_is_named_and_widens() {
        let plain = asked("h100-sxm", "nemo", &[Feature::Tensor]);
        assert!(plain.unvalidated.is_empty() && plain.near.len() > 50);
        let more = asked("h100-sxm", "nemo", &[Feature::Tensor, Feature::ActivationOffload]);
        assert_eq!(more.unvalidated, ["activation offload"]);
        assert!(more.half_widths.time > plain.half_widths.time);
        assert_eq!(more.half_widths.memory, plain.half_widths.memory);
        let elsewhere = asked("l40s", "nemo", &[]);
        assert_eq!(elsewhere.unvalidated, ["nemo on l40s"]);
        assert_eq!(elsewhere.half_widths, evidence_table().device_left_out);
        // Ten runs of others cover a feature for all.
        assert!(
            !asked("h100-sxm", "maxtext", &[Feature::Interleaved])
                .unvalidated
                .contains(&Feature::Interleaved.to_string())
        );
    }

    #[test]
    fn the_nearest_share_the_most() {
        let features = [Feature::Tensor, Feature::Interleaved, Feature::ShardedState];
        let near = asked("h100-sxm", "nemo", &features).near;
        let shared = |run: &MeasuredRun| features.iter().filter(|one| run.has(**one)).count();
        let own = near.iter().take_while(|run| run.engine == "nemo").map(|run| shared(run));
        assert!(own.is_sorted_by(|one, other| one >= other));
    }

    #[test]
    fn a_speed_beyond_the_fastest_run_is_told() {
        let table = evidence_table();
        let (fastest, _) = table.fastest("a100-sxm-80gb").unwrap();
        assert_eq!(table.faster_than_life("a100-sxm-80gb", 1.04 * fastest), None);
        assert!(table.faster_than_life("a100-sxm-80gb", 1.06 * fastest).is_some());
        // A card without runs is held to the nearest of its kind.
        assert_eq!(table.fastest("a100-pcie-80gb").unwrap().1.device.split('-').next(), Some("a100"));
    }
}
