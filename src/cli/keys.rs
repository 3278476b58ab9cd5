//! Help on the keys of strategy texts, from their table.

use crate::strategy::Key;

/// Columns for the name of a key.
const NAME: usize = 11;
/// Columns for what is said of it; a narrower terminal wraps that.
const WIDTH: usize = 75;

/// Of `--strategy`.
pub fn strategy_help() -> String {
    help("The strategy, such as tp=8,pp=2,zero=1; what is left out takes its default [in brackets]:", |_| {
        true
    })
}

/// Of `--fix`.
pub fn fix_help() -> String {
    help(
        "Keys of the strategy text that are held, such as tp=8,zero=1; their defaults [in brackets]:",
        |_| true,
    )
}

/// Of `--free`, in short.
pub fn free_help() -> String {
    let keys = Key::ALL.iter().filter(|key| key.changes_numerics()).map(|key| key.name());
    format!("Keys that change numerics and may vary all the same: {}", keys.collect::<Vec<_>>().join(", "))
}

/// Of `--free`.
pub fn free_long_help() -> String {
    help(
        "Keys that change numerics and may vary all the same; their defaults [in brackets]:",
        Key::changes_numerics,
    )
}

/// `title`, and of each key that `is_listed` its form with the default, and what it means.
fn help(title: &str, is_listed: impl Fn(Key) -> bool) -> String {
    let mut text = title.to_owned();
    for &key in Key::ALL.iter().filter(|&&key| is_listed(key)) {
        text += &format!("\n  {:<NAME$}", key.name());
        text += &indented(&format!("{} [{}]", key.form(), key.default_words()));
        text += &format!("\n  {:NAME$}{}", "", indented(key.doc()));
    }
    text
}

/// Markdown as plain text, wrapped and indented to the column behind the key names.
fn indented(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.replace('`', "").split(' ') {
        let length = lines.last().map_or(0, |line| line.chars().count());
        match lines.last_mut() {
            Some(line) if length == 0 => line.push_str(word),
            Some(line) if length + 1 + word.chars().count() <= WIDTH => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join(&format!("\n  {:NAME$}", ""))
}
