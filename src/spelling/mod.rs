//! Which known names are nearest to a mistyped one, and which characters no name has.

pub mod hidden;

use std::cmp::Reverse;

/// What an edit costs; a letter behind the end of the shorter text costs 1, and all of them together at most `BEHIND`.
const EDIT: usize = 4;
const BEHIND: usize = 3;

/// At most three of `names`, the nearest first: those that differ from `text` in at most a quarter of its letters,
/// what stands behind the end of the shorter one aside; the single best where none is as near.
pub fn nearest<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let ranked = ranked(text, names);
    let most = text.chars().count().max(EDIT);
    let close = ranked.iter().take(3).filter(|(distance, _)| *distance <= most).count();
    ranked.into_iter().take(close.max(1)).map(|(_, name)| name.to_owned()).collect()
}

/// The one of `names` that is nearest to `text`; of several that are as near, at most three.
pub fn best<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let ranked = ranked(text, names);
    let least = ranked.first().map_or(0, |(distance, _)| *distance);
    ranked.into_iter().take(3).take_while(|(distance, _)| *distance == least).map(|(_, name)| name).collect()
}

/// The words of a name in lower case, as they are between signs; a point between digits belongs to a number. So
/// `meta-llama/Llama-3.1-8B` has `meta`, `llama`, `llama`, `3.1` and `8b`.
pub fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().flat_map(char::to_lowercase).collect();
    let is_digit =
        |place: Option<usize>| place.and_then(|place| letters.get(place)).is_some_and(char::is_ascii_digit);
    let is_of_word = |place: usize| {
        let letter = letters[place];
        letter.is_alphanumeric()
            || (letter == '.' && is_digit(place.checked_sub(1)) && is_digit(Some(place + 1)))
    };
    let mut words = vec![String::new()];
    for (place, letter) in letters.iter().enumerate() {
        match words.last_mut() {
            Some(word) if is_of_word(place) => word.push(*letter),
            _ => words.push(String::new()),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// How far apart two names are, whatever their case: edits of the letters (Levenshtein 1966; two that changed places are
/// one), but that what one of them has behind the end of the other counts for less, and so does what stands around a
/// name's part. So `h1000` is nearer to `h100-sxm` than to `a10g`, and `wte` is near to `transformer.wte.weight`.
pub fn distance(text: &str, name: &str) -> usize {
    // Names are short: what is longer than this is no misspelling, and comparing it would be slow.
    const LONGEST: usize = 256;
    let letters = |text: &str| text.chars().flat_map(char::to_lowercase).take(LONGEST).collect::<Vec<char>>();
    let (text, name) = (letters(text), letters(name));
    let behind = |letters: usize| letters.min(BEHIND);
    let is_in = |one: &[char], other: &[char]| {
        one.len() >= BEHIND && other.windows(one.len()).any(|part| part == one)
    };
    let is_part = is_in(&text, &name) || is_in(&name, &text);
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=name.len()).map(|edits| EDIT * edits).collect();
    // Of the text the first letters and all of the name, with the rest of the text behind.
    let mut least = row[name.len()] + behind(text.len());
    for place in 1..=text.len() {
        let mut next = vec![EDIT * place];
        for column in 1..=name.len() {
            let is_same =
                |text_back: usize, name_back: usize| text[place - text_back] == name[column - name_back];
            let replaced = row[column - 1] + if is_same(1, 1) { 0 } else { EDIT };
            let mut edits = replaced.min(row[column] + EDIT).min(next[column - 1] + EDIT);
            if place > 1 && column > 1 && is_same(1, 2) && is_same(2, 1) {
                edits = edits.min(before[column - 2] + EDIT);
            }
            next.push(edits);
        }
        before = std::mem::replace(&mut row, next);
        least = least.min(row[name.len()] + behind(text.len() - place));
        // What begins like most of the text may end otherwise: an edit, and half of one for each letter behind.
        if 2 * place > text.len() {
            let behind = EDIT / 2 * (text.len() - place);
            least = row.iter().map(|beginning| beginning + EDIT + behind).fold(least, usize::min);
        }
    }
    let ends = row.iter().enumerate().map(|(letters, edits)| edits + behind(name.len() - letters));
    let least = ends.fold(least, usize::min);
    if is_part { least.min(BEHIND) } else { least }
}

/// All `names` with their distances from `text`, the nearest first; of those as near, the one that begins like it, and
/// then the shortest; the rest as they stand.
pub fn ranked<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<(usize, &'a str)> {
    let common =
        |name: &str| text.chars().zip(name.chars()).take_while(|(left, right)| left == right).count();
    let mut ranked: Vec<(usize, &str)> = names.into_iter().map(|name| (distance(text, name), name)).collect();
    ranked.sort_by_key(|&(distance, name)| (distance, Reverse(common(name)), name.len()));
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_count_and_what_stands_behind_counts_less() {
        assert_eq!(distance("kitten", "sitten"), EDIT);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("h100", "h100-sxm"), BEHIND);
        assert_eq!(distance("gard", "grad"), EDIT);
        assert_eq!(distance("models/gpt2", "gpt2"), BEHIND);
        assert_eq!(distance("wte", "transformer.wte.weight"), BEHIND);
        assert_eq!(distance("h1000", "h100-sxm"), EDIT + 2);
        assert_eq!(distance("accumulation", "accum"), BEHIND);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("LLAMA", "llama"), 0);
    }

    #[test]
    fn the_closest_names_come_first() {
        let names = ["h100-sxm", "h200-sxm", "a10g", "cpu"];
        assert_eq!(nearest("h100_sxm", names), ["h100-sxm", "h200-sxm"]);
        assert_eq!(nearest("h200", names)[0], "h200-sxm");
        assert_eq!(nearest("h1000", names)[0], "h100-sxm");
        assert_eq!(nearest("h1000", ["h20", "h100-pcie", "h100-sxm"])[0], "h100-sxm");
        assert_eq!(nearest("a100", ["a10g", "a100-sxm-80gb"])[0], "a100-sxm-80gb");
        assert_eq!(nearest("zzzzzzzz", names).len(), 1);
    }

    #[test]
    fn words_stand_between_signs() {
        assert_eq!(words("meta-llama/Llama-3.1-8B"), ["meta", "llama", "llama", "3.1", "8b"]);
        assert_eq!(words(" RTX_4090 (24 GB). "), ["rtx", "4090", "24", "gb"]);
        assert_eq!(words("./v0.1."), ["v0.1"]);
        assert!(words("-/.").is_empty() && words("").is_empty());
    }

    #[test]
    fn one_is_the_best_unless_several_are_as_near() {
        assert_eq!(best("zer", ["zero", "tp"]), ["zero"]);
        assert_eq!(best("xp", ["cp", "tp", "dp", "zero"]), ["cp", "tp", "dp"]);
    }
}
