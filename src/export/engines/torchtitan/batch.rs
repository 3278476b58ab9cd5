//! How sizes of batches are said: in sequences, as releases do, or in tokens, as the main branch does since 2026-08-20.

use super::read::several_steps;
use crate::export::case::Case;
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::{Reader, multiples};
use crate::export::settings::Settings;

/// What sizes of batches count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchUnit {
    Sequences,
    Tokens,
}

const LOCAL: &str = "training.local_batch_size";
const GLOBAL: &str = "training.global_batch_size";
const SEQ_LEN: &str = "training.seq_len";
const MICRO: &str = "parallelism.pipeline_parallel_microbatch_size";
const TOKENS: &str = "training.num_tokens_per_microbatch_per_dp_rank";
const STEP: &str = "training.num_tokens_per_train_step";
const CONTEXT: &str = "training.max_context_length";
const PASSES: &str = "parallelism.num_pp_microbatches";

/// What is taken at once: by a rank in one pass of its pipeline or in one micro-batch, and by all of them.
struct Once {
    path: &'static str,
    /// All of an optimizer step, as the file says it or as the default is.
    step: u64,
    /// What all data ranks take before gradients are accumulated.
    once: u64,
}

impl Once {
    /// How often gradients are accumulated over it.
    fn iterations(&self, reader: &Reader<'_>, unit: &str) -> Result<u64, ImportError> {
        if self.once > 0 && self.step.is_multiple_of(self.once) {
            return Ok(self.step / self.once);
        }
        let rule = format!(
            "it must be a multiple of the {} {unit} that data ranks and micro-batches take at once",
            self.once
        );
        Err(reader.refused(self.path, rule).or(multiples(self.step, self.once.max(1))))
    }
}

/// The size at `path`, where anything below 0 is `usual`.
fn size_or(reader: &Reader<'_>, path: &str, usual: u64) -> Result<u64, ImportError> {
    match reader.whole(path)?.unwrap_or(-1) {
        number if number < 0 => Ok(usual),
        _ => Ok(reader.size(path)?.unwrap_or(usual)),
    }
}

impl BatchUnit {
    /// Sets the batches of `case`.
    pub fn write(self, case: &Case<'_>, settings: &mut Settings) {
        let (strategy, workload) = (case.strategy, &case.problem.workload);
        match self {
            Self::Sequences => {
                let passes = if strategy.pipeline == 1 { 1 } else { strategy.accumulation };
                settings.set(LOCAL, strategy.micro_batch * passes);
                settings.set(GLOBAL, workload.global_batch);
                settings.set(SEQ_LEN, workload.seq_len);
            }
            Self::Tokens => {
                settings.set(CONTEXT, workload.seq_len);
                settings.set(TOKENS, strategy.micro_batch * workload.seq_len);
                settings.set(STEP, workload.tokens());
            }
        }
    }

    /// Sets the micro-batches of the pipeline of `case`.
    pub fn write_pipeline(self, case: &Case<'_>, settings: &mut Settings) {
        match self {
            Self::Sequences => settings.set(MICRO, case.strategy.micro_batch),
            Self::Tokens => settings.set(PASSES, case.strategy.accumulation),
        };
    }

    /// How many micro-batches a pass of the pipeline has.
    pub fn micro_batches(self, reader: &Reader<'_>) -> Result<u64, ImportError> {
        match self {
            Self::Sequences => {
                let local = reader.size(LOCAL)?.unwrap_or(8);
                Ok(local / reader.size(MICRO)?.unwrap_or(1))
            }
            Self::Tokens => Ok(reader.size(PASSES)?.unwrap_or(1)),
        }
    }

    /// The settings that a file must have whose base is not known.
    pub const fn needed(self) -> &'static str {
        match self {
            Self::Sequences => LOCAL,
            Self::Tokens => TOKENS,
        }
    }

    /// Reads the batches; degrees of the draft must be known. `is_whole`: torchtitan's defaults hold where nothing is
    /// said, and not those of a function that is not known.
    pub fn read(
        self,
        reader: &Reader<'_>,
        scene: &Scene<'_>,
        meaning: &mut Meaning,
        is_whole: bool,
    ) -> Result<(), ImportError> {
        let length = match self {
            Self::Sequences => reader.size(SEQ_LEN)?,
            Self::Tokens => reader.size(CONTEXT)?,
        };
        let usual = if is_whole { Some(2048) } else { scene.seq_len };
        let seq_len = length
            .or(usual)
            .ok_or(ImportError::Unsaid { what: "the sequence length", flag: "--seq-len N" })?;
        meaning.seq_len = Some(seq_len);
        match self {
            Self::Sequences => sequences(reader, meaning),
            Self::Tokens => tokens(reader, meaning, seq_len),
        }
    }
}

fn sequences(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let draft = &mut meaning.draft;
    let local = reader.size(LOCAL)?.unwrap_or(8);
    let once = local.saturating_mul(draft.data.unwrap_or(1));
    let step = size_or(reader, GLOBAL, once)?;
    let iterations = Once { path: GLOBAL, step, once }.iterations(reader, "sequences")?;
    let micro = reader.size(MICRO)?.unwrap_or(1);
    if draft.pipeline == Some(1) {
        (draft.micro_batch, draft.accumulation) = (Some(local), Some(iterations));
    } else {
        if !local.is_multiple_of(micro) {
            let rule = format!("it must divide local_batch_size {local}");
            return Err(reader.refused(MICRO, rule));
        }
        (draft.micro_batch, draft.accumulation) = (Some(micro), Some(local / micro * iterations));
        if iterations > 1 {
            meaning.notes.push(several_steps(iterations));
        }
    }
    meaning.global_batch = Some(step);
    Ok(())
}

fn tokens(reader: &Reader<'_>, meaning: &mut Meaning, seq_len: u64) -> Result<(), ImportError> {
    let draft = &mut meaning.draft;
    let tokens = reader.size(TOKENS)?.unwrap_or(16_384);
    if !tokens.is_multiple_of(seq_len) {
        let rule = format!("it must be a multiple of the {seq_len} tokens of a sequence");
        return Err(reader.refused(TOKENS, rule).or(multiples(tokens, seq_len)));
    }
    let is_piped = draft.pipeline != Some(1);
    let passes = reader.size(PASSES)?.unwrap_or(1);
    let passes = if is_piped { passes } else { 1 };
    let once = tokens.saturating_mul(draft.data.unwrap_or(1)).saturating_mul(passes);
    let step = size_or(reader, STEP, once)?;
    let iterations = Once { path: STEP, step, once }.iterations(reader, "tokens")?;
    draft.micro_batch = Some(tokens / seq_len);
    draft.accumulation = Some(iterations.saturating_mul(passes));
    if is_piped && iterations > 1 {
        meaning.notes.push(several_steps(iterations));
    }
    meaning.global_batch = Some(step / seq_len);
    Ok(())
}
