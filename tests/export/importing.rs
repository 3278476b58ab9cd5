//! Reading a configuration in a test: the strategy text that it means, or why it means none.

use meshwright::cluster;
use meshwright::export::error::ImportError;
use meshwright::export::import::{Given, Understood, meaning_of};
use meshwright::export::{Reach, Scene, Target, profile_of};
use meshwright::model::Model;
use meshwright::search::Problem;
use meshwright::strategy::Workload;
use meshwright::units::ElementType;

/// What a file is read with.
pub struct Reading<'a> {
    pub target: &'a str,
    pub model: &'a Model,
    pub cluster: &'a str,
    pub global_batch: Option<u64>,
    pub seq_len: u64,
}

impl Reading<'_> {
    /// What `text` says.
    pub fn understood(&self, text: &str) -> Result<Understood, ImportError> {
        let target = Target::parse(self.target).expect("a target");
        let cluster = cluster::load(self.cluster).expect("a cluster");
        let scene = Scene {
            model: self.model,
            devices: cluster.devices(),
            devices_per_node: u64::from(cluster.devices_per_node),
            global_batch: self.global_batch,
            seq_len: Some(self.seq_len),
        };
        let given = Given { path: target.dialect.file(), text, ranks: None };
        meaning_of(target, &given, &scene)
    }

    /// The strategy that `text` means, as it is printed, all of it read.
    pub fn strategy(&self, text: &str) -> String {
        let target = Target::parse(self.target).expect("a target");
        let understood = self.understood(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(understood.left, [], "settings that nobody reads");
        let meaning = understood.meaning;
        let cluster = cluster::load(self.cluster).expect("a cluster");
        let profile = profile_of(target, &meaning, Reach::Files);
        let workload = Workload {
            global_batch: meaning.global_batch.expect("a batch"),
            seq_len: self.seq_len,
            precision: meaning.precision.unwrap_or(ElementType::Bf16),
            dropout: 0.0,
            clip: meaning.clip.unwrap_or(1.0),
        };
        let problem = Problem::new(self.model, &cluster, workload, &profile, None);
        let strategy = meaning.draft.resolve(&problem.facts).unwrap_or_else(|broken| panic!("{broken}"));
        strategy.text(problem.facts.defaults)
    }

    /// Field and message of the refusal of `text`.
    pub fn refusal(&self, text: &str) -> (String, String) {
        let error = self.understood(text).expect_err("it is refused");
        (error.field(), error.to_string())
    }
}
