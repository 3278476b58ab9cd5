//! The scripts that start a run: one for torchrun, one for Slurm, one for mpirun.

use super::{Launcher, Program};
use crate::export::syntax::Comment;

/// File, text and whether it is run, of all scripts of `program` on so many nodes and devices of a node. `ranks` is
/// the engine's rank on each device where that is not the device's number.
pub fn scripts(
    program: &Program,
    (nodes, devices): (u64, u64),
    ranks: Option<&[u64]>,
) -> Vec<(String, String, bool)> {
    let mut files = vec![
        ("environment.sh".to_owned(), environment(program), false),
        ("run.sh".to_owned(), run(program, nodes, devices, ranks.is_some()), true),
        ("run.slurm".to_owned(), slurm(nodes, devices), true),
        ("run.mpirun.sh".to_owned(), mpirun(program, nodes, devices, ranks.is_some()), true),
    ];
    if let Some(ranks) = ranks {
        let lines: String = ranks.iter().map(|rank| format!("{rank}\n")).collect();
        files.push(("ranks.txt".to_owned(), lines, false));
    }
    files
}

fn environment(program: &Program) -> String {
    let mut text = "# Read by the run scripts on every node.\n".to_owned();
    for (name, value, why) in &program.environment {
        text.push_str(&format!("{}\nexport {name}={value}\n", Comment::from(*why)));
    }
    text.push_str(
        "# Interfaces and logging of NCCL are the site's: set NCCL_SOCKET_IFNAME, NCCL_IB_HCA, NCCL_DEBUG here.\n",
    );
    text
}

/// The part in which all scripts agree: where the files are, environment, preparation.
fn head(program: &Program, what: &str) -> String {
    let mut text = format!(
        "#!/usr/bin/env bash\n{}\nset -euo pipefail\ncd -- \"$(dirname -- \"$0\")\"\n",
        Comment::from(what)
    );
    text.push_str("source ./environment.sh\n");
    for line in &program.prepare {
        text.push_str(&format!("{line}\n"));
    }
    text
}

fn run(program: &Program, nodes: u64, devices: u64, is_placed: bool) -> String {
    let arguments = &program.arguments;
    let entry = &program.entry;
    let what = match nodes {
        1 => "Starts the run on this node.".to_owned(),
        _ => format!(
            "Starts the part of one node. On each of {nodes} nodes: NODE_RANK=0 (to {}) MASTER_ADDR=<the first node> ./run.sh",
            nodes - 1
        ),
    };
    let mut text = head(program, &what);
    let (rank, address) = match nodes {
        1 => ("${NODE_RANK:-0}", "${MASTER_ADDR:-localhost}"),
        _ => ("${NODE_RANK:?the number of this node}", "${MASTER_ADDR:?the first node}"),
    };
    match program.launcher {
        Launcher::OneProcessANode => text.push_str(&format!("exec python {entry} {arguments} \"$@\"\n")),
        Launcher::Torchrun if !is_placed => text.push_str(&format!(
            "exec torchrun --nnodes {nodes} --nproc-per-node {devices} --node-rank \"{rank}\" \\\n    \
             --master-addr \"{address}\" --master-port \"${{MASTER_PORT:-29500}}\" \\\n    \
             {entry} {arguments} \"$@\"\n"
        )),
        Launcher::Torchrun => text.push_str(&format!(
            "# The plan's mesh is not in the engine's order: line 1 + device of ranks.txt is the rank there.\n\
             export MASTER_ADDR=\"{address}\" MASTER_PORT=\"${{MASTER_PORT:-29500}}\" WORLD_SIZE={}\n\
             PROCESSES=()\n\
             for LOCAL_RANK in $(seq 0 {}); do\n    \
             export LOCAL_RANK RANK=$(sed -n \"$(({rank} * {devices} + LOCAL_RANK + 1))p\" ranks.txt)\n    \
             {} {arguments} \"$@\" &\n    PROCESSES+=($!)\ndone\n\
             for PROCESS in \"${{PROCESSES[@]}}\"; do\n    \
             wait \"$PROCESS\" || {{ kill \"${{PROCESSES[@]}}\" 2>/dev/null || true; exit 1; }}\ndone\n",
            nodes * devices,
            devices - 1,
            program.alone(),
        )),
    }
    text
}

fn slurm(nodes: u64, devices: u64) -> String {
    format!(
        "#!/usr/bin/env bash\n#SBATCH --nodes={nodes}\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node={devices}\n\
         #SBATCH --exclusive\n#SBATCH --job-name=meshwright\n\
         # One task a node starts the processes of its devices. Slurm numbers the nodes as SLURM_NODEID says.\n\
         set -euo pipefail\n\
         cd -- \"${{SLURM_SUBMIT_DIR:-.}}\"\n\
         export MASTER_ADDR=\"$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\"\n\
         srun --kill-on-bad-exit=1 bash -c 'NODE_RANK=\"$SLURM_NODEID\" exec ./run.sh \"$@\"' run \"$@\"\n"
    )
}

fn mpirun(program: &Program, nodes: u64, devices: u64, is_placed: bool) -> String {
    let world = nodes * devices;
    let mut text = head(
        program,
        &format!(
            "Starts all {world} processes by mpirun: HOSTFILE lists {nodes} nodes, MASTER_ADDR is the first of them."
        ),
    );
    let rank = match is_placed {
        true => "$(sed -n \"$((OMPI_COMM_WORLD_RANK + 1))p\" ranks.txt)",
        false => "$OMPI_COMM_WORLD_RANK",
    };
    let (per_node, node) = match program.launcher {
        Launcher::Torchrun => (devices, ""),
        Launcher::OneProcessANode => (1, "NODE_RANK=$OMPI_COMM_WORLD_RANK "),
    };
    let forwarded: String = program.environment.iter().map(|(name, ..)| format!(" -x {name}")).collect();
    text.push_str(&format!(
        "export MASTER_ADDR=\"${{MASTER_ADDR:-localhost}}\" MASTER_PORT=\"${{MASTER_PORT:-29500}}\" WORLD_SIZE={}\n\
         exec mpirun -np {} --map-by ppr:{per_node}:node ${{HOSTFILE:+--hostfile \"$HOSTFILE\"}} \\\n    \
         -x MASTER_ADDR -x MASTER_PORT -x WORLD_SIZE{forwarded} \\\n    \
         bash -c 'export {node}RANK={rank} LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK; exec \"$@\"' run \\\n    \
         {} {} \"$@\"\n",
        per_node * nodes,
        per_node * nodes,
        program.alone(),
        program.arguments,
    ));
    text
}
