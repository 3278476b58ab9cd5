//! From a program's instructions to calls: every operand is found, named and measured once, before the run.
//!
//! An instruction of a rank becomes a few calls, in order. Whatever an operand's size must be by the model and the
//! strategy is checked here or by the kernel that takes it, so an instruction whose memory is wrong ends the run.

mod attention;
mod collectives;
mod elementwise;
mod embedding;
mod experts;
mod joining;
mod linear;
mod loss;
mod norm;
mod operands;
mod optimizer;
mod pipeline;
mod reductions;
mod shape;
mod weighing;

use crate::execute::call::Call;
use crate::execute::comm::Peers;
use crate::execute::error::ExecuteError;
use crate::execute::observe::words;
use crate::execute::ranks::placement::{Issue, Stages};
use crate::execute::ranks::rank::Rank;
use crate::execute::run::Run;
use crate::execute::storage::Types;
use crate::lower::Kernel;
use crate::ops::Op;
use crate::program::instruction::{Holds, Task};

/// Calls of all instructions of a rank, instruction by instruction.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    calls: Vec<Call>,
    /// Behind the last call of each instruction.
    ends: Vec<u32>,
}

impl Bound {
    /// The calls of instruction `issue`.
    pub fn of(&self, issue: usize) -> &[Call] {
        let start = issue.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.calls[start as usize..self.ends[issue] as usize]
    }
}

/// Binds the instructions of `rank`; peers' inboxes lie in what `stages` has.
///
/// # Errors
/// [`ExecuteError::Missing`] and [`ExecuteError::Operand`] where the program is not what the model and the strategy
/// ask for, and [`ExecuteError::Shape`] where a call has another size than the op that was priced: bugs of ours.
pub fn bind(run: &Run, rank: &Rank, stages: Stages<'_>) -> Result<Bound, ExecuteError> {
    let mut binder = Binder { run, rank, stages, types: rank.types, calls: Vec::new(), first: 0 };
    let mut ends = Vec::with_capacity(rank.placement.issues.len());
    for issue in &rank.placement.issues {
        binder.issue(issue)?;
        ends.push(binder.calls.len() as u32);
    }
    Ok(Bound { calls: binder.calls, ends })
}

struct Binder<'a> {
    run: &'a Run,
    rank: &'a Rank,
    stages: Stages<'a>,
    types: Types,
    calls: Vec<Call>,
    /// The first call of the instruction that is being bound.
    first: usize,
}

type Done = Result<(), ExecuteError>;

impl Binder<'_> {
    fn push(&mut self, call: Call) {
        self.calls.push(call);
    }

    fn issue(&mut self, issue: &Issue) -> Done {
        if self.run.settings.poison {
            for held in &issue.allocates {
                self.push(Call::Poison { to: self.bytes(held.region) });
            }
        }
        if issue.starts_gradient
            && let Some(gradient) = issue.gradient
        {
            let unit = self.unit(issue)?;
            let size = (unit.tensors.trained(), self.types.gradient.size());
            self.check_size(unit, gradient, Holds::Gradients, size)?;
            self.push(Call::Zero { to: self.gradients(gradient) });
        }
        self.first = self.calls.len();
        self.task(issue)?;
        self.check_shape(issue)?;
        self.check(issue)?;
        if self.run.settings.poison {
            for held in &issue.frees {
                self.push(Call::Poison { to: self.bytes(held.region) });
            }
        }
        Ok(())
    }

    /// Whether the calls of `issue` have the shape of the op that was priced.
    fn check_shape(&self, issue: &Issue) -> Done {
        let has_first_shards = self.rank.shard == 0 && self.rank.expert_shard == 0;
        let Some(shape) = shape::shape(issue, &self.calls[self.first..], has_first_shards) else {
            return Ok(());
        };
        if shape.priced == shape.bound {
            return Ok(());
        }
        let (rank, task, op) = (self.rank.index, words::task(issue.task), issue.op.name());
        let shape::Shape { priced, bound } = shape;
        Err(ExecuteError::Shape { rank, task, unit: issue.unit, op, priced, bound })
    }

    fn task(&mut self, issue: &Issue) -> Done {
        match issue.task {
            Task::Nothing | Task::FreeSent => Ok(()),
            Task::Kernel { kernel, layer, adds_gradient, .. } => match issue.op {
                Op::Collective(op) => self.collective(issue, op, kernel, layer),
                _ => self.kernel(issue, kernel, layer, adds_gradient),
            },
            Task::Send => self.send(issue),
            Task::Receive => self.receive(issue),
            Task::FetchParameters => self.fetch_parameters(issue),
            Task::StashActivations | Task::UnstashActivations => self.stash(issue),
            Task::GatherParameters(part) => self.gather_parameters(issue, part),
            Task::ReduceGradient(part) => self.reduce_gradient(issue, part),
            Task::KeepGradient { .. } => self.keep_gradient(issue),
            Task::SumReplicas(_) | Task::SumPartial | Task::SumTied => self.finish_gradients(issue.task),
            Task::CopyWatched { .. }
            | Task::SumWatched { .. }
            | Task::SumWatchedPartial { .. }
            | Task::WatchedSquares { .. }
            | Task::SumWatchedSquares { .. }
            | Task::LossWeight { .. }
            | Task::WeighGradient { .. }
            | Task::WeighFlow { .. }
            | Task::AddGradient { .. } => self.weigh(issue),
            Task::GradientSquares
            | Task::SumSquares
            | Task::ClipFactor
            | Task::CopyScalars
            | Task::HostGradients(_)
            | Task::HostStep(_)
            | Task::HostParameters(_)
            | Task::LoadParameters(_)
            | Task::DeviceStep(_)
            | Task::StoreParameters(_)
            | Task::GatherUpdated(_) => self.optimizer(issue),
        }
    }

    fn kernel(&mut self, issue: &Issue, kernel: Kernel, layer: u16, adds_gradient: bool) -> Done {
        match kernel {
            Kernel::Embed => self.embed(issue, layer),
            Kernel::AddPositions => self.add_positions(issue, layer),
            Kernel::EmbedGradient => self.embed_gradient(issue, layer),
            Kernel::Norm(place) => self.norm(issue, layer, place),
            Kernel::NormGradient(place, into) => {
                if adds_gradient {
                    self.norm_weight(issue, layer, place)?;
                }
                self.norm_gradient(issue, layer, place, into)
            }
            Kernel::NormWeight(place) => self.norm_weight(issue, layer, place),
            Kernel::Linear(matrix) => self.linear(issue, layer, matrix),
            Kernel::InputGradient(matrix, into) => self.input_gradient(issue, layer, matrix, into),
            Kernel::WeightGradient(matrix) => self.weight_gradient(issue, layer, matrix),
            Kernel::Rotary | Kernel::RotaryGradient => self.rotary(issue, layer, kernel),
            Kernel::PackKeysValues => self.pack_keys_values(issue, layer, true),
            Kernel::UnpackKeysValues => self.pack_keys_values(issue, layer, false),
            Kernel::Attention { ring } => self.attention(issue, layer, ring),
            Kernel::AttentionGradient { ring } => self.attention_gradient(issue, layer, ring),
            Kernel::Permute
            | Kernel::Combine
            | Kernel::CombineGradient
            | Kernel::PermuteGradient
            | Kernel::ExpertActivation
            | Kernel::ExpertActivationGradient => self.expert_kernel(issue, kernel, layer),
            Kernel::CrossEntropy { chunk, chunks } => self.cross_entropy(issue, layer, (chunk, chunks)),
            Kernel::Loss => self.loss(issue),
            Kernel::CrossEntropyGradient { chunk, chunks } => {
                self.cross_entropy_gradient(issue, layer, (chunk, chunks))
            }
            Kernel::SquaredError => self.squared_error(issue),
            Kernel::SquaredErrorGradient => self.squared_error_gradient(issue),
            Kernel::Activation
            | Kernel::ActivationGradient
            | Kernel::Residual(_)
            | Kernel::BranchGradient(_)
            | Kernel::Dropout
            | Kernel::DropoutGradient
            | Kernel::Add
            | Kernel::Copy
            | Kernel::Zero
            | Kernel::Quantise
            | Kernel::Dequantise => self.elementwise(issue, kernel, layer),
            Kernel::Planned
            | Kernel::Collective
            | Kernel::GatherStatistics
            | Kernel::ToHeads { .. }
            | Kernel::ToTokens { .. } => Err(ExecuteError::Unsupported(words::kernel(kernel))),
        }
    }

    /// What looks at a number that an instruction has just made: a loss, under `inspect` any output of the forward
    /// pass. Where peers are absent nothing is looked at: their numbers are made up.
    fn check(&mut self, issue: &Issue) -> Done {
        let Task::Kernel { kernel, layer, .. } = issue.task else { return Ok(()) };
        if self.run.settings.peers == Peers::Absent {
            return Ok(());
        }
        let values = match kernel {
            Kernel::Loss | Kernel::SquaredError => self.loss_scalar(issue)?,
            _ if self.run.settings.inspect && writes_activations(kernel) => {
                self.activations(self.written(issue, 0)?)
            }
            _ => return Ok(()),
        };
        let layer = self.unit(issue)?.layers[usize::from(layer)].name.as_str().into();
        self.push(Call::Check { values, kernel, layer });
        Ok(())
    }
}

/// Kernels of the forward pass whose first write is a whole tensor of activations.
const fn writes_activations(kernel: Kernel) -> bool {
    matches!(
        kernel,
        Kernel::Embed
            | Kernel::AddPositions
            | Kernel::Norm(_)
            | Kernel::Linear(_)
            | Kernel::Rotary
            | Kernel::Attention { .. }
            | Kernel::Activation
            | Kernel::ExpertActivation
            | Kernel::Combine
            | Kernel::Residual(_)
            | Kernel::Dropout
    )
}
