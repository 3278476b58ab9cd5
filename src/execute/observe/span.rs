//! When instructions ran.

/// When an instruction ran, in seconds since the step began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    pub start: f64,
    pub end: f64,
}
