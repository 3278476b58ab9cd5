//! Which windows of the data a rank sees at a step.

use super::{DataError, Permutation, Tokens};

/// Data cut into windows and dealt out.
///
/// With N tokens there are ⌊(N−1)/T⌋ windows; window w has inputs wT … wT+T−1 and targets wT+1 … wT+T. Sequence i of
/// step s is window (s·B + i) mod their number, shuffled if asked for. Data rank r of d has the sequences r·B/d and
/// on, micro-batches in order.
pub struct Batches {
    tokens: Tokens,
    sequence_length: u64,
    global_batch: u64,
    data_ranks: u64,
    pub(super) windows: u64,
    shuffle: Option<Permutation>,
}

impl Batches {
    /// Batches of `global_batch` sequences of `sequence_length` tokens for `data_ranks` ranks; `shuffle` is the seed
    /// of a [`Permutation`] of the windows.
    pub fn new(
        tokens: Tokens,
        sequence_length: u64,
        global_batch: u64,
        data_ranks: u64,
        shuffle: Option<u64>,
    ) -> Result<Self, DataError> {
        if sequence_length == 0 {
            return Err(DataError::SequenceLength { value: sequence_length });
        }
        if data_ranks == 0 || global_batch == 0 || !global_batch.is_multiple_of(data_ranks) {
            return Err(DataError::Share { global_batch, data_ranks });
        }
        let count = tokens.count();
        let windows = count.saturating_sub(1) / sequence_length;
        if windows < global_batch {
            let needed = global_batch.saturating_mul(sequence_length).saturating_add(1);
            return Err(DataError::TooShort {
                tokens: count,
                windows,
                sequence_length,
                global_batch,
                needed,
            });
        }
        let shuffle = shuffle.map(|seed| Permutation::new(windows, seed));
        Ok(Self { tokens, sequence_length, global_batch, data_ranks, windows, shuffle })
    }

    /// The window of sequence `sequence` of step `step`.
    pub fn window(&self, step: u64, sequence: u64) -> u64 {
        let passed = u128::from(step) * u128::from(self.global_batch) + u128::from(sequence);
        let window = (passed % u128::from(self.windows)) as u64;
        self.shuffle.map_or(window, |permutation| permutation.of(window))
    }

    /// Writes what data rank `data_rank` sees in micro-batch `micro_batch` of step `step`. Both slices are (sequences
    /// of the micro-batch, T), and as long as they are equal in all micro-batches.
    ///
    /// # Errors
    /// If the data has become another since it was opened.
    pub fn read(
        &self,
        step: u64,
        data_rank: u64,
        micro_batch: u64,
        inputs: &mut [u32],
        targets: &mut [u32],
    ) -> Result<(), DataError> {
        assert_eq!(inputs.len(), targets.len(), "as many targets as inputs");
        let length = self.sequence_length as usize;
        let first =
            data_rank * (self.global_batch / self.data_ranks) + micro_batch * (inputs.len() / length) as u64;
        let rows = inputs.chunks_exact_mut(length).zip(targets.chunks_exact_mut(length));
        for (sequence, (inputs, targets)) in (first..).zip(rows) {
            let start = self.window(step, sequence) * self.sequence_length;
            self.tokens.read(start, inputs)?;
            let (shared, last) = targets.split_at_mut(length - 1);
            shared.copy_from_slice(&inputs[1..]);
            self.tokens.read(start + self.sequence_length, last)?;
        }
        Ok(())
    }
}
