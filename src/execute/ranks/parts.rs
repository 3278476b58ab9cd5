//! All ranks of a run, laid out and bound, before any device is there.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::execute::bind::{Bound, bind};
use crate::execute::call::{Call, View};
use crate::execute::comm::Channel;
use crate::execute::device::Need;
use crate::execute::error::ExecuteError;
use crate::execute::ranks::assemble;
use crate::execute::ranks::placement::{Placement, Stages};
use crate::execute::ranks::rank::Rank;
use crate::execute::run::Run;
use crate::lower::{Shape, Stream};
use crate::ops::Group;
use crate::program::instruction::Holds;
use crate::strategy::Axis;

/// The ranks of a run, what their instructions are as calls, and what they take of a device.
pub struct Parts {
    pub ranks: Vec<Rank>,
    pub bound: Vec<Bound>,
    pub needs: Vec<Need>,
}

impl Parts {
    /// Lays out rank `index` of `run` alone; `stages` are laid out.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn alone(run: &Run, index: u64, stages: Stages<'_>) -> Result<Self, ExecuteError> {
        let (rank, bound, need) = part(run, index, stages)?;
        Ok(Self { ranks: vec![rank], bound: vec![bound], needs: vec![need] })
    }

    /// Lays out all ranks of `run`; `stages` are laid out.
    ///
    /// # Errors
    /// If the program is not what the model asks for.
    pub fn of(run: &Run, stages: &[Arc<Placement>]) -> Result<Self, ExecuteError> {
        let mut parts = Self { ranks: Vec::new(), bound: Vec::new(), needs: Vec::new() };
        for index in 0..run.mesh.ranks() {
            let (rank, bound, need) = part(run, index, Stages::All(stages))?;
            parts.ranks.push(rank);
            parts.bound.push(bound);
            parts.needs.push(need);
        }
        Ok(parts)
    }
}

/// The step of each stage, laid out.
pub fn stages(run: &Run) -> Vec<Arc<Placement>> {
    run.program.ranks.iter().map(|program| Arc::new(Placement::new(program))).collect()
}

/// The step of the stage of rank `index`, laid out.
pub fn stage_of(run: &Run, index: u64) -> Arc<Placement> {
    Arc::new(Placement::new(&run.program.ranks[run.mesh.coordinate(index, Axis::Pipeline) as usize]))
}

/// One rank of `run`; `stages` are laid out.
///
/// # Errors
/// As [`Parts::of`].
pub fn part(run: &Run, index: u64, stages: Stages<'_>) -> Result<(Rank, Bound, Need), ExecuteError> {
    let shape = Shape::new(&run.strategy, &run.workload, run.engine);
    let rank = assemble::rank(run, index, &shape, stages)?;
    let bound = bind(run, &rank, stages)?;
    let placing = &rank.placement.placing;
    let channels = Stream::ALL.into_iter().flat_map(|stream| {
        let groups = groups(&rank, &bound, stream).into_iter();
        groups.map(move |group| Channel { group, stream })
    });
    let channels = channels.map(|channel| (channel, rank.members(channel.group).to_vec())).collect();
    let (sends_to, receives_from) = messages(&bound, &rank);
    let need = Need {
        rank: rank.index,
        peers: run.settings.peers,
        device: placing.device.extent,
        host: placing.host.extent,
        lists: assemble::lists(run, &rank, &shape),
        workspace: View::device(rank.region(Holds::Workspace), rank.types.wide),
        channels,
        sends_to,
        receives_from,
    };
    Ok((rank, bound, need))
}

/// To whom the messages of `rank` go, whose calls are `bound`, and from whom messages come to it.
fn messages(bound: &Bound, rank: &Rank) -> (Vec<usize>, Vec<usize>) {
    let (mut to_whom, mut from_whom) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..rank.placement.issues.len() {
        for call in bound.of(number) {
            match *call {
                Call::Send { to, .. } => _ = to_whom.insert(to),
                Call::Receive { from, .. } => _ = from_whom.insert(from),
                _ => {}
            }
        }
    }
    (to_whom.into_iter().collect(), from_whom.into_iter().collect())
}

/// The groups in which `stream` of `rank`, whose calls are `bound`, has collectives.
pub fn groups(rank: &Rank, bound: &Bound, stream: Stream) -> Vec<Group> {
    let mut groups = Vec::new();
    for &issue in &rank.placement.streams[stream as usize] {
        for call in bound.of(issue as usize) {
            match *call {
                Call::Collective { group, .. } if !groups.contains(&group) => groups.push(group),
                _ => {}
            }
        }
    }
    groups
}
