//! Checks a program before anything interprets it: what does not verify is a bug of ours and is never run.

use std::collections::{HashMap, HashSet};

use thiserror::Error;

use crate::lower::Stream;
use crate::ops::Op;
use crate::program::instruction::{Message, Program, RankProgram, Template};

/// What is wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    #[error("rank {rank} sends {message:?} for micro-batch {micro} and nobody receives it")]
    Unreceived { rank: u32, message: Message, micro: u32 },
    #[error("rank {rank} waits for {message:?} for micro-batch {micro}, which nobody sends")]
    Unsent { rank: u32, message: Message, micro: u32 },
    #[error(
        "rank {rank}, call {call}: instruction {instruction} waits for instruction {waits}, which is not before it"
    )]
    WaitsForward { rank: u32, call: usize, instruction: usize, waits: u32 },
    #[error("rank {rank}, call {call}: {buffer} is {what}")]
    Buffer { rank: u32, call: usize, buffer: &'static str, what: &'static str },
    #[error("rank {rank}: {count} buffers are never freed, {buffer} among them")]
    Leak { rank: u32, count: usize, buffer: &'static str },
    #[error("rank {rank} stops at call {call}: the ranks wait for each other in a circle")]
    Deadlock { rank: u32, call: usize },
}

/// Verifies `program`: waits point backwards, buffers are allocated before use and freed once, nothing leaks over
/// the step, every message sent is received, and no circle of ranks waits for itself. Collectives need no check of
/// their own: all members of a group run one rank program, so their order is one by construction.
///
/// # Errors
/// The first fault found.
pub fn verify(program: &Program) -> Result<(), Fault> {
    for rank in &program.ranks {
        for template in &rank.templates {
            check_waits(rank, template)?;
        }
        check_buffers(rank)?;
    }
    check_messages(program)?;
    check_progress(program)
}

fn check_waits(rank: &RankProgram, template: &Template) -> Result<(), Fault> {
    for (index, instruction) in template.instructions.iter().enumerate() {
        for &waits in &instruction.waits {
            if waits as usize >= index {
                return Err(Fault::WaitsForward { rank: rank.stage, call: 0, instruction: index, waits });
            }
        }
    }
    Ok(())
}

/// A buffer of one micro-batch: frame, micro-batch, index.
type Instance = (u32, u32, u32);

fn check_buffers(rank: &RankProgram) -> Result<(), Fault> {
    let mut live: HashSet<Instance> = HashSet::new();
    let mut sent: Vec<Instance> = Vec::new();
    for (call_index, call) in rank.calls.iter().enumerate() {
        let template = &rank.templates[call.template as usize];
        let name = |buffer: u32| rank.frames[template.frame as usize].buffers[buffer as usize].name;
        let fault =
            |buffer, what| Fault::Buffer { rank: rank.stage, call: call_index, buffer: name(buffer), what };
        for instruction in &template.instructions {
            for &buffer in &instruction.allocates {
                if !live.insert((template.frame, call.micro, buffer)) {
                    return Err(fault(buffer, "allocated twice"));
                }
            }
            for &buffer in instruction.reads.iter().chain(&instruction.writes) {
                if !live.contains(&(template.frame, call.micro, buffer)) {
                    return Err(fault(buffer, "used while it is not allocated"));
                }
            }
            for &buffer in &instruction.frees {
                if !live.remove(&(template.frame, call.micro, buffer)) {
                    return Err(fault(buffer, "freed while it is not allocated"));
                }
            }
        }
        for instance in sent.drain(..) {
            if !live.remove(&instance) {
                return Err(fault(instance.2, "freed behind its send while it is not allocated"));
            }
        }
        sent.extend(template.sent.iter().map(|&buffer| (template.frame, call.micro, buffer)));
    }
    match live.iter().min() {
        Some(&(frame, _, buffer)) => Err(Fault::Leak {
            rank: rank.stage,
            count: live.len(),
            buffer: rank.frames[frame as usize].buffers[buffer as usize].name,
        }),
        None => Ok(()),
    }
}

fn check_messages(program: &Program) -> Result<(), Fault> {
    let mut sent: HashMap<(Message, u32), u32> = HashMap::new();
    let mut received: HashMap<(Message, u32), u32> = HashMap::new();
    for rank in &program.ranks {
        for call in &rank.calls {
            for instruction in &rank.templates[call.template as usize].instructions {
                let Some(message) = instruction.message else { continue };
                let ends = if matches!(instruction.op, Op::Send(_)) { &mut sent } else { &mut received };
                if ends.insert((message, call.micro), rank.stage).is_some() {
                    return Err(Fault::Unreceived { rank: rank.stage, message, micro: call.micro });
                }
            }
        }
    }
    for (&(message, micro), &rank) in &sent {
        if !received.contains_key(&(message, micro)) {
            return Err(Fault::Unreceived { rank, message, micro });
        }
    }
    for (&(message, micro), &rank) in &received {
        if !sent.contains_key(&(message, micro)) {
            return Err(Fault::Unsent { rank, message, micro });
        }
    }
    Ok(())
}

/// Runs the calls of all ranks as far as messages allow; a call whose messages have not come blocks its rank.
fn check_progress(program: &Program) -> Result<(), Fault> {
    let mut at = vec![0_usize; program.ranks.len()];
    let mut sent: HashSet<(Message, u32)> = HashSet::new();
    loop {
        let mut moved = false;
        for (rank, at) in program.ranks.iter().zip(&mut at) {
            while let Some(call) = rank.calls.get(*at) {
                let template = &rank.templates[call.template as usize];
                let blocked = template.instructions.iter().any(|instruction| {
                    instruction.stream == Stream::Receive
                        && instruction.message.is_some_and(|message| !sent.contains(&(message, call.micro)))
                });
                if blocked {
                    break;
                }
                sent.extend(
                    template
                        .instructions
                        .iter()
                        .filter(|instruction| matches!(instruction.op, Op::Send(_)))
                        .filter_map(|instruction| instruction.message.map(|message| (message, call.micro))),
                );
                *at += 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    for (rank, at) in program.ranks.iter().zip(at) {
        if at < rank.calls.len() {
            return Err(Fault::Deadlock { rank: rank.stage, call: at });
        }
    }
    Ok(())
}
