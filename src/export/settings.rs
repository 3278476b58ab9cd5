//! Settings of a training engine: names and values in order, whatever the syntax of the file that holds them.

use serde_json::Value;

use super::syntax::Comment;

/// What an engine is told, in the order in which it is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    list: Vec<Setting>,
}

/// One name and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Names from the outermost section to the key, joined by dots; of an argument its name without dashes.
    pub path: String,
    /// A switch that an argument line only names is `true`; a call is the text of it without its arguments, as it reads
    /// back.
    pub value: Value,
    /// The function that is called, if the value is a call of Python.
    pub callee: Option<&'static str>,
    /// What a reader of the file should know, in one line.
    pub note: Option<Comment>,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    Value(Value),
    /// A call of Python, such as `dict()`, whose arguments are the settings below it. It is written without quotes, so only
    /// the program itself can say one.
    Call(&'static str),
}

macro_rules! terms {
    ($($value:ty),*) => {
        $(impl From<$value> for Term {
            fn from(value: $value) -> Self {
                Self::Value(value.into())
            }
        })*
    };
}

terms!(bool, i32, u8, u32, u64, f64, &str, String, Vec<u32>, Value);

impl Settings {
    /// Adds a setting, or gives one that is there another value.
    pub fn set(&mut self, path: &str, value: impl Into<Value>) -> &mut Self {
        self.put(path, Term::Value(value.into()))
    }

    /// The same of what may be a call.
    pub fn put(&mut self, path: &str, term: Term) -> &mut Self {
        let (value, callee) = match term {
            Term::Value(value) => (value, None),
            Term::Call(call) => {
                let callee = call.trim_end_matches("()");
                (Value::from(format!("{callee}()")), Some(callee))
            }
        };
        match self.list.iter_mut().find(|setting| setting.path == path) {
            Some(setting) => (setting.value, setting.callee) = (value, callee),
            None => self.list.push(Setting { path: path.to_owned(), value, callee, note: None }),
        }
        self
    }

    /// Adds a setting with a note.
    pub fn set_noted(&mut self, path: &str, value: impl Into<Value>, note: impl Into<Comment>) -> &mut Self {
        self.set(path, value);
        if let Some(setting) = self.list.iter_mut().find(|setting| setting.path == path) {
            setting.note = Some(note.into());
        }
        self
    }

    /// The value at `path`.
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.list.iter().find(|setting| setting.path == path).map(|setting| &setting.value)
    }

    /// All settings, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.list.iter()
    }

    /// Sections and keys as a tree, in the order of their first appearance.
    pub fn tree(&self) -> Vec<Node<'_>> {
        let mut roots = Vec::new();
        for setting in &self.list {
            let names: Vec<&str> = setting.path.split('.').collect();
            insert(&mut roots, &names, setting);
        }
        roots
    }
}

/// A section or a key of a tree of settings.
#[derive(Debug)]
pub enum Node<'a> {
    Section { name: &'a str, nodes: Vec<Node<'a>> },
    Key { name: &'a str, setting: &'a Setting },
}

fn insert<'a>(nodes: &mut Vec<Node<'a>>, names: &[&'a str], setting: &'a Setting) {
    let [name, rest @ ..] = names else { return };
    if rest.is_empty() {
        nodes.push(Node::Key { name, setting });
        return;
    }
    let known = nodes.iter_mut().find_map(|node| match node {
        Node::Section { name: known, nodes } if known == name => Some(nodes),
        _ => None,
    });
    match known {
        Some(inside) => insert(inside, rest, setting),
        None => {
            let mut inside = Vec::new();
            insert(&mut inside, rest, setting);
            nodes.push(Node::Section { name, nodes: inside });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_hold_their_keys_in_order() {
        let mut settings = Settings::default();
        settings.set("a.x", 1).set("b", true).set("a.y.z", "w").set("a.x", 2);
        assert_eq!(settings.get("a.x"), Some(&Value::from(2)));
        let tree = settings.tree();
        let [Node::Section { name: "a", nodes }, Node::Key { name: "b", .. }] = tree.as_slice() else {
            panic!("{tree:?}");
        };
        assert!(matches!(nodes.as_slice(), [Node::Key { name: "x", .. }, Node::Section { name: "y", .. }]));
    }
}
