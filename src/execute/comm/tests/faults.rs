//! Ranks that disagree, give up or panic: everybody is told, nobody hangs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;

#[test]
fn members_that_disagree_are_all_told_both_views() {
    let errors = on_all(3, |mut group| {
        let mut data = vec![0.0f32; if group.member() == 2 { 9 } else { 8 }];
        group.barrier().unwrap();
        group.all_reduce(&mut data, Reduction::sum(ElementType::Bf16)).unwrap_err()
    });
    assert!(errors.iter().all(|error| *error == errors[0]));
    let text = errors[0].to_string();
    assert!(text.contains("Tensor group on stream Model"), "{text}");
    assert!(text.contains("rank 2: all-reduce over bf16 of 9 fp32 elements as call 1"), "{text}");
    assert!(text.contains("of 8 fp32 elements"), "{text}");
}

#[test]
fn every_part_of_a_call_must_agree() {
    let differ = |first: fn(&mut Endpoint) -> Result<(), CommError>,
                  second: fn(&mut Endpoint) -> Result<(), CommError>| {
        let results =
            on_all(2, |mut group| if group.member() == 0 { first(&mut group) } else { second(&mut group) });
        assert!(results.iter().all(|result| matches!(result, Err(CommError::Mismatch(_)))), "{results:?}");
    };
    let sum = |group: &mut Endpoint| group.all_reduce(&mut [0.0f32; 4], Reduction::sum(ElementType::Fp32));
    differ(sum, |group| group.all_reduce(&mut [0.0f64; 4], Reduction::sum(ElementType::Fp64)));
    differ(sum, |group| group.all_reduce(&mut [0.0f32; 4], Reduction::sum(ElementType::Bf16)));
    const SCALED: Reduction = Reduction { wire: ElementType::Fp32, scale: Some(0.5) };
    differ(sum, |group| group.all_reduce(&mut [0.0f32; 4], SCALED));
    differ(sum, |group| group.reduce_scatter(&mut [0.0f32; 4], Reduction::sum(ElementType::Fp32)));
    differ(sum, Endpoint::barrier);
}

#[test]
fn slices_of_a_wrong_length_are_refused_before_anybody_waits() {
    let hub = Hub::new(2);
    let mut group = endpoint(&hub, 0, CHANNEL, 2);
    let refused = group.all_gather_from(&[1.0f32; 2], &mut [0.0; 5]).unwrap_err();
    assert_eq!(refused.to_string(), "all-gather: the shard has 2 elements; 3 would do");
    let refused = group.all_to_all(&[1.0f32; 5], &mut [0.0; 5]).unwrap_err();
    assert_eq!(refused.to_string(), "all-to-all: what is sent has 5 elements; 6 would do");
    assert!(matches!(group.shift(&[1.0f32; 5], &mut [0.0; 4]), Err(CommError::Length { expected: 5, .. })));
    let refused = group.all_reduce(&mut [0.0f32], Reduction::sum(ElementType::Fp8)).unwrap_err();
    assert_eq!(refused, CommError::Wire { wire: ElementType::Fp8 });
}

#[test]
fn groups_are_well_formed() {
    let hub = Hub::new(4);
    assert!(hub.endpoint(0, CHANNEL, &[0, 1]).is_ok());
    assert!(matches!(hub.endpoint(0, CHANNEL, &[0, 1]), Err(CommError::Taken { rank: 0, .. })));
    assert!(matches!(hub.endpoint(1, CHANNEL, &[1, 2]), Err(CommError::Taken { rank: 1, .. })));
    assert!(matches!(hub.endpoint(1, CHANNEL, &[1, 0]), Err(CommError::Taken { rank: 1, .. })));
    assert!(matches!(hub.endpoint(2, CHANNEL, &[2, 1]), Err(CommError::Taken { rank: 1, .. })));
    assert!(matches!(hub.endpoint(2, CHANNEL, &[3]), Err(CommError::Members { rank: 2, .. })));
    assert!(matches!(hub.endpoint(2, CHANNEL, &[2, 3, 2]), Err(CommError::Members { rank: 2, .. })));
    assert!(matches!(hub.endpoint(2, CHANNEL, &[2, 4]), Err(CommError::Rank { rank: 4, ranks: 4 })));
    assert!(hub.mailbox(4).is_err());
    assert!(hub.endpoint(1, CHANNEL, &[0, 1]).is_ok());
}

#[test]
fn messages_that_do_not_fit_are_refused() {
    let hub = Hub::new(2);
    let results = on_ranks(2, |rank| {
        let mailbox = hub.mailbox(rank).unwrap();
        match rank {
            0 => mailbox.send(1, TAG, (5, ElementType::Fp32), || ()),
            _ => mailbox.receive(0, TAG, (6, ElementType::Fp32), || panic!("it is not taken")),
        }
    });
    assert_eq!(results[0], Ok(()));
    assert_eq!(
        results[1].as_ref().unwrap_err().to_string(),
        "message 3 of micro-batch 1, step 0, from rank 0 to 1: ranks disagree: \
         rank 0: message of 5 fp32 elements; rank 1: message of 6 fp32 elements"
    );
}

#[test]
fn a_slot_is_filled_again_only_when_it_was_emptied() {
    let hub = Hub::new(2);
    let (sender, receiver) = (hub.mailbox(0).unwrap(), hub.mailbox(1).unwrap());
    let filled = AtomicUsize::new(0);
    let one = (1, ElementType::Fp32);
    thread::scope(|scope| {
        let sends = scope.spawn(|| {
            for micro_batch in 0..100 {
                let tag = Tag { micro_batch, ..TAG };
                sender.send(1, tag, one, || assert_eq!(filled.fetch_add(1, Ordering::SeqCst), 0)).unwrap();
            }
        });
        for micro_batch in 0..100 {
            let tag = Tag { micro_batch, ..TAG };
            receiver.receive(0, tag, one, || assert_eq!(filled.fetch_sub(1, Ordering::SeqCst), 1)).unwrap();
        }
        sends.join().unwrap();
    });
}

#[test]
fn an_abort_wakes_all_who_wait_and_refuses_all_who_come() {
    let hub = Hub::new(5);
    let expected = CommError::Aborted { rank: 4, message: "the device is gone".to_owned() };
    let one = (1, ElementType::Fp32);
    let errors = on_ranks(5, |rank| {
        let mailbox = hub.mailbox(rank).unwrap();
        match rank {
            0 => {
                mailbox.send(1, TAG, one, || ()).unwrap();
                mailbox.send(1, TAG, one, || ()).unwrap_err()
            }
            1 => mailbox.receive(4, TAG, one, || ()).unwrap_err(),
            2 | 3 => endpoint(&hub, rank, CHANNEL, 5).barrier().unwrap_err(),
            _ => {
                thread::sleep(Duration::from_millis(30));
                hub.abort(4, "the device is gone");
                hub.abort(3, "a later one");
                assert_eq!(mailbox.send(0, TAG, one, || ()), Err(expected.clone()));
                let later = Channel { group: Group::World, stream: Stream::Host };
                assert_eq!(endpoint(&hub, 4, later, 5).barrier(), Err(expected.clone()));
                endpoint(&hub, rank, CHANNEL, 5).barrier().unwrap_err()
            }
        }
    });
    assert!(errors.iter().all(|error| *error == expected), "{errors:?}");
}

#[test]
fn no_slice_is_given_back_while_another_member_reads_it() {
    let hub = Hub::new(3);
    let readers = AtomicUsize::new(0);
    on_ranks(3, |rank| {
        let mut group = endpoint(&hub, rank, CHANNEL, 3);
        let result = group.exchange(&[1.0f32], |_, _| {
            if rank == 0 {
                readers.fetch_add(1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(20));
                hub.abort(0, "in the middle");
                thread::sleep(Duration::from_millis(20));
                readers.fetch_sub(1, Ordering::SeqCst);
            }
        });
        assert!(matches!(result, Err(CommError::Aborted { rank: 0, .. })));
        assert_eq!(readers.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_rank_that_panics_stops_the_others() {
    let hub = Hub::new(4);
    let results = on_ranks(4, |rank| {
        hub.guard(rank, || {
            let mut group = endpoint(&hub, rank, CHANNEL, 4);
            group.barrier()?;
            if rank == 1 {
                panic!("index {} of 3", 7);
            }
            group.barrier()
        })
    });
    let expected = CommError::Aborted { rank: 1, message: "it panicked: index 7 of 3".to_owned() };
    assert!(results.iter().all(|result| *result == Err(expected.clone())), "{results:?}");
}

#[test]
fn a_panic_inside_an_exchange_stops_the_others() {
    let hub = Hub::new(3);
    let results = on_ranks(3, |rank| {
        hub.guard(rank, || {
            let data = vec![rank as f32; 100];
            endpoint(&hub, rank, CHANNEL, 3).exchange(&data, |_, _| assert_ne!(rank, 2, "no room"))
        })
    });
    assert!(
        results.iter().all(|result| matches!(result, Err(CommError::Aborted { rank: 2, .. }))),
        "{results:?}"
    );
}
