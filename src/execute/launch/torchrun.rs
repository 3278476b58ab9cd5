//! The command of torchrun: one on one node, or one on each of several, which meet at the first.

use super::Launch;
use super::command::comment;

/// The script.
pub(super) fn script(launch: &Launch) -> String {
    let mut text = "#!/bin/bash\n".to_owned();
    match launch.spread.nodes {
        1 => {
            text += &launch.head("Run this file on the node.");
            text += &notes();
            text += "\nset -euo pipefail\n";
            let processes = processes(launch, &launch.spread.ranks_per_node.to_string());
            text += &format!("exec torchrun --standalone{processes}");
        }
        nodes => {
            text += &launch.head(&format!(
                "Run this file on each of the {nodes} nodes: `bash FILE NODE_RANK MASTER_ADDR`, the first being the \
                 node's number from 0 to {}, the second the name or address of node 0; or set both in the environment.",
                nodes - 1
            ));
            text += &notes();
            text += &comment(
                "Node 0 listens on port MASTER_PORT (29500 unless it is set), the same on all nodes.",
            );
            text += "\nset -euo pipefail\n";
            text += &of_a_node(launch);
        }
    }
    text
}

/// What there is to know of the options.
fn notes() -> String {
    comment(
        "A rank takes the GPU of its number on the node; all of a node's ranks see all of its GPUs. One rank that fails \
         ends all of them, and torchrun exits with 1. --max-restarts 0: nothing begins anew by itself; to go on from a \
         save, start with --init.",
    )
}

/// torchrun on a node of several.
fn of_a_node(launch: &Launch) -> String {
    let spread = &launch.spread;
    let (nodes, full, last) = (spread.nodes, spread.ranks_per_node, spread.of_last_node());
    let highest = nodes - 1;
    let mut text = format!(
        "node_rank=${{1:-${{NODE_RANK:-}}}}\nmaster_addr=${{2:-${{MASTER_ADDR:-}}}}\n\
         master_port=${{MASTER_PORT:-29500}}\n\
         if [ -z \"$node_rank\" ] || [ -z \"$master_addr\" ]; then\n    \
         echo \"usage: bash $0 NODE_RANK MASTER_ADDR (this node's number, from 0 to {highest}; the host of node 0)\" >&2\n    \
         exit 2\nfi\n\
         if ! [[ $node_rank =~ ^(0|[1-9][0-9]{{0,6}})$ ]] || [ \"$node_rank\" -gt {highest} ]; then\n    \
         echo \"node rank $node_rank: a number from 0 to {highest} is needed\" >&2\n    exit 2\nfi\n"
    );
    let count = if spread.is_even() {
        full.to_string()
    } else {
        text += &format!("ranks={full}\nif [ \"$node_rank\" -eq {highest} ]; then\n    ranks={last}\nfi\n");
        "\"$ranks\"".to_owned()
    };
    let meeting = " --master-addr \"$master_addr\" --master-port \"$master_port\"";
    text += &format!("exec torchrun --nnodes {nodes} --node-rank \"$node_rank\"{meeting} \\\n   ");
    text + &processes(launch, &count)
}

/// The rest of the command, with so many processes on the node.
fn processes(launch: &Launch, count: &str) -> String {
    format!(" --nproc-per-node {count} --max-restarts 0 --no-python \\\n{}", launch.command.lines())
}
