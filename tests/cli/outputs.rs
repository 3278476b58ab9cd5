//! What README.md and docs/ show is what the program prints: the blocks that begin with `$ meshwright ARGUMENTS`, and the
//! figures of accuracy. `just outputs` writes them anew.
//!
//! A block may show some sections of an output: the paragraphs that begin with the same words. A figure is followed by a
//! comment that says where `validate --json` has it, such as `3.0 %<!-- vtrain-multi time.mape -->`.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

use meshwright::profile::engines::engines_in_use;
use serde_json::Value;

use crate::place::Place;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// README.md and all pages of docs/.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    let (mut pages, mut folders) = (vec![root.join("README.md")], vec![root.join("docs")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// Held while pages are read and written anew, which two tests do.
static PAGES: Mutex<()> = Mutex::new(());

/// Writes the pages anew, or fails with what is stale.
fn settle(page: &Path, old: &str, fresh: &str, stale: &[String]) -> Vec<String> {
    if env::var_os("MESHWRIGHT_OUTPUTS").is_some_and(|value| value == "write") {
        if old != fresh {
            fs::write(page, fresh).unwrap();
        }
        return Vec::new();
    }
    let name = page.strip_prefix(ROOT).unwrap().display();
    stale.iter().map(|line| format!("{name}: {line}")).collect()
}

fn assert_fresh(stale: &[String]) {
    assert!(
        stale.is_empty(),
        "these are not what the program says today (`just outputs` writes them anew):\n{}",
        stale.join("\n")
    );
}

/// The word that a section is known by; the last line of an output has none.
fn label(paragraph: &str) -> Option<&str> {
    paragraph
        .split_whitespace()
        .next()
        .filter(|word| word.starts_with(|first: char| first.is_ascii_lowercase()))
}

/// The sections of `output` that `shown` has.
fn sections(shown: &str, output: &str) -> String {
    let paragraphs = |text: &str| -> Vec<String> {
        let parts = text.split("\n\n").map(|part| part.trim_matches('\n').to_owned());
        parts.filter(|part| !part.is_empty()).collect()
    };
    let wanted = paragraphs(shown);
    let wanted: Vec<_> = wanted.iter().map(|paragraph| label(paragraph)).collect();
    let all = paragraphs(output);
    let chosen: Vec<_> = all.into_iter().filter(|paragraph| wanted.contains(&label(paragraph))).collect();
    chosen.join("\n\n") + "\n"
}

/// The text without what differs from run to run: how it is broken into lines, and how long the search took.
fn lasting(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_time = |at: usize| {
        let before = |back: usize| at.checked_sub(back).map(|at| words[at]);
        [before(2), before(3)].contains(&Some("considered")) && [before(1), before(2)].contains(&Some("in"))
    };
    let kept = words.iter().enumerate().filter(|&(at, _)| !is_time(at));
    kept.map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
}

/// What two texts differ in first.
fn difference(page: &str, program: &str) -> String {
    let (page, program): (Vec<_>, Vec<_>) = (page.split(' ').collect(), program.split(' ').collect());
    let same = page.iter().zip(&program).take_while(|(one, other)| one == other).count();
    let around = |words: &[&str]| {
        words.iter().skip(same.saturating_sub(4)).take(12).copied().collect::<Vec<_>>().join(" ")
    };
    format!("the page has `{}`, the program says `{}`", around(&page), around(&program))
}

/// Whether what a command prints depends on the machine, so that only its sections can be compared.
fn is_measured(line: &str) -> bool {
    line.starts_with("execute")
}

#[test]
#[ignore = "minutes: CI runs it by itself, as `just outputs` does"]
fn blocks_show_what_commands_print() {
    let _pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut stale = Vec::new();
    let mut blocks = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let (mut fresh, mut wrong) = (String::new(), Vec::new());
        let mut rest = text.as_str();
        while let Some(start) = rest.find("```text\n$ meshwright ") {
            let body = start + "```text\n".len();
            let end = body + rest[body..].find("\n```").expect("the block ends") + 1;
            let (command, shown) = rest[body..end].split_once('\n').unwrap();
            let line = command.strip_prefix("$ meshwright ").unwrap();
            let run = Place::new().typed(line);
            let found = sections(shown, &run.stdout);
            let (old, new) = if is_measured(line) {
                let labels = |text: &str| text.split("\n\n").filter_map(label).collect::<Vec<_>>().join(" ");
                (labels(shown), labels(&found))
            } else {
                (lasting(shown), lasting(&found))
            };
            if old != new {
                wrong.push(format!("`meshwright {line}`: {}", difference(&old, &new)));
            }
            fresh.push_str(&rest[..body]);
            fresh.push_str(&format!("{command}\n\n{found}"));
            rest = &rest[end..];
            blocks += 1;
        }
        fresh.push_str(rest);
        stale.extend(settle(&page, &text, &fresh, &wrong));
    }
    assert!(blocks > 5, "{blocks} blocks were found");
    assert_fresh(&stale);
}

/// The figure that a comment names, as pages write it.
fn figure(of: &str, validation: &Value) -> String {
    let percent = |value: &Value| {
        format!("{:.1} %", 100.0 * value.as_f64().unwrap_or_else(|| panic!("{of} is no number")))
    };
    let grouped = |count: u64| {
        let digits = count.to_string();
        let marks = digits.char_indices().flat_map(|(at, digit)| {
            let comma = (at > 0 && (digits.len() - at).is_multiple_of(3)).then_some(',');
            comma.into_iter().chain([digit])
        });
        marks.collect::<String>()
    };
    let length = |field: &str| validation[field].as_array().unwrap().len() as u64;
    if of == "runs" {
        return grouped(length("runs") + length("skipped"));
    }
    if of == "fitted parameters" {
        let report = fs::read_to_string(Path::new(ROOT).join("cost_models/fit/report.json")).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        return report["parameters"].as_array().unwrap().len().to_string();
    }
    let (group, path) = of.split_once(' ').unwrap_or_else(|| panic!("`{of}` names no group"));
    let groups = validation["groups"].as_array().unwrap();
    let group = groups.iter().find(|one| one["name"] == group).unwrap_or_else(|| panic!("no group {group}"));
    let value = path.split('.').fold(group, |value, key| &value[key]);
    match path {
        "runs" | "simulated" | "ranking.groups" => grouped(value.as_u64().unwrap()),
        "ranking.spearman" => format!("{:.2}", value.as_f64().unwrap()),
        "time.bias" | "memory.bias" => format!("{:+.1} %", 100.0 * value.as_f64().unwrap()),
        _ => percent(value),
    }
}

/// Where a figure ends at `text`'s end begins.
fn beginning(text: &str) -> usize {
    let number = text.strip_suffix(" %").unwrap_or(text);
    let digits = number.trim_end_matches(|mark: char| mark.is_ascii_digit() || ",.+-".contains(mark));
    digits.len()
}

#[test]
fn figures_are_what_validate_says() {
    let _pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let published = Path::new(ROOT).join("traces/published");
    let run = place.run([
        "validate".as_ref(),
        published.as_os_str(),
        "--report".as_ref(),
        "table.md".as_ref(),
        "--json".as_ref(),
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let validation = run.json();
    let mut stale = Vec::new();
    let mut figures = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let (mut fresh, mut wrong) = (String::new(), Vec::new());
        let mut rest = text.as_str();
        while let Some(start) = rest.find("<!-- ") {
            let end = start + rest[start..].find(" -->").expect("the comment ends");
            let of = &rest[start + "<!-- ".len()..end];
            let at = beginning(&rest[..start]);
            if at == start {
                // No figure is before it: a comment of another kind.
                fresh.push_str(&rest[..end]);
            } else {
                let (old, new) = (&rest[at..start], figure(of, &validation));
                if old != new {
                    wrong.push(format!("{of} is {new}, and not {old}"));
                }
                fresh.push_str(&format!("{}{new}<!-- {of}", &rest[..at]));
                figures += 1;
            }
            rest = &rest[end..];
        }
        fresh.push_str(rest);
        stale.extend(settle(&page, &text, &fresh, &wrong));
    }
    assert!(figures > 10, "{figures} figures were found");

    // The page that the command itself writes, apart from its date.
    let page = Path::new(ROOT).join("docs/accuracy-table.md");
    let (old, new) = (fs::read_to_string(&page).unwrap(), place.read("table.md"));
    let undated = |text: &str| {
        text.lines().filter(|line| !line.starts_with("Written by")).collect::<Vec<_>>().join(" ")
    };
    let wrong: Vec<_> = (undated(&old) != undated(&new))
        .then(|| difference(&undated(&old), &undated(&new)))
        .into_iter()
        .collect();
    stale.extend(settle(&page, &old, if wrong.is_empty() { &old } else { &new }, &wrong));
    assert_fresh(&stale);
}

#[test]
fn the_readme_names_the_engines_that_plans_are_made_for() {
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    let before = "`--engine` says which engine is to run the plan (";
    let (_, after) = readme.split_once(before).expect("the README lists the engines");
    let (listed, _) = after.split_once(')').unwrap();
    let in_use: Vec<&str> = engines_in_use().map(|engine| engine.name.as_str()).collect();
    assert_eq!(listed, in_use.join(", "));
}
