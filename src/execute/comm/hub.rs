//! The ranks of one process: who is in which group, and how all are told when one gives up.

use std::collections::HashMap;
use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::mailbox::{Mailbox, Shelf};
use super::rendezvous::Rendezvous;
use super::{Channel, CommError, Endpoint, Peers};

/// Looks before a member sleeps, where every rank has a core: some ten microseconds.
const SPINS: u32 = 400;

/// What the ranks of a run share. Clones are the same hub.
#[derive(Clone)]
pub struct Hub {
    ranks: usize,
    peers: Peers,
    groups: Arc<Mutex<Groups>>,
    /// One for each receiving rank.
    shelves: Arc<[Shelf]>,
    spins: u32,
}

#[derive(Default)]
struct Groups {
    /// The group of a rank on a channel, and whether the rank has taken its endpoint.
    of: HashMap<(Channel, usize), (Arc<Rendezvous>, bool)>,
    failure: Option<CommError>,
}

impl Hub {
    /// A hub of `ranks` ranks, 0 to `ranks − 1`.
    pub fn new(ranks: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self {
            ranks,
            peers: Peers::Present,
            groups: Arc::default(),
            shelves: (0..ranks).map(|_| Shelf::new(ranks)).collect(),
            spins: if cores >= ranks { SPINS } else { 0 },
        }
    }

    /// The hub of one rank, of any number, whose peers are absent: it waits for nobody. Every other member of
    /// its groups is taken to hold what it holds itself; messages to others go nowhere, and one from another is what lies
    /// in its slot.
    pub fn alone() -> Self {
        Self {
            ranks: usize::MAX,
            peers: Peers::Absent,
            groups: Arc::default(),
            shelves: Arc::default(),
            spins: 0,
        }
    }

    /// The endpoint of `rank` on `channel`, in the group `members`. Groups of one channel are disjoint, and all
    /// members name the same members in the same order.
    pub fn endpoint(&self, rank: usize, channel: Channel, members: &[usize]) -> Result<Endpoint, CommError> {
        for &member in members {
            self.check(member)?;
        }
        let member = members.iter().position(|member| *member == rank);
        let twice = (1..members.len()).any(|place| members[..place].contains(&members[place]));
        let (Some(member), false) = (member, twice) else {
            return Err(CommError::Members { channel, rank, members: members.to_vec() });
        };
        let mut groups = self.groups();
        if !groups.of.contains_key(&(channel, rank)) {
            let found = members.iter().find_map(|other| Some((*other, groups.of.get(&(channel, *other))?)));
            if let Some((rank, (group, _))) = found {
                let (taken, members) = (group.members.to_vec(), members.to_vec());
                return Err(CommError::Taken { channel, rank, taken, members });
            }
            let group =
                Arc::new(Rendezvous::new(channel, (members, self.peers), self.spins, groups.failure.clone()));
            groups.of.extend(members.iter().map(|member| ((channel, *member), (group.clone(), false))));
        }
        match groups.of.get_mut(&(channel, rank)) {
            Some((group, taken @ false)) if *group.members == *members => {
                *taken = true;
                Ok(Endpoint::new(group.clone(), member))
            }
            other => {
                let taken = other.map_or(Vec::new(), |(group, _)| group.members.to_vec());
                Err(CommError::Taken { channel, rank, taken, members: members.to_vec() })
            }
        }
    }

    /// What `rank` sends and receives messages with.
    pub fn mailbox(&self, rank: usize) -> Result<Mailbox, CommError> {
        self.check(rank)?;
        Ok(Mailbox::new(self.shelves.clone(), rank, self.peers))
    }

    /// Makes every call that waits or comes later, on any rank, return [`CommError::Aborted`]. The first abort is
    /// the one that all are told of.
    pub fn abort(&self, rank: usize, message: impl Into<String>) {
        let mut groups = self.groups();
        let failure = CommError::Aborted { rank, message: message.into() };
        let failure = groups.failure.get_or_insert(failure).clone();
        groups.of.values().for_each(|(group, _)| group.fail(failure.clone()));
        self.shelves.iter().for_each(|shelf| shelf.fail(&failure));
    }

    /// What `work` of `rank` returns. Should it fail or panic, the other ranks are told.
    pub fn guard<R, E: Display + From<CommError>>(
        &self,
        rank: usize,
        work: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        match panic::catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => {
                self.abort(rank, error.to_string());
                Err(error)
            }
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                let message = format!("it panicked: {text}");
                self.abort(rank, message.clone());
                Err(CommError::Aborted { rank, message }.into())
            }
        }
    }

    fn check(&self, rank: usize) -> Result<(), CommError> {
        if rank < self.ranks { Ok(()) } else { Err(CommError::Rank { rank, ranks: self.ranks }) }
    }

    fn groups(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
