//! How a stream of a rank reaches the other members of a group: threads of this process, or other processes.

use crate::execute::comm::{CommError, Endpoint, ProcessEndpoint, Reduction};
use crate::execute::element::Element;

/// The members of a group, as one stream of one of them reaches them.
pub enum Members {
    Threads(Endpoint),
    Processes(ProcessEndpoint),
}

type Done = Result<(), CommError>;

impl Members {
    /// [`Endpoint::all_reduce`].
    pub fn all_reduce<T: Element>(&mut self, data: &mut [T], reduction: Reduction) -> Done {
        match self {
            Self::Threads(endpoint) => endpoint.all_reduce(data, reduction),
            Self::Processes(endpoint) => endpoint.all_reduce(data, reduction),
        }
    }

    /// [`Endpoint::reduce_scatter`].
    pub fn reduce_scatter<T: Element>(&mut self, data: &mut [T], reduction: Reduction) -> Done {
        match self {
            Self::Threads(endpoint) => endpoint.reduce_scatter(data, reduction),
            Self::Processes(endpoint) => endpoint.reduce_scatter(data, reduction),
        }
    }

    /// [`Endpoint::reduce_scatter_into`].
    pub fn reduce_scatter_into<T: Element>(
        &mut self,
        whole: &[T],
        own: &mut [T],
        reduction: Reduction,
    ) -> Done {
        match self {
            Self::Threads(endpoint) => endpoint.reduce_scatter_into(whole, own, reduction),
            Self::Processes(endpoint) => endpoint.reduce_scatter_into(whole, own, reduction),
        }
    }

    /// [`Endpoint::all_gather`].
    pub fn all_gather<T: Element>(&mut self, data: &mut [T]) -> Done {
        match self {
            Self::Threads(endpoint) => endpoint.all_gather(data),
            Self::Processes(endpoint) => endpoint.all_gather(data),
        }
    }

    /// [`Endpoint::all_gather_from`].
    pub fn all_gather_from<T: Element>(&mut self, own: &[T], whole: &mut [T]) -> Done {
        match self {
            Self::Threads(endpoint) => endpoint.all_gather_from(own, whole),
            Self::Processes(endpoint) => endpoint.all_gather_from(own, whole),
        }
    }

    /// [`Endpoint::all_to_all`].
    pub fn all_to_all<T: Element>(&mut self, send: &[T], receive: &mut [T]) -> Done {
        match self {
            Self::Threads(endpoint) => endpoint.all_to_all(send, receive),
            Self::Processes(endpoint) => endpoint.all_to_all(send, receive),
        }
    }

    /// [`Endpoint::shift`].
    pub fn shift<T: Element>(&mut self, send: &[T], receive: &mut [T]) -> Done {
        match self {
            Self::Threads(endpoint) => endpoint.shift(send, receive),
            Self::Processes(endpoint) => endpoint.shift(send, receive),
        }
    }
}
