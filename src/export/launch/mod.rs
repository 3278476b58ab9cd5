//! How an exported configuration is started: torchrun, Slurm or mpirun, every rank where the plan has it.

mod ranks;
mod scripts;

pub use ranks::{order_of, ranks};
pub use scripts::scripts;

use crate::strategy::MeshOrder;

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// A Python file, `-m` and a module, or `--no-python` and a command, as torchrun takes it.
    pub entry: String,
    /// Lines of the shell before the program is run, such as one that reads arguments from a file.
    pub prepare: Vec<String>,
    /// The arguments, as the shell is to see them.
    pub arguments: String,
    /// Variables of the environment, each with why.
    pub environment: Vec<(String, String, String)>,
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
    pub fn torchrun(entry: &str, arguments: &str) -> Self {
        Self {
            entry: entry.to_owned(),
            prepare: Vec::new(),
            arguments: arguments.to_owned(),
            environment: vec![(
                "PYTORCH_CUDA_ALLOC_CONF".to_owned(),
                "expandable_segments:True".to_owned(),
                "freed blocks of other sizes are used again; without it the reserve is larger".to_owned(),
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
    pub fn with(mut self, name: &str, value: &str, why: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned(), why.to_owned()));
        self
    }
}
