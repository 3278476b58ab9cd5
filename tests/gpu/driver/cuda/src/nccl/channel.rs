//! Messages from one member to another, in pieces: a send is done once all of it has been received.

use super::collective::{Progress, Trouble};
use super::communicator::Communicator;
use super::operation::{Kind, Operation};
use super::segment::{CHANNEL_SLOT, Channel, Description};
use crate::nccl::number::Element;
use gpu::Emulator;

fn channel<'c>(operation: &Operation, communicator: &'c Communicator) -> Channel<'c> {
    let rank = communicator.seat.rank;
    match operation.kind {
        Kind::Send => communicator.segment.channel(rank, operation.other),
        _ => communicator.segment.channel(operation.other, rank),
    }
}

/// Whether its next step doesn't wait for the other member.
pub fn is_able(operation: &Operation, communicator: &Communicator) -> bool {
    let channel = channel(operation, communicator);
    match operation.kind {
        Kind::Send => !channel.is_full() || channel.refused().is_some(),
        _ => channel.is_full(),
    }
}

/// Sends a piece, receives one, or sees that the last one has been received.
pub fn step(
    operation: &Operation,
    communicator: &Communicator,
    progress: &mut Progress,
    device: &mut Emulator,
) -> Result<(), Trouble> {
    let (channel, size) = (channel(operation, communicator), operation.element.size());
    let last = operation.count.min(progress.numbers + CHANNEL_SLOT as u64 / size);
    let bytes = ((last - progress.numbers) * size) as usize;
    // A message is the same on both sides but for the word for it.
    let description = [operation.count, operation.element.number(), 0, 0, 0, 0];
    let at = |start: u64| start + progress.numbers * size;
    if operation.kind == Kind::Send {
        if let Some(wanted) = channel.refused() {
            return Err(Trouble::Mismatch(mismatch(operation, communicator, description, wanted)));
        }
        if progress.posted && progress.numbers == operation.count {
            progress.done = true;
            return Ok(());
        }
        let given = if bytes > 0 { device.read(at(operation.from), bytes)?.to_vec() } else { vec![] };
        channel.send(description, &given);
        *progress = Progress { numbers: last, posted: true, done: false };
        return Ok(());
    }
    let sent = channel.description();
    if sent != description {
        channel.refuse(description);
        return Err(Trouble::Mismatch(mismatch(operation, communicator, sent, description)));
    }
    let received = channel.receive(bytes);
    if bytes > 0 {
        device.write(at(operation.to), &received)?;
    }
    *progress = Progress { numbers: last, posted: false, done: last == operation.count };
    Ok(())
}

fn mismatch(
    operation: &Operation,
    communicator: &Communicator,
    sent: Description,
    wanted: Description,
) -> String {
    let (rank, other) = (communicator.seat.rank, operation.other);
    let (from, to) = if operation.kind == Kind::Send { (rank, other) } else { (other, rank) };
    let words = |[count, element, ..]: Description| {
        format!("{count} {} numbers", Element::new(element).map_or("", Element::name))
    };
    format!("rank {from} sends {} to rank {to}, which receives {}", words(sent), words(wanted))
}
