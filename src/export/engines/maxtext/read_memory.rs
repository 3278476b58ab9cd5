//! What MaxText's policies of recomputation and its switches of offload mean.

use crate::export::error::ImportError;
use crate::export::meaning::Meaning;
use crate::export::reader::Reader;
use crate::strategy::{CheckpointEntry, CheckpointMode, OffloadCategory};

/// Reads them into `meaning`.
pub fn read(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    use CheckpointMode::{Full, Selective};
    let policies = [
        ("full", (Full, false)),
        ("minimal_with_context", (Selective, false)),
        ("minimal_flash", (Selective, false)),
        ("minimal", (Selective, false)),
        ("minimal_with_quantization", (Selective, false)),
        ("save_dot_with_context_except_mlp", (Selective, false)),
        ("save_dot_except_mlpwi", (Selective, false)),
        ("save_dot_except_mlp", (Selective, false)),
        ("save_qkv_proj", (Selective, false)),
        ("save_out_proj", (Selective, false)),
        ("minimal_offloaded", (Selective, true)),
        ("qkv_proj_offloaded", (Selective, true)),
    ];
    let path = "remat_policy";
    if reader.word(path)? == Some("custom") {
        let rule = "policies of single tensors are not modelled; full and minimal_with_context are";
        return Err(reader.refused(path, rule).or(vec!["minimal_with_context".to_owned()]));
    }
    let (mode, is_offloaded) = reader.choice(path, &policies)?.unwrap_or((Full, false));
    let name = reader.word(path)?.unwrap_or("full");
    if mode == Selective && !matches!(name, "minimal_with_context" | "minimal_flash" | "minimal_offloaded") {
        meaning.notes.push(format!("{name} is predicted as minimal_with_context, which keeps more."));
    }
    meaning.draft.checkpoint = Some(vec![CheckpointEntry::Whole(mode)]);
    let mut list = Vec::new();
    if reader.is_on("optimizer_memory_host_offload")? {
        list.push((OffloadCategory::Optimizer, vec![1.0]));
    }
    if reader.is_on("parameter_memory_host_offload")? {
        list.push((OffloadCategory::Parameters, vec![1.0]));
    }
    if is_offloaded {
        list.push((OffloadCategory::Activations, vec![1.0]));
    }
    meaning.draft.offload = (!list.is_empty()).then_some(list);
    Ok(())
}
