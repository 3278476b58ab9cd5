//! The player: every rank's streams run their instructions in order, competing for the rank's resources.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::cost::{Price, Pricing, Resource};
use crate::lower::Stream;
use crate::ops::Op;
use crate::program::{Cause, Instruction, Message, Pass, Payload, Program, RankProgram};
use crate::simulate::causes::CauseTimes;
use crate::simulate::filling;
use crate::simulate::memory::{self, MemoryPeak};
use crate::simulate::quiet::Quiet;
use crate::units::Seconds;

const STREAMS: usize = Stream::ALL.len();

/// What playing a program shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Playback {
    /// When the slowest rank is done.
    pub step_time: Seconds,
    /// One a pipeline stage.
    pub ranks: Vec<RankPlayback>,
}

impl Playback {
    /// The rank that ends last; the first of equals.
    pub fn slowest(&self) -> &RankPlayback {
        self.ranks
            .iter()
            .reduce(|slow, rank| if rank.end.0 > slow.end.0 { rank } else { slow })
            .unwrap_or(&self.ranks[0])
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

/// Position in a rank's issue order: call, then instruction.
type Position = (u32, u32);
const END: Position = (u32::MAX, u32::MAX);

#[derive(Clone, Copy)]
struct Running {
    /// Seconds of work left, running alone.
    left: f64,
    rate: f64,
    price: Price,
    cause: Cause,
    /// A whole quiet pass.
    quiet: bool,
}

struct StreamState {
    /// The earliest instruction that is not done.
    next: Position,
    running: Option<Running>,
}

/// A template, ready to play: its instructions by stream, and their prices.
struct Prepared {
    by_stream: [Vec<u32>; STREAMS],
    prices: Vec<Price>,
    /// The pass played alone, where it shares nothing with others.
    quiet: Option<Quiet>,
}

struct Rank<'a> {
    program: &'a RankProgram,
    prepared: Vec<Prepared>,
    streams: [StreamState; STREAMS],
    now: f64,
    causes: CauseTimes,
    memory: MemoryPeak,
    peak_at: f64,
    spans: Vec<Span>,
    /// The end of this rank's program was reached.
    done: bool,
    used: UsedStreams,
    /// When something that runs ends next, as things stand.
    next_at: Option<f64>,
}

/// The streams that a rank's program uses.
#[derive(Clone, Copy)]
struct UsedStreams {
    list: [u8; STREAMS],
    count: u8,
}

impl UsedStreams {
    fn of(program: &RankProgram) -> Self {
        let mut used = Self { list: [0; STREAMS], count: 0 };
        for stream in Stream::ALL {
            let mut instructions = program.templates.iter().flat_map(|template| &template.instructions);
            if instructions.any(|instruction| instruction.stream == stream) {
                used.list[usize::from(used.count)] = stream as u8;
                used.count += 1;
            }
        }
        used
    }

    fn streams(self) -> impl Iterator<Item = usize> {
        self.list.into_iter().take(usize::from(self.count)).map(usize::from)
    }
}

/// Times of messages, by boundary, payload and micro-batch.
struct Messages {
    micro: usize,
    payloads: usize,
    started: Vec<f64>,
    delivered: Vec<f64>,
}

impl Messages {
    fn index(&self, message: Message, micro: u32) -> usize {
        let payload = match message.payload {
            Payload::Activation => 0,
            Payload::Gradient(loss) => 1 + usize::from(loss),
        };
        let boundary = message.from.min(message.to) as usize;
        (boundary * self.payloads + payload) * self.micro + micro as usize
    }
}

/// Plays `program` (which must verify) at the prices of `pricing`.
pub fn play(program: &Program, pricing: &dyn Pricing) -> Playback {
    play_with(program, pricing, true)
}

/// Plays `program` like [`play`], every instruction by itself: slower, with the same result but for rounding and the
/// hidden part of sends beside quiet passes.
pub fn play_every_instruction(program: &Program, pricing: &dyn Pricing) -> Playback {
    play_with(program, pricing, false)
}

fn play_with(program: &Program, pricing: &dyn Pricing, counts_quiet_whole: bool) -> Playback {
    let mut player = Player::new(program, pricing, counts_quiet_whole);
    player.run();
    let ranks: Vec<_> = player
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

struct Player<'a> {
    ranks: Vec<Rank<'a>>,
    messages: Messages,
    /// The rank of each chunk.
    stage_of_chunk: Vec<usize>,
    /// Next events: time (its bits order like the number) and rank; those that are no longer its next are skipped.
    events: BinaryHeap<Reverse<(u64, usize)>>,
    /// Ranks that must look again at the present instant.
    woken: Vec<usize>,
    scratch: (Vec<[f64; Resource::COUNT]>, Vec<f64>),
}

impl<'a> Player<'a> {
    fn new(program: &'a Program, pricing: &dyn Pricing, counts_quiet_whole: bool) -> Self {
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
        let size = stage_of_chunk.len().max(1) * payloads * micro;
        let messages = Messages {
            micro,
            payloads,
            started: vec![f64::INFINITY; size],
            delivered: vec![f64::INFINITY; size],
        };
        let ranks = program
            .ranks
            .iter()
            .map(|rank| Rank::new(rank, pricing, &stage_of_chunk, counts_quiet_whole))
            .collect();
        Self {
            ranks,
            messages,
            stage_of_chunk,
            events: BinaryHeap::new(),
            woken: Vec::new(),
            scratch: (Vec::new(), Vec::new()),
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
            self.advance(rank, time);
            self.settle(rank, time);
            self.drain(time);
        }
    }

    fn drain(&mut self, time: f64) {
        while let Some(rank) = self.woken.pop() {
            if !self.ranks[rank].done {
                self.advance(rank, time);
                self.settle(rank, time);
            }
        }
    }

    /// Lets `rank` run on to `time`, with the rates it has.
    fn advance(&mut self, rank: usize, time: f64) {
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
            for stream in used.streams() {
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
                    self.told(index, position, false, time);
                }
                changed = true;
            }
            changed |= self.ranks[index].start_quiet(time);
            for stream in used.streams() {
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
        self.share(index);
        let next = self.ranks[index].next_event();
        self.ranks[index].next_at = next;
        if let Some(next) = next {
            self.events.push(Reverse((next.to_bits(), index)));
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
            let (call, instruction) = rank.at(position);
            if !rank.is_ready(position, instruction) {
                return started;
            }
            if let (Op::Receive(_), Some(message)) = (&instruction.op, instruction.message)
                && self.messages.delivered[self.messages.index(message, call.micro)] > time
            {
                return started;
            }
            started = true;
            let template = &rank.prepared[call.template as usize];
            let price = template.prices[position.1 as usize];
            let cause = instruction.cause;
            rank.begin(stream, position, time);
            let sends = matches!(instruction.op, Op::Send(_));
            if sends {
                self.told(index, position, true, time);
            }
            let rank = &mut self.ranks[index];
            if price.seconds.0 > 0.0 {
                rank.streams[stream].running =
                    Some(Running { left: price.seconds.0, rate: 1.0, price, cause, quiet: false });
                return true;
            }
            rank.finish(stream, position, time);
            if sends {
                self.told(index, position, false, time);
            }
        }
    }

    /// Tells the receiver of a send that it started or is done.
    fn told(&mut self, index: usize, position: Position, starts: bool, time: f64) {
        let (call, instruction) = self.ranks[index].at(position);
        let (Op::Send(_), Some(message)) = (&instruction.op, instruction.message) else { return };
        let slot = self.messages.index(message, call.micro);
        let times = if starts { &mut self.messages.started } else { &mut self.messages.delivered };
        // The receiver closes its books before the message changes what its idling is put down to.
        let receiver = self.stage_of_chunk[message.to as usize];
        if receiver != index {
            let before = std::mem::replace(&mut times[slot], f64::INFINITY);
            debug_assert!(before.is_infinite());
            self.advance(receiver, time);
            let times = if starts { &mut self.messages.started } else { &mut self.messages.delivered };
            times[slot] = time;
            if !starts {
                self.woken.push(receiver);
            }
        } else {
            times[slot] = time;
        }
    }

    /// Shares the rank's resources among what runs.
    fn share(&mut self, index: usize) {
        let rank = &mut self.ranks[index];
        let mut running = rank.streams.iter_mut().filter_map(|stream| stream.running.as_mut());
        if let (Some(alone), None) = (running.next(), running.next()) {
            alone.rate = 1.0;
            return;
        }
        let (demands, rates) = &mut self.scratch;
        demands.clear();
        demands.extend(
            rank.streams.iter().filter_map(|stream| stream.running.map(|running| running.price.demand)),
        );
        filling::rates(demands, rates);
        let running = rank.streams.iter_mut().filter_map(|stream| stream.running.as_mut());
        for (running, &rate) in running.zip(rates.iter()) {
            running.rate = rate;
        }
    }
}

/// Plays alone every template that may be quiet on its rank and is used more than once.
fn find_quiet(program: &RankProgram, prepared: &mut [Prepared]) {
    let mut send = [0.0_f64; Resource::COUNT];
    let mut uses = vec![0; prepared.len()];
    for call in &program.calls {
        uses[call.template as usize] += 1;
    }
    for (template, prepared) in program.templates.iter().zip(&*prepared) {
        for (instruction, price) in template.instructions.iter().zip(&prepared.prices) {
            if matches!(instruction.op, Op::Send(_)) {
                for (most, demand) in send.iter_mut().zip(price.demand) {
                    *most = most.max(demand);
                }
            }
        }
    }
    for ((template, prepared), uses) in program.templates.iter().zip(prepared).zip(uses) {
        if uses > 1 {
            prepared.quiet = Quiet::new(template, &prepared.prices, &send);
        }
    }
}

impl<'a> Rank<'a> {
    fn new(
        program: &'a RankProgram,
        pricing: &dyn Pricing,
        stage_of_chunk: &[usize],
        counts_quiet_whole: bool,
    ) -> Self {
        let mut prepared: Vec<Prepared> = program
            .templates
            .iter()
            .map(|template| {
                let mut by_stream: [Vec<u32>; STREAMS] = std::array::from_fn(|_| Vec::new());
                let prices = template
                    .instructions
                    .iter()
                    .enumerate()
                    .map(|(index, instruction)| {
                        by_stream[instruction.stream as usize].push(index as u32);
                        match (&instruction.op, instruction.message) {
                            (Op::Send(bytes), Some(message)) => {
                                let to = stage_of_chunk[message.to as usize] as u32;
                                pricing.send(*bytes, program.stage, to)
                            }
                            (op, _) => pricing.price(op, program.stage),
                        }
                    })
                    .collect::<Vec<Price>>();
                Prepared { by_stream, prices, quiet: None }
            })
            .collect();
        if counts_quiet_whole {
            find_quiet(program, &mut prepared);
        }
        let mut rank = Self {
            program,
            prepared,
            streams: std::array::from_fn(|_| StreamState { next: END, running: None }),
            now: 0.0,
            causes: CauseTimes::default(),
            memory: memory::peak(program),
            peak_at: 0.0,
            spans: Vec::with_capacity(program.calls.len()),
            done: false,
            used: UsedStreams::of(program),
            next_at: None,
        };
        for stream in 0..STREAMS {
            rank.streams[stream].next = rank.position_from(stream, 0, 0);
        }
        rank
    }

    /// The first instruction of `stream` at or behind instruction `from` of call `call`.
    fn position_from(&self, stream: usize, call: u32, from: u32) -> Position {
        let mut from = from;
        for (index, entry) in self.program.calls.iter().enumerate().skip(call as usize) {
            let list = &self.prepared[entry.template as usize].by_stream[stream];
            let place = if from == 0 { 0 } else { list.partition_point(|&instruction| instruction < from) };
            if let Some(&instruction) = list.get(place) {
                return (index as u32, instruction);
            }
            from = 0;
        }
        END
    }

    /// Puts `span` down to what runs.
    fn book(&mut self, span: f64, messages: &Messages) {
        let awaited = self.awaited(messages);
        let running = self.streams.iter().filter_map(|stream| stream.running.map(|running| running.cause));
        self.causes.add(Seconds(span), running, awaited);
    }

    /// Counts sends that run beside a quiet pass as hidden, by the share of it that computes.
    fn hide_sends(&mut self, span: f64) {
        let position = self.streams[Stream::Compute as usize].next;
        let template = self.program.calls[position.0 as usize].template as usize;
        if self.streams[Stream::Send as usize].running.is_some()
            && let Some(quiet) = &self.prepared[template].quiet
        {
            let causes = &quiet.causes;
            let alone = causes.compute + causes.recompute - causes.communication_hidden;
            self.causes.communication_hidden += alone * (span / quiet.seconds);
        }
    }

    /// Starts the next pass as a whole, if it is quiet, its input is there and nothing else is under way.
    fn start_quiet(&mut self, time: f64) -> bool {
        let [compute, model] = [Stream::Compute as usize, Stream::Model as usize];
        let position = self.streams[compute].next;
        if position == END || self.streams[compute].running.is_some() || self.streams[model].running.is_some()
        {
            return false;
        }
        let call = position.0;
        let Some(quiet) = &self.prepared[self.program.calls[call as usize].template as usize].quiet else {
            return false;
        };
        let at_first = |stream: usize, first: Option<u32>| match first {
            Some(first) => self.streams[stream].next == (call, first),
            None => self.streams[stream].next.0 > call,
        };
        let received =
            quiet.receive.is_none_or(|receive| self.streams[Stream::Receive as usize].next > (call, receive));
        let others = [Stream::Data, Stream::CopyOut, Stream::CopyIn, Stream::Host];
        let is_alone = others.iter().all(|&stream| self.streams[stream as usize].next.0 > call);
        let (_, instruction) = self.at(position);
        if !at_first(compute, quiet.first[0])
            || !at_first(model, quiet.first[1])
            || !received
            || !is_alone
            || !self.sends_done(position, instruction)
        {
            return false;
        }
        let seconds = quiet.seconds;
        if self.memory.call == call as usize {
            self.peak_at = time + quiet.starts[self.memory.instruction];
        }
        self.begin(compute, position, time);
        self.streams[compute].running = Some(Running {
            left: seconds,
            rate: 1.0,
            price: Price::alone(Seconds(seconds)),
            cause: Cause::Compute,
            quiet: true,
        });
        true
    }

    /// Ends a quiet pass: its streams stand behind it, its causes are booked.
    fn finish_quiet(&mut self, call: u32, time: f64) {
        let template = self.program.calls[call as usize].template as usize;
        if let Some(quiet) = &self.prepared[template].quiet {
            let causes = quiet.causes;
            self.causes.compute += causes.compute;
            self.causes.recompute += causes.recompute;
            self.causes.communication_exposed += causes.communication_exposed;
            self.causes.communication_hidden += causes.communication_hidden;
            self.causes.copy_exposed += causes.copy_exposed;
            self.causes.bubble += causes.bubble;
            self.causes.optimizer += causes.optimizer;
        }
        for stream in [Stream::Compute as usize, Stream::Model as usize] {
            if self.streams[stream].next.0 <= call {
                self.streams[stream].next = self.position_from(stream, call + 1, 0);
            }
        }
        self.spans[call as usize].end = Seconds(time);
    }

    /// Buffers that the call before the last one sent are reused from here on.
    fn sends_done(&self, position: Position, instruction: &Instruction) -> bool {
        position.0 < 2
            || instruction.stream != Stream::Compute
            || self.streams[Stream::Send as usize].next.0 >= position.0 - 1
    }

    fn at(&self, position: Position) -> (&'a crate::program::Call, &'a Instruction) {
        let call = &self.program.calls[position.0 as usize];
        (call, &self.program.templates[call.template as usize].instructions[position.1 as usize])
    }

    fn is_ready(&self, position: Position, instruction: &Instruction) -> bool {
        let template = &self.program.templates[self.program.calls[position.0 as usize].template as usize];
        let waits_done = instruction.waits.iter().all(|&wait| {
            let stream = template.instructions[wait as usize].stream as usize;
            self.streams[stream].next > (position.0, wait)
        });
        // A communication stream waits for the computing one when a collective is issued.
        let computed =
            instruction.stream != Stream::Model || self.streams[Stream::Compute as usize].next >= position;
        let joined = !instruction.joins
            || self
                .streams
                .iter()
                .enumerate()
                .all(|(index, stream)| index == instruction.stream as usize || stream.next >= position);
        waits_done && computed && self.sends_done(position, instruction) && joined
    }

    fn begin(&mut self, stream: usize, position: Position, time: f64) {
        if (position.0 as usize, position.1 as usize) == (self.memory.call, self.memory.instruction) {
            self.peak_at = time;
        }
        if stream != Stream::Compute as usize {
            return;
        }
        if self.spans.len() <= position.0 as usize {
            let call = &self.program.calls[position.0 as usize];
            let template = &self.program.templates[call.template as usize];
            while self.spans.len() < position.0 as usize {
                let skipped = &self.program.calls[self.spans.len()];
                let template = &self.program.templates[skipped.template as usize];
                let start = Seconds(time);
                self.spans.push(Span {
                    pass: template.pass,
                    chunk: template.frame,
                    micro: skipped.micro,
                    start,
                    end: start,
                });
            }
            let start = Seconds(time);
            self.spans.push(Span {
                pass: template.pass,
                chunk: template.frame,
                micro: call.micro,
                start,
                end: start,
            });
        }
    }

    fn finish(&mut self, stream: usize, position: Position, time: f64) {
        self.streams[stream].next = self.position_from(stream, position.0, position.1 + 1);
        if stream == Stream::Compute as usize {
            self.spans[position.0 as usize].end = Seconds(time);
        }
    }

    fn next_event(&self) -> Option<f64> {
        self.streams
            .iter()
            .filter_map(|stream| stream.running)
            .map(|running| self.now + (running.left / running.rate).max(0.0))
            .reduce(f64::min)
    }

    /// Whether the rank idles on a message that is already under way.
    fn awaited(&self, messages: &Messages) -> bool {
        let position = self.streams[Stream::Receive as usize].next;
        if position == END || self.streams.iter().any(|stream| stream.running.is_some()) {
            return false;
        }
        let (call, instruction) = self.at(position);
        instruction
            .message
            .is_some_and(|message| messages.started[messages.index(message, call.micro)].is_finite())
    }
}
