//! One member of a communicator: how it comes, waits for the others, fails and goes.

use super::issue::Issue;
use super::operation::Seat;
use super::segment::Segment;
use super::{Code, in_progress, refuse};
use crate::failure::Answer;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// What `ncclGetUniqueId` gives: the first bytes mark it, the next are the id.
pub const MARK: [u8; 8] = *b"fakenccl";

/// How many questions a slow communicator answers with "in progress", for one call.
pub const SLOW_QUESTIONS: u32 = 3;

pub struct Communicator {
    /// In words.
    pub name: String,
    pub seat: Seat,
    pub segment: Arc<Segment>,
    pub blocking: bool,
    /// All members have come, as far as this one has seen.
    pub ready: bool,
    /// Why it does nothing any more, as all questions are answered.
    pub failed: Option<(Code, String)>,
    /// Its handle serves no more.
    pub gone: bool,
    pub aborted: bool,
    pub finalised: bool,
    /// Pieces of work that have been queued, and those of them that are done.
    pub queued: u64,
    pub done: u64,
    /// The rounds of all collectives.
    pub rounds: u64,
    /// Collectives, and messages to and from each rank, for the log.
    pub collectives: u64,
    pub messages: [Vec<u64>; 2],
    /// How many questions are still answered with "in progress".
    pub questions: u32,
    /// What is queued at the last of those questions.
    pub late: Vec<Issue>,
    pub registered: BTreeSet<u64>,
}

/// Who comes to which communicator.
pub struct Arrival<'a> {
    pub folder: &'a Path,
    pub id: [u8; 16],
    pub seat: Seat,
    pub version: i32,
    pub blocking: bool,
    pub slow: bool,
}

impl Communicator {
    pub fn join(arrival: Arrival<'_>) -> Answer<Communicator> {
        let Arrival { folder, id, seat, version, blocking, slow } = arrival;
        let name: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = folder.join(format!("fake-nccl-{name}"));
        let name = name[..8].to_owned();
        let segment = Segment::join(&path, seat.size, seat.rank, version as u64)
            .or_else(|text| refuse(Code::InvalidUsage, format!("communicator {name}: {text}")))?;
        Ok(Communicator {
            name,
            seat,
            segment: Arc::new(segment),
            blocking,
            ready: false,
            failed: None,
            gone: false,
            aborted: false,
            finalised: false,
            queued: 0,
            done: 0,
            rounds: 0,
            collectives: 0,
            messages: [vec![0; seat.size], vec![0; seat.size]],
            questions: if slow && !blocking { SLOW_QUESTIONS } else { 0 },
            late: vec![],
            registered: BTreeSet::new(),
        })
    }

    /// Looks whether all have come, and whether they are of one version.
    pub fn look(&mut self) {
        if self.ready || !self.segment.all_have_come() {
            return;
        }
        self.ready = true;
        let versions: Vec<u64> = self.segment.members().map(|member| member.version()).collect();
        if let Some(rank) = versions.iter().position(|version| *version != versions[0]) {
            let text =
                format!("rank 0 has version {}, and rank {rank} version {}", versions[0], versions[rank]);
            self.fail(Code::InvalidUsage, &text);
        }
    }

    pub fn fail(&mut self, code: Code, text: &str) -> String {
        let text = format!("communicator {}, rank {}: {text}", self.name, self.seat.rank);
        self.failed.get_or_insert_with(|| (code, text.clone()));
        text
    }

    /// It does no more work: what is queued ends at once.
    pub fn has_ended(&self) -> bool {
        self.aborted || self.failed.is_some()
    }

    pub fn is_working(&self) -> bool {
        self.queued > self.done
    }

    /// Whether an earlier call still goes on.
    pub fn is_in_progress(&self) -> bool {
        !self.ready || self.questions > 0 || (self.finalised && !self.has_ended() && self.is_working())
    }

    /// What it failed with.
    pub fn failure(&self) -> Answer {
        match &self.failed {
            Some((code, text)) => refuse(*code, text.clone()),
            None => Ok(()),
        }
    }

    /// It may be given work.
    pub fn allow(&mut self) -> Answer {
        self.look();
        let name = &self.name;
        if self.finalised {
            return refuse(Code::InvalidUsage, format!("communicator {name} has been finalised"));
        }
        if self.is_in_progress() {
            let text = format!("communicator {} is used before its earlier call has ended", self.name);
            return refuse(Code::InvalidArgument, text);
        }
        self.failure()
    }

    /// Its handle serves no more.
    pub fn go(&mut self) {
        self.gone = true;
        self.segment.leave();
    }

    /// The answer of a call that has begun something. What its work finds is said to questions only.
    pub fn answer(&mut self) -> Answer {
        self.look();
        if !self.blocking && self.is_in_progress() { Err(in_progress()) } else { Ok(()) }
    }
}
