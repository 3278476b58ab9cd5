//! The look at numbers that must be finite. The host waits for what it finds: a step that has lost its numbers must not
//! reach the optimizer.

#![expect(unsafe_code, reason = "copies are unsafe to make")]

use super::graph::calls::is_number;
use super::graph::step::Look;
use super::queue::{CudaQueue, Done};
use super::work::{Span, Work};
use crate::execute::call::{LossWeightCall, View};
use crate::execute::error::ExecuteError;
use crate::execute::observe::words;
use crate::execute::storage::Storage;
use crate::lower::Kernel;
use crate::units::ElementType;

/// What the place of a value is where there is none.
const NOWHERE: u64 = u64::MAX;

impl CudaQueue<'_> {
    /// Looks for a number that is not finite, now or when the step is done.
    pub(super) fn check(&self, values: View, kernel: Kernel, layer: &str) -> Done {
        if let Some(whole) = self.captured() {
            let (at, rank) = (self.encoder.memory.at(values), self.rank);
            whole.look_later(Look { at, rank, layer: layer.into(), what: words::kernel(kernel) });
            return Ok(());
        }
        match self.first_not_finite(values)? {
            Some(value) => Err(self.not_finite(value, layer, words::kernel(kernel))),
            None => Ok(()),
        }
    }

    /// Looks at the weight of a loss, which was submitted.
    pub(super) fn check_weight(&self, call: &LossWeightCall) -> Done {
        let value = f64::from_le_bytes(self.read(self.encoder.memory.at(call.weight))?);
        if value.is_finite() {
            return Ok(());
        }
        Err(self.not_finite(value, &call.loss, "adaptive weight".to_owned()))
    }

    fn not_finite(&self, value: f64, layer: &str, what: String) -> ExecuteError {
        ExecuteError::NotFinite { step: self.step, value, rank: self.rank, layer: layer.to_owned(), what }
    }

    fn first_not_finite(&self, values: View) -> Result<Option<f64>, ExecuteError> {
        let at = self.encoder.memory.at(values);
        if values.is_empty() {
            return Ok(None);
        }
        if is_number(values) {
            let value = f64::from_le_bytes(self.read(at)?);
            return Ok((!value.is_finite()).then_some(value));
        }
        let found = self.encoder.memory.found(self.stream);
        self.perform_now(Work::Fill { to: found, value: 0xff })?;
        self.perform_now(self.encoder.find_not_finite(values, found)?)?;
        let place = u64::from_le_bytes(self.read(found)?);
        if place == NOWHERE {
            return Ok(None);
        }
        let size = values.storage.size() as u64;
        let at = at.behind(place * size).first(size);
        Ok(Some(match values.storage {
            Storage::Number(ElementType::Bf16) => half::bf16::from_le_bytes(self.read(at)?).to_f64(),
            _ => f64::from(f32::from_le_bytes(self.read(at)?)),
        }))
    }

    /// The bytes of `at`, as many, once all that was submitted is done.
    fn read<const N: usize>(&self, at: Span) -> Result<[u8; N], ExecuteError> {
        assert_eq!(at.bytes, N as u64, "bytes of a number");
        let mut bytes = [0; N];
        self.settle()?;
        // SAFETY: the copy is after what was submitted, and the program lets nobody write there before this call is over.
        unsafe { self.on.copy_now(bytes.as_mut_ptr() as u64, at.address, N) }?;
        Ok(bytes)
    }
}
