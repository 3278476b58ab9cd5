//! Tables of a terminal: they fit its width, numbers are never broken, and text breaks between words.

use super::lines::{LONG_PIECE, broken, pieces, plain, wrapped};

/// Blanks between columns.
const GAP: usize = 2;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Numbers: right-aligned, in one line.
    Number,
    /// Names and short words: left-aligned, in one line.
    Name,
    /// Sentences and strategies: left-aligned, in as many lines as they need.
    Text,
}

/// A table: a line of headings, then rows, without borders.
#[derive(Clone, Debug)]
pub struct Listing {
    columns: Vec<Column>,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Listing {
    /// An empty table of these columns, each with its heading.
    pub fn new(columns: &[(&str, Column)]) -> Self {
        Self {
            columns: columns.iter().map(|(_, column)| *column).collect(),
            header: columns.iter().map(|(name, _)| plain(name)).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; cells that are not given are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter().map(|cell| plain(&cell)).chain(std::iter::repeat(String::new()));
        self.rows.push(cells.take(self.columns.len()).collect());
    }

    /// The lines of the table, each at most `width` long; where the columns do not fit side by side, each row is a
    /// paragraph of its own.
    pub fn lines(&self, width: usize) -> Vec<String> {
        match self.widths(width) {
            Some(widths) => self.all().flat_map(|row| self.side_by_side(row, &widths)).collect(),
            None => self.rows.iter().flat_map(|row| self.paragraph(row, width)).collect(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.header).chain(&self.rows)
    }

    /// The width of each column, if they fit side by side: columns of text share what the others leave, and one that
    /// needs less than its share leaves the rest to the others.
    fn widths(&self, width: usize) -> Option<Vec<usize>> {
        let natural: Vec<usize> = (0..self.columns.len())
            .map(|place| self.all().map(|row| row[place].chars().count()).max().unwrap_or(0))
            .collect();
        let gaps = GAP * self.columns.len().saturating_sub(1);
        let mut left = width.checked_sub(gaps)?;
        let mut texts: Vec<usize> = Vec::new();
        for (place, column) in self.columns.iter().enumerate() {
            match column {
                Column::Text => texts.push(place),
                Column::Number | Column::Name => left = left.checked_sub(natural[place])?,
            }
        }
        texts.sort_by_key(|&place| natural[place]);
        let mut widths = natural.clone();
        for (done, &place) in texts.iter().enumerate() {
            widths[place] = natural[place].min(left / (texts.len() - done));
            left -= widths[place];
            let pieces = self.all().flat_map(|row| pieces(&row[place], LONG_PIECE));
            let longest = pieces.map(|piece| piece.trim_end().chars().count()).max().unwrap_or(0);
            if longest > widths[place] {
                return None;
            }
        }
        Some(widths)
    }

    fn side_by_side(&self, row: &[String], widths: &[usize]) -> Vec<String> {
        let cells: Vec<Vec<String>> =
            row.iter().zip(widths).map(|(cell, &width)| broken(cell, width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let line = |at: usize| {
            let parts = cells.iter().zip(widths).zip(&self.columns).map(|((lines, &width), column)| {
                let cell = lines.get(at).map_or("", String::as_str);
                match column {
                    Column::Number => format!("{cell:>width$}"),
                    Column::Name | Column::Text => format!("{cell:<width$}"),
                }
            });
            parts.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
        };
        (0..height.max(1)).map(line).collect()
    }

    /// The first cell, and under it the others, all behind their headings.
    fn paragraph(&self, row: &[String], width: usize) -> Vec<String> {
        let room = width.saturating_sub(GAP).max(1);
        let mut lines = broken(format!("{} {}", self.header[0], row[0]).trim(), width);
        let mut short: Vec<String> = Vec::new();
        let mut long: Vec<String> = Vec::new();
        for ((cell, column), heading) in row.iter().zip(&self.columns).zip(&self.header).skip(1) {
            let said = format!("{heading} {cell}").trim().to_owned();
            match column {
                _ if cell.is_empty() => {}
                Column::Text => long.extend(broken(&said, room)),
                Column::Number | Column::Name => short.push(said),
            }
        }
        let under = wrapped(&short, &" ".repeat(GAP + 1), room).into_iter().chain(long);
        lines.extend(under.map(|line| format!("{}{line}", " ".repeat(GAP))));
        lines
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> Listing {
        let mut listing = Listing::new(&[
            ("plan", Column::Text),
            ("step", Column::Number),
            ("what it trades", Column::Text),
        ]);
        let strategy = "tp=4,cp=2,pp=4,dp=2,cuts=18/21/21/20,zero=1,micro=2,accum=128,offload=optimizer:0.5";
        listing.row([strategy, "56.67 s", "as fast, 8.22 GiB more memory a device"].map(str::to_owned));
        listing.row(["tp=8,zero=1", "58.01 s", "2.3 % slower"].map(str::to_owned));
        listing
    }

    #[test]
    fn a_table_that_has_room_is_not_broken() {
        let mut listing = Listing::new(&[("NAME", Column::Name), ("N", Column::Number)]);
        listing.row(["a".to_owned(), "1".to_owned()]);
        listing.row(["long name".to_owned(), "100".to_owned()]);
        assert_eq!(listing.lines(80), ["NAME         N", "a            1", "long name  100"]);
    }

    #[test]
    fn text_breaks_between_words_and_keys() {
        let lines = sample().lines(60);
        let whole = lines.join("\n");
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{whole}");
        for word in ["cuts=18/21/21/20,", "offload=optimizer:0.5", "56.67 s", "8.22", "device"] {
            assert!(whole.contains(word), "{word} in\n{whole}");
        }
    }

    #[test]
    fn what_does_not_fit_side_by_side_stands_below_each_other() {
        let lines = sample().lines(40);
        assert!(lines.contains(&"  step 56.67 s".to_owned()), "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{lines:?}");
    }

    proptest! {
        #[test]
        fn no_width_breaks_a_word_or_loses_one(
            rows in proptest::collection::vec(proptest::collection::vec("([a-z]{1,9} ){0,6}[a-z]{1,9}", 4), 1..6),
            width in 24usize..200,
        ) {
            use Column::{Name, Number, Text};
            let mut listing = Listing::new(&[("one", Text), ("two", Number), ("three", Text), ("four", Name)]);
            rows.iter().for_each(|row| listing.row(row.iter().cloned()));
            let lines = listing.lines(width);
            let shown: Vec<&str> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
            for word in rows.iter().flatten().flat_map(|cell| cell.split_whitespace()) {
                prop_assert!(shown.contains(&word), "{} in {:?}", word, lines);
            }
        }
    }
}
