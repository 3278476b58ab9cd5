//! Phrases that text and page share, each made from one part of a plan.

use crate::plan::document::EvidenceRecord;
use crate::plan::document::ParetoPoint;
use crate::plan::shell::quoted;
use crate::plan::{GradientRecord, GradientSumRecord, Plan, Prediction, RankPrediction, SearchAccount};
use crate::program::GradientBuffer;
use crate::search::Objective;
use crate::strategy::Workload;
pub use crate::units::several;
use crate::units::{Bytes, Seconds, grouped, tenths};

/// `value` as bars and axes can show it: from 0 to 10^30, where what is less than 10^-18 is 0.
pub fn drawable(value: f64) -> f64 {
    if value >= 1e-18 { value.min(1e30) } else { 0.0 }
}

/// `41.2 %`; whole from 100 on, and in words where that would be nothing.
pub fn percent(share: f64) -> String {
    let value = 100.0 * share;
    if share == 0.0 || value.abs() >= 99.95 { format!("{value:.0} %") } else { tenths(share) }
}

/// `amount / whole` in percent, or nothing where there is no whole.
pub fn share(amount: f64, whole: f64) -> String {
    if whole > 0.0 { percent(amount / whole) } else { String::new() }
}

/// `70.6 B`, with the letters that sizes of models are given in.
pub fn count(value: u64) -> String {
    let real = value as f64;
    match value {
        0..1_000_000 => grouped(value),
        1_000_000..1_000_000_000 => format!("{:.1} M", real / 1e6),
        1_000_000_000..1_000_000_000_000 => format!("{:.1} B", real / 1e9),
        _ => format!("{:.2} T", real / 1e12),
    }
}

/// `value` with at most one decimal and its thousands apart.
pub fn rate(value: f64) -> String {
    let value = drawable(value);
    if value < 100.0 { format!("{value:.1}") } else { grouped(value.round() as u64) }
}

/// What plans of the front are compared in.
pub fn dimensions(plan: &Plan) -> &'static str {
    let has_devices = plan.pareto.iter().any(|point| point.devices.is_some());
    let has_cost = plan.pareto.iter().any(|point| point.cost_token.is_some());
    match (has_devices, has_cost) {
        (false, false) => "both time and memory",
        (false, true) => "all of time, memory and cost",
        (true, false) => "all of time, memory and number of devices",
        (true, true) => "all of time, memory, number of devices and cost",
    }
}

/// Whether `point` of the front is the plan itself.
pub fn is_chosen(plan: &Plan, point: &ParetoPoint) -> bool {
    point.strategy == plan.strategy.text
        && point.devices.is_none_or(|devices| devices == plan.cluster.devices)
}

/// Where a buffer of gradients is.
pub fn gradient_place(record: &GradientRecord) -> String {
    let shares = match (record.shards, record.expert_shards) {
        (1, None | Some(1)) => None,
        (1, Some(experts)) => Some(format!("1/{experts} of experts on each rank of their shard group")),
        (dense, Some(experts)) if experts != dense => Some(format!(
            "1/{dense} on each rank of the shard group, of experts 1/{experts} on each rank of theirs"
        )),
        (dense, _) => Some(format!("1/{dense} on each rank of the shard group")),
    };
    let share = shares.clone().unwrap_or_else(|| "whole on every rank".to_owned());
    match record.buffer {
        GradientBuffer::Whole => match shares {
            Some(shares) => format!("whole on every rank; once summed, {shares}"),
            None => share,
        },
        GradientBuffer::Shard => share,
        GradientBuffer::InParameters => format!("{share}, in the memory of the parameters"),
        GradientBuffer::Unit => "whole on every rank, while one backward needs it".to_owned(),
        GradientBuffer::Bucket => "staging of reductions".to_owned(),
        GradientBuffer::Watched => "at the weight where loss weights are taken".to_owned(),
        GradientBuffer::HostCopy => "copy on the host, for the optimizer there".to_owned(),
        GradientBuffer::WideCopy => "copy in 32 bits, for the optimizer".to_owned(),
    }
}

/// The collectives that sum what a buffer of gradients holds.
pub fn gradient_sums(sums: &[GradientSumRecord]) -> String {
    let words: Vec<_> = sums
        .iter()
        .map(|sum| {
            let times = if sum.times == 1 { "once".to_owned() } else { several("time", sum.times) };
            format!("{} over {}, {times}", sum.collective, sum.over)
        })
        .collect();
    if words.is_empty() { "-".to_owned() } else { words.join("; ") }
}

/// Where the gradients of the first stage are kept from pass to pass, from when until when, and what sums them.
pub fn gradients(plan: &Plan) -> Option<String> {
    let kept = plan.gradients.iter().find(|record| {
        matches!(record.buffer, GradientBuffer::Whole | GradientBuffer::Shard | GradientBuffer::InParameters)
    })?;
    let (first, last) = (kept.units.map(|[unit, _]| unit), kept.stage);
    let passing = plan.gradients.iter().find(|record| {
        let holds = |[start, end]: [u32; 2]| first.is_some_and(|unit| (start..=end).contains(&unit));
        record.buffer == GradientBuffer::Unit && record.stage == last && record.units.is_some_and(holds)
    });
    let sums: Vec<_> =
        passing.into_iter().chain([kept]).flat_map(|record| record.sums.iter().cloned()).collect();
    let summed = if sums.is_empty() { "not summed over ranks".to_owned() } else { gradient_sums(&sums) };
    Some(format!(
        "{}, {}; {summed}; from {} to {}",
        kept.element_type,
        gradient_place(kept),
        kept.from,
        kept.until
    ))
}

/// Model and cluster.
pub fn subject(plan: &Plan) -> String {
    let (model, cluster) = (&plan.model, &plan.cluster);
    let sized = sized_model(&model.name, model.parameters, model.layers);
    format!("{sized} on {}", devices(cluster.devices, &cluster.device, cluster.nodes))
}

/// `gpt2 (124.4 M parameters, 12 blocks)`.
pub fn sized_model(name: &str, parameters: u64, layers: u32) -> String {
    format!("{name} ({} parameters, {})", count(parameters), several("block", layers))
}

/// `64 x h100-sxm in 8 nodes`.
pub fn devices(number: u64, device: &str, nodes: u32) -> String {
    format!("{} x {device} in {}", grouped(number), several("node", nodes))
}

/// What a step trains on, and the engine that runs it.
pub fn work(work: &Workload, engine: &str) -> String {
    let mut text = format!(
        "{} of {} a step, {}",
        several("sequence", work.global_batch),
        several("token", work.seq_len),
        work.precision
    );
    if work.dropout > 0.0 {
        text += &format!(", dropout {}", work.dropout);
    }
    text += &format!(", engine {engine}");
    text
}

/// Half the 80 % interval as a share of the step: `± 6 %`; nothing where the step takes no time.
pub fn spread(prediction: &Prediction) -> Option<String> {
    let [low, high] = prediction.interval.step_time_s;
    let share = 50.0 * (high.0 - low.0) / prediction.step_time_s.0;
    share.is_finite().then(|| plus_minus(share))
}

fn plus_minus(percent: f64) -> String {
    if percent < 1.0 { format!("± {percent:.1} %") } else { format!("± {percent:.0} %") }
}

/// `4.31 s (± 6 %)`.
pub fn step_time(prediction: &Prediction) -> String {
    match spread(prediction) {
        Some(spread) => format!("{} ({spread})", prediction.step_time_s),
        None => prediction.step_time_s.to_string(),
    }
}

/// The memory that must fit, with half its 80 % interval: `77.01 GiB (± 9 %)`.
pub fn memory(prediction: &Prediction) -> String {
    let [low, high] = prediction.interval.peak_memory_bytes;
    let half = high.saturating_sub(low).0 as f64 / 2.0;
    let bytes = prediction.process_bytes();
    match half / prediction.peak_memory_bytes.0.max(1) as f64 {
        0.0 => bytes.to_string(),
        share => format!("{bytes} ({})", plus_minus(100.0 * share)),
    }
}

/// How much of what must fit is live at the peak, and when that is.
pub fn live(prediction: &Prediction) -> String {
    let instant = fullest(prediction).map_or(String::new(), |rank| {
        let stage =
            if prediction.ranks.len() > 1 { format!("stage {}, ", rank.stage) } else { String::new() };
        format!(" ({stage}{})", rank.peak_instant)
    });
    format!(
        "live at the peak: {}{instant}; the rest is what allocator, driver and libraries hold",
        prediction.peak_memory_bytes
    )
}

/// Whether it fits, and by how much not.
pub fn fit(prediction: &Prediction, device: Bytes) -> String {
    let over = prediction.safe_memory_bytes.process.saturating_sub(device);
    match (prediction.fits, over) {
        (true, _) => "fits".to_owned(),
        (false, Bytes::ZERO) => "over the limit".to_owned(),
        (false, over) => format!("over by {over}"),
    }
}

/// The rank with the highest peak, the first of several.
pub fn fullest(prediction: &Prediction) -> Option<&RankPrediction> {
    prediction.ranks.iter().rev().max_by_key(|rank| rank.peak_memory_bytes)
}

/// The place of the rank with the least idle time, the first of several.
pub fn busiest(ranks: &[RankPrediction]) -> Option<usize> {
    let busy = |place: &usize| {
        let causes = ranks[*place].time_s;
        causes.parts().iter().map(|(_, seconds)| seconds.0).sum::<f64>() - causes.bubble.0
    };
    (0..ranks.len()).rev().max_by(|one, other| busy(one).total_cmp(&busy(other)))
}

/// ` (stage 7)`, where there are several.
pub fn busiest_stage(prediction: &Prediction) -> String {
    let ranks = &prediction.ranks;
    let place = busiest(ranks).filter(|_| ranks.len() > 1);
    place.map_or_else(String::new, |place| format!(" (stage {})", ranks[place].stage))
}

/// What became of all strategies, in one sentence.
pub fn search(account: &SearchAccount) -> String {
    format!(
        "{} considered in {}: {} illegal, {} out of memory, {} ruled out by their bound, {} priced, {} of these \
         played",
        several("strategy", account.considered),
        Seconds(account.wall_time_s),
        grouped(account.illegal),
        grouped(account.out_of_memory),
        grouped(account.bounded),
        grouped(account.priced),
        grouped(account.played),
    )
}

/// How far the winner may be from the best.
pub fn proof(account: &SearchAccount) -> String {
    let better = match account.objective {
        Objective::Time => "faster",
        Objective::Memory => "leaner",
    };
    // A bound stays one where it is rounded.
    let gap = (1e3 * account.gap).ceil() / 1e3;
    let mut text = match (account.proven_optimal, gap) {
        (true, gap) if gap > 0.0 => format!("proven: none is more than {} {better}", percent(gap)),
        (true, _) => format!("proven: none is {better}"),
        (false, gap) => format!("none can be more than {} {better}", percent(gap)),
    };
    if let Some(gap) = account.robust_gap {
        let gap = (1e3 * gap).ceil() / 1e3;
        text += &match gap > 0.0 {
            true => format!(", or {} at the upper end", percent(gap)),
            false => ", or at the upper end".to_owned(),
        };
    }
    if account.inner_choices_log10 > 0.0 {
        text += &format!(
            "; each stands for 10^{:.0} choices of cuts, recompute and offload",
            account.inner_choices_log10
        );
    }
    text
}

/// What the numbers rest on.
pub fn evidence(plan: &Plan) -> String {
    let record = &plan.cost_model;
    format!("cost model {} ({}): {}", record.name, short(&record.hash), record.origin)
}

/// `12 measured runs of nemo-24.07 and others on this device, off by 7.2 % in the mean; nearest: …`.
pub fn measured(evidence: &EvidenceRecord) -> String {
    if evidence.runs == 0 {
        return "no measured run of this engine or its kin on this device".to_owned();
    }
    let off =
        evidence.mape.map_or(String::new(), |mape| format!(", off by {:.1} % in the mean", 100.0 * mape));
    let nearest: Vec<String> = evidence
        .nearest
        .iter()
        .take(3)
        .map(|run| {
            let off = run.time_error.map_or(String::new(), |error| format!(" ({:+.1} %)", 100.0 * error));
            format!("{}{off}", run.id)
        })
        .collect();
    format!(
        "{} of this engine or its kin on this device{off}; nearest: {}",
        several("measured run", evidence.runs),
        nearest.join(", ")
    )
}

/// The first characters of a hash.
pub fn short(hash: &str) -> String {
    hash.chars().take(12).collect()
}

/// The command that predicts this plan again, in lines that a shell joins.
pub fn command(plan: &Plan) -> String {
    let work = &plan.workload;
    let mut batch = format!(
        "--global-batch {} --seq-len {} --precision {}",
        work.global_batch, work.seq_len, work.precision
    );
    if work.dropout != 0.0 {
        batch += &format!(" --dropout {}", work.dropout);
    }
    if work.clip != 1.0 {
        batch += &format!(" --clip {}", work.clip);
    }
    [
        format!("meshwright simulate {} --cluster {}", quoted(&plan.model.name), quoted(&plan.cluster.name)),
        batch,
        format!("--engine {} --strategy {}", quoted(&plan.engine), quoted(&plan.strategy.text)),
    ]
    .join(" \\\n  ")
}

#[cfg(test)]
mod tests {
    use super::super::sample::sample_plan;
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(124_439_808), "124.4 M");
        assert_eq!(count(70_553_706_496), "70.6 B");
        assert_eq!(percent(0.0123), "1.2 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(rate(992.9), "993");
        assert_eq!(rate(f64::NAN), "0.0");
        assert_eq!([-1.0, 1e-300, 2.0, f64::INFINITY].map(drawable), [0.0, 0.0, 2.0, 1e30]);
    }

    #[test]
    fn the_interval_is_a_share_of_the_step() {
        let mut prediction = sample_plan().prediction;
        prediction.step_time_s = Seconds(4.0);
        prediction.interval.step_time_s = [Seconds(3.8), Seconds(4.2)];
        assert_eq!(step_time(&prediction), "4.00 s (± 5 %)");
        prediction.step_time_s = Seconds::ZERO;
        assert_eq!(step_time(&prediction), "0 s");
    }

    #[test]
    fn what_does_not_fit_says_by_how_much() {
        let mut prediction = sample_plan().prediction;
        prediction.fits = false;
        prediction.safe_memory_bytes.process = Bytes::gib(92);
        assert_eq!(fit(&prediction, Bytes::gib(80)), "over by 12.00 GiB");
        prediction.safe_memory_bytes.process = Bytes::gib(70);
        assert_eq!(fit(&prediction, Bytes::gib(80)), "over the limit");
    }

    #[test]
    fn the_command_survives_a_shell() {
        let mut plan = sample_plan();
        plan.model.name = "it's; rm -rf".to_owned();
        let first = r"meshwright simulate 'it'\''s; rm -rf' --cluster 8x8xh100-sxm \";
        assert_eq!(command(&plan).lines().next(), Some(first));
    }
}
