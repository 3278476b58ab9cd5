//! The steady state: once all ranks stand as they stood some micro-batches ago, what comes is what was, until a call
//! differs. Those periods are counted and not played.

use std::collections::VecDeque;

use crate::lower::Stream;
use crate::program::{Call, Pass, RankProgram};
use crate::simulate::causes::CauseTimes;
use crate::simulate::player::{Player, Span};
use crate::simulate::rank::{END, Messages, Position, Rank, STREAMS};
use crate::units::Seconds;

const COMPUTE: usize = Stream::Compute as usize;

/// Two states are one if what is left of every instruction differs by no more than this share of a period.
const TOLERANCE: f64 = 1e-10;

/// Looks for states that come again.
pub(super) struct Steady {
    /// Micro-batches after which a schedule may repeat itself.
    periods: Vec<u32>,
    /// States as the first rank began its first chunk's forward, and its backward, the last one behind.
    seen: [VecDeque<State>; 2],
    /// The call of the first rank that was looked at last.
    looked_at: u32,
}

/// Where all ranks stand at an instant.
struct State {
    time: f64,
    micro: u32,
    ranks: Vec<RankState>,
    messages: Messages,
}

struct RankState {
    /// The call on its compute stream.
    call: u32,
    next: [Position; STREAMS],
    /// Seconds of work left of what runs, and whether that is a whole quiet pass; infinite where nothing runs.
    left: [(f64, bool); STREAMS],
    causes: CauseTimes,
}

/// Periods that one rank is to be moved on by.
struct Shift {
    /// Calls of a period.
    calls: u32,
    /// How many periods, and the seconds of one.
    count: u32,
    seconds: f64,
}

impl Steady {
    /// Nothing was seen yet of a program of so many ranks.
    pub(super) fn new(ranks: &[Rank<'_>]) -> Self {
        let several_chunks = ranks.iter().any(|rank| {
            rank.program.templates.iter().any(|template| template.pass.is_some() && template.frame > 0)
        });
        let periods = if several_chunks && ranks.len() > 1 { vec![1, ranks.len() as u32] } else { vec![1] };
        Self { periods, seen: Default::default(), looked_at: u32::MAX }
    }
}

impl RankState {
    fn of(rank: &Rank<'_>) -> Self {
        Self {
            call: rank.streams[COMPUTE].next.0,
            next: rank.streams.each_ref().map(|stream| stream.next),
            left: rank.streams.each_ref().map(|stream| {
                stream.running.map_or((f64::INFINITY, false), |running| (running.left, running.quiet))
            }),
            causes: rank.causes,
        }
    }

    /// Whether `later` is the same state some calls on; what stands beyond all of them stands still.
    fn comes_again(&self, later: &Self, tolerance: f64) -> bool {
        if self.call == u32::MAX || later.call == u32::MAX || later.call <= self.call {
            return false;
        }
        let calls = later.call - self.call;
        (0..STREAMS).all(|stream| {
            let (one, other) = (self.next[stream], later.next[stream]);
            let moved = one != END && (one.0 + calls, one.1) == other;
            let ((left, quiet), (other_left, other_quiet)) = (self.left[stream], later.left[stream]);
            let is_idle = left.is_infinite() && other_left.is_infinite();
            let is_same = is_idle || ((left - other_left).abs() <= tolerance && quiet == other_quiet);
            (moved && is_same) || (one == other && is_idle)
        })
    }

    /// The first and the last call that a stream stands at; of one that stands still, none.
    fn calls(&self, later: &Self) -> (u32, u32) {
        let moving = || (0..STREAMS).filter(|&stream| self.next[stream] != later.next[stream]);
        let first = moving().map(|stream| self.next[stream].0).min().unwrap_or(self.call);
        let last = moving().map(|stream| later.next[stream].0).max().unwrap_or(later.call);
        (first.min(self.call), last.max(later.call))
    }
}

impl Player<'_> {
    /// Where the first rank has begun a pass of its first chunk at `time`: whether all ranks stand as they did before,
    /// and if so, moves them on by as many periods as are alike.
    pub(super) fn look_for_steady_state(&mut self, time: f64) {
        let Some(mut steady) = self.steady.take() else { return };
        if let Some((pass, micro)) = self.begun(&mut steady.looked_at) {
            for index in 0..self.ranks.len() {
                self.advance(index, time);
            }
            let ranks = self.ranks.iter().map(RankState::of).collect();
            let now = State { time, micro, ranks, messages: self.messages.clone() };
            let seen = &mut steady.seen[usize::from(pass == Pass::Backward)];
            let periods = steady.periods.iter();
            let before = periods.filter_map(|period| seen.iter().find(|state| state.micro + period == micro));
            let moved = before.filter_map(|before| self.repeat(before, &now)).next().is_some();
            if moved {
                steady.seen = Default::default();
            } else {
                seen.push_back(now);
                let most = steady.periods.last().map_or(1, |period| *period as usize);
                if seen.len() > most {
                    seen.pop_front();
                }
            }
        }
        self.steady = Some(steady);
    }

    /// The pass of its first chunk that the first rank has just begun, with its micro-batch.
    fn begun(&self, looked_at: &mut u32) -> Option<(Pass, u32)> {
        let rank = &self.ranks[0];
        let StreamPosition { call, runs } = StreamPosition::of(rank);
        if !runs || call == *looked_at {
            return None;
        }
        *looked_at = call;
        let Call { template, micro } = rank.program.calls[call as usize];
        let template = &rank.program.templates[template as usize];
        let pass = template.pass.filter(|&pass| template.frame == 0 && pass != Pass::Weight)?;
        Some((pass, micro))
    }

    /// Moves all ranks on if they stand `now` as they stood `before`.
    fn repeat(&mut self, before: &State, now: &State) -> Option<()> {
        let (seconds, micro) = (now.time - before.time, now.micro - before.micro);
        let tolerance = TOLERANCE * seconds;
        let states = || before.ranks.iter().zip(&now.ranks);
        if seconds <= 0.0 || !states().all(|(before, now)| before.comes_again(now, tolerance)) {
            return None;
        }
        let counts = self.ranks.iter().zip(states());
        let counts =
            counts.map(|(rank, (before, now))| alike(rank.program, (before, now), micro, rank.memory.call));
        let count = counts.min().filter(|&count| count > 0)?;
        self.messages = now.messages.shifted(&before.messages, (micro, count))?;
        for (rank, (before, now)) in self.ranks.iter_mut().zip(before.ranks.iter().zip(&now.ranks)) {
            rank.shift((before, now), &Shift { calls: now.call - before.call, count, seconds });
        }
        self.events.clear();
        for index in 0..self.ranks.len() {
            self.plan_next(index);
        }
        Some(())
    }
}

/// Where the compute stream of a rank stands.
struct StreamPosition {
    call: u32,
    runs: bool,
}

impl StreamPosition {
    fn of(rank: &Rank<'_>) -> Self {
        let stream = &rank.streams[COMPUTE];
        Self { call: stream.next.0, runs: stream.next != END && stream.running.is_some() }
    }
}

/// How often the calls between two states come again, each for `micro` micro-batches later, behind the second of them;
/// `peak` is the call at which memory peaks, which is played.
fn alike(program: &RankProgram, (before, now): (&RankState, &RankState), micro: u32, peak: usize) -> u32 {
    let period = (now.call - before.call) as usize;
    let (first, last) = before.calls(now);
    let calls = &program.calls;
    let is_alike = |&call: &usize| {
        let (one, other) = (&calls[call], &calls[call + period]);
        one.template == other.template && one.micro + micro == other.micro
    };
    let mut end =
        (first as usize..calls.len() - period).find(|call| !is_alike(call)).unwrap_or(calls.len() - period);
    if peak >= first as usize {
        end = end.min(peak.saturating_sub(period));
    }
    (end.saturating_sub(last as usize) / period) as u32
}

impl Messages {
    /// The messages `count` periods of `micro` micro-batches later, if of each kind one a micro-batch comes meanwhile,
    /// or none.
    fn shifted(&self, before: &Self, (micro, count): (u32, u32)) -> Option<Self> {
        let shift = |now: &[u32], before: &[u32]| -> Option<Vec<u32>> {
            let shifted = now.iter().zip(before).map(|(now, before)| {
                let sent = now - before;
                (sent == 0 || sent == micro).then_some(now + sent * count)
            });
            shifted.collect()
        };
        let received = match (&self.received, &before.received) {
            (Some(now), Some(before)) => Some(shift(now, before)?),
            _ => None,
        };
        let started = shift(&self.started, &before.started)?;
        Some(Self { started, delivered: shift(&self.delivered, &before.delivered)?, received, ..*self })
    }
}

impl Rank<'_> {
    /// Moves the rank on from the second of two states that are one.
    fn shift(&mut self, (before, now): (&RankState, &RankState), shift: &Shift) {
        let Shift { calls, count, seconds } = *shift;
        let times = f64::from(count);
        let period = self.causes.since(&before.causes);
        self.causes += period.times(times);
        for (stream, state) in self.streams.iter_mut().enumerate() {
            if before.next[stream] != now.next[stream] {
                state.next.0 += calls * count;
            }
        }
        self.now += times * seconds;
        // Calls of the period are done; the one under way comes as it came.
        let (first, begun) = (before.call as usize, self.spans.len());
        let under_way = self.spans.split_off((now.call as usize).min(begun));
        for place in 0..calls * count {
            let known = self.spans[first + (place % calls) as usize];
            let by = Seconds(f64::from(place / calls + 1) * seconds);
            let micro = self.program.calls[self.spans.len()].micro;
            self.spans.push(Span { micro, start: known.start + by, end: known.end + by, ..known });
        }
        for span in under_way {
            let by = Seconds(times * seconds);
            let micro = self.program.calls[self.spans.len()].micro;
            self.spans.push(Span { micro, start: span.start + by, end: span.end + by, ..span });
        }
        if let Some(starts) = &mut self.starts {
            starts.repeat(first, now.call as usize, calls, count);
        }
    }
}
