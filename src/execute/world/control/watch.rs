//! Whether all ranks live and get on: beats are sent, silence and standstill are noticed.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::frame::Kind;
use super::shared::{Shared, State};
use super::{Doing, JobFailure};

/// From beat to beat, at most.
const PERIOD: Duration = Duration::from_secs(1);

/// Sends beats and looks at those of others until the job is over or has failed.
pub(super) fn watch(shared: &Shared) {
    let (mut last, mut own, mut own_since) = (Instant::now(), Doing::default(), Instant::now());
    loop {
        let state = shared.lock();
        let period = PERIOD.min(state.patience.silence / 5);
        let goes_on = |state: &mut State| !state.is_over && state.failure.is_none();
        let wait = shared.moved.wait_timeout_while(state, period, goes_on);
        let (mut state, _) = wait.unwrap_or_else(PoisonError::into_inner);
        if state.is_over || state.failure.is_some() {
            return;
        }
        let now = Instant::now();
        if now.duration_since(last) > 3 * period {
            // It was this process that stood still: what others sent meanwhile is yet to be read.
            state.heard.fill(now);
            state.since.fill(now);
            own_since = now;
        }
        if now.duration_since(last) > state.patience.silence / 2 {
            state.hushed_until = now + state.patience.silence;
        }
        last = now;
        state.looked = now;
        let asks = state.own.clone();
        drop(state);
        let doing = asks.map(|doing| doing()).unwrap_or_default();
        if doing != own {
            (own, own_since) = (doing, now);
        }
        let text = serde_json::to_vec(&own).unwrap_or_default();
        for index in 0..shared.links.len() {
            let has_left = shared.lock().left[index];
            if !has_left && shared.send(index, Kind::Beat, &text).is_err() {
                return;
            }
        }
        let failure = silent(shared, now).or_else(|| standing(shared, now, (&own, own_since)));
        if let Some(failure) = failure {
            shared.failed(failure);
            return;
        }
    }
}

/// A rank that was not heard of for too long.
fn silent(shared: &Shared, now: Instant) -> Option<JobFailure> {
    let state = shared.lock();
    let patience = state.patience.silence;
    let is_silent = |index: &usize| !state.left[*index] && now.duration_since(state.heard[*index]) > patience;
    let index = (0..shared.links.len()).find(is_silent)?;
    drop(state);
    let gone = shared.gone(index, &format!("it has not been heard of for {} s", patience.as_secs_f64()));
    Some(JobFailure { is_silent: true, ..gone })
}

/// The rank for which a step stands still, as rank 0 sees it: one that does not wait for others, or the one that has done
/// least.
fn standing(shared: &Shared, now: Instant, (own, own_since): (&Doing, Instant)) -> Option<JobFailure> {
    let state = shared.lock();
    if shared.rank > 0 || own.at.is_empty() {
        return None;
    }
    let limit = state.patience.standstill;
    let stands = |since: &Instant| now.duration_since(*since) > limit;
    if !stands(&own_since) || !state.since.iter().all(stands) {
        return None;
    }
    let all = std::iter::once((0, own)).chain(shared.links.iter().map(|link| link.rank).zip(&state.doing));
    let (rank, doing) = all.min_by_key(|(_, doing)| (doing.waits, doing.done))?;
    let doing = doing.clone();
    drop(state);
    let host = shared.links.iter().find(|link| link.rank == rank).map_or(&shared.host, |link| &link.host);
    let limit = limit.as_secs_f64();
    Some(JobFailure {
        rank,
        host: host.clone(),
        message: format!("the step has stood still for {limit} s; it is at {}", doing.at),
        document: String::new(),
        is_gone: false,
        is_silent: false,
    })
}
