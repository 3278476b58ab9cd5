//! Memory by category and time by cause as rows of parts, with the letter and the ink of each.

use crate::plan::{CategoryBytes, CauseSeconds};

use super::words;

/// One part of a whole.
pub struct Part {
    /// Stands for it in bars of characters; unique inside a whole.
    pub letter: char,
    /// Its colour, 1 to 7, the same on the terminal and on the page.
    pub ink: u8,
    pub name: &'static str,
    /// In bytes or seconds.
    pub amount: f64,
    /// The amount for people.
    pub shown: String,
}

/// Letter and ink of each memory category, in the order of `CategoryBytes::parts`.
const CATEGORIES: [(char, u8); 7] = [('P', 1), ('G', 2), ('O', 3), ('A', 4), ('L', 5), ('B', 6), ('H', 7)];

/// Letter, ink and words of each cause, in the order of `CauseSeconds::parts`.
const CAUSES: [(char, u8, &str); 6] = [
    ('C', 1, "compute"),
    ('R', 2, "recompute"),
    ('X', 5, "exposed communication"),
    ('Y', 4, "exposed copies"),
    ('B', 7, "bubble"),
    ('O', 3, "optimizer"),
];

/// Memory by category.
pub fn memory(bytes: &CategoryBytes) -> Vec<Part> {
    let parts = bytes.parts().into_iter().zip(CATEGORIES);
    parts
        .map(|((name, bytes), (letter, ink))| Part {
            letter,
            ink,
            name,
            amount: bytes.0 as f64,
            shown: bytes.to_string(),
        })
        .collect()
}

/// Time by cause.
pub fn time(seconds: &CauseSeconds) -> Vec<Part> {
    let parts = seconds.parts().into_iter().zip(CAUSES);
    parts
        .map(|((_, seconds), (letter, ink, name))| Part {
            letter,
            ink,
            name,
            amount: words::drawable(seconds.0),
            shown: seconds.to_string(),
        })
        .collect()
}

/// What `part` is of the sum of `parts`, for people; nothing where they sum to nothing.
pub fn share(part: &Part, parts: &[Part]) -> String {
    words::share(part.amount, parts.iter().map(|part| part.amount).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_inks_are_unique_and_names_fit() {
        for parts in [memory(&CategoryBytes::default()), time(&CauseSeconds::default())] {
            for (place, part) in parts.iter().enumerate() {
                assert!(
                    parts[..place].iter().all(|other| other.letter != part.letter && other.ink != part.ink)
                );
            }
        }
        // The tables above follow the order of the document.
        for (part, (name, _)) in time(&CauseSeconds::default()).iter().zip(CauseSeconds::default().parts()) {
            assert!(part.name.contains(&name[..3]), "{} is {name}", part.name);
        }
    }
}
