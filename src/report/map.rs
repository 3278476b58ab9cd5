//! Phrases about a plan's surroundings that text and page share: sweeps, what if, the largest that fits, money, runs.

use crate::plan::Plan;
use crate::plan::goodput::Goodput;
use crate::plan::map::{BreakEvenRecord, KeptRecord, MaximumRecord, SensitivityRecord, SweepPoint};
use crate::plan::money::Cost;
use crate::search::map::{Maximize, SweepKey};
use crate::units::{Bytes, Money, Seconds, grouped, noun_of};

use super::words;

/// Tokens that a cost is said of, because one costs too little to read.
const MILLION: f64 = 1e6;

/// What differs along a sweep, as the head of its column.
pub const fn column(key: SweepKey) -> &'static str {
    match key {
        SweepKey::Devices => "devices",
        SweepKey::Batch => "batch",
        SweepKey::SeqLen => "seq-len",
        SweepKey::Memory => "memory",
    }
}

/// What differs, of `point`.
pub const fn value(key: SweepKey, point: &SweepPoint) -> u64 {
    match key {
        SweepKey::Devices => point.devices,
        SweepKey::Batch => point.global_batch,
        SweepKey::SeqLen => point.seq_len,
        SweepKey::Memory => point.device_memory_bytes.0,
    }
}

/// A value of a sweep without its noun.
pub fn shown(key: SweepKey, value: u64) -> String {
    if key == SweepKey::Memory { Bytes(value).to_string() } else { grouped(value) }
}

/// `between 64 and 128 devices: tp 8 to 4, zero 1 to 3`.
pub fn break_even(key: SweepKey, found: &BreakEvenRecord) -> String {
    let noun = match key {
        SweepKey::Devices => " devices",
        SweepKey::Batch => " sequences a step",
        SweepKey::SeqLen => " tokens a sequence",
        SweepKey::Memory => " a device",
    };
    let changes: Vec<_> = found
        .changes
        .iter()
        .map(|change| format!("{} {} to {}", change.key, change.from, change.to))
        .collect();
    format!("between {} and {}{noun}: {}", shown(key, found.from), shown(key, found.to), changes.join(", "))
}

/// A strategy text without what the others say and what is plain: it still parses to the same strategy.
pub fn short_strategy(text: &str) -> String {
    let is_plain =
        |part: &&str| ["tp=1", "pp=1", "zero=0", "micro=1"].contains(part) || part.starts_with("accum=");
    text.split(',').filter(|part| !is_plain(part)).collect::<Vec<_>>().join(",")
}

/// Why a point has no plan, as far as it has room: what comes first, before the advice.
pub fn short_reason(reason: &str) -> String {
    reason.split(';').next().unwrap_or_default().to_owned()
}

/// The same in a cell of a table: what comes before its first colon.
pub fn first_words(reason: &str) -> String {
    reason.split(':').next().unwrap_or_default().to_owned()
}

/// Whether the plan is the one of `point`.
pub fn is_chosen(plan: &Plan, point: &SweepPoint) -> bool {
    point.devices == plan.cluster.devices
        && point.global_batch == plan.workload.global_batch
        && point.seq_len == plan.workload.seq_len
        && point.device_memory_bytes == plan.cluster.device_memory_bytes
}

/// What a million tokens cost where one costs `token`.
pub fn million(token: Money) -> Money {
    token * MILLION
}

/// What a plan costs, item by item.
pub fn cost(cost: &Cost, goodput: Option<&Goodput>) -> Vec<String> {
    let mut items =
        vec![format!("{} a step", cost.step), format!("{} a million tokens", million(cost.token))];
    if let (Some(run), Some(goodput)) = (cost.run, goodput) {
        items.push(format!(
            "{run} for {} {}",
            words::count(goodput.tokens.0),
            noun_of("token", goodput.tokens.0)
        ));
    }
    items.push(format!("at {} a device-hour", cost.device_hour));
    items
}

/// How long a run takes, and what failures have to do with it.
pub fn run(goodput: &Goodput) -> Vec<String> {
    let tokens = format!("{} {}", words::count(goodput.tokens.0), noun_of("token", goodput.tokens.0));
    let head = match goodput.days {
        Some(days) => format!("{tokens} in {}", span(days * 86_400.0)),
        None => format!("{tokens} never: failures come faster than training gets on"),
    };
    let mut items = vec![head, words::several("step", goodput.steps)];
    let (Some(mtbf), Some(interval), Some(write), Some(bytes), Some(restart)) = (
        goodput.mtbf_s,
        goodput.interval_s,
        goodput.checkpoint_s,
        goodput.checkpoint_bytes,
        goodput.restart_s,
    ) else {
        return items;
    };
    items.push(format!(
        "goodput {} ({} without failures)",
        words::percent(goodput.goodput),
        span(goodput.days_without_failures * 86_400.0)
    ));
    let failures = goodput.failures.map_or(String::new(), |count| format!(", {} in all", words::rate(count)));
    items.push(format!("a failure every {}{failures}", span(mtbf.0)));
    items.push(format!("a checkpoint every {} ({bytes} a device in {write})", span(interval.0)));
    items.push(format!("{} to restart", span(restart.0)));
    items
}

/// `45.00 s`, `30.0 min`, `3.2 h`, `52 days`.
pub fn span(seconds: f64) -> String {
    match seconds {
        value if value < 100.0 => Seconds(value).to_string(),
        value if value < 2.0 * 3600.0 => format!("{:.1} min", value / 60.0),
        value if value < 2.0 * 86_400.0 => format!("{:.1} h", value / 3600.0),
        value => format!("{} days", words::rate(value / 86_400.0)),
    }
}

/// The best plan of a scenario in few words: what differs from the plan's own strategy, or that nothing does.
pub fn changes(plan: &Plan, answer: &SensitivityRecord) -> String {
    match &answer.strategy {
        None => short_reason(answer.reason.as_deref().unwrap_or_default()),
        // Another batch is other numbers of micro-batches of the same plan.
        Some(strategy) => match short_strategy(&strategy.text) {
            same if same == short_strategy(&plan.strategy.text) => "the same".to_owned(),
            other => other,
        },
    }
}

/// What keeping the plan would cost.
pub fn kept(kept: &KeptRecord) -> String {
    match (kept.slower_by, &kept.reason) {
        (Some(slower), _) if slower < 5e-4 => "nothing".to_owned(),
        (Some(slower), _) => format!("{} slower", words::percent(slower)),
        (None, Some(reason)) => format!("cannot be kept: {reason}"),
        (None, None) => "fits where no other was found".to_owned(),
    }
}

/// The largest that fits, and why no larger one does.
pub fn maximum(record: &MaximumRecord) -> [String; 2] {
    let (name, noun) = match record.what {
        Maximize::Batch => ("largest batch without accumulation", "sequence"),
        Maximize::SeqLen => ("longest sequence", "token"),
    };
    let Some(value) = record.value else {
        return [format!("{name}: none"), record.next_value_fails_because.clone()];
    };
    let with = record.strategy.as_ref().map_or(String::new(), |strategy| format!(", with {}", strategy.text));
    let step = record
        .prediction
        .as_ref()
        .map_or(String::new(), |prediction| format!("; a step of {}", prediction.step_time_s));
    let next = record.next_value.map_or(String::new(), |next| format!("{}: ", words::several(noun, next)));
    [
        format!("{name}: {}{with}{step}", words::several(noun, value)),
        format!("{next}{}", record.next_value_fails_because),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_the_unit_that_reads_best() {
        let said = [45.0, 1800.0, 3.0 * 3600.0, 52.0 * 86_400.0, 5000.0 * 86_400.0].map(span);
        assert_eq!(said, ["45.00 s", "30.0 min", "3.0 h", "52.0 days", "5,000 days"]);
    }

    #[test]
    fn short_strategies_say_what_matters() {
        let text = "tp=1,pp=1,dp=8,zero=0,micro=16,accum=1,ckpt=full";
        assert_eq!(short_strategy(text), "dp=8,micro=16,ckpt=full");
    }

    #[test]
    fn what_is_kept_says_what_it_costs() {
        let record = |slower_by, reason: Option<&str>| KeptRecord {
            fits: reason.is_none(),
            step_time_s: None,
            slower_by,
            reason: reason.map(str::to_owned),
        };
        assert_eq!(kept(&record(Some(0.0), None)), "nothing");
        assert_eq!(kept(&record(Some(0.123), None)), "12.3 % slower");
        assert_eq!(kept(&record(None, Some("it is too large"))), "cannot be kept: it is too large");
    }
}
