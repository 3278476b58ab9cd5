//! Whether ranks can run a job at all, before any of them waits in a queue.

use crate::execute::device::cpu::Cpu;
use crate::execute::error::ExecuteError;
use crate::execute::run::{Job, Run, Settings};
use crate::execute::storage::Types;

/// Builds the program of `job` and looks for its kernels; takes no memory.
///
/// # Errors
/// What there is no kernel for. Whatever cores cannot do, a GPU cannot either.
pub fn check(job: Job, settings: Settings) -> Result<(), ExecuteError> {
    let run = Run::new(job, settings)?;
    Cpu::new(Types::new(run.rules.compute, run.rules.gradient), settings.cores)?;
    Ok(())
}
