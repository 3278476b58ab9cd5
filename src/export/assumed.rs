//! What is assumed of a file's settings, `--assume KEY=VALUE`: they are read as if the file said so.

use std::cell::RefCell;

use serde_json::Value;

use super::error::ImportError;
use super::syntax::{Document, Origin, Place, Syntax, value_of};

/// All that is assumed, in order.
#[derive(Clone, Debug, Default)]
pub struct Assumptions {
    list: Vec<Assumption>,
    /// Settings that were put into a file.
    replaced: RefCell<Vec<Replaced>>,
}

/// A setting that was put into a file.
#[derive(Clone, Debug)]
struct Replaced {
    path: String,
    /// Where the file said it, and what.
    said: Option<(Place, String)>,
}

/// One setting by its name in the file, and its value.
#[derive(Clone, Debug, PartialEq)]
struct Assumption {
    path: String,
    value: Value,
}

impl Assumptions {
    /// What `texts`, each `KEY=VALUE`, say. `null` is for a setting that is not there.
    ///
    /// # Errors
    /// If one is not of this form, or two are about one setting.
    pub fn parse(texts: &[String]) -> Result<Self, ImportError> {
        let mut list: Vec<Assumption> = Vec::new();
        for text in texts {
            let refused = |rule: &str| ImportError::Assumed {
                text: text.clone(),
                rule: rule.to_owned(),
                nearest: Vec::new(),
            };
            let pair = text.split_once('=').map(|(path, value)| (path.trim(), value.trim()));
            let Some((path, value)) = pair.filter(|(path, _)| !path.trim_start_matches('-').is_empty())
            else {
                return Err(refused("KEY=VALUE is needed: a setting by its name in the file, and its value"));
            };
            let path = path.trim_start_matches('-').to_owned();
            if list.iter().any(|known| known.path == path) {
                return Err(refused("this setting is assumed twice"));
            }
            list.push(Assumption { path, value: value_of(value) });
        }
        Ok(Self { list, replaced: RefCell::default() })
    }

    /// `document` with what is assumed of settings that it has, or that no file beside it may have.
    pub fn on(&self, document: &mut Document) {
        for Assumption { path, value } in &self.list {
            let path = spelt(path, document.syntax);
            self.put(document, &path, value);
        }
    }

    /// The same of a file that it names, of whose settings only those are replaced that are there.
    pub fn over(&self, document: &mut Document) {
        for Assumption { path, value } in &self.list {
            if document.says(path) {
                self.put(document, path, value);
            }
        }
    }

    fn put(&self, document: &mut Document, path: &str, value: &Value) {
        let said = document.get(path).map(|found| {
            let word = found.value.as_str().map_or_else(|| found.value.to_string(), str::to_owned);
            (document.origin(found).place, word)
        });
        let below = format!("{path}.");
        document.found.retain(|found| !found.path.starts_with(&below));
        if value.is_null() {
            document.remove(path);
        } else {
            document.set(path, value.clone(), Origin { path: path.to_owned(), place: Place::Assumed });
        }
        self.replaced.borrow_mut().push(Replaced { path: path.to_owned(), said });
    }

    /// One sentence for each setting that is assumed.
    pub fn sentences(&self) -> Vec<String> {
        let replaced = self.replaced.borrow();
        let sentence = |Assumption { path, value }: &Assumption| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let is_it = |known: &str| known == path || known.replace('-', "_") == path.replace('-', "_");
            let said = replaced.iter().rev().filter(|replaced| is_it(&replaced.path));
            let said = said.filter_map(|replaced| replaced.said.as_ref()).next();
            match said {
                Some((place, word)) => {
                    format!("It is assumed that `{path}` is {value}; the file says {word} ({place}).")
                }
                None => format!("It is assumed that `{path}` is {value}."),
            }
        };
        self.list.iter().map(sentence).collect()
    }

    /// That each is of a setting that was asked for.
    ///
    /// # Errors
    /// If one is not, whose name is most likely misspelt.
    pub fn were_asked(&self, asked: &dyn Fn(&str) -> bool, names: &[String]) -> Result<(), ImportError> {
        let replaced = self.replaced.borrow();
        for Assumption { path, value } in &self.list {
            let was_said = replaced.iter().any(|replaced| replaced.path == *path && replaced.said.is_some());
            if !was_said && !asked(path) && !asked(&path.replace('_', "-")) {
                let text = format!("{path}={value}");
                let nearest = crate::spelling::nearest(path, names.iter().map(String::as_str));
                let rule =
                    "the file has no such setting, and none that was asked for is called so".to_owned();
                return Err(ImportError::Assumed { text, rule, nearest });
            }
        }
        Ok(())
    }
}

/// A setting's name as it is in documents of `syntax`.
fn spelt(path: &str, syntax: Syntax) -> String {
    if syntax == Syntax::Arguments { path.replace('_', "-") } else { path.to_owned() }
}
