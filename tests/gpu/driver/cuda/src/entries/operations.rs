//! Operations of `libnccl`: collectives and messages, which are work of a stream like any other, and registered memory.

use super::nccl::{call_on, tell};
use crate::driver::Handle;
use crate::failure::Answer;
use crate::nccl::number::Element;
use crate::nccl::operation::{Kind, Operation};
use crate::nccl::users::Use;
use crate::nccl::{Code, refuse};
use crate::spoil::Spoil;
use std::ffi::c_int;

/// `ncclSum`.
const SUM: u32 = 0;

/// What a call says of its operation, as NCCL has it.
struct Asked {
    kind: Kind,
    from: u64,
    to: u64,
    count: usize,
    element: u32,
    reduction: u32,
    /// The root, or the other side of a message.
    other: c_int,
}

fn operate(entry: &'static str, communicator: Handle, stream: Handle, asked: &Asked) -> u32 {
    call_on(entry, communicator, Use::Launch, |session| {
        if session.spoil.take_if(|spoil| *spoil == Spoil::Ignored).is_some() {
            return Ok(());
        }
        let Asked { kind, from, to, count, element, reduction, other } = *asked;
        if reduction != SUM {
            return refuse(
                Code::InvalidArgument,
                format!("reduction {reduction}, where only sums are known"),
            );
        }
        let (count, element) = (count as u64, element_of(element)?);
        let other =
            usize::try_from(other).or_else(|_| refuse(Code::InvalidArgument, format!("rank {other}")))?;
        let operation = Operation { kind, from, to, count, element, other, captured: false };
        let issue = session.prepare(communicator, stream, operation)?;
        session.issue_or_keep(communicator as u64, issue)
    })
}

fn element_of(number: u32) -> Answer<Element> {
    match Element::new(number.into()) {
        Some(element) => Ok(element),
        None => refuse(Code::InvalidArgument, format!("numbers of type {number}")),
    }
}

/// Defines operations: their C signatures, and what they say in the order of `Asked`.
macro_rules! operations {
    ($(
        fn $name:ident($($argument:ident: $kind:ty),* $(,)?)
            => $what:ident, $from:expr, $to:expr, $count:expr, $element:expr, $reduction:expr, $other:expr;
    )*) => {$(
        /// # Safety
        /// None is needed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind,)* communicator: Handle, stream: Handle) -> u32 {
            operate(stringify!($name), communicator, stream, &Asked {
                kind: Kind::$what,
                from: $from,
                to: $to,
                count: $count,
                element: $element,
                reduction: $reduction,
                other: $other,
            })
        }
    )*};
}

operations! {
    fn ncclAllReduce(from: u64, to: u64, count: usize, element: u32, reduction: u32)
        => AllReduce, from, to, count, element, reduction, 0;
    fn ncclReduceScatter(from: u64, to: u64, count: usize, element: u32, reduction: u32)
        => ReduceScatter, from, to, count, element, reduction, 0;
    fn ncclAllGather(from: u64, to: u64, count: usize, element: u32)
        => AllGather, from, to, count, element, SUM, 0;
    fn ncclBroadcast(from: u64, to: u64, count: usize, element: u32, root: c_int)
        => Broadcast, from, to, count, element, SUM, root;
    fn ncclReduce(from: u64, to: u64, count: usize, element: u32, reduction: u32, root: c_int)
        => Reduce, from, to, count, element, reduction, root;
    fn ncclSend(from: u64, count: usize, element: u32, peer: c_int)
        => Send, from, 0, count, element, SUM, peer;
    fn ncclRecv(to: u64, count: usize, element: u32, peer: c_int)
        => Receive, 0, to, count, element, SUM, peer;
}

/// # Safety
/// A handle can be written to `handle`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommRegister(
    communicator: Handle,
    start: u64,
    bytes: usize,
    handle: *mut Handle,
) -> u32 {
    call_on("ncclCommRegister", communicator, Use::Change, |session| {
        session.nccl.communicator(communicator)?.allow()?;
        let place = session.memory.describe(start);
        match session.memory.allocation(start, bytes) {
            None => {
                return refuse(Code::InvalidArgument, format!("no allocation has {bytes} bytes at {place}"));
            }
            Some((_, allocation)) if !allocation.is_mapped => {
                return refuse(
                    Code::InvalidUsage,
                    format!("{place} is of cuMemAlloc, which is not registered"),
                );
            }
            Some(_) => {}
        }
        session.nccl.buffers += 1;
        let number = session.nccl.buffers;
        session.nccl.communicator(communicator)?.registered.insert(number);
        unsafe { tell(handle, number as Handle) }
    })
}

/// # Safety
/// None is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommDeregister(communicator: Handle, handle: Handle) -> u32 {
    call_on("ncclCommDeregister", communicator, Use::Change, |session| {
        match session.nccl.communicator(communicator)?.registered.remove(&(handle as u64)) {
            true => Ok(()),
            false => refuse(Code::InvalidArgument, format!("{handle:?} is no registered memory")),
        }
    })
}
