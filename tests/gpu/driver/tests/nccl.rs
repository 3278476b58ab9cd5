//! Starts programs of several processes that communicate by the stand-in for NCCL.

mod program;

use program::{Program, orders, program};
use std::path::Path;

/// The program under one lazy order and under eager order: for programs that take their time.
fn two_orders(name: &str) -> [Program; 2] {
    [program(name), program(name).with("FAKE_CUDA_ORDER", "eager")]
}

#[test]
fn all_operations_are_right_between_processes() {
    two_orders("nccl-operations").into_iter().for_each(Program::passes);
}

#[test]
fn two_devices_of_a_process_communicate() {
    for name in ["nccl-two-devices", "nccl-two-threads"] {
        for program in orders(name) {
            program.with("FAKE_CUDA_DEVICES", "2").passes();
        }
    }
}

#[test]
fn messages_go_round_a_ring() {
    orders("nccl-ring").into_iter().for_each(Program::passes);
}

#[test]
fn a_send_waits_for_its_receive() {
    two_orders("nccl-send-waits").into_iter().for_each(Program::passes);
}

#[test]
fn counts_of_messages_that_differ_are_found_on_both_sides() {
    two_orders("nccl-message-counts").into_iter().for_each(Program::passes);
}

#[test]
fn communicators_of_two_streams_go_on_at_once() {
    orders("nccl-two-streams").into_iter().for_each(Program::passes);
}

#[test]
fn a_communicator_keeps_the_order_of_its_calls() {
    orders("nccl-order-of-calls").into_iter().for_each(Program::passes);
    orders("nccl-group-on-streams").into_iter().for_each(Program::passes);
}

#[test]
fn a_device_communicates_while_its_program_does_something_else() {
    orders("nccl-by-itself").into_iter().for_each(Program::passes);
}

#[test]
fn communication_without_an_order_is_found() {
    for program in orders("nccl-without-order") {
        program.fails(&[
            "race",
            "an all-reduce of 1000 f32 numbers on stream",
            "no event",
            "ILLEGAL_ADDRESS",
        ]);
    }
    orders("nccl-with-order").into_iter().for_each(Program::passes);
}

#[test]
fn members_that_call_different_operations_are_named() {
    two_orders("nccl-members-differ").into_iter().for_each(Program::passes);
}

#[test]
fn members_of_different_versions_do_not_come_together() {
    program("nccl-versions-differ").passes();
}

#[test]
fn wrong_calls_are_refused() {
    two_orders("nccl-wrong-calls").into_iter().for_each(Program::passes);
}

#[test]
fn threads_that_call_at_once_are_refused() {
    two_orders("nccl-threads").into_iter().for_each(Program::passes);
}

#[test]
fn an_abort_sets_free_who_waits() {
    two_orders("nccl-abort").into_iter().for_each(Program::passes);
    two_orders("nccl-dead-member").into_iter().for_each(Program::passes);
}

#[test]
fn calls_that_do_not_block_answer_later() {
    two_orders("nccl-comes-alone").into_iter().for_each(Program::passes);
    two_orders("nccl-slowly").into_iter().for_each(Program::passes);
}

#[test]
fn communication_is_captured_and_replayed() {
    orders("nccl-graphs").into_iter().for_each(Program::passes);
    two_orders("nccl-some-graphs").into_iter().for_each(Program::passes);
}

/// What each process has given its device to do: the name of the communicator, and the rest of the line.
fn issued(folder: &Path) -> Vec<Vec<(String, String)>> {
    let files = std::fs::read_dir(folder).expect("a folder");
    let mut all: Vec<Vec<(String, String)>> = files
        .map(|file| {
            let text = std::fs::read_to_string(file.expect("a file").path()).expect("a log");
            let words = |line: &str| {
                let mut words = line.splitn(3, ' ');
                assert_eq!(words.next(), Some("0"), "{line}");
                let name = words.next().expect("a communicator").to_owned();
                (name, words.next().expect("an operation").to_owned())
            };
            text.lines().map(words).collect()
        })
        .collect();
    all.sort();
    all
}

#[test]
fn the_log_has_the_order_in_which_devices_are_given_work() {
    let folder = tempfile::tempdir().expect("a folder");
    program("nccl-order-of-calls").with("FAKE_NCCL_LOG", folder.path()).passes();
    let logs = issued(folder.path());
    let operations: Vec<&str> = logs[0].iter().map(|(_, operation)| operation.as_str()).collect();
    assert_eq!(operations, ["0 all-reduce 1000", "1 all-reduce 1000"]);
    assert_eq!(logs.len(), 2);
    assert_eq!(logs[0], logs[1]);
}

#[test]
fn the_log_shows_devices_that_differ_in_their_order() {
    let folder = tempfile::tempdir().expect("a folder");
    program("nccl-two-streams").with("FAKE_NCCL_LOG", folder.path()).passes();
    let logs = issued(folder.path());
    assert_eq!(logs.len(), 2);
    let mut turned = logs[1].clone();
    turned.reverse();
    assert_ne!(logs[0], logs[1]);
    assert_eq!(logs[0], turned);
}

#[test]
fn calls_are_counted_and_made_to_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    let counts = folder.path().join("counts");
    let devices = || program("nccl-two-devices").with("FAKE_CUDA_DEVICES", "2");
    devices().with("FAKE_CUDA_COUNTS", &counts).passes();
    let text = std::fs::read_to_string(counts).expect("counts");
    for line in ["ncclAllReduce 3", "threads_of_ncclAllReduce 1", "ncclGroupEnd 2", "ncclCommDestroy 2"] {
        assert!(text.lines().any(|found| found == line), "`{line}` isn't in: {text}");
    }
    devices().with("FAKE_CUDA_FAIL", "ncclAllReduce:3:3").fails(&["ncclAllReduce answers 3"]);
    devices().with("FAKE_CUDA_FAIL", "ncclGroupEnd:2:3").fails(&["ncclGroupEnd answers 3"]);
    devices().with("FAKE_CUDA_SPOIL", "ncclAllReduce:3:more").fails(&["no allocation has the 4004 bytes"]);
}
