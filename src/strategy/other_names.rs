//! Keys as other tools call them, and what to write here: `mbs=4` is `micro=4`, and FSDP is a ZeRO stage.

use super::{Draft, Key};

/// A key of another tool, and what it is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meant {
    /// Texts to write, the likeliest first: pairs of a strategy text, or a flag.
    pub written: Vec<String>,
    /// How far both are the same.
    pub why: String,
}

/// Keys that take the same values under another name.
const RENAMED: &[(Key, &[&str])] = &[
    (
        Key::Tensor,
        &[
            "tp_size",
            "tensor_parallel_size",
            "tensor_model_parallel_size",
            "tensor_parallel_degree",
            "mp",
            "mp_size",
            "model_parallel_size",
        ],
    ),
    (Key::Context, &["cp_size", "context_parallel_size", "context_parallel_degree"]),
    (
        Key::Pipeline,
        &[
            "pp_size",
            "pipeline_parallel_size",
            "pipeline_model_parallel_size",
            "pipeline_parallel_degree",
            "stages",
            "pipeline_stages",
        ],
    ),
    (Key::Data, &["dp_size", "data_parallel_size", "data_parallel_degree"]),
    (
        Key::Expert,
        &["ep_size", "expert_parallel_size", "expert_model_parallel_size", "expert_parallel_degree"],
    ),
    (Key::ExpertTensor, &["etp_size", "expert_tensor_parallel_size"]),
    (Key::SequenceParallel, &["sequence_parallel"]),
    (Key::Schedule, &["schedule", "pipeline_schedule", "pp_schedule"]),
    (
        Key::VirtualStages,
        &["vp", "vpp", "virtual_stages", "virtual_pipeline_model_parallel_size", "model_chunks"],
    ),
    (Key::Zero, &["zero_stage", "zero_optimization", "stage", "deepspeed"]),
    (Key::Shard, &["dp_shard", "shard_size", "fsdp_size", "data_parallel_shard_degree"]),
    (
        Key::MicroBatch,
        &[
            "bs",
            "mbs",
            "batch",
            "batch_size",
            "micro_batch",
            "micro_batch_size",
            "micro_bs",
            "local_batch_size",
            "per_device_batch_size",
            "per_device_train_batch_size",
            "train_micro_batch_size_per_gpu",
        ],
    ),
    (
        Key::Accumulation,
        &[
            "ga",
            "gas",
            "acc",
            "grad_acc",
            "grad_accum",
            "gradient_accumulation",
            "gradient_accumulation_steps",
            "accumulation_steps",
            "microbatches",
            "num_microbatches",
        ],
    ),
    (Key::Bucket, &["bucket_size", "reduce_bucket_size"]),
    (Key::Gradient, &["grad_dtype", "grad_type", "gradient_dtype"]),
    (Key::Reduce, &["reduce_dtype", "grad_reduce_dtype"]),
];

const SHARDED: &[&str] = &["fsdp", "fsdp1", "fsdp2", "fully_sharded_data_parallel"];
const HYBRID: &[&str] = &["hsdp", "hybrid_shard", "hybrid_sharding"];
const REPLICATED: &[&str] = &["ddp", "data_parallel_replicate_degree"];
const STAGED: &[&str] = &["sharding", "sharding_stage", "sharding_strategy"];
const RECOMPUTED: &[&str] = &[
    "ac",
    "gc",
    "activation_checkpoint",
    "activation_checkpointing",
    "gradient_checkpointing",
    "grad_ckpt",
    "checkpointing",
    "recompute",
    "recomputation",
    "recompute_granularity",
    "remat",
    "remat_policy",
];
const OFFLOADED: &[(&str, &[&str])] = &[
    (
        "optimizer",
        &["cpu_offload", "optimizer_offload", "offload_optimizer", "zero_offload", "optimizer_cpu_offload"],
    ),
    ("params", &["param_offload", "offload_param", "offload_params", "parameter_offload"]),
    ("activations", &["activation_offload", "cpu_offloading", "activation_offloading"]),
];
const FUSED: &[&str] = &["flash", "flash_attn", "flash_attention", "attn", "attn_implementation"];
/// Names of flags, which are no part of a strategy.
const FLAGS: &[(&str, &[&str])] = &[
    ("global-batch", &["gbs", "global_batch", "global_batch_size", "train_batch_size"]),
    ("seq-len", &["seq", "seq_len", "seq_length", "sequence_length", "max_seq_len", "context_length"]),
    ("precision", &["dtype", "precision", "bf16", "fp16", "fp8", "mixed_precision"]),
    ("cluster", &["gpus", "num_gpus", "ngpus", "world_size", "nodes", "num_nodes", "nnodes", "devices"]),
    ("engine", &["engine", "framework", "backend"]),
];

/// The meaning of `name`, which is no key, with `value`; none if it is no other tool's either.
pub fn meant(name: &str, value: &str) -> Option<Meant> {
    let name = name.trim_start_matches('-').to_lowercase().replace('-', "_");
    let is = |names: &[&str]| names.contains(&name.as_str());
    let number: Option<u64> = value.parse().ok().filter(|&number| number > 1);
    let says = |written: Vec<String>, why: &str| Some(Meant { written, why: why.to_owned() });
    if let Some((key, _)) = RENAMED.iter().find(|(_, names)| is(names)) {
        let pair = format!("{key}={}", in_our_words(value));
        let written = if Draft::parse(&pair).is_ok() { pair } else { key.to_string() };
        let batch = if *key == Key::MicroBatch { "; sequences a step are --global-batch" } else { "" };
        return says(vec![written], &format!("it is called {key} here{batch}"));
    }
    if is(SHARDED) {
        let mut written = vec!["zero=3".to_owned(), "zero=2".to_owned()];
        written.extend(number.map(|size| format!("zero=3,shard={size}")));
        let groups =
            if number.is_some() { "; shard is the size of its groups, if not all data ranks" } else { "" };
        return says(
            written,
            &format!(
                "FSDP shards parameters, gradients and optimizer state, which is zero=3; zero=2 keeps the parameters \
                 whole (SHARD_GRAD_OP){groups}"
            ),
        );
    }
    if is(HYBRID) {
        let size = number.map_or("zero=3,shard=8".to_owned(), |size| format!("zero=3,shard={size}"));
        return says(vec![size], "hybrid sharding is zero=3 in groups of shard ranks");
    }
    if is(REPLICATED) {
        let mut written = vec!["zero=0".to_owned()];
        written.extend(number.map(|size| format!("dp={size},zero=0")));
        written.reverse();
        return says(written, "plain data parallelism shards nothing, which is zero=0; dp is its size");
    }
    if is(STAGED) {
        let last = value.chars().last().and_then(|sign| sign.to_digit(10)).filter(|stage| *stage <= 3);
        let word = if value.eq_ignore_ascii_case("shard_grad_op") { Some(2) } else { None };
        let stages = last.or(word).map_or(vec![3, 2, 1], |stage| vec![stage]);
        let written = stages.iter().map(|stage| format!("zero={stage}")).collect();
        return says(
            written,
            "zero is the stage: 1 shards optimizer state, 2 gradients too, 3 parameters too",
        );
    }
    if is(RECOMPUTED) {
        let modes: &[&str] = match value.to_lowercase().as_str() {
            "none" | "off" | "false" | "no" | "0" => &["none"],
            "selective" | "selected" => &["selective"],
            "full" | "all" | "block" | "uniform" => &["full"],
            _ => &["full", "selective"],
        };
        let written = modes.iter().map(|mode| format!("ckpt={mode}")).collect();
        return says(written, "ckpt is what blocks recompute");
    }
    if let Some((category, _)) = OFFLOADED.iter().find(|(_, names)| is(names)) {
        let is_off = ["off", "false", "none", "no", "0"].contains(&value.to_lowercase().as_str());
        let written = if is_off { "offload=none".to_owned() } else { format!("offload={category}:1") };
        return says(vec![written], "offload is what lives on the host, and the share of it");
    }
    if is(FUSED) {
        let is_plain = ["off", "false", "eager", "math", "0"].contains(&value.to_lowercase().as_str());
        let kernel = if is_plain { "materialised" } else { "fused" };
        return says(vec![format!("attention={kernel}")], "attention is the kernel");
    }
    let (flag, _) = FLAGS.iter().find(|(_, names)| is(names))?;
    let value = match *flag {
        "precision" if ["bf16", "fp16", "fp8"].contains(&name.as_str()) => name.as_str(),
        // A count of devices is no cluster, and a switch no precision.
        "cluster" => "",
        "precision" if SWITCHES.contains(&value.to_lowercase().as_str()) => "",
        _ => value,
    };
    says(vec![format!("--{flag} {value}").trim_end().to_owned()], "it is a flag, not part of a strategy")
}

/// Values that only turn something on or off.
const SWITCHES: [&str; 8] = ["true", "false", "yes", "no", "on", "off", "1", "0"];

/// Other tools' `true`, `1F1B` and `ZBV` as ours.
fn in_our_words(value: &str) -> String {
    match value.to_lowercase().replace(['_', '-'], "").as_str() {
        "true" | "yes" => "on".to_owned(),
        "false" | "no" => "off".to_owned(),
        "interleaved1f1b" | "vpp" => "interleaved".to_owned(),
        "zbv" | "zbvzerobubble" => "zb-v".to_owned(),
        "zbh1" => "zb-h1".to_owned(),
        "stage1" => "1".to_owned(),
        "stage2" => "2".to_owned(),
        "stage3" => "3".to_owned(),
        "bfloat16" => "bf16".to_owned(),
        "float32" => "fp32".to_owned(),
        "float16" => "fp16".to_owned(),
        _ => value.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_written_parses() {
        let pairs = |name: &str, value: &str| meant(name, value).unwrap().written;
        for (name, value, written) in [
            ("mbs", "4", "micro=4"),
            ("bs", "2", "micro=2"),
            ("ga", "8", "accum=8"),
            ("gradient_accumulation_steps", "16", "accum=16"),
            ("tp_size", "8", "tp=8"),
            ("tensor-model-parallel-size", "8", "tp=8"),
            ("zero_stage", "2", "zero=2"),
            ("deepspeed", "stage3", "zero=3"),
            ("ddp", "8", "dp=8,zero=0"),
            ("fsdp", "2", "zero=3"),
            ("fsdp2", "full", "zero=3"),
            ("hsdp", "8", "zero=3,shard=8"),
            ("sharding", "stage2", "zero=2"),
            ("ac", "full", "ckpt=full"),
            ("gradient_checkpointing", "true", "ckpt=full"),
            ("recompute", "selective", "ckpt=selective"),
            ("schedule", "Interleaved1F1B", "sched=interleaved"),
            ("cpu_offload", "true", "offload=optimizer:1"),
            ("flash_attention", "true", "attention=fused"),
            ("sequence_parallel", "true", "sp=on"),
            ("gbs", "512", "--global-batch 512"),
            ("bf16", "true", "--precision bf16"),
        ] {
            assert_eq!(pairs(name, value)[0], written, "{name}={value}");
        }
        assert_eq!(pairs("fsdp", "2"), ["zero=3", "zero=2", "zero=3,shard=2"]);
        assert_eq!(pairs("mbs", "many"), ["micro"]);
        assert_eq!(meant("tpp", "2"), None);
        let renamed = RENAMED.iter().flat_map(|(_, names)| *names);
        let others = [SHARDED, HYBRID, REPLICATED, STAGED, RECOMPUTED, FUSED].concat();
        for name in renamed.copied().chain(others) {
            assert!(name.parse::<Key>().is_err(), "{name} is a key");
            for value in ["", "1", "8", "on", "full", "\u{e9}"] {
                for pair in meant(name, value).unwrap().written.iter().filter(|pair| pair.contains('=')) {
                    assert!(Draft::parse(pair).is_ok(), "{name}={value}: {pair}");
                }
            }
        }
    }
}
