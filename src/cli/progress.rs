//! How far a search or a run is, on stderr: a bar on a terminal, else a line now and then while it takes long.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};

use super::interrupt;
use super::output::say;
use crate::execute::fleet::StepResult;
use crate::execute::observe::observer::Observer;
use crate::search::Progress;
use crate::units::{Bytes, grouped, several};

/// From line to line, and before the first: what takes less long says nothing.
const PERIOD: Duration = Duration::from_secs(10);

/// From one look of a bar's time to the next.
const TICK: Duration = Duration::from_millis(250);

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

/// The bar that was drawn last.
static DRAWN: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// Takes the bar away that is on the terminal, if there is one: something is about to be said.
pub fn take_away() {
    let drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(bar) = drawn.and_then(|bar| bar.upgrade()) {
        bar.finish_and_clear();
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
    if !bar.is_hidden() {
        // The time goes on where nothing else does.
        bar.enable_steady_tick(TICK);
        *DRAWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.downgrade());
    }
    (bar, (!is_terminal).then(Lines::new))
}

/// Of what is done when a bar is full.
const WHOLE: u64 = 1_000;

/// How far a command is that answers one question or several, each by a search or by many. It never runs backwards.
pub struct Bar {
    bar: ProgressBar,
    lines: Option<Lines>,
    steps: u64,
    now: Mutex<Now>,
}

/// Which question is being answered, and how far that is.
#[derive(Default)]
struct Now {
    /// Questions answered.
    answered: u64,
    has_begun: bool,
    /// The question, and what the present search is of.
    step: String,
    part: String,
    /// Searches done for the question.
    parts: u64,
    /// Of the present search, from 0 to 1.
    share: f64,
}

impl Now {
    /// The share that is done of `steps` steps. How many searches a question takes is not known before: it is taken to need one
    /// more.
    fn done(&self, steps: u64) -> f64 {
        let of_step = if self.parts == 0 {
            self.share
        } else {
            (self.parts as f64 - 1.0 + self.share) / (self.parts as f64 + 1.0)
        };
        (self.answered as f64 + of_step) / steps.max(1) as f64
    }

    /// `step 3 of 6, sweep: devices 64`.
    fn words(&self, steps: u64) -> String {
        let count = if steps > 1 { format!("step {} of {steps}", self.answered + 1) } else { String::new() };
        let named = [self.step.as_str(), self.part.as_str()].into_iter().filter(|name| !name.is_empty());
        let named = named.collect::<Vec<_>>().join(": ");
        let parts = [count, if steps > 1 || !self.part.is_empty() { named } else { String::new() }];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

impl Bar {
    /// Of one search; `is_wanted` is false where a program reads the output.
    pub fn new(is_wanted: bool) -> Self {
        Self::of_steps(is_wanted, 1)
    }

    /// Of so many questions.
    pub fn of_steps(is_wanted: bool, steps: u64) -> Self {
        let (bar, lines) = shown(is_wanted, WHOLE, "{prefix}{bar:32} {percent:>3} %  {elapsed}  {msg}");
        Self { bar, lines, steps, now: Mutex::default() }
    }

    /// Names the question that begins.
    pub fn step(&self, what: &str) {
        let mut now = self.now();
        let answered = now.answered + u64::from(now.has_begun);
        *now = Now { answered, has_begun: true, step: what.to_owned(), ..Now::default() };
        self.advance(&now, &|| String::new());
    }

    /// Names the search that begins.
    pub fn part(&self, what: &str) {
        let mut now = self.now();
        let parts = now.parts + 1;
        (now.part, now.parts, now.share) = (what.to_owned(), parts, 0.0);
        self.advance(&now, &|| String::new());
    }

    /// Shows how far the search is; may be called from any thread.
    pub fn show(&self, progress: Progress) {
        let mut now = self.now();
        now.share = progress.done as f64 / progress.of.max(1) as f64;
        self.advance(&now, &|| several("strategy", progress.considered));
    }

    /// Shows that `share` is done and what comes next.
    pub fn next(&self, what: &'static str, share: f64) {
        let mut now = self.now();
        now.share = share;
        self.advance(&now, &|| what.to_owned());
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn advance(&self, now: &Now, said: &dyn Fn() -> String) {
        let done = (now.done(self.steps) * WHOLE as f64) as u64;
        self.bar.set_position(done.clamp(self.bar.position(), WHOLE));
        let words = || now.words(self.steps);
        if !self.bar.is_hidden() {
            let words = words();
            self.bar.set_prefix(if words.is_empty() { words } else { words + "  " });
            self.bar.set_message(said());
        }
        if let Some(lines) = &self.lines {
            let percent = 100 * self.bar.position() / WHOLE;
            lines.say(|| {
                let parts = [words(), format!("{percent} %"), said()];
                parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
            });
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
        let (bar, lines) =
            shown(is_wanted, steps, "{bar:32} {pos}/{len} steps  {elapsed}  {msg}  {eta} left");
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

    fn is_asked_to_end(&self) -> bool {
        interrupt::came()
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
        if self.is_asked_to_end() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn steps_are_counted_and_named() {
        let bar = Bar::of_steps(false, 3);
        let words = || bar.now().words(3);
        bar.step("sweep");
        bar.part("devices 8");
        assert_eq!(words(), "step 1 of 3, sweep: devices 8");
        bar.part("devices 16");
        assert_eq!(words(), "step 1 of 3, sweep: devices 16");
        bar.step("the plan");
        assert_eq!((words(), bar.bar.position()), ("step 2 of 3, the plan".to_owned(), 333));
        bar.step("sensitivity");
        assert_eq!((words(), bar.bar.position()), ("step 3 of 3, sensitivity".to_owned(), 666));
        let alone = Bar::new(false);
        alone.step("the plan");
        assert_eq!(alone.now().words(1), "");
    }

    proptest! {
        #[test]
        fn a_bar_never_runs_backwards(steps in 1_u64..6, events in prop::collection::vec((0..3_u8, 0_u64..100), 0..60)) {
            let bar = Bar::of_steps(false, steps);
            let mut before = 0;
            for (event, done) in events {
                match event {
                    0 => bar.step("one"),
                    1 => bar.part("of many"),
                    _ => bar.show(Progress { done, of: 100, considered: done }),
                }
                let now = bar.bar.position();
                prop_assert!(before <= now && now <= WHOLE, "{before} then {now}");
                before = now;
            }
        }
    }

    #[test]
    fn lines_come_once_a_period_and_none_of_short_work() {
        let lines = Lines::new();
        let seconds = [1, 9, 10, 11, 19, 20, 55, 60, 65];
        let due = seconds.map(|passed| lines.is_due(Duration::from_secs(passed)));
        assert_eq!(due, [false, false, true, false, false, true, true, false, true]);
    }
}
