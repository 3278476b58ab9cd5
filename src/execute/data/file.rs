//! A file of token ids, of which only what a step needs is read.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::format::{HEADER_BYTES, Width};
use super::{DataError, DataFormat};
use crate::files;

/// Bytes that are checked at once.
const PIECE: usize = 1 << 20;

/// Token ids in a file; all of them are below the vocabulary that it was opened for.
pub struct TokenFile {
    path: PathBuf,
    file: Mutex<File>,
    /// Bytes before the first id.
    start: u64,
    width: Width,
    count: u64,
    vocabulary: u32,
}

impl TokenFile {
    /// Opens `path` in the given form, or in that which it has by its name and start, and checks every id against
    /// `vocabulary`.
    pub fn open(path: &Path, format: Option<DataFormat>, vocabulary: u32) -> Result<Self, DataError> {
        let unreadable = |reason: String| DataError::Unreadable { path: path.to_owned(), reason };
        let mut file = files::regular(path).map_err(|unread| unreadable(unread.to_string()))?;
        let failed = |error: io::Error| unreadable(error.to_string());
        let length = file.metadata().map_err(failed)?.len();
        let mut head = Vec::new();
        (&mut file).take(HEADER_BYTES as u64).read_to_end(&mut head).map_err(failed)?;
        let format = format.unwrap_or_else(|| DataFormat::of(path, &head));
        let (start, width) = format.layout(path, &head, length)?;
        let count = length.saturating_sub(start) / width as u64;
        let file = Self { path: path.to_owned(), file: Mutex::new(file), start, width, count, vocabulary };
        file.check()?;
        Ok(file)
    }

    /// How many tokens there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Writes the tokens from `position` on to `tokens`; `position + tokens.len()` is at most [`Self::count`].
    ///
    /// # Errors
    /// If the file has become another one since it was opened: shorter, or with ids that the vocabulary has not.
    pub fn read(&self, position: u64, tokens: &mut [u32]) -> Result<(), DataError> {
        let mut bytes = vec![0; tokens.len() * self.width as usize];
        self.ids(position, &mut bytes)?;
        match self.width {
            Width::One => tokens.iter_mut().zip(&bytes).for_each(|(token, id)| *token = u32::from(*id)),
            Width::Two => tokens.iter_mut().zip(pairs(&bytes)).for_each(|(token, id)| *token = id),
            Width::Four => tokens.iter_mut().zip(fours(&bytes)).for_each(|(token, id)| *token = id),
        }
        self.judge(position, tokens.iter().copied())
    }

    /// Checks every id.
    fn check(&self) -> Result<(), DataError> {
        let width = self.width as u64;
        let each = PIECE as u64 / width;
        let mut bytes = vec![0; PIECE];
        let mut position = 0;
        while position < self.count {
            let now = each.min(self.count - position);
            let bytes = &mut bytes[..(now * width) as usize];
            self.ids(position, bytes)?;
            match self.width {
                Width::One => self.judge(position, bytes.iter().map(|id| u32::from(*id))),
                Width::Two => self.judge(position, pairs(bytes)),
                Width::Four => self.judge(position, fours(bytes)),
            }?;
            position += now;
        }
        Ok(())
    }

    /// The ids from `position` on, as they lie in the file.
    fn ids(&self, position: u64, bytes: &mut [u8]) -> Result<(), DataError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let place = SeekFrom::Start(self.start + position * self.width as u64);
        file.seek(place).and_then(|_| file.read_exact(bytes)).map_err(|error| {
            let reason = match error.kind() {
                ErrorKind::UnexpectedEof => "it became shorter while it was read".to_owned(),
                _ => error.to_string(),
            };
            DataError::Unreadable { path: self.path.clone(), reason }
        })
    }

    /// That all ids, of which the first is at `position`, are in the vocabulary. One pass without a branch an id; only
    /// where it finds something, another that says where.
    fn judge(&self, position: u64, ids: impl Iterator<Item = u32> + Clone) -> Result<(), DataError> {
        let vocabulary = self.vocabulary;
        let largest =
            ids.clone().fold(None, |largest: Option<u32>, id| Some(largest.map_or(id, |old| old.max(id))));
        if largest.is_none_or(|largest| largest < vocabulary) {
            return Ok(());
        }
        match (position..).zip(ids).find(|(_, id)| *id >= vocabulary) {
            Some((position, token)) => {
                Err(DataError::Token { path: self.path.clone(), position, token, vocabulary })
            }
            None => Ok(()),
        }
    }
}

fn pairs(ids: &[u8]) -> impl Iterator<Item = u32> + Clone + '_ {
    ids.as_chunks().0.iter().map(|id| u32::from(u16::from_le_bytes(*id)))
}

fn fours(ids: &[u8]) -> impl Iterator<Item = u32> + Clone + '_ {
    ids.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id))
}
