//! Starts programs with the fake libraries on the loader's path, under several orders of streams.

mod program;

use program::{Program, orders, program};
use std::path::Path;

#[test]
fn streams_with_an_event_between_them_compute_right() {
    orders("waits").into_iter().for_each(Program::passes);
}

#[test]
fn a_forgotten_event_is_found_under_every_order() {
    for program in orders("forgets-to-wait") {
        program.fails(&["race", "kernel elementwise_add on stream", "no event", "ILLEGAL_ADDRESS"]);
    }
}

#[test]
fn a_copy_that_is_only_staged_is_found_under_every_order() {
    for program in orders("reads-too-early") {
        program.fails(&[
            "race",
            "a copy of 4000 bytes from pageable memory to the device on the default stream",
        ]);
    }
}

#[test]
fn host_functions_keep_the_order_of_their_stream() {
    orders("host-functions").into_iter().for_each(Program::passes);
}

#[test]
fn the_default_stream_waits_for_blocking_streams() {
    orders("default-stream").into_iter().for_each(Program::passes);
}

#[test]
fn ranks_as_threads_copy_between_devices() {
    for program in orders("threads") {
        program.with("FAKE_CUDA_DEVICES", "2").passes();
    }
}

#[test]
fn pinned_memory_is_read_when_a_copy_runs() {
    program("pinned").passes();
    program("pinned").with("FAKE_CUDA_ORDER", "eager").fails(&["not 2 times 1"]);
}

#[test]
fn memory_ends() {
    program("out-of-memory").with("FAKE_CUDA_MEMORY", "65536").fails(&["OUT_OF_MEMORY"]);
}

#[test]
fn rows_are_copied_and_patterns_set() {
    orders("rows-and-sets").into_iter().for_each(Program::passes);
}

#[test]
fn a_download_of_what_nothing_wrote_is_found() {
    program("unwritten").fails(&["byte 0 of allocation 1 (4000 bytes of device 0) has never been written"]);
}

#[test]
fn physical_memory_is_mapped_and_given_back() {
    for program in orders("mapping") {
        program.fails(&["OUT_OF_MEMORY"]);
    }
    program("mapping").with("FAKE_CUDA_MAPPING", "off").fails(&["NOT_SUPPORTED"]);
}

#[test]
fn graphs_are_replayed_and_replaced() {
    orders("replays").into_iter().for_each(Program::passes);
}

#[test]
fn branches_of_a_graph_without_an_order_are_found() {
    for program in orders("graph-without-order") {
        program.fails(&["race", "of a graph on stream"]);
    }
}

#[test]
fn a_capture_must_join_its_streams() {
    program("unjoined").fails(&["STREAM_CAPTURE_UNJOINED"]);
}

#[test]
fn a_wait_for_the_context_spoils_a_capture_of_another_thread() {
    program("context-wait-beside-capture")
        .fails(&["STREAM_CAPTURE_UNSUPPORTED", "STREAM_CAPTURE_INVALIDATED"]);
}

#[test]
fn an_access_out_of_bounds_stays_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    program("out-of-bounds").with("FAKE_CUDA_LOG", &log).fails(&["ILLEGAL_ADDRESS", "out of bounds"]);
    let text = std::fs::read_to_string(log).expect("a log");
    assert!(text.contains("kernel elementwise_add") && text.contains("its bytes are 0..4000"), "{text}");
}

#[test]
fn an_access_outside_of_the_declared_ranges_is_found() {
    program("outside-ranges")
        .fails(&["ILLEGAL_ADDRESS", "of which the launch may read 0..4000, read and write 4000..7996"]);
}

#[test]
fn products_of_all_kinds_are_right() {
    orders("products").into_iter().for_each(Program::passes);
    orders("products-in-a-graph").into_iter().for_each(Program::passes);
}

#[test]
fn products_without_an_order_are_found() {
    for program in orders("products-without-order") {
        program.fails(&["race", "a product of 3 x 4 numbers", "no event"]);
    }
}

#[test]
fn a_product_that_the_library_does_not_know_is_refused() {
    program("products-unaligned").fails(&["NOT_SUPPORTED"]);
}

#[test]
fn a_product_that_is_asked_for_wrongly_is_refused() {
    program("products-little-workspace").fails(&["INVALID_VALUE", "64 bytes of workspace of 96"]);
    program("products-foreign-algorithm").fails(&["INVALID_VALUE", "the algorithm was proposed for"]);
    program("products-without-context").fails(&["NOT_INITIALIZED", "no context"]);
    program("products-destroyed").fails(&["is no layout, or one that has been destroyed"]);
}

#[test]
fn a_product_outside_of_the_declared_ranges_is_found() {
    program("products-outside-ranges").fails(&[
        "ILLEGAL_ADDRESS",
        "a product of 3 x 4 numbers",
        "of which it may",
    ]);
}

#[test]
fn a_planted_fault_of_a_product_comes_at_its_call() {
    program("products").with("FAKE_CUDA_FAIL", "cublasLtMatmul:2:13").fails(&["EXECUTION_FAILED"]);
}

#[test]
fn a_missing_argument_is_found() {
    program("too-few-arguments").fails(&["INVALID_VALUE", "for parameter 2 of 3"]);
}

#[test]
fn an_argument_of_another_size_is_found() {
    program("arguments-told").fails(&["INVALID_VALUE", "argument 2 has 4 bytes, its parameter 8"]);
}

#[test]
fn an_entry_point_that_is_missing_is_named() {
    program("no-such-entry").fails(&["cuTexRefCreate"]);
}

#[test]
fn a_planted_fault_comes_at_its_call_and_calls_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let counts = folder.path().join("counts");
    let calls = |counts: &Path, entry: &str| {
        let text = std::fs::read_to_string(counts).expect("counts");
        let line = text.lines().find_map(|line| line.strip_prefix(entry)?.trim().parse::<u64>().ok());
        line.unwrap_or(0)
    };
    program("waits").with("FAKE_CUDA_COUNTS", &counts).passes();
    assert_eq!(calls(&counts, "cuLaunchKernel "), 2);
    let planted =
        program("waits").with("FAKE_CUDA_COUNTS", &counts).with("FAKE_CUDA_FAIL", "cuLaunchKernel:2:2");
    planted.fails(&["OUT_OF_MEMORY"]);
    assert_eq!(calls(&counts, "cuLaunchKernel "), 2);
    program("waits").with("FAKE_CUDA_FAIL", "cuLaunchKernel:3:2").passes();
}

#[test]
fn a_machine_without_a_device_says_so() {
    program("waits").with("FAKE_CUDA_DEVICES", "0").fails(&["NO_DEVICE"]);
}

#[test]
fn a_setting_that_is_not_understood_ends_the_program() {
    program("waits").with("FAKE_CUDA_ORDER", "sometimes").fails(&["FAKE_CUDA_ORDER must be lazy or eager"]);
}
