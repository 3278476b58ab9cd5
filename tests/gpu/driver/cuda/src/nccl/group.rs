//! Groups of calls: a thread's own, queued when it ends, communicator by communicator.

use super::communicator::Communicator;
use super::issue::Issue;
use super::{Code, refuse, users};
use crate::call::{Pause, Session};
use crate::failure::{Answer, Failure};
use std::cell::RefCell;

#[derive(Default)]
struct Group {
    /// How many have been started and not ended.
    depth: u32,
    /// By communicator, in the order of their first calls.
    issues: Vec<(u64, Vec<Issue>)>,
    /// Communicators that come in it.
    coming: Vec<u64>,
    /// The code of a call that has failed.
    failed: Option<u32>,
}

thread_local! {
    static GROUP: RefCell<Group> = const {
        RefCell::new(Group { depth: 0, issues: vec![], coming: vec![], failed: None })
    };
}

/// Whether the thread has a group open.
pub fn is_open() -> bool {
    GROUP.with_borrow(|group| group.depth > 0)
}

pub fn start() {
    GROUP.with_borrow_mut(|group| group.depth += 1);
}

/// A call within a group has failed, and so does the group.
pub fn spoil(code: u32) {
    GROUP.with_borrow_mut(|group| group.failed = group.failed.or(Some(code)));
}

/// The thread's groups end with nothing done.
pub fn give_up() {
    GROUP.take();
    users::release();
}

impl Session {
    /// Queues an operation, or keeps it for the end of the thread's group.
    pub fn issue_or_keep(&mut self, key: u64, issue: Issue) -> Answer {
        if !is_open() {
            self.issue(key, vec![issue])?;
            return self.answers(&[key]);
        }
        GROUP.with_borrow_mut(|group| match group.issues.iter_mut().find(|known| known.0 == key) {
            Some((_, issues)) => issues.push(issue),
            None => group.issues.push((key, vec![issue])),
        });
        Ok(())
    }

    /// Waits for the other members, or leaves that to the end of the thread's group.
    pub fn come_or_keep(&mut self, key: u64) -> Answer {
        if is_open() {
            GROUP.with_borrow_mut(|group| group.coming.push(key));
            return Ok(());
        }
        self.come(&[key])?;
        self.answers(&[key])
    }

    pub fn end_group(&mut self) -> Answer {
        let ended = GROUP.with_borrow_mut(|group| {
            group.depth = group.depth.checked_sub(1)?;
            Some(if group.depth == 0 {
                std::mem::take(group)
            } else {
                Group { depth: 1, ..Group::default() }
            })
        });
        let Some(group) = ended else {
            return refuse(Code::InvalidUsage, "a group ends that this thread hasn't started");
        };
        if group.depth > 0 {
            return Ok(());
        }
        let result = self.finish(group);
        users::release();
        result
    }

    fn finish(&mut self, group: Group) -> Answer {
        if let Some(code) = group.failed {
            group.coming.iter().for_each(|key| self.leave(*key));
            return Err(Failure { code, text: Some("a call of the group has failed".into()) });
        }
        self.come(&group.coming)?;
        let mut keys = group.coming;
        for (key, issues) in group.issues {
            self.issue(key, issues)?;
            keys.push(key);
        }
        self.answers(&keys)
    }

    /// Waits until all members of these have come, where that isn't left to questions.
    fn come(&mut self, keys: &[u64]) -> Answer {
        let mut pause = Pause::new();
        loop {
            let mut all = true;
            for key in keys {
                if let Some(communicator) = self.nccl.communicators.get_mut(key) {
                    communicator.look();
                    all &= communicator.ready || communicator.aborted || !communicator.blocking;
                }
            }
            if all {
                break;
            }
            self.pause(&mut pause);
        }
        let mut communicators = keys.iter().filter_map(|key| self.nccl.communicators.get(key));
        communicators.try_for_each(Communicator::failure)
    }

    /// Whether one of these has begun something that goes on.
    fn answers(&mut self, keys: &[u64]) -> Answer {
        let known =
            |key: &u64| self.nccl.communicators.get_mut(key).map(|communicator| communicator.answer());
        keys.iter().filter_map(known).collect()
    }
}
