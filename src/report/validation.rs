//! A validation as text for a terminal, as Markdown and as a page: one set of listings, three dresses.

mod amount;
mod figures;
mod listing;
mod markdown;
mod page;
mod text;

pub use markdown::validation_markdown;
pub use page::validation_page;
pub use text::validation_text;
