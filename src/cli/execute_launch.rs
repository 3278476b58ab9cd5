//! `execute --launch`: prints the script that starts the run on the cluster of its plan, and executes nothing.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use super::document::pretty;
use super::error::{CliError, Kind};
use super::execute_plan::{self, Changes};
use super::output::{print, say};
use super::predicted_by::PredictedBy;
use crate::cluster::Cluster;
use crate::execute::launch::command::{Command, DeviceFlag};
use crate::execute::launch::launcher::Launcher;
use crate::execute::launch::spread::Spread;
use crate::execute::launch::time_limit::Length;
use crate::execute::launch::{Cores, Launch, RankDevice, check};
use crate::execute::run::{DeviceKind, Settings};
use crate::profile::Evidence;
use crate::profile::device::DeviceClass;

const FIELD: &str = "launch";

/// The other flags that were typed with `--launch`.
pub struct Beside<'a> {
    pub plan: Option<&'a Path>,
    pub changes: &'a Changes,
    pub settings: Settings,
    pub steps: u64,
    pub dry_run: bool,
    pub slice: bool,
    pub json: bool,
}

/// Prints the script; the exit code is 0.
pub fn run(launcher: Launcher, beside: &Beside<'_>) -> Result<u8, CliError> {
    let path = beside.legal(launcher)?;
    let typed = typed(env::args_os().skip(1), launcher)?;
    let device = match beside.settings.device {
        DeviceKind::Cpu => DeviceKind::Cpu,
        DeviceKind::Cuda | DeviceKind::SharedCuda => DeviceKind::Cuda,
    };
    // By its own cost model: nothing of this machine is on the cluster.
    let planned = execute_plan::read(path, beside.changes, device, &PredictedBy::Plan)?;
    let cluster = planned.plan.made_cluster().map_err(|reason| {
        let message = format!("`{}` is not a plan: {reason}", path.display());
        CliError { kind: Kind::Input, message, ..CliError::usage("plan", &path.display().to_string(), "") }
    })?;
    let (device, flag) = rank_device(&cluster, device, &typed);
    if (launcher, device) == (Launcher::Torchrun, RankDevice::Cores) {
        return Err(needs_mpi());
    }
    if !planned.plan.prediction.fits {
        say("the plan does not fit the memory of its devices, as it was predicted");
    }
    let spread = Spread::new(planned.job.strategy.devices(), u64::from(cluster.devices_per_node));
    let launch = Launch {
        launcher,
        command: Command::new(typed, &path.to_string_lossy(), flag),
        spread,
        device,
        cores: cores(&cluster),
        takes_whole_nodes: takes_whole_nodes(&cluster, &spread),
        length: Length {
            steps: beside.steps,
            step_time: planned.plan.prediction.step_time_s,
            predicted_by: planned.plan.cost_model.name.clone(),
        },
        name: planned.plan.model.name.clone(),
    };
    // What no kernel is for is found here, not at the head of a queue.
    check(planned.job, beside.settings)?;
    print(&if beside.json { pretty(&launch.report()) } else { launch.script() })?;
    Ok(0)
}

impl Beside<'_> {
    /// The plan's path, if all that was typed goes with `launcher`.
    fn legal(&self, launcher: Launcher) -> Result<&Path, CliError> {
        let refused = |rule: &str| Err(CliError::usage(FIELD, launcher.name(), rule));
        if self.dry_run {
            return refused("--dry-run starts no processes; leave one of the two out");
        }
        if self.slice {
            return refused("--slice runs ranks one by one on this machine; leave one of the two out");
        }
        if self.settings.device == DeviceKind::SharedCuda {
            return refused("every rank has a GPU of its own there; leave --share-device out");
        }
        match self.plan {
            Some(path) => Ok(path),
            None => refused(
                "there is no plan, which says what is to run where; first: meshwright plan MODEL --cluster \
                 2x8xh100-sxm --engine embedded --out plan.json",
            ),
        }
    }
}

/// The words that were typed, but for `--launch` and its value.
fn typed(words: impl Iterator<Item = OsString>, launcher: Launcher) -> Result<Vec<String>, CliError> {
    let mut kept = Vec::new();
    let (mut is_flag, mut is_value) = (true, false);
    for word in words {
        let word = word.into_string().map_err(|word| {
            let rule = format!("`{}` is not UTF-8, as scripts are", word.display());
            CliError::usage(FIELD, launcher.name(), rule)
        })?;
        is_flag &= word != "--";
        let begins = |text: &str| is_flag && word.starts_with(text);
        if is_value {
            is_value = false;
        } else if begins("--launch") && word == "--launch" {
            is_value = true;
        } else if !begins("--launch=") {
            kept.push(word);
        }
    }
    Ok(kept)
}

/// The device of each rank: the one that was typed, otherwise the plan's.
fn rank_device(cluster: &Cluster, device: DeviceKind, typed: &[String]) -> (RankDevice, DeviceFlag) {
    let mut flags = typed.iter().take_while(|word| *word != "--");
    let is_typed = flags.any(|word| word == "--device" || word.starts_with("--device="));
    match device {
        DeviceKind::Cuda | DeviceKind::SharedCuda => (RankDevice::Gpu, DeviceFlag::AsTyped),
        DeviceKind::Cpu if !is_typed && cluster.device.class == DeviceClass::Gpu => {
            (RankDevice::Gpu, DeviceFlag::Added)
        }
        DeviceKind::Cpu => (RankDevice::Cores, DeviceFlag::AsTyped),
    }
}

/// The cores of a node: known if they were measured, or are other than those of the cost model. Part of a node has its share.
fn cores(cluster: &Cluster) -> Cores {
    let (said, of_model) = (cluster.host.cores, &cluster.device.host.cores);
    let (devices, built) = (cluster.devices_per_node, cluster.device.devices_per_node.value);
    if said != of_model.value || of_model.kind == Evidence::Measured {
        Cores::Known(u64::from(said))
    } else if is_part(cluster) {
        Cores::Usual(u64::from(said) * u64::from(devices) / u64::from(built.max(1)))
    } else {
        Cores::Usual(u64::from(said))
    }
}

/// Whether nodes have fewer GPUs than are built to one.
fn is_part(cluster: &Cluster) -> bool {
    let built = cluster.device.devices_per_node.value;
    cluster.device.class == DeviceClass::Gpu && cluster.devices_per_node < built
}

/// Whether ranks are on all devices of their nodes.
fn takes_whole_nodes(cluster: &Cluster, spread: &Spread) -> bool {
    spread.ranks_per_node == u64::from(cluster.devices_per_node) && !is_part(cluster)
}

fn needs_mpi() -> CliError {
    let launcher = Launcher::Torchrun.name();
    let message =
        format!("--launch {launcher}: ranks on cores talk to each other by MPI, and {launcher} brings none");
    let error = CliError { kind: Kind::Illegal, message, ..CliError::usage(FIELD, launcher, "") };
    error.or([Launcher::Mpirun, Launcher::Slurm])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(line: &str) -> String {
        typed(line.split(' ').map(OsString::from), Launcher::Slurm).unwrap().join(" ")
    }

    #[test]
    fn only_the_launcher_is_left_out() {
        let command = "execute plan.json --steps 3";
        assert_eq!(kept("execute plan.json --launch slurm --steps 3"), command);
        assert_eq!(kept("execute --launch=slurm plan.json --steps 3"), command);
        assert_eq!(kept("execute plan.json --steps 3 --launch slurm"), command);
        assert_eq!(kept("execute --launch slurm -- --launch"), "execute -- --launch");
    }

    #[cfg(unix)]
    #[test]
    fn words_that_no_script_holds_are_refused() {
        use std::os::unix::ffi::OsStringExt;
        let words = [OsString::from("execute"), OsString::from_vec(vec![b'p', 0xff])];
        let error = typed(words.into_iter(), Launcher::Slurm).unwrap_err();
        assert_eq!((error.kind, error.field.as_str()), (Kind::Usage, "launch"));
    }
}
