//! What kernels took when they were last compiled, kept with the sources: compiling all of them takes minutes, and the same
//! compiler makes the same of the same text.
//!
//! `known.txt` has a line for each source with its options and architecture: the digest of all that the compiler was given, and
//! of each kernel its name, registers, and bytes of shared and local memory.

use std::collections::BTreeMap;
use std::fmt::Write;

use gpu::kept::Key;

use crate::usage::Usage;

/// Digits of a digest that are kept.
const DIGITS: usize = 32;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Known(BTreeMap<String, Vec<(String, Usage)>>);

impl Known {
    /// What is not understood is not known.
    pub fn read(text: &str) -> Self {
        Self(text.lines().filter_map(line).collect())
    }

    pub fn get(&self, key: &Key) -> Option<&[(String, Usage)]> {
        self.0.get(&digits(key)).map(Vec::as_slice)
    }

    pub fn add(&mut self, key: &Key, usages: Vec<(String, Usage)>) {
        self.0.insert(digits(key), usages);
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for (key, usages) in &self.0 {
            text.push_str(key);
            for (kernel, Usage { registers, shared, local }) in usages {
                let _ = write!(text, " {kernel} {registers} {shared} {local}");
            }
            text.push('\n');
        }
        text
    }
}

fn digits(key: &Key) -> String {
    key.iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .take(DIGITS)
        .fold(String::new(), |text, digit| text + &format!("{digit:x}"))
}

fn line(line: &str) -> Option<(String, Vec<(String, Usage)>)> {
    let words: Vec<&str> = line.split(' ').collect();
    let (key, kernels) = words.split_first()?;
    let usage = |words: &[&str]| {
        let [kernel, registers, shared, local] = words else { return None };
        let number = |word: &str| word.parse().ok();
        let usage = Usage { registers: number(registers)?, shared: number(shared)?, local: number(local)? };
        Some(((*kernel).to_owned(), usage))
    };
    let usages: Option<Vec<_>> = kernels.chunks(4).map(usage).collect();
    Some(((*key).to_owned(), usages.filter(|usages| !usages.is_empty())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let usage = |registers| Usage { registers, shared: 33_792, local: 0 };
        let mut known = Known::default();
        known.add(&[7; 32], vec![("a".into(), usage(40)), ("b".into(), usage(168))]);
        known.add(&[0xf0; 32], vec![("c".into(), usage(1))]);
        assert_eq!(Known::read(&known.text()), known);
        assert_eq!(known.get(&[7; 32]).map(<[_]>::len), Some(2));
        assert!(known.get(&[8; 32]).is_none());
    }

    #[test]
    fn what_is_not_understood_is_not_known() {
        for text in ["", "07", "07 a 1 2", "07 a 1 2 x", "07 a 1 2 3 b"] {
            assert_eq!(Known::read(text), Known::default(), "{text}");
        }
    }
}
