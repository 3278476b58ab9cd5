//! How far a search is, on stderr, where a person looks at it.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::search::Progress;
use crate::units::grouped;

/// A bar that is drawn only on a terminal.
pub struct Bar(ProgressBar);

impl Bar {
    /// `is_wanted` is false where a program reads the output.
    pub fn new(is_wanted: bool) -> Self {
        let is_shown = is_wanted && io::stderr().is_terminal();
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:32} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Shows how far the search is; may be called from any thread.
    pub fn show(&self, progress: Progress) {
        self.0.set_length(progress.of);
        self.0.set_position(progress.done);
        if !self.0.is_hidden() {
            self.0.set_message(format!("{} strategies", grouped(progress.considered)));
        }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}
