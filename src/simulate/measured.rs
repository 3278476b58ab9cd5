//! Plays a program with what some of its instructions were measured to take, and notes when every instruction runs.

use crate::cost::{NeverLate, Pricing};
use crate::program::{Program, RankProgram};
use crate::simulate::player::{Playback, Player};
use crate::simulate::rank::{Position, Rank};
use crate::units::Seconds;

/// What instructions of one stage took, by template and instruction; none where a price stands.
#[derive(Clone, Debug, PartialEq)]
pub struct StageSeconds(Vec<Vec<Option<Seconds>>>);

impl StageSeconds {
    /// Nothing was measured yet of `program`.
    pub fn new(program: &RankProgram) -> Self {
        Self(program.templates.iter().map(|template| vec![None; template.instructions.len()]).collect())
    }

    /// The instruction number `index` of `template` took so long.
    pub fn set(&mut self, template: u32, index: u32, seconds: Seconds) {
        self.0[template as usize][index as usize] = Some(seconds);
    }

    /// Of two ranks of a stage, the slower one's time of each instruction: others wait for it.
    pub fn slower(&mut self, other: &Self) {
        let pairs = self.0.iter_mut().flatten().zip(other.0.iter().flatten());
        for (one, other) in pairs {
            *one = match (*one, *other) {
                (Some(one), Some(other)) => Some(one.max(other)),
                (one, other) => one.or(other),
            };
        }
    }
}

/// When each instruction of a rank runs in a step, in issue order: start and end.
pub type Timeline = Vec<[Seconds; 2]>;

/// Notes when instructions run.
pub(super) struct Notes {
    /// By call, the number of its first instruction in issue order.
    first: Vec<u32>,
    ran: Timeline,
}

impl Notes {
    fn new(program: &RankProgram) -> Self {
        let mut first = Vec::with_capacity(program.calls.len());
        let mut count = 0;
        for call in &program.calls {
            first.push(count);
            count += program.templates[call.template as usize].instructions.len() as u32;
        }
        Self { first, ran: vec![[Seconds::ZERO; 2]; count as usize] }
    }

    /// The instruction at `position` starts (0) or ends (1).
    pub(super) fn note(&mut self, position: Position, side: usize, time: f64) {
        self.ran[(self.first[position.0 as usize] + position.1) as usize][side] = Seconds(time);
    }
}

/// Plays `program`, every instruction by itself, at the prices of `pricing` and, stage by stage, at what was `measured`
/// instead. What was measured competes for resources as what is priced does; a host that issues late is in it.
pub fn play_measured(
    program: &Program,
    pricing: &dyn Pricing,
    measured: &[Option<StageSeconds>],
) -> (Playback, Vec<Timeline>) {
    let mut player = Player::new(program, pricing, false);
    for ((stage, program), measured) in program.ranks.iter().enumerate().zip(measured) {
        if let Some(measured) = measured {
            let mut rank = Rank::new(program, &NeverLate(pricing), &player.stage_of_chunk, false);
            rank.take_measured(&measured.0);
            player.ranks[stage] = rank;
        }
        player.ranks[stage].notes = Some(Notes::new(program));
    }
    let (playback, notes) = player.noted();
    (playback, notes.into_iter().map(|notes| notes.ran).collect())
}
