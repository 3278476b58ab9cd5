//! One number of each block, as Megatron-LM writes it: `([1]*5+[0]*1)*7` (core 0.20 `training/arguments.py`,
//! `_eval_pattern`).

use serde_json::Value;

/// Numbers of a pattern at the most, so that nobody can ask for gigabytes.
const MOST: usize = 1 << 16;

/// The pattern of `list`: runs, and once where the list repeats itself.
pub fn pattern(list: &[u64]) -> String {
    let whole = |period: &usize| {
        list.len().is_multiple_of(*period) && list.iter().zip(&list[*period..]).all(|(one, next)| one == next)
    };
    let period = (1..list.len()).find(whole).unwrap_or(list.len());
    let runs: Vec<String> = list[..period]
        .chunk_by(|one, next| one == next)
        .map(|run| format!("[{}]*{}", run[0], run.len()))
        .collect();
    let once = format!("({})", runs.join("+"));
    if period < list.len() { format!("{once}*{}", list.len() / period) } else { once }
}

/// The numbers of a value: of a pattern, or of a list as it is.
pub fn numbers_of(value: &Value) -> Option<Vec<u64>> {
    match value {
        Value::String(text) => numbers(text),
        Value::Array(list) => list.iter().map(Value::as_u64).collect(),
        _ => None,
    }
}

/// The numbers of a pattern; none if it is none.
pub fn numbers(text: &str) -> Option<Vec<u64>> {
    let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    let (list, rest) = sum(&text, 0)?;
    rest.is_empty().then_some(list)
}

fn sum(text: &str, depth: usize) -> Option<(Vec<u64>, &str)> {
    let (mut list, mut rest) = term(text, depth)?;
    while let Some(next) = rest.strip_prefix('+') {
        let (more, after) = term(next, depth)?;
        (rest, list) = (after, joined(list, &more, 1)?);
    }
    Some((list, rest))
}

fn term(text: &str, depth: usize) -> Option<(Vec<u64>, &str)> {
    let (mut list, mut rest) = match text.strip_prefix('(') {
        Some(inside) if depth < 8 => {
            let (list, rest) = sum(inside, depth + 1)?;
            (list, rest.strip_prefix(')')?)
        }
        _ => {
            let (inside, rest) = text.strip_prefix('[')?.split_once(']')?;
            (inside.split(',').map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>()?, rest)
        }
    };
    while let Some(next) = rest.strip_prefix('*') {
        let end = next.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(next.len());
        let times = next[..end].parse().ok()?;
        (list, rest) = (joined(Vec::new(), &list, times)?, &next[end..]);
    }
    Some((list, rest))
}

/// `list` with `times` copies of `more` after it.
fn joined(list: Vec<u64>, more: &[u64], times: usize) -> Option<Vec<u64>> {
    let length = more.len().checked_mul(times)?.checked_add(list.len())?;
    (length <= MOST).then(|| [list, more.repeat(times)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_say_their_numbers() {
        for (list, text) in [
            (vec![0, 0, 0, 1, 1], "([0]*3+[1]*2)"),
            (vec![1, 0, 1, 0, 1, 0], "([1]*1+[0]*1)*3"),
            (vec![1, 1, 1], "([1]*1)*3"),
            (vec![1, 0, 1], "([1]*1+[0]*1+[1]*1)"),
        ] {
            assert_eq!(pattern(&list), text);
            assert_eq!(numbers(text), Some(list));
        }
        assert_eq!(numbers("[0] + [1,0]*2"), Some(vec![0, 1, 0, 1, 0]));
        for text in ["", "[", "[1]*", "([1]", "[1]*99999999999", "[a]", "((((((((((([1])))))))))))"] {
            assert_eq!(numbers(text), None, "{text}");
        }
    }
}
