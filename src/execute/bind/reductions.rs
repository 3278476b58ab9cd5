//! Parameters that come from their shards, gradients that are summed: collectives over a unit's sections.

use super::collectives::sum_of;
use super::{Binder, Done};
use crate::execute::call::{Call, Exchange, View};
use crate::execute::comm::Reduction;
use crate::execute::error::ExecuteError;
use crate::execute::ranks::layout::Section;
use crate::execute::ranks::placement::Issue;
use crate::execute::ranks::unit::Unit;
use crate::ops::{Collective, CollectiveKind, Group, Op};
use crate::program::instruction::{Holds, Part, Task};
use crate::program::placing::Region;

impl<'a> Binder<'a> {
    /// Whole sections of the unit's parameters from all ranks' shards.
    pub(super) fn gather_parameters(&mut self, issue: &Issue, part: Part) -> Done {
        let unit = self.unit(issue)?;
        let whole = self.whole_parameters(issue)?;
        let size = (unit.tensors.total(), self.types.compute.size());
        self.check_size(unit, whole.region, Holds::GatheredParameters, size)?;
        let fetched = issue.reads.first().copied();
        for section in sections(part) {
            let tensors = &unit.tensors;
            let length = tensors.length(section);
            if length == 0 {
                continue;
            }
            let start = tensors.whole_start(section);
            let to = self.part(issue, whole, start..start + length)?;
            let from = match fetched {
                Some(fetched) => fetched,
                None => self.stored_on_device(issue, unit)?,
            };
            self.gather_section(issue, (unit, section), from, to)?;
        }
        if part == Part::Dense
            && let Some(lender) = unit.borrows_from
            && unit.tensors.borrowed > 0
            && whole.len() > unit.tensors.total()
        {
            let lender = &self.rank.units[lender];
            let start = unit.tensors.total();
            let to = self.part(issue, whole, start..start + unit.tensors.borrowed)?;
            let from = self.stored_on_device(issue, lender)?;
            self.gather_section(issue, (lender, lender.tensors.table()), from, to)?;
        }
        Ok(())
    }

    /// This rank's shards of the parameters of `unit`.
    fn stored_on_device(&self, issue: &Issue, unit: &Unit) -> Result<Region, ExecuteError> {
        let stored = (!unit.offloads_parameters).then_some(unit.state.parameters);
        self.need(issue, "the stored parameters", stored)
    }

    /// `to` becomes all shards of `section` of `unit`, whose own shards lie in `from`.
    fn gather_section(
        &mut self,
        issue: &Issue,
        (unit, section): (&Unit, Section),
        from: Region,
        to: View,
    ) -> Done {
        let tensors = &unit.tensors;
        let shard = tensors.shard(section, self.rank.shard_index(section));
        let start = tensors.shard_start(section);
        let own = self.part(issue, self.activations(from), start..start + shard.len())?;
        if tensors.shards_of(section) == 1 {
            self.push(Call::Copy { from: own, to });
            return Ok(());
        }
        let group = state_group(section.part());
        self.push(Call::Collective { group, exchange: Exchange::AllGather { own, whole: to } });
        Ok(())
    }

    /// One collective of a unit's gradient, in place. Where micro-batches go on adding to what was summed, what
    /// other ranks will add again is taken away: all but the own shard, or all but this rank's share.
    pub(super) fn reduce_gradient(&mut self, issue: &Issue, part: Part) -> Done {
        let unit = self.unit(issue)?;
        let gradient = self.whole_gradient(issue)?;
        let op = self.collective_of(issue)?;
        let is_last_micro = u64::from(issue.micro) + 1 == self.run.strategy.accumulation;
        let adds_up = self.run.rules.keeps_whole_gradients && !is_last_micro;
        let wire = self.run.rules.reduce;
        let members = self.rank.members(op.group).len();
        let share = Reduction { wire, scale: adds_up.then(|| 1.0 / members as f64) };
        for (owner, section, whole) in self.gradient_sections(issue, unit, gradient, part)? {
            let own = owner.tensors.shard(section, self.rank.shard_index(section));
            let exchange = match op.kind {
                CollectiveKind::ReduceScatter => {
                    Exchange::ReduceScatterInPlace { whole, reduction: Reduction::sum(wire) }
                }
                _ if self.run.rules.zero == 0 => Exchange::AllReduce { data: whole, reduction: share },
                _ => {
                    let data = self.part(issue, whole, own.clone())?;
                    Exchange::AllReduce { data, reduction: share }
                }
            };
            self.push(Call::Collective { group: op.group, exchange });
            if adds_up && op.kind == CollectiveKind::ReduceScatter {
                for others in [0..own.start, own.end..whole.len()] {
                    let to = self.part(issue, whole, others)?;
                    self.push(Call::Zero { to });
                }
            }
        }
        Ok(())
    }

    /// The trained sections of `part` in a whole gradient of `unit`, with the unit whose they are: a borrowed table
    /// lies behind the own ones.
    fn gradient_sections(
        &self,
        issue: &Issue,
        unit: &'a Unit,
        gradient: View,
        part: Part,
    ) -> Result<Vec<(&'a Unit, Section, View)>, ExecuteError> {
        let tensors = &unit.tensors;
        let mut list = Vec::new();
        for section in sections(part) {
            let length = tensors.length(section);
            if section.is_trained() && length > 0 {
                let start = tensors.gradient_start(section);
                list.push((unit, section, self.part(issue, gradient, start..start + length)?));
            }
        }
        if part == Part::Dense
            && let Some(lender) = unit.borrows_from
            && tensors.borrowed > 0
            && gradient.len() > tensors.trained()
        {
            let start = tensors.trained();
            let view = self.part(issue, gradient, start..start + tensors.borrowed)?;
            list.push((&self.rank.units[lender], Section::Table, view));
        }
        Ok(list)
    }

    /// The unit's reduced gradient, from its own buffer into this rank's shard.
    pub(super) fn keep_gradient(&mut self, issue: &Issue) -> Done {
        let unit = self.unit(issue)?;
        let gradient = self.whole_gradient(issue)?;
        for part in [Part::Dense, Part::Expert] {
            for (owner, section, whole) in self.gradient_sections(issue, unit, gradient, part)? {
                let own = owner.tensors.shard(section, self.rank.shard_index(section));
                let from = self.part(issue, whole, own.clone())?;
                let to = self.rank.owned_gradient(owner, section, own);
                self.push(if self.replaces(issue, owner, section) {
                    Call::Copy { from, to }
                } else {
                    Call::Add { from, to }
                });
            }
        }
        Ok(())
    }

    /// Sums of the step: shards over replicas, partial sums of tensor ranks, tied tables.
    pub(super) fn finish_gradients(&mut self, task: Task) -> Done {
        let rank = self.rank;
        let wire = self.run.rules.reduce;
        for unit in &rank.units {
            for section in Section::TRAINED {
                let own = unit.tensors.shard(section, rank.shard_index(section));
                if own.is_empty() {
                    continue;
                }
                let owned = |range| rank.owned_gradient(unit, section, range);
                match task {
                    Task::SumReplicas(part) if part == section.part() => {
                        let (data, group) = (owned(own), replica_group(part));
                        let exchange = Exchange::AllReduce { data, reduction: Reduction::sum(wire) };
                        self.push(Call::Collective { group, exchange });
                    }
                    Task::SumTied if section == Section::Table => {
                        let data = owned(own);
                        let exchange = Exchange::AllReduce { data, reduction: sum_of(data) };
                        self.push(Call::Collective { group: Group::Tied, exchange });
                    }
                    Task::SumPartial if section == Section::Dense => {
                        for tensor in unit.tensors.tensors.iter().filter(|tensor| tensor.partial) {
                            let start = tensor.start.max(own.start);
                            let end = (tensor.start + tensor.elements()).min(own.end);
                            if start >= end {
                                continue;
                            }
                            let data = owned(start..end);
                            let kind = &unit.layers[tensor.layer as usize].kind;
                            let copies = tensor.copies(kind, rank.slot.tensors) as usize;
                            self.sum_copies(data, copies);
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The sum over runs of `copies` neighbours of the tensor group.
    pub(super) fn sum_copies(&mut self, data: View, copies: usize) {
        let exchange = if copies == self.rank.members(Group::Tensor).len() {
            Exchange::AllReduce { data, reduction: sum_of(data) }
        } else {
            Exchange::SumNeighbours { data, copies, scratch: self.workspace() }
        };
        self.push(Call::Collective { group: Group::Tensor, exchange });
    }

    /// The collective that an instruction is.
    pub(super) fn collective_of(&self, issue: &Issue) -> Result<Collective, ExecuteError> {
        match issue.op {
            Op::Collective(op) => Ok(op),
            _ => Err(self.missing(issue, "its collective")),
        }
    }
}

/// The group that shards the state of `part`.
pub(super) const fn state_group(part: Part) -> Group {
    match part {
        Part::Dense => Group::State,
        Part::Expert => Group::ExpertState,
    }
}

/// The group that holds the same shards of `part`.
const fn replica_group(part: Part) -> Group {
    match part {
        Part::Dense => Group::Replica,
        Part::Expert => Group::ExpertReplica,
    }
}

/// The sections of `part`, in their order.
fn sections(part: Part) -> impl Iterator<Item = Section> {
    Section::ALL.into_iter().filter(move |section| section.part() == part)
}
