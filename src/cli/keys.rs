//! Help on the keys of strategy texts, from their table.

use crate::strategy::Key;

/// Columns for the name of a key.
const NAME: usize = 11;
/// Columns for what is said of it; a narrower terminal wraps that.
const WIDTH: usize = 75;

/// How strategies are written, for `help strategy`.
pub fn strategy_help() -> String {
    help(
        "A strategy is key=value pairs, separated by commas, in any order: tp=8,pp=2,zero=1,micro=2. What is left out\n\
         takes its default [in brackets]. --strategy takes the whole, --fix of plan the keys that it must hold, and\n\
         --free of plan keys that change numerics and may vary all the same; meshwright explain says what is wrong\n\
         with one.\n",
    )
}

/// Of `--free`.
pub fn free_help() -> String {
    let keys = Key::ALL.iter().filter(|key| key.changes_numerics()).map(|key| key.name());
    format!("Keys that change numerics and may vary all the same: {}", keys.collect::<Vec<_>>().join(", "))
}

/// `title`, and of each key its form with the default, and what it means.
fn help(title: &str) -> String {
    let mut text = title.to_owned();
    for &key in Key::ALL {
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
