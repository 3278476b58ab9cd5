//! The batch script of Slurm: what the job asks for, and the step that is the run.

use super::command::comment;
use super::{Launch, RankDevice};
use crate::units::several;

/// The script.
pub(super) fn script(launch: &Launch) -> String {
    let mut text = "#!/bin/bash\n".to_owned();
    for option in asked_for(launch) {
        text += &format!("#SBATCH --{option}\n");
    }
    text += &comment("Your site's; take one # away where you need the line:");
    for option in of_the_site(launch) {
        text += &format!("##SBATCH --{option}\n");
    }
    text += "\n";
    text +=
        &launch.head("Submit this file with `sbatch FILE`. Options before FILE override its #SBATCH lines.");
    text += &notes(launch);
    text += "\nset -euo pipefail\n";
    text += &step(launch);
    text
}

/// Options of the job.
fn asked_for(launch: &Launch) -> Vec<String> {
    let spread = &launch.spread;
    let mut options = vec![format!("job-name={}", job_name(&launch.name)), format!("nodes={}", spread.nodes)];
    options.push(match spread.is_even() {
        true => format!("ntasks-per-node={}", spread.ranks_per_node),
        false => format!("ntasks={}", spread.ranks),
    });
    options.extend(launch.cores_of_rank().map(|cores| format!("cpus-per-task={cores}")));
    if launch.device == RankDevice::Gpu {
        options.push(format!("gpus-per-node={}", spread.ranks_per_node));
    }
    if is_exclusive(launch) {
        options.extend(["exclusive", "mem=0"].map(str::to_owned));
    }
    options.extend(launch.time_limit().map(|limit| format!("time={limit}")));
    options.push(format!("signal=TERM@{}", launch.length.warning()));
    options.extend(["no-requeue", "output=meshwright-%j.out"].map(str::to_owned));
    options
}

/// Options that nobody else than a site's users can know.
fn of_the_site(launch: &Launch) -> Vec<String> {
    let mut options = ["account=ACCOUNT", "partition=PARTITION", "qos=QOS"].map(str::to_owned).to_vec();
    if launch.cores_of_rank().is_none() {
        options.extend(launch.cores.of_rank(&launch.spread).map(|cores| format!("cpus-per-task={cores}")));
    }
    if !is_exclusive(launch) {
        options.extend(["exclusive", "mem=0"].map(str::to_owned));
    }
    options
}

/// Whether nobody else's jobs are to be on the nodes. Where the last has fewer ranks, each must have room for a full one's.
const fn is_exclusive(launch: &Launch) -> bool {
    launch.takes_whole_nodes || !launch.spread.is_even()
}

/// Why the options are what they are.
fn notes(launch: &Launch) -> String {
    let length = &launch.length;
    let steps = several("step", length.steps);
    let predicted =
        format!("{steps} of {}, as the cost model {} predicts", length.step_time, length.predicted_by);
    let mut text = match launch.time_limit() {
        Some(_) => comment(&format!("--time: {predicted}, twice, and 10 minutes for starting and saving.")),
        None => comment(&format!(
            "--time is left out: {predicted}, are more than a year. Set it, and --steps to what fits into it."
        )),
    };
    text += &comment(
        "--signal: that long before the end each rank gets SIGTERM: it ends after its step, saves (--save) and exits \
         with 130.",
    );
    text += &comment(
        "--no-requeue: a job that began anew would train the same steps again. To go on, submit with --init.",
    );
    if is_exclusive(launch) {
        text += &comment("--exclusive, --mem=0: the plan counts on whole nodes.");
    }
    if launch.device == RankDevice::Gpu {
        text += &comment(
            "--gpus-per-node, never --gpus-per-task: a rank takes the GPU of its number on the node, and NCCL must see \
             those of its neighbours (NCCL issues 129 and 1066).",
        );
    }
    text
}

/// The step: srun in place of the script, so that its exit code is the job's and signals reach it.
fn step(launch: &Launch) -> String {
    let spread = &launch.spread;
    let mpi = match launch.device {
        RankDevice::Cores => "pmix",
        RankDevice::Gpu => "none",
    };
    let distribution = match spread.is_even() {
        true => "block:block".to_owned(),
        // By blocks Slurm 22.05 gave two nodes half of the ranks each.
        false => format!("plane={}", spread.ranks_per_node),
    };
    let mut text = comment(
        "One rank that fails ends all of them (--kill-on-bad-exit). Ranks that follow each other share a node.",
    );
    if launch.device == RankDevice::Cores {
        text += &comment(
            "--mpi: OpenMPI starts by pmix, MPICH and what is made of it by pmi2. `srun --mpi=list` shows what there is; by \
             the wrong one each process is alone.",
        );
    }
    if launch.device == RankDevice::Gpu {
        text += &comment("MESHWRIGHT_TOKEN: by it the ranks know one another; nobody else sees it.");
        text += "MESHWRIGHT_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')\nexport MESHWRIGHT_TOKEN\n";
    }
    // Slurm 22.05 and newer do not hand the job's number of cores on to its steps.
    let cores = launch.cores_of_rank().map_or_else(String::new, |cores| format!(" --cpus-per-task={cores}"));
    text += &format!(
        "exec srun --mpi={mpi} --ntasks={}{cores} --distribution={distribution} --kill-on-bad-exit=1 \\\n{}",
        spread.ranks,
        launch.command.lines()
    );
    text
}

/// A name for the job with nothing in it that Slurm or a file system takes for something else.
fn job_name(model: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let plain: String = model.chars().map(|c| if is_plain(c) { c } else { '-' }).take(60).collect();
    format!("meshwright-{}", plain.trim_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_jobs_are_plain() {
        assert_eq!(job_name("llama-3.1-8b"), "meshwright-llama-3.1-8b");
        assert_eq!(job_name("./my model\n#SBATCH --wrap=x"), "meshwright-my-model--SBATCH---wrap-x");
    }
}
