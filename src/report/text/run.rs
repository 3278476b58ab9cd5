//! A run as a terminal shows it: losses, memory and time predicted beside measured; the last line says what binds.

use crate::plan::CauseSeconds;
use crate::trace::{MemoryRow, PlannedTime, Resident, Space, StepTime, TOTAL, TimeRow, Trace};
use crate::units::{Seconds, grouped};

use super::super::{parts, words};
use super::listing::{
    Column::{Name, Number},
    Listing,
};
use super::sheet::{Hue, Sheet};
use super::{Style, gradients, slice};

/// Losses shown of a run.
const LOSSES: usize = 10;
/// Rows of ranks shown; of more, the first and last.
const MOST_ROWS: usize = 40;

/// The report of a run; `files` are what was written, and where. Its last line is the verdict.
pub fn run_text(trace: &Trace, files: &[(&str, &str)], style: Style) -> String {
    let plan = &trace.plan;
    let mut sheet = Sheet::new(style);
    sheet.paragraph("model", &words::subject(plan));
    sheet.paragraph("", &words::work(&plan.workload, &plan.engine));
    sheet.gap();
    sheet.paragraph("plan", &plan.strategy.text);
    sheet.paragraph("", &plan.strategy.description);
    losses(&mut sheet, trace);
    memory(&mut sheet, trace);
    ranks(&mut sheet, trace);
    arenas(&mut sheet, trace);
    match &trace.slice {
        Some(of) => slice::time(&mut sheet, trace, of),
        None => time(&mut sheet, trace),
    }
    gradients::table(&mut sheet, &trace.named_gradients);
    if !files.is_empty() {
        sheet.gap();
        let files: Vec<_> = files.iter().map(|(what, path)| format!("{what} in {path}")).collect();
        sheet.flow("written", &files);
    }
    if !plan.warnings.is_empty() {
        sheet.gap();
        for warning in &plan.warnings {
            sheet.marked("warning", Hue::Caution, warning);
        }
    }
    sheet.gap();
    sheet.verdict(&verdict(trace));
    sheet.finish()
}

fn losses(sheet: &mut Sheet, trace: &Trace) {
    let count = trace.losses.len();
    if count == 0 {
        return;
    }
    let mut shown: Vec<usize> =
        (0..LOSSES).map(|place| place * (count - 1) / (LOSSES - 1)).take(count.max(1)).collect();
    if count < LOSSES {
        shown = (0..count).collect();
    }
    let items: Vec<_> = shown
        .into_iter()
        .map(|place| format!("{:.4} (step {})", trace.losses[place], trace.first_step + place as u64 + 1))
        .collect();
    sheet.gap();
    sheet.flow("loss", &items);
    if let Some(rate) = trace.tokens_per_s() {
        let steps = words::several("step", count);
        sheet.flow("", &[steps, format!("{} tokens/s on {}", words::rate(rate), machine(trace))]);
    }
}

fn machine(trace: &Trace) -> String {
    trace.machine.gpu.clone().unwrap_or_else(|| words::several("core", trace.machine.cores))
}

/// The rank with the highest measured peak on the device, the first of several.
fn fullest(trace: &Trace) -> u64 {
    let totals = trace.memory.iter().filter(|row| row.space == Space::Device && row.category == TOTAL);
    totals.rev().max_by_key(|row| row.measured_bytes).map_or(0, |row| row.rank)
}

fn memory(sheet: &mut Sheet, trace: &Trace) {
    let rank = fullest(trace);
    let label = format!("rank {rank}");
    let mut table = compared(&label);
    for space in [Space::Device, Space::Host] {
        let rows = trace.memory.iter().filter(|row| row.rank == rank && row.space == space);
        let rows: Vec<_> = rows.filter(|row| row.measured_bytes.0 > 0 || row.predicted_bytes.0 > 0).collect();
        for row in rows {
            let name = match space {
                Space::Device => row.category.clone(),
                Space::Host => format!("host {}", row.category),
            };
            table.row(memory_row(name, row));
        }
    }
    sheet.listing("memory", &table);
    let stage = trace.stages.iter().find(|stage| {
        let rank = trace.ranks.iter().find(|of| of.rank == rank);
        rank.is_some_and(|rank| rank.stage == stage.stage)
    });
    if let Some(stage) = stage {
        sheet.paragraph("", &format!("Peak reached in: {}.", stage.device_peak));
    }
}

/// A table of what is predicted beside what was measured.
fn compared(of: &str) -> Listing {
    Listing::new(&[(of, Name), ("predicted", Number), ("measured", Number), ("difference", Number)])
}

fn memory_row(name: String, row: &MemoryRow) -> [String; 4] {
    [
        name,
        format!("{} B", grouped(row.predicted_bytes.0)),
        format!("{} B", grouped(row.measured_bytes.0)),
        format!("{} B", signed(row.measured_bytes.0 as i64 - row.predicted_bytes.0 as i64)),
    ]
}

fn signed(value: i64) -> String {
    let sign = match value {
        ..0 => "-",
        0 => "",
        _ => "+",
    };
    format!("{sign}{}", grouped(value.unsigned_abs()))
}

/// Peaks of all ranks, runs of equal ones in a row.
fn ranks(sheet: &mut Sheet, trace: &Trace) {
    let totals =
        |space: Space| trace.memory.iter().filter(move |row| row.space == space && row.category == TOTAL);
    let mut runs: Vec<(u64, u64, &MemoryRow, &MemoryRow)> = Vec::new();
    for (device, host) in totals(Space::Device).zip(totals(Space::Host)) {
        let same = |one: &MemoryRow, other: &MemoryRow| {
            (one.predicted_bytes, one.measured_bytes) == (other.predicted_bytes, other.measured_bytes)
        };
        match runs.last_mut() {
            Some((_, last, of, on_host)) if same(of, device) && same(on_host, host) => *last = device.rank,
            _ => runs.push((device.rank, device.rank, device, host)),
        }
    }
    if let [(first, last, ..)] = runs.as_slice() {
        if first < last {
            sheet.paragraph("", &format!("All {} hold the same.", words::several("rank", last - first + 1)));
        }
        return;
    }
    let mut table = Listing::new(&[
        ("ranks", Name),
        ("predicted", Number),
        ("measured", Number),
        ("difference", Number),
        ("on the host", Number),
    ]);
    let count = runs.len();
    for (place, (first, last, device, host)) in runs.into_iter().enumerate() {
        if count > MOST_ROWS && place >= MOST_ROWS / 2 && place < count - MOST_ROWS / 2 {
            if place == MOST_ROWS / 2 {
                table.row(["...".to_owned()]);
            }
            continue;
        }
        let ranks = if first == last { first.to_string() } else { format!("{first} to {last}") };
        let difference = device.difference() + host.difference();
        table.row([
            ranks,
            device.predicted_bytes.to_string(),
            device.measured_bytes.to_string(),
            format!("{} B", signed(difference)),
            host.measured_bytes.to_string(),
        ]);
    }
    sheet.listing("peaks", &table);
}

/// How far the fullest rank's arenas are used, and what the process holds.
fn arenas(sheet: &mut Sheet, trace: &Trace) {
    let rank = fullest(trace);
    for row in trace.extent.iter().filter(|row| row.rank == rank && row.extent_bytes.0 > 0) {
        let bytes = |bytes: u64| format!("{} B", grouped(bytes));
        let written = match row.measured_bytes {
            Some(measured) => format!(
                "steps wrote up to byte {} (predicted {})",
                grouped(measured.0),
                grouped(row.predicted_bytes.0)
            ),
            None => "no step was made".to_owned(),
        };
        let name = if row.space == Space::Device { "device" } else { "host" };
        let (extent, live) = (bytes(row.extent_bytes.0), bytes(row.live_bytes.0));
        sheet.paragraph("", &format!("Rank {rank}'s {name} arena has {extent} for {live} held; {written}."));
    }
    if let Resident { predicted: Some(predicted), measured: Some(measured) } = trace.resident_bytes {
        let told = match trace.machine.gpu {
            Some(_) => format!(
                "The driver says that {measured} of the GPU are taken; what was taken before the arenas, and these, are \
                 {predicted}."
            ),
            None => format!("The process holds {measured}; predicted {predicted}, within 5 % or 64 MiB."),
        };
        sheet.paragraph("", &told);
    }
}

/// Seconds of one rank by cause.
struct RankTime {
    rank: u64,
    predicted: CauseSeconds,
    measured: Option<CauseSeconds>,
    /// Until the last rank ended.
    step: f64,
}

/// The rank with the least idle time, by measurement where there is one.
fn busiest(trace: &Trace) -> Option<RankTime> {
    let causes = CauseSeconds::default().parts().len();
    let ranks = || trace.time.chunks_exact(causes);
    let sum = |rows: &[TimeRow], counts: &dyn Fn(&&TimeRow) -> bool| -> f64 {
        rows.iter().filter(counts).map(|row| row.measured_s.unwrap_or(row.predicted_s).0).sum()
    };
    let busy = |rows: &[TimeRow]| sum(rows, &|row| row.cause != "bubble");
    // The first of equals.
    let rows = ranks().rev().max_by(|one, other| busy(one).total_cmp(&busy(other)))?;
    let of = |cause: &str, seconds: &dyn Fn(&TimeRow) -> Seconds| {
        rows.iter().find(|row| row.cause == cause).map_or(Seconds::ZERO, seconds)
    };
    let all = |seconds: &dyn Fn(&TimeRow) -> Seconds| CauseSeconds {
        compute: of("compute", seconds),
        recompute: of("recompute", seconds),
        communication_exposed: of("communication_exposed", seconds),
        copy_exposed: of("copy_exposed", seconds),
        bubble: of("bubble", seconds),
        optimizer: of("optimizer", seconds),
    };
    Some(RankTime {
        rank: rows[0].rank,
        predicted: all(&|row| row.predicted_s),
        measured: rows[0].measured_s.map(|_| all(&|row| row.measured_s.unwrap_or_default())),
        step: ranks().map(|rows| sum(rows, &|_| true)).fold(0.0, f64::max),
    })
}

fn time(sheet: &mut Sheet, trace: &Trace) {
    let Some(RankTime { rank, predicted, measured, .. }) = busiest(trace) else { return };
    let label = format!("rank {rank}");
    let mut table = compared(&label);
    let whole = |causes: &CauseSeconds| Seconds(causes.parts().iter().map(|(_, seconds)| seconds.0).sum());
    let measured_parts = measured.as_ref().map(parts::time);
    for (place, part) in parts::time(&predicted).iter().enumerate() {
        let measured = measured_parts.as_ref().map(|parts| Seconds(parts[place].amount));
        if part.amount > 0.0 || measured.is_some_and(|seconds| seconds.0 > 0.0) {
            time_row(&mut table, part.name, Seconds(part.amount), measured);
        }
    }
    time_row(&mut table, TOTAL, whole(&predicted), measured.as_ref().map(whole));
    sheet.listing("time", &table);
    pace(sheet, trace);
}

/// The step by the plan's own cost model, and by this one at the machine's speed during the run.
fn pace(sheet: &mut Sheet, trace: &Trace) {
    let step = trace.step_time_s;
    if let Some(PlannedTime { cost_model, step_time_s }) = &trace.planned {
        let present = match trace.machine.gpu {
            Some(_) => format!("cost model {}", trace.plan.cost_model.name),
            None => "this machine's".to_owned(),
        };
        let text = format!(
            "The plan's own cost model {cost_model} predicts a step of {step_time_s}; {present} predicts {}.",
            step.predicted
        );
        sheet.paragraph("", &text);
    }
    let (Some(drift), Some(now), Some(measured)) = (step.drift, step.at_present_speed(), step.measured)
    else {
        return;
    };
    let text = format!(
        "Drift: a fixed kernel ran at {drift:.2} times its speed of when the cost model was measured. A step of {} \
         would then be one of {now}; the median step took {measured} ({:+.0} %).",
        step.predicted,
        100.0 * (measured.0 / now.0 - 1.0)
    );
    sheet.paragraph("", &text);
}

fn time_row(table: &mut Listing, name: &str, predicted: Seconds, measured: Option<Seconds>) {
    let (shown, difference) = match measured {
        Some(measured) => {
            let difference = measured - predicted;
            let sign = if difference.0 > 0.0 { "+" } else { "" };
            (measured.to_string(), format!("{sign}{difference}"))
        }
        None => ("-".to_owned(), "-".to_owned()),
    };
    table.row([name.to_owned(), predicted.to_string(), shown, difference]);
}

/// The share of the cores from which on other programs are named as what makes steps longer.
const LOADED: f64 = 0.15;

/// Advice about other programs, if they kept cores busy that ranks compute on.
fn loaded(trace: &Trace) -> Option<String> {
    let (elsewhere, cores) = (trace.step_time_s.elsewhere?, trace.machine.cores as f64);
    let is_loaded = trace.machine.gpu.is_none() && elsewhere > LOADED * cores;
    is_loaded.then(|| {
        format!(
            "other programs kept {elsewhere:.1} of {} busy meanwhile, so run it again when they have ended",
            words::several("core", trace.machine.cores)
        )
    })
}

/// One sentence or two: whether memory is as predicted, what binds, what to do next.
fn verdict(trace: &Trace) -> String {
    let wrong = trace.memory.iter().filter(|row| row.difference() != 0).count();
    let memory = match wrong {
        0 => "Memory is as predicted to the byte".to_owned(),
        count => format!("Memory differs in {}: please report this", words::several("row", count)),
    };
    if let Some(slice) = &trace.slice {
        let ranks: Vec<_> = slice.ranks.iter().map(u64::to_string).collect();
        return format!("{memory}, of rank {} by itself; no communication was measured.", ranks.join(", "));
    }
    let Some(RankTime { measured: Some(causes), step, .. }) = busiest(trace) else {
        return format!("{memory}; nothing was computed, so there is no time to compare.");
    };
    let bubble = match trace.plan.strategy.pipeline_parallel {
        1 => ("waiting", causes.bubble, "fewer ranks than cores would shrink it"),
        _ => ("the pipeline bubble", causes.bubble, "more micro-batches or chunks a rank would shrink it"),
    };
    let more = match trace.machine.gpu {
        Some(_) => "a faster GPU is what would help",
        None => "more ranks on more cores are what would help",
    };
    let advice = [
        ("compute", causes.compute, more),
        ("recomputation", causes.recompute, "memory for more activations would save it"),
        (
            "exposed communication",
            causes.communication_exposed,
            "fewer or smaller collectives (zero, tp, sync, micro) would shorten it",
        ),
        ("exposed copies", causes.copy_exposed, "less offload would shorten them"),
        bubble,
        ("the optimizer step", causes.optimizer, "more ranks to share its state (zero=1) would shorten it"),
    ];
    let (name, seconds, next) = advice
        .into_iter()
        .reduce(|most, next| if next.1.0 > most.1.0 { next } else { most })
        .unwrap_or(advice[0]);
    let next = loaded(trace).unwrap_or_else(|| next.to_owned());
    let StepTime { predicted, .. } = trace.step_time_s;
    let (expected, apart) = match trace.step_time_s.at_present_speed() {
        Some(now) => (now, ", drift apart"),
        None => (predicted, ""),
    };
    let ratio = step / expected.0;
    let pace = match ratio {
        0.75..=1.25 => String::new(),
        _ => format!(
            ", and the step took {ratio:.1} times what cost model {} predicts for it{apart}",
            trace.plan.cost_model.name
        ),
    };
    format!("{memory}{pace}; {name} binds ({:.0} % of the step): {next}.", 100.0 * seconds.0 / step)
}
