//! A program through unmodified cudarc: `driver-program SCENARIO`. It ends well if the scenario computes what it should,
//! and else prints the error that it got. Tests start it with the fake libraries on the loader's path.

mod graphs;
mod mapping;
mod memory;
mod nccl;
mod ordering;
mod products;
mod setup;
mod wrong;

use std::process::ExitCode;

/// What it computes is right, or else it says what happened.
type Scenario = fn() -> Result<(), String>;

fn main() -> ExitCode {
    let scenarios: [(&str, Scenario); 51] = [
        ("waits", ordering::waits),
        ("forgets-to-wait", ordering::forgets_to_wait),
        ("reads-too-early", ordering::reads_too_early),
        ("host-functions", ordering::host_functions),
        ("default-stream", ordering::default_stream),
        ("threads", ordering::threads),
        ("pinned", memory::pinned),
        ("out-of-memory", memory::out_of_memory),
        ("rows-and-sets", memory::rows_and_sets),
        ("unwritten", memory::unwritten),
        ("mapping", mapping::whole),
        ("replays", graphs::replays),
        ("graph-without-order", graphs::without_order),
        ("unjoined", graphs::unjoined),
        ("context-wait-beside-capture", graphs::context_wait_beside_capture),
        ("out-of-bounds", wrong::out_of_bounds),
        ("outside-ranges", wrong::outside_ranges),
        ("too-few-arguments", wrong::too_few_arguments),
        ("arguments-told", wrong::arguments_told),
        ("no-such-entry", wrong::no_such_entry),
        ("products", products::products),
        ("products-in-a-graph", products::in_a_graph),
        ("products-without-order", products::without_order),
        ("products-unaligned", products::unaligned),
        ("products-little-workspace", products::little_workspace),
        ("products-foreign-algorithm", products::foreign_algorithm),
        ("products-destroyed", products::destroyed),
        ("products-outside-ranges", products::outside_ranges),
        ("products-without-context", products::without_context),
        ("nccl-operations", nccl::operations::all),
        ("nccl-two-devices", nccl::devices::in_a_group),
        ("nccl-two-threads", nccl::devices::with_a_thread_each),
        ("nccl-ring", nccl::messages::ring),
        ("nccl-message-counts", nccl::messages::counts_differ),
        ("nccl-send-waits", nccl::messages::waits),
        ("nccl-two-streams", nccl::order::two_streams),
        ("nccl-by-itself", nccl::order::by_itself),
        ("nccl-without-order", nccl::order::without_order),
        ("nccl-with-order", nccl::order::with_order),
        ("nccl-order-of-calls", nccl::order::in_the_order_of_calls),
        ("nccl-group-on-streams", nccl::order::group_on_two_streams),
        ("nccl-dead-member", nccl::threads::dead_member),
        ("nccl-comes-alone", nccl::slow::comes_alone),
        ("nccl-slowly", nccl::slow::slowly),
        ("nccl-threads", nccl::threads::at_once),
        ("nccl-abort", nccl::threads::abort),
        ("nccl-members-differ", nccl::wrong::members_differ),
        ("nccl-versions-differ", nccl::wrong::versions_differ),
        ("nccl-wrong-calls", nccl::wrong::calls),
        ("nccl-graphs", nccl::graphs::replays),
        ("nccl-some-graphs", nccl::graphs::some_only),
    ];
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some((_, scenario)) = scenarios.iter().find(|(known, _)| *known == name) else {
        eprintln!("the scenario `{name}` isn't known");
        return ExitCode::FAILURE;
    };
    match scenario() {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            println!("{text}");
            ExitCode::FAILURE
        }
    }
}
