//! The sizes of the axes.

use super::kind::Kind;
use super::{sharding, switch};
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::strategy::ContextKind;

/// The strategies of version 1, in the order of their numbers: parameters are sharded, given back after the forward,
/// and sharded inside a node alone (1.15.0 `utils/constants.py:38`).
const STRATEGIES: [(&str, (bool, bool, bool)); 5] = [
    ("FULL_SHARD", (true, true, false)),
    ("SHARD_GRAD_OP", (true, false, false)),
    ("NO_SHARD", (false, true, false)),
    ("HYBRID_SHARD", (true, true, true)),
    ("HYBRID_SHARD_ZERO2", (true, false, true)),
];

/// Reads sizes and how state is sharded over data ranks.
pub fn sizes(
    reader: &Reader<'_>,
    scene: &Scene<'_>,
    kind: Kind,
    meaning: &mut Meaning,
) -> Result<(), ImportError> {
    processes(reader, scene)?;
    let path = |name: &str| format!("parallelism_config.parallelism_config_{name}");
    let size = |name: &str| Ok::<u64, ImportError>(reader.size(&path(&format!("{name}_size")))?.unwrap_or(1));
    let [mut replicas, mut shards, tensor, context, sequence] =
        [size("dp_replicate")?, size("dp_shard")?, size("tp")?, size("cp")?, size("sp")?];
    let exchange = path("cp_comm_strategy");
    reader.choice(&exchange, &[("allgather", ()), ("alltoall", ())])?;
    let field = path("sp_size");
    if sequence > 1 {
        let rule = "Ulysses is DeepSpeed's: it goes with distributed_type DEEPSPEED only";
        return Err(reader.refused(&field, rule).or(vec!["1".to_owned()]));
    }
    let product =
        [replicas, shards, tensor, context].iter().try_fold(1_u64, |all, size| all.checked_mul(*size));
    if product == Some(1) {
        // Nothing is said: all ranks are data ranks.
        let is_said = reader.document().found.iter().any(|found| found.path.starts_with(&path("")));
        if is_said && kind == Kind::Second && scene.devices > 1 {
            let rule = "FSDP has nothing to shard over where dp_shard and cp are 1";
            return Err(reader.refused(&path("dp_shard_size"), rule).or(vec![scene.devices.to_string()]));
        }
        if kind == Kind::Replicated { replicas = scene.devices } else { shards = scene.devices }
    } else if product != Some(scene.devices) {
        let rule = format!(
            "replicas {replicas}, shards {shards}, tp {tensor} and cp {context} do not multiply to the {} devices",
            scene.devices
        );
        let largest = [("dp_shard", shards), ("tp", tensor), ("cp", context), ("dp_replicate", replicas)]
            .into_iter()
            .find(|(_, size)| *size > 1)
            .map_or("dp_shard", |(name, _)| name);
        return Err(reader.refused(&path(&format!("{largest}_size")), rule));
    }
    if kind == Kind::First && product != Some(1) {
        let rule = "parallelism_config goes with fsdp_version 2 only";
        return Err(reader.refused(&sharding(reader, "version"), rule).or(vec!["2".to_owned()]));
    }
    let data = replicas.saturating_mul(shards);
    let draft = &mut meaning.draft;
    draft.tensor = Some(tensor);
    draft.context = Some(context);
    draft.context_kind = (context > 1).then_some(ContextKind::Ring);
    draft.pipeline = Some(1);
    draft.data = Some(data);
    // Plans of transformers split matrices only, unless the model's own plan says more.
    draft.sequence_parallel = (tensor > 1).then_some(false);
    match kind {
        Kind::Replicated => draft.zero = Some(0),
        Kind::Second => {
            draft.zero = Some(3);
            draft.shard = (replicas > 1).then_some(shards);
            let reshard = sharding(reader, "reshard_after_forward");
            let rule = "version 2 takes true or false";
            let reshards = switch(reader, &reshard, true);
            let reshards =
                reshards.map_err(|_| reader.refused(&reshard, rule).or(vec!["true".to_owned()]))?;
            draft.reshard_after_forward = Some(reshards);
            let strategy = sharding(reader, "sharding_strategy");
            if reader.value(&strategy)?.is_some() {
                meaning.notes.push("Version 2 passes fsdp_sharding_strategy by.".to_owned());
            }
        }
        Kind::First => first(reader, scene, meaning)?,
    }
    Ok(())
}

/// That there is a process a device.
pub fn processes(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<(), ImportError> {
    let path = "num_processes";
    let said = reader.whole(path)?.filter(|number| *number != -1);
    if said.is_some_and(|number| u64::try_from(number) != Ok(scene.devices)) {
        let rule = format!("the cluster has {} devices", scene.devices);
        return Err(reader.refused(path, rule).or(vec![scene.devices.to_string()]));
    }
    Ok(())
}

/// How version 1 shards.
fn first(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let path = sharding(reader, "sharding_strategy");
    let later = sharding(reader, "reshard_after_forward");
    reader.value(&later)?;
    let said =
        reader.value(&path)?.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    let word = said.unwrap_or_else(|| "FULL_SHARD".to_owned());
    let word = word.trim_start_matches('_').to_ascii_uppercase();
    let chosen = STRATEGIES
        .iter()
        .enumerate()
        .find(|(index, (name, _))| *name == word || (index + 1).to_string() == word);
    let Some((_, (_, (is_sharded, reshards, is_inside)))) = chosen else {
        let names = STRATEGIES.map(|(name, _)| name);
        let rule = format!("{} is needed, or its number from 1", names.join(", "));
        return Err(reader.refused(&path, rule).or(crate::spelling::nearest(&word, names)));
    };
    let draft = &mut meaning.draft;
    draft.zero = Some(if *is_sharded { 3 } else { 0 });
    draft.reshard_after_forward = is_sharded.then_some(*reshards);
    if *is_inside {
        draft.shard = Some(scene.devices_per_node.min(scene.devices));
    }
    meaning.notes.push("FSDP of version 1 is predicted as FSDP2.".to_owned());
    Ok(())
}
