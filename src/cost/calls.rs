//! Playing the calls of a schedule alone: each pass as long as its chain, messages as they are sent. Nothing is
//! longer than in the real program and no wait is added, so the end is a lower bound.

use crate::program::{Action, Pass};

/// What one pass of a chunk takes at the least, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct PassBound {
    pub seconds: f64,
    /// How much longer it takes if nothing of what it needs moves before the call before is done.
    pub lead: f64,
    /// How much earlier than its end it has written what it sends.
    pub slack: f64,
    /// How much of it may run before what it receives is there.
    pub early: f64,
}

/// What one chunk's passes take at the least, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallTimes {
    pub forward: PassBound,
    pub backward: PassBound,
    pub weight: f64,
    /// The pass that writes weight gradients if it reduces them: longer by what its host issues for that, and by the
    /// reductions if these are in the queue of its kernels.
    pub reducing: PassBound,
    /// Sending on its output, and back its input's gradient.
    pub send_forward: f64,
    pub send_backward: f64,
    /// Whether a gradient is sent back.
    pub sends_gradient: bool,
    /// Messages are in the queue of the kernels: a pass begins with its whole input and ends with its last message.
    pub sends_within: bool,
    /// The reductions that start in the pass that writes weight gradients, if it reduces.
    pub reductions: Reductions,
}

impl CallTimes {
    /// All fields as numbers, to look equal times up.
    pub(super) fn bits(&self) -> impl Iterator<Item = u64> + use<> {
        let Self { forward, backward, reducing, reductions, .. } = *self;
        let passes = [forward, backward, reducing];
        let passes = passes.map(|PassBound { seconds, lead, slack, early }| [seconds, lead, slack, early]);
        let others = [self.weight, self.send_forward, self.send_backward];
        let seconds = passes.into_iter().flatten().chain(others);
        let seconds = seconds.chain([reductions.all, reductions.done, reductions.last]).map(f64::to_bits);
        seconds.chain([u64::from(self.sends_gradient), u64::from(self.sends_within)])
    }

    /// Seconds on the stream of the kernels for one micro-batch.
    pub fn alone(&self) -> f64 {
        let sends = if self.sends_within { self.send_forward + self.send_backward } else { 0.0 };
        self.forward.seconds + self.backward.seconds + self.weight + sends
    }

    /// What of these waits for the calls before.
    pub fn leads(&self) -> f64 {
        self.forward.lead + self.backward.lead
    }

    /// How much longer the pass that writes weight gradients takes if it reduces them, in seconds.
    pub fn reducing_adds(&self, splits_weight: bool) -> f64 {
        let PassBound { seconds, lead, .. } = self.reducing;
        let alone = if splits_weight { self.weight } else { self.backward.seconds + self.backward.lead };
        seconds + lead - alone
    }
}

/// Reductions of a chunk's units, one behind the other, each behind its unit's gradient.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reductions {
    /// Seconds of all of them.
    pub all: f64,
    /// When the last is done, from the start of the pass, if nothing is under way before.
    pub done: f64,
    /// Of these, what starts when the pass has ended.
    pub last: f64,
}

/// Which calls reduce gradients beside later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reducing {
    Never,
    EachMicroBatch,
    LastMicroBatch,
}

/// When each rank's last pass ends, for `orders` of all ranks, `chunks` times in model order, and the chunks that
/// each rank holds. No rank starts before its `leads`, in seconds.
pub fn ends(
    orders: &[Vec<Action>],
    chunks: &[CallTimes],
    held: &[Vec<u64>],
    (leads, reducing, micro): (&[f64], Reducing, u64),
) -> Vec<f64> {
    let micro = micro as usize;
    let mut activation = vec![f64::NAN; chunks.len() * micro];
    let mut gradient = vec![f64::NAN; chunks.len() * micro];
    let mut at = vec![0_usize; orders.len()];
    let mut compute = leads.to_vec();
    let mut data = vec![0.0_f64; orders.len()];
    let splits = orders.iter().flatten().any(|action| action.pass == Pass::Weight);
    let writes = if splits { Pass::Weight } else { Pass::Backward };
    let mut sending = vec![0.0_f64; orders.len()];
    loop {
        let mut moved = false;
        for rank in 0..orders.len() {
            while let Some(action) = orders[rank].get(at[rank]) {
                let chunk = held[rank][action.chunk as usize] as usize;
                let times = &chunks[chunk];
                let slot = |chunk: usize| chunk * micro + action.micro as usize;
                let clock = &mut compute[rank];
                let reduces = match reducing {
                    Reducing::Never => false,
                    Reducing::EachMicroBatch => true,
                    Reducing::LastMicroBatch => action.micro as usize + 1 == micro,
                };
                let reduces = reduces && action.pass == writes;
                match action.pass {
                    Pass::Forward => {
                        let arrived = if chunk == 0 { 0.0 } else { activation[slot(chunk)] };
                        if arrived.is_nan() {
                            break;
                        }
                        // A chunk without layers passes on what comes, whatever its rank computes.
                        let mut written = arrived;
                        let forward = &times.forward;
                        if forward.seconds > 0.0 {
                            *clock = (*clock + forward.lead).max(arrived) + forward.seconds;
                            written = *clock - forward.slack;
                        }
                        if chunk + 1 < chunks.len() {
                            let sending = if times.sends_within { &mut *clock } else { &mut sending[rank] };
                            let sent = sent(sending, written, times.send_forward, times.sends_within);
                            activation[slot(chunk + 1)] = sent;
                        }
                    }
                    Pass::Backward => {
                        let comes = chunks.get(chunk + 1).is_some_and(|next| next.sends_gradient);
                        let arrived = if comes { gradient[slot(chunk)] } else { 0.0 };
                        if arrived.is_nan() {
                            break;
                        }
                        let mut written = arrived;
                        let backward = if reduces { &times.reducing } else { &times.backward };
                        if times.backward.seconds > 0.0 {
                            *clock =
                                (*clock + backward.lead).max(arrived - backward.early) + backward.seconds;
                            written = *clock - backward.slack;
                        }
                        if times.sends_gradient {
                            let sending = if times.sends_within { &mut *clock } else { &mut sending[rank] };
                            let sent = sent(sending, written, times.send_backward, times.sends_within);
                            gradient[slot(chunk - 1)] = sent;
                        }
                    }
                    Pass::Weight => *clock += if reduces { times.reducing.seconds } else { times.weight },
                }
                if reduces {
                    let Reductions { all, done, last } = times.reductions;
                    let behind = compute[rank] + last.max(done - times.reducing.seconds);
                    data[rank] = (data[rank] + all).max(behind);
                }
                at[rank] += 1;
                moved = true;
            }
        }
        if !moved {
            return compute.into_iter().zip(data).map(|(compute, data)| compute.max(data)).collect();
        }
    }
}

/// When a message is there that was `written` at an instant, and what sends it at the end of the pass then: in the
/// queue of the kernels it follows all of the pass, of which one with several losses has written a first message
/// before.
fn sent(sending: &mut f64, written: f64, seconds: f64, is_within: bool) -> f64 {
    let begins = if is_within { written } else { sending.max(written) };
    *sending = sending.max(written) + seconds;
    begins + seconds
}
