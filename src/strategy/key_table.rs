//! What follows from the table of keys: the enum of keys, the draft, reading and printing, and what is said of a key.

/// Declares the keys, one row each: the variant and its text; the field and the grammar of its value; the default in
/// words; when a strategy text says it; what it is part of; the capabilities of an engine that judge it, first the one
/// that lists its values; and the keys that may have to move with it, those that do most often first.
macro_rules! key_table {
    ($(
        $(#[doc = $doc:tt])+
        $key:ident = $name:literal {
            value: $field:ident as $grammar:ty,
            default: $default:literal,
            said: $said:ident $(($how:expr))?,
            part: $part:ident,
            needs: [$($capability:ident),*],
            followers: [$($follower:ident),*],
        }
    )+) => {
        spelled! {
            /// A key of the strategy text.
            Key { $($key = $name),+ }
        }

        impl Key {
            /// What it is, for docs and help.
            pub const fn doc(self) -> &'static str {
                match self {
                    $(Self::$key => const { concat!($($doc),+).trim_ascii() }),+
                }
            }

            /// What it means where it is left out, in words.
            pub const fn default_words(self) -> &'static str {
                match self {
                    $(Self::$key => $default),+
                }
            }

            /// The word that its name stands for.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$key => stringify!($field)),+
                }
            }

            /// How its values are written, in Markdown.
            pub fn form(self) -> String {
                match self {
                    $(Self::$key => <$grammar>::form()),+
                }
            }

            /// The words that its values are made of, each with what it means; none where values are numbers.
            pub fn words(self) -> Vec<(&'static str, &'static str)> {
                match self {
                    $(Self::$key => <$grammar>::words()),+
                }
            }

            /// What it is part of.
            pub const fn part(self) -> Part {
                match self {
                    $(Self::$key => Part::$part),+
                }
            }

            /// What an engine must be able to do for it; first what lists the values that it can have.
            pub const fn capabilities(self) -> &'static [Capability] {
                match self {
                    $(Self::$key => &[$(Capability::$capability),*]),+
                }
            }

            /// The keys that may have to move with this one, those that do most often first.
            pub const fn followers(self) -> &'static [Self] {
                match self {
                    $(Self::$key => &[$(Self::$follower),*]),+
                }
            }
        }

        /// What a strategy text says; `None` is what it leaves out.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Draft {
            $($(#[doc = $doc])+ pub $field: Option<<$grammar as Grammar>::Value>),+
        }

        impl Draft {
            /// Whether `key` is given.
            pub const fn gives(&self, key: Key) -> bool {
                match key {
                    $(Key::$key => self.$field.is_some()),+
                }
            }

            /// The value of `key` as it is typed; none where it is left out.
            pub fn value(&self, key: Key) -> Option<String> {
                match key {
                    $(Key::$key => self.$field.as_ref().map(<$grammar>::print)),+
                }
            }

            /// Sets `key` to what `from` gives for it; where that gives nothing, to its default.
            pub fn take(&mut self, key: Key, from: &Self) {
                match key {
                    $(Key::$key => self.$field.clone_from(&from.$field)),+
                }
            }

            /// Sets `key` to the value that is written so.
            pub(super) fn set(&mut self, key: Key, text: &str) -> Result<(), ValueProblem> {
                match key {
                    $(Key::$key => self.$field = Some(<$grammar>::parse(text)?)),+
                }
                Ok(())
            }
        }

        impl Strategy {
            /// The value of `key`, and whether the text says it.
            pub fn key_value(&self, key: Key, defaults: Defaults) -> KeyValue {
                let (value, is_said) = match key {
                    $(Key::$key => shown!(self, defaults, $field, $grammar, $said $(($how))?)),+
                };
                KeyValue { key, value, is_said }
            }
        }
    };
}
pub(super) use key_table;

/// The text of a strategy's field, and whether a strategy text says it: always, unless it is the default that a function
/// of strategy and defaults gives, or, of what a draft holds in another form, unless the text that a function of the
/// strategy gives is `none`.
macro_rules! shown {
    ($strategy:ident, $defaults:ident, $field:ident, $grammar:ty, Always) => {
        (<$grammar>::print(&$strategy.$field), true)
    };
    ($strategy:ident, $defaults:ident, $field:ident, $grammar:ty, Unless($default:expr)) => {{
        let default: fn(&Strategy, Defaults) -> <$grammar as Grammar>::Value = $default;
        (<$grammar>::print(&$strategy.$field), $strategy.$field != default($strategy, $defaults))
    }};
    ($strategy:ident, $defaults:ident, $field:ident, $grammar:ty, UnlessNone($text:expr)) => {{
        let text: fn(&Strategy) -> String = $text;
        let text = text($strategy);
        let is_said = text != "none";
        (text, is_said)
    }};
}
pub(super) use shown;
