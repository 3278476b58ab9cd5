//! What the environment of a script is said to be, `--env NAME=VALUE`.

use super::error::ImportError;
use super::syntax::Document;

/// Variables by name. A script's own arguments are called by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    list: Vec<(String, String)>,
}

impl Environment {
    /// What `texts`, each `NAME=VALUE`, say.
    ///
    /// # Errors
    /// If one is not of this form, or two are about one variable.
    pub fn parse(texts: &[String]) -> Result<Self, ImportError> {
        let mut list: Vec<(String, String)> = Vec::new();
        for text in texts {
            let refused = |rule: &str| ImportError::Environment {
                text: text.clone(),
                rule: rule.to_owned(),
                nearest: Vec::new(),
            };
            let is_name =
                |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let Some((name, value)) = text.split_once('=').filter(|(name, _)| is_name(name)) else {
                return Err(refused(
                    "NAME=VALUE is needed: a variable, or the number of an argument of the script",
                ));
            };
            if list.iter().any(|(known, _)| known == name) {
                return Err(refused("this variable is given twice"));
            }
            list.push((name.to_owned(), value.to_owned()));
        }
        Ok(Self { list })
    }

    pub fn variables(&self) -> &[(String, String)] {
        &self.list
    }

    /// That `document` comes of a script that asks for each.
    ///
    /// # Errors
    /// If it does not, as a script that sets a variable itself.
    pub fn was_asked(&self, document: &Document) -> Result<(), ImportError> {
        let script = document.script.as_ref();
        for (name, value) in &self.list {
            let asked: Vec<&str> =
                script.iter().flat_map(|script| &script.asked).map(String::as_str).collect();
            if asked.contains(&name.as_str()) {
                continue;
            }
            let rule = match script {
                None => "the file is no script of a shell".to_owned(),
                Some(_) => "the script does not ask for it, or sets it itself".to_owned(),
            };
            let nearest = crate::spelling::nearest(name, asked);
            return Err(ImportError::Environment { text: format!("{name}={value}"), rule, nearest });
        }
        Ok(())
    }
}
