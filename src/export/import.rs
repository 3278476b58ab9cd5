//! From a file of an engine to a strategy: which engine it is for, what it says, what of it is not understood.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::error::ImportError;
use super::launch::order_of;
use super::meaning::{Meaning, ModelClue, Scene};
use super::reader::Reader;
use super::syntax::{Document, Syntax};
use super::targets::{Target, targets};
use crate::files::{self, Unread};
use crate::profile::engines::root;
use crate::strategy::{Axis, MeshOrder};
use crate::units::Bytes;

/// The largest file that is read as a configuration.
const LARGEST_FILE: Bytes = Bytes::mib(1);

/// The largest file that a configuration names.
const LARGEST_COMPANION: Bytes = Bytes::mib(64);

/// Where the files are that a configuration names.
#[derive(Clone, Copy, Debug)]
pub enum Beside<'a> {
    Nothing,
    /// On disk, in the folder of the configuration.
    Folder(&'a Companions),
    /// Names and texts.
    Files(&'a [(String, String)]),
}

impl Beside<'_> {
    /// The text of `name`.
    ///
    /// # Errors
    /// In words, if there is none that can be read.
    pub(super) fn text(self, name: &str) -> Result<String, String> {
        match self {
            Self::Nothing => Err("it names a file, and none lies beside the settings".to_owned()),
            Self::Files(files) => {
                let file = files.iter().find(|(known, _)| known == name);
                file.map(|(_, text)| text.clone()).ok_or_else(|| "there is no such file".to_owned())
            }
            Self::Folder(companions) => companions.text(name).map_err(|error| error.to_string()),
        }
    }
}

/// The files that a configuration names, in its folder.
#[derive(Clone, Debug, Default)]
pub struct Companions {
    folder: PathBuf,
    /// Those that were read.
    read: RefCell<Vec<PathBuf>>,
}

impl Companions {
    fn text(&self, name: &str) -> Result<String, ImportError> {
        let path = self.folder.join(name);
        let text = text_up_to(&path, LARGEST_COMPANION)?;
        self.read.borrow_mut().push(path);
        Ok(text)
    }
}

/// The text of a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    pub path: &'a str,
    pub text: &'a str,
    /// The engine's rank on each device, where a file beside it says so.
    pub ranks: Option<&'a [u64]>,
    pub beside: Beside<'a>,
}

/// A configuration whose engine is known.
#[derive(Clone)]
pub struct Imported {
    pub target: Target,
    pub document: Document,
    pub path: String,
    ranks: Option<Vec<u64>>,
    companions: Companions,
}

/// What a configuration says.
#[derive(Clone, Debug)]
pub struct Understood {
    pub meaning: Meaning,
    /// Settings that may matter and are not understood: name and line.
    pub left: Vec<(String, usize)>,
}

/// Opens the configuration in the file at `path`; `engine` is the profile that it is to be for, if one is asked for.
///
/// # Errors
/// If the file cannot be read, is not of its syntax, or no engine knows its settings.
pub fn import(path: &Path, engine: Option<&str>) -> Result<Imported, ImportError> {
    let text = text_of(path)?;
    let beside = path.parent().map(|folder| folder.join("ranks.txt")).filter(|file| file.is_file());
    let ranks = match &beside {
        None => None,
        Some(file) => Some(ranks(&text_of(file)?, file)?),
    };
    let shown = path.display().to_string();
    let (target, document) = recognised(&shown, &text, engine)?;
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let companions = Companions { folder, read: RefCell::new(beside.into_iter().collect()) };
    Ok(Imported { target, document, path: shown, ranks, companions })
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
        clue(self.target, &self.document)
    }

    /// What the settings mean.
    ///
    /// # Errors
    /// If the engine would refuse a setting, one is no setting of the engine, or what is needed is said nowhere.
    pub fn understood(&self, scene: &Scene<'_>) -> Result<Understood, ImportError> {
        understood(self.target, &self.document, self.ranks.as_deref(), self.beside(), scene)
    }

    /// Where the files are that it names.
    pub fn beside(&self) -> Beside<'_> {
        Beside::Folder(&self.companions)
    }

    /// The files beside it that were read so far.
    pub fn companions(&self) -> Vec<PathBuf> {
        self.companions.read.borrow().clone()
    }
}

/// What the settings of `given`, a file of `target`, mean.
///
/// # Errors
/// If it is not of the target's syntax, or as [`Imported::understood`].
pub fn meaning_of(target: Target, given: &Given<'_>, scene: &Scene<'_>) -> Result<Understood, ImportError> {
    let document = target
        .dialect
        .syntax()
        .read(given.text)
        .map_err(|error| ImportError::Syntax { path: given.path.to_owned(), error })?;
    understood(target, &document, given.ranks, given.beside, scene)
}

fn understood(
    target: Target,
    document: &Document,
    ranks: Option<&[u64]>,
    beside: Beside<'_>,
    scene: &Scene<'_>,
) -> Result<Understood, ImportError> {
    let dialect = target.dialect;
    let beneath = dialect.beneath(document);
    let reader = Reader::new(document).upon(beneath.as_ref()).with(beside);
    // So that its settings count as read. The model itself is known, so what they leave out is no matter.
    match dialect.model(&reader) {
        Ok(_) | Err(ImportError::Unsaid { .. }) => {}
        Err(error) => return Err(error),
    }
    let mut meaning = dialect.read(&reader, scene)?;
    reader.sections(dialect.harmless())?;
    let order = match ranks {
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
    let mut left = Vec::new();
    for (found, near) in reader.left(dialect.harmless()) {
        let line = document.line(found);
        if let Some(near) = near {
            let engine = target.text();
            return Err(ImportError::UnknownKey {
                path: found.path.clone(),
                line,
                engine,
                nearest: vec![near],
            });
        }
        left.push((found.path.clone(), line));
    }
    Ok(Understood { meaning, left })
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

/// The engine that knows most of the settings, among those of the syntaxes that the file may have.
fn recognised(path: &str, text: &str, engine: Option<&str>) -> Result<(Target, Document), ImportError> {
    let mut best: Option<(usize, Target, Document)> = None;
    let mut first_error = None;
    for syntax in syntaxes(path) {
        let document = match syntax.read(text) {
            Ok(document) => document,
            Err(error) => {
                first_error.get_or_insert(error);
                continue;
            }
        };
        let candidates = targets().filter(|target| {
            target.dialect.syntax() == *syntax && engine.is_none_or(|name| reads(name, *target))
        });
        for target in candidates {
            let marks = target.dialect.recognises(&document);
            if marks > best.as_ref().map_or(0, |(most, ..)| *most) {
                best = Some((marks, target, document.clone()));
            }
        }
    }
    if let Some((_, target, document)) = best {
        return Ok((target, document));
    }
    if let Some(error) = first_error {
        return Err(ImportError::Syntax { path: path.to_owned(), error });
    }
    let names = |wanted: &[Syntax]| {
        let of_syntax = targets().filter(|target| wanted.contains(&target.dialect.syntax()));
        let mut names: Vec<String> = of_syntax.map(|target| target.dialect.name().to_owned()).collect();
        names.dedup();
        names
    };
    let known = names(syntaxes(path));
    let reason = match engine {
        Some(engine) => format!("it has no settings of {engine}"),
        None => format!("it has no settings of {}", known.join(", ")),
    };
    Err(ImportError::UnknownFile { path: path.to_owned(), reason, nearest: known })
}

/// Whether the profile called `name` is for files of `target`: its own, or one that inherits from it, as NeMo's from
/// Megatron's.
fn reads(name: &str, target: Target) -> bool {
    let own = target.dialect.profile();
    name == own || root(name) == own
}

/// The syntaxes that a file of this name may have.
fn syntaxes(path: &str) -> &'static [Syntax] {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "toml" => &[Syntax::Toml],
        "json" => &[Syntax::Json],
        "yaml" | "yml" => &[Syntax::Yaml],
        "py" => &[Syntax::Python],
        _ => &[Syntax::Arguments, Syntax::Overrides],
    }
}

fn text_of(path: &Path) -> Result<String, ImportError> {
    text_up_to(path, LARGEST_FILE)
}

fn text_up_to(path: &Path, largest: Bytes) -> Result<String, ImportError> {
    let text = files::text(path, largest).map_err(|unread| {
        let reason = match unread {
            Unread::Folder => "it is a directory; name the file that holds the settings".to_owned(),
            other => other.to_string(),
        };
        ImportError::Unreadable { path: path.display().to_string(), reason }
    })?;
    Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned))
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
