//! Scripts line by line: what each launcher is asked for, on one node, on several, and where the last is not full.

use super::command::{Command, DeviceFlag};
use super::launcher::Launcher;
use super::spread::Spread;
use super::time_limit::Length;
use super::{Cores, Launch, RankDevice};
use crate::units::Seconds;

fn launch(launcher: Launcher, device: RankDevice, (ranks, per_node): (u64, u64)) -> Launch {
    let words = "execute plan.json --steps 100".split(' ').map(str::to_owned).collect();
    let flag = match device {
        RankDevice::Cores => DeviceFlag::AsTyped,
        RankDevice::Gpu => DeviceFlag::Added,
    };
    Launch {
        launcher,
        command: Command::new(words, "plan.json", flag),
        spread: Spread::new(ranks, per_node),
        device,
        cores: Cores::Usual(112),
        takes_whole_nodes: true,
        length: Length { steps: 100, step_time: Seconds(3.0), predicted_by: "h100-sxm".to_owned() },
        name: "gpt2".to_owned(),
    }
}

/// Lines of `script` that a shell or Slurm obeys.
fn obeyed(script: &str) -> Vec<&str> {
    let is_obeyed = |line: &&str| !line.is_empty() && (!line.starts_with('#') || line.starts_with("#SBATCH"));
    script.lines().filter(is_obeyed).collect()
}

#[test]
fn slurm_asks_for_whole_nodes_of_gpus() {
    let script = launch(Launcher::Slurm, RankDevice::Gpu, (16, 8)).script();
    let expected = "\
#SBATCH --job-name=meshwright-gpt2
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=00:20:00
#SBATCH --signal=TERM@123
#SBATCH --no-requeue
#SBATCH --output=meshwright-%j.out
set -euo pipefail
MESHWRIGHT_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')
export MESHWRIGHT_TOKEN
exec srun --mpi=none --ntasks=16 --distribution=block:block --kill-on-bad-exit=1 \\
    meshwright execute plan.json --steps 100 --device cuda";
    assert_eq!(obeyed(&script), expected.lines().collect::<Vec<_>>());
    assert!(script.starts_with("#!/bin/bash\n#SBATCH "), "Slurm reads no option behind a command");
    assert!(
        script.contains("\n##SBATCH --cpus-per-task=14\n"),
        "14 of the usual 112 cores, to be asked for by hand"
    );
    assert!(script.contains("--device cuda was added"), "{script}");
}

#[test]
fn slurm_gives_ranks_on_cores_what_is_known() {
    let known = Launch { cores: Cores::Known(8), ..launch(Launcher::Slurm, RankDevice::Cores, (4, 4)) };
    let script = known.script();
    assert!(script.contains("#SBATCH --cpus-per-task=2\n"), "{script}");
    assert!(script.contains("exec srun --mpi=pmix --ntasks=4 --cpus-per-task=2 "), "{script}");
    assert!(script.contains("--mpi: OpenMPI starts by pmix, MPICH"), "{script}");
    assert!(!script.contains("gpus"), "{script}");
    let crowded = Launch { cores: Cores::Known(3), ..known };
    assert!(!crowded.script().contains("cpus-per-task"), "no rank gets less than a core");
}

#[test]
fn nodes_that_are_not_full_get_no_rank_before_the_others_are() {
    let gpus = |launcher| launch(launcher, RankDevice::Gpu, (12, 8)).script();
    let slurm = gpus(Launcher::Slurm);
    assert!(
        slurm.contains(
            "#SBATCH --nodes=2\n#SBATCH --ntasks=12\n#SBATCH --gpus-per-node=8\n#SBATCH --exclusive\n"
        ),
        "{slurm}"
    );
    assert!(slurm.contains("--distribution=plane=8 "), "by blocks each node would get 6: {slurm}");
    assert!(
        slurm.contains("12 ranks, a process each, on 2 nodes: 8 on each but the last, 4 on that"),
        "{slurm}"
    );
    assert!(
        gpus(Launcher::Mpirun)
            .contains("mpirun -n 12 --hostfile \"$hosts\" --map-by ppr:8:node --rank-by slot ")
    );
    let torchrun = gpus(Launcher::Torchrun);
    assert!(torchrun.contains("if [ \"$node_rank\" -eq 1 ]; then\n    ranks=4\nfi\n"), "{torchrun}");
    assert!(torchrun.contains("--nproc-per-node \"$ranks\" "), "{torchrun}");
}

#[test]
fn part_of_a_node_leaves_the_rest_to_others() {
    let part = Launch { takes_whole_nodes: false, ..launch(Launcher::Slurm, RankDevice::Gpu, (2, 2)) };
    let script = part.script();
    assert!(
        script.contains("\n##SBATCH --exclusive\n") && !script.contains("\n#SBATCH --exclusive\n"),
        "{script}"
    );
    assert!(script.contains("#SBATCH --gpus-per-node=2\n"), "{script}");
}

#[test]
fn a_run_of_more_than_a_year_has_no_limit() {
    let mut long = launch(Launcher::Slurm, RankDevice::Gpu, (16, 8));
    long.length.steps = 1 << 40;
    let script = long.script();
    assert!(!script.contains("#SBATCH --time") && script.contains("--time is left out"), "{script}");
    assert_eq!(long.report().launch.time_limit_s, None);
}

#[test]
fn mpirun_notices_hosts_that_are_cut_off() {
    let script = launch(Launcher::Mpirun, RankDevice::Cores, (16, 8)).script();
    let expected = "\
exec mpirun -n 16 --hostfile \"$hosts\" --map-by ppr:8:node --rank-by slot --bind-to none \\
    --mca oob_tcp_keepalive_time 5 --mca oob_tcp_keepalive_intvl 2 \\
    --mca oob_tcp_keepalive_probes 3 \\
    meshwright execute plan.json --steps 100
";
    assert!(script.ends_with(expected), "{script}");
    assert!(script.contains("such as: node-1 slots=8"), "{script}");
}

#[test]
fn mpirun_on_one_node_needs_no_hosts() {
    let usual = launch(Launcher::Mpirun, RankDevice::Cores, (4, 4));
    let ends = |launch: &Launch, line: &str| {
        let script = launch.script();
        assert!(
            script.ends_with(&format!("{line} \\\n    meshwright execute plan.json --steps 100\n")),
            "{script}"
        );
        assert!(!script.contains("hosts"), "{script}");
    };
    ends(&usual, "exec mpirun -n 4 --oversubscribe --map-by ppr:4:node --rank-by slot --bind-to none");
    let known = Launch { cores: Cores::Known(8), ..usual.clone() };
    ends(&known, "exec mpirun -n 4 --map-by ppr:4:node:PE=2 --rank-by slot --bind-to core");
    let crowded = Launch { cores: Cores::Known(2), ..usual };
    ends(&crowded, "exec mpirun -n 4 --oversubscribe --map-by ppr:4:node --rank-by slot --bind-to none");
}

#[test]
fn torchrun_is_one_command_on_one_node() {
    let script = launch(Launcher::Torchrun, RankDevice::Gpu, (8, 8)).script();
    let expected = "\
set -euo pipefail
exec torchrun --standalone --nproc-per-node 8 --max-restarts 0 --no-python \\
    meshwright execute plan.json --steps 100 --device cuda";
    assert_eq!(obeyed(&script), expected.lines().collect::<Vec<_>>());
}

#[test]
fn torchrun_on_several_nodes_asks_which_one_it_is_on() {
    let script = launch(Launcher::Torchrun, RankDevice::Gpu, (16, 8)).script();
    let expected = "\
exec torchrun --nnodes 2 --node-rank \"$node_rank\" --master-addr \"$master_addr\" --master-port \"$master_port\" \\
    --nproc-per-node 8 --max-restarts 0 --no-python \\
    meshwright execute plan.json --steps 100 --device cuda
";
    assert!(script.ends_with(expected), "{script}");
    assert!(script.contains("usage: bash $0 NODE_RANK MASTER_ADDR"), "{script}");
}

#[test]
fn documents_say_what_the_script_asks_for() {
    let report = launch(Launcher::Slurm, RankDevice::Gpu, (16, 8)).report();
    let document = serde_json::to_value(&report).unwrap();
    let record = &document["launch"];
    assert_eq!(record["launcher"], "slurm");
    let numbers = ["nodes", "ranks_per_node", "ranks", "time_limit_s"].map(|field| record[field].as_u64());
    assert_eq!(numbers, [2, 8, 16, 1200].map(Some));
    let mpirun = launch(Launcher::Mpirun, RankDevice::Gpu, (16, 8)).report().launch;
    assert_eq!((mpirun.time_limit_s, mpirun.ranks), (None, 16));
}

/// No text of others in a comment begins a line of its own.
#[test]
fn names_of_others_stay_in_their_line() {
    let hostile = "x\n#SBATCH --wrap=id\nid;'$(id)`id`";
    for launcher in Launcher::ALL {
        let words = vec!["execute".to_owned(), hostile.to_owned()];
        let mut launch = launch(launcher, RankDevice::Gpu, (16, 8));
        launch.command = Command::new(words, hostile, DeviceFlag::Added);
        launch.length.predicted_by = hostile.to_owned();
        launch.name = hostile.to_owned();
        for line in launch.script().lines() {
            assert!(!line.starts_with("#SBATCH --wrap") && !line.starts_with("id;"), "{line}");
        }
    }
}
