//! Pictures as inline SVG whose colours are CSS variables, so that the page's theme applies to them.
//!
//! Plotters writes colours as literals and knows no tooltips. So every ink, and every mark that has a tooltip, is
//! drawn in a colour of its own that means nothing but its number, and the finished text is gone through once:
//! each colour becomes the variable and each mark gets its `<title>`.

mod axis;
mod labels;
mod ladder;
#[cfg(test)]
pub mod legible;
mod over_time;
mod panel;
mod pareto;
mod stacked;
mod sweep;
mod timeline;
pub mod validation;

use std::cell::RefCell;
use std::error::Error;
use std::fmt::Write as _;

use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, IntoDrawingArea, RGBColor, SVGBackend};

pub use ladder::ladder;
pub use over_time::memory_over_time;
pub use pareto::pareto;
pub use stacked::{memory, time};
pub use sweep::{cost, throughput};
pub use timeline::{PASSES, chunk_shade, chunks, timeline};

/// How wide a picture is; the page shows the one that fits its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    Wide,
    /// For the width of a telephone.
    Narrow,
}

impl Width {
    /// In the picture's own units, of which a letter has the same number at any width; the page scales them.
    const fn units(self) -> u32 {
        match self {
            Self::Wide => 960,
            Self::Narrow => 360,
        }
    }
}

/// Height of letters, in the same units.
const LETTER: f64 = 14.0;
/// Plotters divides the size it is given by this.
const FONT_FACTOR: f64 = 1.24;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// What a mark is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Text,
    Muted,
    Grid,
    Limit,
    Accent,
    /// Letters on a series' colour.
    OnSeries,
    /// 1 to 7.
    Series(u8),
}

impl Ink {
    fn variable(self) -> String {
        match self {
            Self::Text => "var(--text)".to_owned(),
            Self::Muted => "var(--muted)".to_owned(),
            Self::Grid => "var(--grid)".to_owned(),
            Self::Limit => "var(--limit)".to_owned(),
            Self::Accent => "var(--accent)".to_owned(),
            Self::OnSeries => "var(--on-series)".to_owned(),
            Self::Series(number) => format!("var(--series-{number})"),
        }
    }
}

/// The inks and titles of one picture; a colour's number is its place here.
#[derive(Default)]
struct Inks(RefCell<Vec<(Ink, Option<String>)>>);

impl Inks {
    /// The colour that stands for `ink`.
    fn plain(&self, ink: Ink) -> RGBColor {
        let found = self.0.borrow().iter().position(|known| *known == (ink, None));
        found.map_or_else(|| self.push(ink, None), colour)
    }

    /// A colour that stands for `ink` and a tooltip of `title`, on one mark.
    fn titled(&self, ink: Ink, title: String) -> RGBColor {
        self.push(ink, Some(title))
    }

    fn push(&self, ink: Ink, title: Option<String>) -> RGBColor {
        let mut marks = self.0.borrow_mut();
        marks.push((ink, title));
        colour(marks.len() - 1)
    }
}

const fn colour(number: usize) -> RGBColor {
    RGBColor((number >> 16) as u8, (number >> 8) as u8, number as u8)
}

/// An SVG element of this size, drawn by `scene` and said in words by `description`.
fn draw(
    (width, height): (Width, u32),
    description: &str,
    scene: impl FnOnce(&Area<'_>, &Inks) -> Drawn,
) -> String {
    let size = (width.units(), height);
    let inks = Inks::default();
    let mut text = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        scene(&area, &inks).and_then(|()| Ok(area.present()?))
    };
    match drawn {
        Ok(()) => finished(&text, size, description, &inks.0.borrow()),
        Err(error) => format!("<p>This picture could not be drawn: {}</p>", escaped(&error.to_string())),
    }
}

/// Plotters' SVG with variables for colours and titles for marks.
fn finished(
    text: &str,
    (width, height): (u32, u32),
    description: &str,
    marks: &[(Ink, Option<String>)],
) -> String {
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n",
        escaped(description)
    );
    let font = format!(" font-family=\"sans-serif\" font-size=\"{}\"", LETTER * FONT_FACTOR / FONT_FACTOR);
    let ended = |line: &str, title: &str| {
        let element = line.trim_start_matches('<').split(' ').next().unwrap_or_default().to_owned();
        let open = line.trim_end_matches("/>");
        format!("{open}><title>{}</title></{element}>", escaped(title))
    };
    // The first line is the opening tag, which is replaced.
    for line in text.lines().skip(1) {
        if !line.starts_with('<') {
            svg += line;
            svg.push('\n');
            continue;
        }
        let mut rest = line;
        let mut element = String::with_capacity(line.len());
        let mut title = None;
        while let Some((before, number, after)) = next_colour(rest) {
            let (ink, named) =
                marks.get(number).map_or((Ink::Text, None), |(ink, title)| (*ink, title.as_deref()));
            let _ = write!(element, "{before}\"{}\"", ink.variable());
            title = title.or(named);
            rest = after;
        }
        element += rest;
        for noise in [" opacity=\"1\"", " stroke=\"none\"", &font] {
            element = element.replace(noise, "");
        }
        svg += &title.map_or(element.clone(), |title| ended(&element, title));
        svg.push('\n');
    }
    svg
}

/// The first `"#RRGGBB"` of a line: what stands before it, its number, what stands after.
fn next_colour(line: &str) -> Option<(&str, usize, &str)> {
    let start = line.find("\"#")?;
    let number = usize::from_str_radix(line.get(start + 2..start + 8)?, 16).ok()?;
    Some((&line[..start], number, line.get(start + 9..)?))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
