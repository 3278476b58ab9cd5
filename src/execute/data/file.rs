//! A file of token ids, mapped into memory.

#![expect(unsafe_code, reason = "mapping a file")]

use std::fs::File;
use std::path::Path;

use memmap2::Mmap;

use super::format::Width;
use super::{DataError, DataFormat};

/// Token ids in a file; all of them are below the vocabulary that it was opened for.
pub struct TokenFile {
    map: Mmap,
    /// Bytes before the first id.
    start: usize,
    width: Width,
}

impl TokenFile {
    /// Opens `path` in the given form, or in that which it has by its name and start, and checks every id against
    /// `vocabulary`. The file must not change while it is open.
    pub fn open(path: &Path, format: Option<DataFormat>, vocabulary: u32) -> Result<Self, DataError> {
        let unreadable = |reason: std::io::Error| DataError::Unreadable {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let file = File::open(path).map_err(unreadable)?;
        // SAFETY: the map is only read, and read as bytes, of which any are valid. Whoever changes the file while
        // it is open breaks what `open` says; ids are looked up with their bounds checked.
        let map = unsafe { Mmap::map(&file) }.map_err(unreadable)?;
        let format = format.unwrap_or_else(|| DataFormat::of(path, &map));
        let (start, width) = format.layout(path, &map)?;
        let file = Self { map, start, width };
        match file.first_from(vocabulary) {
            None => Ok(file),
            Some((position, token)) => {
                Err(DataError::Token { path: path.to_owned(), position, token, vocabulary })
            }
        }
    }

    /// How many tokens there are.
    pub fn count(&self) -> u64 {
        (self.ids().len() / self.width as usize) as u64
    }

    /// Writes the tokens from `position` on to `tokens`; `position + tokens.len()` is at most [`Self::count`].
    pub fn read(&self, position: u64, tokens: &mut [u32]) {
        let width = self.width as usize;
        let ids = &self.ids()[position as usize * width..][..tokens.len() * width];
        match self.width {
            Width::One => tokens.iter_mut().zip(ids).for_each(|(token, id)| *token = u32::from(*id)),
            Width::Two => tokens.iter_mut().zip(pairs(ids)).for_each(|(token, id)| *token = id),
            Width::Four => tokens.iter_mut().zip(fours(ids)).for_each(|(token, id)| *token = id),
        }
    }

    fn ids(&self) -> &[u8] {
        &self.map[self.start..]
    }

    /// The first token that is not below `limit`, and where it stands.
    fn first_from(&self, limit: u32) -> Option<(u64, u32)> {
        let ids = self.ids();
        match self.width {
            Width::One => first_from(ids.iter().map(|id| u32::from(*id)), limit),
            Width::Two => first_from(pairs(ids), limit),
            Width::Four => first_from(fours(ids), limit),
        }
    }
}

fn pairs(ids: &[u8]) -> impl Iterator<Item = u32> + Clone + '_ {
    ids.as_chunks().0.iter().map(|id| u32::from(u16::from_le_bytes(*id)))
}

fn fours(ids: &[u8]) -> impl Iterator<Item = u32> + Clone + '_ {
    ids.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id))
}

/// One pass without a branch an id; only where it finds something, another that says where.
fn first_from(ids: impl Iterator<Item = u32> + Clone, limit: u32) -> Option<(u64, u32)> {
    let largest =
        ids.clone().fold(None, |largest: Option<u32>, id| Some(largest.map_or(id, |old| old.max(id))));
    if largest? < limit {
        return None;
    }
    (0..).zip(ids).find(|(_, id)| *id >= limit)
}
