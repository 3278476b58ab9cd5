//! All ranks submit collectives and messages in one order, and none of them waits for ever for another that does so too.

mod sampling;

use std::collections::HashMap;

use meshwright::cost::DevicePricing;
use meshwright::ops::{Group, Op};
use meshwright::profile::choices::Schedule;
use meshwright::program::fault::Fault;
use meshwright::program::instruction::{Instruction, Message, RankProgram, Task};
use meshwright::program::issue_order::Clock;
use meshwright::program::submission::{Submitted, submissions};
use meshwright::program::verify::verify;
use meshwright::program::{Pass, Program, build};
use meshwright::simulate::{Timeline, play_measured};
use meshwright::units::Seconds;
use sampling::{Case, cases};

/// What stops a rank until others are there too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Meeting {
    /// The collective of a group of several stages, and how many of it came before on the stage.
    Collective(Group, u32),
    Message(Message, u32),
}

/// By stage, where the ranks stop: `order` read apart from the code that made it.
fn meetings(program: &Program, order: &[Vec<Submitted>]) -> Vec<Vec<Meeting>> {
    let stage_of: HashMap<u32, u32> = receivers(program);
    let of = |(rank, list): (&RankProgram, &Vec<Submitted>)| {
        let issued: Vec<_> = rank.issued().collect();
        let mut counts: HashMap<Group, u32> = HashMap::new();
        list.iter()
            .filter_map(|submitted| match *submitted {
                Submitted::Post { message, micro } => Some(Meeting::Message(message, micro)),
                Submitted::Instruction(number) => {
                    let one = &issued[number as usize];
                    match (&one.instruction.op, one.instruction.task, one.instruction.message) {
                        (Op::Collective(collective), ..)
                            if matches!(collective.group, Group::Tied | Group::World) =>
                        {
                            let count = counts.entry(collective.group).or_default();
                            *count += 1;
                            Some(Meeting::Collective(collective.group, *count))
                        }
                        (_, Task::Send, Some(message)) if stage_of[&message.to] != rank.stage => {
                            Some(Meeting::Message(message, one.micro))
                        }
                        _ => None,
                    }
                }
            })
            .collect()
    };
    program.ranks.iter().zip(order).map(of).collect()
}

/// By chunk that receives something, its stage.
fn receivers(program: &Program) -> HashMap<u32, u32> {
    let received =
        program.ranks.iter().flat_map(|rank| rank.issued().map(move |one| (rank.stage, one.instruction)));
    let received = received.filter(|(_, one)| one.task == Task::Receive);
    received.filter_map(|(stage, one)| Some((one.message?.to, stage))).collect()
}

/// How many stages are at each meeting.
fn members(meetings: &[Vec<Meeting>]) -> HashMap<Meeting, usize> {
    let mut with: HashMap<Meeting, usize> = HashMap::new();
    for meeting in meetings.iter().flatten() {
        *with.entry(*meeting).or_default() += 1;
    }
    with
}

/// Lets every rank go to its next meeting and on from there once all that it is with are there; where they stand when
/// nobody moves any more.
fn walk(meetings: &[Vec<Meeting>]) -> Vec<usize> {
    let with = members(meetings);
    let mut at = vec![0; meetings.len()];
    loop {
        let mut there: HashMap<Meeting, Vec<usize>> = HashMap::new();
        for (stage, list) in meetings.iter().enumerate() {
            if let Some(meeting) = list.get(at[stage]) {
                there.entry(*meeting).or_default().push(stage);
            }
        }
        let met: Vec<usize> = there
            .into_iter()
            .filter(|(meeting, stages)| stages.len() == with[meeting])
            .flat_map(|met| met.1)
            .collect();
        if met.is_empty() {
            return at;
        }
        met.into_iter().for_each(|stage| at[stage] += 1);
    }
}

/// Each instruction comes once, after all that it waits for, and room for a message before the message is received and
/// after the one before it was.
fn check_stage(rank: &RankProgram, list: &[Submitted], text: &str) {
    let issued: Vec<_> = rank.issued().collect();
    let mut place = vec![usize::MAX; issued.len()];
    let mut posts: HashMap<(Message, u32), usize> = HashMap::new();
    for (at, submitted) in list.iter().enumerate() {
        let was = match *submitted {
            Submitted::Instruction(number) => std::mem::replace(&mut place[number as usize], at),
            Submitted::Post { message, micro } => posts.insert((message, micro), at).unwrap_or(usize::MAX),
        };
        assert_eq!(was, usize::MAX, "{text}: {submitted:?} twice");
    }
    let mut clock = Clock::default();
    let mut streams: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut received: HashMap<(Message, u32), usize> = HashMap::new();
    for (number, one) in issued.iter().enumerate() {
        assert_ne!(place[number], usize::MAX, "{text}: {number} never");
        let (waits, _) = clock.next(one);
        for (stream, &count) in waits.iter().enumerate() {
            let before = streams.get(&stream).into_iter().flatten().take(count as usize);
            assert!(before.into_iter().all(|&before| place[before] < place[number]), "{text}: {number}");
        }
        streams.entry(one.instruction.stream as usize).or_default().push(number);
        if let (Task::Receive, Some(message)) = (one.instruction.task, one.instruction.message) {
            received.insert((message, one.micro), place[number]);
        }
    }
    for (&(message, micro), &post) in &posts {
        assert!(post < received[&(message, micro)], "{text}: {message:?} of {micro} has no room");
        let before = micro.checked_sub(1).map(|before| received[&(message, before)]);
        assert!(
            before.is_none_or(|before| before < post || !rank.has_inboxes),
            "{text}: {message:?} of {micro} is in the way"
        );
    }
}

fn timelines(case: &Case, program: &Program) -> Vec<Timeline> {
    let cluster = meshwright::cluster::load(&format!("1x{}xh100-sxm", case.devices)).unwrap();
    let pricing = DevicePricing::new(&cluster, case.engine, &case.strategy, case.workload.precision);
    play_measured(program, &pricing, &vec![None; program.ranks.len()]).1
}

#[test]
fn ranks_that_submit_in_the_order_of_the_timeline_never_wait_for_ever() {
    let mut seen: HashMap<Schedule, u32> = HashMap::new();
    let mut meet = 0;
    for (seed, case) in cases(7_300_000, 3_000).filter(|(_, case)| case.strategy.pipeline > 1).take(1_000) {
        let program = build(&case.model, &case.strategy, &case.workload, case.engine);
        let timelines = timelines(&case, &program);
        let order = submissions(&program, |stage, number| timelines[stage][number as usize][0]).unwrap();
        let text = format!("seed {seed}, {}, {}", case.text, case.engine.name);
        for (rank, list) in program.ranks.iter().zip(&order) {
            check_stage(rank, list, &text);
        }
        let meetings = meetings(&program, &order);
        let ends: Vec<usize> = meetings.iter().map(Vec::len).collect();
        assert_eq!(walk(&meetings), ends, "{text}");
        meet += ends.iter().sum::<usize>();
        *seen.entry(case.strategy.schedule).or_default() += 1;
    }
    assert!(Schedule::ALL.iter().all(|schedule| seen.get(schedule) > Some(&20)), "{seen:?}");
    assert!(meet > 10_000, "{meet}");
}

/// The number of the first instruction of the optimizer's own work.
fn halt(rank: &RankProgram) -> u32 {
    let mut tasks = rank.issued().map(|one| one.instruction.task);
    let is_own = |task| matches!(task, Task::GradientSquares | Task::HostGradients(_) | Task::DeviceStep(_));
    tasks.position(is_own).map_or(u32::MAX, |number| number as u32)
}

/// So a step can be halted before the optimizer's own work, and ranks that submit what is before it first do not wait for
/// ever.
#[test]
fn what_is_before_the_optimizer_waits_for_nothing_behind() {
    let mut halted = 0;
    for (seed, case) in cases(7_300_000, 3_000).filter(|(_, case)| case.strategy.pipeline > 1).take(300) {
        let program = build(&case.model, &case.strategy, &case.workload, case.engine);
        let timelines = timelines(&case, &program);
        let mut order = submissions(&program, |stage, number| timelines[stage][number as usize][0]).unwrap();
        let text = format!("seed {seed}, {}, {}", case.text, case.engine.name);
        let mut before = Vec::new();
        for (rank, list) in program.ranks.iter().zip(&mut order) {
            let halt = halt(rank);
            let is_behind =
                |one: &Submitted| matches!(one, Submitted::Instruction(number) if *number >= halt);
            list.sort_by_key(is_behind);
            check_stage(rank, list, &text);
            before.push(list[..list.partition_point(|one| !is_behind(one))].to_vec());
            halted += usize::from(halt < u32::MAX);
        }
        let [before, all] = [before, order].map(|order| meetings(&program, &order));
        let with = members(&all);
        assert!(members(&before).iter().all(|(meeting, count)| with[meeting] == *count), "{text}");
        for meetings in [before, all] {
            let ends: Vec<usize> = meetings.iter().map(Vec::len).collect();
            assert_eq!(walk(&meetings), ends, "{text}");
        }
    }
    assert!(halted > 500, "{halted}");
}

#[test]
fn issue_order_alone_would_not_do() {
    // So the test above could fail: where each rank goes by its own order of issue, some wait for ever.
    let stuck = cases(7_300_000, 3_000).filter(|(_, case)| case.strategy.pipeline > 1).take(1_000).filter(
        |(_, case)| {
            let program = build(&case.model, &case.strategy, &case.workload, case.engine);
            let posts = |rank: &RankProgram| {
                let issued: Vec<_> = rank.issued().map(|one| (one.instruction.clone(), one.micro)).collect();
                let submitted = |(number, (one, micro)): (u32, &(_, u32))| {
                    let one: &Instruction = one;
                    let post = (one.task == Task::Receive).then_some(one.message).flatten();
                    let post = post.map(|message| Submitted::Post { message, micro: *micro });
                    post.into_iter().chain([Submitted::Instruction(number)]).collect::<Vec<_>>()
                };
                (0..).zip(&issued).flat_map(submitted).collect::<Vec<_>>()
            };
            let order: Vec<Vec<Submitted>> = program.ranks.iter().map(posts).collect();
            let meetings = meetings(&program, &order);
            let ends: Vec<usize> = meetings.iter().map(Vec::len).collect();
            walk(&meetings) != ends
        },
    );
    assert!(stuck.count() > 10);
}

#[test]
fn messages_in_the_way_of_each_other_are_refused() {
    let (_, case) = cases(7_300_000, 3_000)
        .find(|(_, case)| case.strategy.pipeline > 1 && case.strategy.accumulation > 1)
        .unwrap();
    let mut program = build(&case.model, &case.strategy, &case.workload, case.engine);
    assert_eq!(verify(&program), Ok(()));
    // The first stage waits for the gradient of its first micro-batch before it sends anything.
    let first = &mut program.ranks[0];
    let of =
        |pass| first.calls.iter().position(|call| first.templates[call.template as usize].pass == Some(pass));
    let (forward, backward) = (of(Pass::Forward), of(Pass::Backward));
    first.calls.swap(forward.unwrap(), backward.unwrap());
    let found = submissions(&program, |_, _| Seconds::ZERO);
    assert!(matches!(found, Err(Fault::Deadlock { .. })), "{found:?}");
}
