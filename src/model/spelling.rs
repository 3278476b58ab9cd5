//! How far apart names are, so that errors can name those near a wrong one.

/// Those of `known` nearest to `text`, at most three, the nearest first.
pub(super) fn nearest(text: &str, known: impl IntoIterator<Item = &'static str>) -> Vec<String> {
    let lower = text.to_lowercase();
    let mut near: Vec<(usize, &str)> =
        known.into_iter().map(|name| (edit_distance(&lower, name), name)).collect();
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

/// Insertions, deletions and replacements between two names (Levenshtein 1966).
pub(super) fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, from) in left.chars().enumerate() {
        let mut diagonal = line;
        row[0] = line + 1;
        for (column, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::edit_distance;

    #[test]
    fn edit_distances_are_levenshtein() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("llama-2-7b", "llama-2-70b"), 1);
    }
}
