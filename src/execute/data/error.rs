//! Why data cannot be trained on.

use std::path::PathBuf;

use thiserror::Error;

/// What is wrong with a data file, or with the batches asked of it.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum DataError {
    #[error("data format `{value}` is not known; text, u16 and llmc are")]
    Format { value: String },
    #[error("cannot read data file `{}`: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    /// 16-bit ids that do not fill the file.
    #[error("data file `{}` has {bytes} bytes, which is no whole number of 16-bit token ids", path.display())]
    OddLength { path: PathBuf, bytes: u64 },
    #[error(
        "data file `{}` has {bytes} bytes, and a header of llm.c takes {}",
        path.display(), super::format::HEADER_BYTES
    )]
    NoHeader { path: PathBuf, bytes: u64 },
    #[error(
        "data file `{}`: the header's {field} is {value}; {}", path.display(), super::format::would_do(expected)
    )]
    Header { path: PathBuf, field: &'static str, value: i64, expected: Vec<i64> },
    #[error(
        "data file `{}`: token {position} is {token}; the model's vocabulary is {vocabulary}, its last id {}",
        path.display(), vocabulary.saturating_sub(1)
    )]
    Token { path: PathBuf, position: u64, token: u32, vocabulary: u32 },
    /// Too few tokens for one step.
    #[error(
        "the data has {tokens} tokens, {windows} windows of {sequence_length}; a global batch of {global_batch} \
         needs {needed} tokens"
    )]
    TooShort { tokens: u64, windows: u64, sequence_length: u64, global_batch: u64, needed: u64 },
    #[error("global batch {global_batch} cannot be dealt out to {data_ranks} data ranks evenly")]
    Share { global_batch: u64, data_ranks: u64 },
    #[error("sequence length {value} leaves nothing to train on; 1 is the least")]
    SequenceLength { value: u64 },
    #[error("a vocabulary of {vocabulary} leaves nothing to predict; 2 is the least")]
    Vocabulary { vocabulary: u32 },
}
