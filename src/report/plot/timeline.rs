//! The pipeline timeline: a row for each stage, a bar for each pass of each micro-batch.

use plotters::style::text_anchor::{HPos, VPos};

use crate::plan::TimelineSpan;
use crate::plan::document::TimelinePass;
use crate::units::Seconds;

use super::super::unit::Unit;
use super::axis::Axis;
use super::labels::text_width;
use super::panel::{Panel, label_every, row_height};
use super::{Drawn, Ink, Width, draw};

/// Spans that a picture can hold at all, and that a row can hold and still be read.
const MOST_SPANS: usize = 4000;
const MOST_IN_ROW: usize = 160;
/// The same where there are several chunks, so that most have room for their numbers.
const MOST_OF_CHUNKS: usize = 48;
/// Spans of a row in each part beyond those that fill the pipeline, where only the first and last are shown.
const PART_IN_ROW: usize = 14;
/// The same where there are several chunks.
const PART_OF_CHUNKS: usize = 8;

/// The passes in the order of legends, with their names and inks.
pub const PASSES: [(TimelinePass, &str, u8); 4] = [
    (TimelinePass::Forward, "forward", 2),
    (TimelinePass::Backward, "backward", 4),
    (TimelinePass::Weight, "weight gradients", 3),
    (TimelinePass::Step, "optimizer step", 6),
];

/// A caption and a picture for the whole step, or for its beginning and for its end where it is long.
pub fn timeline(spans: &[TimelineSpan]) -> Vec<(String, String)> {
    let Some(end) = spans.iter().map(|span| span.end_s.0).max_by(f64::total_cmp) else { return Vec::new() };
    let stages = spans.iter().map(|span| span.stage).max().map_or(0, |stage| stage as usize + 1);
    let chunks = chunks(spans);
    let (in_row, in_part) =
        if chunks > 1 { (MOST_OF_CHUNKS, PART_OF_CHUNKS) } else { (MOST_IN_ROW, PART_IN_ROW) };
    let most = MOST_SPANS.min(in_row * stages);
    if spans.len() <= most {
        return vec![(
            format!("The whole step of {}.", Seconds(end)),
            picture(spans, (0.0, end), (stages, chunks)),
        )];
    }
    let part = (((1 + chunks as usize) * stages + in_part) * stages).min(most / 2);
    let mut starts: Vec<_> = spans.iter().map(|span| span.start_s.0).collect();
    let mut ends: Vec<_> = spans.iter().map(|span| span.end_s.0).collect();
    starts.sort_by(f64::total_cmp);
    ends.sort_by(f64::total_cmp);
    let (first, last) = (starts[part], ends[ends.len() - 1 - part]);
    vec![
        (
            format!("The first {} of a step of {}.", Seconds(first), Seconds(end)),
            picture(spans, (0.0, first), (stages, chunks)),
        ),
        (
            format!("The last {} of the same step.", Seconds(end - last)),
            picture(spans, (last, end), (stages, chunks)),
        ),
    ]
}

fn picture(spans: &[TimelineSpan], (low, high): (f64, f64), (stages, chunks): (usize, u32)) -> String {
    let row_height = row_height(stages);
    let (top, bottom) = (8, 52);
    let height = top + row_height * stages as u32 + bottom;
    let axis = Axis::between(low, high, Unit::of_seconds);
    draw((Width::Wide, height), "Timeline of the passes of every pipeline stage", |root, inks| {
        let y = top as i32..(height - bottom) as i32;
        let panel = Panel::new(root, inks, 100..Width::Wide.units() as i32 - 20, y, stages);
        panel.bottom_axis(&axis, "time in the step")?;
        for stage in (0..stages).step_by(label_every(row_height)) {
            panel.row_label(stage, &format!("stage {stage}"))?;
        }
        let shown = spans.iter().filter(|span| span.start_s.0 < high && span.end_s.0 > low);
        for span in shown.take(MOST_SPANS) {
            draw_span(&panel, &axis, span, chunks)?;
        }
        Ok(())
    })
}

fn draw_span(panel: &Panel<'_, '_>, axis: &Axis, span: &TimelineSpan, chunks: u32) -> Drawn {
    let Some(&(pass, name, ink)) = PASSES.iter().find(|(pass, ..)| *pass == span.pass) else {
        return Ok(());
    };
    let of = match (pass, span.chunk) {
        (TimelinePass::Step, _) => String::new(),
        (_, 0) if chunks == 1 => format!(" of micro-batch {}", span.micro),
        (_, chunk) => format!(" of micro-batch {}, chunk {chunk}", span.micro),
    };
    let title = format!("stage {}: {name}{of}, {} to {}", span.stage, span.start_s, span.end_s);
    let (start, end) = (axis.position(span.start_s.0), axis.position(span.end_s.0));
    let row = f64::from(span.stage);
    let shade = if pass == TimelinePass::Step { 1.0 } else { chunk_shade(span.chunk, chunks) };
    panel.shaded_bar(start..end, row + 0.1..row + 0.9, (Ink::Series(ink), shade), title)?;
    if pass == TimelinePass::Step || panel.row_height() <= 18.0 {
        return Ok(());
    }
    // With the chunk where there is room for both, and are several.
    let micro = span.micro.to_string();
    let both = (chunks > 1).then(|| format!("{micro}·{}", span.chunk));
    let has_room = |text: &String| (end - start) * panel.width() > text_width(text) + 2.0;
    if let Some(text) = both.into_iter().chain([micro]).find(has_room) {
        let middle = panel.pixel(((start + end) / 2.0, row + 0.5));
        panel.words(&text, middle, (HPos::Center, VPos::Center), Ink::OnSeries)?;
    }
    Ok(())
}

/// How many chunks a rank has.
pub fn chunks(spans: &[TimelineSpan]) -> u32 {
    let passes = spans.iter().filter(|span| span.pass != TimelinePass::Step);
    passes.map(|span| span.chunk.saturating_add(1)).max().unwrap_or(1)
}

/// How much of a pass's colour `chunk` of so many has: the first all of it, the last half.
pub fn chunk_shade(chunk: u32, chunks: u32) -> f64 {
    1.0 - 0.5 * f64::from(chunk) / f64::from(chunks.saturating_sub(1).max(1))
}
