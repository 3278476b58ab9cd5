//! Which GPUs do something together, as all ranks know it without asking.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::execute::device::Need;
use crate::lower::Stream;
use crate::ops::Group;

/// GPUs that do something together. Ranks come to theirs in this order, so that no two wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Circle {
    /// The group of this number that a rank is the first of.
    Group { group: usize, first: usize },
    /// Messages from one rank to another.
    Messages { from: usize, to: usize },
}

impl Circle {
    /// Where ranks that are processes reach one another between steps.
    pub const ALL: Self = Self::Group { group: Group::World as usize, first: 0 };

    /// The circle of `members` of `group`.
    pub fn of(group: Group, members: &[usize]) -> Self {
        Self::Group { group: group as usize, first: members.first().copied().unwrap_or_default() }
    }

    /// Who says by which id the others come.
    pub const fn host(self) -> usize {
        match self {
            Self::Group { first, .. } => first,
            Self::Messages { from, .. } => from,
        }
    }

    /// In words, for messages.
    pub fn name(self, members: &[usize]) -> String {
        let listed = |ranks: &[usize]| ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        match (self, members) {
            (Self::Messages { from, to }, _) => format!("the messages from rank {from} to rank {to}"),
            (Self::Group { .. }, [first, .., last]) if members.len() > 8 => {
                format!("{} ranks from {first} to {last}", members.len())
            }
            (Self::Group { .. }, _) => format!("ranks {}", listed(members)),
        }
    }
}

/// The circles that the rank of `need` is in, with their members.
pub fn circles(need: &Need) -> BTreeMap<Circle, Vec<usize>> {
    let on_gpu = need.channels.iter().filter(|(channel, _)| channel.stream != Stream::Host);
    let groups = on_gpu.map(|(channel, members)| (Circle::of(channel.group, members), members.clone()));
    let to = need.sends_to.iter().map(|&to| (need.rank, to));
    let from = need.receives_from.iter().map(|&from| (from, need.rank));
    // What a rank sends to itself stays on its GPU.
    let others = to.chain(from).filter(|(from, to)| from != to);
    let messages = others.map(|(from, to)| (Circle::Messages { from, to }, vec![from, to]));
    groups.chain(messages).collect()
}
