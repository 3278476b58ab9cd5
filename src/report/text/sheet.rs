//! The sheet that a report is written on: labels in a margin, wrapped lines, bars, and colour where it is wanted.

use super::super::parts::{Part, share};
use super::Style;
use super::bar;

/// Width of the margin that labels stand in.
pub const MARGIN: usize = 10;

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
        self.lines(label, "1", &wrapped(&words(text), " ", self.room()));
    }

    /// A paragraph whose label has a colour.
    pub fn marked(&mut self, label: &str, hue: Hue, text: &str) {
        self.lines(label, hue.code(), &wrapped(&words(text), " ", self.room()));
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
        self.text += &self.painted("1", &words(text).join(" "));
        self.text.push('\n');
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

/// Without characters that a terminal obeys; names come from files.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn words(text: &str) -> Vec<String> {
    plain(text).split_whitespace().map(str::to_owned).collect()
}

/// A strategy, or words with one, in pieces to be [`wrapped`]: each ends behind one of `ends`, and where it is longer
/// than `width`, also behind what is said of a stage.
pub fn pieces(text: &str, ends: &[char], width: usize) -> Vec<String> {
    let split = |piece: &str| -> Vec<String> {
        if piece.chars().count() <= width {
            return vec![piece.to_owned()];
        }
        piece.split_inclusive(['/', '+']).map(str::to_owned).collect()
    };
    text.split_inclusive(ends).flat_map(split).collect()
}

/// Items in as few lines as they go into; an item longer than a line has one to itself.
pub fn wrapped(items: &[String], between: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        let room =
            |line: &String| line.chars().count() + between.chars().count() + item.chars().count() <= width;
        match lines.last_mut().filter(|line| room(line)) {
            Some(line) => {
                line.push_str(between);
                line.push_str(item);
            }
            None => lines.push(item.clone()),
        }
    }
    lines
}
