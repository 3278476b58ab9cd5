//! The player: every rank's streams run their instructions in order, competing for the rank's resources.

use crate::simulate::rank::{END, MessageEnd, Messages, Position, Rank, Running};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::cost::{Pricing, Resource};
use crate::lower::Stream;
use crate::ops::Op;
use crate::program::{Message, Pass, Payload, Program};
use crate::simulate::causes::CauseTimes;
use crate::simulate::filling;
use crate::simulate::measured::Notes;
use crate::simulate::memory::MemoryPeak;
use crate::simulate::outlook::Outlook;
use crate::simulate::starts::Starts;
use crate::simulate::steady::Steady;
use crate::simulate::until::Until;
use crate::simulate::watch::{Below, Slower, Watch};
use crate::units::Seconds;

/// Events between two looks at the time.
const EVENTS_A_LOOK: u64 = 1_024;

/// What playing a program shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Playback {
    /// When the last rank is done.
    pub step_time: Seconds,
    /// One a pipeline stage.
    pub ranks: Vec<RankPlayback>,
}

impl Playback {
    /// The rank with the least idle time, which the others wait for: the slowest; the first of equals.
    pub fn busiest(&self) -> &RankPlayback {
        self.ranks
            .iter()
            .reduce(|busy, rank| if rank.busy().0 > busy.busy().0 { rank } else { busy })
            .unwrap_or(&self.ranks[0])
    }

    /// Where the time of the busiest rank goes, from the start of the step to its end: what it waits for the last rank
    /// is bubble.
    pub fn causes(&self) -> CauseTimes {
        let rank = self.busiest();
        let mut causes = rank.causes;
        causes.bubble += self.step_time - rank.end;
        causes
    }
}

/// One rank's step.
#[derive(Clone, Debug, PartialEq)]
pub struct RankPlayback {
    pub stage: u32,
    pub end: Seconds,
    pub causes: CauseTimes,
    pub memory: MemoryPeak,
    /// When the memory peak is reached.
    pub peak_at: Seconds,
    /// Passes in issue order, as their compute streams ran them.
    pub spans: Vec<Span>,
}

impl RankPlayback {
    /// How long something of it runs.
    pub fn busy(&self) -> Seconds {
        self.causes.total() - self.causes.bubble
    }
}

/// One call on the compute stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// None for the optimizer step.
    pub pass: Option<Pass>,
    /// Chunk of the rank.
    pub chunk: u32,
    pub micro: u32,
    pub start: Seconds,
    pub end: Seconds,
}

/// Plays `program` (which must verify) at the prices of `pricing`.
pub fn play(program: &Program, pricing: &dyn Pricing) -> Playback {
    Player::new(program, pricing, true).finished()
}

/// Plays `program` like [`play`], until it is known that its step takes `limit` or more.
pub fn play_below(program: &Program, pricing: &dyn Pricing, limit: Seconds) -> Below {
    play_counting(program, pricing, limit, Until::default()).0
}

/// The same, with how many events that took; given up once `until` is over, when nothing more is known.
pub fn play_counting(program: &Program, pricing: &dyn Pricing, limit: Seconds, until: Until) -> (Below, u64) {
    let mut player = Player::new(program, pricing, true);
    player.until = until;
    if limit.0.is_finite() {
        let outlook = Outlook::new(&player.ranks, &player.messages);
        player.watch = Some(Watch::new(outlook, limit.0));
    }
    player.run();
    let slower = player.watch.as_ref().and_then(|watch| watch.over);
    let (played, slower) = (player.played, slower.or(player.given_up));
    (slower.map_or_else(|| Below::Played(player.playback()), Below::Slower), played)
}

/// What the busiest rank's passes of `program` take, each by itself: a step without its pipeline's bubble and without
/// what collectives beside the passes add. Nothing is played but every kind of pass once.
pub fn busiest(program: &Program, pricing: &dyn Pricing) -> Seconds {
    let player = Player::new(program, pricing, true);
    let busy = player.ranks.iter().map(|rank| rank.busy());
    Seconds(busy.fold(0.0, f64::max))
}

/// Plays `program` like [`play`], every instruction by itself: slower, with the same result but for rounding and the
/// hidden part of sends beside quiet passes.
pub fn play_every_instruction(program: &Program, pricing: &dyn Pricing) -> Playback {
    Player::new(program, pricing, false).finished()
}

pub(super) struct Player<'a> {
    pub(super) ranks: Vec<Rank<'a>>,
    pub(super) messages: Messages,
    /// The rank of each chunk.
    pub(super) stage_of_chunk: Vec<usize>,
    /// Next events: time (its bits order like the number) and rank; those that are no longer its next are skipped.
    pub(super) events: BinaryHeap<Reverse<(u64, usize)>>,
    /// Ranks that must look again at the present instant.
    woken: Vec<usize>,
    /// All ranks compete for one machine.
    shares_machine: bool,
    /// Something began or ended since the machine was last shared out.
    changed: bool,
    scratch: (Vec<[f64; Resource::COUNT]>, Vec<f64>),
    watch: Option<Watch>,
    /// Events so far.
    played: u64,
    /// When playing is given up, and what is known then.
    until: Until,
    given_up: Option<Slower>,
    /// Looks for states that come again; none where every instruction is played.
    pub(super) steady: Option<Steady>,
}

impl<'a> Player<'a> {
    /// A player of `program`; where it `counts_alike`, quiet passes and periods of a steady state are not played twice.
    pub(super) fn new(program: &'a Program, pricing: &dyn Pricing, counts_alike: bool) -> Self {
        // On a shared machine no pass is alone.
        let counts_quiet_whole = counts_alike && !pricing.shares_machine();
        let mut stage_of_chunk: Vec<usize> = Vec::new();
        let mut micro = 1;
        let mut payloads = 2;
        for (stage, rank) in program.ranks.iter().enumerate() {
            micro = rank.calls.iter().map(|call| call.micro as usize + 1).fold(micro, usize::max);
            for instruction in rank.templates.iter().flat_map(|template| &template.instructions) {
                let Some(message) = instruction.message else { continue };
                if let Payload::Gradient(loss) = message.payload {
                    payloads = payloads.max(2 + usize::from(loss));
                }
                let own = if matches!(instruction.op, Op::Send(_)) { message.from } else { message.to };
                let own = own as usize;
                if stage_of_chunk.len() <= own {
                    stage_of_chunk.resize(own + 1, 0);
                }
                stage_of_chunk[own] = stage;
            }
        }
        let kinds = stage_of_chunk.len().max(1) * payloads;
        let messages = Messages {
            micro,
            payloads,
            started: vec![0; kinds],
            delivered: vec![0; kinds],
            received: program.ranks[0].has_inboxes.then(|| vec![0; kinds]),
        };
        let ranks: Vec<Rank<'_>> = program
            .ranks
            .iter()
            .map(|rank| Rank::new(rank, pricing, &stage_of_chunk, counts_quiet_whole))
            .collect();
        Self {
            steady: counts_alike.then(|| Steady::new(&ranks)),
            ranks,
            messages,
            stage_of_chunk,
            events: BinaryHeap::new(),
            woken: Vec::new(),
            shares_machine: pricing.shares_machine(),
            changed: false,
            scratch: (Vec::new(), Vec::new()),
            watch: None,
            played: 0,
            until: Until::default(),
            given_up: None,
        }
    }

    /// Plays on, and says of the rank of `stage` also when its computing instructions start.
    pub(super) fn noting(mut self, stage: usize) -> (RankPlayback, Starts) {
        self.ranks[stage].starts = Some(Starts::default());
        self.run();
        let starts = self.ranks[stage].starts.take().unwrap_or_default();
        (self.playback().ranks.swap_remove(stage), starts)
    }

    /// Plays on, and says also what was noted of each rank.
    pub(super) fn noted(mut self) -> (Playback, Vec<Notes>) {
        self.run();
        let notes = self.ranks.iter_mut().filter_map(|rank| rank.notes.take()).collect();
        (self.playback(), notes)
    }

    fn finished(mut self) -> Playback {
        self.run();
        self.playback()
    }

    fn playback(self) -> Playback {
        let ranks: Vec<_> = self
            .ranks
            .into_iter()
            .map(|rank| RankPlayback {
                stage: rank.program.stage,
                end: Seconds(rank.now),
                causes: rank.causes,
                memory: rank.memory,
                peak_at: Seconds(rank.peak_at),
                spans: rank.spans,
            })
            .collect();
        let step_time = ranks.iter().map(|rank| rank.end).fold(Seconds::ZERO, Seconds::max);
        Playback { step_time, ranks }
    }

    /// Looks whether the step can still end in time now that what stands at `position` of a stream starts.
    fn look_ahead(&mut self, index: usize, stream: usize, position: Position, time: f64) {
        if let Some(watch) = &mut self.watch {
            let template = self.ranks[index].program.calls[position.0 as usize].template;
            watch.look((index, stream), position, template, time);
        }
    }

    fn run(&mut self) {
        for rank in 0..self.ranks.len() {
            self.settle(rank, 0.0);
        }
        self.drain(0.0);
        while let Some(Reverse((bits, rank))) = self.events.pop() {
            let time = f64::from_bits(bits);
            if self.ranks[rank].next_at != Some(time) {
                continue;
            }
            self.played += 1;
            self.advance(rank, time);
            self.settle(rank, time);
            self.drain(time);
            if self.watch.as_ref().is_some_and(|watch| watch.over.is_some()) {
                return;
            }
            if self.played.is_multiple_of(EVENTS_A_LOOK) && self.until.is_over() {
                self.given_up = Some(Slower { at_least: Seconds(time), about: Seconds(f64::INFINITY) });
                return;
            }
            self.look_for_steady_state(time);
        }
    }

    fn drain(&mut self, time: f64) {
        while let Some(rank) = self.woken.pop() {
            if !self.ranks[rank].done {
                self.advance(rank, time);
                self.settle(rank, time);
            }
        }
        self.share_machine(time);
    }

    /// Lets `rank` run on to `time`, with the rates it has.
    pub(super) fn advance(&mut self, rank: usize, time: f64) {
        let rank = &mut self.ranks[rank];
        let span = time - rank.now;
        if span <= 0.0 || rank.done {
            return;
        }
        if rank.streams[Stream::Compute as usize].running.is_some_and(|running| running.quiet) {
            rank.hide_sends(span);
        } else {
            rank.book(span, &self.messages);
        }
        for running in rank.streams.iter_mut().filter_map(|stream| stream.running.as_mut()) {
            running.left -= span * running.rate;
        }
        rank.now = time;
    }
    /// Ends what is done at `time`, starts what is ready, and sets the rates and the rank's next event anew.
    fn settle(&mut self, index: usize, time: f64) {
        let used = self.ranks[index].used;
        let mut settled = true;
        loop {
            let mut changed = false;
            for stream in used.numbers() {
                let rank = &mut self.ranks[index];
                let Some(running) = rank.streams[stream].running else { continue };
                if running.left > 1e-12 * (running.price.seconds.0 + time) {
                    continue;
                }
                rank.streams[stream].running = None;
                let position = rank.streams[stream].next;
                if running.quiet {
                    rank.finish_quiet(position.0, time);
                } else {
                    rank.finish(stream, position, time);
                    self.ended(index, position, time);
                }
                changed = true;
            }
            if self.ranks[index].start_quiet(time) {
                let compute = Stream::Compute as usize;
                self.look_ahead(index, compute, self.ranks[index].streams[compute].next, time);
                changed = true;
            }
            for stream in used.numbers() {
                changed |= self.start(index, stream, time);
            }
            if !changed {
                break;
            }
            settled = false;
        }
        // Nothing began or ended: rates and the next event are as they were.
        if settled && self.ranks[index].next_at.is_some_and(|next| next > time) {
            return;
        }
        let rank = &mut self.ranks[index];
        rank.done = rank.streams.iter().all(|stream| stream.next == END);
        self.changed = true;
        if !self.shares_machine {
            self.share(index..index + 1);
            self.plan_next(index);
        }
    }

    pub(super) fn plan_next(&mut self, index: usize) {
        let next = self.ranks[index].next_event();
        self.ranks[index].next_at = next;
        if let Some(next) = next {
            self.events.push(Reverse((next.to_bits(), index)));
        }
    }

    /// Shares a machine anew among all ranks, which run on to `time` as they did.
    fn share_machine(&mut self, time: f64) {
        if !self.shares_machine || !std::mem::take(&mut self.changed) {
            return;
        }
        for index in 0..self.ranks.len() {
            self.advance(index, time);
        }
        self.share(0..self.ranks.len());
        for index in 0..self.ranks.len() {
            self.plan_next(index);
        }
    }

    /// Starts instructions of `stream` that are ready; those without duration are done at once.
    fn start(&mut self, index: usize, stream: usize, time: f64) -> bool {
        let mut started = false;
        loop {
            let rank = &mut self.ranks[index];
            let position = rank.streams[stream].next;
            if position == END || rank.streams[stream].running.is_some() {
                return started;
            }
            let (call, step) = rank.at(position);
            if !rank.is_ready(position, step) {
                return started;
            }
            let waits = match step.transfer {
                Some(MessageEnd::Receive(message)) => !self.messages.is_delivered(message, call.micro),
                Some(MessageEnd::Send(message)) => !self.messages.has_room(message, call.micro),
                None => false,
            };
            if waits {
                return started;
            }
            started = true;
            let price = rank.prepared[call.template as usize].prices[position.1 as usize];
            rank.begin(stream, position, time);
            self.look_ahead(index, stream, position, time);
            if let Some(MessageEnd::Send(message)) = step.transfer {
                self.told(index, (message, call.micro), true, time);
            }
            let rank = &mut self.ranks[index];
            if price.seconds.0 > 0.0 {
                let (left, cause) = (price.seconds.0, step.cause);
                rank.streams[stream].running = Some(Running { left, rate: 1.0, price, cause, quiet: false });
                return true;
            }
            rank.finish(stream, position, time);
            self.ended(index, position, time);
        }
    }

    /// Tells the other end of a message that the instruction at `position` is done.
    fn ended(&mut self, index: usize, position: Position, time: f64) {
        let (call, step) = self.ranks[index].at(position);
        match step.transfer {
            Some(MessageEnd::Send(message)) => self.told(index, (message, call.micro), false, time),
            Some(MessageEnd::Receive(message)) => {
                let kind = self.messages.kind(message);
                let Some(received) = &mut self.messages.received else { return };
                received[kind] += 1;
                let sender = self.stage_of_chunk[message.from as usize];
                if self.ranks[sender].is_about_to_send(message) {
                    self.woken.push(sender);
                }
            }
            None => {}
        }
    }

    /// Tells the receiver of a message of rank `index` that its sending started or is done.
    fn told(&mut self, index: usize, (message, micro): (Message, u32), starts: bool, time: f64) {
        let receiver = self.stage_of_chunk[message.to as usize];
        if receiver != index {
            // The receiver closes its books before the message changes what its idling is put down to.
            self.advance(receiver, time);
            if !starts {
                self.woken.push(receiver);
            }
        }
        let kind = self.messages.kind(message);
        let counts = if starts { &mut self.messages.started } else { &mut self.messages.delivered };
        debug_assert_eq!(counts[kind], micro);
        counts[kind] += 1;
    }

    /// Shares resources among what runs on `ranks`.
    fn share(&mut self, ranks: Range<usize>) {
        let ranks = &mut self.ranks[ranks];
        let mut running =
            ranks.iter_mut().flat_map(|rank| &mut rank.streams).filter_map(|stream| stream.running.as_mut());
        if let (Some(alone), None) = (running.next(), running.next()) {
            alone.rate = 1.0;
            return;
        }
        let (demands, rates) = &mut self.scratch;
        demands.clear();
        let streams = ranks.iter().flat_map(|rank| &rank.streams);
        demands.extend(streams.filter_map(|stream| stream.running.map(|running| running.price.demand)));
        filling::rates(demands, rates);
        let streams = ranks.iter_mut().flat_map(|rank| &mut rank.streams);
        for (running, &rate) in streams.filter_map(|stream| stream.running.as_mut()).zip(rates.iter()) {
            running.rate = rate;
        }
    }
}
