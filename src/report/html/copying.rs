//! Texts that wrap between their parts, and that a button copies.

use maud::{Markup, PreEscaped, html};

/// What makes the buttons work; without it they are hidden.
pub const SCRIPT: &str = include_str!("page.js");

/// Longer parts may break inside.
const LONGEST_PART: usize = 34;

/// `text` in the letters of code, which wraps behind the keys of a strategy, what it says of a stage, and words.
pub fn code(text: &str) -> Markup {
    html! { code { (parts(text)) } }
}

/// The same in a box of its own with a button that copies it as it stands; `id` is unique in the page.
pub fn copied(id: &str, label: &str, text: &str) -> Markup {
    html! {
        div.copied {
            pre { code id=(id) aria-label=(label) { (parts(text)) } }
            button type="button" data-copies=(id) aria-live="polite" hidden { "Copy" }
        }
    }
}

/// Its parts, which a line breaks between and not inside.
pub fn parts(text: &str) -> Markup {
    html! {
        @for part in text.split_inclusive([',', '/', '+', ' ', '\n']) {
            @if part.chars().count() <= LONGEST_PART { span.part { (part) } } @else { (part) }
            wbr;
        }
    }
}

/// The script as an element.
pub fn script() -> Markup {
    html! { script { (PreEscaped(SCRIPT)) } }
}
