//! The optimizer step: the gradient's norm, AdamW on device and host, parameters on their way back.

use super::collectives::sum_of;
use super::reductions::state_group;
use super::{Binder, Done};
use crate::execute::call::{AdamWCall, Call, Exchange, Update, View};
use crate::execute::comm::Peers;
use crate::execute::error::ExecuteError;
use crate::execute::ranks::layout::Section;
use crate::execute::ranks::placement::Issue;
use crate::execute::ranks::places::Plane;
use crate::execute::ranks::state::Piece;
use crate::program::instruction::{Owned, Part, Task};
use crate::program::scalars::Scalar;

impl Binder<'_> {
    /// One task of the optimizer step.
    pub(super) fn optimizer(&mut self, issue: &Issue) -> Done {
        match issue.task {
            Task::GradientSquares => {
                let counted = self.rank.pieces.iter().filter(|piece| piece.counts);
                let parts = counted.map(|piece| self.gradient_of(piece)).collect();
                self.push(Call::Squares { parts, squares: self.scalar(Scalar::Squares) });
            }
            Task::SumSquares => {
                let (data, group) = (self.scalar(Scalar::Squares), self.collective_of(issue)?.group);
                let exchange = Exchange::AllReduce { data, reduction: sum_of(data) };
                self.push(Call::Collective { group, exchange });
            }
            Task::ClipFactor => {
                let (squares, clip) = (self.scalar(Scalar::Squares), self.scalar(Scalar::Clip));
                self.push(Call::ClipFactor { squares, limit: self.run.workload.clip, clip });
            }
            Task::CopyScalars => {
                let [from, to] = self.rank.scalar_heads();
                self.push(Call::Copy { from, to });
            }
            Task::HostGradients(owned) => self.host_gradients(owned),
            Task::HostStep(owned) => self.host_step(owned),
            Task::HostParameters(owned) => self.host_parameters(owned),
            Task::LoadParameters(owned) => {
                let updated = self.activations(self.written(issue, 0)?);
                for (home, staged) in self.updated(issue, owned, updated)? {
                    self.push(Call::Copy { from: home, to: staged });
                }
            }
            Task::DeviceStep(owned) => self.device_step(issue, owned)?,
            Task::StoreParameters(owned) => {
                let updated = self.activations(self.read(issue, 0)?);
                for (home, staged) in self.updated(issue, owned, updated)? {
                    self.push(Call::Copy { from: staged, to: home });
                }
            }
            Task::GatherUpdated(part) => self.gather_updated(part),
            _ => return Err(self.missing(issue, "its part of the optimizer step")),
        }
        Ok(())
    }

    fn gradient_of(&self, piece: &Piece) -> View {
        self.rank.owned_gradient(&self.rank.units[piece.unit], piece.section, piece.range.clone())
    }

    fn pieces_within(&self, owned: Owned) -> Vec<Piece> {
        self.rank.pieces.iter().filter_map(|piece| piece.within(owned)).collect()
    }

    /// Where the parameters of `piece` are stored.
    fn home(&self, piece: &Piece) -> View {
        self.rank.stored(&self.rank.units[piece.unit], piece.section, piece.range.clone())
    }

    /// AdamW over what the host owns: gradients are staged there, and parameters where they do not live there.
    fn host_step(&mut self, owned: Owned) {
        for piece in self.pieces_within(owned) {
            let (gradient, staged) = self.rank.staged(&piece);
            let parameters = if self.is_on_host(&piece) { self.home(&piece) } else { staged };
            self.update(&piece, true, gradient, parameters);
        }
    }

    /// AdamW over what the device owns: parameters that live on the host are staged in a buffer of the instruction.
    fn device_step(&mut self, issue: &Issue, owned: Owned) -> Done {
        let updated = issue.writes.last().map(|region| self.activations(*region));
        let staged = updated.map(|updated| self.updated(issue, owned, updated)).transpose()?;
        let mut staged = staged.unwrap_or_default().into_iter();
        for piece in self.pieces_within(owned) {
            let parameters = if self.is_on_host(&piece) {
                self.need(issue, "its staged parameters", staged.next())?.1
            } else {
                self.home(&piece)
            };
            let gradient = self.gradient_of(&piece);
            self.update(&piece, false, gradient, parameters);
        }
        Ok(())
    }

    /// Where the parameters of each piece within `owned` that live on the host are stored, and their places in `staged`.
    fn updated(&self, issue: &Issue, owned: Owned, staged: View) -> Result<Vec<(View, View)>, ExecuteError> {
        let (first, end) = (owned.start as usize, owned.end as usize);
        // Units follow one another in the buffer, with what of them is owned.
        let mut starts = Vec::with_capacity(self.rank.units.len());
        let mut behind = 0;
        for unit in &self.rank.units {
            starts.push(behind);
            if unit.offloads_parameters {
                let (from, to) = (unit.owned_start.max(first), (unit.owned_start + unit.owned).min(end));
                behind += to.saturating_sub(from);
            }
        }
        let place = |piece: Piece| {
            let start = starts[piece.unit] + piece.owned - self.rank.units[piece.unit].owned_start.max(first);
            Ok((self.home(&piece), self.part(issue, staged, start..start + piece.range.len())?))
        };
        self.pieces_within(owned).into_iter().filter(|piece| self.is_on_host(piece)).map(place).collect()
    }

    fn is_on_host(&self, piece: &Piece) -> bool {
        self.rank.units[piece.unit].offloads_parameters
    }

    /// AdamW over `piece`, in the memory that has its state.
    fn update(&mut self, piece: &Piece, on_host: bool, gradient: View, parameters: View) {
        let (settings, rank) = (self.run.settings, self.rank);
        let plane = |plane| rank.plane(plane, piece, on_host);
        let (scalars, losses) = match (on_host, settings.peers) {
            (true, _) => (rank.scalar_heads()[1], 0),
            // Their numbers are made up.
            (false, Peers::Absent) => (rank.scalar_heads()[0], 0),
            (false, Peers::Present) => rank.head_and_losses(),
        };
        let update = Update {
            betas: settings.betas,
            epsilon: settings.epsilon,
            weight_decay: if piece.decays { settings.weight_decay } else { 0.0 },
            scalars,
            losses,
        };
        let master = rank.rules.has_separate_master.then(|| plane(Plane::Master));
        let moments = [Plane::FirstMoments, Plane::SecondMoments].map(plane);
        self.push(Call::AdamW(Box::new(AdamWCall { update, gradient, parameters, moments, master })));
    }

    fn host_gradients(&mut self, owned: Owned) {
        for piece in self.pieces_within(owned) {
            let from = self.gradient_of(&piece);
            let (to, _) = self.rank.staged(&piece);
            self.push(Call::Copy { from, to });
        }
    }

    fn host_parameters(&mut self, owned: Owned) {
        for piece in self.pieces_within(owned) {
            if !self.is_on_host(&piece) {
                let (_, from) = self.rank.staged(&piece);
                let to = self.home(&piece);
                self.push(Call::Copy { from, to });
            }
        }
    }

    /// Whole parameters from the shards that their owners updated.
    fn gather_updated(&mut self, part: Part) {
        for unit in &self.rank.units {
            for section in Section::ALL {
                let length = unit.tensors.length(section);
                if section.part() != part || !section.is_trained() || length == 0 {
                    continue;
                }
                let whole = self.rank.stored(unit, section, 0..length);
                let exchange = Exchange::AllGatherInPlace { whole };
                self.push(Call::Collective { group: state_group(part), exchange });
            }
        }
    }
}
