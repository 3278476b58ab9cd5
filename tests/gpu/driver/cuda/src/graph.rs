//! Graphs: work with an order that a capture has found, and their launches.

use crate::clock::Clock;
use crate::failure::{Answer, Error, refuse};
use crate::nccl::communication::Communication;
use crate::perform::Actor;
use crate::stream::Ticket;
use crate::submit::Declared;
use crate::work::Work;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone)]
pub struct Node {
    pub work: Work,
    /// The nodes that come before it.
    pub after: Vec<usize>,
    /// The branch that it's on: the nodes of one stream in the capture.
    pub branch: usize,
    pub declared: Declared,
}

#[derive(Clone, Default)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub branches: usize,
}

/// A graph that can be launched.
pub struct Executable {
    pub graph: Arc<Graph>,
    /// A lane for each branch.
    pub lanes: Arc<[usize]>,
    /// The end of its latest launch: the next one waits for it.
    pub latest: Option<Arc<Ticket>>,
    pub device: usize,
}

/// One launch.
#[derive(Clone)]
pub struct Run {
    pub graph: Arc<Graph>,
    lanes: Arc<[usize]>,
    start: Option<Clock>,
    /// What each node that is done has seen.
    done: Vec<Option<Clock>>,
    /// How many are not done.
    left: usize,
    /// How far each node has come that is communication.
    pub communications: BTreeMap<usize, Communication>,
}

impl Run {
    pub fn new(executable: &Executable) -> Run {
        let done = vec![None; executable.graph.nodes.len()];
        let communication = |(node, captured): (usize, &Node)| match &captured.work {
            Work::Communication(communication) => Some((node, (**communication).clone())),
            _ => None,
        };
        Run {
            graph: executable.graph.clone(),
            lanes: executable.lanes.clone(),
            start: None,
            left: done.len(),
            done,
            communications: executable.graph.nodes.iter().enumerate().filter_map(communication).collect(),
        }
    }

    /// The nodes that may run; communication may where `is_able` says so.
    pub fn able(&self, is_able: impl Fn(&Communication) -> bool) -> Vec<usize> {
        let ready = |node: &usize| {
            self.done[*node].is_none()
                && self.graph.nodes[*node].after.iter().all(|&before| self.done[before].is_some())
                && self.communications.get(node).is_none_or(&is_able)
        };
        (0..self.done.len()).filter(ready).collect()
    }

    /// Whether a node that isn't done may have to wait for another member of a communicator.
    pub fn communicates(&self) -> bool {
        self.communications.keys().any(|&node| self.done[node].is_none())
    }

    pub fn begin(&mut self, clock: &Clock) {
        self.start.get_or_insert_with(|| clock.clone());
    }

    /// Who does the node, knowing what the nodes before it knew.
    pub fn actor(&self, node: usize, place: &str) -> Actor {
        let mut clock = self.start.clone().unwrap_or_default();
        let Node { after, branch, .. } = &self.graph.nodes[node];
        for before in after.iter().filter_map(|&before| self.done[before].as_ref()) {
            clock.join(before);
        }
        Actor { lane: self.lanes[*branch], clock, place: format!("(branch {branch} of a graph {place})") }
    }

    pub fn finish(&mut self, node: usize, clock: Clock) {
        self.left -= usize::from(self.done[node].is_none());
        self.done[node] = Some(clock);
    }

    /// What is known at the end, once all nodes are done.
    pub fn end(&self) -> Option<Clock> {
        if self.left > 0 {
            return None;
        }
        let mut clock = Clock::default();
        self.done.iter().flatten().for_each(|done| clock.join(done));
        Some(clock)
    }
}

impl Graph {
    /// Whether `other` may take its place in an executable: nodes of the same kinds in the same order.
    pub fn same_shape(&self, other: &Graph) -> Answer {
        let kinds = |graph: &Graph| -> Vec<_> {
            graph.nodes.iter().map(|node| (std::mem::discriminant(&node.work), node.after.clone())).collect()
        };
        if kinds(self) == kinds(other) {
            return Ok(());
        }
        refuse(
            Error::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
            "the graph has other nodes than the executable, or another order",
        )
    }
}
