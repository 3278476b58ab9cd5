//! One rank while it is played: its streams, what runs on them, and the messages between ranks.

use crate::cost::{Price, Pricing, Resource};
use crate::lower::Stream;
use crate::ops::Op;
use crate::program::{Call, Cause, Instruction, Message, Payload, RankProgram, Streams, Template};
use crate::simulate::causes::CauseTimes;
use crate::simulate::issue;
use crate::simulate::measured::Notes;
use crate::simulate::memory::{self, MemoryPeak};
use crate::simulate::quiet::Quiet;
use crate::simulate::starts::Starts;
use crate::units::Seconds;

use crate::simulate::player::Span;

/// Position in a rank's issue order: call, then instruction.
pub(super) type Position = (u32, u32);

pub(super) const END: Position = (u32::MAX, u32::MAX);

pub(super) const STREAMS: usize = Stream::ALL.len();

#[derive(Clone, Copy)]
pub(super) struct Running {
    /// Seconds of work left, running alone.
    pub(super) left: f64,
    pub(super) rate: f64,
    pub(super) price: Price,
    pub(super) cause: Cause,
    /// A whole quiet pass.
    pub(super) quiet: bool,
}

#[derive(Clone, Copy)]
pub(super) struct StreamState {
    /// The earliest instruction that is not done.
    pub(super) next: Position,
    pub(super) running: Option<Running>,
}

/// What playing asks of an instruction again and again, side by side in memory.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) stream: Stream,
    pub(super) cause: Cause,
    pub(super) behind: Streams,
    pub(super) transfer: Option<MessageEnd>,
    /// Where its waits end in the template's list of them; they begin where those of the step before end.
    waits_until: u32,
}

/// The end of a message that an instruction is.
#[derive(Clone, Copy)]
pub(super) enum MessageEnd {
    Send(Message),
    Receive(Message),
}

/// A template, ready to play: its instructions by stream, and their prices.
pub(super) struct Prepared {
    pub(super) by_stream: [Vec<u32>; STREAMS],
    pub(super) prices: Vec<Price>,
    /// Of each instruction, the next one on its stream; `u32::MAX` for none.
    pub(super) following: Vec<u32>,
    pub(super) steps: Vec<Step>,
    /// Stream and index of what each instruction waits for.
    waits: Vec<(u8, u32)>,
    /// The pass played alone, where it shares nothing with others.
    pub(super) quiet: Option<Quiet>,
}

impl Prepared {
    /// Stream and index of what the instruction at `index` waits for.
    pub(super) fn waits_of(&self, index: usize) -> &[(u8, u32)] {
        let first = index.checked_sub(1).map_or(0, |before| self.steps[before].waits_until);
        &self.waits[first as usize..self.steps[index].waits_until as usize]
    }
}

pub(super) struct Rank<'a> {
    pub(super) program: &'a RankProgram,
    pub(super) prepared: Vec<Prepared>,
    pub(super) streams: [StreamState; STREAMS],
    pub(super) now: f64,
    pub(super) causes: CauseTimes,
    pub(super) memory: MemoryPeak,
    pub(super) peak_at: f64,
    pub(super) spans: Vec<Span>,
    /// When its computing instructions start, where that is asked for.
    pub(super) starts: Option<Starts>,
    /// When each of its instructions runs, where that is asked for.
    pub(super) notes: Option<Notes>,
    /// The end of this rank's program was reached.
    pub(super) done: bool,
    /// The streams that its program uses.
    pub(super) used: Streams,
    /// When something that runs ends next, as things stand.
    pub(super) next_at: Option<f64>,
}

impl Step {
    fn new(instruction: &Instruction, waits_until: usize) -> Self {
        let transfer = instruction.message.map(|message| match instruction.op {
            Op::Send(_) => MessageEnd::Send(message),
            _ => MessageEnd::Receive(message),
        });
        let Instruction { stream, cause, behind, .. } = *instruction;
        Self { stream, cause, behind, transfer, waits_until: waits_until as u32 }
    }
}

/// How many messages of each kind were started, delivered and taken out. Those of one kind come in the order of their
/// micro-batches.
#[derive(Clone)]
pub(super) struct Messages {
    pub(super) micro: usize,
    pub(super) payloads: usize,
    pub(super) started: Vec<u32>,
    pub(super) delivered: Vec<u32>,
    /// Where messages arrive in inboxes.
    pub(super) received: Option<Vec<u32>>,
}

impl Messages {
    /// Whether the sending of `message` of micro-batch `micro` has begun.
    pub(super) fn has_started(&self, message: Message, micro: u32) -> bool {
        self.started[self.kind(message)] > micro
    }

    /// Whether it is there.
    pub(super) fn is_delivered(&self, message: Message, micro: u32) -> bool {
        self.delivered[self.kind(message)] > micro
    }

    /// Whether nothing lies where `message` of micro-batch `micro` arrives.
    pub(super) fn has_room(&self, message: Message, micro: u32) -> bool {
        self.received.as_ref().is_none_or(|received| received[self.kind(message)] >= micro)
    }

    /// The number of its kind: boundary and payload.
    pub(super) fn kind(&self, message: Message) -> usize {
        let payload = match message.payload {
            Payload::Activation => 0,
            Payload::Gradient(loss) => 1 + usize::from(loss),
        };
        let boundary = message.from.min(message.to) as usize;
        boundary * self.payloads + payload
    }

    /// A number of its own for every message of a step.
    pub(super) fn index(&self, message: Message, micro: u32) -> usize {
        self.kind(message) * self.micro + micro as usize
    }

    /// How many messages a step may have.
    pub(super) const fn most(&self) -> usize {
        self.started.len() * self.micro
    }
}

/// Plays alone every template that may be quiet on its rank and is used more than once.
pub(super) fn find_quiet(program: &RankProgram, prepared: &mut [Prepared]) {
    let mut send = [0.0_f64; Resource::COUNT];
    let mut uses = vec![0; prepared.len()];
    for call in &program.calls {
        uses[call.template as usize] += 1;
    }
    for (template, prepared) in program.templates.iter().zip(&*prepared) {
        for (instruction, price) in template.instructions.iter().zip(&prepared.prices) {
            if matches!(instruction.op, Op::Send(_)) && instruction.stream == Stream::Send {
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
    pub(super) fn new(
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
                let mut prices = template
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
                issue::pace(&template.instructions, &mut prices, pricing);
                let mut following = vec![u32::MAX; prices.len()];
                for pair in by_stream.iter().flat_map(|list| list.windows(2)) {
                    following[pair[0] as usize] = pair[1];
                }
                let (mut waits, mut steps) = (Vec::new(), Vec::with_capacity(prices.len()));
                for instruction in &template.instructions {
                    let stream = |wait: u32| template.instructions[wait as usize].stream as u8;
                    waits.extend(instruction.waits.iter().map(|&wait| (stream(wait), wait)));
                    steps.push(Step::new(instruction, waits.len()));
                }
                Prepared { by_stream, prices, following, steps, waits, quiet: None }
            })
            .collect();
        if counts_quiet_whole {
            find_quiet(program, &mut prepared);
        }
        let instructions = program.templates.iter().flat_map(|template| &template.instructions);
        let mut rank = Self {
            program,
            prepared,
            streams: std::array::from_fn(|_| StreamState { next: END, running: None }),
            now: 0.0,
            causes: CauseTimes::default(),
            memory: memory::peak(program),
            peak_at: 0.0,
            spans: Vec::with_capacity(program.calls.len()),
            starts: None,
            notes: None,
            done: false,
            used: instructions.fold(Streams::NONE, |used, one| used.and(Streams::of(one.stream))),
            next_at: None,
        };
        for stream in 0..STREAMS {
            rank.streams[stream].next = rank.position_from(stream, 0, 0);
        }
        rank
    }

    /// Its instructions take what was measured of them, by template, where something was.
    pub(super) fn take_measured(&mut self, measured: &[Vec<Option<Seconds>>]) {
        for (template, measured) in self.prepared.iter_mut().zip(measured) {
            for (price, measured) in template.prices.iter_mut().zip(measured) {
                price.seconds = measured.unwrap_or(price.seconds);
            }
        }
    }

    /// Seconds of its passes, each by itself; of one that is not quiet, what computes.
    pub(super) fn busy(&self) -> f64 {
        let alone: Vec<f64> = self
            .prepared
            .iter()
            .map(|template| {
                let computes = template.by_stream[Stream::Compute as usize].iter();
                let kernels = || computes.map(|&index| template.prices[index as usize].seconds.0).sum();
                template.quiet.as_ref().map_or_else(kernels, |quiet| quiet.seconds)
            })
            .collect();
        self.program.calls.iter().map(|call| alone[call.template as usize]).sum()
    }

    /// The first instruction of `stream` at or behind instruction `from` of call `call`.
    pub(super) fn position_from(&self, stream: usize, call: u32, from: u32) -> Position {
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
    pub(super) fn book(&mut self, span: f64, messages: &Messages) {
        let runs = |stream: Stream| self.streams[stream as usize].running.is_some();
        if !self.spans.is_empty() && !runs(Stream::Compute) && !runs(Stream::Model) {
            self.causes.waiting += Seconds(span);
        }
        // A message under way to an idle rank is communication.
        let awaited = self.awaited(messages).then_some(Cause::Communication);
        let running = self.streams.iter().filter_map(|stream| stream.running.map(|running| running.cause));
        self.causes.add(Seconds(span), running.chain(awaited));
    }

    /// Counts sends that run beside a quiet pass as hidden, by the share of it that computes.
    pub(super) fn hide_sends(&mut self, span: f64) {
        let position = self.streams[Stream::Compute as usize].next;
        let template = self.program.calls[position.0 as usize].template as usize;
        if self.streams[Stream::Send as usize].running.is_some()
            && let Some(quiet) = &self.prepared[template].quiet
        {
            let causes = &quiet.causes;
            let alone = causes.of(Cause::Compute) + causes.of(Cause::Recompute) - causes.communication_hidden;
            self.causes.communication_hidden += alone * (span / quiet.seconds);
        }
    }

    /// Starts the next pass as a whole, if it is quiet, its input is there and nothing else is under way.
    pub(super) fn start_quiet(&mut self, time: f64) -> bool {
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
        let is_alone = others.iter().all(|&stream| self.is_behind(stream as usize, call));
        if !at_first(compute, quiet.first[0]) || !at_first(model, quiet.first[1]) || !received || !is_alone {
            return false;
        }
        let seconds = quiet.seconds;
        if self.memory.call == call as usize {
            self.peak_at = time + quiet.starts[self.memory.instruction];
        }
        self.begin(compute, position, time);
        self.begin_quiet(call);
        self.streams[compute].running = Some(Running {
            left: seconds,
            rate: 1.0,
            price: Price::alone(Seconds(seconds)),
            cause: Cause::Compute,
            quiet: true,
        });
        true
    }

    /// Notes when the computing instructions of the quiet pass of `call` start.
    fn begin_quiet(&mut self, call: u32) {
        let prepared = &self.prepared[self.program.calls[call as usize].template as usize];
        if let (Some(starts), Some(quiet)) = (&mut self.starts, &prepared.quiet) {
            let computes = prepared.by_stream[Stream::Compute as usize].iter();
            let whole = computes.take_while(|&&index| index < quiet.until);
            starts.begin_all(call as usize, whole.map(|&index| quiet.starts[index as usize]).collect());
        }
    }

    /// Whether `stream` is done with call `call`, and with what it could do ahead of later ones.
    fn is_behind(&self, stream: usize, call: u32) -> bool {
        let StreamState { next, running } = self.streams[stream];
        let waits = || next == END || !self.is_ready(next, self.at(next).1);
        next.0 > call && running.is_none() && waits()
    }

    /// Ends a quiet pass: its streams stand behind it, its causes are booked.
    pub(super) fn finish_quiet(&mut self, call: u32, time: f64) {
        let template = self.program.calls[call as usize].template as usize;
        let Some(&Quiet { causes, until, .. }) = self.prepared[template].quiet.as_ref() else { return };
        self.causes += causes;
        for stream in [Stream::Compute as usize, Stream::Model as usize] {
            if self.streams[stream].next.0 <= call {
                self.streams[stream].next = self.position_from(stream, call, until);
            }
        }
        self.spans[call as usize].end = Seconds(time);
    }

    /// Whether one of its streams stands before the sending of `message`.
    pub(super) fn is_about_to_send(&self, message: Message) -> bool {
        let sends = |stream: Stream| {
            let position = self.streams[stream as usize].next;
            let is_it = |step: Step| matches!(step.transfer, Some(MessageEnd::Send(next)) if next == message);
            position != END && is_it(self.at(position).1)
        };
        sends(Stream::Send) || sends(Stream::Compute)
    }

    pub(super) fn at(&self, position: Position) -> (&'a Call, Step) {
        let call = &self.program.calls[position.0 as usize];
        (call, self.prepared[call.template as usize].steps[position.1 as usize])
    }

    pub(super) fn is_ready(&self, position: Position, step: Step) -> bool {
        let prepared = &self.prepared[self.program.calls[position.0 as usize].template as usize];
        let waits = prepared.waits_of(position.1 as usize);
        let is_done =
            |&(stream, wait): &(u8, u32)| self.streams[usize::from(stream)].next > (position.0, wait);
        waits.iter().all(is_done)
            && step.behind.numbers().all(|stream| self.streams[stream].next.0 >= position.0)
    }

    pub(super) fn begin(&mut self, stream: usize, position: Position, time: f64) {
        if let Some(notes) = &mut self.notes {
            notes.note(position, 0, time);
        }
        if (position.0 as usize, position.1 as usize) == (self.memory.call, self.memory.instruction) {
            self.peak_at = time;
        }
        if stream != Stream::Compute as usize {
            return;
        }
        while self.spans.len() <= position.0 as usize {
            let call = &self.program.calls[self.spans.len()];
            let Template { pass, frame: chunk, .. } = self.program.templates[call.template as usize];
            let start = Seconds(time);
            self.spans.push(Span { pass, chunk, micro: call.micro, start, end: start });
        }
        if let Some(starts) = &mut self.starts {
            let call = position.0 as usize;
            starts.begin(call, time - self.spans[call].start.0);
        }
    }

    pub(super) fn finish(&mut self, stream: usize, position: Position, time: f64) {
        if let Some(notes) = &mut self.notes {
            notes.note(position, 1, time);
        }
        let template = self.program.calls[position.0 as usize].template as usize;
        self.streams[stream].next = match self.prepared[template].following[position.1 as usize] {
            u32::MAX => self.position_from(stream, position.0 + 1, 0),
            next => (position.0, next),
        };
        if stream == Stream::Compute as usize {
            self.spans[position.0 as usize].end = Seconds(time);
        }
    }

    pub(super) fn next_event(&self) -> Option<f64> {
        self.streams
            .iter()
            .filter_map(|stream| stream.running)
            .map(|running| self.now + (running.left / running.rate).max(0.0))
            .reduce(f64::min)
    }

    /// Whether the rank idles on a message that is already under way.
    pub(super) fn awaited(&self, messages: &Messages) -> bool {
        let position = self.streams[Stream::Receive as usize].next;
        if position == END || self.streams.iter().any(|stream| stream.running.is_some()) {
            return false;
        }
        let (call, step) = self.at(position);
        let Some(MessageEnd::Receive(message)) = step.transfer else { return false };
        messages.has_started(message, call.micro)
    }
}
