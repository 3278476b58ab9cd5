//! Names of torchtitan's settings in 2024, when degrees stood among those of training and experiments.
//!
//! v0.2.2 refuses them (`config/manager.py`, `_dict_to_dataclass`); they are read as the versions before it did
//! (`config_manager.py` of v0.1, whose `batch_size` is a data rank's).

use serde_json::Value;

use crate::export::syntax::{Document, Origin};

/// A name of 2024 and that of v0.2.2 for the same.
const RENAMED: [(&str, &str); 19] = [
    ("training.batch_size", "training.local_batch_size"),
    ("training.data_parallel_degree", "parallelism.data_parallel_shard_degree"),
    ("training.data_parallel_shard_degree", "parallelism.data_parallel_shard_degree"),
    ("training.data_parallel_replicate_degree", "parallelism.data_parallel_replicate_degree"),
    ("training.tensor_parallel_degree", "parallelism.tensor_parallel_degree"),
    ("training.context_parallel_degree", "parallelism.context_parallel_degree"),
    ("training.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"),
    ("training.disable_loss_parallel", "parallelism.disable_loss_parallel"),
    ("training.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"),
    ("training.fsdp_reshard_after_forward", "parallelism.fsdp_reshard_after_forward"),
    ("training.compile", "compile.enable"),
    ("experimental.context_parallel_degree", "parallelism.context_parallel_degree"),
    ("experimental.context_parallel_rotate_method", "parallelism.context_parallel_rotate_method"),
    ("experimental.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"),
    ("experimental.pipeline_parallel_schedule", "parallelism.pipeline_parallel_schedule"),
    ("experimental.pipeline_parallel_schedule_csv", "parallelism.pipeline_parallel_schedule_csv"),
    ("experimental.pipeline_parallel_layers_per_stage", "parallelism.pipeline_parallel_layers_per_stage"),
    ("experimental.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"),
    ("experimental.expert_parallel_degree", "parallelism.expert_parallel_degree"),
];

/// The micro-batches of a pipeline, which were counted and not sized; one a stage where nothing is said.
const COUNTED: [&str; 2] =
    ["experimental.pipeline_parallel_microbatches", "parallelism.pipeline_parallel_microbatches"];

/// Settings of then that no setting of v0.2.2 says.
pub const WITHOUT_A_NAME: [(&str, &str); 6] = [
    (
        "experimental.pipeline_parallel_split_points",
        "cuts by hand are parallelism.module_fqns_per_model_part now",
    ),
    (
        "parallelism.pipeline_parallel_split_points",
        "cuts by hand are parallelism.module_fqns_per_model_part now",
    ),
    ("training.enable_float8_linear", "it is model.converters now"),
    ("float8.enable_float8_linear", "it is model.converters now"),
    ("training.data_parallel_type", "only FSDP2 is modelled"),
    ("model.norm_type", "the norms are the model's now"),
];

/// What is said where names of 2024 are read.
pub const NOTE: &str = "Names of 2024 are read as torchtitan's versions of then did; v0.2.2 refuses them.";

/// `document` under the names of v0.2.2, if it has some of 2024; what it says under both stays as it is.
pub fn renamed(document: &Document) -> Option<Document> {
    let is_old = |path: &str| RENAMED.iter().any(|(old, _)| *old == path) || COUNTED.contains(&path);
    if !document.found.iter().any(|found| is_old(&found.path)) {
        return None;
    }
    let mut new = Document::translated(document.syntax);
    for found in &document.found {
        let name = RENAMED.iter().find(|(old, _)| *old == found.path).map(|(_, name)| *name);
        match name {
            Some(name) if document.get(name).is_none() => new.take(name, found, document),
            _ => new.take(&found.path, found, document),
        }
    }
    let size = |path: &str| new.get(path).and_then(|found| found.value.as_u64());
    let stages = size("parallelism.pipeline_parallel_degree").unwrap_or(1);
    let counted = COUNTED.iter().find_map(|path| Some((*path, new.get(path)?.clone())));
    let local = size("training.local_batch_size").unwrap_or(8);
    if stages > 1 && document.get("parallelism.pipeline_parallel_microbatch_size").is_none() {
        let count = counted.as_ref().and_then(|(_, found)| found.value.as_u64()).unwrap_or(stages).max(1);
        if local.is_multiple_of(count) {
            let said =
                counted.as_ref().map(|(_, found)| found).or(new.get("parallelism.pipeline_parallel_degree"));
            let origin = said.map(|found| new.origin(found)).unwrap_or_else(|| Origin {
                path: COUNTED[0].to_owned(),
                place: crate::export::syntax::Place::Default,
            });
            new.set("parallelism.pipeline_parallel_microbatch_size", Value::from(local / count), origin);
            for path in COUNTED {
                new.remove(path);
            }
        }
    }
    Some(new)
}
