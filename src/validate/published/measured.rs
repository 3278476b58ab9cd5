//! What a published run measured, in seconds and bytes, by the conventions of its source.

use crate::search::ProcessMemory;
use crate::trace::published::PublishedRun;
use crate::units::{Bytes, Seconds};

/// Seconds of a step: as published, or from tokens/s of a GPU, or from TFLOP/s of a GPU with the usual formula.
pub fn step_time(run: &PublishedRun) -> Option<Seconds> {
    let measured = &run.measured;
    if let Some(seconds) = positive(measured.step_time_s) {
        return Some(Seconds(seconds));
    }
    let tokens = (run.strategy.global_batch? * run.model.seq_len) as f64 / run.hardware.num_gpus as f64;
    if let Some(rate) = positive(measured.tokens_per_s_per_gpu) {
        return Some(Seconds(tokens / rate));
    }
    let rate = positive(measured.tflops_per_gpu)? * 1e12;
    let counts_recomputation = match measured.tflops_definition.as_deref() {
        Some("model") => false,
        Some("hardware") => {
            run.strategy.checkpointing.as_deref().is_some_and(|mode| mode.starts_with("full"))
        }
        _ => return None,
    };
    Some(Seconds(tokens * flops_per_token(run, counts_recomputation)? / rate))
}

/// FLOPs of a token forward and backward, attention over all pairs (Narayanan et al. 2021, appendix): three times the
/// forward, four where blocks are recomputed and that is counted; the head is not recomputed.
fn flops_per_token(run: &PublishedRun, counts_recomputation: bool) -> Option<f64> {
    let model = &run.model;
    if model.experts.is_some() || model.kv_lora_rank.is_some() {
        return None;
    }
    let number = |value: Option<u64>| value.map(|value| value as f64);
    let (hidden, heads, layers) = (number(model.hidden)?, number(model.heads)?, number(model.layers)?);
    let head_dim = number(model.head_dim).unwrap_or(hidden / heads);
    let kv_heads = number(model.kv_heads).unwrap_or(heads);
    let projections = hidden * head_dim * (2.0 * heads + 2.0 * kv_heads);
    let mlp = if model.glu { 3.0 } else { 2.0 } * hidden * number(model.ffn_hidden)?;
    let scores = 2.0 * model.seq_len as f64 * heads * head_dim;
    let block = 2.0 * (projections + mlp + scores);
    let head = 2.0 * hidden * number(model.vocab)?;
    Some(if counts_recomputation { 4.0 } else { 3.0 } * layers * block + 3.0 * head)
}

/// What a peak counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// What the allocator handed out.
    Allocated,
    /// What it took from the device.
    Reserved,
    /// All that the device lost to the process.
    Process,
    /// The source does not say.
    Unknown,
}

impl MemoryKind {
    /// The kind that the text of a table means.
    pub fn of(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        let has = |word: &str| text.contains(word);
        if has("unknown") || has("not a peak") || has("upper bound") {
            Self::Unknown
        } else if text.starts_with("allocated") || has("max_memory_allocated") {
            Self::Allocated
        } else if text.starts_with("reserved") {
            Self::Reserved
        } else if text.starts_with("nvidia-smi") {
            Self::Process
        } else {
            Self::Unknown
        }
    }

    /// What is predicted of this kind.
    pub const fn of_process(self, memory: &ProcessMemory) -> Option<Bytes> {
        match self {
            Self::Allocated => Some(memory.allocated),
            Self::Reserved => Some(memory.reserved),
            Self::Process => Some(memory.process),
            Self::Unknown => None,
        }
    }

    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocated => "allocated",
            Self::Reserved => "reserved",
            Self::Process => "process",
            Self::Unknown => "unknown",
        }
    }
}

/// Of which pipeline rank a peak is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryRank {
    First,
    Last,
    /// The one that needs most.
    Worst,
}

impl MemoryRank {
    /// The rank that the text of a table names.
    pub fn of(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        if text.contains("last rank") {
            Self::Last
        } else if text.contains("rank 0") {
            Self::First
        } else {
            Self::Worst
        }
    }

    /// The peak that was measured, of the `peaks` of all pipeline ranks.
    pub fn of_peaks(self, mut peaks: impl DoubleEndedIterator<Item = Bytes>) -> Bytes {
        match self {
            Self::First => peaks.next(),
            Self::Last => peaks.next_back(),
            Self::Worst => peaks.max(),
        }
        .unwrap_or_default()
    }
}

/// Of which pipeline rank the peak is.
pub fn memory_rank(run: &PublishedRun) -> MemoryRank {
    run.measured.peak_memory_kind.as_deref().map_or(MemoryRank::Worst, MemoryRank::of)
}

/// The peak and what it counts.
pub fn peak_memory(run: &PublishedRun) -> Option<(Bytes, MemoryKind)> {
    let gib = positive(run.measured.peak_memory_gib)?;
    let kind = run.measured.peak_memory_kind.as_deref().map_or(MemoryKind::Unknown, MemoryKind::of);
    Some((Bytes((gib * (1u64 << 30) as f64) as u64), kind))
}

fn positive(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value > 0.0)
}
