//! `meshwright calibrate --fit`: fits cost models and engine profiles to published runs.

use std::path::{Path, PathBuf};

use super::claims::Claims;
use super::document::pretty;
use super::error::{CliError, Kind};
use super::fit_text::{fit_text, left_out_text};
use super::folder::makeable;
use super::output::{Outputs, print, write_all};
use super::progress::Bar;
use crate::calibrate::fitting::LARGEST_FILE;
use crate::calibrate::fitting::evidence;
use crate::calibrate::fitting::{File, Fit, FitError, Models, ParameterFile, Request, fit, left_out};
use crate::files::{self, Unread};
use crate::validate::{Measured, read, sources};

/// What was typed.
pub struct FitCommand<'a> {
    pub traces: &'a [PathBuf],
    pub device: Option<&'a str>,
    pub engine: Option<&'a str>,
    pub models: Option<&'a Path>,
    /// Where to; of a fit always given.
    pub out: Option<&'a Path>,
    pub quick: bool,
    /// Fits nothing: measures how the numbers do on sources that they have not seen.
    pub left_out: bool,
    pub json: bool,
}

/// Fits, or leaves sources out, writes the files and prints the report.
pub fn run(command: &FitCommand<'_>) -> Result<(), CliError> {
    if command.left_out {
        return leave_out(command);
    }
    let outputs = claim(command)?;
    let (runs, request) = asked(command)?;
    let bar = Bar::new(!command.json);
    let fitted = fit(runs, &request, &|part, share| bar.next(part, share));
    bar.clear();
    let fitted = fitted?;
    write(command, &outputs, &fitted)?;
    print(&if command.json { pretty(&fitted.report) } else { fit_text(&fitted.report) })
}

/// `--left-out`: the report, and the table of evidence where that is to be written.
fn leave_out(command: &FitCommand<'_>) -> Result<(), CliError> {
    let table = command.out.map(|out| if is_file(out) { out.to_owned() } else { out.join(EVIDENCE) });
    if let (Some(out), Some(name)) = (command.out, command.device.or(command.engine)) {
        let rule = format!("the table of evidence is of all devices and engines, not of {name} alone");
        return Err(CliError::usage("out", &out.display().to_string(), &rule));
    }
    let mut claims = claims(command);
    let outputs = match command.out {
        Some(out) if !is_file(out) => {
            makeable(&mut claims, "out", out, &[EVIDENCE])?;
            Outputs::default()
        }
        _ => Outputs::new(&mut claims, [("out", table.clone())])?,
    };
    let (runs, request) = asked(command)?;
    let bar = Bar::new(!command.json);
    let unseen = left_out(runs, &request, &|part, share| bar.next(part, share));
    bar.clear();
    let unseen = unseen?;
    if let (Some(path), Some(evidence)) = (table, &unseen.evidence) {
        let text = evidence::text(evidence);
        if command.out.is_some_and(is_file) {
            outputs.write(&[("out", text)])?;
        } else {
            write_all("out", vec![(path, text.as_str())])?;
        }
    }
    print(&if command.json { pretty(&unseen.report) } else { left_out_text(&unseen.report) })
}

/// The runs and numbers that were asked for.
fn asked(command: &FitCommand<'_>) -> Result<(Vec<(String, Measured)>, Request), CliError> {
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
    Ok((runs, request))
}

fn claims(command: &FitCommand<'_>) -> Claims {
    let sources = command.traces.iter().flat_map(|path| sources(path));
    sources.fold(Claims::default(), |claims, path| claims.reads("--fit", Some(path)))
}

/// The files that a fit may write, if it writes no folder: that they can be written, and are nothing that it reads. A
/// folder of cost models may be fitted in place.
fn claim(command: &FitCommand<'_>) -> Result<Outputs, CliError> {
    let is_of_all = command.device.is_none() && command.engine.is_none();
    if is_of_all && matches!(places(command), Places::Files(_)) {
        let rule =
            "a fit of all devices and engines goes into a folder; name one of them (--device, --engine)";
        let out = out(command);
        let folder = out.with_extension("");
        let error = CliError::usage("out", &out.display().to_string(), rule);
        return Err(error.or([folder.display()]));
    }
    let mut claims = claims(command);
    match places(command) {
        Places::Folder => {
            let models = Models::built_in();
            let names: Vec<String> = models.files().map(File::path).chain([EVIDENCE.to_owned()]).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            makeable(&mut claims, "out", out(command), &names)?;
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

fn is_file(out: &Path) -> bool {
    out.extension().is_some_and(|extension| extension == "json")
}

/// Where a fit goes.
fn out<'a>(command: &FitCommand<'a>) -> &'a Path {
    command.out.unwrap_or_else(|| Path::new("."))
}

/// One file goes where `--out` says if it ends in `.json`; else all go into that folder.
fn places(command: &FitCommand<'_>) -> Places {
    let out = out(command);
    if !is_file(out) {
        return Places::Folder;
    }
    let device = command.device.map(|name| File::Device(name.to_owned()));
    let engine = command.engine.map(|name| File::Engine(name.to_owned()));
    // Where both change, the engine's file stands beside the device's.
    let beside = match (&device, &engine) {
        (Some(_), Some(engine)) => out.with_extension(format!("{}.json", engine.name())),
        _ => out.to_owned(),
    };
    let out = device.is_some().then(|| out.to_owned());
    let beside = engine.is_some().then_some(beside);
    Places::Files([(device, out), (engine, beside)])
}

fn write(command: &FitCommand<'_>, outputs: &Outputs, fitted: &Fit) -> Result<(), CliError> {
    let files = match places(command) {
        Places::Folder => {
            let out = out(command);
            let place = |file: &File| out.join(file.path());
            let files = fitted.files.iter().map(|(file, text)| (place(file), text.as_str()));
            let table = fitted.evidence.as_ref().map(evidence::text);
            let table = table.as_deref().map(|text| (out.join(EVIDENCE), text));
            return write_all("out", files.chain(table).collect());
        }
        Places::Files(files) => files,
    };
    let text =
        |(file, path): (Option<File>, Option<PathBuf>)| Some((path?, fitted.files.get(&file?)?.as_str()));
    outputs.write_at(&files.into_iter().filter_map(text).collect::<Vec<_>>())
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
