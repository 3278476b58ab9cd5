//! Training data: token files and a synthetic stream, cut into windows and dealt out to data ranks.
//!
//! Everything is a function of the step: nothing is kept between steps, so a run resumes at any of them.

mod batches;
mod error;
mod file;
mod format;
mod permutation;
mod synthetic;

#[cfg(test)]
mod tests;

pub use batches::Batches;
pub use error::DataError;
pub use file::TokenFile;
pub use format::DataFormat;
pub use permutation::Permutation;
pub use synthetic::Synthetic;

/// A stream of token ids, all below the vocabulary that it was opened for.
pub enum Tokens {
    File(TokenFile),
    Synthetic(Synthetic),
}

impl Tokens {
    /// How many there are.
    pub fn count(&self) -> u64 {
        match self {
            Self::File(file) => file.count(),
            Self::Synthetic(_) => Synthetic::COUNT,
        }
    }

    /// Writes the tokens from `position` on to `tokens`; `position + tokens.len()` is at most [`Self::count`].
    ///
    /// # Errors
    /// As [`TokenFile::read`].
    pub fn read(&self, position: u64, tokens: &mut [u32]) -> Result<(), DataError> {
        match self {
            Self::File(file) => file.read(position, tokens),
            Self::Synthetic(stream) => {
                stream.read(position, tokens);
                Ok(())
            }
        }
    }
}
