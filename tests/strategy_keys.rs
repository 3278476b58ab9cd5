//! The tables of keys and their words in `docs/reference/strategy.md` are the code's; `MESHWRIGHT_BLESS=1` rewrites them.

use std::{env, fs};

use meshwright::strategy::Key;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/strategy.md");
const BEGIN: &str = "<!-- From here on made from src/strategy/keys.rs. -->\n";
const END: &str = "<!-- To here. -->\n";

/// A row for each key; and for each key whose values are words, what they mean.
fn tables() -> String {
    let mut made =
        String::from("\n| key | what it is | values | default | part of |\n|---|---|---|---|---|\n");
    for &key in Key::ALL {
        let (doc, form, default) = (key.doc(), key.form(), key.default_words());
        made += &format!("| `{key}` | {doc} | {form} | {default} | {} |\n", key.part().name());
    }
    made += "\nWhat the words mean:\n\n| key | word | meaning |\n|---|---|---|\n";
    for &key in Key::ALL {
        for (word, meaning) in key.words() {
            made += &format!("| `{key}` | `{word}` | {meaning} |\n");
        }
    }
    made + "\n"
}

#[test]
fn the_page_says_what_the_table_says() {
    let file = fs::read_to_string(PATH).unwrap();
    let (before, rest) = file.split_once(BEGIN).expect("the page marks where the tables begin");
    let (_, after) = rest.split_once(END).expect("the page marks where the tables end");
    let wanted = format!("{before}{BEGIN}{}{END}{after}", tables());
    if env::var_os("MESHWRIGHT_BLESS").is_some() {
        fs::write(PATH, &wanted).unwrap();
    } else {
        let how = "MESHWRIGHT_BLESS=1 cargo test --test strategy_keys rewrites it";
        assert!(file == wanted, "strategy.md has drifted; {how}");
    }
}
