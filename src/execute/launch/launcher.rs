//! Who starts the processes of a run.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

/// A program that starts processes on nodes and tells each which rank it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Launcher {
    Slurm,
    Mpirun,
    Torchrun,
}

impl Launcher {
    pub const ALL: [Self; 3] = [Self::Slurm, Self::Mpirun, Self::Torchrun];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Mpirun => "mpirun",
            Self::Torchrun => "torchrun",
        }
    }
}

/// A word that is no launcher.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is none of slurm, mpirun and torchrun")]
pub struct UnknownLauncher(pub String);

impl FromStr for Launcher {
    type Err = UnknownLauncher;

    fn from_str(name: &str) -> Result<Self, UnknownLauncher> {
        let named = Self::ALL.into_iter().find(|launcher| launcher.name() == name);
        named.ok_or_else(|| UnknownLauncher(name.to_owned()))
    }
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
