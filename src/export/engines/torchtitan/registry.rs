//! The functions of torchtitan's registry that configurations begin with, and what each sets of a strategy
//! (v0.3.0 `models/*/config_registry.py`; the main branch says the same batches in tokens).

use serde_json::{Value, json};

use super::recipe::{FULL, SELECTIVE};
use crate::export::syntax::{Document, Found};

/// A function, the model that it is for, and what it sets.
pub struct Function {
    pub name: &'static str,
    pub family: &'static str,
    pub flavor: &'static str,
    /// Sequences of a micro-batch on one data rank.
    sequences: u64,
    seq_len: u64,
    checkpoint: Checkpoint,
    more: More,
}

enum Checkpoint {
    No,
    Selective,
    Full,
}

/// What few of them set.
enum More {
    Nothing,
    Tensor8,
    /// Tensor parallelism of 8, compiled, its products asynchronous and in 8 bits.
    Tensor8AndFloat8,
    Interleaved,
    /// An interleaved schedule and spread experts; of the compiled parts only the loss.
    InterleavedAndExperts(u64),
}

use Checkpoint::{Full, No, Selective};
use More::{Interleaved, InterleavedAndExperts, Nothing, Tensor8, Tensor8AndFloat8};

/// By family, the smaller models first.
const FUNCTIONS: &[Function] = &[
    Function::new("llama3_debugmodel", ("llama3", "debugmodel"), (8, 2048), Selective, Interleaved),
    Function::new("llama3_8b", ("llama3", "8B"), (1, 8192), Selective, Nothing),
    Function::new("llama3_70b", ("llama3", "70B"), (8, 8192), Full, Tensor8),
    Function::new("llama3_405b", ("llama3", "405B"), (2, 8192), Full, Tensor8AndFloat8),
    Function::new("qwen3_debugmodel", ("qwen3", "debugmodel"), (8, 2048), Selective, Nothing),
    Function::new("qwen3_14b", ("qwen3", "14B"), (4, 4096), Full, Nothing),
    Function::new("qwen3_30b_a3b", ("qwen3", "30B-A3B"), (2, 4096), Full, Nothing),
    Function::new("qwen3_32b", ("qwen3", "32B"), (2, 4096), Full, Nothing),
    Function::new("deepseek_v3_debugmodel", ("deepseek_v3", "debugmodel"), (8, 2048), Selective, Nothing),
    Function::new("deepseek_v3_16b", ("deepseek_v3", "16B"), (4, 4096), Selective, InterleavedAndExperts(8)),
    Function::new(
        "deepseek_v3_671b",
        ("deepseek_v3", "671B"),
        (4, 4096),
        Selective,
        InterleavedAndExperts(2),
    ),
    Function::new("gpt_oss_debugmodel", ("gpt_oss", "debugmodel"), (8, 2048), No, Nothing),
    Function::new("gpt_oss_20b", ("gpt_oss", "20b"), (1, 8192), Full, Nothing),
    Function::new("gpt_oss_120b", ("gpt_oss", "120b"), (1, 8192), Full, Nothing),
];

/// The name of the function whose configuration `document` begins with, if it begins with one.
pub fn base(document: &Document) -> Option<&str> {
    let call = |name: &str| document.get(name)?.value.as_str()?.strip_suffix("()");
    ["c", "config", "cfg"].into_iter().find_map(call).filter(|name| !name.contains('.'))
}

/// The function that a recipe for the model called `flavor` begins with: its own, or else that of the largest model of
/// the family. Functions that convert products to 8 bits are passed over, as devices before Ada refuse to run them.
pub fn of_model(family: &str, flavor: &str) -> Option<&'static Function> {
    let of_family =
        |function: &&Function| function.family == family && !matches!(function.more, More::Tensor8AndFloat8);
    let own = FUNCTIONS.iter().filter(of_family).find(|function| function.is_for(family, flavor));
    own.or_else(|| FUNCTIONS.iter().rfind(of_family))
}

/// The function called `name`.
pub fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// What the function called `name` sets; nothing where it is not known.
pub fn registered(name: &str) -> Vec<(&'static str, Value)> {
    function(name).map(Function::settings).unwrap_or_default()
}

impl Function {
    const fn new(
        name: &'static str,
        (family, flavor): (&'static str, &'static str),
        (sequences, seq_len): (u64, u64),
        checkpoint: Checkpoint,
        more: More,
    ) -> Self {
        Self { name, family, flavor, sequences, seq_len, checkpoint, more }
    }

    /// Whether it trains this model.
    pub fn is_for(&self, family: &str, flavor: &str) -> bool {
        self.family == family && self.flavor == flavor
    }

    /// What of its settings still stands under `document`, which may replace whole parts.
    pub fn beneath(&self, document: &Document) -> Document {
        let is_replaced = |path: &str| {
            let parts = path.char_indices().filter(|(_, letter)| *letter == '.').map(|(end, _)| &path[..end]);
            parts.into_iter().any(|part| document.get(part).is_some())
        };
        let found = self.settings().into_iter().filter(|(path, _)| !is_replaced(path));
        let found = found.map(|(path, value)| Found {
            path: path.to_owned(),
            value,
            entry: 0..0,
            span: 0..0,
            is_open: false,
        });
        Document { found: found.collect(), ..Document::translated(document.syntax) }
    }

    fn settings(&self) -> Vec<(&'static str, Value)> {
        let mut settings = vec![
            ("training.local_batch_size", json!(self.sequences)),
            ("training.seq_len", json!(self.seq_len)),
            ("training.num_tokens_per_microbatch_per_dp_rank", json!(self.sequences * self.seq_len)),
            ("training.max_context_length", json!(self.seq_len)),
        ];
        match self.checkpoint {
            Checkpoint::No => {}
            Checkpoint::Selective => settings.push(("activation_checkpoint", json!(SELECTIVE))),
            Checkpoint::Full => settings.push(("activation_checkpoint", json!(FULL))),
        }
        let tensor = ("parallelism.tensor_parallel_degree", json!(8));
        let interleaved = ("parallelism.pipeline_parallel_schedule", json!("Interleaved1F1B"));
        match self.more {
            More::Nothing => {}
            More::Tensor8 => settings.push(tensor),
            More::Tensor8AndFloat8 => settings.extend([
                tensor,
                ("compile.enable", json!(true)),
                ("compile.enable_async_tensor_parallel", json!(true)),
                ("model_spec.converters", json!(["Float8LinearConverter.Config()"])),
            ]),
            More::Interleaved => settings.push(interleaved),
            More::InterleavedAndExperts(experts) => settings.extend([
                interleaved,
                ("parallelism.expert_parallel_degree", json!(experts)),
                ("compile.enable", json!(true)),
                ("compile.components", json!(["loss"])),
            ]),
        }
        settings
    }
}
