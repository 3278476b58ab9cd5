//! The better plan as a diff of a file of an engine, each line with what it buys.

use serde_json::Value;
use similar::TextDiff;

use super::case::Case;
use super::error::ImportError;
use super::import::{self, Given, Imported};
use super::meaning::Scene;
use super::reader::Reader;
use super::settings::{Setting, Settings};
use super::syntax::{Edit, edited};
use super::targets::Target;
use crate::plan::Explanation;
use crate::plan::explanation::{FileDiff, KeyOutcome, KeyStep, LineChange};
use crate::search::Problem;
use crate::strategy::{Draft, Strategy};

/// The file of `imported`, which means `mine`, changed so that it means the best plan of `explanation`; none where there
/// is no better plan, or no change of the file says it.
pub fn file_diff(
    imported: &Imported,
    problem: &Problem<'_>,
    scene: &Scene<'_>,
    explanation: &Explanation,
) -> Option<FileDiff> {
    let resolved = |text: &str| Draft::parse(text).ok()?.resolve(&problem.facts).ok();
    let mine = resolved(&explanation.strategy.as_ref()?.text)?;
    let best = explanation.best.as_ref()?;
    let better = resolved(&best.strategy.text)?;
    if mine == better {
        return None;
    }
    let target = imported.target()?;
    let dialect = target.dialect;
    let settings = |strategy: &Strategy| dialect.settings(&Case { problem, strategy });
    let (before, after) = (settings(&mine), settings(&better));
    let means_better = |edits: &[Edit]| {
        let text = edited(&imported.document, edits);
        let given = Given { path: &imported.path, text: &text, ranks: None, beside: imported.beside() };
        let read = import::meaning_of(target, &given, scene).ok()?;
        let mut draft = read.meaning.draft;
        // Where ranks lie is said by the scripts, not by the file.
        draft.order = better.draft(problem.facts.defaults).order;
        (draft.resolve(&problem.facts).ok()? == better).then_some(text)
    };
    // First what differs; where other lines of the file contradict that, all that shapes the strategy, less what need
    // not be said.
    let mut edits = edits(&before, &after);
    if means_better(&edits).is_none() {
        edits = thorough(imported, target, scene, &after);
        means_better(&edits)?;
        let mut place = 0;
        while place < edits.len() {
            let edit = edits.remove(place);
            if means_better(&edits).is_none() {
                edits.insert(place, edit);
                place += 1;
            }
        }
    }
    let text = means_better(&edits)?;
    let unified = TextDiff::from_lines(imported.document.text.as_str(), text.as_str())
        .unified_diff()
        .context_radius(1)
        .header(&imported.path, "the better plan")
        .to_string();
    let bought: Vec<(&KeyStep, Vec<Edit>)> = explanation
        .changes
        .iter()
        .filter_map(|step| {
            let alone = step.strategy.as_deref().and_then(resolved)?;
            Some((step, self::edits(&before, &settings(&alone))))
        })
        .collect();
    let line = |edit: &Edit| {
        let from = imported.document.get(&edit.path).map(|found| &found.value);
        let step = bought.iter().find(|(_, edits)| edits.iter().any(|other| other.path == edit.path));
        LineChange {
            setting: edit.path.clone(),
            from: from.map(shown),
            to: edit.value.as_ref().map(shown),
            buys: step.map_or_else(|| "goes with the others".to_owned(), |(step, _)| buys(step)),
        }
    };
    let lines = edits.iter().map(line).collect();
    Some(FileDiff { path: imported.path.clone(), engine: target.text(), unified, lines })
}

/// What has to be changed in `before` to make it `after`.
fn edits(before: &Settings, after: &Settings) -> Vec<Edit> {
    let gone = before.iter().filter(|setting| after.get(&setting.path).is_none());
    let new = after.iter().filter(|setting| before.get(&setting.path) != Some(&setting.value));
    gone.map(|setting| Edit::remove(&setting.path)).chain(new.map(|setting| edit(setting, after))).collect()
}

/// The edit that makes `setting` as it is in `all`; a new one comes after the nearest that the file has of those that
/// engines are told before it, else before the nearest after it.
fn edit(setting: &Setting, all: &Settings) -> Edit {
    let is_before = |other: &&Setting| other.path != setting.path;
    let mut near: Vec<String> = all.iter().take_while(is_before).map(|other| other.path.clone()).collect();
    near.reverse();
    near.extend(all.iter().skip(near.len() + 1).map(|other| other.path.clone()));
    Edit { after: near, ..Edit::set(setting) }
}

/// All settings of the better plan; of those in the file that shape a strategy, the others go.
fn thorough(imported: &Imported, target: Target, scene: &Scene<'_>, after: &Settings) -> Vec<Edit> {
    let reader = Reader::new(&imported.document);
    let dialect = target.dialect;
    // What the model is stays as it stands.
    let is_read = matches!(dialect.model(&reader), Ok(_) | Err(ImportError::Unsaid { .. }));
    let of_model: Vec<String> = reader.asked();
    let is_read = is_read && dialect.read(&reader, scene).is_ok();
    let is_of_model = |path: &str| of_model.iter().any(|known| known == path);
    let stays = |path: &str| is_of_model(path) || after.get(path).is_some();
    let gone = imported.document.found.iter().filter(|found| is_read && reader.was_asked(&found.path));
    let gone = gone.filter(|found| !stays(&found.path)).map(|found| Edit::remove(&found.path));
    let new = after.iter().filter(|setting| !is_of_model(&setting.path));
    let differs =
        |path: &str, value: &Value| imported.document.get(path).is_none_or(|found| found.value != *value);
    let new = new.filter(|setting| differs(&setting.path, &setting.value));
    gone.chain(new.map(|setting| edit(setting, after))).collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(word) => word.clone(),
        other => other.to_string(),
    }
}

/// What one change of a key alone does.
fn buys(step: &KeyStep) -> String {
    let key = step.key;
    match (step.outcome, step.saved_s, step.step_time_s) {
        (KeyOutcome::Fits, Some(saved), Some(time)) => {
            let share = 100.0 * saved.0 / (saved.0 + time.0);
            if share.abs() < 0.05 {
                format!("{key}: nothing by itself")
            } else if share > 0.0 {
                format!("{key}: {share:.1} % of the step by itself")
            } else {
                format!(
                    "{key}: the step takes {:.1} % longer by itself; it makes room for the others",
                    -share
                )
            }
        }
        (KeyOutcome::OutOfMemory, ..) => format!("{key}: does not fit by itself; it goes with the others"),
        _ => format!("{key}: goes with the others"),
    }
}
