//! What is left of a step at the least: the longest chain of what was not done yet, nothing slowing anything down.

use crate::lower::Stream;
use crate::program::Message;
use crate::simulate::rank::{MessageEnd, Messages, Position, Prepared, Rank, STREAMS};

const COMPUTE: usize = Stream::Compute as usize;

/// Of every instruction of a step, how long the step goes on from its start at the least.
pub(super) struct Outlook {
    ranks: Vec<RankOutlook>,
    /// What the step takes if nothing slows it down.
    pub(super) shortest: f64,
}

struct RankOutlook {
    /// By template and instruction: from its start to the end of what its own stream does in that template.
    within: Vec<Vec<f64>>,
    /// By call and stream: from the end of what the stream does there to the end of the step.
    behind: Vec<[f64; STREAMS]>,
}

/// What the chain of a template's computing needs to know.
struct Computing {
    /// By instruction: from its start to the end of the computing; none if nothing that computes waits for it.
    within: Vec<Option<f64>>,
    /// From the start of the first instruction that computes.
    whole: f64,
    /// Messages that are sent when all computing is done, with the time that the sending takes from there. What is
    /// sent before says nothing of when the computing ends.
    sends: Vec<(Message, f64)>,
    /// Messages that the computing waits for, with how long it goes on from there.
    receives: Vec<(Message, f64)>,
}

impl Computing {
    fn new(template: &Prepared) -> Self {
        let mut within: Vec<Option<f64>> = vec![None; template.prices.len()];
        let computing = &template.by_stream[COMPUTE];
        // The longest chain behind each instruction, last first: what waits for it has been looked at by then.
        let mut behind: Vec<Option<f64>> = vec![None; template.prices.len()];
        for index in (0..template.prices.len()).rev() {
            let step = template.steps[index];
            let next = template.following[index];
            let next = (next != u32::MAX).then(|| within[next as usize]).flatten();
            let mut longest = behind[index].into_iter().chain(next).reduce(f64::max);
            if step.stream == Stream::Compute {
                longest = Some(longest.unwrap_or(0.0));
            }
            within[index] = longest.map(|longest| longest + template.prices[index].seconds.0);
            if let Some(own) = within[index] {
                for &(_, before) in template.waits_of(index) {
                    let slot = &mut behind[before as usize];
                    *slot = Some(slot.map_or(own, |known| known.max(own)));
                }
            }
        }
        let whole = computing.first().and_then(|&first| within[first as usize]).unwrap_or(0.0);
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for (index, step) in template.steps.iter().enumerate() {
            let own = template.prices[index].seconds.0;
            match (step.transfer, step.stream) {
                (Some(MessageEnd::Receive(message)), _) => {
                    receives.extend(within[index].map(|within| (message, within)));
                }
                (Some(MessageEnd::Send(message)), Stream::Compute) => {
                    sends.extend((within[index] == Some(own)).then_some((message, 0.0)));
                }
                (Some(MessageEnd::Send(message)), _) => {
                    let is_last = |&(_, wait): &(u8, u32)| {
                        let own = template.prices[wait as usize].seconds.0;
                        template.steps[wait as usize].stream == Stream::Compute
                            && within[wait as usize] == Some(own)
                    };
                    let waits = template.waits_of(index);
                    sends.extend(waits.iter().any(is_last).then_some((message, own)));
                }
                (None, _) => {}
            }
        }
        Self { within, whole, sends, receives }
    }
}

impl Outlook {
    /// The outlook of a whole step of `ranks`.
    pub(super) fn new(ranks: &[Rank<'_>], messages: &Messages) -> Self {
        let computing: Vec<Vec<Computing>> =
            ranks.iter().map(|rank| rank.prepared.iter().map(Computing::new).collect()).collect();
        let behind = behind(ranks, &computing, messages);
        let mut shortest = 0.0_f64;
        let ranks = ranks.iter().zip(computing).zip(behind).map(|((rank, computing), computes)| {
            let within = rank.prepared.iter().zip(computing).map(|(template, computing)| {
                let mut list = computing.within.iter().map(|own| own.unwrap_or(0.0)).collect::<Vec<_>>();
                for stream in (0..STREAMS).filter(|&stream| stream != COMPUTE) {
                    let mut left = 0.0;
                    for &index in template.by_stream[stream].iter().rev() {
                        left += template.prices[index as usize].seconds.0;
                        list[index as usize] = left;
                    }
                }
                list
            });
            let within: Vec<Vec<f64>> = within.collect();
            let behind = others(rank, &within, &computes);
            if let Some(call) = rank.program.calls.first()
                && let Some(&first) = rank.prepared[call.template as usize].by_stream[COMPUTE].first()
            {
                let whole = within[call.template as usize][first as usize] + behind[0][COMPUTE];
                shortest = shortest.max(whole);
            }
            RankOutlook { within, behind }
        });
        let ranks = ranks.collect();
        Self { ranks, shortest }
    }

    /// Seconds from the start of the instruction at `position` of `rank`, on `stream`, to the end of the step.
    pub(super) fn left(&self, rank: usize, stream: usize, position: Position, template: u32) -> f64 {
        let rank = &self.ranks[rank];
        rank.within[template as usize][position.1 as usize] + rank.behind[position.0 as usize][stream]
    }
}

/// By rank and call, from the end of its computing to the end of the step.
fn behind(ranks: &[Rank<'_>], computing: &[Vec<Computing>], messages: &Messages) -> Vec<Vec<f64>> {
    let receivers = receivers(ranks, computing, messages);
    let mut behind: Vec<Vec<f64>> = ranks.iter().map(|rank| vec![0.0; rank.program.calls.len()]).collect();
    // Calls that are left, from the last: each once what its messages lead to is known.
    let mut left: Vec<usize> = behind.iter().map(Vec::len).collect();
    let mut moved = true;
    while std::mem::take(&mut moved) {
        for (index, rank) in ranks.iter().enumerate() {
            while let Some(place) = left[index].checked_sub(1) {
                let call = &rank.program.calls[place];
                let next = rank.program.calls.get(place + 1).map_or(0.0, |next| {
                    computing[index][next.template as usize].whole + behind[index][place + 1]
                });
                let mut sends = computing[index][call.template as usize].sends.iter();
                let longest = sends.try_fold(next, |longest, &(message, seconds)| {
                    let Some(received) = receivers[messages.index(message, call.micro)] else {
                        return Some(longest);
                    };
                    let is_known = left[received.rank] <= received.call;
                    let chain = seconds + received.within + behind[received.rank][received.call];
                    is_known.then(|| longest.max(chain))
                });
                let Some(longest) = longest else { break };
                behind[index][place] = longest;
                left[index] = place;
                moved = true;
            }
        }
    }
    behind
}

/// Where a message is received, and how long the computing goes on from there.
#[derive(Clone, Copy)]
struct Received {
    rank: usize,
    call: usize,
    within: f64,
}

/// Where each message is received.
fn receivers(ranks: &[Rank<'_>], computing: &[Vec<Computing>], messages: &Messages) -> Vec<Option<Received>> {
    let mut receivers = vec![None; messages.most()];
    for (index, rank) in ranks.iter().enumerate() {
        for (place, call) in rank.program.calls.iter().enumerate() {
            for &(message, within) in &computing[index][call.template as usize].receives {
                let received = Received { rank: index, call: place, within };
                receivers[messages.index(message, call.micro)] = Some(received);
            }
        }
    }
    receivers
}

/// By call and stream of `rank`, from the end of what the stream does there to the end of the step: what it still
/// does, and the last call, if that waits for all streams.
fn others(rank: &Rank<'_>, within: &[Vec<f64>], computes: &[f64]) -> Vec<[f64; STREAMS]> {
    let calls = &rank.program.calls;
    let Some((last, earlier)) = calls.split_last() else { return Vec::new() };
    let of = |stream: usize, template: u32| -> f64 {
        let first = rank.prepared[template as usize].by_stream[stream].first();
        first.map_or(0.0, |&first| within[template as usize][first as usize])
    };
    let template = &rank.prepared[last.template as usize];
    let first = template.by_stream[COMPUTE].first();
    let joins = first.is_some_and(|&first| !template.steps[first as usize].behind.is_empty());
    let mut left = [if joins { of(COMPUTE, last.template) } else { 0.0 }; STREAMS];
    let mut list = vec![[0.0; STREAMS]; calls.len()];
    for (place, call) in earlier.iter().enumerate().rev() {
        list[place] = left;
        for (stream, left) in left.iter_mut().enumerate() {
            *left += of(stream, call.template);
        }
    }
    list.iter_mut().zip(computes).for_each(|(list, &computes)| list[COMPUTE] = computes);
    list
}
