//! The metadata by which the files of a save vouch for themselves and one another (`__metadata__`): so that a mixture of two
//! saves, or one with a byte changed, is not taken for a save.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::checkpoint::Mapped;
use super::error::WeightsError;

const VERSION: &str = "meshwright.version";
/// The version that this program writes and reads.
const FORMAT: &str = "1";
const STEP: &str = "meshwright.step";
const WEIGHTS: &str = "meshwright.weights";
const STATE: &str = "meshwright.state";
const CONFIG: &str = "meshwright.config";
/// Of the file's header, with zeros in its own place.
const CHECKSUM: &str = "meshwright.checksum";
const KEYS: [&str; 6] = [VERSION, STEP, WEIGHTS, STATE, CONFIG, CHECKSUM];
/// The prefix of all our keys.
const PREFIX: &str = "meshwright.";

/// In place of a digest that is not known yet.
const BLANK: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The facts that all files of one save agree on. Digests are SHA-256 in hexadecimal: of all bytes after the header of a
/// safetensors file, of the whole `config.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seal {
    /// Steps done.
    pub step: u64,
    pub weights: String,
    pub state: String,
    pub config: String,
}

impl Seal {
    /// The seal of a save whose files are not written yet: as long as that which it will have.
    pub fn blank(step: u64) -> Self {
        let [weights, state, config] = [BLANK; 3].map(str::to_owned);
        Self { step, weights, state, config }
    }

    /// The seal as metadata, with a blank checksum.
    pub fn metadata(&self) -> Map<String, Value> {
        let entries = [
            (VERSION, FORMAT),
            (STEP, &self.step.to_string()),
            (WEIGHTS, &self.weights),
            (STATE, &self.state),
            (CONFIG, &self.config),
            (CHECKSUM, BLANK),
        ];
        entries.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect()
    }

    /// The seal of a file whose header is as it was written; none of a file that has none of our keys.
    ///
    /// # Errors
    /// If the header is not as it was written.
    pub fn of(file: &Mapped) -> Result<Option<Self>, WeightsError> {
        let empty = std::collections::HashMap::new();
        let metadata = file.metadata.metadata().as_ref().unwrap_or(&empty);
        if !metadata.keys().any(|key| key.starts_with(PREFIX)) {
            return Ok(None);
        }
        let damaged = || WeightsError::Damaged { path: file.shown(), what: "header and metadata" };
        let [version, step, weights, state, config, checksum] = KEYS.map(|key| metadata.get(key));
        let header = std::str::from_utf8(file.header()).map_err(|_| damaged())?;
        let is_sound = checksum.is_some_and(|own| digest(header.replacen(own, BLANK, 1).as_bytes()) == *own);
        let step = step.and_then(|step| step.parse().ok());
        match (version, step, weights, state, config) {
            (Some(version), Some(step), Some(weights), Some(state), Some(config))
                if is_sound && version == FORMAT =>
            {
                let [weights, state, config] = [weights, state, config].map(Clone::clone);
                Ok(Some(Self { step, weights, state, config }))
            }
            _ => Err(damaged()),
        }
    }
}

/// `header` with its checksum in the place that was left for it.
pub(super) fn sealed(header: &str) -> String {
    let empty = format!("\"{CHECKSUM}\":\"{BLANK}\"");
    header.replacen(&empty, &format!("\"{CHECKSUM}\":\"{}\"", digest(header.as_bytes())), 1)
}

/// SHA-256 in hexadecimal.
pub(super) fn digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}
