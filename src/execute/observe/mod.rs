//! What a run lets be seen: when instructions ran, what ranks held, and what that is called in a trace.

pub mod gathered;
pub mod load;
pub(in crate::execute) mod marks;
pub mod measure;
pub mod observer;
pub mod record;
pub(in crate::execute) mod recorder;
pub mod samples;
pub mod span;
pub mod words;
