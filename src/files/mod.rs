//! Files that somebody named: one way to read them and one to write them, whatever is at the path.
//!
//! A file is looked at before it is read: a folder or a device is refused, nothing is larger than it may be, and a pipe is
//! waited for, but not for ever. What is written is looked at before the work begins, appears whole, and goes to where
//! links lead.

mod input;
mod pipe;
mod place;
mod target;

pub use input::{Unread, bytes, regular, regular_text, text};
pub use place::Place;
pub use target::{Staged, Target, replace};
