//! Braces: `{a,b}` and `{1..4}` are several words.

use super::tree::{Part, Word};

/// Words that one may become.
const MOST: usize = 4096;

/// The words that the braces of `word` make of it, itself without any; none where they are more than any command has.
pub fn expanded(word: &Word) -> Option<Vec<Word>> {
    let mut done = Vec::new();
    let mut left = vec![word.clone()];
    while let Some(word) = left.pop() {
        match first(&word) {
            Some(words) if done.len() + left.len() + words.len() <= MOST => {
                left.extend(words.into_iter().rev())
            }
            Some(_) => return None,
            None => done.push(word),
        }
    }
    Some(done)
}

/// The words that the first braces make.
fn first(word: &Word) -> Option<Vec<Word>> {
    for (index, part) in word.parts.iter().enumerate() {
        let Part::Text { text, is_quoted: false, .. } = part else { continue };
        for (start, _) in text.match_indices('{') {
            let Some(words) = at(word, index, start) else { continue };
            return Some(words);
        }
    }
    None
}

/// The words that the braces at byte `start` of part `index` make, if they are some.
fn at(word: &Word, index: usize, start: usize) -> Option<Vec<Word>> {
    let mut depth = 0_usize;
    let mut cuts = vec![(index, start)];
    let mut end = None;
    'parts: for (number, part) in word.parts.iter().enumerate().skip(index) {
        let Part::Text { text, is_quoted: false, .. } = part else { continue };
        let from = if number == index { start } else { 0 };
        for (place, letter) in text.char_indices().filter(|(place, _)| *place >= from) {
            match letter {
                '{' => depth += 1,
                '}' => {
                    depth -= 1;
                    if depth == 0 {
                        end = Some((number, place));
                        break 'parts;
                    }
                }
                ',' if depth == 1 => cuts.push((number, place)),
                _ => {}
            }
        }
    }
    let end = end?;
    let alternatives = match cuts.len() {
        1 => sequence(word, index, start, end)?,
        _ => {
            let ends = cuts.iter().skip(1).copied().chain([end]);
            cuts.iter().zip(ends).map(|((part, place), end)| between(word, (*part, place + 1), end)).collect()
        }
    };
    let (before, after) =
        (between(word, (0, 0), (index, start)), between(word, (end.0, end.1 + 1), (word.parts.len(), 0)));
    let whole = |inside: Vec<Part>| {
        let parts = before.iter().cloned().chain(inside).chain(after.iter().cloned()).collect();
        Word { parts, span: word.span.clone() }
    };
    Some(alternatives.into_iter().map(whole).collect())
}

/// The parts from one place to another.
fn between(word: &Word, from: (usize, usize), to: (usize, usize)) -> Vec<Part> {
    let mut parts = Vec::new();
    for (number, part) in word.parts.iter().enumerate() {
        if number < from.0 || number > to.0 || (number == to.0 && to.1 == 0) {
            continue;
        }
        match part {
            Part::Text { text, span, is_quoted, is_exact } if number == from.0 || number == to.0 => {
                let start = if number == from.0 { from.1 } else { 0 };
                let end = if number == to.0 { to.1 } else { text.len() };
                let span = if *is_exact { span.start + start..span.start + end } else { span.clone() };
                if start < end {
                    let (is_quoted, is_exact) = (*is_quoted, *is_exact);
                    parts.push(Part::Text { text: text[start..end].to_owned(), span, is_quoted, is_exact });
                }
            }
            other => parts.push(other.clone()),
        }
    }
    parts
}

/// The numbers or letters of `{1..4}` or `{a..e..2}`.
fn sequence(word: &Word, index: usize, start: usize, end: (usize, usize)) -> Option<Vec<Vec<Part>>> {
    let Part::Text { text, span, .. } = word.parts.get(index)? else { return None };
    let inside = text.get(start + 1..end.1).filter(|_| end.0 == index)?;
    let mut bounds = inside.split("..");
    let (first, last, step) = (bounds.next()?, bounds.next()?, bounds.next());
    if bounds.next().is_some() {
        return None;
    }
    let step = step.map_or(Some(1), |step| step.parse::<i64>().ok())?.unsigned_abs().max(1);
    let letter = |text: &str| text.chars().next().filter(|c| c.is_ascii_alphabetic() && text.len() == 1);
    let (bounds, are_letters) = match (first.parse::<i64>(), last.parse::<i64>(), letter(first), letter(last))
    {
        (Ok(first), Ok(last), ..) => ((first, last), false),
        (_, _, Some(first), Some(last)) => ((first as i64, last as i64), true),
        _ => return None,
    };
    let (low, high) = (bounds.0.min(bounds.1), bounds.0.max(bounds.1));
    let count =
        usize::try_from(high.checked_sub(low)?.unsigned_abs() / step).ok().filter(|count| *count < MOST)?;
    let is_padded =
        |text: &str| text.trim_start_matches('-').starts_with('0') && text.trim_start_matches('-').len() > 1;
    let width = if is_padded(first) || is_padded(last) { first.len().max(last.len()) } else { 0 };
    let step = i64::try_from(step).ok()?;
    let number = |index: usize| {
        let distance = step * i64::try_from(index).unwrap_or(0);
        let number = if bounds.0 <= bounds.1 { bounds.0 + distance } else { bounds.0 - distance };
        let letter = u32::try_from(number).ok().and_then(char::from_u32).filter(|_| are_letters);
        let text = letter.map_or_else(|| format!("{number:0width$}"), String::from);
        vec![Part::Text { text, span: span.clone(), is_quoted: true, is_exact: false }]
    };
    Some((0..=count).map(number).collect())
}
