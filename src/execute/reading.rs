//! Whole tensors, wherever their ranks are: rank 0 asks for one after the other, and each process sends the parts that it is
//! the first to hold.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

use crate::execute::comm::{Channel, receive_at_first, send_to_first};
use crate::execute::contents::{Kept, Parameter};
use crate::execute::error::ExecuteError;
use crate::execute::fleet::Fleet;
use crate::execute::weights::Values;
use crate::execute::world::World;
use crate::lower::Stream;
use crate::model::parameters::parameters;
use crate::ops::Group;

/// What rank 0 asks all others for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Ask {
    /// What is kept of the parameter with this number, in [`all`].
    Whole { kept: Kept, parameter: usize },
    /// Nothing more.
    Done { has_failed: bool },
}

/// What carries tensors: a channel that no step uses between its instructions.
const CHANNEL: Channel = Channel { group: Group::World, stream: Stream::Host };

impl Fleet {
    /// Does `work`, which may read all that the ranks keep, whole. Where each rank is a process, all of them call this at
    /// once, and only rank 0 does the work.
    ///
    /// # Errors
    /// What the work fails with, on all ranks.
    pub fn read_for<R>(
        &self,
        work: impl FnOnce(&Values<'_>) -> Result<R, ExecuteError>,
    ) -> Result<Option<R>, ExecuteError> {
        let Some(world) = &self.world else {
            return work(&|kept, parameter| self.read_one(kept, parameter)).map(Some);
        };
        if !world.is_first() {
            self.serve(world)?;
            return Ok(None);
        }
        let parameters = all(self);
        let failure = RefCell::new(None);
        let read = |kept, parameter| {
            let number = parameters.iter().position(|other| *other == parameter)?;
            let whole = self.ask(world, Ask::Whole { kept, parameter: number }, parameter);
            whole.unwrap_or_else(|error| {
                failure.borrow_mut().get_or_insert(error);
                None
            })
        };
        let done = work(&read);
        if let Some(failure) = failure.into_inner() {
            return Err(failure);
        }
        world.broadcast(Some(&Ask::Done { has_failed: done.is_err() }))?;
        done.map(Some)
    }

    /// Rank 0's question, and what all answer, put together.
    fn ask(&self, world: &World, ask: Ask, parameter: Parameter) -> Result<Option<Vec<f64>>, ExecuteError> {
        world.broadcast(Some(&ask))?;
        let Ask::Whole { kept, .. } = ask else { return Ok(None) };
        let mut whole = self.read_one(kept, parameter);
        let Some(lengths) = world.gather(&0)? else { return Ok(whole) };
        let members: Vec<usize> = (0..world.own.size).collect();
        let parts = receive_at_first(&*self.carrier()?, (CHANNEL, &members), &lengths)?;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let elements = part[0] as usize;
            put(part, whole.get_or_insert_with(|| vec![0.0; elements]));
        }
        Ok(whole)
    }

    /// Answers rank 0's questions until it has no more.
    fn serve(&self, world: &World) -> Result<(), ExecuteError> {
        let parameters = all(self);
        loop {
            let (kept, parameter) = match world.broadcast::<Ask>(None)? {
                Ask::Whole { kept, parameter } => (kept, parameters[parameter]),
                Ask::Done { has_failed: false } => return Ok(()),
                Ask::Done { has_failed: true } => return Err(world.control().failed_elsewhere().into()),
            };
            let part = self.part(kept, parameter);
            world.gather(&part.len())?;
            let members: Vec<usize> = (0..world.own.size).collect();
            send_to_first(&*self.carrier()?, (CHANNEL, &members), part)?;
        }
    }

    /// What this process is the first to hold of a parameter: how many elements it has, then runs of them, each its first
    /// element, its length and its values, all as bits.
    fn part(&self, kept: Kept, parameter: Parameter) -> Vec<u64> {
        let mut part = Vec::new();
        self.read_runs(kept, &|other| other == parameter, &mut |_, elements, start, values| {
            if part.is_empty() {
                part.push(elements as u64);
            }
            part.extend([start as u64, values.len() as u64]);
            part.extend(values.iter().map(|value| value.to_bits()));
        });
        part
    }
}

/// Puts the runs of `part` where they stand in `whole`.
fn put(part: &[u64], whole: &mut [f64]) {
    let mut rest = &part[1..];
    while let [start, length, behind @ ..] = rest {
        let (values, next) = behind.split_at(*length as usize);
        let target = &mut whole[*start as usize..][..values.len()];
        target.iter_mut().zip(values).for_each(|(value, bits)| *value = f64::from_bits(*bits));
        rest = next;
    }
}

/// All parameters of the model, in an order that all ranks have.
fn all(fleet: &Fleet) -> Vec<Parameter> {
    let layers = fleet.run.model.layers().enumerate();
    let of = |(layer, kind): (usize, &crate::model::Layer)| {
        parameters(&kind.kind).into_iter().map(move |tensor| (layer, tensor.role))
    };
    layers.flat_map(of).collect()
}
