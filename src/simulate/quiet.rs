//! Quiet templates: passes that share nothing with what runs beside them. Such a pass takes the same time at every
//! use, so it is played once and then counted whole. What waits for other ranks behind it, a send from the queue of the
//! kernels and what frees memory that was sent, is played by itself.

use crate::cost::{Price, Resource};
use crate::lower::Stream;
use crate::ops::Op;
use crate::program::instruction::Task;
use crate::program::{Instruction, Template};
use crate::simulate::causes::CauseTimes;
use crate::simulate::filling;
use crate::units::Seconds;

/// A pass played alone, from the moment its input is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Quiet {
    pub seconds: f64,
    pub causes: CauseTimes,
    /// When each instruction starts; the pipeline's own instructions are not played.
    pub starts: Vec<f64>,
    /// First instructions on the compute and the model stream.
    pub first: [Option<u32>; 2],
    /// The instruction that receives the input.
    pub receive: Option<u32>,
    /// The instruction behind the quiet part.
    pub until: u32,
}

/// One of the two streams while a pass is played alone.
struct Lane {
    queue: Vec<usize>,
    /// How many of the queue are done, and seconds of work that are left of the next; 0 where it does not run.
    done: usize,
    left: f64,
}

impl Lane {
    /// The instruction that runs or is to run next.
    fn next(&self) -> Option<usize> {
        self.queue.get(self.done).copied()
    }
}

const LANES: [Stream; 2] = [Stream::Compute, Stream::Model];

impl Quiet {
    /// Plays `template` at `prices`; none if it shares streams with other passes, sends before it is done, or could
    /// compete with `send`, the highest demands of any send of its rank that runs beside passes.
    pub fn new(template: &Template, prices: &[Price], send: &[f64; Resource::COUNT]) -> Option<Self> {
        let ends = |instruction: &Instruction| {
            let is_sent = matches!(instruction.op, Op::Send(_)) && instruction.stream == Stream::Compute;
            is_sent || instruction.task == Task::FreeSent
        };
        let whole = &template.instructions;
        let (list, rest) = whole.split_at(whole.iter().position(ends).unwrap_or(whole.len()));
        if rest.iter().any(|instruction| instruction.stream != Stream::Compute) {
            return None;
        }
        let mut receive = None;
        for (index, instruction) in list.iter().enumerate() {
            match instruction.stream {
                Stream::Receive if receive.is_none() => receive = Some(index as u32),
                Stream::Compute | Stream::Model | Stream::Send => {}
                _ => return None,
            }
            if !instruction.behind.without(Stream::Compute).is_empty() {
                return None;
            }
        }
        for (resource, &sent) in send.iter().enumerate() {
            let most = |stream| {
                let of_stream = list.iter().zip(prices).filter(|(entry, _)| entry.stream == stream);
                of_stream.map(|(_, price)| price.demand[resource]).fold(0.0, f64::max)
            };
            if sent > 0.0 && most(Stream::Compute) + most(Stream::Model) + sent > 1.0 {
                return None;
            }
        }
        let (quiet, ends) = play_alone(list, prices, receive)?;
        // A collective that outlasts the computing would run into the next pass, unless a send waits for it.
        let computed = list
            .iter()
            .zip(&ends)
            .filter(|(entry, _)| entry.stream == Stream::Compute)
            .map(|(_, &end)| end)
            .fold(0.0, f64::max);
        let late = |wait: &u32| ends[*wait as usize] < quiet.seconds * (1.0 - 1e-12);
        let is_awaited = rest.first().is_some_and(|sent| sent.waits.iter().any(|wait| !late(wait)));
        if computed < quiet.seconds && !is_awaited {
            return None;
        }
        let sends_early = list
            .iter()
            .filter(|entry| matches!(entry.op, Op::Send(_)))
            .any(|entry| entry.waits.is_empty() || entry.waits.iter().all(late));
        (!sends_early && quiet.seconds > 0.0).then_some(quiet)
    }
}

/// Plays compute and model stream alone; also when each instruction ends.
fn play_alone(list: &[Instruction], prices: &[Price], receive: Option<u32>) -> Option<(Quiet, Vec<f64>)> {
    let of_stream = |stream| (0..list.len()).filter(|&index| list[index].stream == stream).collect();
    let mut lanes = LANES.map(|stream| Lane { queue: of_stream(stream), done: 0, left: 0.0 });
    let first = lanes.each_ref().map(|lane| lane.next().map(|index| index as u32));
    let mut starts = vec![0.0; prices.len()];
    let mut ends = vec![f64::NAN; list.len()];
    if let Some(receive) = receive {
        ends[receive as usize] = 0.0;
    }
    let mut causes = CauseTimes::default();
    let mut now = 0.0_f64;
    let mut rates = Vec::new();
    loop {
        let is_ready = |index: &usize| list[*index].waits.iter().all(|&wait| !ends[wait as usize].is_nan());
        let ready = lanes.iter_mut().filter(|lane| lane.left == 0.0);
        let ready = ready.filter_map(|lane| lane.next().filter(is_ready).map(|index| (index, lane))).next();
        if let Some((index, lane)) = ready {
            starts[index] = now;
            lane.left = prices[index].seconds.0;
            // What takes no time ends at once.
            if lane.left <= 0.0 {
                ends[index] = now;
                lane.done += 1;
            }
            continue;
        }
        let running = lanes.iter_mut().filter(|lane| lane.left > 0.0);
        let mut running: Vec<_> = running.filter_map(|lane| lane.next().map(|index| (index, lane))).collect();
        if running.is_empty() {
            break;
        }
        let demands: Vec<_> = running.iter().map(|(index, _)| prices[*index].demand).collect();
        filling::rates(&demands, &mut rates);
        let spans = running.iter().zip(&rates).map(|((_, lane), rate)| lane.left / rate);
        let span = spans.fold(f64::INFINITY, f64::min);
        causes.add(Seconds(span), running.iter().map(|(index, _)| list[*index].cause));
        now += span;
        for ((index, lane), rate) in running.iter_mut().zip(&rates) {
            lane.left -= span * rate;
            if lane.left <= 1e-12 * (prices[*index].seconds.0 + now) {
                ends[*index] = now;
                lane.left = 0.0;
                lane.done += 1;
            }
        }
    }
    let done = lanes.iter().all(|lane| lane.done == lane.queue.len());
    let until = list.len() as u32;
    done.then_some((Quiet { seconds: now, causes, starts, first, receive, until }, ends))
}
