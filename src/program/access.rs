//! What an instruction touches beside the buffers of its frame: the memory that a rank keeps over the whole step.

use smallvec::SmallVec;

use crate::lower::Stream;
use crate::ops::Op;
use crate::program::instruction::{Instruction, Owned, RankProgram, Task, UnitBuffers};
use crate::program::schedule::Pass;

/// A part of what a rank keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kept {
    /// Parameters or this rank's shards of them, where the rank stores them.
    Parameters,
    HostParameters,
    /// Whole parameters that were gathered once for the step.
    Gathered,
    /// Gradients, whole or this rank's shards.
    Gradients,
    Moments,
    HostMoments,
    /// Gradients and updated parameters on their way through the host.
    StagedGradients,
    StagedParameters,
    /// Parameters of the host that the device updates.
    UpdatedParameters,
    /// Scratch of kernels.
    Workspace,
    /// Losses of the step's tokens.
    Losses,
    /// Squares of gradients at which adaptive weights look, and the weights that they give.
    WatchedSquares,
    LossWeights,
    /// Squares of the owned gradients, then of all, and what clips by them; what the host knows of them.
    Squares,
    HostScalars,
}

/// One touch of what is kept: of one unit or of all, of some owned elements or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub kept: Kept,
    pub unit: Option<u32>,
    pub owned: Option<Owned>,
    pub writes: bool,
}

impl Access {
    const fn reads(kept: Kept) -> Self {
        Self { kept, unit: None, owned: None, writes: false }
    }

    const fn writes(kept: Kept) -> Self {
        Self { kept, unit: None, owned: None, writes: true }
    }

    const fn of(self, unit: Option<u32>) -> Self {
        Self { unit, ..self }
    }

    /// Whether the two must not happen at the same time.
    pub fn conflicts(&self, other: &Self) -> bool {
        if self.kept != other.kept || !(self.writes || other.writes) {
            return false;
        }
        let meet = |one: Option<u32>, other: Option<u32>| one.is_none() || other.is_none() || one == other;
        let overlap = match (self.owned, other.owned) {
            (Some(one), Some(other)) => one.start < other.end && other.start < one.end,
            _ => true,
        };
        meet(self.unit, other.unit) && overlap
    }
}

/// A few accesses.
pub type Accesses = SmallVec<[Access; 4]>;

/// What accesses touch at all, as a set of bits each for what is read or written, and for what is written: a quick look
/// before a close one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Touched {
    all: u32,
    written: u32,
}

impl Touched {
    pub(super) fn of(accesses: &Accesses) -> Self {
        let mut touched = Self::default();
        for access in accesses {
            touched.all |= 1 << access.kept as u32;
            touched.written |= u32::from(access.writes) << access.kept as u32;
        }
        touched
    }

    /// Whether any of both may conflict.
    pub(super) const fn may_conflict(self, other: Self) -> bool {
        self.written & other.all | self.all & other.written != 0
    }
}

/// What of a rank says where its instructions find parameters and gradients.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// Buffers of the units in the template's frame.
    pub units: &'a [UnitBuffers],
    /// Units that use the table of another unit of the rank, and whose.
    pub lenders: &'a [(u32, u32)],
    /// Parameters are gathered once a step.
    pub gathers_once: bool,
    pub pass: Option<Pass>,
}

impl RankProgram {
    /// Where the instructions of template `template` find parameters and gradients.
    pub fn standing(&self, template: usize) -> Standing<'_> {
        let template = &self.templates[template];
        Standing {
            units: &self.frames[template.frame as usize].units,
            lenders: &self.lenders,
            gathers_once: self.gathers_once,
            pass: template.pass,
        }
    }
}

impl Standing<'_> {
    /// What `instruction` touches of what its rank keeps.
    pub fn accesses(&self, instruction: &Instruction) -> Accesses {
        use Kept::*;
        let unit = instruction.unit;
        let lender = self.lenders.iter().find(|(borrower, _)| Some(*borrower) == unit).map(|pair| pair.1);
        let buffers = self.units.iter().find(|buffers| Some(buffers.unit) == unit);
        let gradient = buffers.and_then(UnitBuffers::own_gradient);
        let has_gradient = gradient.is_some_and(|gradient| instruction.writes.contains(&gradient));
        let mut list = Accesses::new();
        // A unit's and that of the table it borrows.
        let both = |list: &mut Accesses, access: Access| {
            list.push(access.of(unit));
            list.extend(lender.map(|lender| access.of(Some(lender))));
        };
        match instruction.task {
            Task::Kernel { .. } if matches!(instruction.op, Op::Collective(_)) => {}
            Task::Kernel { kernel, adds_gradient, .. } => {
                if instruction.stream == Stream::Compute {
                    list.push(Access::writes(Workspace));
                }
                // Parameters are read where they were gathered, else where they were fetched, else where they are stored.
                let is_gathered = buffers.is_some_and(|buffers| buffers.gathered.is_some());
                let is_fetched = buffers.is_some_and(|buffers| buffers.fetched.is_some());
                if self.gathers_once {
                    both(&mut list, Access::reads(Gathered));
                } else if !is_gathered && !is_fetched {
                    both(&mut list, Access::reads(Parameters));
                }
                if self.pass == Some(Pass::Weight) {
                    // Weight gradients read activations and gradients alone.
                    list.retain(|access| access.writes);
                }
                if adds_gradient && !has_gradient {
                    both(&mut list, Access::writes(Gradients));
                }
                if kernel.counts_loss() {
                    list.push(Access::writes(Losses));
                }
            }
            Task::FetchParameters => list.push(Access::reads(HostParameters).of(unit)),
            Task::GatherParameters(_) => {
                if buffers.is_none_or(|buffers| buffers.fetched.is_none()) {
                    both(&mut list, Access::reads(Parameters));
                }
                if self.gathers_once {
                    list.push(Access::writes(Gathered).of(unit));
                }
            }
            Task::ReduceGradient(_) if !has_gradient => list.push(Access::writes(Gradients).of(unit)),
            Task::KeepGradient { .. } => both(&mut list, Access::writes(Gradients)),
            Task::AddGradient { .. } => {
                both(&mut list, Access::writes(Gradients));
                list.push(Access::reads(LossWeights));
            }
            Task::WatchedSquares { watch } | Task::SumWatchedSquares { watch } => {
                list.push(Access::writes(WatchedSquares).of(Some(u32::from(watch))));
                if matches!(instruction.task, Task::WatchedSquares { .. }) {
                    list.push(Access::writes(Workspace));
                }
            }
            Task::GatherUpdated(_) => {
                list.extend([Parameters, HostParameters].map(|kept| Access::writes(kept).of(unit)));
            }
            _ => {}
        }
        let (owned, reads, writes): (_, &[Kept], &[Kept]) = match instruction.task {
            Task::WeighGradient { .. } | Task::WeighFlow { .. } => (None, &[LossWeights], &[]),
            Task::LossWeight { .. } => (None, &[WatchedSquares], &[LossWeights]),
            Task::SumWatchedPartial { .. } => (None, &[], &[Workspace]),
            Task::SumReplicas(_) | Task::SumTied => (None, &[], &[Gradients]),
            Task::SumPartial => (None, &[], &[Gradients, Workspace]),
            Task::GradientSquares => (None, &[Gradients], &[Squares, Workspace]),
            Task::SumSquares | Task::ClipFactor => (None, &[], &[Squares]),
            Task::CopyScalars => (None, &[Squares], &[HostScalars]),
            Task::HostGradients(owned) => (Some(owned), &[Gradients], &[StagedGradients]),
            Task::HostStep(owned) => {
                let writes = &[HostMoments, StagedParameters, HostParameters];
                (Some(owned), &[StagedGradients, HostScalars], writes)
            }
            Task::HostParameters(owned) => (Some(owned), &[StagedParameters], &[Parameters]),
            Task::LoadParameters(owned) => (Some(owned), &[HostParameters], &[UpdatedParameters]),
            Task::DeviceStep(owned) => {
                (Some(owned), &[Gradients, Squares], &[Moments, Parameters, UpdatedParameters])
            }
            Task::StoreParameters(owned) => (Some(owned), &[UpdatedParameters], &[HostParameters]),
            _ => (None, &[], &[]),
        };
        let touched = reads.iter().map(|&kept| Access::reads(kept));
        let touched = touched.chain(writes.iter().map(|&kept| Access::writes(kept)));
        list.extend(touched.map(|access| Access { owned, ..access }));
        list
    }
}
