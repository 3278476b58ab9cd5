//! The optimizer step: the gradient's norm, AdamW on device and host, parameters on their way back.

use super::collectives::sum_of;
use super::reductions::state_group;
use super::{Binder, Done};
use crate::execute::call::{AdamWCall, Call, Exchange, Space, Update, View};
use crate::execute::ranks::layout::Section;
use crate::execute::ranks::placement::Issue;
use crate::execute::ranks::state::{Piece, Planes};
use crate::program::instruction::{Owned, Part, Task};
use crate::program::placing::Region;
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
                let [from, to] = self.scalar_heads();
                self.push(Call::Copy { from, to });
            }
            Task::HostGradients(owned) => self.host_gradients(owned),
            Task::HostStep(owned) => self.update_owned(owned, true),
            Task::HostParameters(owned) => self.host_parameters(owned),
            Task::DeviceStep(owned) => self.update_owned(owned, false),
            Task::GatherUpdated(part) => self.gather_updated(part),
            // The device step wrote to the host's own copy.
            Task::StoreParameters(_) => {}
            _ => return Err(self.missing(issue, "its part of the optimizer step")),
        }
        Ok(())
    }

    fn gradient_of(&self, piece: &Piece) -> View {
        let unit = &self.rank.units[piece.unit];
        let place = (self.run.rules.keeps_whole_gradients, self.types.gradient.size());
        self.gradients(self.rank.owned_gradient(unit, (piece.section, piece.range.clone()), place))
    }

    fn planes(&self, on_host: bool) -> Planes {
        self.rank.planes(on_host, (self.run.rules.optimizer_planes(), self.types.wide.size()))
    }

    /// Host staging of gradients, and of parameters behind them.
    fn staged(&self, start: usize, count: usize) -> (View, View) {
        let sizes = (self.types.gradient.size(), self.types.compute.size());
        let (gradient, parameters) = self.planes(true).staged((start, count), sizes);
        (self.on_host(self.gradients(gradient)), self.on_host(self.activations(parameters)))
    }

    fn pieces_within(&self, owned: Owned) -> Vec<Piece> {
        self.rank.pieces.iter().filter_map(|piece| piece.within(owned)).collect()
    }

    /// Where the parameters of `piece` are stored.
    fn home(&self, piece: &Piece) -> View {
        let stored = (self.run.rules.shards_parameters, self.types.compute.size());
        let unit = &self.rank.units[piece.unit];
        self.stored(self.rank.stored(unit, (piece.section, piece.range.clone()), stored))
    }

    const fn stored(&self, (space, region): (Space, Region)) -> View {
        View { space, region, storage: self.types.compute }
    }

    /// AdamW over `owned`, in the memory that has its state: on the host, over what is staged there.
    fn update_owned(&mut self, owned: Owned, on_host: bool) {
        let planes = self.planes(on_host);
        let settings = &self.run.settings;
        let scalars = self.scalar_heads()[usize::from(on_host)];
        for piece in self.pieces_within(owned) {
            let (count, home) = (piece.range.len(), self.home(&piece));
            let (gradient, parameters) =
                if on_host { self.staged(piece.owned, count) } else { (self.gradient_of(&piece), home) };
            let plane = |index| {
                let plane = self.wide(planes.plane(index, piece.owned, count));
                if on_host { self.on_host(plane) } else { plane }
            };
            let update = Update {
                betas: settings.betas,
                epsilon: settings.epsilon,
                weight_decay: if piece.decays { settings.weight_decay } else { 0.0 },
                scalars,
            };
            let master = self.run.rules.has_separate_master.then(|| plane(2));
            let moments = [plane(0), plane(1)];
            self.push(Call::AdamW(Box::new(AdamWCall { update, gradient, parameters, moments, master })));
            if on_host && self.rank.units[piece.unit].offloads_parameters {
                self.push(Call::Copy { from: parameters, to: home });
            }
        }
    }

    fn host_gradients(&mut self, owned: Owned) {
        for piece in self.pieces_within(owned) {
            let from = self.gradient_of(&piece);
            let (to, _) = self.staged(piece.owned, piece.range.len());
            self.push(Call::Copy { from, to });
        }
    }

    fn host_parameters(&mut self, owned: Owned) {
        let pieces = self.pieces_within(owned);
        for piece in pieces.iter().filter(|piece| !self.rank.units[piece.unit].offloads_parameters) {
            let (_, from) = self.staged(piece.owned, piece.range.len());
            let to = self.home(piece);
            self.push(Call::Copy { from, to });
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
                let size = self.types.compute.size();
                let whole = self.stored(self.rank.stored(unit, (section, 0..length), (false, size)));
                let exchange = Exchange::AllGatherInPlace { whole };
                self.push(Call::Collective { group: state_group(part), exchange });
            }
        }
    }
}
