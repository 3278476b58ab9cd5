//! How far a search or a run is, on stderr: a bar on a terminal, else a line now and then while it takes long.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::interrupt;
use super::output::say;
use crate::execute::fleet::StepResult;
use crate::execute::observe::observer::Observer;
use crate::search::Progress;
use crate::units::{Bytes, grouped};

/// From line to line, and before the first: what takes less long says nothing.
const PERIOD: Duration = Duration::from_secs(10);

/// Lines on stderr where that is no terminal.
struct Lines {
    began: Instant,
    /// Milliseconds from the beginning to the next line.
    next: AtomicU64,
}

impl Lines {
    fn new() -> Self {
        Self { began: Instant::now(), next: AtomicU64::new(PERIOD.as_millis() as u64) }
    }

    /// Whether a line is due after `passed`; of several threads that ask at once, one is told so.
    fn is_due(&self, passed: Duration) -> bool {
        let passed = passed.as_millis() as u64;
        let next = self.next.load(Ordering::Relaxed);
        let then = passed + PERIOD.as_millis() as u64;
        passed >= next && self.next.compare_exchange(next, then, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Writes `line` if one is due.
    fn say(&self, line: impl FnOnce() -> String) {
        let passed = self.began.elapsed();
        if self.is_due(passed) {
            say(&format!("{} s: {}", passed.as_secs(), line()));
        }
    }
}

/// A bar on a terminal, lines elsewhere.
fn shown(is_wanted: bool, length: u64, template: &str) -> (ProgressBar, Option<Lines>) {
    let is_terminal = io::stderr().is_terminal();
    let target =
        if is_wanted && is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    (bar, (!is_terminal).then(Lines::new))
}

/// How far a search is.
pub struct Bar {
    bar: ProgressBar,
    lines: Option<Lines>,
}

impl Bar {
    /// `is_wanted` is false where a program reads the output.
    pub fn new(is_wanted: bool) -> Self {
        let (bar, lines) = shown(is_wanted, 0, "{prefix}{bar:32} {percent:>3} %  {msg}");
        Self { bar, lines }
    }

    /// Shows how far the search is; may be called from any thread.
    pub fn show(&self, progress: Progress) {
        self.bar.set_length(progress.of);
        self.bar.set_position(progress.done);
        let said = || format!("{} strategies", grouped(progress.considered));
        if !self.bar.is_hidden() {
            self.bar.set_message(said());
        }
        self.say(&said);
    }

    /// Names the search that begins.
    pub fn name(&self, what: &str) {
        self.bar.set_prefix(format!("{what}  "));
    }

    /// Shows that `share` is done and what comes next.
    pub fn part(&self, what: &'static str, share: f64) {
        self.bar.set_length(100);
        self.bar.set_position((100.0 * share) as u64);
        self.bar.set_message(what);
        self.say(&|| what.to_owned());
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn say(&self, what: &dyn Fn() -> String) {
        if let Some(lines) = &self.lines {
            let share = 100 * self.bar.position() / self.bar.length().unwrap_or(0).max(1);
            lines.say(|| format!("{}{share} %, {}", self.bar.prefix(), what()));
        }
    }
}

/// How far a run is: steps, loss, tokens a second, memory.
pub struct RunBar {
    bar: ProgressBar,
    lines: Option<Lines>,
    /// Tokens a step; none of a slice, whose losses and steps mean nothing.
    tokens: Option<f64>,
    /// The fullest rank's peak.
    memory: Bytes,
}

impl RunBar {
    /// A bar of `steps` steps of `tokens` tokens; `is_wanted` is false where a program reads the output.
    pub fn new(is_wanted: bool, steps: u64, tokens: u64) -> Self {
        Self { tokens: Some(tokens as f64), ..Self::of_slice(is_wanted, steps) }
    }

    /// The bar of a slice, of `steps` steps of all its ranks.
    pub fn of_slice(is_wanted: bool, steps: u64) -> Self {
        let (bar, lines) = shown(is_wanted, steps, "{bar:32} {pos}/{len} steps  {msg}  {eta} left");
        Self { bar, lines, tokens: None, memory: Bytes::ZERO }
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

    fn remark(&mut self, what: &str) {
        self.bar.suspend(|| say(&format!("note: {what}")));
    }

    fn step(&mut self, result: &StepResult) -> ControlFlow<()> {
        let said = match self.tokens {
            Some(tokens) => {
                let rate = grouped((tokens / result.seconds) as u64);
                format!("loss {:.4}  {rate} tokens/s  {} a rank", result.loss, self.memory)
            }
            None => format!("{} a rank", self.memory),
        };
        self.bar.inc(1);
        if let Some(lines) = &self.lines {
            let (done, of) = (self.bar.position(), self.bar.length().unwrap_or(0));
            lines.say(|| format!("{done}/{of} steps  {said}"));
        }
        self.bar.set_message(said);
        if interrupt::came() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_once_a_period_and_none_of_short_work() {
        let lines = Lines::new();
        let seconds = [1, 9, 10, 11, 19, 20, 55, 60, 65];
        let due = seconds.map(|passed| lines.is_due(Duration::from_secs(passed)));
        assert_eq!(due, [false, false, true, false, false, true, true, false, true]);
    }
}
