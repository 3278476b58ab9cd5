//! How an exported configuration is started: torchrun, Slurm or mpirun, every rank where the plan has it.

mod ranks;
mod scripts;

pub use ranks::{order_of, ranks};
pub use scripts::scripts;

use super::syntax::Code;
use crate::strategy::MeshOrder;

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// A Python file, `-m` and a module, or `--no-python` and a command, as torchrun takes it.
    pub entry: &'static str,
    /// Lines of the shell before the program is run, such as one that reads arguments from a file.
    pub prepare: Vec<Code>,
    /// The arguments, as the shell is to see them.
    pub arguments: Code,
    /// Variables of the environment, each with why.
    pub environment: Vec<(&'static str, Code, &'static str)>,
    /// The order in which the engine numbers its ranks.
    pub order: MeshOrder,
    /// Whether one process is started for each node and starts the others by itself.
    pub launcher: Launcher,
}

/// Who starts the processes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// torchrun, one a node.
    Torchrun,
    /// The program is one process a node, and finds its devices itself (JAX).
    OneProcessANode,
}

impl Program {
    /// A program that torchrun starts, ranks in the default order.
    pub fn torchrun(entry: &'static str, arguments: impl Into<Code>) -> Self {
        Self {
            entry,
            prepare: Vec::new(),
            arguments: arguments.into(),
            environment: vec![(
                "PYTORCH_CUDA_ALLOC_CONF",
                "expandable_segments:True".into(),
                "freed blocks of other sizes are used again; without it the reserve is larger",
            )],
            order: MeshOrder::default(),
            launcher: Launcher::Torchrun,
        }
    }

    /// How one process is started without torchrun.
    pub fn alone(&self) -> String {
        match self.entry.strip_prefix("--no-python ") {
            Some(command) => command.to_owned(),
            None => format!("python {}", self.entry),
        }
    }

    /// The same with a variable of the environment.
    pub fn with(mut self, name: &'static str, value: impl Into<Code>, why: &'static str) -> Self {
        self.environment.push((name, value.into(), why));
        self
    }
}
