//! A star of threads: contributions, failures, silence, standstill, strangers.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::star::{self, Connected, LOOPBACK};
use super::{Alarm, Doing, JobControl, JobFailure, OnFailure, Patience};
use crate::execute::world::token::Token;

const TOKEN: Token = [7; 16];

const PATIENT: Patience = Patience { silence: Duration::from_secs(20), standstill: Duration::from_secs(40) };

const SILENT: OnFailure = OnFailure { say: |_| {}, end: |_| {} };

/// The ends of `size` ranks, with their alarms; each rank's clock shows an hour more than the one before.
fn star(size: usize, patience: Patience) -> Vec<(JobControl, Alarm)> {
    star_that(SILENT, size, patience)
}

fn star_that(on_failure: OnFailure, size: usize, patience: Patience) -> Vec<(JobControl, Alarm)> {
    let listeners = star::listen(&[LOOPBACK], 0).unwrap();
    let addresses: Vec<SocketAddr> =
        listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let began = Instant::now();
    let clock = |rank: usize| move || began.elapsed().as_secs_f64() + 3600.0 * rank as f64;
    let deadline = Instant::now() + Duration::from_secs(10);
    let end = |rank: usize, connected: Vec<Connected>| {
        let alarm = Alarm::default();
        let control = JobControl::new(
            (rank, &format!("host-{rank}")),
            connected,
            (patience, alarm.clone()),
            on_failure,
        );
        (control.unwrap(), alarm)
    };
    thread::scope(|scope| {
        // A stranger is sent away.
        let stranger = addresses[0];
        scope.spawn(move || TcpStream::connect(stranger).unwrap().write_all(&[0; 64]).unwrap());
        let others: Vec<_> = (1..size)
            .map(|rank| {
                let addresses = addresses.clone();
                scope.spawn(move || {
                    let name = format!("host-{rank}");
                    let stream =
                        star::connect(&addresses, (rank, &name), &TOKEN, (deadline, &clock(rank))).unwrap();
                    end(rank, vec![Connected { rank: 0, host: "host-0".to_owned(), stream, clock: 0.0 }])
                })
            })
            .collect();
        let connected = star::accept(&listeners, size - 1, &TOKEN, (deadline, &clock(0))).unwrap();
        let first = end(0, connected);
        std::iter::once(first).chain(others.into_iter().map(|other| other.join().unwrap())).collect()
    })
}

/// What each rank returns from `work`.
fn on_all<R: Send>(star: &[(JobControl, Alarm)], work: impl Fn(usize, &JobControl) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let work = &work;
        let ranks = star.iter().enumerate();
        let threads: Vec<_> =
            ranks.map(|(rank, (control, _))| scope.spawn(move || work(rank, control))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn contributions_come_in_the_order_of_ranks_and_clocks_are_compared() {
    let star = star(5, PATIENT);
    let seen = on_all(&star, |rank, control| {
        for turn in 0..50_u8 {
            let gathered = control.gather(&[rank as u8, turn]).unwrap();
            assert_eq!(gathered.is_some(), rank == 0);
            let all = gathered.map(|all| all.concat());
            let expected: Vec<u8> = (0..5).flat_map(|rank| [rank, turn]).collect();
            assert_eq!(control.broadcast(all.as_deref()).unwrap(), expected);
        }
        control.leave()
    });
    assert_eq!(seen, vec![Ok(()); 5]);
    for (rank, clock) in star[0].0.clocks().into_iter().enumerate() {
        assert!((clock - 3600.0 * rank as f64).abs() < 0.05, "rank {rank}: {clock} s");
    }
    assert_eq!(star[0].0.hosts()[3], "host-3");
}

#[test]
fn all_end_with_the_failure_that_came_first() {
    let star = star(4, PATIENT);
    let failures = on_all(&star, |rank, control| match rank {
        2 => control.fail("it broke", "a document"),
        3 => {
            thread::sleep(Duration::from_millis(300));
            control.fail("it broke too", "")
        }
        // It waits for others, who will not come.
        _ => control.broadcast(None).unwrap_err(),
    });
    for failure in &failures {
        assert_eq!((failure.rank, failure.message.as_str()), (2, "it broke"));
        assert_eq!((failure.document.as_str(), failure.host.as_str()), ("a document", "host-2"));
    }
    let speakers = star.iter().filter(|(control, _)| control.speaks(&failures[0])).count();
    assert_eq!(speakers, 1);
    assert!(star.iter().all(|(_, alarm)| alarm.check().is_err()));
}

#[test]
fn a_rank_that_is_gone_is_named() {
    for gone in [0, 1] {
        let mut star = star(3, PATIENT);
        drop(star.remove(gone));
        let failures = on_all(&star, |_, control| control.broadcast(None).and_then(|_| control.gather(&[])));
        for failure in failures.into_iter().filter_map(Result::err) {
            assert_eq!(failure.rank, gone, "{failure}");
            assert!(failure.is_gone && failure.message.contains("it is gone"), "{failure}");
        }
        let failure = star[0].0.failed_elsewhere();
        assert_eq!(star.iter().filter(|(control, _)| control.speaks(&failure)).count(), 1);
    }
}

/// A launcher ends rank 0 once another rank has ended, so it has to have said why before the others know.
#[test]
fn why_the_job_failed_is_said_before_others_are_told() {
    static SAID: AtomicUsize = AtomicUsize::new(0);
    let say = |failure: &JobFailure| {
        thread::sleep(Duration::from_millis(200));
        SAID.fetch_add(failure.rank, Ordering::SeqCst);
    };
    let star = star_that(OnFailure { say, end: |_| {} }, 3, PATIENT);
    // Rank 0 is busy: only the threads of its connections learn of the failure.
    let said = on_all(&star[1..], |index, control| {
        let failure =
            if index == 1 { control.fail("it broke", "") } else { control.broadcast(None).unwrap_err() };
        (failure.rank, SAID.load(Ordering::SeqCst))
    });
    assert_eq!(said, [(2, 2), (2, 2)]);
}

/// Rank 0 ends as soon as it knows: the others have been told before.
#[test]
fn who_ends_at_once_has_told_the_others() {
    for _ in 0..100 {
        let mut star = star(4, PATIENT);
        let ends: Vec<_> = star.drain(..3).map(|(control, _)| control).collect();
        drop(star);
        let others: Vec<_> = ends
            .into_iter()
            .map(|control| thread::spawn(move || control.gather(&[]).and_then(|_| control.broadcast(None))))
            .collect();
        for other in others {
            let failure = other.join().unwrap().unwrap_err();
            assert_eq!(failure.rank, 3, "{failure}");
        }
    }
}

#[test]
fn a_step_that_stands_still_names_the_rank_that_others_wait_for() {
    let patience = Patience { silence: Duration::from_secs(20), standstill: Duration::from_secs(1) };
    let star = star(3, patience);
    for (rank, (control, _)) in star.iter().enumerate() {
        let doing = Doing { done: 5, at: format!("work of {rank}"), waits: rank != 1 };
        control.follow(Some(Arc::new(move || doing.clone())), 0.0);
    }
    let failures: Vec<JobFailure> = on_all(&star, |_, control| control.failed_elsewhere());
    for failure in failures {
        assert_eq!(failure.rank, 1, "{failure}");
        assert!(failure.message.contains("has stood still for 1 s; it is at work of 1"), "{failure}");
    }
}

#[test]
fn a_step_that_gets_on_is_left_alone() {
    let patience = Patience { silence: Duration::from_secs(20), standstill: Duration::from_secs(1) };
    let star = star(2, patience);
    let began = Instant::now();
    for (control, _) in &star {
        let doing =
            move || Doing { done: began.elapsed().as_millis() as u64, at: "work".to_owned(), waits: false };
        control.follow(Some(Arc::new(doing)), 0.0);
    }
    thread::sleep(Duration::from_millis(2500));
    assert!(star.iter().all(|(_, alarm)| alarm.check().is_ok()));
}

#[test]
fn ranks_that_do_not_come_are_named() {
    let listeners = star::listen(&[LOOPBACK], 0).unwrap();
    let deadline = Instant::now() + Duration::from_millis(100);
    let missing = star::accept(&listeners, 3, &TOKEN, (deadline, &|| 0.0)).unwrap_err();
    assert_eq!(missing, [1, 2, 3]);
    let free = listeners[0].local_addr().unwrap();
    drop(listeners);
    let name = (1, "host");
    assert!(star::connect(&[free], name, &TOKEN, (deadline, &|| 0.0)).is_err());
}
