//! Reading and writing the ranks' memory between steps, as numbers.

#![expect(unsafe_code, reason = "it holds the lock that steps take")]

use crate::execute::call::View;
use crate::execute::element::{Element, Real};
use crate::execute::fleet::Fleet;
use crate::execute::storage::number;

impl Fleet {
    /// What lies in `view` of rank `rank`; waits while a step is computed.
    pub(super) fn numbers(&self, rank: usize, view: View) -> Vec<f64> {
        let bytes = self.bytes(rank, view);
        number!(view, E => {
            let (elements, _) = bytes.as_chunks::<{ size_of::<E>() }>();
            elements.iter().map(|bytes| E::from_ne_bytes(*bytes).wide().to_f64()).collect()
        })
    }

    /// The first of `values`, rounded, become what lies in `view`; waits while a step is computed.
    pub(super) fn set_numbers(&self, rank: usize, view: View, values: &[f64]) {
        let values = &values[..view.len()];
        let bytes: Vec<u8> = number!(view, E => {
            let narrow = |value: &f64| E::narrow(<E as Element>::Wide::of(*value)).to_ne_bytes();
            values.iter().flat_map(narrow).collect()
        });
        self.set_bytes(rank, view, &bytes);
    }

    /// The bytes of `view` of rank `rank`; waits while a step is computed.
    pub(super) fn bytes(&self, rank: usize, view: View) -> Vec<u8> {
        let mut bytes = vec![0; view.region.bytes];
        self.read_bytes(rank, view, &mut bytes);
        bytes
    }

    /// As [`Self::bytes`], to `bytes`.
    pub(super) fn read_bytes(&self, rank: usize, view: View, bytes: &mut [u8]) {
        let _idle = self.idle();
        // SAFETY: while the lock is held, no queue is at work.
        unsafe { self.device.download(self.on_device(rank), view, bytes) };
    }

    /// `bytes` become those of `view` of rank `rank`; waits while a step is computed.
    pub(super) fn set_bytes(&self, rank: usize, view: View, bytes: &[u8]) {
        let _alone = self.alone();
        // SAFETY: while the lock is held, no queue is at work and nobody else reads or writes here.
        unsafe { self.device.upload(self.on_device(rank), view, bytes) };
    }
}
