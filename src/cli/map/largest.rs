//! `--maximize`: what is to be as large as possible, and how large it may be at all.

use super::super::error::CliError;
use super::super::workload::{MOST_SEQ_LEN, MOST_SEQUENCES, limit};
use crate::search::map::{Ceiling, Maximize, Setting};
use crate::strategy::Draft;
use crate::units::grouped;

/// `batch` or `seq-len`; the keys that the largest batch is made of must be free.
pub fn parse(what: &str, fix: &Draft) -> Result<Maximize, CliError> {
    if what != "batch" {
        return Ok(Maximize::SeqLen);
    }
    if fix.micro_batch.is_some() || fix.accumulation.is_some_and(|accumulation| accumulation != 1) {
        let rule = "the largest batch is dp · micro at accum 1, so micro and accum cannot be fixed";
        return Err(CliError::usage("maximize", what, rule));
    }
    Ok(Maximize::Batch)
}

/// The largest value that the model and the counting of bytes allow; `home` is legal. Sequences end where the model's
/// positions do, unless `home` is beyond them.
pub fn ceiling(home: &Setting<'_>, what: Maximize) -> Ceiling {
    let (now, most, noun) = match what {
        Maximize::Batch => (home.workload.global_batch, MOST_SEQUENCES, "sequences a step"),
        Maximize::SeqLen => (home.workload.seq_len, MOST_SEQ_LEN, "tokens a sequence"),
    };
    let positions = home.model.max_sequence.filter(|&positions| positions >= now && positions <= most);
    let check = |value: u64| {
        let mut workload = home.workload;
        match what {
            Maximize::Batch => workload.global_batch = value,
            Maximize::SeqLen => workload.seq_len = value,
        }
        limit(home.model, &workload)
    };
    // The message names the flag and its value, which nobody typed.
    let said = |error: CliError| {
        error.message.split_once(": ").map_or_else(String::new, |(_, rule)| rule.to_owned())
    };
    let (bound, reason) = match (what, positions) {
        (Maximize::SeqLen, Some(positions)) => {
            (positions, format!("{} has positions for no more; memory is not full", home.model.name))
        }
        _ => (most, format!("at most {} {noun} are planned; memory is not full", grouped(most))),
    };
    let Err(error) = check(bound) else {
        let beyond =
            positions.filter(|_| what == Maximize::SeqLen).and_then(|positions| check(positions + 1).err());
        return Ceiling { most: bound, reason: beyond.map_or(reason, said) };
    };
    let (mut low, mut high, mut reason) = (now, bound, said(error));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match check(middle) {
            Ok(()) => low = middle,
            Err(error) => (high, reason) = (middle, said(error)),
        }
    }
    Ceiling { most: low, reason }
}
