//! The command of OpenMPI's mpirun, and how MPICH's differs.

use super::command::comment;
use super::{Launch, RankDevice};
use crate::units::several;

/// The script.
pub(super) fn script(launch: &Launch) -> String {
    let mut text = "#!/bin/bash\n".to_owned();
    text += &launch.head(match launch.spread.nodes {
        1 => "Run this file on the node.",
        _ => "Run this file on one of the nodes, or inside a job that has them.",
    });
    text += &notes(launch);
    text += "\nset -euo pipefail\n";
    if launch.spread.nodes > 1 {
        text += &hosts(launch);
    }
    text += &command(launch);
    text
}

/// What there is to know of the options.
fn notes(launch: &Launch) -> String {
    let mut text = comment("A rank that fails ends all of them, and its exit code is mpirun's.");
    if launch.device == RankDevice::Gpu {
        text += &comment(
            "A rank takes the GPU of its number on the node; all of a node's ranks see all of its GPUs.",
        );
    }
    text += &match launch.cores_of_rank() {
        Some(cores) => comment(&format!(
            "--bind-to core with PE={cores}: a rank is several threads, and each rank gets {}.",
            several("core", cores)
        )),
        None => {
            comment("--bind-to none: a rank is several threads, and by default they would share one core.")
        }
    };
    if oversubscribes(launch) {
        text += &comment("--oversubscribe: there may be more ranks than cores.");
    }
    text += &comment(&format!("MPICH takes other options: {}", of_mpich(launch)));
    text
}

/// The file of hosts, which must be there.
fn hosts(launch: &Launch) -> String {
    let (nodes, slots) = (launch.spread.nodes, launch.spread.ranks_per_node);
    let lines = format!("one a line and in the order of ranks, such as: node-1 slots={slots}");
    format!(
        "hosts=${{HOSTS:-hosts}}\nif [ ! -r \"$hosts\" ]; then\n    \
         echo \"no file '$hosts': write the {nodes} hosts into it, {lines}\" >&2\n    exit 2\nfi\n"
    )
}

fn command(launch: &Launch) -> String {
    let spread = &launch.spread;
    let is_alone = spread.nodes == 1;
    let hosts = if is_alone { "" } else { " --hostfile \"$hosts\"" };
    let crowded = if oversubscribes(launch) { " --oversubscribe" } else { "" };
    let per_node = spread.ranks_per_node;
    let (cores, bind) = match launch.cores_of_rank() {
        Some(cores) => (format!(":PE={cores}"), "core"),
        None => (String::new(), "none"),
    };
    let mut text = String::new();
    if !is_alone {
        text += &comment(
            "By its default mpirun never learns that a host was cut off; with these it does within 11 seconds.",
        );
    }
    text += &format!(
        "exec mpirun -n {}{hosts}{crowded} --map-by ppr:{per_node}:node{cores} --rank-by slot --bind-to {bind} \\\n",
        spread.ranks
    );
    if !is_alone {
        text += "    --mca oob_tcp_keepalive_time 5 --mca oob_tcp_keepalive_intvl 2 \\\n    \
                 --mca oob_tcp_keepalive_probes 3 \\\n";
    }
    text + &launch.command.lines()
}

/// The beginning of the command for MPICH's mpirun.
fn of_mpich(launch: &Launch) -> String {
    let (ranks, per_node) = (launch.spread.ranks, launch.spread.ranks_per_node);
    match launch.spread.nodes {
        1 => format!("mpirun -n {ranks} -bind-to none meshwright ..."),
        _ => format!(
            "mpirun -n {ranks} -ppn {per_node} -f hosts -bind-to none meshwright ... (lines of hosts: \
             node-1:{per_node})"
        ),
    }
}

/// Whether mpirun, which counts a slot a core where no file of hosts says how many there are, might refuse so many ranks.
fn oversubscribes(launch: &Launch) -> bool {
    launch.device == RankDevice::Cores && launch.spread.nodes == 1 && launch.cores_of_rank().is_none()
}
