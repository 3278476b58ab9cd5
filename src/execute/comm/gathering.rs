//! Words of all processes, gathered at the first.
#![expect(unsafe_code, reason = "the network takes memory by its address")]

use std::mem;

use super::{Carrier, Channel, CommError, Received, Sent};

/// Sends `own` to the first of `members`, which is another process.
///
/// # Errors
/// If the network fails, or a rank of the job has.
pub fn send_to_first(
    carrier: &dyn Carrier,
    (channel, members): (Channel, &[usize]),
    own: Vec<u64>,
) -> Result<(), CommError> {
    // All members make the channel, those with nothing to send too.
    let mut wire = carrier.wire(channel, members)?;
    if own.is_empty() {
        return Ok(());
    }
    let sent = Sent { member: 0, from: own.as_ptr().cast(), bytes: size_of_val(own.as_slice()) };
    // SAFETY: the words are there until this is over, and stay if it fails.
    let done = unsafe { wire.exchange(&[sent], &[]) };
    if done.is_err() {
        mem::forget(own);
    }
    done
}

/// What the other members send to the first, which this process is: as many words of each as `lengths` says.
///
/// # Errors
/// If the network fails, or a rank of the job has.
pub fn receive_at_first(
    carrier: &dyn Carrier,
    (channel, members): (Channel, &[usize]),
    lengths: &[usize],
) -> Result<Vec<Vec<u64>>, CommError> {
    let mut parts: Vec<Vec<u64>> = lengths.iter().map(|&length| vec![0; length]).collect();
    let room = (0..).zip(&mut parts).map(|(member, part)| Received {
        member,
        to: part.as_mut_ptr().cast(),
        bytes: size_of_val(part.as_slice()),
    });
    let received: Vec<Received> = room.filter(|received| received.bytes > 0).collect();
    let mut wire = carrier.wire(channel, members)?;
    // SAFETY: the room is there until this is over, and stays if it fails.
    match unsafe { wire.exchange(&[], &received) } {
        Ok(()) => Ok(parts),
        Err(error) => {
            mem::forget(parts);
            Err(error)
        }
    }
}
