//! A run as text: the script that starts every rank of it as a process of its own, on the nodes of its cluster.

mod check;
pub mod command;
pub mod launcher;
mod mpirun;
mod slurm;
pub mod spread;
pub mod time_limit;
mod torchrun;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub use check::check;

use command::{Command, comment};
use launcher::Launcher;
use spread::Spread;
use time_limit::{Length, TimeLimit};

/// A run that is to be started, one process a rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    pub launcher: Launcher,
    /// What every process is.
    pub command: Command,
    pub spread: Spread,
    pub device: RankDevice,
    pub cores: Cores,
    /// Whether the ranks of a full node are on all of its devices.
    pub takes_whole_nodes: bool,
    pub length: Length,
    /// Of the model.
    pub name: String,
}

/// What each rank runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankDevice {
    Cores,
    /// A GPU of its own: the one that has the rank's number on its node.
    Gpu,
}

/// Cores of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// The cluster says so, or they were measured.
    Known(u64),
    /// As such nodes usually have them.
    Usual(u64),
}

impl Cores {
    const fn of_node(self) -> u64 {
        match self {
            Self::Known(cores) | Self::Usual(cores) => cores,
        }
    }

    /// Cores of each rank of a full node; none where there are more ranks than cores.
    fn of_rank(self, spread: &Spread) -> Option<u64> {
        Some(self.of_node() / spread.ranks_per_node).filter(|cores| *cores > 0)
    }
}

/// What `execute --launch --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaunchReport {
    pub launch: LaunchRecord,
}

/// A script and the processes that it starts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaunchRecord {
    pub launcher: Launcher,
    pub nodes: u64,
    /// On a full node; the last may have fewer.
    pub ranks_per_node: u64,
    pub ranks: u64,
    /// None where the launcher has no limit, or the run would take longer than any limit that is written.
    pub time_limit_s: Option<u64>,
    pub script: String,
}

impl Launch {
    /// The limit that the script asks for.
    fn time_limit(&self) -> Option<TimeLimit> {
        match self.launcher {
            Launcher::Slurm => self.length.limit(),
            Launcher::Mpirun | Launcher::Torchrun => None,
        }
    }

    /// The script, in bash.
    pub fn script(&self) -> String {
        match self.launcher {
            Launcher::Slurm => slurm::script(self),
            Launcher::Mpirun => mpirun::script(self),
            Launcher::Torchrun => torchrun::script(self),
        }
    }

    /// The same as a document.
    pub fn report(&self) -> LaunchReport {
        let Spread { ranks, ranks_per_node, nodes } = self.spread;
        let time_limit_s = self.time_limit().map(TimeLimit::seconds);
        let script = self.script();
        let launcher = self.launcher;
        LaunchReport { launch: LaunchRecord { launcher, nodes, ranks_per_node, ranks, time_limit_s, script } }
    }

    /// Cores that each rank is given. Of nodes whose cores are not known it is none: who asks for too many is refused.
    fn cores_of_rank(&self) -> Option<u64> {
        match self.cores {
            Cores::Known(_) => self.cores.of_rank(&self.spread),
            Cores::Usual(_) => None,
        }
    }

    /// Comments in which all scripts agree: what is started, `how`, and what must be there for it.
    fn head(&self, how: &str) -> String {
        let mut text = comment(&format!("Trains {}: {}.", self.command.plan(), self.spread));
        text += &comment(how);
        text += &comment(
            "Start it in the folder that relative paths start from. All nodes must see that folder under the \
             same path, and have `meshwright` on their PATH.",
        );
        if self.command.has_added_device() {
            text += &comment("The plan is for GPUs, so --device cuda was added to the command.");
        }
        text
    }
}
