//! Whole numbers as people write them: `131072`, `131,072`, `128k`, `4Ki`, `1.5M`.

/// The meaning of `k` in a count. `Ki` is always 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kilo {
    /// 1000, as of steps and tokens.
    Thousand,
    /// 1024, as of the length of sequences: a context of 128k is 131,072 tokens.
    Binary,
    /// People write it for both.
    Either,
}

/// Numbers that `text` may mean, the smallest first: none if it is no whole number.
pub fn counts(text: &str, kilo: Kilo) -> Vec<u64> {
    let text = text.trim();
    let start = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..start].trim_end(), &text[start..]);
    let (letter, is_binary) = match unit.strip_suffix('i') {
        Some(letter) => (letter, true),
        None => (unit, false),
    };
    let power = match letter {
        "" if !is_binary => return plain(number).into_iter().collect(),
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" | "b" | "B" => 3,
        "t" | "T" => 4,
        _ => return Vec::new(),
    };
    let bases: &[u64] = match kilo {
        _ if is_binary => &[1024],
        Kilo::Thousand => &[1000],
        Kilo::Binary => &[1024],
        Kilo::Either => &[1000, 1024],
    };
    bases.iter().filter_map(|base| times(number, base.pow(power))).collect()
}

/// Digits, by themselves or in groups of three.
fn plain(number: &str) -> Option<u64> {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut groups = number.split([',', '_']);
    let is_first =
        groups.next().is_some_and(|first| is_digits(first) && (first.len() <= 3 || first == number));
    let is_grouped = groups.all(|group| is_digits(group) && group.len() == 3);
    if is_first && is_grouped { number.replace([',', '_'], "").parse().ok() } else { None }
}

/// `number`, whole or with decimals, times `factor`, where that is a whole number.
fn times(number: &str, factor: u64) -> Option<u64> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(decimals) {
        return None;
    }
    let scale = 10_u64.checked_pow(u32::try_from(decimals.len()).ok()?)?;
    let parts = decimals.parse::<u64>().ok()?.checked_mul(factor)?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    if parts.is_multiple_of(scale) { whole.checked_add(parts / scale) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_they_are_written() {
        for (text, thousand, binary) in [
            ("4096", 4096, 4096),
            ("131,072", 131_072, 131_072),
            ("1_048_576", 1_048_576, 1_048_576),
            ("128k", 128_000, 131_072),
            ("128K", 128_000, 131_072),
            ("128 k", 128_000, 131_072),
            ("128Ki", 131_072, 131_072),
            ("1M", 1_000_000, 1_048_576),
            ("1.5k", 1_500, 1_536),
            ("0.5m", 500_000, 524_288),
        ] {
            assert_eq!(counts(text, Kilo::Thousand), [thousand], "{text}");
            assert_eq!(counts(text, Kilo::Binary), [binary], "{text}");
        }
        assert_eq!(counts("1k", Kilo::Either), [1000, 1024]);
        assert_eq!(counts("1Ki", Kilo::Either), [1024]);
    }

    #[test]
    fn what_is_no_whole_number_means_nothing() {
        let texts = [
            "",
            "k",
            "Ki",
            "i",
            "-1k",
            "+1",
            "1.0001k",
            "1e3",
            "1,2",
            "12,34,567",
            "1,,000",
            ",100",
            "_",
            "1kk",
            "4KB",
        ];
        for text in texts.into_iter().chain(["99999999999999999999", "99999999999999999T", "1.k", ".5k", "é"])
        {
            assert!(counts(text, Kilo::Thousand).is_empty(), "{text}");
        }
    }
}
