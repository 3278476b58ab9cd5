//! When the computing instructions of a rank start, call by call. Calls that a steady state repeats share what is known.

use std::rc::Rc;

/// Of each call, the seconds from the start of its span to the start of each of its computing instructions.
#[derive(Default)]
pub(super) struct Starts {
    calls: Vec<Rc<Vec<f64>>>,
}

impl Starts {
    /// The next computing instruction of `call` starts so many seconds after its span.
    pub(super) fn begin(&mut self, call: usize, after: f64) {
        Rc::make_mut(self.of(call)).push(after);
    }

    /// The computing instructions of `call` start as `after` says, as far as that is known.
    pub(super) fn begin_all(&mut self, call: usize, after: Vec<f64>) {
        *self.of(call) = Rc::new(after);
    }

    /// Puts the `calls` calls from `first` on so often behind call `now`, and what was under way there behind these.
    pub(super) fn repeat(&mut self, first: usize, now: usize, calls: u32, count: u32) {
        let under_way = self.calls.split_off(now.min(self.calls.len()));
        for place in 0..calls * count {
            self.calls.push(Rc::clone(&self.calls[first + (place % calls) as usize]));
        }
        self.calls.extend(under_way);
    }

    /// Seconds after the start of the span of `call`; nothing of calls that compute nothing.
    pub(super) fn after(&self, call: usize) -> &[f64] {
        self.calls.get(call).map_or(&[], |after| after.as_slice())
    }

    fn of(&mut self, call: usize) -> &mut Rc<Vec<f64>> {
        if self.calls.len() <= call {
            self.calls.resize(call + 1, Rc::default());
        }
        &mut self.calls[call]
    }
}
