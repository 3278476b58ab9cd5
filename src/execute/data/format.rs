//! The forms of data files, and how a file tells its own.

use std::path::Path;
use std::str::FromStr;

use super::DataError;

/// Bytes of llm.c's header: 256 numbers of 32 bits.
pub(super) const HEADER_BYTES: usize = 1024;

/// How token ids lie in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataFormat {
    /// Each byte is a token.
    Text,
    /// 16-bit little-endian ids.
    U16,
    /// llm.c's: a header, then 16-bit or 32-bit ids.
    Llmc,
}

/// What llm.c writes at the start of a file (`dev/data/data_common.py`).
struct Header {
    magic: i32,
    versions: &'static [i64],
    width: Width,
}

/// Version 7 is what llm.c writes for Llama 3; others who take over its form write 1.
const HEADERS: [Header; 2] = [
    Header { magic: 20240520, versions: &[1], width: Width::Two },
    Header { magic: 20240801, versions: &[7, 1], width: Width::Four },
];

/// Bytes of one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    One = 1,
    Two = 2,
    Four = 4,
}

impl FromStr for DataFormat {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        match text {
            "text" => Ok(Self::Text),
            "u16" => Ok(Self::U16),
            "llmc" => Ok(Self::Llmc),
            _ => Err(DataError::Format { value: text.to_owned() }),
        }
    }
}

impl DataFormat {
    /// A `.bin` that starts with one of llm.c's magic numbers is llm.c's, another `.bin` holds 16-bit ids, and
    /// anything else is bytes.
    pub(super) fn of(path: &Path, bytes: &[u8]) -> Self {
        match path.extension() {
            Some(extension) if extension == "bin" => match header(bytes) {
                Some(_) => Self::Llmc,
                None => Self::U16,
            },
            _ => Self::Text,
        }
    }

    /// Where the ids of a file of `length` bytes that begins with `head` start, and how wide they are; the file holds
    /// whole ids from there on. The head is that of llm.c, or the whole file where that is shorter.
    pub(super) fn layout(self, path: &Path, head: &[u8], length: u64) -> Result<(u64, Width), DataError> {
        match self {
            Self::Text => Ok((0, Width::One)),
            Self::U16 if !length.is_multiple_of(2) => {
                Err(DataError::OddLength { path: path.to_owned(), bytes: length })
            }
            Self::U16 => Ok((0, Width::Two)),
            Self::Llmc => llmc_layout(path, head, length),
        }
    }
}

fn llmc_layout(path: &Path, head: &[u8], length: u64) -> Result<(u64, Width), DataError> {
    let wrong = |field, value, expected| DataError::Header { path: path.to_owned(), field, value, expected };
    let Some(ids) = length.checked_sub(HEADER_BYTES as u64) else {
        return Err(DataError::NoHeader { path: path.to_owned(), bytes: length });
    };
    let Some(header) = header(head) else {
        let magics = HEADERS.iter().map(|header| i64::from(header.magic)).collect();
        return Err(wrong("magic number", i64::from(field(head, 0).unwrap_or_default()), magics));
    };
    let version = i64::from(field(head, 1).unwrap_or_default());
    if !header.versions.contains(&version) {
        return Err(wrong("version", version, header.versions.to_vec()));
    }
    let count = i64::from(field(head, 2).unwrap_or_default());
    let held = ids / header.width as u64;
    if count != held as i64 || !ids.is_multiple_of(header.width as u64) {
        return Err(wrong("number of tokens", count, vec![held as i64]));
    }
    Ok((HEADER_BYTES as u64, header.width))
}

fn header(bytes: &[u8]) -> Option<&'static Header> {
    let magic = field(bytes, 0)?;
    HEADERS.iter().find(|header| header.magic == magic)
}

/// Number `index` of the header.
fn field(bytes: &[u8], index: usize) -> Option<i32> {
    let bytes = bytes.get(4 * index..)?.first_chunk()?;
    Some(i32::from_le_bytes(*bytes))
}

/// `1 or 7 would do`.
pub(super) fn would_do(values: &[i64]) -> String {
    let values: Vec<String> = values.iter().map(i64::to_string).collect();
    format!("{} would do", values.join(" or "))
}
