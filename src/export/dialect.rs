//! What one version of an engine reads and writes.

use super::case::Case;
use super::check::Check;
use super::differences::Build;
use super::error::ImportError;
use super::format::Read;
use super::launch::Program;
use super::meaning::{Meaning, ModelClue, Scene};
use super::reader::Reader;
use super::settings::Settings;
use super::syntax::{Comment, Document, Syntax};
use crate::profile::capabilities::Supports;

/// One version of one engine.
pub trait Dialect: Sync {
    /// The name that `--to` takes.
    fn name(&self) -> &'static str;

    /// The version whose files these are.
    fn version(&self) -> &'static str;

    /// The commit or release that its rules were read from.
    fn source(&self) -> &'static str;

    /// The profile that predicts what it runs.
    fn profile(&self) -> &'static str;

    /// Narrows what the profile offers to what this version does.
    fn narrow(&self, _supports: &mut Supports) {}

    /// Widens what the profile offers by what files can say and plans do not choose.
    fn widen(&self, _supports: &mut Supports) {}

    /// The name of the file that holds the settings.
    fn file(&self) -> &'static str;

    /// The syntax of that file.
    fn syntax(&self) -> Syntax;

    /// Other syntaxes in which it has the same settings.
    fn other_syntaxes(&self) -> &'static [Syntax] {
        &[]
    }

    /// The settings that make the engine run `case`, or the nearest that it has.
    fn settings(&self, case: &Case<'_>) -> Settings;

    /// The text of the file. `head` are the lines that it begins with, as comments.
    fn text(&self, _case: &Case<'_>, settings: &Settings, head: &[Comment]) -> String {
        self.syntax().write(settings, head)
    }

    /// Other files, by name: schedules, models.
    fn companions(&self, _case: &Case<'_>) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The model that the engine builds from `settings`; none where it is made by hand, as a script of the user's does.
    fn builds(&self, _case: &Case<'_>, _settings: &Settings) -> Option<Build> {
        None
    }

    /// Facts of `case` that no setting says, but for the model: one sentence each.
    fn unsaid(&self, _case: &Case<'_>) -> Vec<String> {
        Vec::new()
    }

    /// The engine's own rules.
    fn checks(&self, case: &Case<'_>) -> Vec<Check>;

    /// What is run on each node or rank.
    fn program(&self, case: &Case<'_>) -> Program;

    /// Names that tell its files from those of other engines of this syntax.
    fn marks(&self) -> &'static [&'static str];

    /// Settings that shape no strategy, by name; `section.*` stands for all of a section.
    fn harmless(&self) -> &'static [&'static str];

    /// Which model the settings are for, where they say it.
    fn model(&self, _reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
        Ok(None)
    }

    /// Settings that hold where `document` says nothing: those of a configuration that it begins with.
    fn beneath(&self, _document: &Document) -> Option<Document> {
        None
    }

    /// What the settings mean.
    ///
    /// # Errors
    /// If a setting has a value that the engine refuses, two contradict each other, or something that is needed is
    /// said nowhere.
    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError>;

    /// The profiles of other engines that its files may hand their settings to.
    fn hands_to(&self) -> &'static [&'static str] {
        &[]
    }

    /// What the settings mean where they say that another engine runs them.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn handed(&self, _reader: &Reader<'_>, _scene: &Scene<'_>) -> Result<Option<Read>, ImportError> {
        Ok(None)
    }

    /// How many of its marks stand in `document`.
    fn recognises(&self, document: &Document) -> usize {
        let has = |mark: &&&str| {
            document.found.iter().any(|found| match mark.strip_suffix(".*") {
                Some(section) => found.path.split('.').next() == Some(section),
                None => found.path == **mark || found.value.as_str() == Some(**mark),
            })
        };
        self.marks().iter().filter(has).count()
    }
}
