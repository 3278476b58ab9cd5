//! Runs that an Accelerate file hands to another engine: DeepSpeed's and Megatron-LM's.

mod deepspeed;
mod megatron;

use super::read;
use crate::export::error::ImportError;
use crate::export::format::Read;
use crate::export::meaning::Scene;
use crate::export::reader::Reader;

pub use deepspeed::settings as deepspeed_settings;

/// What the file means, where it is for DeepSpeed or Megatron-LM.
///
/// # Errors
/// If a setting has a value that Accelerate or that engine refuses.
pub fn handed(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Option<Read>, ImportError> {
    let kind = reader.name("distributed_type");
    if !matches!(kind, Some("DEEPSPEED" | "MEGATRON_LM")) {
        return Ok(None);
    }
    read::known(reader)?;
    read::is_local(reader)?;
    read::processes(reader, scene)?;
    let mut read = match kind {
        Some("DEEPSPEED") => deepspeed::read(reader, scene)?,
        _ => megatron::read(reader, scene)?,
    };
    read::compilation(reader, &mut read.meaning)?;
    Ok(Some(read))
}
