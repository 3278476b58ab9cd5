//! That all ranks of a job are about to do the same: one program, one plan, one kind of device, one library.

use serde::{Deserialize, Serialize};

use super::World;
use super::control::JobFailure;

/// What ranks must agree on before their first step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Version of this program, and the digest of its file.
    pub program: String,
    /// Digest of all that says what is trained, and how.
    pub job: String,
    /// What ranks run on.
    pub device: String,
    /// What carries data between ranks on cores, and its version.
    pub library: Option<String>,
}

impl Identity {
    /// What is compared, by what it is called.
    fn parts(&self) -> [(&'static str, &str); 4] {
        [
            ("program", &self.program),
            ("plan or flags", &self.job),
            ("kind of device", &self.device),
            ("communication library", self.library.as_deref().unwrap_or("none")),
        ]
    }
}

/// That all ranks are `own`.
///
/// # Errors
/// The ranks that are not, and in what; or why the job failed before.
pub fn agree(world: &World, own: &Identity) -> Result<(), JobFailure> {
    let differs = |all: &[Identity]| difference(all, &world.control().hosts());
    if let Some(message) = world.gather(own)?.as_deref().and_then(differs) {
        return Err(world.control().fail(&message, ""));
    }
    world.broadcast(world.is_first().then_some(&()))
}

/// The ranks that are unlike rank 0, and in what.
fn difference(all: &[Identity], hosts: &[String]) -> Option<String> {
    let first = all.first()?.parts();
    let (name, value) = first
        .into_iter()
        .enumerate()
        .find(|(part, (_, value))| all.iter().any(|other| other.parts()[*part].1 != *value))
        .map(|(part, (name, value))| ((part, name), value))?;
    let others: Vec<usize> = (0..all.len()).filter(|rank| all[*rank].parts()[name.0].1 != value).collect();
    let shown: Vec<_> = others
        .iter()
        .take(4)
        .map(|rank| format!("{} on rank {rank} ({})", all[*rank].parts()[name.0].1, hosts[*rank]))
        .collect();
    let more = others.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more ranks differ too") } else { String::new() };
    Some(format!(
        "the ranks do not agree on the {}: {value} on rank 0 ({}), {}{more}",
        name.1,
        hosts[0],
        shown.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_differs_is_named() {
        let one = Identity {
            program: "meshwright 1".to_owned(),
            job: "abc".to_owned(),
            device: "cpu".to_owned(),
            library: Some("MPI 1".to_owned()),
        };
        let hosts: Vec<String> = ["a", "a", "b"].map(str::to_owned).to_vec();
        assert_eq!(difference(&[one.clone(), one.clone(), one.clone()], &hosts), None);
        let other = Identity { job: "def".to_owned(), ..one.clone() };
        assert_eq!(
            difference(&[one.clone(), one, other], &hosts).unwrap(),
            "the ranks do not agree on the plan or flags: abc on rank 0 (a), def on rank 2 (b)"
        );
    }
}
