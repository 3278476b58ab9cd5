//! The optimizer step: the gradient's norm, AdamW on device and host, parameters on their way back.

use crate::execute::arena::{Arena, Region};
use crate::execute::comm::Reduction;
use crate::execute::element::Element;
use crate::execute::error::ExecuteError;
use crate::execute::kernels::adamw::{self, AdamW};
use crate::execute::kernels::gradient_norm::{SquareSum, square_sum};
use crate::execute::layout::Section;
use crate::execute::placement::{Issue, State};
use crate::execute::state::{Piece, Planes};
use crate::execute::worker::Worker;
use crate::program::instruction::{Holds, Owned, Part, Task};
use crate::program::scalars::{Scalar, Scalars};
use crate::units::ElementType;

type Done = Result<(), ExecuteError>;

impl<'r, T: Element, G: Element<Wide = T::Wide>> Worker<'r, T, G> {
    /// One task of the optimizer step.
    pub(in crate::execute) fn optimizer(&mut self, issue: &Issue) -> Done {
        match issue.task {
            Task::GradientSquares => self.gradient_squares(),
            Task::SumSquares => self.sum_squares(issue)?,
            Task::ClipFactor => self.clip_factor(),
            Task::CopyScalars => self.copy_scalars(),
            Task::HostGradients(owned) => self.host_gradients(owned),
            Task::HostStep(owned) => self.update_owned(owned, true),
            Task::HostParameters(owned) => self.host_parameters(owned),
            Task::DeviceStep(owned) => self.update_owned(owned, false),
            Task::GatherUpdated(part) => self.gather_updated(part)?,
            // The device step wrote to the host's own copy.
            Task::StoreParameters(_) => {}
            _ => return Err(self.missing(issue, "its part of the optimizer step")),
        }
        Ok(())
    }

    fn gradient_squares(&mut self) {
        let mut squares = SquareSum::default();
        for piece in self.rank.pieces.iter().filter(|piece| piece.counts) {
            let gradient = self.read::<G>(self.gradient_of(piece));
            squares = squares.plus(square_sum(self.pool, gradient));
        }
        self.scalar_mut(Scalar::Squares).copy_from_slice(&squares.0);
    }

    fn sum_squares(&mut self, issue: &Issue) -> Done {
        let squares = self.scalar_mut(Scalar::Squares);
        let group = self.collective_of(issue)?.group;
        Ok(self.endpoint(group).all_reduce(squares, Reduction::sum(ElementType::Fp64))?)
    }

    fn clip_factor(&self) {
        let norm = SquareSum::of(self.scalar(Scalar::Squares)).total().sqrt();
        self.scalar_mut(Scalar::Clip)[0] = (self.run.workload.clip / (norm + 1e-6)).min(1.0);
    }

    fn copy_scalars(&self) {
        let [device, host] = self.scalar_heads();
        self.copy_bytes((&self.rank.device, device), (&self.rank.host, host));
    }

    /// The first numbers of the step, on the device and their copy on the host.
    fn scalar_heads(&self) -> [Region; 2] {
        let Some(State { device, host, .. }) = self.rank.state(Holds::Scalars, None) else {
            return [Region::default(); 2];
        };
        [device.elements(0, Scalars::HEAD as usize, size_of::<f64>()), *host]
    }

    /// The update of this step, by the numbers that the device has, or by their copy on the host.
    fn update(&self, on_host: bool, decays: bool) -> AdamW {
        let [device, host] = self.scalar_heads();
        let rank = self.rank;
        let head = if on_host { (&rank.host, host) } else { (&rank.device, device) };
        let head = self.read_in::<f64>(head);
        let of = |scalar: Scalar| head[rank.scalars.places(scalar).start];
        let settings = &self.run.settings;
        AdamW {
            learning_rate: of(Scalar::LearningRate),
            betas: settings.betas,
            epsilon: settings.epsilon,
            weight_decay: if decays { settings.weight_decay } else { 0.0 },
            step: of(Scalar::Step) as u32 + 1,
            clip: of(Scalar::Clip),
        }
    }

    fn gradient_of(&self, piece: &Piece) -> Region {
        let unit = &self.rank.units[piece.unit];
        let place = (self.run.rules.keeps_whole_gradients, size_of::<G>());
        self.rank.owned_gradient(unit, (piece.section, piece.range.clone()), place)
    }

    fn planes(&self, on_host: bool) -> Planes {
        self.rank.planes(on_host, (self.run.rules.optimizer_planes(), size_of::<T::Wide>()))
    }

    /// Host staging of gradients, and of parameters behind them.
    fn staged(&self, start: usize, count: usize) -> (Region, Region) {
        self.planes(true).staged((start, count), (size_of::<G>(), size_of::<T>()))
    }

    fn pieces_within(&self, owned: Owned) -> impl Iterator<Item = Piece> + use<'_, T, G> {
        self.rank.pieces.iter().filter_map(move |piece| piece.within(owned))
    }

    /// Where the parameters of `piece` are stored.
    fn home(&self, piece: &Piece) -> (&'r Arena, Region) {
        let stored = (self.run.rules.shards_parameters, size_of::<T>());
        self.rank.stored(&self.rank.units[piece.unit], (piece.section, piece.range.clone()), stored)
    }

    /// AdamW over `owned`, in the memory that has its state: on the host, over what is staged there.
    fn update_owned(&mut self, owned: Owned, on_host: bool) {
        let planes = self.planes(on_host);
        let rank = self.rank;
        let arena = if on_host { &rank.host } else { &rank.device };
        for piece in self.pieces_within(owned) {
            let (count, home) = (piece.range.len(), self.home(&piece));
            let (gradient, parameters) = if on_host {
                let (gradient, parameters) = self.staged(piece.owned, count);
                (gradient, (arena, parameters))
            } else {
                (self.gradient_of(&piece), home)
            };
            let gradient = self.read_in::<G>((arena, gradient));
            let parameters = self.write_in::<T>(parameters);
            let plane = |index| self.write_in::<T::Wide>((arena, planes.plane(index, piece.owned, count)));
            let (update, moments) = (self.update(on_host, piece.decays), (plane(0), plane(1)));
            if self.run.rules.has_separate_master {
                adamw::step(self.pool, &update, gradient, plane(2), moments, Some(&mut *parameters));
            } else {
                adamw::step(self.pool, &update, gradient, &mut *parameters, moments, None::<&mut [T]>);
            }
            if on_host && rank.units[piece.unit].offloads_parameters {
                self.write_in::<T>(home).copy_from_slice(parameters);
            }
        }
    }

    fn host_gradients(&mut self, owned: Owned) {
        for piece in self.pieces_within(owned) {
            let from = self.read::<G>(self.gradient_of(&piece));
            let (to, _) = self.staged(piece.owned, piece.range.len());
            self.write_in::<G>((&self.rank.host, to)).copy_from_slice(from);
        }
    }

    fn host_parameters(&mut self, owned: Owned) {
        let rank = self.rank;
        for piece in self.pieces_within(owned).filter(|piece| !rank.units[piece.unit].offloads_parameters) {
            let (_, from) = self.staged(piece.owned, piece.range.len());
            let from = self.read_in::<T>((&rank.host, from));
            self.write_in::<T>(self.home(&piece)).copy_from_slice(from);
        }
    }

    /// Whole parameters from the shards that their owners updated.
    fn gather_updated(&mut self, part: Part) -> Done {
        let rank = self.rank;
        for unit in &rank.units {
            for section in Section::ALL {
                let length = unit.tensors.length(section);
                if section.part() != part || !section.is_trained() || length == 0 {
                    continue;
                }
                let whole = rank.stored(unit, (section, 0..length), (false, size_of::<T>()));
                let data = self.write_in::<T>(whole);
                let group = self.state_group(part);
                self.endpoint(group).all_gather(data)?;
            }
        }
        Ok(())
    }
}
