//! The arguments that `plan`, `simulate` and `explain` share: model, cluster, workload and engine.

use std::borrow::Cow;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

use super::claims::Claims;
use super::error::{CliError, Kind};
use super::freeze::freeze;
use super::hints;
use super::number::{real, whole_with};
use crate::cluster::{self, Cluster};
use crate::model::layer::LayerKind;
use crate::model::{self, Model, MultiToken};
use crate::profile::EngineProfile;
use crate::profile::automatic::automatic;
use crate::profile::device::DeviceClass;
use crate::profile::engines::{engine_named, engines, engines_in_use, nearest_engines};
use crate::strategy::Workload;
use crate::units::{ElementType, Kilo, grouped};

/// Sequences a step: far above any run, and few enough that every micro-batch can be played.
pub const MOST_SEQUENCES: u64 = 1 << 20;
/// Tokens a sequence: far above any run.
pub const MOST_SEQ_LEN: u64 = 1 << 24;
/// Tokens a step.
const MOST_TOKENS: u64 = 1 << 36;
const DEFAULT_SEQ_LEN: u64 = 4096;
const DEFAULT_GLOBAL_BATCH: u64 = 512;

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct WorkloadArgs {
    /// A preset's name, a Hugging Face config.json or its folder, or a layer-graph JSON
    #[arg(value_name = "MODEL", value_parser = hints::MODEL, hide_possible_values = true)]
    model: Option<String>,
    /// NODESxDEVICESxDEVICE, such as 8x8xh100-sxm, or a cluster JSON
    #[arg(long, value_name = "CLUSTER", value_parser = hints::CLUSTER, hide_possible_values = true)]
    cluster: String,
    /// Sequences a step [default: 512]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = WORK)]
    global_batch: Option<String>,
    /// Tokens a sequence, such as 128k [default: 4096, or the model's maximum]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = WORK)]
    seq_len: Option<String>,
    /// Arithmetic in bf16, fp16, fp32, fp64 or fp8 [default: bf16]
    #[arg(long, value_name = "TYPE", help_heading = WORK, ignore_case = true, hide_possible_values = true)]
    #[arg(value_parser = PossibleValuesParser::new(precisions()))]
    precision: Option<String>,
    /// Probability of dropout after attention, MLP and softmax; 0 is off [default: 0]
    #[arg(long, value_name = "P", allow_negative_numbers = true, help_heading = WORK)]
    dropout: Option<String>,
    /// Norm that gradients are clipped to; 0 is off [default: 1.0]
    #[arg(long, value_name = "C", allow_negative_numbers = true, help_heading = WORK)]
    clip: Option<String>,
    /// Layers that are not trained, by name with `*` and `?`; may be given again
    #[arg(long, value_name = "GLOB", help_heading = WORK)]
    freeze: Vec<String>,
    /// Count and price multi-token prediction layers; without it they are left out
    #[arg(long, help_heading = WORK)]
    mtp: bool,
    #[arg(long, value_name = "ENGINE", default_value = "auto", help_heading = WORK, help = engine_help())]
    #[arg(value_parser = hints::ENGINE, hide_possible_values = true)]
    engine: String,
}

const WORK: &str = "Workload";

/// The types of `--precision`, each with the names that frameworks have for it.
const PRECISIONS: [(&str, &[&str]); 5] = [
    ("bf16", &["bfloat16", "bf16-mixed"]),
    ("fp16", &["float16", "half", "fp16-mixed"]),
    ("fp32", &["float32", "float", "single"]),
    ("fp64", &["float64", "double"]),
    ("fp8", &["float8"]),
];

fn precisions() -> [PossibleValue; 5] {
    PRECISIONS.map(|(name, others)| PossibleValue::new(name).aliases(others))
}

/// One line on `--engine`, with the names of all.
fn engine_help() -> String {
    let names: Vec<&str> = engines_in_use().map(|engine| engine.name.as_str()).collect();
    format!(
        "What is to run the plan: auto (the one with most measured runs on the device), all (plan only), {}",
        names.join(", ")
    )
}

/// The arguments with their syntax checked; no file has been read.
#[derive(Debug)]
pub struct WorkloadRequest {
    model: String,
    cluster: String,
    /// Its `seq_len` is 0 where the model decides.
    workload: Workload,
    freeze: Vec<String>,
    multi_token: MultiToken,
    pub engine: EngineChoice,
}

/// Which engine is to run a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EngineChoice {
    /// The one with most measured runs on the device.
    Automatic,
    /// Each in use.
    All,
    Named(&'static EngineProfile),
}

/// What is to be planned, read and legal.
#[derive(Debug)]
pub struct Subject {
    pub model: Model,
    pub cluster: Cluster,
    pub workload: Workload,
    pub engine: Cow<'static, EngineProfile>,
}

/// What was typed, read; what was not is none.
#[derive(Debug)]
pub struct Typed {
    pub model: Option<String>,
    pub cluster: String,
    pub global_batch: Option<u64>,
    pub seq_len: Option<u64>,
    pub precision: Option<ElementType>,
    pub dropout: Option<f64>,
    pub clip: Option<f64>,
    pub freeze: Vec<String>,
    pub multi_token: MultiToken,
    pub engine: EngineChoice,
}

impl WorkloadArgs {
    /// Checks what can be checked without reading anything.
    pub fn typed(self) -> Result<Typed, CliError> {
        Ok(Typed {
            model: self.model,
            cluster: self.cluster,
            global_batch: self.global_batch.as_deref().map(global_batch).transpose()?,
            seq_len: self.seq_len.as_deref().map(seq_len).transpose()?,
            precision: self.precision.as_deref().map(precision).transpose()?,
            dropout: self.dropout.as_deref().map(dropout).transpose()?,
            clip: self.clip.as_deref().map(clip).transpose()?,
            freeze: self.freeze,
            multi_token: if self.mtp { MultiToken::Counted } else { MultiToken::LeftOut },
            engine: engine_choice(&self.engine)?,
        })
    }

    /// Files that would be read: of the model and the cluster, if files describe them.
    pub fn claims(&self) -> Claims {
        let model = self.model.as_deref().and_then(model::source_of);
        Claims::default().reads("MODEL", model).reads("--cluster", cluster::source_of(&self.cluster))
    }

    /// The same with the defaults put in.
    pub fn request(self) -> Result<WorkloadRequest, CliError> {
        self.typed()?.request()
    }
}

impl Typed {
    /// With the defaults put in; a model is needed.
    pub fn request(self) -> Result<WorkloadRequest, CliError> {
        let model = self.model.ok_or_else(|| {
            let rule =
                "a model is needed: a preset's name, a config.json or its folder, or a layer-graph JSON";
            CliError { message: rule.to_owned(), ..CliError::usage("model", "", rule) }
        })?;
        let global_batch = self.global_batch.unwrap_or(DEFAULT_GLOBAL_BATCH);
        let seq_len = self.seq_len.unwrap_or(0);
        tokens(global_batch, seq_len)?;
        Ok(WorkloadRequest {
            model,
            cluster: self.cluster,
            workload: Workload {
                global_batch,
                seq_len,
                precision: self.precision.unwrap_or(ElementType::Bf16),
                dropout: self.dropout.unwrap_or(0.0),
                clip: self.clip.unwrap_or(1.0),
            },
            freeze: self.freeze,
            multi_token: self.multi_token,
            engine: self.engine,
        })
    }
}

impl WorkloadRequest {
    /// Reads model and cluster, and settles what the model decides.
    pub fn load(self) -> Result<Subject, CliError> {
        let mut model = model::load_with(&self.model, self.multi_token)?;
        if self.multi_token == MultiToken::Counted && !predicts_ahead(&model) {
            let name = &model.name;
            model
                .warnings
                .push(format!("--mtp changes nothing: {name} has no multi-token prediction layers"));
        }
        let cluster = cluster::load(&self.cluster)?;
        model.warnings.extend(cluster::read_as(&self.cluster, &cluster));
        check_precision(&cluster, self.workload.precision)?;
        freeze(&mut model, &self.freeze, Some(&self.model))?;
        let mut workload = self.workload;
        if workload.seq_len == 0 {
            workload.seq_len =
                model.max_sequence.map_or(DEFAULT_SEQ_LEN, |longest| longest.min(DEFAULT_SEQ_LEN));
            tokens(workload.global_batch, workload.seq_len)?;
        }
        check(&mut model, &workload)?;
        let engine = match self.engine {
            EngineChoice::Named(engine) => engine,
            EngineChoice::All => automatic(&cluster.device).0,
            EngineChoice::Automatic => {
                let (engine, why) = automatic(&cluster.device);
                if cluster.device.class != DeviceClass::Cpu {
                    let name = &engine.name;
                    model.warnings.push(format!("Planned for {name}: {why} (--engine names another)."));
                }
                engine
            }
        };
        Ok(Subject { model, cluster, workload, engine: Cow::Borrowed(engine) })
    }

    /// That plans are made for the engine.
    pub fn of_engines_in_use(self) -> Result<Self, CliError> {
        match self.engine {
            EngineChoice::Named(engine) if engine.historical => {
                let rule = "it is kept to judge published runs; simulate and validate take it";
                Err(CliError::usage("engine", &engine.name, rule).or(engine.inherits.clone()))
            }
            _ => Ok(self),
        }
    }
}

/// Whether the head of `model` predicts more than the next token.
fn predicts_ahead(model: &Model) -> bool {
    model.layers().any(|layer| matches!(&layer.kind, LayerKind::Head(head) if head.passes > 1))
}

/// `--engine`.
fn engine_choice(text: &str) -> Result<EngineChoice, CliError> {
    match text.to_lowercase().as_str() {
        "auto" => return Ok(EngineChoice::Automatic),
        "all" => return Ok(EngineChoice::All),
        _ => {}
    }
    engine_named(text).map(EngineChoice::Named).ok_or_else(|| {
        let names = || ["auto", "all"].into_iter().chain(engines().iter().map(|engine| engine.name.as_str()));
        let near = nearest_engines(text, names());
        let rule = format!(
            "no such engine; nearest: {}; the known ones are {}",
            near.join(", "),
            names().collect::<Vec<_>>().join(", ")
        );
        CliError::usage("engine", text, rule).or(near)
    })
}

/// `--global-batch`.
pub fn global_batch(text: &str) -> Result<u64, CliError> {
    whole_with(Kilo::Either, "global-batch", text, 1..=MOST_SEQUENCES)
}

/// `--seq-len`.
pub fn seq_len(text: &str) -> Result<u64, CliError> {
    whole_with(Kilo::Binary, "seq-len", text, 1..=MOST_SEQ_LEN)
}

/// `--precision`.
pub fn precision(text: &str) -> Result<ElementType, CliError> {
    let text = text.to_lowercase();
    let known = PRECISIONS.iter().find(|(_, others)| others.contains(&text.as_str()));
    let text = known.map_or(text.as_str(), |(name, _)| name);
    text.parse::<ElementType>().map_err(|rule| CliError::usage("precision", text, rule))
}

/// `--dropout`.
pub fn dropout(text: &str) -> Result<f64, CliError> {
    real("dropout", text, |p| (0.0..1.0).contains(&p), "from 0 to below 1", 0)
}

/// `--clip`.
pub fn clip(text: &str) -> Result<f64, CliError> {
    real("clip", text, |norm| norm >= 0.0, "of at least 0", 0)
}

/// That the devices have units for 8 bits where these are asked for: nothing emulates them, as bf16 is.
pub fn check_precision(cluster: &Cluster, precision: ElementType) -> Result<(), CliError> {
    let device = &cluster.device;
    if precision != ElementType::Fp8 || device.has_units(precision) {
        return Ok(());
    }
    let types = [ElementType::Bf16, ElementType::Fp16, ElementType::Fp32];
    let has: Vec<ElementType> = types.into_iter().filter(|element| device.has_units(*element)).collect();
    let names = has.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let rule = format!("{} has no units for it; it has {names}", device.name);
    Err(CliError { kind: Kind::Input, ..CliError::usage("precision", precision.name(), rule) }
        .or(has.first()))
}

/// That `model` can be trained on `workload`; the model is warned of what is unusual.
pub fn check(model: &mut Model, workload: &Workload) -> Result<(), CliError> {
    limit(model, workload)?;
    if let Some(longest) = model.max_sequence.filter(|&longest| longest < workload.seq_len) {
        let warning = format!(
            "Sequences of {} tokens are longer than the {} that the configuration of {} allows.",
            grouped(workload.seq_len),
            grouped(longest),
            model.name
        );
        model.warnings.push(warning);
    }
    Ok(())
}

/// That `model` can be trained on `workload`. What is smaller in every number can be where this can.
pub fn limit(model: &Model, workload: &Workload) -> Result<(), CliError> {
    tokens(workload.global_batch, workload.seq_len)?;
    check_length(model, workload.seq_len)?;
    check_countable(model, workload)
}

/// That a step's tokens are not absurdly many.
fn tokens(global_batch: u64, seq_len: u64) -> Result<(), CliError> {
    if global_batch * seq_len <= MOST_TOKENS {
        return Ok(());
    }
    let rule = format!(
        "with {} tokens each these are {} tokens a step; at most {} are planned",
        grouped(seq_len),
        grouped(global_batch * seq_len),
        grouped(MOST_TOKENS)
    );
    Err(CliError::usage("global-batch", &global_batch.to_string(), rule).or([MOST_TOKENS / seq_len]))
}

/// A table of learned positions has no rows beyond its last; elsewhere longer sequences can be trained.
fn check_length(model: &Model, seq_len: u64) -> Result<(), CliError> {
    let Some(longest) = model.max_sequence.filter(|&longest| longest < seq_len) else { return Ok(()) };
    let has_table = model
        .layers()
        .any(|layer| matches!(&layer.kind, LayerKind::Embedding(embedding) if embedding.positions > 0));
    if !has_table {
        return Ok(());
    }
    let rule = format!("{} has learned positions for {longest} tokens", model.name);
    let error = CliError::usage("seq-len", &seq_len.to_string(), rule).or([longest]);
    Err(CliError { kind: Kind::Input, ..error })
}

/// That no sum of bytes can leave 64 bits, however the batch is split: every layer's widest tensors and attention
/// scores for the whole batch on one device.
fn check_countable(model: &Model, workload: &Workload) -> Result<(), CliError> {
    let (batch, seq_len) = (u128::from(workload.global_batch), u128::from(workload.seq_len));
    let tokens = batch * seq_len;
    let bytes: u128 = model
        .layers()
        .map(|layer| {
            let (width, heads) = match &layer.kind {
                LayerKind::Embedding(embedding) => (embedding.hidden, 0),
                LayerKind::Attention(attention) => {
                    let head = attention.query_dim() + attention.value_dim();
                    (attention.hidden.max(attention.heads * head), attention.heads)
                }
                LayerKind::Mlp(mlp) => (mlp.hidden.max(mlp.intermediate), 0),
                LayerKind::Moe(moe) => {
                    let routed = u128::from(moe.top_k) * u128::from(moe.intermediate.max(moe.hidden));
                    let shared = u128::from(moe.shared_intermediate.max(moe.hidden));
                    (u64::try_from(routed + shared).unwrap_or(u64::MAX), 0)
                }
                LayerKind::Head(head) => (head.hidden.max(head.vocabulary) * head.passes, 0),
                LayerKind::Loss(_) => (0, 0),
            };
            tokens * (u128::from(width) * 32 + u128::from(heads) * seq_len * 8)
        })
        .sum();
    if bytes < 1 << 63 {
        return Ok(());
    }
    let rule = format!(
        "a step of {} sequences of {} tokens through {} is more than can be counted",
        grouped(workload.global_batch),
        grouped(workload.seq_len),
        model.name
    );
    let most = (batch << 63) / bytes;
    let error = CliError::usage("global-batch", &workload.global_batch.to_string(), rule);
    let error = CliError { kind: Kind::Input, ..error };
    Err(if most > 0 { error.or([most]) } else { error })
}
