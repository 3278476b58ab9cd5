//! Reading a file of an engine as `simulate --from` does: what it says, and the strategy that this is.

use meshwright::cluster::{self, Cluster};
use meshwright::export::beside::Beside;
use meshwright::export::error::ImportError;
use meshwright::export::import::{Given, Understood, meaning_of};
use meshwright::export::{Reach, Scene, Target, profile_of, targets};
use meshwright::model::Model;
use meshwright::search::Problem;
use meshwright::strategy::Workload;
use meshwright::units::ElementType;

/// A file, and what is given beside it.
pub struct Reading<'a> {
    /// An engine, or an engine and its version.
    pub target: &'a str,
    pub model: &'a Model,
    /// As `4x8xh100-sxm`.
    pub cluster: &'a str,
    pub global_batch: Option<u64>,
    pub seq_len: Option<u64>,
}

pub fn target(name: &str) -> Target {
    targets().find(|target| target.text() == name || target.dialect.name() == name).expect("a target")
}

impl Reading<'_> {
    fn cluster(&self) -> Cluster {
        cluster::load(self.cluster).expect("a cluster")
    }

    /// What `text` says.
    pub fn understood(&self, text: &str) -> Result<Understood, ImportError> {
        let target = target(self.target);
        let cluster = self.cluster();
        let scene = Scene {
            model: self.model,
            devices: cluster.devices(),
            devices_per_node: u64::from(cluster.devices_per_node),
            global_batch: self.global_batch,
            seq_len: self.seq_len,
            typed: None,
        };
        let given = Given { path: target.dialect.file(), text, ranks: None, beside: Beside::Nothing };
        meaning_of(target, &given, &scene)
    }

    /// The strategy and the workload that this is, under all that files of the engine may say.
    pub fn meant(&self, understood: &Understood) -> Result<(String, Workload), String> {
        let meaning = &understood.meaning;
        let workload = Workload {
            global_batch: self.global_batch.or(meaning.global_batch).ok_or("no batch")?,
            seq_len: meaning.seq_len.or(self.seq_len).unwrap_or(4096),
            precision: meaning.precision.unwrap_or(ElementType::Bf16),
            dropout: meaning.dropout.unwrap_or(0.0),
            clip: meaning.clip.unwrap_or(1.0),
        };
        let profile = profile_of(target(self.target), meaning, Reach::Files);
        let cluster = self.cluster();
        let problem = Problem::new(self.model, &cluster, workload, &profile, None);
        let strategy = meaning.draft.resolve(&problem.facts).map_err(|broken| broken.message)?;
        Ok((strategy.text(problem.facts.defaults), workload))
    }

    /// The strategy text that `text` means, all of it understood.
    ///
    /// # Errors
    /// In words, if it is refused.
    pub fn tried(&self, text: &str) -> Result<String, String> {
        let understood = self.understood(text).map_err(|error| error.to_string())?;
        assert_eq!(understood.left, [], "settings that are not understood");
        self.meant(&understood).map(|(strategy, _)| strategy)
    }

    /// The same of a file that is read.
    pub fn strategy(&self, text: &str) -> String {
        self.tried(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Field and message of the refusal of `text`.
    pub fn refusal(&self, text: &str) -> (String, String) {
        let error = self.understood(text).expect_err("it is refused");
        (error.field(), error.to_string())
    }
}
