//! Numbers in sentences: nouns and verbs that agree with them, and shares that round to nothing.

use super::grouped;

/// `several("node", 2)` is `2 nodes`, and of 1 it is `1 node`; thousands are separated.
pub fn several(noun: &str, number: impl TryInto<u64>) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{} {}", grouped(number), noun_of(noun, number))
}

/// The same in digits alone, as they can be typed.
pub fn typed(noun: &str, number: impl TryInto<u64>) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {}", noun_of(noun, number))
}

/// `noun` in the form that goes with `number`.
pub fn noun_of(noun: &str, number: u64) -> String {
    if number == 1 { noun.to_owned() } else { plural(noun) }
}

/// The form of a verb that goes with `subject`, a noun in either number: `optimizer takes`, `parameters take`.
pub fn agreeing(subject: &str, verb: &str) -> String {
    let is_plural = subject.ends_with('s') && !subject.ends_with("ss");
    if is_plural { verb.to_owned() } else { plural(verb) }
}

/// A share in percent to a tenth, one that is less in words: `3.2 %`, `under 0.1 %`.
pub fn tenths(share: f64) -> String {
    if share > 0.0 && share < 0.0005 { "under 0.1 %".to_owned() } else { format!("{:.1} %", 100.0 * share) }
}

/// With the ending that a noun has of several, and a verb of one.
fn plural(word: &str) -> String {
    let vowel = |letter: char| "aeiou".contains(letter);
    match word.strip_suffix('y') {
        Some(stem) if !stem.ends_with(vowel) => format!("{stem}ies"),
        _ if ["s", "x", "ch", "sh"].iter().any(|ending| word.ends_with(ending)) => format!("{word}es"),
        _ => format!("{word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_agree_with_their_number() {
        assert_eq!(several("node", 1_u32), "1 node");
        assert_eq!(several("node", 0_usize), "0 nodes");
        assert_eq!(several("micro-batch", 1024_u64), "1,024 micro-batches");
        assert_eq!(typed("micro-batch", 1024_u64), "1024 micro-batches");
        assert_eq!(several("strategy", 2_u64), "2 strategies");
        assert_eq!(several("key", 2_u64), "2 keys");
        assert_eq!(several("process", 2_u64), "2 processes");
    }

    #[test]
    fn verbs_agree_with_their_subject() {
        assert_eq!(agreeing("optimizer", "take"), "takes");
        assert_eq!(agreeing("parameters", "take"), "take");
        assert_eq!(agreeing("overhead", "take"), "takes");
    }

    #[test]
    fn a_share_is_not_said_to_be_nothing() {
        assert_eq!(tenths(0.0321), "3.2 %");
        assert_eq!(tenths(0.0001), "under 0.1 %");
        assert_eq!(tenths(0.0005), "0.1 %");
    }
}
