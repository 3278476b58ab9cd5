//! Why not this strategy, as a terminal shows it: the rule, the memory that lacks, or what is lost to the best plan.

use crate::plan::explanation::{Explained, Explanation, FileDiff, Fix, KeyMove, KeyOutcome, KeyStep};
use crate::plan::{CauseSeconds, Prediction};
use crate::units::{Bytes, Seconds, agreeing};

use super::super::{parts, words};
use super::listing::{
    Column::{Name, Number, Text},
    Listing,
};
use super::sheet::{Hue, Sheet};
use super::{Style, memory, must_fit, time};

/// Most fixes that are shown; the document has all.
const MOST_FIXES: usize = 10;

/// The report of an explanation, ending in a line break. Its last line is the verdict.
pub fn explanation_text(explanation: &Explanation, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    let (model, cluster) = (&explanation.model, &explanation.cluster);
    let sized = words::sized_model(&model.name, model.parameters, model.layers);
    let devices = words::devices(cluster.devices, &cluster.device, cluster.nodes);
    sheet.paragraph("model", &format!("{sized} on {devices}"));
    sheet.paragraph("", &words::work(&explanation.workload, &explanation.engine));
    sheet.gap();
    sheet.paragraph("asked", &explanation.asked);
    if let Some(strategy) = &explanation.strategy {
        sheet.paragraph("", &strategy.description);
        for difference in &strategy.numerics {
            sheet.marked("numerics", Hue::Caution, difference);
        }
    }
    sheet.gap();
    rule(&mut sheet, explanation);
    if let Some(prediction) = &explanation.prediction {
        if prediction.fits {
            must_fit(&mut sheet, prediction, explanation.memory_limit_bytes);
            time(&mut sheet, prediction);
        } else {
            lacking(&mut sheet, explanation, prediction);
        }
    }
    fixes(&mut sheet, explanation);
    best(&mut sheet, explanation);
    causes(&mut sheet, explanation);
    keys(&mut sheet, &explanation.changes);
    if let Some(file) = &explanation.file {
        file_diff(&mut sheet, file);
    }
    sheet.gap();
    if let Some(account) = &explanation.search {
        sheet.paragraph("search", &format!("{}; {}", words::search(account), words::proof(account)));
    }
    for warning in &explanation.warnings {
        sheet.marked("warning", Hue::Caution, warning);
    }
    sheet.gap();
    sheet.verdict(&explanation.verdict);
    sheet.finish()
}

/// The broken rule, and the nearest strategy that breaks none.
fn rule(sheet: &mut Sheet, explanation: &Explanation) {
    let (Some(rule), Some(message)) = (explanation.rule, &explanation.message) else { return };
    sheet.marked("illegal", Hue::Bad, &format!("{message} (rule {rule})"));
    if let (Some(field), false) = (&explanation.field, explanation.nearest.is_empty()) {
        let values: Vec<_> = explanation.nearest.iter().map(|value| format!("{field}={value}")).collect();
        sheet.flow("legal", &values);
    }
    sheet.gap();
    if let Some(near) = &explanation.nearest_strategy {
        shown(sheet, "nearest", near, explanation.memory_limit_bytes);
    }
}

/// A strategy with its step and memory.
fn shown(sheet: &mut Sheet, label: &str, explained: &Explained, limit: Bytes) {
    let prediction = &explained.prediction;
    sheet.paragraph(label, &explained.strategy.text);
    sheet.paragraph("", &explained.strategy.description);
    let fit = words::fit(prediction, limit);
    sheet.flow(
        "",
        &[
            format!("step {}", words::step_time(prediction)),
            format!("memory {} of {limit} a device: {fit}", prediction.safe_memory_bytes.process),
        ],
    );
}

/// Memory, by how much it is too much, and what takes most of it.
fn lacking(sheet: &mut Sheet, explanation: &Explanation, prediction: &Prediction) {
    memory(sheet, prediction, explanation.memory_limit_bytes);
    if let Some(most) = &explanation.dominated_by {
        let text = format!(
            "{} {} most: {} on stage {}, in {}",
            most.words(),
            agreeing(most.words(), "take"),
            most.bytes,
            most.stage,
            most.instant
        );
        sheet.paragraph("most", &text);
    }
    if let Some(over) = explanation.over_host_bytes.filter(|&over| over > Bytes::ZERO) {
        let host = explanation.host_limit_bytes;
        sheet.marked("host", Hue::Bad, &format!("over by {over} of {host} a device"));
    }
    sheet.paragraph("step", &format!("{}, if it fitted", words::step_time(prediction)));
}

/// The single changes that make it fit.
fn fixes(sheet: &mut Sheet, explanation: &Explanation) {
    if explanation.fixes.is_empty() {
        if let Some(miss) = &explanation.closest {
            let text = format!(
                "none of {} does; {}={} comes nearest",
                words::several("single change", explanation.tried),
                miss.key,
                miss.to
            );
            sheet.gap();
            sheet.paragraph("fits", &text);
        }
        return;
    }
    let mut table = Listing::new(&[
        ("single change", Text),
        ("was", Text),
        ("step", Number),
        ("memory", Number),
        ("and so", Text),
    ]);
    for fix in explanation.fixes.iter().take(MOST_FIXES) {
        table.row([
            format!("{}={}", fix.key, fix.to),
            fix.from.clone(),
            fix.step_time_s.to_string(),
            fix.process_bytes.to_string(),
            follows(fix),
        ]);
    }
    sheet.listing("fits", &table);
    let hidden = explanation.fixes.len().saturating_sub(MOST_FIXES);
    if hidden > 0 {
        sheet.paragraph("", &format!("and {hidden} more that fit; --json lists them"));
    }
    if explanation.left_out > 0 {
        sheet.paragraph("", &format!("and {} that fit and were not played", explanation.left_out));
    }
}

fn follows(fix: &Fix) -> String {
    let numerics = fix.changes_numerics.then(|| "trains other numbers".to_owned());
    let moved = (!fix.follows.is_empty()).then(|| moves(&fix.follows));
    moved.into_iter().chain(numerics).collect::<Vec<_>>().join("; ")
}

fn moves(moves: &[KeyMove]) -> String {
    let words: Vec<_> = moves.iter().map(|change| format!("{}={}", change.key, change.to)).collect();
    words.join(", ")
}

/// The best plan, unless the strategy is that plan.
fn best(sheet: &mut Sheet, explanation: &Explanation) {
    let Some(best) = &explanation.best else { return };
    sheet.gap();
    let is_itself = explanation.strategy.as_ref().is_some_and(|mine| mine.text == best.strategy.text);
    if is_itself {
        sheet.paragraph("best", "this strategy itself");
    } else {
        shown(sheet, "best", best, explanation.memory_limit_bytes);
    }
}

/// Where the time goes, here and in the best plan.
fn causes(sheet: &mut Sheet, explanation: &Explanation) {
    let is_slower = explanation.slower_by.is_some_and(|slower| slower > 0.0);
    if !is_slower || explanation.fits != Some(true) {
        return;
    }
    let names = CauseSeconds::default().parts().into_iter().zip(parts::time(&CauseSeconds::default()));
    let names: Vec<_> = names.map(|((cause, _), part)| (cause, part.name)).collect();
    let mut table = Listing::new(&[("cause", Name), ("here", Number), ("best", Number), ("lost", Number)]);
    for cause in &explanation.causes {
        if cause.seconds.0 == 0.0 && cause.best_seconds.0 == 0.0 {
            continue;
        }
        let name = names.iter().find(|(name, _)| *name == cause.cause).map_or("", |(_, name)| name);
        let lost = cause.lost_s;
        let sign = if lost.0 > 0.0 { "+" } else { "" };
        table.row([
            (*name).to_owned(),
            cause.seconds.to_string(),
            cause.best_seconds.to_string(),
            format!("{sign}{lost}"),
        ]);
    }
    sheet.listing("lost", &table);
}

/// The file changed to say the best plan, then each setting with what it buys.
fn file_diff(sheet: &mut Sheet, file: &FileDiff) {
    sheet.gap();
    sheet.paragraph(
        "your file",
        &format!("{}, as {} reads it, with the best plan in it:", file.path, file.engine),
    );
    let verbatim = |line: &str| line.chars().filter(|c| !c.is_control()).collect::<String>();
    let lines: Vec<String> = file.unified.lines().map(verbatim).collect();
    sheet.lines("", "", &lines);
    let mut table =
        Listing::new(&[("setting", Name), ("now", Text), ("better", Text), ("what it buys", Text)]);
    for line in &file.lines {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        table.row([line.setting.clone(), value(&line.from), value(&line.to), line.buys.clone()]);
    }
    sheet.listing("each line", &table);
}

/// What each key changes that the best plan has otherwise.
fn keys(sheet: &mut Sheet, changes: &[KeyStep]) {
    if changes.is_empty() {
        return;
    }
    let mut table =
        Listing::new(&[("key", Name), ("here", Text), ("best", Text), ("that alone", Name), ("", Text)]);
    for step in changes {
        let (outcome, rest) = outcome(step);
        table.row([step.key.to_string(), step.from.clone(), step.to.clone(), outcome, rest]);
    }
    sheet.listing("keys", &table);
}

/// What comes of a change in a word, and what goes with it.
fn outcome(step: &KeyStep) -> (String, String) {
    match (step.outcome, step.saved_s) {
        (KeyOutcome::Illegal, _) | (_, None) => {
            ("illegal".to_owned(), step.message.clone().unwrap_or_default())
        }
        (KeyOutcome::OutOfMemory, _) => ("does not fit".to_owned(), moves(&step.follows)),
        (KeyOutcome::Fits, Some(saved)) => {
            let whole = step.step_time_s.unwrap_or_default().0;
            let pace = match saved.0 {
                saved if saved.abs() < 5e-4 * whole => "changes nothing".to_owned(),
                saved if saved > 0.0 => format!("saves {}", Seconds(saved)),
                saved => format!("costs {}", Seconds(-saved)),
            };
            (pace, moves(&step.follows))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;
    use crate::profile::engines::engine;
    use crate::search::Problem;
    use crate::strategy::{Draft, Workload};
    use crate::units::ElementType;
    use crate::{cluster, model};

    fn text(strategy: &str, limit: Option<Bytes>, width: usize) -> String {
        let model = model::load("gpt2").unwrap();
        let cluster = cluster::load("1x4xrtx-4090").unwrap();
        let precision = ElementType::Bf16;
        let workload = Workload { global_batch: 16, seq_len: 512, precision, dropout: 0.0, clip: 1.0 };
        let problem = Problem::new(&model, &cluster, workload, engine("embedded").unwrap(), limit);
        let draft = Draft::parse(strategy).unwrap();
        let explanation = plan::explain(&problem, strategy, &draft, &|_| {});
        explanation_text(
            &explanation,
            Style { width, colour: false, closing: super::super::Closing::OneLine },
        )
    }

    #[test]
    fn each_case_reads_well_in_narrow_and_wide_terminals() {
        for (strategy, limit, says) in [
            ("tp=5,zero=1", None, "illegal   tp 5 does not divide"),
            ("dp=4,micro=4", Some(Bytes::gib(3)), "single change"),
            ("dp=4,micro=4,grad=bf16", Some(Bytes::gib(1)), "single changes does"),
            ("tp=4,micro=1", None, "that alone"),
        ] {
            for width in [80, 100] {
                let text = text(strategy, limit, width);
                assert!(text.contains(says), "{text}");
                let (report, last) = text.trim_end().rsplit_once('\n').unwrap();
                assert!(report.lines().all(|line| line.chars().count() <= width), "{text}");
                assert!(last.ends_with('.') && !last.contains("  "), "{last}");
            }
        }
    }
}
