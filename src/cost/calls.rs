//! Playing the calls of a schedule alone: each pass as long as its chain, messages as they are sent. Nothing is
//! longer than in the real program and no wait is added, so the end is a lower bound.

use crate::program::{Action, Pass};

/// What one chunk's passes take at the least, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallTimes {
    pub forward: f64,
    pub backward: f64,
    pub weight: f64,
    /// How much earlier than its end a pass has written what it sends.
    pub forward_slack: f64,
    pub backward_slack: f64,
    /// What a backward may do before its gradient arrives.
    pub early: f64,
    /// Sending on its output, and back its input's gradient.
    pub send_forward: f64,
    pub send_backward: f64,
    /// Whether a gradient is sent back.
    pub sends_gradient: bool,
}

/// When each rank's last pass ends, for `orders` of all ranks, `chunks` times in model order, and the chunks that
/// each rank holds. No rank starts before its `leads`, in seconds.
pub fn ends(
    orders: &[Vec<Action>],
    chunks: &[CallTimes],
    held: &[Vec<u64>],
    (leads, micro): (&[f64], u64),
) -> Vec<f64> {
    let micro = micro as usize;
    let mut activation = vec![f64::NAN; chunks.len() * micro];
    let mut gradient = vec![f64::NAN; chunks.len() * micro];
    let mut at = vec![0_usize; orders.len()];
    let mut compute = leads.to_vec();
    let mut sending = vec![0.0_f64; orders.len()];
    loop {
        let mut moved = false;
        for rank in 0..orders.len() {
            while let Some(action) = orders[rank].get(at[rank]) {
                let chunk = held[rank][action.chunk as usize] as usize;
                let times = &chunks[chunk];
                let slot = |chunk: usize| chunk * micro + action.micro as usize;
                let clock = &mut compute[rank];
                match action.pass {
                    Pass::Forward => {
                        let arrived = if chunk == 0 { 0.0 } else { activation[slot(chunk)] };
                        if arrived.is_nan() {
                            break;
                        }
                        // A chunk without layers passes on what comes, whatever its rank computes.
                        let mut written = arrived;
                        if times.forward > 0.0 {
                            *clock = clock.max(arrived) + times.forward;
                            written = *clock - times.forward_slack;
                        }
                        if chunk + 1 < chunks.len() {
                            let sent = &mut sending[rank];
                            *sent = sent.max(written) + times.send_forward;
                            activation[slot(chunk + 1)] = *sent;
                        }
                    }
                    Pass::Backward => {
                        let comes = chunks.get(chunk + 1).is_some_and(|next| next.sends_gradient);
                        let arrived = if comes { gradient[slot(chunk)] } else { 0.0 };
                        if arrived.is_nan() {
                            break;
                        }
                        let mut written = arrived;
                        if times.backward > 0.0 {
                            *clock = (*clock).max(arrived - times.early) + times.backward;
                            written = *clock - times.backward_slack;
                        }
                        if times.sends_gradient {
                            let sent = &mut sending[rank];
                            *sent = sent.max(written) + times.send_backward;
                            gradient[slot(chunk - 1)] = *sent;
                        }
                    }
                    Pass::Weight => *clock += times.weight,
                }
                at[rank] += 1;
                moved = true;
            }
        }
        if !moved {
            return compute;
        }
    }
}
