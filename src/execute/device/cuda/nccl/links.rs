//! A rank's links to others: a communicator for each group that it has collectives in, and one for each direction in which
//! it sends or receives messages.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::super::driver::Gpu;
use super::super::error::CudaError;
use super::super::graph::{self, Slot};
use super::super::stream::Stream as GpuStream;
use super::Nccl;
use super::circles::{Circle, circles};
use super::communicator::{Communicator, Id, Seat};
use super::pause::Pause;
use crate::execute::comm::Alarm;
use crate::execute::device::Need;
use crate::execute::error::ExecuteError;
use crate::execute::world::World;
use crate::ops::Group;

/// How often communicators are asked whether the network between them has failed.
const LOOK: Duration = Duration::from_millis(100);

/// By this variable NCCL lets several ranks use one GPU.
const SEVERAL: &str = "NCCL_MULTI_RANK_GPU_ENABLE";

/// What a rank sends messages from, or receives them with: in an order of its own for each rank at the other end.
#[derive(Debug)]
pub struct Incoming {
    pub communicator: Communicator,
    /// Receives into inboxes, ahead of the instructions that take out what came.
    pub stream: GpuStream,
}

/// A rank's links to others. Its thread alone uses them.
#[derive(Debug)]
pub struct Links {
    pub rank: usize,
    groups: HashMap<Circle, Arc<Communicator>>,
    outgoing: HashMap<usize, Communicator>,
    incoming: HashMap<usize, Incoming>,
    /// The rank's step, where it is a graph.
    pub graph: Slot,
    alarm: Alarm,
}

/// What a process says of its ranks, so that all come together.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Offer {
    version: String,
    host: Vec<u8>,
    /// Of the GPU, as its driver says.
    gpu: String,
    /// The ids by which others come to circles that a rank of this process is the host of: in hexadecimal.
    ids: Vec<(Circle, String)>,
}

/// Links the ranks of this process, each a GPU with what its rank needs, to one another, and to those of `world`.
///
/// # Errors
/// If GPUs or libraries of the ranks do not go together, what NCCL says, or why the job failed meanwhile.
pub fn join(
    nccl: Nccl,
    ranks: &[(Arc<Gpu>, &Need)],
    world: Option<&World>,
    alarm: &Alarm,
) -> Result<Vec<Links>, ExecuteError> {
    let of_ranks: Vec<BTreeMap<Circle, Vec<usize>>> = ranks
        .iter()
        .map(|(_, need)| {
            let mut own = circles(need);
            if let Some(world) = world {
                own.insert(Circle::ALL, (0..world.own.size).collect());
            }
            own
        })
        .collect();
    let all: BTreeMap<Circle, &Vec<usize>> =
        of_ranks.iter().flatten().map(|(circle, members)| (*circle, members)).collect();
    let mut ids: HashMap<Circle, Id> = HashMap::new();
    for circle in all.keys().filter(|circle| ranks.iter().any(|(_, need)| need.rank == circle.host())) {
        ids.insert(*circle, nccl.id()?);
    }
    if let (Some(world), [(gpu, _)]) = (world, ranks) {
        let own = Offer {
            version: nccl.version(),
            host: world.own.host.key.to_vec(),
            gpu: gpu.uuid()?,
            ids: ids.iter().map(|(circle, id)| (*circle, written(id))).collect(),
        };
        let offers = world.all_gather(&own)?;
        compare(&offers)?;
        let theirs = offers.into_iter().flat_map(|offer| offer.ids);
        ids.extend(theirs.filter_map(|(circle, id)| Some((circle, read(&id)?))));
    }
    let mut links: Vec<Links> = ranks.iter().map(|(_, need)| Links::new(need.rank, alarm)).collect();
    for (circle, members) in all {
        let Some(id) = ids.get(&circle) else {
            let name = circle.name(members);
            return Err(CudaError::Unsupported(format!("{name} have no id to meet by")).into());
        };
        let here: Vec<usize> =
            (0..ranks.len()).filter(|place| of_ranks[*place].contains_key(&circle)).collect();
        let seat = |place: &usize| {
            let (gpu, need) = &ranks[*place];
            let member = members.iter().position(|member| *member == need.rank).unwrap_or_default();
            Seat { gpu: Arc::clone(gpu), member }
        };
        let seats: Vec<Seat> = here.iter().map(seat).collect();
        let made = nccl.join((*id, members.len(), &circle.name(members)), &seats, alarm)?;
        for ((place, seat), communicator) in here.into_iter().zip(seats).zip(made) {
            links[place].add(circle, (communicator, &seat.gpu))?;
        }
    }
    Ok(links)
}

/// That the ranks' GPUs and libraries go together.
fn compare(offers: &[Offer]) -> Result<(), CudaError> {
    for (rank, offer) in offers.iter().enumerate() {
        let first = &offers[0];
        if offer.version != first.version {
            let (versions, ranks) = ([first.version.clone(), offer.version.clone()], [0, rank]);
            return Err(CudaError::OtherNccl { ranks, versions });
        }
        let twin = offers[..rank].iter().position(|other| other.host == offer.host && other.gpu == offer.gpu);
        if let Some(other) = twin.filter(|_| std::env::var(SEVERAL).is_err()) {
            return Err(CudaError::SameGpu { ranks: [other, rank] });
        }
    }
    Ok(())
}

fn written(id: &Id) -> String {
    id.internal.iter().map(|byte| format!("{:02x}", byte.cast_unsigned())).collect()
}

fn read(text: &str) -> Option<Id> {
    let mut id = Id { internal: [0; 128] };
    if text.len() != 2 * id.internal.len() {
        return None;
    }
    for (place, byte) in id.internal.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?.cast_signed();
    }
    Some(id)
}

impl Links {
    fn new(rank: usize, alarm: &Alarm) -> Self {
        Self {
            rank,
            groups: HashMap::new(),
            outgoing: HashMap::new(),
            incoming: HashMap::new(),
            graph: Slot::default(),
            alarm: alarm.clone(),
        }
    }

    fn add(
        &mut self,
        circle: Circle,
        (communicator, gpu): (Communicator, &Arc<Gpu>),
    ) -> Result<(), CudaError> {
        match circle {
            Circle::Group { .. } => {
                self.groups.insert(circle, Arc::new(communicator));
            }
            Circle::Messages { to, .. } if communicator.member == 0 => {
                self.outgoing.insert(to, communicator);
            }
            Circle::Messages { from, .. } => {
                gpu.bind()?;
                self.incoming.insert(from, Incoming { communicator, stream: GpuStream::urgent()? });
            }
        }
        Ok(())
    }

    /// The link to the other `members` of `group`.
    ///
    /// # Errors
    /// If the rank was linked without naming the group.
    pub fn group(&self, group: Group, members: &[usize]) -> Result<Arc<Communicator>, CudaError> {
        let circle = Circle::of(group, members);
        let unknown =
            || CudaError::Unsupported(format!("a group that was not named, {},", circle.name(members)));
        self.groups.get(&circle).cloned().ok_or_else(unknown)
    }

    /// The link to all ranks, where each is a process.
    pub fn all(&self) -> Option<Arc<Communicator>> {
        self.groups.get(&Circle::ALL).cloned()
    }

    /// By which messages go to rank `rank`.
    pub fn to(&self, rank: usize) -> Option<&Communicator> {
        self.outgoing.get(&rank)
    }

    /// By which messages of rank `rank` come.
    pub fn from(&self, rank: usize) -> Option<&Incoming> {
        self.incoming.get(&rank)
    }

    fn communicators(&self) -> impl Iterator<Item = &Communicator> {
        let incoming = self.incoming.values().map(|incoming| &incoming.communicator);
        self.groups.values().map(|group| &**group).chain(self.outgoing.values()).chain(incoming)
    }

    /// Registers memory of the rank, each of its blocks with each communicator. Whether all of it is registered.
    pub fn register(&self, blocks: &[(u64, usize)]) -> bool {
        !blocks.is_empty() && self.communicators().all(|one| blocks.iter().all(|block| one.register(*block)))
    }

    /// Undoes what [`Self::register`] did.
    pub fn deregister(&self) {
        self.communicators().for_each(Communicator::deregister);
    }

    /// Waits until `stream` has done all that it was given.
    ///
    /// # Errors
    /// What went wrong with it, or why the job failed meanwhile: then all that is under way on this GPU is ended.
    pub fn wait(&self, stream: &GpuStream) -> Result<(), ExecuteError> {
        let (mut pause, mut looked) = (Pause::default(), Instant::now());
        let waited = loop {
            match stream.is_idle() {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => break Err(error.into()),
            }
            if let Err(error) = self.alarm.check() {
                break Err(error.into());
            }
            if looked.elapsed() > LOOK {
                looked = Instant::now();
                if let Some(error) = self.communicators().find_map(|one| one.check().err()) {
                    break Err(error.into());
                }
            }
            pause.rest();
        };
        self.abort();
        waited
    }

    /// The streams that messages come in by.
    pub fn incoming_streams(&self) -> impl Iterator<Item = &GpuStream> {
        self.incoming.values().map(|incoming| &incoming.stream)
    }

    /// Ends all that is under way on this GPU, once for all. A communicator would wait for a graph that has work of it; one
    /// that is under way is given back when the abort has ended it.
    pub fn abort(&self) {
        graph::give_back(&self.graph);
        self.communicators().for_each(Communicator::abort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(version: &str, host: &str, gpu: &str) -> Offer {
        Offer { version: version.into(), host: host.as_bytes().to_vec(), gpu: gpu.into(), ids: Vec::new() }
    }

    #[test]
    fn an_id_comes_back_as_it_was_written() {
        let mut id = Id { internal: [0; 128] };
        id.internal.iter_mut().zip(-64i8..).for_each(|(byte, value)| *byte = value);
        assert_eq!(read(&written(&id)).map(|id| id.internal), Some(id.internal));
        assert!(read("00").is_none() && read(&"zz".repeat(128)).is_none());
    }

    #[test]
    fn ranks_that_do_not_go_together_are_named() {
        let fine = [offer("2.32.3", "a", "0"), offer("2.32.3", "a", "1"), offer("2.32.3", "b", "0")];
        assert_eq!(compare(&fine), Ok(()));
        let twins = [fine[0].clone(), fine[1].clone(), fine[1].clone()];
        assert_eq!(compare(&twins), Err(CudaError::SameGpu { ranks: [1, 2] }));
        let other = [fine[0].clone(), offer("2.30.7", "a", "1")];
        let versions = ["2.32.3".to_owned(), "2.30.7".to_owned()];
        assert_eq!(compare(&other), Err(CudaError::OtherNccl { ranks: [0, 1], versions }));
    }
}
