//! What a record says against itself, and measured values that cannot be.

use crate::trace::published::PublishedRun;
use crate::validate::document::Flag;
use crate::validate::published::strategy::global_batch;

/// The most of what a record may ask for; beyond, the record is wrong and not the run large.
const MOST_DEVICES: u64 = 1 << 20;
const MOST_TOKENS: u64 = 1 << 24;
const MOST_SEQUENCES: u64 = 1 << 24;
const MOST_MICRO_BATCHES: u64 = 1 << 16;
/// Tokens of a micro-batch.
const MOST_PASS_TOKENS: u64 = 1 << 26;

/// Whether the sizes of `run` are there, of a possible size, and agree with each other.
///
/// # Errors
/// Names the field that is missing or impossible, or those that contradict each other.
pub fn record(run: &PublishedRun) -> Result<(), String> {
    let (model, hardware, strategy) = (&run.model, &run.hardware, &run.strategy);
    for (field, value, most) in [
        ("model.seq_len", Some(model.seq_len), MOST_TOKENS),
        ("hardware.num_gpus", Some(hardware.num_gpus), MOST_DEVICES),
        ("hardware.gpus_per_node", Some(hardware.gpus_per_node), MOST_DEVICES),
        ("strategy.dp", strategy.dp, MOST_DEVICES),
        ("strategy.tp", strategy.tp, MOST_DEVICES),
        ("strategy.pp", strategy.pp, MOST_DEVICES),
        ("strategy.cp", Some(strategy.cp), MOST_DEVICES),
        ("strategy.ep", Some(strategy.ep), MOST_DEVICES),
        ("strategy.virtual_pp", strategy.virtual_pp, MOST_DEVICES),
        ("strategy.shard_group", strategy.shard_group, MOST_DEVICES),
        ("strategy.micro_batch", strategy.micro_batch, MOST_SEQUENCES),
        ("strategy.global_batch", strategy.global_batch, MOST_SEQUENCES),
        ("strategy.grad_accum", strategy.grad_accum, MOST_MICRO_BATCHES),
    ] {
        if let Some(value) = value.filter(|value| !(1..=most).contains(value)) {
            return Err(format!("{field} is {value}, outside 1 to {most}"));
        }
    }
    devices(run)?;
    batch(run)?;
    if let (Some(experts), Some(chosen)) = (model.experts, model.topk)
        && chosen > experts
    {
        return Err(format!("model.topk = {chosen} contradicts model.experts = {experts}"));
    }
    if model.experts.is_some() && strategy.ep == 1 && run.framework.contains("DeepEP") {
        return Err("strategy.ep = 1 contradicts framework, whose DeepEP exchanges tokens".to_owned());
    }
    Ok(())
}

fn devices(run: &PublishedRun) -> Result<(), String> {
    let (hardware, strategy) = (&run.hardware, &run.strategy);
    let (count, per_node) = (hardware.num_gpus, hardware.gpus_per_node);
    if count > per_node && !count.is_multiple_of(per_node) {
        return Err(format!("hardware.num_gpus = {count} is no multiple of gpus_per_node = {per_node}"));
    }
    let (Some(data), Some(tensor), Some(pipeline)) = (strategy.dp, strategy.tp, strategy.pp) else {
        return Ok(());
    };
    let product = product([data, tensor, pipeline, strategy.cp]);
    if product != u128::from(count) {
        return Err(format!("strategy.dp·tp·pp·cp = {product} contradicts hardware.num_gpus = {count}"));
    }
    Ok(())
}

fn batch(run: &PublishedRun) -> Result<(), String> {
    let strategy = &run.strategy;
    let (Some(data), Some(global)) = (strategy.dp, global_batch(strategy)) else { return Ok(()) };
    if global > MOST_SEQUENCES {
        return Err(format!("the global batch is {global}, more than {MOST_SEQUENCES}"));
    }
    let micro = strategy.micro_batch.unwrap_or(global / data / strategy.grad_accum.unwrap_or(global));
    let tokens = micro * run.model.seq_len;
    if tokens > MOST_PASS_TOKENS {
        return Err(format!("a micro-batch has {tokens} tokens, more than {MOST_PASS_TOKENS}"));
    }
    if let (Some(micro), Some(accumulation)) = (strategy.micro_batch, strategy.grad_accum) {
        let product = product([data, micro, accumulation]);
        return if product == u128::from(global) {
            Ok(())
        } else {
            let product = format!("strategy.dp·micro_batch·grad_accum = {product}");
            Err(format!("{product} contradicts strategy.global_batch = {global}"))
        };
    }
    let pass = data * strategy.micro_batch.or(strategy.grad_accum).unwrap_or(1);
    if !global.is_multiple_of(pass) {
        return Err(format!("strategy.global_batch = {global} is no multiple of dp times the rest, {pass}"));
    }
    if strategy.grad_accum.is_none() && global / pass > MOST_MICRO_BATCHES {
        return Err(format!(
            "strategy.global_batch = {global} is more than {MOST_MICRO_BATCHES} micro-batches"
        ));
    }
    Ok(())
}

fn product<const N: usize>(sizes: [u64; N]) -> u128 {
    sizes.into_iter().map(u128::from).product()
}

/// Measured values of `run` that no machine can show, whatever their unit.
pub fn flags(run: &PublishedRun) -> Vec<Flag> {
    let measured = &run.measured;
    let mut flags = Vec::new();
    let mut flag = |field: &str, reason: String| {
        flags.push(Flag { id: run.id.clone(), field: format!("measured.{field}"), reason });
    };
    for (field, value) in [
        ("step_time_s", measured.step_time_s),
        ("tokens_per_s_per_gpu", measured.tokens_per_s_per_gpu),
        ("tflops_per_gpu", measured.tflops_per_gpu),
        ("mfu_pct", measured.mfu_pct),
        ("peak_memory_gib", measured.peak_memory_gib),
    ] {
        if let Some(value) = value.filter(|value| !value.is_finite() || *value <= 0.0) {
            flag(field, format!("is {value}; it can only be more than 0"));
        }
    }
    if let Some(share) = measured.mfu_pct.filter(|share| *share > 100.0) {
        flag("mfu_pct", format!("is {share} %; no device does more than its peak"));
    }
    // What is sold as 80 GB has up to 80 GiB.
    if let (Some(peak), Some(device)) = (measured.peak_memory_gib, run.hardware.gpu_memory_gb)
        && peak > device
    {
        flag("peak_memory_gib", format!("is {peak}, more than the device's {device}"));
    }
    flags
}

/// The flag of a step time at which devices would use `share` of their peak for the model's products.
pub fn too_fast(id: &str, share: f64) -> Option<Flag> {
    // The count has attention over all pairs; causal kernels compute half of them.
    (share > 2.0).then(|| Flag {
        id: id.to_owned(),
        field: "measured.step_time_s".to_owned(),
        reason: format!("would use {:.0} % of the devices' peak", 100.0 * share),
    })
}
