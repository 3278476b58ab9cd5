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
        Schedule::ZeroBubbleH1 | Schedule::ZeroBubbleH2 | Schedule::ZeroBubbleV => {
            zero_bubble(schedule, pipeline, micro).swap_remove(stage as usize)
        }
    }
}

/// The orders of all ranks.
pub fn orders(schedule: Schedule, pipeline: u64, micro: u64, chunks: u64) -> Vec<Vec<Action>> {
    if schedule.splits_weight() {
        return zero_bubble(schedule, pipeline, micro);
    }
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

/// Progress of one rank while a zero-bubble schedule is laid out.
struct Progress {
    done: [[u64; 2]; 3],
    busy_until: u64,
    list: Vec<Action>,
}

/// Zero-bubble schedules, laid out by playing unit-time passes: a backward as soon as its gradient is there, else
/// a forward while fewer chunks are in flight than the schedule allows, else a weight pass (Qi et al. 2023 and
/// 2024: H1 keeps 1F1B's memory, H2 allows twice as much, V folds two chunks a rank).
fn zero_bubble(schedule: Schedule, pipeline: u64, micro: u64) -> Vec<Vec<Action>> {
    let v_shape = schedule == Schedule::ZeroBubbleV;
    let chunks: u64 = if v_shape { 2 } else { 1 };
    let limit = |stage: u64| match schedule {
        Schedule::ZeroBubbleH1 => pipeline - stage,
        Schedule::ZeroBubbleH2 => 2 * (pipeline - stage) - 1,
        _ => 2 * pipeline,
    };
    let mut finish: [Vec<Vec<Option<u64>>>; 2] =
        std::array::from_fn(|_| vec![vec![None; micro as usize]; (pipeline * chunks) as usize]);
    let global = |stage: u64, chunk: u64| if chunk == 0 { stage } else { 2 * pipeline - 1 - stage };
    let mut ranks: Vec<Progress> =
        (0..pipeline).map(|_| Progress { done: [[0; 2]; 3], busy_until: 0, list: Vec::new() }).collect();
    let total = 3 * micro * chunks;
    let mut now = 0;
    while ranks.iter().any(|rank| (rank.list.len() as u64) < total) {
        for stage in 0..pipeline {
            let rank = &ranks[stage as usize];
            if rank.busy_until > now || rank.list.len() as u64 == total {
                continue;
            }
            let next = |pass: Pass, chunk: u64| rank.done[pass as usize][chunk as usize];
            let arrived = |pass: usize, from: Option<u64>, index: u64| match from {
                None => true,
                Some(from) => finish[pass][from as usize][index as usize].is_some_and(|time| time <= now),
            };
            let backward = (0..chunks).rev().find(|&chunk| {
                let index = next(Pass::Backward, chunk);
                let place = global(stage, chunk);
                let from = (place + 1 < pipeline * chunks).then_some(place + 1);
                index < next(Pass::Forward, chunk) && arrived(1, from, index)
            });
            let in_flight: u64 =
                (0..chunks).map(|chunk| next(Pass::Forward, chunk) - next(Pass::Weight, chunk)).sum();
            let forward = (0..chunks).rev().find(|&chunk| {
                let index = next(Pass::Forward, chunk);
                let place = global(stage, chunk);
                // The way back up the V must never be blocked by the way down.
                let room = if v_shape && chunk == 0 {
                    limit(stage) - stage.min(limit(stage) - 1)
                } else {
                    limit(stage)
                };
                index < micro
                    && arrived(0, place.checked_sub(1), index)
                    && (in_flight < room || (v_shape && chunk == 1))
            });
            let weight = (0..chunks).find(|&chunk| next(Pass::Weight, chunk) < next(Pass::Backward, chunk));
            let chosen = backward
                .map(|chunk| (Pass::Backward, chunk))
                .or(forward.map(|chunk| (Pass::Forward, chunk)))
                .or(weight.map(|chunk| (Pass::Weight, chunk)));
            if let Some((pass, chunk)) = chosen {
                let index = next(pass, chunk);
                if pass != Pass::Weight {
                    finish[pass as usize][global(stage, chunk) as usize][index as usize] = Some(now + 1);
                }
                let rank = &mut ranks[stage as usize];
                rank.done[pass as usize][chunk as usize] += 1;
                rank.busy_until = now + 1;
                rank.list.push(action(pass, chunk, index));
            }
        }
        now += 1;
    }
    ranks.into_iter().map(|rank| rank.list).collect()
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

    #[test]
    fn zero_bubble_schedules_keep_to_their_memory() {
        for pipeline in 2..9 {
            for micro in [1, 2, pipeline, 3 * pipeline + 1] {
                for (stage, list) in orders(Schedule::ZeroBubbleH1, pipeline, micro, 1).iter().enumerate() {
                    assert!(most_in_flight(list) <= pipeline - stage as u64);
                }
                for list in orders(Schedule::ZeroBubbleH2, pipeline, micro, 1) {
                    assert!(most_in_flight(&list) < 2 * pipeline);
                }
                for list in orders(Schedule::ZeroBubbleV, pipeline, micro, 2) {
                    assert!(most_in_flight(&list) <= 2 * pipeline + 1, "{}", most_in_flight(&list));
                }
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
