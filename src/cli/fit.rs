//! `meshwright calibrate --fit`: fits cost models and engine profiles to published runs.

use std::path::{Path, PathBuf};

use super::claims::Claims;
use super::document::pretty;
use super::error::{CliError, Kind};
use super::folder::makeable;
use super::output::{Outputs, print, write_all};
use super::progress::Bar;
use super::table::table;
use crate::calibrate::fitting::LARGEST_FILE;
use crate::calibrate::fitting::evidence;
use crate::calibrate::fitting::report::Bound;
use crate::calibrate::fitting::{File, Fit, FitError, FitReport, Models, ParameterFile, Request, fit};
use crate::files::{self, Unread};
use crate::report::Column::{Name, Number, Text};
use crate::validate::{read, sources};

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
    let outputs = claim(command)?;
    let mut runs = Vec::new();
    for path in command.traces {
        runs.extend(read(path)?);
    }
    let (models, parameters) = match command.models {
        None => (Models::built_in(), ParameterFile::built_in()?),
        Some(folder) => {
            let path = folder.join("fit/parameters.json");
            let shown = path.display().to_string();
            let models = Models::read(folder)?;
            let parameters = match files::text(&path, LARGEST_FILE) {
                Ok(text) => ParameterFile::parse(&shown, &text)?,
                Err(Unread::Missing) if path.symlink_metadata().is_err() => ParameterFile::built_in()?,
                Err(unread) => {
                    let reason = format!("cannot be read: {unread}");
                    return Err(FitError::File { file: shown, reason }.into());
                }
            };
            (models, parameters)
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
    write(command, &outputs, &fitted)?;
    print(&if command.json { pretty(&fitted.report) } else { text(&fitted.report) })
}

/// The files that a fit may write, if it writes no folder: that they can be written, and are nothing that it reads. A
/// folder of cost models may be fitted in place.
fn claim(command: &FitCommand<'_>) -> Result<Outputs, CliError> {
    let is_of_all = command.device.is_none() && command.engine.is_none();
    if is_of_all && matches!(places(command), Places::Files(_)) {
        let rule =
            "a fit of all devices and engines goes into a folder; name one of them (--device, --engine)";
        let folder = command.out.with_extension("");
        let error = CliError::usage("out", &command.out.display().to_string(), rule);
        return Err(error.or([folder.display()]));
    }
    let sources = command.traces.iter().flat_map(|path| sources(path));
    let mut claims = sources.fold(Claims::default(), |claims, path| claims.reads("--fit", Some(path)));
    match places(command) {
        Places::Folder => {
            let models = Models::built_in();
            let names: Vec<String> = models.files().map(File::path).chain([EVIDENCE.to_owned()]).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            makeable(&mut claims, "out", command.out, &names)?;
            Ok(Outputs::default())
        }
        Places::Files(files) => {
            let [device, engine] = files.map(|(_, path)| path);
            Outputs::new(&mut claims, [("out", device), ("out", engine)])
        }
    }
}

/// Where the table of a folder goes.
const EVIDENCE: &str = "fit/evidence.json";

/// The file that each document goes to.
enum Places {
    /// All into one folder.
    Folder,
    /// The device's and the engine's file, each if it is fitted.
    Files([(Option<File>, Option<PathBuf>); 2]),
}

/// One file goes where `--out` says if it ends in `.json`; else all go into that folder.
fn places(command: &FitCommand<'_>) -> Places {
    if command.out.extension().is_none_or(|extension| extension != "json") {
        return Places::Folder;
    }
    let device = command.device.map(|name| File::Device(name.to_owned()));
    let engine = command.engine.map(|name| File::Engine(name.to_owned()));
    // Where both change, the engine's file stands beside the device's.
    let beside = match (&device, &engine) {
        (Some(_), Some(engine)) => command.out.with_extension(format!("{}.json", engine.name())),
        _ => command.out.to_owned(),
    };
    let out = device.is_some().then(|| command.out.to_owned());
    let beside = engine.is_some().then_some(beside);
    Places::Files([(device, out), (engine, beside)])
}

fn write(command: &FitCommand<'_>, outputs: &Outputs, fitted: &Fit) -> Result<(), CliError> {
    let files = match places(command) {
        Places::Folder => {
            let place = |file: &File| command.out.join(file.path());
            let files = fitted.files.iter().map(|(file, text)| (place(file), text.as_str()));
            let table = fitted.evidence.as_ref().map(evidence::text);
            let table = table.as_deref().map(|text| (command.out.join(EVIDENCE), text));
            return write_all("out", files.chain(table).collect());
        }
        Places::Files(files) => files,
    };
    let text =
        |(file, path): (Option<File>, Option<PathBuf>)| Some((path?, fitted.files.get(&file?)?.as_str()));
    outputs.write_at(&files.into_iter().filter_map(text).collect::<Vec<_>>())
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
