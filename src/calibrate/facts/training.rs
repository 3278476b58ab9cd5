//! Training runs that PyTorch measured on a card, as a trace that predictions are judged by.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Document, FactsError};
use crate::trace::published::{PublishedKind, PublishedRun, PublishedTrace, VERSION};

/// The program that trained, of which a test says that it has an engine profile.
const FRAMEWORK: &str = "PyTorch autocast";
/// What is assumed of the program beyond what its file says.
const NOTES: &str = "One device, plain PyTorch: bf16 autocast over 32-bit weights, fused attention and AdamW, gradients \
    clipped, no position embedding table. Simulated as torchtitan, the nearest engine: it too keeps 32-bit weights, makes \
    16-bit copies of them and runs eager kernels. Step time is the median of several steps.";

/// A document's training runs.
#[derive(Clone, Debug)]
pub struct Training {
    pub trace: PublishedTrace,
    /// Entries that are no runs, because they were skipped or failed.
    pub left_out: usize,
}

/// One entry of `training`. Times are in seconds, memory in bytes.
#[derive(Deserialize)]
struct Entry {
    model: String,
    shape: Shape,
    micro_batch: u64,
    seq_len: u64,
    accumulation: u64,
    checkpointing: String,
    compile: bool,
    step_time_s: f64,
    parameters: u64,
    allocated_bytes: u64,
    reserved_bytes: u64,
}

#[derive(Deserialize)]
struct Shape {
    layers: u64,
    hidden: u64,
    ffn: u64,
    heads: u64,
    kv: u64,
    vocab: u64,
    llama: bool,
}

/// The training runs of `text`, a file of measured facts, as a trace; the device as in [`super::read`].
///
/// # Errors
/// What is wrong with the file, or the first field that a run lacks for a trace.
pub fn training(text: &str, name: Option<&str>) -> Result<Training, FactsError> {
    let document = Document::read(text)?;
    let device = document.card(name)?.name;
    let entries = document.training.as_array().map_or(&[][..], Vec::as_slice);
    let is_run = |entry: &Value| entry.get("skipped").is_none() && entry.get("error").is_none();
    let family = format!("{}-{device}", document.tool);
    let mut runs = Vec::new();
    for (place, value) in entries.iter().enumerate().filter(|(_, value)| is_run(value)) {
        let entry: Entry = serde_path_to_error::deserialize(value)
            .map_err(|error| failed(place, &error.path().to_string(), error.inner().to_string()))?;
        runs.push(run(&document, &device, &family, place, &entry)?);
    }
    if runs.is_empty() {
        return Err(FactsError::NoRuns);
    }
    let left_out = entries.len() - runs.len();
    let citations = vec![document.source()];
    let kind = PublishedKind::Published;
    Ok(Training { trace: PublishedTrace { version: VERSION, kind, family, citations, runs }, left_out })
}

fn failed(place: usize, field: &str, reason: String) -> FactsError {
    FactsError::Run { place, field: field.to_owned(), reason }
}

fn run(
    document: &Document,
    device: &str,
    family: &str,
    place: usize,
    entry: &Entry,
) -> Result<PublishedRun, FactsError> {
    if !(entry.step_time_s.is_finite() && entry.step_time_s > 0.0) {
        return Err(failed(place, "step_time_s", format!("is {}, not more than 0", entry.step_time_s)));
    }
    for (field, value) in
        [("allocated_bytes", entry.allocated_bytes), ("reserved_bytes", entry.reserved_bytes)]
    {
        if value == 0 {
            return Err(failed(place, field, "is 0".to_owned()));
        }
    }
    let Some(global_batch) = entry.micro_batch.checked_mul(entry.accumulation).filter(|batch| *batch > 0)
    else {
        let reason = format!("times accumulation {} is no batch", entry.accumulation);
        return Err(failed(place, "micro_batch", format!("{} {reason}", entry.micro_batch)));
    };
    let gib = |bytes: u64| bytes as f64 / f64::from(1_u32 << 30);
    let Shape { layers, hidden, ffn, heads, kv, vocab, llama } = entry.shape;
    let value = json!({
        "id": format!("{family}-{place}-{}", entry.model), "family": family, "quality": "A",
        "source": document.source(), "source_checked": true, "date": document.date, "torch": document.torch,
        "framework": FRAMEWORK, "usable_for": ["step_time", "memory"],
        "model": {
            "name": entry.model, "type": if llama { "llama" } else { "gpt" },
            "params_b": entry.parameters as f64 / 1e9,
            "layers": layers, "hidden": hidden, "ffn_hidden": ffn, "heads": heads, "kv_heads": kv, "vocab": vocab,
            "seq_len": entry.seq_len, "glu": llama, "tied_embeddings": false, "learned_positional": false
        },
        "hardware": {
            "gpu": device, "gpu_memory_gb": document.device.memory_bytes.map(gib), "num_gpus": 1, "gpus_per_node": 1
        },
        "strategy": {
            "dp": 1, "tp": 1, "pp": 1, "zero_stage": 0, "micro_batch": entry.micro_batch,
            "global_batch": global_batch, "grad_accum": entry.accumulation, "checkpointing": entry.checkpointing,
            "compile": entry.compile, "flash_attention": true, "dtype": "bf16"
        },
        "measured": {
            "step_time_s": entry.step_time_s, "peak_memory_gib": gib(entry.allocated_bytes),
            "peak_memory_kind": "allocated", "peak_reserved_gib": gib(entry.reserved_bytes)
        },
        "notes": NOTES
    });
    serde_path_to_error::deserialize(&value)
        .map_err(|error| failed(place, &error.path().to_string(), error.inner().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::published::engines::profile;

    fn facts(training: Value) -> String {
        let device = json!({ "name": "NVIDIA H100 80GB HBM3", "memory_bytes": 85_000_000_000_u64 });
        json!({ "tool": "gpu_facts", "torch": "2.9", "date": "2026-11-24", "device": device, "training": training })
            .to_string()
    }

    fn entry() -> Value {
        json!({
            "model": "gpt2", "micro_batch": 4, "seq_len": 1024, "accumulation": 2, "checkpointing": "full",
            "compile": false, "step_time_s": 0.1, "parameters": 163_000_000, "allocated_bytes": 8_u64 << 30,
            "reserved_bytes": 9_u64 << 30, "shape": {
                "layers": 12, "hidden": 768, "ffn": 3072, "heads": 12, "kv": 12, "vocab": 50304, "llama": false
            }
        })
    }

    #[test]
    fn runs_become_a_trace_and_what_failed_is_counted() {
        let list = json!([{ "model": "gpt2", "skipped": "out of time" }, entry()]);
        let Training { trace, left_out } = training(&facts(list), None).unwrap();
        assert_eq!((trace.runs.len(), left_out), (1, 1));
        assert_eq!(trace.citations, ["gpu_facts by PyTorch 2.9 on 2026-11-24"]);
        let run = &trace.runs[0];
        assert_eq!((run.hardware.gpu.as_str(), run.strategy.global_batch), ("h100-sxm", Some(8)));
        assert_eq!((run.measured.step_time_s, run.measured.peak_memory_gib), (Some(0.1), Some(8.0)));
        assert_eq!(run.measured.other["peak_reserved_gib"], 9.0);
        assert_eq!(profile(run).unwrap().name, "autocast");
    }

    #[test]
    fn what_a_run_lacks_is_named() {
        let failed = |change: fn(&mut Value)| {
            let mut one = entry();
            change(&mut one);
            match training(&facts(json!([entry(), one])), None).unwrap_err() {
                FactsError::Run { place: 1, field, reason } => (field, reason),
                other => panic!("{other}"),
            }
        };
        let (_, reason) = failed(|run| drop(run.as_object_mut().unwrap().remove("allocated_bytes")));
        assert_eq!(reason, "missing field `allocated_bytes`");
        let (field, reason) = failed(|run| drop(run["shape"].as_object_mut().unwrap().remove("kv")));
        assert_eq!((&field[..], &reason[..]), ("shape", "missing field `kv`"));
        assert_eq!(failed(|run| run["step_time_s"] = json!(0.0)).0, "step_time_s");
        assert_eq!(failed(|run| run["accumulation"] = json!(0)).0, "micro_batch");
        assert_eq!(training(&facts(json!("skipped: out of time")), None).unwrap_err(), FactsError::NoRuns);
    }
}
