//! A plan as a terminal shows it: what it is, what it costs, what it was chosen over; the last line says what binds.

mod evidence;
mod explanation;
mod gradients;
mod lines;
mod listing;
mod map;
mod run;
mod sheet;
mod slice;
mod tables;

use crate::plan::{Plan, Prediction};
use crate::units::Bytes;

pub use self::explanation::explanation_text;
pub use self::lines::broken;
pub use self::listing::{Column, Listing};
pub use self::run::run_text;
use self::sheet::{Hue, Sheet};
use super::{bar, parts, words};

/// How text is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal; fewer than 60 count as 60.
    pub width: usize,
    /// Whether ANSI colours are used; nothing is said by colour alone.
    pub colour: bool,
    pub closing: Closing,
}

/// How the closing sentence of a report is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// As the last line, however long it is: for programs.
    OneLine,
    /// In lines of the report's width: for eyes.
    Wrapped,
}

/// The report of a plan, ending in a line break. Its last line is the verdict.
pub fn plan_text(plan: &Plan, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    sheet.paragraph("model", &words::subject(plan));
    sheet.paragraph("", &words::work(&plan.workload, &plan.engine));
    sheet.gap();
    sheet.paragraph("plan", &plan.strategy.text);
    sheet.paragraph("", &plan.strategy.description);
    for difference in &plan.strategy.numerics {
        sheet.marked("numerics", Hue::Caution, difference);
    }
    sheet.gap();
    let prediction = &plan.prediction;
    sheet.flow(
        "step",
        &[
            words::step_time(prediction),
            format!("{} tokens/s per device", words::rate(prediction.tokens_per_s_per_device)),
            format!("MFU {}", words::percent(prediction.mfu)),
        ],
    );
    map::run(&mut sheet, plan);
    evidence::evidence(&mut sheet, plan);
    sheet.gap();
    memory(&mut sheet, prediction, plan.cluster.device_memory_bytes);
    if let Some(gradients) = words::gradients(plan) {
        sheet.paragraph("gradients", &gradients);
    }
    sheet.gap();
    time(&mut sheet, prediction);
    tables::stages(&mut sheet, plan);
    tables::alternatives(&mut sheet, plan);
    tables::ladder(&mut sheet, plan);
    map::sweep(&mut sheet, plan);
    map::sensitivity(&mut sheet, plan);
    map::maximum(&mut sheet, plan);
    sheet.gap();
    if let Some(account) = &plan.search {
        sheet.paragraph("search", &format!("{}; {}", words::search(account), words::proof(account)));
    }
    sheet.paragraph("numbers", &words::evidence(plan));
    for warning in &plan.warnings {
        sheet.marked("warning", Hue::Caution, warning);
    }
    sheet.gap();
    sheet.verdict(&plan.verdict);
    sheet.finish()
}

/// The memory that must fit the `device`, and that on the host.
fn must_fit(sheet: &mut Sheet, prediction: &Prediction, device: Bytes) {
    let fit = words::fit(prediction, device);
    let mut figures = vec![format!("{} of {device} a device: {fit}", words::memory(prediction))];
    if prediction.host_memory_bytes > Bytes::ZERO {
        figures.push(format!("host {} a device", prediction.host_memory_bytes));
    }
    sheet.paragraph("memory", &figures.join("; "));
}

/// Memory of the fullest rank: what must fit, and what of it is live at the peak, by category.
fn memory(sheet: &mut Sheet, prediction: &Prediction, device: Bytes) {
    must_fit(sheet, prediction, device);
    sheet.paragraph("", &words::live(prediction));
    sheet.bar(&parts::memory(&prediction.memory_bytes), device.0 as f64);
    if !prediction.fits {
        sheet.marked("", Hue::Bad, "This plan does not fit.");
    }
}

/// The step on the busiest rank by cause.
fn time(sheet: &mut Sheet, prediction: &Prediction) {
    sheet.paragraph(
        "time",
        &format!(
            "{} on the busiest rank{}, and {} of communication hidden beside it",
            prediction.step_time_s,
            words::busiest_stage(prediction),
            prediction.communication_hidden_s
        ),
    );
    sheet.bar(&parts::time(&prediction.time_s), 0.0);
}

#[cfg(test)]
mod tests {
    use super::super::sample::{mapped_plan, sample_plan};
    use super::*;

    #[test]
    fn the_sample_reads_well() {
        let text = plan_text(&sample_plan(), Style { width: 100, colour: false, closing: Closing::OneLine });
        let (report, verdict) = text.trim_end().rsplit_once('\n').unwrap();
        assert!(report.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert_eq!(verdict, sample_plan().verdict);
        assert!(text.lines().count() <= 60, "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn the_map_reads_well() {
        let text = plan_text(&mapped_plan(), Style { width: 100, colour: false, closing: Closing::OneLine });
        let map = text.split_once("sweep ").unwrap().1.rsplit_once("search ").unwrap().0;
        assert!(map.lines().all(|line| line.chars().count() <= 100), "{map}");
        insta::assert_snapshot!(map);
        // However narrow, numbers stay whole.
        let narrow = plan_text(&mapped_plan(), Style { width: 60, colour: false, closing: Closing::OneLine });
        assert!(narrow.contains("66.10 s"), "{narrow}");
    }

    #[test]
    fn colour_adds_nothing_but_colour() {
        let coloured =
            plan_text(&sample_plan(), Style { width: 100, colour: true, closing: Closing::OneLine });
        let bare: String = coloured
            .split("\x1b[")
            .enumerate()
            .map(|(place, piece)| if place == 0 { piece } else { piece.split_once('m').unwrap().1 })
            .collect();
        let plain = plan_text(&sample_plan(), Style { width: 100, colour: false, closing: Closing::OneLine });
        let trimmed = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        assert_eq!(trimmed(&bare), trimmed(&plain));
    }

    #[test]
    fn what_does_not_fit_is_marked() {
        let mut plan = sample_plan();
        plan.prediction.fits = false;
        plan.cluster.device_memory_bytes = Bytes::gib(40);
        plan.strategy.numerics.push("Gradients are reduced in fp16, not in bf16.".to_owned());
        let text = plan_text(&plan, Style { width: 80, colour: false, closing: Closing::OneLine });
        assert!(text.contains("67.84 GiB (± 4 %) of 40.00 GiB a device: over by 27.84 GiB"), "{text}");
        assert!(text.contains("          This plan does not fit.\n"), "{text}");
        assert!(text.contains("numerics  Gradients are reduced in fp16"), "{text}");
        // The device's memory is marked inside the bar.
        assert!(text.contains("A|A"), "{text}");
    }

    #[test]
    fn names_cannot_command_the_terminal() {
        let mut plan = sample_plan();
        plan.model.name = "\x1b[2Jllama\r\u{9b}31m".to_owned();
        plan.alternatives[0].trades = "\x1b]0;title\x07".to_owned();
        plan.verdict = "one\nline \x1b[31m".to_owned();
        let text = plan_text(&plan, Style { width: 100, colour: false, closing: Closing::OneLine });
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        assert_eq!(text.lines().last(), Some("one line [31m"));
    }
}
