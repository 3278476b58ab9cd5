//! Pipeline layouts: how blocks lie in chunks, as Megatron-LM writes it.
//!
//! `E` is the embedding, `t` a block, `m` a multi-token prediction layer, `L` the loss; a bar ends a chunk, `(x)*n` and
//! `t*n` repeat, commas are spacing (core 0.20 `core/transformer/pipeline_parallel_layer_layout.py`).

/// Letters of a layout at the most, so that nobody can ask for gigabytes.
const MOST_LETTERS: usize = 1 << 16;

/// The layout of chunks with these numbers of blocks, of which the last `modules` are multi-token prediction layers.
pub fn layout(cuts: &[u32], modules: u32) -> String {
    let last = cuts.len().saturating_sub(1);
    let all: u32 = cuts.iter().sum();
    let plain = all.saturating_sub(modules);
    let run = |letter: &str, count: u32| match count {
        0 => String::new(),
        1 => letter.to_owned(),
        several => format!("{letter}*{several}"),
    };
    let mut before = 0;
    let chunks = cuts.iter().enumerate().map(|(index, blocks)| {
        let end = if index == last { "L" } else { "" };
        let first = if index == 0 { "E" } else { "" };
        let own = plain.saturating_sub(before).min(*blocks);
        before += blocks;
        format!("{first}{}{}{end}", run("t", own), run("m", blocks - own))
    });
    let chunks: Vec<String> = chunks.collect();
    let mut parts: Vec<String> = Vec::new();
    let mut at = 0;
    while at < chunks.len() {
        let alike = chunks[at..].iter().take_while(|chunk| **chunk == chunks[at]).count();
        // A run before the last chunk is written once, with its bars.
        if alike > 2 && at + alike < chunks.len() {
            parts.push(format!("({}|)*{alike}", chunks[at]));
        } else {
            for (offset, chunk) in chunks[at..at + alike].iter().enumerate() {
                let bar = if at + offset == last { "" } else { "|" };
                parts.push(format!("{chunk}{bar}"));
            }
        }
        at += alike;
    }
    parts.concat()
}

/// Blocks a chunk of a layout, with multi-token prediction layers if these count as blocks.
///
/// # Errors
/// In words, if it is no layout.
pub fn cuts(text: &str, counts_modules: bool) -> Result<Vec<u32>, String> {
    let letters = expanded(&mut text.chars().filter(|c| *c != ',' && !c.is_whitespace()).peekable(), 0)?;
    let chunks: Vec<&str> = letters.split('|').collect();
    let last = chunks.len() - 1;
    for (index, chunk) in chunks.iter().enumerate() {
        if let Some(other) = chunk.chars().find(|c| !"EtmL".contains(*c)) {
            return Err(format!("{other} is no part of a layout; E, t, m, L are"));
        }
        let expects = |letter: char, place: usize, at: &str| {
            let count = chunk.matches(letter).count();
            let wanted = usize::from(index == place);
            (count == wanted).then_some(()).ok_or_else(|| format!("{letter} stands once, {at}"))
        };
        expects('E', 0, "in the first chunk")?;
        expects('L', last, "in the last chunk")?;
    }
    let is_block = |letter: &char| *letter == 't' || (counts_modules && *letter == 'm');
    let blocks = |chunk: &&str| u32::try_from(chunk.chars().filter(is_block).count()).unwrap_or(u32::MAX);
    Ok(chunks.iter().map(blocks).collect())
}

/// The text with all that repeats written out, up to a closing bracket.
fn expanded(
    letters: &mut std::iter::Peekable<impl Iterator<Item = char>>,
    depth: usize,
) -> Result<String, String> {
    let mut text = String::new();
    while let Some(letter) = letters.peek().copied() {
        if letter == ')' {
            return if depth > 0 { Ok(text) } else { Err("a bracket closes what is not open".to_owned()) };
        }
        letters.next();
        let part = if letter == '(' {
            if depth > 8 {
                return Err("brackets are nested too deep".to_owned());
            }
            let inside = expanded(letters, depth + 1)?;
            if letters.next() != Some(')') {
                return Err("a bracket is not closed".to_owned());
            }
            inside
        } else {
            letter.to_string()
        };
        let mut times = 1;
        if letters.peek() == Some(&'*') {
            letters.next();
            let mut digits = String::new();
            while let Some(digit) = letters.peek().filter(|c| c.is_ascii_digit()) {
                digits.push(*digit);
                letters.next();
            }
            times = digits.parse::<usize>().map_err(|_| "a number follows *".to_owned())?;
        }
        if text.len().saturating_add(part.len().saturating_mul(times)) > MOST_LETTERS {
            return Err("it is longer than any model".to_owned());
        }
        text.push_str(&part.repeat(times));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_say_the_cuts() {
        for list in [vec![4, 4], vec![2, 2, 2, 2, 1], vec![0, 3, 3, 3, 3, 0], vec![1], vec![5, 0, 0, 0, 5]] {
            assert_eq!(cuts(&layout(&list, 0), false), Ok(list.clone()), "{}", layout(&list, 0));
        }
        assert_eq!(layout(&[3, 3, 2, 1], 2), "Et*3|t*3|tm|mL");
        assert_eq!(cuts("Et*3|t*3|tm|mL", true), Ok(vec![3, 3, 2, 1]));
        // The layout of a published recipe of Megatron-Bridge for 70B.
        let list = cuts("Et*2|(t*2|)*34,t*3|(t*2|)*3,tL", false).unwrap();
        assert_eq!((list.len(), list.iter().sum::<u32>(), list[35], list[39]), (40, 80, 3, 1));
        assert_eq!(
            cuts("Et*3|(tt|)*29,m|L", false),
            Ok([3].into_iter().chain([2; 29]).chain([0, 0]).collect())
        );
    }

    #[test]
    fn what_is_no_layout_is_refused() {
        for text in [
            "",
            "tt|tL",
            "Et|t",
            "Et|x|tL",
            "E(t|tL",
            "Et)|L",
            "Et*|L",
            "E(t)*99999999999|L",
            "((((((((((((E",
        ] {
            assert!(cuts(text, true).is_err(), "{text}");
        }
    }
}
