//! Operands of instructions: views of what they read and write, of their unit's parameters and gradients, of numbers of
//! the step.

use std::ops::Range;

use super::Binder;
use crate::execute::call::{Target, View};
use crate::execute::error::ExecuteError;
use crate::execute::observe::words;
use crate::execute::ranks::layout::Section;
use crate::execute::ranks::placement::Issue;
use crate::execute::ranks::unit::Unit;
use crate::execute::storage::Storage;
use crate::lower::kernel::Into;
use crate::model::layer::LayerKind;
use crate::model::roles::Role;
use crate::program::instruction::{Holds, Task};
use crate::program::placing::Region;
use crate::program::scalars::Scalar;

impl<'a> Binder<'a> {
    /// `region` of the device as activations, as what sums are taken in, as gradients, as bytes.
    pub(super) const fn activations(&self, region: Region) -> View {
        View::device(region, self.types.compute)
    }

    pub(super) const fn wide(&self, region: Region) -> View {
        View::device(region, self.types.wide)
    }

    pub(super) const fn gradients(&self, region: Region) -> View {
        View::device(region, self.types.gradient)
    }

    pub(super) const fn bytes(&self, region: Region) -> View {
        View::device(region, Storage::Byte)
    }

    /// What `issue` reads `place`-th.
    pub(super) fn read(&self, issue: &Issue, place: usize) -> Result<Region, ExecuteError> {
        self.need(issue, "what it reads", issue.reads.get(place).copied())
    }

    /// What `issue` writes `place`-th.
    pub(super) fn written(&self, issue: &Issue, place: usize) -> Result<Region, ExecuteError> {
        self.need(issue, "what it writes", issue.writes.get(place).copied())
    }

    /// Elements `range` of `view`.
    pub(super) fn part(&self, issue: &Issue, view: View, range: Range<usize>) -> Result<View, ExecuteError> {
        if range.end > view.len() {
            return Err(self.too_short(issue, view.region.bytes, range.end * view.storage.size()));
        }
        let region = view.region.elements(range.start, range.len(), view.storage.size());
        Ok(View { region, ..view })
    }

    /// The error that an operand has `found` bytes where `needed` are.
    pub(super) fn too_short(&self, issue: &Issue, found: usize, needed: usize) -> ExecuteError {
        let (rank, task) = (self.rank.index, words::task(issue.task));
        ExecuteError::Operand { rank, task, unit: issue.unit, found, needed }
    }

    /// The unit that an instruction works for.
    pub(super) fn unit(&self, issue: &Issue) -> Result<&'a Unit, ExecuteError> {
        let place = issue.unit.and_then(|unit| self.rank.place_of(unit));
        Ok(&self.rank.units[self.need(issue, "its unit on this rank", place)?])
    }

    pub(super) fn layer(&self, issue: &Issue, layer: u16) -> Result<&'a LayerKind, ExecuteError> {
        Ok(&self.unit(issue)?.layers[usize::from(layer)].kind)
    }

    /// Elements of a row of the residual stream.
    pub(super) fn width(&self, issue: &Issue, number: u16) -> Result<usize, ExecuteError> {
        let width = match self.layer(issue, number)? {
            LayerKind::Embedding(layer) => layer.hidden,
            LayerKind::Attention(layer) => layer.hidden,
            LayerKind::Mlp(layer) => layer.hidden,
            LayerKind::Moe(layer) => layer.hidden,
            LayerKind::Head(layer) => layer.hidden,
            LayerKind::Loss(_) => return Err(self.missing(issue, "a layer of the residual stream")),
        };
        Ok(width as usize)
    }

    /// A buffer of a unit has `own` elements of `size` bytes, and those of a borrowed table behind them or not.
    pub(super) fn check_size(
        &self,
        unit: &Unit,
        region: Region,
        holds: Holds,
        (own, size): (usize, usize),
    ) -> Result<(), ExecuteError> {
        let needed = own * size;
        if region.bytes == needed || region.bytes == needed + unit.tensors.borrowed * size {
            return Ok(());
        }
        let (rank, found) = (self.rank.index, region.bytes);
        Err(ExecuteError::State { rank, unit: unit.index, holds, found, needed })
    }

    /// What was `found`: an instruction of a verified program never lacks it.
    pub(super) fn need<V>(&self, issue: &Issue, what: &str, found: Option<V>) -> Result<V, ExecuteError> {
        found.ok_or_else(|| self.missing(issue, what))
    }

    pub(super) fn missing(&self, issue: &Issue, what: &str) -> ExecuteError {
        let (rank, what) = (self.rank.index, what.to_owned());
        ExecuteError::Missing { rank, task: words::task(issue.task), unit: issue.unit, what }
    }

    /// The whole parameters of the instruction's unit.
    pub(super) fn whole_parameters(&self, issue: &Issue) -> Result<View, ExecuteError> {
        Ok(self.activations(self.need(issue, "the buffer of whole parameters", issue.parameters)?))
    }

    /// The gradient that the instruction adds to or sums.
    pub(super) fn whole_gradient(&self, issue: &Issue) -> Result<View, ExecuteError> {
        Ok(self.gradients(self.need(issue, "the buffer of its gradient", issue.gradient)?))
    }

    /// `role` of layer `layer` among the whole parameters of the instruction's unit; none where the layer has no such
    /// weight.
    pub(super) fn parameter(
        &self,
        issue: &Issue,
        layer: u16,
        role: Role,
    ) -> Result<Option<View>, ExecuteError> {
        let unit = self.unit(issue)?;
        let Some(tensor) = unit.tensors.tensor(layer, role) else { return Ok(None) };
        let start = unit.tensors.whole_start(tensor.section) + tensor.start;
        let whole = self.whole_parameters(issue)?;
        self.part(issue, whole, start..start + tensor.elements()).map(Some)
    }

    /// As [`Self::parameter`], of a weight that the kernel cannot do without.
    pub(super) fn weight(&self, issue: &Issue, layer: u16, role: Role) -> Result<View, ExecuteError> {
        self.need(issue, role.name(), self.parameter(issue, layer, role)?)
    }

    /// The gradient of `role` of layer `layer`, and whether it replaces what is there; none where the layer has no
    /// such weight, or a frozen one.
    pub(super) fn gradient(
        &self,
        issue: &Issue,
        layer: u16,
        role: Role,
    ) -> Result<Option<Target>, ExecuteError> {
        let unit = self.unit(issue)?;
        let tensor = unit.tensors.tensor(layer, role).filter(|tensor| tensor.section.is_trained());
        let Some(tensor) = tensor else { return Ok(None) };
        let start = unit.tensors.gradient_start(tensor.section) + tensor.start;
        let whole = self.whole_gradient(issue)?;
        let view = self.part(issue, whole, start..start + tensor.elements())?;
        // A buffer of the pass starts at zero; what is kept over the step starts anew with its first gradient.
        let kept = self.rank.state(Holds::Gradients, Some(unit.index)).map(|state| state.device);
        let is_kept = kept.is_some() && kept == issue.gradient;
        let replaces = is_kept && self.replaces(issue, unit, tensor.section);
        Ok(Some(Target { view, write: if replaces { Into::Set } else { Into::Add } }))
    }

    /// As [`Self::gradient`], of a weight that the kernel cannot do without.
    pub(super) fn needed_gradient(
        &self,
        issue: &Issue,
        layer: u16,
        role: Role,
    ) -> Result<Target, ExecuteError> {
        let gradient = self.gradient(issue, layer, role)?;
        self.need(issue, role.name(), gradient)
    }

    /// Whether what `issue` adds to the gradient of `section` of `unit`, which is kept over the step, replaces what is
    /// there.
    pub(super) fn replaces(&self, issue: &Issue, unit: &Unit, section: Section) -> bool {
        let starts = match issue.task {
            Task::Kernel { starts, .. }
            | Task::KeepGradient { starts }
            | Task::AddGradient { starts, .. } => starts,
            _ => false,
        };
        // A table that is lent is started by one of those that share it.
        let is_lent = section == Section::Table
            && self.rank.units.iter().any(|other| {
                other.borrows_from.is_some_and(|place| self.rank.units[place].index == unit.index)
            });
        starts && issue.micro == 0 && (!is_lent || self.rank.placement.table_starts_with == issue.unit)
    }

    /// Scratch of the compute stream's kernels.
    pub(super) fn workspace(&self) -> View {
        self.wide(self.rank.region(Holds::Workspace))
    }

    /// A number of the step.
    pub(super) fn scalar(&self, scalar: Scalar) -> View {
        self.rank.scalar(scalar)
    }

    /// Ids of the instruction's micro-batch.
    pub(super) fn ids(&self, issue: &Issue, holds: Holds) -> Result<View, ExecuteError> {
        let count = self.run.strategy.micro_batch as usize * self.run.local_tokens();
        let ids = self.need(issue, "the buffer of token ids", self.rank.state(holds, None))?;
        let start = issue.micro as usize * count;
        self.part(issue, View::device(ids.device, Storage::Index), start..start + count)
    }

    /// What tells the dropouts of a step apart: the layer, and which of its dropouts.
    pub(super) fn site(&self, issue: &Issue, layer: u16, kind: u64) -> Result<u64, ExecuteError> {
        let first = self.unit(issue)?.tensors.first_layer;
        Ok((first as u64 + u64::from(layer)) * 2 + kind)
    }

    /// The first sequence of the instruction's micro-batch, in the whole batch.
    pub(super) fn first_sequence(&self, issue: &Issue) -> u64 {
        let strategy = &self.run.strategy;
        (self.rank.data_rank * strategy.accumulation + u64::from(issue.micro)) * strategy.micro_batch
    }
}
