//! What a file of an engine means, as a strategy text, or why it is refused.

use meshwright::cluster;
use meshwright::export::import::{Given, Understood, meaning_of};
use meshwright::export::{Reach, Scene, Target, profile_of};
use meshwright::model::Model;
use meshwright::search::Problem;
use meshwright::strategy::Workload;
use meshwright::units::ElementType;

/// A file of an engine, and what it leaves open.
pub struct Example<'a> {
    pub target: &'a str,
    pub text: &'a str,
    pub model: &'a Model,
    /// As `4x8xh100-sxm`.
    pub cluster: &'a str,
    pub global_batch: Option<u64>,
}

impl Example<'_> {
    /// What the file says.
    pub fn understood(&self) -> Result<Understood, String> {
        let target = Target::parse(self.target).map_err(|(rule, _)| rule)?;
        let cluster = cluster::load(self.cluster).map_err(|error| error.to_string())?;
        let scene = Scene {
            model: self.model,
            devices: cluster.devices(),
            devices_per_node: u64::from(cluster.devices_per_node),
            global_batch: self.global_batch,
            seq_len: None,
        };
        let given = Given { path: target.dialect.file(), text: self.text, ranks: None };
        meaning_of(target, &given, &scene).map_err(|error| error.to_string())
    }

    /// The strategy that it means, under the engine's profile.
    pub fn strategy(&self) -> Result<String, String> {
        let target = Target::parse(self.target).map_err(|(rule, _)| rule)?;
        let cluster = cluster::load(self.cluster).map_err(|error| error.to_string())?;
        let read = self.understood()?;
        assert_eq!(read.left, [], "all of the example is understood");
        let meaning = &read.meaning;
        let profile = profile_of(target, meaning, Reach::Files);
        let workload = Workload {
            global_batch: meaning.global_batch.or(self.global_batch).ok_or("no batch")?,
            seq_len: meaning.seq_len.unwrap_or(4096),
            precision: meaning.precision.unwrap_or(ElementType::Bf16),
            dropout: meaning.dropout.unwrap_or(0.0),
            clip: meaning.clip.unwrap_or(1.0),
        };
        let problem = Problem::new(self.model, &cluster, workload, &profile, None);
        let strategy = meaning.draft.resolve(&problem.facts).map_err(|broken| broken.message)?;
        Ok(strategy.text(problem.facts.defaults))
    }
}
