//! The tables of settings in `docs/reference/files.md` are those of the code; `MESHWRIGHT_BLESS=1` rewrites them.

use std::{env, fs};

use meshwright::export::{Format, Role, formats};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/files.md");
const MARK: &str = "<!-- From here on made from src/export/formats. -->\n";

/// One program: its settings that are read, those that are refused, and those that change nothing.
fn section(format: &dyn Format) -> String {
    let syntaxes: Vec<&str> = format.syntaxes().iter().map(|syntax| syntax.name()).collect();
    let mut text = format!(
        "\n## {} {}\n\nRules and names are those of {}. Read from {}.\n\n| setting | default | meaning |\n|---|---|---|\n",
        format.name(),
        format.version(),
        format.source(),
        syntaxes.join(", ")
    );
    let mut idle = Vec::new();
    for key in format.keys() {
        match key.role {
            Role::Read(what) => text += &format!("| `{}` | {} | {what} |\n", key.name, key.default),
            Role::Refused(why) => {
                text += &format!("| `{}` | off | refused where it is on: {why} |\n", key.name)
            }
            Role::Idle => idle.push(format!("`{}`", key.name)),
        }
    }
    text + "\nThese change neither memory nor time nor arithmetic of a step: " + &idle.join(", ") + ".\n"
}

#[test]
fn the_page_lists_every_setting_of_every_program() {
    let page = fs::read_to_string(PATH).expect("the page is there");
    let (head, _) = page.split_once(MARK).expect("the mark is there");
    let made = formats().map(section).collect::<String>();
    let whole = format!("{head}{MARK}{made}");
    if env::var_os("MESHWRIGHT_BLESS").is_some() {
        fs::write(PATH, whole).expect("the page can be written");
    } else {
        assert!(
            page == whole,
            "files.md has drifted; MESHWRIGHT_BLESS=1 cargo test --test export rewrites it"
        );
    }
}

/// A setting that stands in two rows is read as the first says.
#[test]
fn no_row_stands_behind_one_of_its_name() {
    for format in formats() {
        for (index, key) in format.keys().iter().enumerate() {
            let before = &format.keys()[..index];
            let is_same = before.iter().any(|other| other.name == key.name);
            assert!(!is_same, "{} has two rows of {}", format.name(), key.name);
        }
    }
}
