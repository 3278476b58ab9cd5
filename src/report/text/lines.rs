//! Words and strategies in lines: broken between words and keys, never inside one.

use crate::spelling::hidden::is_hidden;

/// A piece of a strategy that is longer may break behind what is said of a stage.
pub const LONG_PIECE: usize = 24;

/// Units that stay on the line of their number.
const UNITS: [&str; 14] =
    ["%", "B", "KiB", "MiB", "GiB", "TiB", "PiB", "s", "ms", "µs", "ns", "h", "days", "M"];

/// Without characters that a terminal obeys; names come from files.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect()
}

/// A text in lines of `width`, broken behind blanks and the commas of strategies.
pub fn broken(text: &str, width: usize) -> Vec<String> {
    let lines = wrapped(&pieces(text, width.min(LONG_PIECE)), "", width);
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Words and strategies in pieces to be [`wrapped`]: each ends behind a blank or the comma of a strategy, a number keeps
/// its unit, and what is longer than `width` ends behind what is said of a stage, too.
pub fn pieces(text: &str, width: usize) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for word in text.split_inclusive(' ') {
        let is_unit = UNITS.contains(&word.trim_end_matches([' ', ',', ';', '.', ')']));
        let follows_number =
            pieces.last().is_some_and(|last| last.trim_end().ends_with(|c: char| c.is_ascii_digit()));
        match pieces.last_mut() {
            Some(last) if is_unit && follows_number => last.push_str(word),
            _ => pieces.extend(keys(word)),
        }
    }
    let split = |piece: String| match piece.trim_end().chars().count() <= width {
        true => vec![piece],
        false => piece.split_inclusive(['/', '+']).map(str::to_owned).collect(),
    };
    pieces.into_iter().flat_map(split).collect()
}

/// A word in pieces that end behind the commas of a strategy; those of a number have digits behind them.
fn keys(word: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (place, _) in word.match_indices(',') {
        if word[place + 1..].starts_with(|c: char| c.is_ascii_alphabetic()) {
            pieces.push(word[start..=place].to_owned());
            start = place + 1;
        }
    }
    pieces.push(word[start..].to_owned());
    pieces
}

/// Items in as few lines as they go into; an item longer than a line has one to itself.
pub fn wrapped(items: &[String], between: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        let room = |line: &String| {
            line.chars().count() + between.chars().count() + item.trim_end().chars().count() <= width
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strategy_breaks_behind_its_commas_and_a_number_never() {
        let text = "tp=4,pp=4,cuts=19/21 takes 1,156 tokens and 11.53 GiB more";
        assert_eq!(
            broken(text, 12),
            ["tp=4,pp=4,", "cuts=19/21", "takes 1,156", "tokens and", "11.53 GiB", "more"]
        );
    }

    #[test]
    fn only_what_is_long_breaks_behind_a_stage() {
        assert_eq!(pieces("cuts=1/2/3", 24), ["cuts=1/2/3"]);
        assert_eq!(pieces("cuts=1/2/3", 8), ["cuts=1/", "2/", "3"]);
    }
}
