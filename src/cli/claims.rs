//! The files that a command reads and writes: nothing is written over what it reads, nor twice at one place.

use std::path::Path;

use super::error::CliError;
use crate::files::Place;

/// The files of a command, by the flags that name them.
#[derive(Debug, Default)]
pub struct Claims {
    read: Vec<(&'static str, Place)>,
    written: Vec<Written>,
}

#[derive(Debug)]
struct Written {
    field: &'static str,
    place: Place,
    is_folder: bool,
}

impl Claims {
    /// The same with a file that `what` names and the command reads. What is not there cannot be written over.
    pub fn reads(mut self, what: &'static str, path: Option<impl AsRef<Path>>) -> Self {
        let place = path.and_then(|path| Place::of(path.as_ref()).ok());
        self.read.extend(place.filter(|place| place.found.is_some()).map(|place| (what, place)));
        self
    }

    /// That flag `field`, which was given as `typed`, may write the file at `place`.
    ///
    /// # Errors
    /// If the command reads it, or another flag writes there.
    pub fn writes(&mut self, field: &'static str, typed: &Path, place: &Place) -> Result<(), CliError> {
        if place.is_shared() {
            return Ok(());
        }
        self.spares(field, typed, place)?;
        let refused = |rule: String| Err(CliError::usage(field, &typed.display().to_string(), rule));
        for other in &self.written {
            let is_above = place.is_in(&other.place) && !other.is_folder;
            if is_above || other.place.is_in(place) {
                return refused(format!("--{} writes there too", other.field));
            }
        }
        self.written.push(Written { field, place: place.clone(), is_folder: false });
        Ok(())
    }

    /// That what flag `field`, which was given as `typed`, writes at `place` is nothing that is read.
    ///
    /// # Errors
    /// If it is.
    pub fn spares(&self, field: &str, typed: &Path, place: &Place) -> Result<(), CliError> {
        match self.read.iter().find(|(_, read)| read.is(place)) {
            Some((what, _)) => {
                let rule = format!("{what} is read from there, and would be lost");
                Err(CliError::usage(field, &typed.display().to_string(), rule))
            }
            None => Ok(()),
        }
    }

    /// That flag `field`, which was given as `typed`, may make the folder at `place`; what goes into it is a claim of its
    /// own.
    ///
    /// # Errors
    /// If a file is to be there or above it.
    pub fn fills(&mut self, field: &'static str, typed: &Path, place: &Place) -> Result<(), CliError> {
        if let Some(other) = self.written.iter().find(|other| !other.is_folder && place.is_in(&other.place)) {
            let rule = format!("--{} writes a file there", other.field);
            return Err(CliError::usage(field, &typed.display().to_string(), rule));
        }
        self.written.push(Written { field, place: place.clone(), is_folder: true });
        Ok(())
    }
}
