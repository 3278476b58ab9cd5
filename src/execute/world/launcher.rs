//! Which launcher started this process, as which of how many: by the variables that it sets, before any library is asked.

use std::fmt;

use thiserror::Error;

/// What starts the processes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessManager {
    OpenMpi,
    Mpich,
    Slurm,
    Torchrun,
}

impl ProcessManager {
    /// All of them, those first that others may start.
    const ALL: [Self; 4] = [Self::Torchrun, Self::OpenMpi, Self::Mpich, Self::Slurm];

    /// The variables of a process's rank, of the number of processes, and of its place on its host.
    const fn variables(self) -> [&'static str; 3] {
        match self {
            Self::OpenMpi => ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
            Self::Mpich => ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"],
            // Those of a step: in the script of a batch job SLURM_PROCID is set too.
            Self::Slurm => ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"],
            Self::Torchrun => ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
        }
    }

    /// Whether a process named `name`, as the system has it (15 characters), is this launcher's part on a host.
    fn is_named(self, name: &str) -> bool {
        let names: &[&str] = match self {
            Self::OpenMpi => &["orted", "prted", "mpirun", "mpiexec", "orterun", "prterun"],
            Self::Mpich => &["hydra_pmi_proxy", "mpiexec.hydra", "mpirun", "mpiexec"],
            Self::Slurm => &["slurmstepd"],
            Self::Torchrun => &["torchrun", "python", "pt_main_thread"],
        };
        names.iter().any(|known| name.starts_with(known))
    }
}

impl fmt::Display for ProcessManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenMpi => "mpirun (Open MPI)",
            Self::Mpich => "mpirun (MPICH)",
            Self::Slurm => "srun",
            Self::Torchrun => "torchrun",
        })
    }
}

/// A process of a job, as its launcher numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    pub launcher: ProcessManager,
    pub rank: usize,
    pub size: usize,
    /// Its place among the processes of its host.
    pub local_rank: usize,
}

/// Variables of launchers that do not say who this process is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LaunchError {
    #[error("{name} is `{value}`: {rule}")]
    Variable { name: &'static str, value: String, rule: String },
    #[error("{name} is set and {missing} is not: {launcher} sets both")]
    Half { launcher: ProcessManager, name: &'static str, missing: &'static str },
}

/// How this process was launched; none if it was started by hand. `variable` reads the environment; `ancestors` are the
/// names of the processes above this one, its parent first. Of several launchers in the environment, the innermost counts:
/// the one whose process is nearest.
///
/// # Errors
/// If variables contradict one another.
pub fn launched(
    variable: &dyn Fn(&str) -> Option<String>,
    ancestors: impl IntoIterator<Item = String>,
) -> Result<Option<Launched>, LaunchError> {
    let is_set = |name: &str| variable(name).is_some();
    let there: Vec<ProcessManager> = ProcessManager::ALL
        .into_iter()
        .filter(|launcher| launcher.variables()[..2].iter().any(|name| is_set(name)))
        // A batch script is no step, and `PMI_RANK` is Slurm's too.
        .filter(|launcher| *launcher != ProcessManager::Slurm || is_set("SLURM_STEP_NUM_TASKS"))
        .collect();
    let nearest = || {
        let of = |name: String| there.iter().copied().find(|launcher| launcher.is_named(&name));
        ancestors.into_iter().find_map(of)
    };
    let launcher = match there.as_slice() {
        [] => return Ok(None),
        [one] => *one,
        [first, ..] => nearest().unwrap_or(*first),
    };
    let [rank_name, size_name, local_name] = launcher.variables();
    let number = |name: &'static str| match variable(name) {
        None => Ok(None),
        Some(value) => value.trim().parse::<usize>().map(Some).map_err(|_| {
            let rule = format!("{launcher} sets a whole number");
            LaunchError::Variable { name, value, rule }
        }),
    };
    let half = |name, missing| LaunchError::Half { launcher, name, missing };
    let (rank, size) = match (number(rank_name)?, number(size_name)?) {
        (Some(rank), Some(size)) => (rank, size),
        (Some(_), None) => return Err(half(rank_name, size_name)),
        (None, _) => return Err(half(size_name, rank_name)),
    };
    if rank >= size {
        let rule = format!("with {size_name} at {size}, ranks are 0 to {}", size.saturating_sub(1));
        return Err(LaunchError::Variable { name: rank_name, value: rank.to_string(), rule });
    }
    Ok(Some(Launched { launcher, rank, size, local_rank: number(local_name)?.unwrap_or(0) }))
}

/// The names of the processes above this one, its parent first.
pub fn ancestors() -> impl Iterator<Item = String> {
    let mut process = "self".to_owned();
    std::iter::from_fn(move || {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        process = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().to_owned();
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
        Some(name.trim_end().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)], ancestors: &[&str]) -> Result<Option<Launched>, LaunchError> {
        let variable =
            |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        launched(&variable, ancestors.iter().map(|name| (*name).to_owned()))
    }

    #[test]
    fn each_launcher_is_known_by_its_variables() {
        assert_eq!(of(&[], &["bash"]), Ok(None));
        let found = of(&[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4")], &[]);
        let launched = Launched { launcher: ProcessManager::OpenMpi, rank: 1, size: 4, local_rank: 0 };
        assert_eq!(found, Ok(Some(launched)));
        let found = of(&[("RANK", "3"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "1")], &[]);
        let launched = Launched { launcher: ProcessManager::Torchrun, rank: 3, size: 4, local_rank: 1 };
        assert_eq!(found, Ok(Some(launched)));
    }

    #[test]
    fn the_script_of_a_batch_job_is_no_step() {
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")], &["slurmstepd"]), Ok(None));
        let step = [("SLURM_PROCID", "5"), ("SLURM_STEP_NUM_TASKS", "8"), ("SLURM_LOCALID", "1")];
        let launched = Launched { launcher: ProcessManager::Slurm, rank: 5, size: 8, local_rank: 1 };
        assert_eq!(of(&step, &["slurmstepd"]), Ok(Some(launched)));
    }

    #[test]
    fn of_several_launchers_the_innermost_counts() {
        // mpirun in a batch job starts its daemons by srun.
        let both = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "2"),
        ];
        let launcher = |ancestors: &[&str]| of(&both, ancestors).unwrap().unwrap();
        assert_eq!(launcher(&["bash", "orted", "slurmstepd"]).launcher, ProcessManager::OpenMpi);
        assert_eq!(launcher(&["slurmstepd", "mpirun"]).rank, 1);
        assert_eq!(launcher(&["strange"]).launcher, ProcessManager::OpenMpi);
    }

    #[test]
    fn contradictions_are_named() {
        let error = of(&[("RANK", "4"), ("WORLD_SIZE", "4")], &[]).unwrap_err();
        assert_eq!(error.to_string(), "RANK is `4`: with WORLD_SIZE at 4, ranks are 0 to 3");
        let error = of(&[("WORLD_SIZE", "4")], &[]).unwrap_err();
        assert_eq!(error.to_string(), "WORLD_SIZE is set and RANK is not: torchrun sets both");
        let error = of(&[("PMI_RANK", "-1"), ("PMI_SIZE", "2")], &[]).unwrap_err();
        assert_eq!(error.to_string(), "PMI_RANK is `-1`: mpirun (MPICH) sets a whole number");
    }
}
