//! How far a search or a run is, on stderr, where a person looks at it.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::interrupt;
use crate::execute::fleet::StepResult;
use crate::execute::session::Observer;
use crate::search::Progress;
use crate::units::{Bytes, grouped};

/// A bar that is drawn only on a terminal.
pub struct Bar(ProgressBar);

impl Bar {
    /// `is_wanted` is false where a program reads the output.
    pub fn new(is_wanted: bool) -> Self {
        let is_shown = is_wanted && io::stderr().is_terminal();
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        if let Ok(style) = ProgressStyle::with_template("{prefix}{bar:32} {percent:>3} %  {msg}") {
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

    /// Names the search that begins.
    pub fn name(&self, what: &str) {
        self.0.set_prefix(format!("{what}  "));
    }

    /// Shows that `share` is done and what comes next.
    pub fn part(&self, what: &'static str, share: f64) {
        self.0.set_length(100);
        self.0.set_position((100.0 * share) as u64);
        self.0.set_message(what);
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// How far a run is: steps, loss, tokens a second, memory.
pub struct RunBar {
    bar: ProgressBar,
    /// Tokens a step.
    tokens: f64,
    /// The fullest rank's peak.
    memory: Bytes,
}

impl RunBar {
    /// A bar of `steps` steps of `tokens` tokens; `is_wanted` is false where a program reads the output.
    pub fn new(is_wanted: bool, steps: u64, tokens: u64) -> Self {
        let is_shown = is_wanted && io::stderr().is_terminal();
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:32} {pos}/{len} steps  {msg}  {eta} left") {
            bar.set_style(style);
        }
        Self { bar, tokens: tokens as f64, memory: Bytes::ZERO }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for RunBar {
    fn ready(&mut self, peak: u64) {
        self.memory = Bytes(peak);
    }

    fn step(&mut self, result: &StepResult) -> ControlFlow<()> {
        let rate = grouped((self.tokens / result.seconds) as u64);
        self.bar.set_message(format!("loss {:.4}  {rate} tokens/s  {} a rank", result.loss, self.memory));
        self.bar.inc(1);
        if interrupt::came() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
