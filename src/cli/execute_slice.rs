//! `execute --slice`: which ranks, beside which flags it means nothing, and what prices communication.

use super::error::CliError;
use super::machine::Source;
use super::number::whole;
use crate::cluster::Cluster;
use crate::profile::device::DeviceClass;

const FIELD: &str = "slice";

/// Flags beside which a slice means nothing, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside {
    pub grads: bool,
    pub save: bool,
    pub init: bool,
    pub dry_run: bool,
    pub steps: u64,
}

/// The ranks that `text` names, each once.
pub fn ranks(text: &str, beside: Beside) -> Result<Vec<u64>, CliError> {
    let mut ranks = Vec::new();
    for part in text.split(',') {
        let rank = whole(FIELD, part.trim(), 0..=u64::MAX)?;
        if ranks.contains(&rank) {
            return Err(CliError::usage(FIELD, text, format!("rank {rank} is named twice")));
        }
        ranks.push(rank);
    }
    let made_up = "peers are absent, so what ranks compute is made up";
    let refused = [
        (beside.grads, "grads", format!("a slice has no gradients: {made_up}")),
        (beside.save, "save", format!("a slice has nothing to save: {made_up}")),
        (beside.init, "init", format!("a slice starts from drawn weights: {made_up}")),
        (beside.dry_run, "dry-run", "--dry-run counts the memory of every rank already".to_owned()),
        (beside.steps == 0, "steps", "a slice measures at least 1 step".to_owned()),
    ];
    match refused.into_iter().find(|(is_given, ..)| *is_given) {
        Some((_, flag, why)) => Err(CliError::usage(FIELD, text, format!("{why}; leave --{flag} out"))),
        None => Ok(ranks),
    }
}

/// The cost model that a slice on cores of a plan for `cluster` is predicted and priced by, where it is not the plan's own:
/// for CPU ranks as in a whole run.
pub fn source(source: &Source, is_named: bool, cluster: &Cluster) -> Result<Option<Source>, CliError> {
    if cluster.device.class == DeviceClass::Cpu {
        return Ok(Some(source.clone()));
    }
    if is_named {
        let name = &cluster.device.name;
        let why = format!(
            "communication of a slice is priced by the plan's own cost model, {name}; --cost-model and --no-calibrate \
             are for plans of CPU ranks, --cost-model also for --device cuda"
        );
        return Err(CliError::usage("cost-model", name, why));
    }
    Ok(None)
}
