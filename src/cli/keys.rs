//! Help on the keys of strategy texts, from their table.

use crate::strategy::Key;

/// Columns that help is written in; a narrower terminal wraps it.
const WIDTH: usize = 88;

/// Of `--strategy`.
pub fn strategy_help() -> String {
    help("The strategy, such as tp=8,pp=2,zero=1; what is left out takes its default [in brackets]:", |_| true)
}

/// Of `--fix`.
pub fn fix_help() -> String {
    help("Keys of the strategy text that are held, such as tp=8,zero=1; their defaults [in brackets]:", |_| true)
}

/// Of `--free`, in short.
pub fn free_help() -> String {
    let keys = Key::ALL.iter().filter(|key| key.changes_numerics()).map(|key| key.name());
    format!("Keys that change numerics and may vary all the same: {}", keys.collect::<Vec<_>>().join(", "))
}

/// Of `--free`.
pub fn free_long_help() -> String {
    help("Keys that change numerics and may vary all the same; their defaults [in brackets]:", Key::changes_numerics)
}

/// `title`, and of each key that `is_listed` its meaning, its form and its default.
fn help(title: &str, is_listed: impl Fn(Key) -> bool) -> String {
    let mut text = title.to_owned();
    for &key in Key::ALL.iter().filter(|&&key| is_listed(key)) {
        text += &format!("\n  {key:<10}");
        let said = format!("{} {} [{}]", key.doc(), key.form(), key.default_words()).replace('`', "");
        let mut column = 12;
        for word in said.split(' ') {
            let length = word.chars().count();
            if column + 1 + length > WIDTH {
                text += "\n            ";
                column = 12;
            }
            text.push(' ');
            text += word;
            column += 1 + length;
        }
    }
    text
}
