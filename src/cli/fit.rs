//! `meshwright calibrate --fit`: fits cost models and engine profiles to published runs.

use std::fs;
use std::path::{Path, PathBuf};

use super::document::pretty;
use super::error::{CliError, Kind};
use super::output::{Outputs, print};
use super::progress::Bar;
use super::table::table;
use crate::calibrate::fitting::evidence;
use crate::calibrate::fitting::report::Bound;
use crate::calibrate::fitting::{File, Fit, FitError, FitReport, Models, ParameterFile, Request, fit};
use crate::report::Column::{Name, Number, Text};
use crate::validate::read;

/// What was typed.
pub struct FitCommand<'a> {
    pub traces: &'a [PathBuf],
    pub device: Option<&'a str>,
    pub engine: Option<&'a str>,
    pub models: Option<&'a Path>,
    pub out: &'a Path,
    pub quick: bool,
    pub json: bool,
}

/// Fits, writes the files and prints the report.
pub fn run(command: &FitCommand<'_>) -> Result<(), CliError> {
    let mut runs = Vec::new();
    for path in command.traces {
        runs.extend(read(path)?);
    }
    let (models, parameters) = match command.models {
        None => (Models::built_in(), ParameterFile::built_in()?),
        Some(folder) => {
            let path = folder.join("fit/parameters.json");
            let shown = path.display().to_string();
            let unread = |error: std::io::Error| FitError::File {
                file: shown.clone(),
                reason: format!("cannot be read: {error}"),
            };
            let parameters = if path.exists() {
                ParameterFile::parse(&shown, &fs::read_to_string(&path).map_err(unread)?)?
            } else {
                ParameterFile::built_in()?
            };
            (Models::read(folder)?, parameters)
        }
    };
    let request = Request {
        models,
        parameters: parameters.parameters,
        device: command.device.map(str::to_owned),
        engine: command.engine.map(str::to_owned),
        is_quick: command.quick,
    };
    let bar = Bar::new(!command.json);
    let fitted = fit(runs, &request, &|part, share| bar.next(part, share));
    bar.clear();
    let fitted = fitted?;
    write(command, &fitted)?;
    print(&if command.json { pretty(&fitted.report) } else { text(&fitted.report) })
}

/// One file goes where `--out` says if it ends in `.json`; else all go into that folder.
fn write(command: &FitCommand<'_>, fitted: &Fit) -> Result<(), CliError> {
    let is_file = command.out.extension().is_some_and(|extension| extension == "json");
    if !is_file {
        let place = |file: &File| command.out.join(file.path());
        let table = fitted.evidence.as_ref().map(evidence::text);
        let files = fitted.files.iter().map(|(file, text)| (place(file), text.as_str()));
        let table = table.as_deref().map(|text| (command.out.join("fit/evidence.json"), text));
        return Outputs::write_all("out", files.chain(table).collect());
    }
    let device = command.device.map(|name| File::Device(name.to_owned()));
    let engine = command.engine.map(|name| File::Engine(name.to_owned()));
    // Where both change, the engine's file stands beside the device's.
    let beside = match (&device, &engine) {
        (Some(_), Some(engine)) => command.out.with_extension(format!("{}.json", engine.name())),
        _ => command.out.to_owned(),
    };
    let targets = [(device, command.out.to_owned()), (engine, beside)];
    let text = |(file, path): (Option<File>, PathBuf)| Some((path, fitted.files.get(&file?)?.as_str()));
    Outputs::write_all("out", targets.into_iter().filter_map(text).collect())
}

fn text(report: &FitReport) -> String {
    let number = |value: f64| {
        if value == 0.0 || (1e-2..1e4).contains(&value.abs()) {
            format!("{value:.4}")
        } else {
            format!("{value:.3e}")
        }
    };
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let parameters = report.parameters.iter().map(|parameter| {
        let note = match parameter.at_bound {
            Some(Bound::Lower) => "at its lower bound".to_owned(),
            Some(Bound::Upper) => "at its upper bound".to_owned(),
            None => String::new(),
        };
        let families: Vec<String> = parameter
            .fixed_by
            .iter()
            .take(3)
            .map(|one| format!("{} {:.0} %", one.family, 100.0 * one.share))
            .collect();
        [
            parameter.files.join("+"),
            parameter.path.clone(),
            number(parameter.before),
            number(parameter.value),
            parameter.standard_error.map_or("-".to_owned(), number),
            note,
            families.join(", "),
        ]
    });
    let columns = [
        ("FILE", Text),
        ("NUMBER", Text),
        ("BEFORE", Number),
        ("FITTED", Number),
        ("ERROR", Number),
        ("", Text),
        ("FIXED BY", Text),
    ];
    let mut text = table(columns, parameters);
    let families = report.families.iter().map(|family| {
        [
            family.family.clone(),
            family.quantity.clone(),
            family.runs.to_string(),
            percent(family.before),
            percent(family.after),
            percent(family.bias_before),
            percent(family.bias),
        ]
    });
    let columns = [
        ("FAMILY", Name),
        ("OF", Name),
        ("RUNS", Number),
        ("ERROR BEFORE", Number),
        ("AFTER", Number),
        ("BIAS BEFORE", Number),
        ("AFTER", Number),
    ];
    text += &format!("\n\n{}", table(columns, families));
    let left_out = report.left_out.iter().map(|one| {
        [
            one.file.clone(),
            one.family.clone(),
            one.runs.to_string(),
            percent(one.fitted),
            percent(one.left_out),
            format!("{:.2}", one.ratio),
        ]
    });
    if !report.left_out.is_empty() {
        let columns = [
            ("WITHOUT", Name),
            ("FAMILY", Name),
            ("RUNS", Number),
            ("FITTED", Number),
            ("LEFT OUT", Number),
            ("RATIO", Number),
        ];
        text += &format!("\n\n{}", table(columns, left_out));
    }
    let FitReport { runs, loss_before, loss, loss_left, shortcut, evaluations, jacobians, seconds, .. } =
        report;
    text + &format!(
        "\n\n{} parameters, {runs} runs, {} skipped; loss {loss_before:.4} -> {loss:.4}, {} of it left to gain; \
         {evaluations} evaluations, {jacobians} times all derivatives, shortcut {shortcut:.5}, {seconds:.1} s\n",
        report.parameters.len(),
        report.skipped.len(),
        percent(*loss_left),
    )
}

impl From<FitError> for CliError {
    fn from(error: FitError) -> Self {
        let message = error.to_string();
        let (field, value, nearest) = match error {
            FitError::Unknown { kind, name, nearest } => (kind, name, nearest),
            FitError::NoParameters { selection } | FitError::NoRuns { selection } => {
                ("fit", selection, Vec::new())
            }
            FitError::Parameter { parameter, .. } => ("parameter", parameter, Vec::new()),
            FitError::File { file, .. } => ("models", file, Vec::new()),
            FitError::NotANumber => ("fit", String::new(), Vec::new()),
        };
        Self { kind: Kind::Input, message, nearest, ..Self::usage(field, &value, "") }
    }
}
