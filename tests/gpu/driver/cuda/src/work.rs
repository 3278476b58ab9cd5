//! What a stream is given to do.

use crate::clock::Clock;
use crate::graph::Run;
use crate::library::Layout;
use crate::nccl::communication::Communication;
use crate::product::Product;
use crate::stream::Ticket;
use crate::submit::Declared;
use std::ffi::c_void;
use std::sync::Arc;

#[derive(Clone)]
pub enum Work {
    Kernel(Kernel),
    Product(Box<Product>),
    Copy(Copy),
    Set(Set),
    HostFunction(HostFunction),
    /// Gives device memory back.
    Free(u64),
    Record(Arc<Ticket>),
    Wait(Arc<Ticket>),
    Graph(Run),
    Communication(Box<Communication>),
}

/// Work in a queue.
pub struct Operation {
    pub work: Work,
    /// What the host had waited for when it submitted the work.
    pub host: Arc<Clock>,
    pub declared: Declared,
}

impl Operation {
    /// Whether it may have to wait for another member of a communicator.
    pub fn communicates(&self) -> bool {
        match &self.work {
            Work::Communication(_) => true,
            Work::Graph(run) => run.communicates(),
            _ => false,
        }
    }
}

#[derive(Clone)]
pub struct Kernel {
    /// The device that runs it, and the module there.
    pub device: usize,
    pub module: usize,
    pub name: &'static str,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    /// The parameters as the kernel reads them.
    pub packed: Vec<u8>,
}

/// Rows of bytes from one place to another.
#[derive(Clone)]
pub struct Copy {
    pub to: Place,
    pub from: Place,
    pub width: usize,
    pub height: usize,
    pub to_pitch: usize,
    pub from_pitch: usize,
}

/// Where bytes of a copy lie.
#[derive(Clone)]
pub enum Place {
    Device(u64),
    /// The host's memory that is read or written when the copy runs.
    Pinned(u64),
    /// Other memory of the host. A copy to it has run before its call returns.
    Pageable(u64),
    /// What was read of it when the copy was submitted, row behind row.
    Staged(Vec<u8>),
}

/// Rows of a repeated pattern.
#[derive(Clone)]
pub struct Set {
    pub to: u64,
    pub pattern: Vec<u8>,
    /// In bytes.
    pub width: usize,
    pub height: usize,
    pub pitch: usize,
}

#[derive(Clone, Copy)]
pub struct HostFunction {
    pub function: unsafe extern "C" fn(*mut c_void),
    pub data: *mut c_void,
}

// SAFETY: the program hands its data to whichever thread of the driver calls the function, as CUDA has it.
unsafe impl Send for HostFunction {}
// SAFETY: a shared one is only copied.
unsafe impl Sync for HostFunction {}

impl Work {
    /// In words.
    pub fn name(&self) -> String {
        match self {
            Work::Kernel(kernel) => format!("kernel {}", kernel.name),
            Work::Product(product) => {
                let Layout { rows, columns, .. } = product.output.layout;
                format!("a product of {rows} x {columns} numbers")
            }
            Work::Copy(copy) => {
                let words = |place: &Place| match place {
                    Place::Device(_) => "the device",
                    Place::Pinned(_) => "pinned memory",
                    Place::Pageable(_) | Place::Staged(_) => "pageable memory",
                };
                let bytes = copy.width * copy.height;
                format!("a copy of {bytes} bytes from {} to {}", words(&copy.from), words(&copy.to))
            }
            Work::Set(set) => format!("a memset of {} bytes", set.width * set.height),
            Work::HostFunction(_) => "a host function".into(),
            Work::Free(_) => "a free".into(),
            Work::Record(_) => "a record of an event".into(),
            Work::Wait(_) => "a wait for an event".into(),
            Work::Graph(_) => "a graph".into(),
            Work::Communication(communication) => communication.name(),
        }
    }
}
