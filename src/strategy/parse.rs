//! Strategy text to draft: `tp=4,pp=2,zero=1`.

use std::str::FromStr;

use super::draft::CheckpointEntry;
use super::text_error::{StrategyTextError, ValueProblem};
use super::{Axis, Capacity, CheckpointMode, Draft, Key, MeshOrder, OffloadCategory};
use crate::units::ElementType;

type Parsed<T> = Result<T, ValueProblem>;

/// Far above any bucket and low enough that its bytes can be counted.
const GREATEST_BUCKET: u64 = 1_000_000_000_000_000;
/// Far above the factor at which no token is dropped.
const GREATEST_CAPACITY: f64 = 1e6;

impl Draft {
    /// Reads a strategy text. Each key may be given once, in any order; an empty text leaves all out.
    pub fn parse(text: &str) -> Result<Self, StrategyTextError> {
        let mut draft = Self::default();
        if text.trim().is_empty() {
            return Ok(draft);
        }
        for item in text.split(',').map(str::trim) {
            let Some((name, value)) = item.split_once('=') else {
                return Err(StrategyTextError::NotAPair { item: item.to_owned() });
            };
            let (name, value) = (name.trim(), value.trim());
            let key: Key = name.parse().map_err(|_| StrategyTextError::UnknownKey {
                key: name.to_owned(),
                nearest: Key::near(name),
            })?;
            if draft.gives(key) {
                return Err(StrategyTextError::Twice { key, value: value.to_owned() });
            }
            draft.set(key, value).map_err(|problem| StrategyTextError::Value {
                key,
                value: value.to_owned(),
                problem,
            })?;
        }
        Ok(draft)
    }

    fn set(&mut self, key: Key, text: &str) -> Parsed<()> {
        match key {
            Key::Tensor => self.tensor = Some(size(text)?),
            Key::Context => self.context = Some(size(text)?),
            Key::Pipeline => self.pipeline = Some(size(text)?),
            Key::Data => self.data = Some(size(text)?),
            Key::SequenceParallel => self.sequence_parallel = Some(switch(text)?),
            Key::ContextKind => self.context_kind = Some(choice(text)?),
            Key::Expert => self.expert = Some(size(text)?),
            Key::ExpertTensor => self.expert_tensor = Some(size(text)?),
            Key::Capacity => self.capacity = Some(capacity(text)?),
            Key::Schedule => self.schedule = Some(choice(text)?),
            Key::VirtualStages => self.virtual_stages = Some(size(text)?),
            Key::Cuts => self.cuts = Some(text.split('/').map(blocks).collect::<Parsed<_>>()?),
            Key::Zero => self.zero = Some(whole(text, 0, 3)? as u8),
            Key::Shard => self.shard = Some(size(text)?),
            Key::Reshard => self.reshard_after_forward = Some(switch(text)?),
            Key::MicroBatch => self.micro_batch = Some(size(text)?),
            Key::Accumulation => self.accumulation = Some(size(text)?),
            Key::Sync => self.sync = Some(choice(text)?),
            Key::Checkpoint => {
                self.checkpoint = Some(text.split('/').map(checkpoint_entry).collect::<Parsed<_>>()?);
            }
            Key::Offload => self.offload = Some(offload(text)?),
            Key::Overlap => self.overlap = Some(switch(text)?),
            Key::Compression => self.compression = Some(choice(text)?),
            Key::Loss => self.loss = Some(choice(text)?),
            Key::Attention => self.attention = Some(choice(text)?),
            Key::Bucket => self.bucket = Some(bucket(text)?),
            Key::Gradient => self.gradient_type = Some(gradient_type(text)?),
            Key::Reduce => self.reduce_type = Some(gradient_type(text)?),
            Key::Order => self.order = Some(order(text)?),
        }
        Ok(())
    }
}

/// A number of ranks, sequences or chunks.
fn size(text: &str) -> Parsed<u64> {
    whole(text, 1, u64::MAX)
}

/// A number of blocks.
fn blocks(text: &str) -> Parsed<u32> {
    Ok(whole(text, 0, u64::from(u32::MAX))? as u32)
}

/// A whole number in `least..=greatest`, written in digits only.
fn whole(text: &str, least: u64, greatest: u64) -> Parsed<u64> {
    let below = || ValueProblem::BelowLeast { text: text.to_owned(), least: least.to_string() };
    let above = || ValueProblem::AboveGreatest { text: text.to_owned(), greatest: greatest.to_string() };
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return match text.parse() {
            Ok(number) if number < least => Err(below()),
            Ok(number) if number <= greatest => Ok(number),
            _ => Err(above()),
        };
    }
    match real(text) {
        None => Err(ValueProblem::NotANumber { text: text.to_owned(), nearest: vec![least.to_string()] }),
        Some(number) if number < least as f64 => Err(below()),
        Some(number) if number > greatest as f64 => Err(above()),
        Some(number) => {
            let mut nearest = vec![number.floor() as u64, number.ceil() as u64];
            nearest.dedup();
            nearest.retain(|&near| (least..=greatest).contains(&near));
            let nearest = nearest.into_iter().map(|near| near.to_string()).collect();
            Err(ValueProblem::NotWhole { text: text.to_owned(), nearest })
        }
    }
}

/// A finite number.
fn real(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn switch(text: &str) -> Parsed<bool> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(unknown(text, ["on", "off"])),
    }
}

fn choice<T: FromStr<Err = Vec<&'static str>>>(text: &str) -> Parsed<T> {
    text.parse().map_err(|legal| unknown(text, legal))
}

fn unknown(text: &str, legal: impl IntoIterator<Item = &'static str>) -> ValueProblem {
    unknown_beside(text, legal, [])
}

fn unknown_beside(
    text: &str,
    legal: impl IntoIterator<Item = &'static str>,
    forms: impl IntoIterator<Item = &'static str>,
) -> ValueProblem {
    let owned = |texts: &mut dyn Iterator<Item = &'static str>| texts.map(str::to_owned).collect();
    ValueProblem::Unknown {
        text: text.to_owned(),
        legal: owned(&mut legal.into_iter()),
        forms: owned(&mut forms.into_iter()),
    }
}

fn capacity(text: &str) -> Parsed<Capacity> {
    if text == "full" {
        return Ok(Capacity::Full);
    }
    let text = text.to_owned();
    match real(&text) {
        None => Err(ValueProblem::NotANumber { text, nearest: vec!["1.25".into(), "full".into()] }),
        Some(factor) if factor <= 0.0 => {
            Err(ValueProblem::NotPositive { text, nearest: vec!["1.25".into(), "full".into()] })
        }
        Some(factor) if factor > GREATEST_CAPACITY => {
            Err(ValueProblem::AboveGreatest { text, greatest: "full".into() })
        }
        Some(factor) => Ok(Capacity::Factor(factor)),
    }
}

fn checkpoint_entry(text: &str) -> Parsed<CheckpointEntry> {
    if let Some(count) = text.strip_prefix("full:") {
        return Ok(CheckpointEntry::First(blocks(count)?));
    }
    if !text.contains('*') {
        return text
            .parse::<CheckpointMode>()
            .map(CheckpointEntry::Whole)
            .map_err(|legal| unknown_beside(text, legal, ["full:K", "MODE*COUNT+MODE*COUNT"]));
    }
    let run = |run: &str| match run.split_once('*') {
        Some((mode, count)) => Ok((choice(mode)?, blocks(count)?)),
        None => Err(unknown_beside(run, [], ["MODE*COUNT"])),
    };
    Ok(CheckpointEntry::Runs(text.split('+').map(run).collect::<Parsed<_>>()?))
}

fn offload(text: &str) -> Parsed<Vec<(OffloadCategory, Vec<f64>)>> {
    let mut categories: Vec<(OffloadCategory, Vec<f64>)> = Vec::new();
    if text == "none" {
        return Ok(categories);
    }
    for part in text.split('+') {
        let Some((name, fractions)) = part.split_once(':') else {
            return Err(unknown(part, ["none", "optimizer:1", "params:1", "activations:1"]));
        };
        let category: OffloadCategory = choice(name)?;
        if categories.iter().any(|&(other, _)| other == category) {
            return Err(ValueProblem::Repeated { text: text.to_owned(), name: name.to_owned() });
        }
        categories.push((category, fractions.split('/').map(fraction).collect::<Parsed<_>>()?));
    }
    Ok(categories)
}

fn fraction(text: &str) -> Parsed<f64> {
    let text = text.to_owned();
    match real(&text) {
        None => Err(ValueProblem::NotANumber { text, nearest: vec!["0".into(), "1".into()] }),
        Some(fraction) if fraction < 0.0 => Err(ValueProblem::BelowLeast { text, least: "0".into() }),
        Some(fraction) if fraction > 1.0 => Err(ValueProblem::AboveGreatest { text, greatest: "1".into() }),
        // Adding 0 turns -0 into 0.
        Some(fraction) => Ok(fraction + 0.0),
    }
}

fn bucket(text: &str) -> Parsed<u64> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    Ok(whole(digits, 1, GREATEST_BUCKET / unit)? * unit)
}

fn gradient_type(text: &str) -> Parsed<ElementType> {
    // fp64 is legal under fp64, as a rule says.
    match text.parse() {
        Ok(ElementType::Fp8) | Err(_) => Err(unknown(text, ["fp32", "bf16", "fp16"])),
        Ok(element) => Ok(element),
    }
}

fn order(text: &str) -> Parsed<MeshOrder> {
    let mut axes = Vec::with_capacity(5);
    for name in text.split('-') {
        match name {
            "tp" => axes.push(Axis::Tensor),
            "cp" => axes.push(Axis::Context),
            "dp" => axes.extend([Axis::Shard, Axis::Replica]),
            "shard" => axes.push(Axis::Shard),
            "replica" => axes.push(Axis::Replica),
            "pp" => axes.push(Axis::Pipeline),
            _ => {
                axes.clear();
                break;
            }
        }
        // A long text stops here and not at its end.
        if axes.len() > 5 {
            break;
        }
    }
    match <[Axis; 5]>::try_from(axes) {
        Ok(axes) if MeshOrder(axes).is_permutation() => Ok(MeshOrder(axes)),
        _ => Err(ValueProblem::NotAPermutation {
            text: text.to_owned(),
            nearest: MeshOrder::default().to_string(),
        }),
    }
}

#[cfg(test)]
mod tests;
