//! A folder that a run starts from: its weights, and the state that was saved with them.

use std::fs;
use std::path::Path;

use super::checkpoint::{Checkpoint, Mapped, indexed};
use super::error::WeightsError;
use super::folder::Folder;
use super::seal::{Seal, digest};
use super::{CONFIG, SAVED, STATE, Source, State, WEIGHTS, Weights};
use crate::files;
use crate::model::Model;
use crate::model::tensors::tensors;

const INDEX: &str = "model.safetensors.index.json";

/// Where a run begins that starts from a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Where the run stopped that saved the weights; at step 0 where nothing says that one did.
    WhereItStopped,
    /// At step 0, from the weights alone.
    Fresh,
}

/// The weights and state that a run starts from.
#[derive(Debug)]
pub struct Opened {
    pub weights: Weights,
    pub state: Option<State>,
    /// A note for whoever starts the run.
    pub remark: Option<String>,
}

impl Opened {
    /// Freshly drawn weights, as [`Weights::random`].
    pub fn drawn(model: &Model, seed: u64) -> Self {
        Self { weights: Weights::random(model, seed), state: None, remark: None }
    }

    /// The weights in a folder, `model.safetensors` or the files that `model.safetensors.index.json` names, and the state
    /// beside them. Files of one save must be as they were saved, and of the same save.
    ///
    /// # Errors
    /// When a file cannot be read, was changed, is of another save or is missing; or a tensor is missing or has another
    /// shape or a type that is no float.
    pub fn new(model: &Model, folder: &Path, begin: Begin) -> Result<Self, WeightsError> {
        // Files are opened while nobody puts others in their place.
        let (weights, state, config) = {
            let place = Folder::open(folder);
            let state = match begin {
                Begin::WhereItStopped => map_if_there(&place, STATE)?,
                Begin::Fresh => None,
            };
            let config = place.file(CONFIG);
            let config = config.is_file().then(|| fs::read(config).unwrap_or_default());
            (weights(&place)?, state, config)
        };
        let found = Found { weights, state, config, folder };
        let remark = found.check(begin)?;
        let tensors = tensors(model);
        let state = found.state.as_ref().map(|file| State::of(file, model)).transpose()?;
        let checkpoint = Checkpoint::find(found.weights, &tensors, "")?;
        let weights = Weights::new(tensors, Source::Checkpoint(checkpoint));
        Ok(Self { weights, state, remark })
    }
}

/// That what a run starts from is there and is made of files.
///
/// # Errors
/// Names what is missing or is no file.
pub fn look(folder: &Path) -> Result<(), WeightsError> {
    let place = Folder::open(folder);
    let has_index = place.file(INDEX).exists();
    for name in SAVED {
        let path = place.file(name);
        // Only the weights must be there.
        let is_needed = name == WEIGHTS && !has_index;
        if is_needed || path.symlink_metadata().is_ok() {
            files::regular(&path).map_err(|unread| {
                let path = place.shown(name).display().to_string();
                WeightsError::Unreadable { path, reason: unread.to_string() }
            })?;
        }
    }
    Ok(())
}

fn weights(place: &Folder<'_>) -> Result<Vec<Mapped>, WeightsError> {
    if let Some(single) = map_if_there(place, WEIGHTS)? {
        return Ok(vec![single]);
    }
    let index = place.file(INDEX);
    if !index.exists() {
        return Ok(vec![Mapped::open(&place.file(WEIGHTS), place.shown(WEIGHTS))?]);
    }
    indexed(&index)?.iter().map(|name| Mapped::open(&place.file(name), place.shown(name))).collect()
}

fn map_if_there(place: &Folder<'_>, name: &str) -> Result<Option<Mapped>, WeightsError> {
    let path = place.file(name);
    // A link that leads nowhere is there.
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    Mapped::open(&path, place.shown(name)).map(Some)
}

/// The files of a folder.
struct Found<'a> {
    weights: Vec<Mapped>,
    state: Option<Mapped>,
    config: Option<Vec<u8>>,
    folder: &'a Path,
}

impl Found<'_> {
    /// That the files are as they were saved and of one save, and what is to be said of them.
    fn check(&self, begin: Begin) -> Result<Option<String>, WeightsError> {
        let shown = |name| self.folder.join(name).display().to_string();
        let single = match self.weights.as_slice() {
            [single] => Some(single),
            _ => None,
        };
        let own = single.map(Seal::of).transpose()?.flatten();
        let of_state = self.state.as_ref().map(Seal::of).transpose()?.flatten();
        let is_sealed = own.is_some() || of_state.is_some();
        let digest_of = |file: &Mapped| digest(file.data());
        let weights = single.filter(|_| is_sealed).map(digest_of).unwrap_or_default();
        let state = self.state.as_ref().filter(|_| is_sealed).map(digest_of);
        let damaged = |name| WeightsError::Damaged { path: shown(name), what: "tensors" };
        if own.as_ref().is_some_and(|seal| seal.weights != weights) {
            return Err(damaged(WEIGHTS));
        }
        if of_state.as_ref().is_some_and(|seal| Some(&seal.state) != state.as_ref()) {
            return Err(damaged(STATE));
        }
        let weights_name = || self.weights.first().map_or_else(|| shown(WEIGHTS), Mapped::shown);
        let mixture = |name, why| WeightsError::Mixture { path: shown(name), weights: weights_name(), why };
        match (&own, &of_state) {
            (_, Some(theirs)) if theirs.weights != weights => {
                let why = match &own {
                    Some(own) if own.step != theirs.step => {
                        format!("it is of step {}, and the weights are of step {}", theirs.step, own.step)
                    }
                    _ => "it names other weights by their digest".to_owned(),
                };
                return Err(mixture(STATE, why));
            }
            (Some(own), theirs) if theirs.as_ref() != Some(own) && begin == Begin::WhereItStopped => {
                return Err(match (&self.state, theirs) {
                    (None, _) => {
                        WeightsError::NoState { path: shown(STATE), weights: weights_name(), step: own.step }
                    }
                    _ => mixture(STATE, "the weights name another state by its digest".to_owned()),
                });
            }
            _ => {}
        }
        if let (Some(seal), Some(config), Begin::WhereItStopped) = (&own, &self.config, begin)
            && digest(config) != seal.config
        {
            return Err(mixture(CONFIG, "it is another than the weights name by its digest".to_owned()));
        }
        let folder = self.folder.display();
        Ok(match (&own, &self.state, begin) {
            (Some(seal), _, Begin::Fresh) => Some(format!(
                "{folder} holds a run that stopped after step {}; with --fresh, its weights start at step 0",
                seal.step
            )),
            (None, None, Begin::WhereItStopped) => {
                Some(format!("{folder} holds weights and no state of a run, so training starts at step 0"))
            }
            (None, Some(_), _) if !is_sealed => Some(format!(
                "{folder} was saved without checksums, so nothing says that its state belongs to its weights"
            )),
            _ => None,
        })
    }
}
