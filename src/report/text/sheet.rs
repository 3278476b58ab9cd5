//! The sheet that a report is written on: labels in a margin, wrapped lines, bars, and colour where it is wanted.

use super::super::parts::{Part, share};
use super::bar;
use super::lines::{broken, plain, wrapped};
use super::listing::Listing;
use super::{Closing, Style};

/// Width of the margin that labels stand in.
pub const MARGIN: usize = 10;

/// Longer lines of prose are hard to read.
const WIDEST_PROSE: usize = 140;

/// Terminal colours (of 256) of the inks 1 to 7.
const INKS: [u8; 7] = [32, 117, 36, 214, 166, 175, 245];

/// What a colour means here.
#[derive(Clone, Copy)]
pub enum Hue {
    Caution,
    Bad,
}

/// Lines that grow downwards.
pub struct Sheet {
    style: Style,
    text: String,
}

impl Sheet {
    /// An empty sheet.
    pub fn new(style: Style) -> Self {
        Self { style: Style { width: style.width.max(60), ..style }, text: String::new() }
    }

    /// Columns right of the margin.
    pub fn room(&self) -> usize {
        self.style.width - MARGIN
    }

    /// An empty line, unless there is one.
    pub fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// A paragraph with a label in the margin.
    pub fn paragraph(&mut self, label: &str, text: &str) {
        self.lines(label, "1", &self.prose(text));
    }

    /// A paragraph whose label has a colour.
    pub fn marked(&mut self, label: &str, hue: Hue, text: &str) {
        self.lines(label, hue.code(), &self.prose(text));
    }

    /// A text in lines.
    fn prose(&self, text: &str) -> Vec<String> {
        broken(&words(text).join(" "), self.room().min(WIDEST_PROSE))
    }

    /// A table with a label beside its first line.
    pub fn listing(&mut self, label: &str, listing: &Listing) {
        self.gap();
        self.lines(label, "1", &listing.lines(self.room()));
    }

    /// Items side by side, none of them broken.
    pub fn flow(&mut self, label: &str, items: &[String]) {
        let items: Vec<_> = items.iter().map(|item| plain(item)).collect();
        self.lines(label, "1", &wrapped(&items, "   ", self.room()));
    }

    /// A bar of the parts, with `|` at `limit` where they go beyond it, and its legend.
    pub fn bar(&mut self, parts: &[Part], limit: f64) {
        let amounts: Vec<_> = parts.iter().map(|part| part.amount).collect();
        let width = self.room() - 2;
        let whole: f64 = amounts.iter().sum();
        let mark = (limit > 0.0 && whole > limit).then(|| (limit / whole * width as f64) as usize);
        let mut drawn = String::new();
        for (place, cell) in bar::cells(&amounts, limit, width).into_iter().enumerate() {
            drawn += &match (mark == Some(place), cell) {
                (true, _) => self.painted("1;31", "|"),
                (false, None) => ".".to_owned(),
                (false, Some(part)) => self.inked(parts[part].ink, &parts[part].letter.to_string()),
            };
        }
        self.lines("", "", &[format!("[{drawn}]")]);
        let legend: Vec<_> = parts
            .iter()
            .filter(|part| part.amount > 0.0)
            .map(|part| format!("{} {} {} ({})", part.letter, part.name, part.shown, share(part, parts)))
            .collect();
        self.flow("", &legend);
    }

    /// Lines as they are, with a label before the first.
    pub fn lines(&mut self, label: &str, code: &str, lines: &[String]) {
        for (place, line) in lines.iter().enumerate() {
            let label = if place == 0 { label } else { "" };
            let padded = format!("{label:<MARGIN$}");
            let margin = if label.is_empty() { padded } else { self.painted(code, &padded) };
            self.text += format!("{margin}{line}").trim_end();
            self.text.push('\n');
        }
    }

    /// The closing sentence, in bold.
    pub fn verdict(&mut self, text: &str) {
        let whole = words(text).join(" ");
        let lines = match self.style.closing {
            Closing::OneLine => vec![whole],
            Closing::Wrapped => broken(&whole, self.style.width.min(WIDEST_PROSE)),
        };
        for line in lines {
            self.text += &self.painted("1", &line);
            self.text.push('\n');
        }
    }

    /// What was written.
    pub fn finish(self) -> String {
        self.text
    }

    fn inked(&self, ink: u8, text: &str) -> String {
        let colour = INKS[usize::from(ink).saturating_sub(1) % INKS.len()];
        self.painted(&format!("38;5;{colour}"), text)
    }

    fn painted(&self, code: &str, text: &str) -> String {
        if self.style.colour && !code.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

impl Hue {
    const fn code(self) -> &'static str {
        match self {
            Self::Caution => "1;33",
            Self::Bad => "1;31",
        }
    }
}

fn words(text: &str) -> Vec<String> {
    plain(text).split_whitespace().map(str::to_owned).collect()
}
