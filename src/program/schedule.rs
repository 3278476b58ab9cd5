//! Pipeline schedules: the order in which each rank runs the passes of its chunks.

use crate::profile::choices::Schedule;

/// One pass over a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pass {
    Forward,
    /// Input gradients, and weight gradients unless the schedule splits them off.
    Backward,
    /// Weight gradients alone.
    Weight,
}

/// A pass of one chunk for one micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Action {
    pub pass: Pass,
    /// Chunk of the rank, counted from 0 in model order.
    pub chunk: u32,
    pub micro: u32,
}

/// What pipeline rank `stage` of `pipeline` does with `micro` micro-batches and `chunks` chunks a rank.
pub fn order(schedule: Schedule, pipeline: u64, stage: u64, micro: u64, chunks: u64) -> Vec<Action> {
    match schedule {
        Schedule::GPipe => gpipe(micro),
        Schedule::OneForwardOneBackward => one_forward_one_backward(pipeline - stage - 1, micro),
        Schedule::Interleaved => interleaved(pipeline, stage, micro, chunks),
        Schedule::ZeroBubbleH1 => zero_bubble(pipeline - stage, stage, micro),
        Schedule::ZeroBubbleH2 => zero_bubble(2 * (pipeline - stage) - 1, 2 * stage, micro),
        Schedule::ZeroBubbleV => zero_bubble_v(pipeline, stage, micro),
    }
}

/// The orders of all ranks.
pub fn orders(schedule: Schedule, pipeline: u64, micro: u64, chunks: u64) -> Vec<Vec<Action>> {
    (0..pipeline).map(|stage| order(schedule, pipeline, stage, micro, chunks)).collect()
}

const fn action(pass: Pass, chunk: u64, micro: u64) -> Action {
    Action { pass, chunk: chunk as u32, micro: micro as u32 }
}

fn gpipe(micro: u64) -> Vec<Action> {
    let forwards = (0..micro).map(|index| action(Pass::Forward, 0, index));
    forwards.chain((0..micro).map(|index| action(Pass::Backward, 0, index))).collect()
}

/// `ahead` forwards to warm up, then one forward and one backward in turn, then the backwards left.
fn one_forward_one_backward(ahead: u64, micro: u64) -> Vec<Action> {
    alternate(
        ahead.min(micro),
        micro,
        |index| action(Pass::Forward, 0, index),
        |index| action(Pass::Backward, 0, index),
    )
}

/// Chunks in turn, a group of `pipeline` micro-batches each (Narayanan et al. 2021, section 2.2).
fn interleaved(pipeline: u64, stage: u64, micro: u64, chunks: u64) -> Vec<Action> {
    let total = micro * chunks;
    let sequence = |reverse: bool| -> Vec<(u64, u64)> {
        let mut list = Vec::with_capacity(total as usize);
        let mut first = 0;
        while first < micro {
            let last = (first + pipeline).min(micro);
            for chunk in 0..chunks {
                let chunk = if reverse { chunks - 1 - chunk } else { chunk };
                list.extend((first..last).map(|index| (chunk, index)));
            }
            first = last;
        }
        list
    };
    let (forwards, backwards) = (sequence(false), sequence(true));
    let ahead = (2 * (pipeline - stage - 1) + (chunks - 1) * pipeline).min(total);
    // A last group smaller than the pipeline would starve the 1F1B turn: such steps warm up in full.
    let ahead = if micro.is_multiple_of(pipeline) { ahead } else { total };
    alternate(
        ahead,
        total,
        |index| action(Pass::Forward, forwards[index as usize].0, forwards[index as usize].1),
        |index| action(Pass::Backward, backwards[index as usize].0, backwards[index as usize].1),
    )
}

fn alternate(
    ahead: u64,
    total: u64,
    forward: impl Fn(u64) -> Action,
    backward: impl Fn(u64) -> Action,
) -> Vec<Action> {
    let mut list: Vec<_> = (0..ahead).map(&forward).collect();
    for index in ahead..total {
        list.push(forward(index));
        list.push(backward(index - ahead));
    }
    list.extend((total - ahead..total).map(&backward));
    list
}

/// `ahead` forwards to warm up, then backward and forward in turn; each weight pass `delay` micro-batches behind
/// its backward, so that the last ones fill the drain (Qi et al. 2023: with `ahead` + `delay` equal on all ranks,
/// every rank holds that many micro-batches, and only the way to the last rank is left of the bubble).
fn zero_bubble(ahead: u64, delay: u64, micro: u64) -> Vec<Action> {
    let mut order = Order::default();
    order.repeat(ahead.min(micro), &[(Pass::Forward, 0)]);
    for index in 0..micro {
        order.repeat(1, &[(Pass::Backward, 0)]);
        order.repeat(u64::from(index >= delay), &[(Pass::Weight, 0)]);
        order.repeat(u64::from(index + ahead < micro), &[(Pass::Forward, 0)]);
    }
    order.repeat(delay.min(micro), &[(Pass::Weight, 0)]);
    order.list
}

/// Two chunks a rank, down the ranks and up again (ZB-V of Qi et al. 2024): a rank holds at most 2·`pipeline`
/// chunks, as many bytes as under 1F1B. The turns are laid out for a full pipeline; micro-batches that a short
/// step does not have are left out.
fn zero_bubble_v(pipeline: u64, stage: u64, micro: u64) -> Vec<Action> {
    use Pass::{Backward, Forward, Weight};
    let (full, below) = (micro.max(2 * pipeline - 1), pipeline - stage);
    let mut order = Order::default();
    order.repeat(2 * below - 1, &[(Forward, 0)]);
    order.repeat(stage, &[(Forward, 1), (Forward, 0)]);
    order.repeat(below, &[(Forward, 1), (Backward, 1), (Weight, 1)]);
    while order.done(Forward, 1) < full {
        order.repeat(u64::from(order.done(Forward, 0) < full), &[(Forward, 0)]);
        order.repeat(1, &[(Backward, 0), (Weight, 0), (Forward, 1), (Backward, 1), (Weight, 1)]);
    }
    order.repeat(stage, &[(Backward, 0), (Backward, 1)]);
    order.repeat(below, &[(Backward, 0), (Weight, 0)]);
    for chunk in [1, 0] {
        order.repeat(full - order.done(Weight, chunk), &[(Weight, chunk)]);
    }
    order.list.retain(|action| u64::from(action.micro) < micro);
    order.list
}

/// An order being laid out: each pass of each chunk takes the micro-batches in turn.
#[derive(Default)]
struct Order {
    list: Vec<Action>,
    done: [[u64; 2]; 3],
}

impl Order {
    const fn done(&self, pass: Pass, chunk: usize) -> u64 {
        self.done[pass as usize][chunk]
    }

    /// Appends `passes` of chunks, `count` times.
    fn repeat(&mut self, count: u64, passes: &[(Pass, usize)]) {
        for &(pass, chunk) in (0..count).flat_map(|_| passes) {
            let done = &mut self.done[pass as usize][chunk];
            self.list.push(action(pass, chunk as u64, *done));
            *done += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most chunks that a rank holds at once, counted where a forward starts.
    fn most_in_flight(list: &[Action]) -> u64 {
        let last =
            if list.iter().any(|action| action.pass == Pass::Weight) { Pass::Weight } else { Pass::Backward };
        let (mut held, mut most) = (0_u64, 0);
        for action in list {
            if action.pass == Pass::Forward {
                held += 1;
                most = most.max(held);
            } else if action.pass == last {
                held -= 1;
            }
        }
        most
    }

    #[test]
    fn one_forward_one_backward_holds_what_the_paper_says() {
        for pipeline in 1..9 {
            for micro in 1..20 {
                for stage in 0..pipeline {
                    let list = order(Schedule::OneForwardOneBackward, pipeline, stage, micro, 1);
                    assert_eq!(most_in_flight(&list), (pipeline - stage).min(micro));
                }
            }
        }
    }

    #[test]
    fn interleaved_holds_what_the_paper_says() {
        for pipeline in 2..7 {
            for chunks in 2..5 {
                for micro in (pipeline..4 * pipeline).step_by(pipeline as usize) {
                    for stage in 0..pipeline {
                        let list = order(Schedule::Interleaved, pipeline, stage, micro, chunks);
                        let most = 2 * (pipeline - stage - 1) + (chunks - 1) * pipeline + 1;
                        assert_eq!(most_in_flight(&list), most.min(micro * chunks));
                    }
                }
            }
        }
    }

    /// The step of a pipeline with free communication, in passes of one chunk, a backward without a weight pass of
    /// its own counting double; none if the ranks wait for each other.
    fn step(schedule: Schedule, pipeline: u64, micro: u64, chunks: u64) -> Option<u64> {
        let orders = orders(schedule, pipeline, micro, chunks);
        let last = pipeline * chunks - 1;
        let place = |stage: u64, chunk: u64| match schedule {
            Schedule::ZeroBubbleV if chunk == 1 => last - stage,
            _ => chunk * pipeline + stage,
        };
        let mut ends = std::collections::HashMap::new();
        let mut ranks = vec![(0_usize, 0_u64); orders.len()];
        loop {
            let mut moved = false;
            for (stage, order) in orders.iter().enumerate() {
                while let Some(action) = order.get(ranks[stage].0) {
                    let place = place(stage as u64, u64::from(action.chunk));
                    let needs = match action.pass {
                        Pass::Forward => place.checked_sub(1).map(|before| (Pass::Forward, before)),
                        Pass::Backward if place == last => Some((Pass::Forward, place)),
                        Pass::Backward => Some((Pass::Backward, place + 1)),
                        Pass::Weight => Some((Pass::Backward, place)),
                    };
                    let Some(ready) = needs
                        .map_or(Some(0), |(pass, place)| ends.get(&(pass, place, action.micro)).copied())
                    else {
                        break;
                    };
                    let whole = action.pass == Pass::Backward && !schedule.splits_weight();
                    let end = ranks[stage].1.max(ready) + if whole { 2 } else { 1 };
                    ranks[stage] = (ranks[stage].0 + 1, end);
                    ends.insert((action.pass, place, action.micro), end);
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        let ended = ranks.iter().zip(&orders).all(|(rank, order)| rank.0 == order.len());
        ended.then(|| ranks.iter().map(|rank| rank.1).max().unwrap_or(0))
    }

    #[test]
    fn zero_bubble_schedules_keep_to_their_memory() {
        for pipeline in 1..=12 {
            for micro in 1..=40 {
                let most = |schedule, chunks| {
                    orders(schedule, pipeline, micro, chunks).iter().map(|list| most_in_flight(list)).max()
                };
                assert_eq!(most(Schedule::ZeroBubbleH1, 1), Some(pipeline.min(micro)));
                assert_eq!(most(Schedule::ZeroBubbleH2, 1), Some((2 * pipeline - 1).min(micro)));
                assert_eq!(most(Schedule::ZeroBubbleV, 2), Some((2 * pipeline).min(2 * micro)));
            }
        }
    }

    #[test]
    fn zero_bubble_schedules_end_with_small_bubbles() {
        for pipeline in 1..=12 {
            for micro in 1..=40 {
                let chunks = |schedule| if schedule == Schedule::ZeroBubbleV { 2 } else { 1 };
                // In passes of half a stage.
                let bubble = |schedule| {
                    let chunks = chunks(schedule);
                    let step = step(schedule, pipeline, micro, chunks).expect("the ranks never block");
                    step * 2 / chunks - 6 * micro
                };
                let [h1, h2, v] =
                    [Schedule::ZeroBubbleH1, Schedule::ZeroBubbleH2, Schedule::ZeroBubbleV].map(bubble);
                let plain = bubble(Schedule::OneForwardOneBackward);
                assert_eq!(plain, 6 * (pipeline - 1));
                if micro >= 2 * pipeline {
                    // What is left is the way to the last rank.
                    assert_eq!((h1, h2, v), (2 * (pipeline - 1), 2 * (pipeline - 1), pipeline - 1));
                }
            }
        }
    }

    #[test]
    fn no_schedule_blocks() {
        for pipeline in 1..=8 {
            for micro in 1..=20 {
                for chunks in 2..=4 {
                    assert!(step(Schedule::Interleaved, pipeline, micro, chunks).is_some());
                }
                assert!(step(Schedule::GPipe, pipeline, micro, 1).is_some());
            }
        }
    }

    #[test]
    fn every_pass_runs_once() {
        for &schedule in Schedule::ALL {
            let chunks = match schedule {
                Schedule::Interleaved => 3,
                Schedule::ZeroBubbleV => 2,
                _ => 1,
            };
            let passes = if schedule.splits_weight() { 3 } else { 2 };
            for micro in [1, 3, 4, 7, 8] {
                for list in orders(schedule, 4, micro, chunks) {
                    let distinct: std::collections::HashSet<_> = list.iter().collect();
                    assert_eq!(list.len() as u64, passes * chunks * micro);
                    assert_eq!(distinct.len(), list.len());
                }
            }
        }
    }
}
