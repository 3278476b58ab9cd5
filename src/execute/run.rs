//! What all ranks of a run share: model, strategy, rules, and the numbers that kernels need.

use crate::execute::error::ExecuteError;
use crate::lower::unit::{UnitLayers, units};
use crate::model::{LossWeight, Model};
use crate::profile::EngineProfile;
use crate::profile::choices::ContextKind;
use crate::program::state::StateRules;
use crate::program::{Layout, Program, build, verify};
use crate::strategy::mesh::Mesh;
use crate::strategy::{Axis, Strategy, Workload};

/// What is trained and how it is laid out.
#[derive(Clone, Debug)]
pub struct Job {
    pub model: Model,
    pub strategy: Strategy,
    pub workload: Workload,
    pub engine: &'static EngineProfile,
}

/// How a run updates and what it checks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    pub learning_rate: f64,
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub epsilon: f64,
    pub weight_decay: f64,
    /// Of dropout; weights have a seed of their own.
    pub seed: u64,
    /// Fills memory with values that are not numbers when it is handed out and when it is given back.
    pub poison: bool,
    /// Looks at every output of the forward pass for values that are not finite.
    pub inspect: bool,
    /// Cores that the ranks share.
    pub cores: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            learning_rate: 3e-4,
            betas: (0.9, 0.95),
            epsilon: 1e-8,
            weight_decay: 0.1,
            seed: 0,
            poison: false,
            inspect: false,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// A job made ready: its program, verified, and what its ranks read.
pub struct Run {
    pub model: Model,
    pub strategy: Strategy,
    pub workload: Workload,
    pub engine: &'static EngineProfile,
    pub rules: StateRules,
    pub mesh: Mesh,
    pub settings: Settings,
    pub units: Vec<UnitLayers>,
    pub layout: Layout,
    pub program: Program,
    /// By loss.
    pub loss_weights: Vec<f64>,
}

impl Run {
    /// Builds and verifies the program of `job`.
    ///
    /// # Errors
    /// What the embedded backend has no kernel for.
    pub fn new(job: Job, settings: Settings) -> Result<Self, ExecuteError> {
        let Job { model, strategy, workload, engine } = job;
        let unsupported = |what: String| Err(ExecuteError::Unsupported(what));
        if let Err(reason) = crate::model::tensors::trainable(&model) {
            return unsupported(reason.to_string());
        }
        let mut loss_weights = Vec::new();
        for term in &model.losses {
            match &term.weight {
                LossWeight::Fixed(weight) => loss_weights.push(*weight),
                LossWeight::Adaptive { .. } => return unsupported("adaptive loss weights".to_owned()),
            }
        }
        let layout = Layout::new(&model, &strategy, &workload, engine);
        let program = build::build_on(&layout, &strategy, &workload, engine);
        verify::verify(&program).map_err(|fault| ExecuteError::Program(fault.to_string()))?;
        Ok(Self {
            rules: StateRules::new(&strategy, &workload, engine),
            mesh: Mesh::new(&strategy),
            units: units(&model),
            layout,
            program,
            loss_weights,
            model,
            strategy,
            workload,
            engine,
            settings,
        })
    }

    /// The stage of chunk `chunk`.
    pub fn stage_of_chunk(&self, chunk: u32) -> u64 {
        self.strategy.stage_of(u64::from(chunk))
    }

    /// The rank of `stage` that stands where `rank` stands in its own.
    pub fn rank_at_stage(&self, rank: usize, stage: u64) -> usize {
        let rank = rank as u64;
        let (own, stride) = (self.mesh.coordinate(rank, Axis::Pipeline), self.mesh.stride(Axis::Pipeline));
        (rank + stage * stride - own * stride) as usize
    }

    /// Whether keys and values travel between context ranks.
    pub fn is_ring(&self) -> bool {
        self.strategy.context > 1 && self.strategy.context_kind == ContextKind::Ring
    }

    /// Tokens of one sequence on one context rank.
    pub const fn local_tokens(&self) -> usize {
        (self.workload.seq_len / self.strategy.context) as usize
    }

    /// Positions in the sequence of the tokens of context rank `context`: a run of them; over a ring an early and
    /// a late run, so that every rank has as many pairs to look at.
    pub fn positions(&self, context: u64) -> Vec<u32> {
        let (tokens, ranks) = (self.workload.seq_len, self.strategy.context);
        if !self.is_ring() || !tokens.is_multiple_of(2 * ranks) {
            let local = tokens / ranks;
            return (context * local..(context + 1) * local).map(|position| position as u32).collect();
        }
        let piece = tokens / (2 * ranks);
        let late = 2 * ranks - 1 - context;
        let run = |piece_index: u64| piece_index * piece..(piece_index + 1) * piece;
        run(context).chain(run(late)).map(|position| position as u32).collect()
    }

    /// What a token's loss counts, by loss: its weight over the tokens of a step.
    pub fn loss_scale(&self, loss: u8) -> f64 {
        self.loss_weights[usize::from(loss)] / self.workload.tokens() as f64
    }
}
