//! Parameters that come from their shards, gradients that are summed: collectives over a unit's sections.

use super::Done;
use crate::execute::arena::Region;
use crate::execute::comm::Reduction;
use crate::execute::element::{Element, Real};
use crate::execute::error::ExecuteError;
use crate::execute::kernels::residual;
use crate::execute::layout::Section;
use crate::execute::placement::Issue;
use crate::execute::rank::Unit;
use crate::execute::worker::Worker;
use crate::ops::{CollectiveKind, Group};
use crate::program::instruction::{Holds, Part, Task};

impl<'r, T: Element, G: Element<Wide = T::Wide>> Worker<'r, T, G> {
    /// Whole sections of the unit's parameters from all ranks' shards.
    pub(in crate::execute) fn gather_parameters(&mut self, issue: &Issue, part: Part) -> Done {
        let rank = self.rank;
        let unit = self.unit(issue)?;
        let whole = self.need(issue, "the buffer of whole parameters", issue.parameters)?;
        self.check_size(unit, whole, Holds::GatheredParameters, (unit.tensors.total(), size_of::<T>()))?;
        let is_offloaded = issue.reads.first().copied();
        for section in sections(part) {
            let tensors = &unit.tensors;
            let length = tensors.length(section);
            if length == 0 {
                continue;
            }
            let to = whole.elements(tensors.whole_start(section), length, size_of::<T>());
            let from = match is_offloaded {
                Some(fetched) => fetched,
                None => self.stored_on_device(issue, unit)?,
            };
            self.gather_section(unit, section, from, to)?;
        }
        if part == Part::Dense
            && let Some(lender) = unit.borrows_from
            && unit.tensors.borrowed > 0
            && whole.bytes > unit.tensors.total() * size_of::<T>()
        {
            let lender = &rank.units[lender];
            let to = whole.elements(unit.tensors.total(), unit.tensors.borrowed, size_of::<T>());
            let from = self.stored_on_device(issue, lender)?;
            self.gather_section(lender, lender.tensors.table(), from, to)?;
        }
        Ok(())
    }

    /// This rank's shards of the parameters of `unit`.
    fn stored_on_device(&self, issue: &Issue, unit: &Unit) -> Result<Region, ExecuteError> {
        let stored = (!unit.offloads_parameters).then_some(unit.state.parameters);
        self.need(issue, "the stored parameters", stored)
    }

    /// `to` becomes all shards of `section` of `unit`, whose own shards lie in `from`.
    fn gather_section(&mut self, unit: &Unit, section: Section, from: Region, to: Region) -> Done {
        let tensors = &unit.tensors;
        let own = tensors.shard(section, self.rank.shard_index(section));
        let own = from.elements(tensors.shard_start(section), own.len(), size_of::<T>());
        // The shard was written by the last step, the whole is this instruction's.
        let (own, whole) = (self.read::<T>(own), self.write::<T>(to));
        if tensors.shards_of(section) == 1 {
            whole.copy_from_slice(own);
            return Ok(());
        }
        let group = self.state_group(section.part());
        Ok(self.endpoint(group).all_gather_from(own, whole)?)
    }

    /// One collective of a unit's gradient, in place. Where micro-batches go on adding to what was summed, what
    /// other ranks will add again is taken away: all but the own shard, or all but this rank's share.
    pub(in crate::execute) fn reduce_gradient(&mut self, issue: &Issue, part: Part) -> Done {
        let unit = self.unit(issue)?;
        let gradient = self.need(issue, "the buffer of its gradient", issue.gradient)?;
        let op = self.collective_of(issue)?;
        let adds_up = self.run.rules.keeps_whole_gradients && !self.is_last_micro(issue);
        let wire = self.run.rules.reduce;
        let members = self.endpoint(op.group).members().len();
        let share = Reduction { wire, scale: adds_up.then(|| 1.0 / members as f64) };
        for (owner, section, region) in self.gradient_sections(unit, gradient, part) {
            let own = owner.tensors.shard(section, self.rank.shard_index(section));
            match op.kind {
                CollectiveKind::ReduceScatter => {
                    let whole = self.write::<G>(region);
                    self.endpoint(op.group).reduce_scatter(whole, Reduction::sum(wire))?;
                    if adds_up {
                        whole[..own.start].fill(G::default());
                        whole[own.end..].fill(G::default());
                    }
                }
                _ if self.run.rules.zero == 0 => {
                    let whole = self.write::<G>(region);
                    self.endpoint(op.group).all_reduce(whole, share)?;
                }
                _ => {
                    let own = region.elements(own.start, own.len(), size_of::<G>());
                    let own = self.write::<G>(own);
                    self.endpoint(op.group).all_reduce(own, share)?;
                }
            }
        }
        Ok(())
    }

    /// The trained sections of `part` in a whole gradient of `unit`, with the unit whose they are: a borrowed table
    /// lies behind the own ones.
    fn gradient_sections<'u>(
        &self,
        unit: &'u Unit,
        gradient: Region,
        part: Part,
    ) -> Vec<(&'u Unit, Section, Region)>
    where
        'r: 'u,
    {
        let tensors = &unit.tensors;
        let mut list: Vec<_> = sections(part)
            .filter(|section| section.is_trained() && tensors.length(*section) > 0)
            .map(|section| {
                let start = tensors.gradient_start(section);
                (unit, section, gradient.elements(start, tensors.length(section), size_of::<G>()))
            })
            .collect();
        if part == Part::Dense
            && let Some(lender) = unit.borrows_from
            && tensors.borrowed > 0
            && gradient.bytes > tensors.trained() * size_of::<G>()
        {
            let region = gradient.elements(tensors.trained(), tensors.borrowed, size_of::<G>());
            list.push((&self.rank.units[lender], Section::Table, region));
        }
        list
    }

    /// The unit's reduced gradient, from its own buffer into this rank's shard.
    pub(in crate::execute) fn keep_gradient(&mut self, issue: &Issue) -> Done {
        let unit = self.unit(issue)?;
        let gradient = self.need(issue, "the buffer of its gradient", issue.gradient)?;
        for part in [Part::Dense, Part::Expert] {
            for (owner, section, region) in self.gradient_sections(unit, gradient, part) {
                let own = owner.tensors.shard(section, self.rank.shard_index(section));
                let from = region.elements(own.start, own.len(), size_of::<G>());
                let to = self.rank.owned_gradient(owner, (section, own), (false, size_of::<G>()));
                let (from, to) = (self.read::<G>(from), self.write::<G>(to));
                if self.replaces(issue, owner, section) {
                    to.copy_from_slice(from);
                } else {
                    residual::add(self.pool, from, to);
                }
            }
        }
        Ok(())
    }

    /// Sums of the step: shards over replicas, partial sums of tensor ranks, tied tables.
    pub(in crate::execute) fn finish_gradients(&mut self, task: Task) -> Done {
        let rank = self.rank;
        let keeps_whole = self.run.rules.keeps_whole_gradients;
        let wire = self.run.rules.reduce;
        for unit in &rank.units {
            for section in Section::TRAINED {
                let own = unit.tensors.shard(section, rank.shard_index(section));
                if own.is_empty() {
                    continue;
                }
                let place = (keeps_whole, size_of::<G>());
                match task {
                    Task::SumReplicas(part) if part == section.part() => {
                        let region = rank.owned_gradient(unit, (section, own), place);
                        let group = self.replica_group(part);
                        let data = self.write::<G>(region);
                        self.endpoint(group).all_reduce(data, Reduction::sum(wire))?;
                    }
                    Task::SumTied if section == Section::Table => {
                        let region = rank.owned_gradient(unit, (section, own), place);
                        let data = self.write::<G>(region);
                        self.endpoint(Group::Tied).all_reduce(data, Reduction::sum(G::TYPE))?;
                    }
                    Task::SumPartial if section == Section::Dense => {
                        for tensor in unit.tensors.tensors.iter().filter(|tensor| tensor.partial) {
                            let start = tensor.start.max(own.start);
                            let end = (tensor.start + tensor.elements()).min(own.end);
                            if start >= end {
                                continue;
                            }
                            let region = rank.owned_gradient(unit, (section, start..end), place);
                            let kind = &unit.layers[tensor.layer as usize].kind;
                            let copies = tensor.copies(kind, rank.slot.tensors) as usize;
                            self.sum_copies(region, copies)?;
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The sum over runs of `copies` neighbours of the tensor group.
    pub(super) fn sum_copies(&mut self, region: Region, copies: usize) -> Done {
        let data = self.write::<G>(region);
        let endpoint = self.endpoint(Group::Tensor);
        if copies == endpoint.members().len() {
            return Ok(endpoint.all_reduce(data, Reduction::sum(G::TYPE))?);
        }
        let first = endpoint.member() / copies * copies;
        let scratch = self.workspace();
        let count = scratch.len();
        for piece in data.chunks_mut(count.max(1)) {
            let sums = &mut scratch[..piece.len()];
            sums.fill(T::Wide::ZERO);
            self.endpoint(Group::Tensor).exchange(piece, |member, theirs| {
                if (first..first + copies).contains(&member) {
                    sums.iter_mut().zip(theirs).for_each(|(sum, value)| *sum += value.wide());
                }
            })?;
            piece.iter_mut().zip(&*sums).for_each(|(value, sum)| *value = G::narrow(*sum));
        }
        Ok(())
    }
}

/// The sections of `part`, in their order.
fn sections(part: Part) -> impl Iterator<Item = Section> {
    Section::ALL.into_iter().filter(move |section| section.part() == part)
}
