//! What all ranks of a run share: model, strategy, rules, and the numbers that kernels need.

use crate::execute::comm::Peers;
use crate::execute::error::ExecuteError;
use crate::lower::Kernel;
use crate::lower::unit::{UnitLayers, units};
use crate::model::layer::LayerKind;
use crate::model::{LossWeight, Model, Watch};
use crate::profile::EngineProfile;
use crate::profile::choices::ContextKind;
use crate::program::instruction::Task;
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

/// What ranks run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// Cores of this machine.
    #[default]
    Cpu,
    /// The first GPU of this machine, for one rank.
    Cuda,
    /// The first GPU of this machine, which all ranks share.
    SharedCuda,
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
    /// Whether all ranks are there. One whose peers are absent is not ended by numbers that are not finite.
    pub peers: Peers,
    pub device: DeviceKind,
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
            peers: Peers::Present,
            device: DeviceKind::default(),
        }
    }
}

/// How a loss is weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weighing {
    Fixed(f64),
    /// By the norms of two gradients: numbers of the layout's watches.
    Adaptive {
        of: u8,
        own: u8,
    },
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
    /// By loss, what its backward starts with.
    pub loss_weights: Vec<f64>,
    pub weighings: Vec<Weighing>,
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
        if let Some(what) = unsupported_constant(&model) {
            return unsupported(what.to_owned());
        }
        let layout = Layout::new(&model, &strategy, &workload, engine);
        if let Some(what) = unsupported_watch(&model, &layout) {
            return unsupported(what);
        }
        let weighings = weighings(&model);
        let starts = |(loss, weighing): (usize, &Weighing)| match weighing {
            Weighing::Fixed(weight) if !model.is_weighed_late(loss) => *weight,
            _ => 1.0,
        };
        let loss_weights = weighings.iter().enumerate().map(starts).collect();
        let program = build::build_on(&layout, &strategy, &workload, engine);
        if let Some(what) = without_kernel(&program) {
            return unsupported(what);
        }
        verify::verify(&program).map_err(|fault| ExecuteError::Program(fault.to_string()))?;
        Ok(Self {
            rules: StateRules::new(&strategy, &workload, engine),
            mesh: Mesh::new(&strategy),
            units: units(&model),
            layout,
            program,
            loss_weights,
            weighings,
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

    /// What a token's loss counts when its backward starts, by loss: a weight over the tokens of a step.
    pub fn loss_scale(&self, loss: u8) -> f64 {
        self.loss_weights[usize::from(loss)] / self.workload.tokens() as f64
    }
}

fn weighings(model: &Model) -> Vec<Weighing> {
    let watches = model.watches();
    let number = |watch: Watch| watches.iter().position(|other| *other == watch).unwrap_or_default() as u8;
    (0..model.losses.len())
        .map(|loss| match (&model.losses[loss].weight, model.looks(loss)) {
            (LossWeight::Fixed(weight), _) => Weighing::Fixed(*weight),
            (LossWeight::Adaptive { .. }, Some([of, own])) => {
                Weighing::Adaptive { of: number(of), own: number(own) }
            }
            // A model that was checked names what is there.
            (LossWeight::Adaptive { .. }, None) => Weighing::Fixed(1.0),
        })
        .collect()
}

/// An adaptive weight that cannot be taken.
fn unsupported_watch(model: &Model, layout: &Layout) -> Option<String> {
    if !model.backward_order().1 {
        return Some("adaptive weights that look at one another's losses in a circle".to_owned());
    }
    let units = || layout.chunks.iter().flat_map(|chunk| &chunk.units);
    layout.shaped().watches().iter().zip(model.watches()).find_map(|(watch, at)| {
        let (loss, layer) = (&model.losses[at.loss].name, &model.layer(at.layer).name);
        let from = units().find(|unit| unit.loss == Some(watch.loss))?.unit;
        let unit = units().find(|unit| unit.unit == watch.unit)?;
        if unit.unit > from || unit.loss.is_some_and(|own| own != watch.loss) {
            return Some(format!("an adaptive weight at `{layer}`, which the loss `{loss}` does not read"));
        }
        let is_shared = watch.parameters.table > 0;
        is_shared.then(|| format!("an adaptive weight at `{layer}`, whose table a head shares"))
    })
}

/// What of a model's constants no kernel takes into account.
fn unsupported_constant(model: &Model) -> Option<&'static str> {
    let constants = &model.constants;
    let checks = [
        (constants.norm_weight_offset != 0.0, "norm weights with an offset"),
        (constants.embedding_scale != 1.0, "scaled embeddings"),
        (constants.projection_clip.is_some(), "clamped queries, keys and values"),
        (!constants.router.chooses_by_softmax() || constants.router.scale != 1.0, "scores of this router"),
        (constants.residual_scale != 1.0, "a scaled residual"),
        (constants.logit_scale != 1.0, "scaled logits"),
        (constants.gate_limit.is_some(), "a gate with a limit"),
        (constants.rotary.interleaved, "rotary positions that turn neighbouring elements"),
        (constants.rotary.window_theta.is_some(), "a rotary base of its own for windows"),
        (model.layers().any(|layer| has_residual_norm(&layer.kind)), "norms behind the residual sum"),
    ];
    checks.into_iter().find(|(is_there, _)| *is_there).map(|(_, what)| what)
}

const fn has_residual_norm(kind: &LayerKind) -> bool {
    match kind {
        LayerKind::Attention(layer) => layer.residual_norm.is_some(),
        LayerKind::Mlp(layer) => layer.residual_norm.is_some(),
        _ => false,
    }
}

/// The first op of `program` that is planned and has no kernel.
fn without_kernel(program: &Program) -> Option<String> {
    let templates = program.ranks.iter().flat_map(|rank| &rank.templates);
    let mut instructions = templates.flat_map(|template| &template.instructions);
    let planned = instructions
        .find(|instruction| matches!(instruction.task, Task::Kernel { kernel: Kernel::Planned, .. }))?;
    let unit = planned.unit.map_or_else(String::new, |unit| format!(" of unit {unit}"));
    Some(format!("the {}{unit}", planned.op.name()))
}
