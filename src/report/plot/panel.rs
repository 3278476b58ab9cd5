//! A panel: a horizontal axis of amounts over rows counted downwards, in a rectangle of the picture.

use std::ops::Range;

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    Cartesian2d, Circle, Color, DrawingArea, IntoFont, PathElement, Polygon, Rectangle, SVGBackend, Text,
    TextStyle,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::labels::text_width;
use super::{Area, Drawn, FONT_FACTOR, Ink, Inks, LETTER};

/// Between the middles of two lines of a label.
const LINE: i32 = 16;

/// Where a picture's rows are drawn.
pub struct Panel<'a, 'b> {
    root: &'b Area<'a>,
    inks: &'b Inks,
    area: DrawingArea<SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>,
    x: Range<i32>,
    y: Range<i32>,
    rows: f64,
}

impl<'a, 'b> Panel<'a, 'b> {
    /// A panel of `rows` rows over these pixels.
    pub fn new(root: &'b Area<'a>, inks: &'b Inks, x: Range<i32>, y: Range<i32>, rows: usize) -> Self {
        let rows = rows.max(1) as f64;
        let area = root.apply_coord_spec(Cartesian2d::new(0.0..1.0, 0.0..rows, (x.clone(), y.clone())));
        Self { root, inks, area, x, y, rows }
    }

    /// Pixels of one row.
    pub fn row_height(&self) -> f64 {
        f64::from(self.y.end - self.y.start) / self.rows
    }

    /// Pixels from left to right.
    pub fn width(&self) -> f64 {
        f64::from(self.x.end - self.x.start)
    }

    /// Grid lines, tick labels and a title under the panel.
    pub fn bottom_axis(&self, axis: &Axis, title: &str) -> Drawn {
        self.bottom_ticks(&axis.ticks(), &axis.title(title))
    }

    /// The same with positions and labels of the ticks, which ascend; where labels would touch, some are left out.
    pub fn bottom_ticks(&self, ticks: &[(f64, String)], title: &str) -> Drawn {
        let anchor = (HPos::Center, VPos::Top);
        let mut free = f64::NEG_INFINITY;
        for (position, label) in ticks {
            self.line([(*position, 0.0), (*position, self.rows)], Ink::Grid, 1)?;
            let x = self.pixel((*position, 0.0)).0;
            let half = text_width(label) / 2.0;
            if f64::from(x) - half >= free {
                free = f64::from(x) + half + 6.0;
                self.words(label, (x, self.y.end + 7), anchor, Ink::Muted)?;
            }
        }
        let middle = (self.x.start + self.x.end) / 2;
        self.words(title, (middle, self.y.end + 27), anchor, Ink::Muted)
    }

    /// Grid lines and tick labels at the left, of a panel of one row, and a title above it.
    pub fn left_axis(&self, axis: &Axis, title: &str) -> Drawn {
        self.left_axis_titled(axis, &axis.title(title), 20)
    }

    /// The same under a title so far above it.
    pub fn left_axis_titled(&self, axis: &Axis, title: &str, above: i32) -> Drawn {
        for (position, label) in axis.ticks() {
            let row = self.rows * (1.0 - position);
            self.line([(0.0, row), (1.0, row)], Ink::Grid, 1)?;
            let y = self.pixel((0.0, row)).1;
            self.words(&label, (self.x.start - 8, y), (HPos::Right, VPos::Center), Ink::Muted)?;
        }
        self.words(title, (12, self.y.start - above), (HPos::Left, VPos::Center), Ink::Muted)
    }

    /// A label left of the panel, in the middle of `row`.
    pub fn row_label(&self, row: usize, text: &str) -> Drawn {
        self.row_labels(row, std::slice::from_ref(&text.to_owned()))
    }

    /// The same in several lines.
    pub fn row_labels(&self, row: usize, lines: &[String]) -> Drawn {
        let middle = self.pixel((0.0, row as f64 + 0.5)).1;
        let top = middle - LINE * (lines.len() as i32 - 1) / 2;
        for (line, text) in (0..).zip(lines) {
            let at = (self.x.start - 10, top + LINE * line);
            self.words(text, at, (HPos::Right, VPos::Center), Ink::Text)?;
        }
        Ok(())
    }

    /// Text that begins this many pixels right of a place.
    pub fn note(&self, at: (f64, f64), right: i32, text: &str) -> Drawn {
        let (x, y) = self.pixel(at);
        self.words(text, (x + right, y), (HPos::Left, VPos::Center), Ink::Text)
    }

    /// A filled bar with a tooltip; nothing where it is empty.
    pub fn bar(&self, x: Range<f64>, y: Range<f64>, ink: Ink, title: String) -> Drawn {
        self.shaded_bar(x, y, (ink, 1.0), title)
    }

    /// The same in a shade of an ink: 1 is the full one.
    pub fn shaded_bar(&self, x: Range<f64>, y: Range<f64>, (ink, shade): (Ink, f64), title: String) -> Drawn {
        if x.end > x.start {
            let style = self.inks.titled(ink, title).mix(shade).filled();
            self.area.draw(&Rectangle::new([(x.start, y.start), (x.end, y.end)], style))?;
        }
        Ok(())
    }

    /// A filled area with a tooltip.
    pub fn filled(&self, edge: Vec<(f64, f64)>, ink: Ink, title: String) -> Drawn {
        self.area.draw(&Polygon::new(edge, self.inks.titled(ink, title).filled()))?;
        Ok(())
    }

    /// A dot with a tooltip.
    pub fn dot(&self, at: (f64, f64), radius: i32, ink: Ink, title: String) -> Drawn {
        self.area.draw(&Circle::new(at, radius, self.inks.titled(ink, title).filled()))?;
        Ok(())
    }

    /// A line through places.
    pub fn line(&self, places: impl Into<Vec<(f64, f64)>>, ink: Ink, width: u32) -> Drawn {
        let style = self.inks.plain(ink).stroke_width(width);
        self.area.draw(&PathElement::new(places, style))?;
        Ok(())
    }

    /// A line from top to bottom, named above the panel.
    pub fn limit(&self, position: f64, text: &str) -> Drawn {
        self.line([(position, 0.0), (position, self.rows)], Ink::Limit, 2)?;
        let x = self.pixel((position, 0.0)).0;
        // Near the right edge the words go to the left.
        let anchor = if position > 0.6 { HPos::Right } else { HPos::Left };
        self.words(text, (x, self.y.start - 12), (anchor, VPos::Center), Ink::Limit)
    }

    /// Where a place is, in pixels.
    pub fn pixel(&self, at: (f64, f64)) -> (i32, i32) {
        self.area.map_coordinate(&at)
    }

    /// Text at a pixel.
    pub fn words(&self, text: &str, at: (i32, i32), (across, down): (HPos, VPos), ink: Ink) -> Drawn {
        let colour = self.inks.plain(ink);
        let style = TextStyle::from(("sans-serif", LETTER * FONT_FACTOR).into_font())
            .color(&colour)
            .pos(Pos::new(across, down));
        self.root.draw(&Text::new(text.to_owned(), at, style))?;
        Ok(())
    }
}

/// `text` in at most `most` characters, the last of them an ellipsis where some are missing.
pub fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Height of each of so many rows: as large as is pleasant, smaller where there are many.
pub fn row_height(rows: usize) -> u32 {
    (560 / rows.max(1)).clamp(8, 34) as u32
}

/// Every how many rows of this height a label has room.
pub fn label_every(row_height: u32) -> usize {
    18usize.div_ceil(row_height as usize)
}
