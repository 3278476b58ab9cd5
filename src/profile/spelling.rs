//! Which known names are nearest to a misspelt one.

/// At most three of `names`: those that begin with `text`, then those fewest edits away, up to half of the
/// text's length; the single best where none is as near. Of names that are as near, those that were named first.
pub fn nearest<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let distance = |name: &str| {
        let begins = text.len() > 1 && name.starts_with(text);
        if begins { 0 } else { edits(text, name) }
    };
    let mut ranked: Vec<(usize, &str)> = names.into_iter().map(|name| (distance(name), name)).collect();
    ranked.sort_by_key(|(distance, _)| *distance);
    let close = ranked.iter().take(3).filter(|(distance, _)| *distance * 2 <= text.chars().count()).count();
    ranked.into_iter().take(close.max(1)).map(|(_, name)| name.to_owned()).collect()
}

/// Insertions, deletions and replacements of characters that turn `from` into `to` (Levenshtein).
fn edits(from: &str, to: &str) -> usize {
    // Names are short: what is longer than this is not a misspelling, and comparing it would be slow.
    const LONGEST: usize = 256;
    let to: Vec<char> = to.chars().take(LONGEST).collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (above, left) in from.chars().take(LONGEST).enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (column, right) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("h100", "h100"), 0);
    }

    #[test]
    fn the_closest_names_come_first() {
        let names = ["h100-sxm", "h200-sxm", "a10g", "cpu"];
        assert_eq!(nearest("h100_sxm", names), ["h100-sxm", "h200-sxm"]);
        assert_eq!(nearest("h200", names)[0], "h200-sxm");
        assert_eq!(nearest("zzzzzzzz", names).len(), 1);
    }
}
