//! Settings of NeMo 1 under the names of Megatron-LM's arguments, which mean the same.

use serde_json::Value;

use super::resolved;
use crate::export::error::ImportError;
use crate::export::reader::Reader;
use crate::export::syntax::{Document, Found, Origin, Place, Syntax};

/// Settings whose values an argument takes as they are (v1.23.0 `megatron_base_model.py`, where the model's are
/// handed to Megatron core).
const NAMES: &[(&str, &str)] = &[
    ("model.micro_batch_size", "micro-batch-size"),
    ("model.global_batch_size", "global-batch-size"),
    ("model.tensor_model_parallel_size", "tensor-model-parallel-size"),
    ("model.pipeline_model_parallel_size", "pipeline-model-parallel-size"),
    ("model.virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"),
    ("model.context_parallel_size", "context-parallel-size"),
    ("model.expert_model_parallel_size", "expert-model-parallel-size"),
    ("model.sequence_parallel", "sequence-parallel"),
    ("model.encoder_seq_length", "seq-length"),
    ("model.max_position_embeddings", "max-position-embeddings"),
    ("model.num_layers", "num-layers"),
    ("model.hidden_size", "hidden-size"),
    ("model.ffn_hidden_size", "ffn-hidden-size"),
    ("model.num_attention_heads", "num-attention-heads"),
    ("model.kv_channels", "kv-channels"),
    ("model.layernorm_epsilon", "norm-epsilon"),
    ("model.rotary_base", "rotary-base"),
    ("model.rotary_percentage", "rotary-percent"),
    ("model.seq_len_interpolation_factor", "rotary-seq-len-interpolation-factor"),
    ("model.override_vocab_size", "vocab-size"),
    ("model.make_vocab_size_divisible_by", "make-vocab-size-divisible-by"),
    ("model.init_method_std", "init-method-std"),
    ("model.hidden_dropout", "hidden-dropout"),
    ("model.attention_dropout", "attention-dropout"),
    ("model.num_moe_experts", "num-experts"),
    ("model.moe_router_topk", "moe-router-topk"),
    ("model.moe_ffn_hidden_size", "moe-ffn-hidden-size"),
    ("trainer.gradient_clip_val", "clip-grad"),
];

/// Settings that are read apart from these.
const LENGTH: &str = "model.data.seq_length";
const GROUPS: &str = "model.num_query_groups";
const NORM: &str = "model.normalization";
const ACTIVATION: &str = "model.activation";
const BIAS: &str = "model.bias";
const POSITION: &str = "model.position_embedding_type";
const TIED: &str = "model.share_embeddings_and_output_weights";
/// It goes before the trainer's.
const OWN_PRECISION: &str = "model.precision";
const PRECISION: &str = "trainer.precision";
const OVERLAP: &str = "model.ub_tp_comm_overlap";
const EIGHT_BITS: &str = "model.fp8";
const OPTIMIZER: &str = "model.optim.name";
const REDUCED: &str = "model.optim.grad_sync_dtype";
const HALF: &str = "model.megatron_amp_O2";
const GRANULARITY: &str = "model.activations_checkpoint_granularity";
const METHOD: &str = "model.activations_checkpoint_method";
const COUNT: &str = "model.activations_checkpoint_num_layers";

/// The settings as arguments of Megatron-LM, each with where the file says it.
///
/// # Errors
/// If a value is none that NeMo knows, or is made of what the file does not say.
pub fn arguments(reader: &Reader<'_>) -> Result<Document, ImportError> {
    let mut arguments = Arguments { reader, document: Document::translated(Syntax::Arguments) };
    for (path, name) in NAMES {
        if let Some(value) = arguments.value(path)? {
            arguments.set(name, value, path);
        }
    }
    arguments.recomputation()?;
    if !reader.has("trainer.gradient_clip_val") {
        // Lightning clips where it is told to.
        arguments.set("clip-grad", 0.0.into(), "trainer.gradient_clip_val");
    }
    if let Some(length) = arguments.value(LENGTH)?
        && !reader.has("model.encoder_seq_length")
    {
        arguments.set("seq-length", length, LENGTH);
    }
    arguments.model()?;
    arguments.numbers()?;
    arguments.optimizer()?;
    Ok(arguments.document)
}

struct Arguments<'a> {
    reader: &'a Reader<'a>,
    document: Document,
}

impl Arguments<'_> {
    /// The value of a setting of the file, with what it names in its place.
    fn value(&self, path: &str) -> Result<Option<Value>, ImportError> {
        let Some(value) = self.reader.value(path)? else { return Ok(None) };
        if !resolved::is_made(value) {
            return Ok(Some(value.clone()));
        }
        let made = resolved::value(self.reader.document(), path);
        made.map(|value| Some(value).filter(|value| !value.is_null()))
            .ok_or_else(|| self.reader.refused(path, "the file does not say what it names; write it out"))
    }

    fn word(&self, path: &str, usual: &str) -> Result<String, ImportError> {
        match self.value(path)? {
            None => Ok(usual.to_owned()),
            Some(Value::String(word)) => Ok(word),
            Some(Value::Number(number)) => Ok(number.to_string()),
            Some(_) => Err(self.reader.refused(path, "a word is needed")),
        }
    }

    fn is_on(&self, path: &str, usual: bool) -> Result<bool, ImportError> {
        match self.value(path)? {
            None => Ok(usual),
            Some(Value::Bool(on)) => Ok(on),
            Some(_) => Err(self.reader.refused(path, "true or false is needed")),
        }
    }

    /// Sets an argument, said where the file says `path`.
    fn set(&mut self, name: &str, value: Value, path: &str) {
        let whole = self.reader.document();
        let default = || Origin { path: path.to_owned(), place: Place::Default };
        let origin = whole.get(path).map_or_else(default, |found: &Found| whole.origin(found));
        self.document.set(name, value, origin);
    }

    /// What shapes the model and is said otherwise.
    fn model(&mut self) -> Result<(), ImportError> {
        for (path, usual) in
            [("model.transformer_block_type", "pre_ln"), ("model.attention_type", "multihead")]
        {
            if self.word(path, usual)? != usual {
                let rule = format!("{usual} is what is planned");
                return Err(self.reader.refused(path, rule).or(vec![usual.to_owned()]));
            }
        }
        if let Some(groups) = self.value(GROUPS)? {
            self.set("group-query-attention", true.into(), GROUPS);
            self.set("num-query-groups", groups, GROUPS);
        }
        match self.word(NORM, "layernorm")?.as_str() {
            "rmsnorm" => self.set("normalization", "RMSNorm".into(), NORM),
            "layernorm1p" => self.set("apply-layernorm-1p", true.into(), NORM),
            "layernorm" => {}
            _ => {
                let known = ["layernorm", "layernorm1p", "rmsnorm"].map(str::to_owned).to_vec();
                return Err(self
                    .reader
                    .refused(NORM, "layernorm, layernorm1p or rmsnorm is needed")
                    .or(known));
            }
        }
        match self.word(ACTIVATION, "gelu")?.trim_start_matches("fast-") {
            "swiglu" => self.set("swiglu", true.into(), ACTIVATION),
            "gelu" => {}
            _ => {
                let known = ["swiglu", "gelu"].map(str::to_owned).to_vec();
                return Err(self
                    .reader
                    .refused(ACTIVATION, "gelu and swiglu are planned from files of NeMo")
                    .or(known));
            }
        }
        if !self.is_on(BIAS, true)? {
            self.set("disable-bias-linear", true.into(), BIAS);
        }
        let position = self.word(POSITION, "learned_absolute")?;
        self.set("position-embedding-type", position.into(), POSITION);
        if !self.is_on(TIED, true)? {
            self.set("untie-embeddings-and-output-weights", true.into(), TIED);
        }
        Ok(())
    }

    /// Recomputation: nothing without a granularity, attention's core alone under `selective`, whatever else is said, and
    /// nothing where it is of no block.
    fn recomputation(&mut self) -> Result<(), ImportError> {
        let (granularity, method, count) =
            (self.value(GRANULARITY)?, self.value(METHOD)?, self.value(COUNT)?);
        let Some(granularity) = granularity else { return Ok(()) };
        let is_full = granularity == "full";
        if is_full && count.as_ref().and_then(Value::as_u64) == Some(0) {
            return Ok(());
        }
        self.set("recompute-granularity", granularity, GRANULARITY);
        for (name, value, path) in
            [("recompute-method", method, METHOD), ("recompute-num-layers", count, COUNT)]
        {
            if let Some(value) = value.filter(|_| is_full) {
                self.set(name, value, path);
            }
        }
        Ok(())
    }

    /// The type of arithmetic, and the setting that says it.
    fn precision(&self) -> Result<(String, &'static str), ImportError> {
        let trainer = self.word(PRECISION, "32")?;
        Ok(match self.word(OWN_PRECISION, "")? {
            own if own.is_empty() => (trainer, PRECISION),
            own => (own, OWN_PRECISION),
        })
    }

    fn numbers(&mut self) -> Result<(), ImportError> {
        let (precision, path) = self.precision()?;
        match precision.as_str() {
            "bf16" | "bf16-mixed" | "bf16-true" => self.set("bf16", true.into(), path),
            "16" | "16-mixed" | "16-true" => self.set("fp16", true.into(), path),
            "32" | "32-true" => {}
            _ => {
                let known = ["bf16", "16", "32"].map(str::to_owned).to_vec();
                return Err(self.reader.refused(path, "bf16, 16 or 32 is needed").or(known));
            }
        }
        // NeMo switches it off where tokens are not split.
        if self.is_on(OVERLAP, false)? && self.is_on("model.sequence_parallel", false)? {
            self.set("tp-comm-overlap", true.into(), OVERLAP);
        }
        if self.is_on(EIGHT_BITS, false)? {
            self.set("fp8-format", "hybrid".into(), EIGHT_BITS);
        }
        Ok(())
    }

    /// The optimizer: whether its state is sharded, and in which type gradients are reduced.
    fn optimizer(&mut self) -> Result<(), ImportError> {
        match self.word(OPTIMIZER, "fused_adam")?.as_str() {
            "mcore_distributed_optim" | "distributed_fused_adam" => {
                self.set("use-distributed-optimizer", true.into(), OPTIMIZER);
            }
            "fused_adam" | "adam" | "adamw" | "megatron_fused_adam" => {}
            _ => {
                let known = ["fused_adam", "distributed_fused_adam", "mcore_distributed_optim"];
                let rule = "state other than Adam's is not modelled";
                return Err(self.reader.refused(OPTIMIZER, rule).or(known.map(str::to_owned).to_vec()));
            }
        }
        let half = ["bf16", "bfloat16"];
        if half.contains(&self.word(REDUCED, "")?.as_str()) {
            self.set("grad-reduce-in-bf16", true.into(), REDUCED);
        }
        Ok(())
    }
}

/// What a reader should know: one sentence each.
///
/// # Errors
/// As [`arguments`].
pub fn notes(reader: &Reader<'_>) -> Result<Vec<String>, ImportError> {
    let arguments = Arguments { reader, document: Document::translated(Syntax::Arguments) };
    let mut notes = Vec::new();
    if arguments.precision()?.0.starts_with("bf16") && !arguments.is_on(HALF, false)? {
        notes.push(
            "Without megatron_amp_O2 parameters are kept in 32 bits and cast where they are used; that is predicted as \
             parameters in 16 bits with master copies."
                .to_owned(),
        );
    }
    if arguments.word(OPTIMIZER, "fused_adam")? == "distributed_fused_adam" {
        notes.push(
            "distributed_fused_adam is predicted as Megatron's distributed optimizer: gradients are kept whole, and master \
             copies in 32 bits."
                .to_owned(),
        );
    }
    Ok(notes)
}

/// An error about an argument of Megatron-LM as one about the setting that became it.
pub fn renamed(error: ImportError, arguments: &Document) -> ImportError {
    match error {
        ImportError::Missing { path, rule } => {
            let path = arguments.origins.get(&path).map_or(path, |origin| origin.path.clone());
            ImportError::Missing { path, rule }
        }
        ImportError::Unsaid { flag: "MODEL", .. } => {
            ImportError::Unsaid { what: "the vocabulary (model.override_vocab_size)", flag: "MODEL" }
        }
        other => other,
    }
}
