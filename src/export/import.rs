//! From a file of an engine to a strategy: which engine it is for, what it says, what of it is not understood.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::assumed::Assumptions;
use super::beside::{Beside, Companions, text_up_to};
use super::environment::Environment;
use super::error::ImportError;
use super::format::Role;
use super::launch::order_of;
use super::meaning::{Meaning, ModelClue, Scene};
use super::reader::Reader;
use super::recognised::{Source, document_of, is_kin, recognised};
use super::runner::Runner;
use super::syntax::{Document, Found, Place, Syntax};
use super::targets::Target;
use crate::strategy::{Axis, MeshOrder};
use crate::units::Bytes;

/// The largest file that is read as a configuration.
const LARGEST_FILE: Bytes = Bytes::mib(1);

/// The text of a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    pub path: &'a str,
    pub text: &'a str,
    /// The engine's rank on each device, where a file beside it says so.
    pub ranks: Option<&'a [u64]>,
    pub beside: Beside<'a>,
}

/// A configuration whose engine, or the program that drives one, is known.
#[derive(Clone)]
pub struct Imported {
    pub source: Source,
    pub document: Document,
    pub path: String,
    ranks: Option<Vec<u64>>,
    companions: Companions,
    assumed: Assumptions,
}

/// What a configuration says.
#[derive(Clone, Debug)]
pub struct Understood {
    pub runner: Runner,
    pub meaning: Meaning,
    /// Settings that may matter and are not understood.
    pub left: Vec<Left>,
}

/// A setting that may matter and is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub path: String,
    pub place: Place,
}

/// What is said of a configuration beside it.
#[derive(Clone, Debug, Default)]
pub struct Said {
    pub assumed: Assumptions,
    pub environment: Environment,
}

impl From<Assumptions> for Said {
    fn from(assumed: Assumptions) -> Self {
        Self { assumed, environment: Environment::default() }
    }
}

/// Opens the configuration in the file at `path`; `engine` is the profile that it is to be for, if one is asked for.
///
/// # Errors
/// If the file cannot be read, is not of its syntax, or no engine knows its settings.
pub fn import(path: &Path, engine: Option<&str>, said: impl Into<Said>) -> Result<Imported, ImportError> {
    let Said { assumed, environment } = said.into();
    let text = text_up_to(path, LARGEST_FILE)?;
    let beside = path.parent().map(|folder| folder.join("ranks.txt")).filter(|file| file.is_file());
    let ranks = match &beside {
        None => None,
        Some(file) => Some(ranks(&text_up_to(file, LARGEST_FILE)?, file)?),
    };
    let shown = path.display().to_string();
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let companions = Companions::new(folder, environment.clone(), beside.into_iter().collect());
    let (source, mut document) = recognised(&shown, &text, engine, Beside::Folder(&companions))?;
    environment.was_asked(&document)?;
    assumed.on(&mut document);
    Ok(Imported { source, document, path: shown, ranks, companions, assumed })
}

/// Which model the settings of `document`, a file of `target`, are for, where they say it.
///
/// # Errors
/// If a setting of the model has a value that will not do.
pub fn clue(target: Target, document: &Document) -> Result<Option<ModelClue>, ImportError> {
    target.dialect.model(&Reader::new(document))
}

impl Imported {
    /// Which model the settings are for, where they say it.
    ///
    /// # Errors
    /// As [`clue`].
    pub fn model(&self) -> Result<Option<ModelClue>, ImportError> {
        match self.source {
            Source::Engine(target) => clue(target, &self.document),
            Source::Program(format) => format.model(&self.reader()),
        }
    }

    /// What the settings mean.
    ///
    /// # Errors
    /// If the engine would refuse a setting, one is no setting of the engine, or what is needed is said nowhere.
    pub fn understood(&self, scene: &Scene<'_>) -> Result<Understood, ImportError> {
        let given = Given {
            path: &self.path,
            text: &self.document.text,
            ranks: self.ranks.as_deref(),
            beside: self.beside(),
        };
        understood(self.source, &self.document, &given, Some(&self.assumed), scene)
    }

    /// The engine's own version, where the file is of one.
    pub fn target(&self) -> Option<Target> {
        match self.source {
            Source::Engine(target) => Some(target),
            Source::Program(_) => None,
        }
    }

    fn reader(&self) -> Reader<'_> {
        Reader::new(&self.document).with(self.beside()).assuming(Some(&self.assumed))
    }

    /// Where the files are that it names.
    pub fn beside(&self) -> Beside<'_> {
        Beside::Folder(&self.companions)
    }

    /// The files beside it that were read so far.
    pub fn companions(&self) -> Vec<PathBuf> {
        self.companions.read()
    }

    /// What is assumed of it: one sentence each.
    pub fn assumed(&self) -> Vec<String> {
        self.assumed.sentences()
    }
}

/// That what runs a file is of the engine `name` that was asked for.
///
/// # Errors
/// If it is another.
pub fn is_run_by(path: &str, runner: Runner, name: &str) -> Result<(), ImportError> {
    let own = runner.profile();
    is_kin(name, own).then_some(()).ok_or_else(|| ImportError::OtherEngine {
        path: path.to_owned(),
        runner: own.to_owned(),
        engine: name.to_owned(),
    })
}

/// What the settings of `given`, a file of `target`, mean.
///
/// # Errors
/// If it is not of the target's syntax, or as [`Imported::understood`].
pub fn meaning_of(target: Target, given: &Given<'_>, scene: &Scene<'_>) -> Result<Understood, ImportError> {
    meant(Source::Engine(target), target.dialect.syntax(), given, scene)
}

/// The same of any source, in one of its syntaxes.
///
/// # Errors
/// As [`meaning_of`].
pub fn meant(
    source: Source,
    syntax: Syntax,
    given: &Given<'_>,
    scene: &Scene<'_>,
) -> Result<Understood, ImportError> {
    let document = document_of(source, syntax, given)?;
    understood(source, &document, given, None, scene)
}

fn understood(
    source: Source,
    document: &Document,
    given: &Given<'_>,
    assumed: Option<&Assumptions>,
    scene: &Scene<'_>,
) -> Result<Understood, ImportError> {
    let beneath = match source {
        Source::Engine(target) => target.dialect.beneath(document),
        Source::Program(_) => None,
    };
    let reader = Reader::new(document).upon(beneath.as_ref()).with(given.beside).assuming(assumed);
    let Understood { runner, mut meaning, mut left } = match source {
        Source::Engine(target) => of_engine(target, &reader, scene)?,
        Source::Program(format) => {
            let read = format.read(&reader, scene)?;
            reader.sections(&[])?;
            Understood { runner: read.runner, meaning: read.meaning, left: read.left }
        }
    };
    let order = match given.ranks {
        None => meaning.order,
        Some(ranks) => {
            let (order, shard) = placed(&meaning, scene, ranks).ok_or_else(|| ImportError::Missing {
                path: "ranks.txt".to_owned(),
                rule: "its ranks lie in no order of the axes".to_owned(),
            })?;
            meaning.draft.shard = shard;
            order
        }
    };
    meaning.draft.order = (order != MeshOrder::default()).then_some(order);
    if let Some(typed) = scene.typed {
        meaning.close(typed);
    }
    decided(source, &reader, &mut meaning)?;
    left.extend(left_over(source, &reader)?);
    if let Some(assumed) = assumed {
        assumed.were_asked(&|path| reader.was_asked(path), &reader.asked())?;
    }
    Ok(Understood { runner, meaning, left })
}

/// That no word of a script may be more arguments; and what of its settings hangs on what is taken as not given.
fn decided(source: Source, reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let document = reader.document();
    let is_word = |found: &&Found| found.is_open && found.path.starts_with('$');
    if let Some(found) = document.found.iter().find(is_word) {
        return Err(reader.undecided(found));
    }
    let mut changes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, hang) in &document.hangs {
        if reader.was_asked(path) && !source.is_idle(path) {
            for name in &hang.presumed {
                changes.entry(name).or_default().insert(path);
            }
        }
    }
    for (name, paths) in changes {
        let paths: Vec<String> = paths.into_iter().map(|path| format!("`{path}`")).collect();
        let paths = paths.join(", ");
        meaning.notes.push(match name.parse::<u64>() {
            Ok(_) => format!("The script is read as run without arguments; with some, {paths} may be another (--env 1=VALUE)."),
            Err(_) => format!("`{name}` is taken as not given, as the script says what holds then; --env {name}=VALUE changes {paths}."),
        });
    }
    if let Some(script) = &document.script {
        meaning.notes.extend(script.notes.iter().cloned());
    }
    Ok(())
}

/// What the settings of `reader` mean to `target`, or to the engine that it hands them to.
fn of_engine(target: Target, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Understood, ImportError> {
    let dialect = target.dialect;
    // So that its settings count as read. The model itself is known, so what they leave out is no matter.
    match dialect.model(reader) {
        Ok(_) | Err(ImportError::Unsaid { .. }) => {}
        Err(error) => return Err(error),
    }
    if let Some(read) = dialect.handed(reader, scene)? {
        return Ok(Understood { runner: read.runner, meaning: read.meaning, left: read.left });
    }
    let meaning = dialect.read(reader, scene)?;
    reader.sections(dialect.harmless())?;
    Ok(Understood { runner: Runner::Engine(target), meaning, left: Vec::new() })
}

/// What `document`, made of settings of `reader` and of files beside it, means to `target`, and what of it is not
/// understood.
///
/// # Errors
/// As for a file of the target.
pub fn hand(
    target: Target,
    document: &Document,
    reader: &Reader<'_>,
    scene: &Scene<'_>,
) -> Result<(Meaning, Vec<Left>), ImportError> {
    let inner = reader.of_part(document);
    let understood = of_engine(target, &inner, scene)?;
    let mut left = understood.left;
    left.extend(left_over(Source::Engine(target), &inner)?);
    Ok((understood.meaning, left))
}

/// The settings of `reader` that nobody asked for.
fn left_over(source: Source, reader: &Reader<'_>) -> Result<Vec<Left>, ImportError> {
    let rows = match source {
        Source::Engine(target) => target.dialect.harmless().to_vec(),
        Source::Program(format) => {
            let is_idle = |role: Role| !matches!(role, Role::Read(_));
            format.keys().iter().filter(|key| is_idle(key.role)).map(|key| key.name).collect()
        }
    };
    let unknown = |found: &Found, near: Option<String>| {
        let origin = reader.document().origin(found);
        match origin.place {
            Place::Line(line) => ImportError::UnknownKey {
                path: origin.path,
                line,
                engine: source.text(),
                nearest: near.into_iter().collect(),
            },
            place => ImportError::Elsewhere {
                place: Box::new(place),
                path: origin.path,
                value: found.value.to_string(),
                rule: format!("{} has no such setting", source.text()),
                nearest: near.into_iter().collect(),
            },
        }
    };
    let mut left = Vec::new();
    // Nothing says nothing, and what is assumed is looked after apart: it may be of a file beside this one.
    let is_said =
        |found: &Found| !found.value.is_null() && reader.document().origin(found).place != Place::Assumed;
    let left_over = reader.left(&rows).into_iter().filter(|(found, _)| is_said(found));
    for (found, near) in left_over {
        let (is_strict, near) = match source {
            Source::Engine(_) => (near.is_some(), near),
            Source::Program(format) => {
                let names = format.keys().iter().map(|key| key.name);
                let near = near.or_else(|| crate::spelling::nearest(&found.path, names).into_iter().next());
                (format.is_strict(), near)
            }
        };
        if is_strict {
            return Err(unknown(found, near));
        }
        let origin = reader.document().origin(found);
        left.push(Left { path: origin.path, place: origin.place });
    }
    Ok(left)
}

/// The mesh order in which devices have these ranks, and the shard group of the draft. Where nothing is sharded, the
/// settings do not say which data ranks lie together; the ranks do.
fn placed(meaning: &Meaning, scene: &Scene<'_>, ranks: &[u64]) -> Option<(MeshOrder, Option<u64>)> {
    let draft = &meaning.draft;
    let [tensor, context, pipeline] =
        [draft.tensor, draft.context, draft.pipeline].map(|size| size.unwrap_or(1));
    let inside = tensor.checked_mul(context)?.checked_mul(pipeline)?;
    let data = draft.data.or_else(|| scene.devices.checked_div(inside))?;
    if data == 0 || u64::try_from(ranks.len()).ok()? != inside.checked_mul(data)? {
        return None;
    }
    let given = draft.shard.unwrap_or(data);
    let is_free = draft.zero.unwrap_or(0) == 0;
    let others = (1..=data).filter(|shard| is_free && data.is_multiple_of(*shard) && *shard != given);
    std::iter::once(given).chain(others).find_map(|shard| {
        let size = |axis| match axis {
            Axis::Tensor => tensor,
            Axis::Context => context,
            Axis::Shard => shard,
            Axis::Replica => data / shard.max(1),
            Axis::Pipeline => pipeline,
        };
        let order = order_of(size, meaning.order, ranks)?;
        Some((order, if shard == given { draft.shard } else { Some(shard) }))
    })
}

fn ranks(text: &str, path: &Path) -> Result<Vec<u64>, ImportError> {
    let number = |(index, line): (usize, &str)| {
        line.trim().parse().map_err(|_| ImportError::Unreadable {
            path: path.display().to_string(),
            reason: format!("line {}: a rank is needed", index + 1),
        })
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(number).collect()
}
