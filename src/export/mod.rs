//! Plans as configurations of other engines, and their configurations as strategies.
//!
//! A [`Dialect`] is one version of one engine: it writes the settings that make the engine run a strategy, and reads
//! what settings mean. What an engine cannot say of a strategy shows where the settings are read back.

mod assumed;
pub mod beside;
mod case;
mod check;
mod decoder;
mod dialect;
mod diff;
mod differences;
mod engines;
pub mod environment;
pub mod error;
pub mod exported;
mod format;
mod formats;
pub mod import;
mod launch;
mod meaning;
mod part;
mod reader;
mod readme;
mod recognised;
mod runner;
mod settings;
pub mod syntax;
pub mod targets;

pub use assumed::Assumptions;
pub use case::Case;
pub use check::Check;
pub use decoder::Decoder;
pub use dialect::Dialect;
pub use diff::file_diff;
pub use differences::{Build, Difference};
pub use environment::Environment;
pub use error::ExportError;
pub use exported::{Exported, File, Goal, Origin, Outlook, export};
pub use format::{Format, Key, Role};
pub use formats::formats;
pub use import::{Imported, Said, clue, import};
pub use meaning::{Meaning, ModelClue, Scene};
pub use reader::Reader;
pub use recognised::Source;
pub use runner::{Reach, Runner, profile_like, profile_of};
pub use targets::{Target, targets};
