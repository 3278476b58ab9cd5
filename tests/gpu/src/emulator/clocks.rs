//! The order that barriers give to the warps of a block: vector clocks, an entry a warp.

/// Each warp counts its barriers, and knows up to which count it has seen the others.
#[derive(Default)]
pub struct Clocks {
    warps: usize,
    clock: Vec<u32>,
    known: Vec<u32>,
}

impl Clocks {
    pub fn reset(&mut self, warps: usize) {
        *self = Clocks { warps, clock: vec![1; warps], known: vec![0; warps * warps] };
    }

    pub fn now(&self, warp: usize) -> u32 {
        self.clock[warp]
    }

    /// Whether what another thread of warp `other` did at `clock` has happened before what `warp` does now.
    pub fn sees(&self, warp: usize, other: usize, clock: u32) -> bool {
        if warp == other { clock < self.clock[warp] } else { clock < self.known[warp * self.warps + other] }
    }

    /// A barrier of all the threads of one warp.
    pub fn warp_barrier(&mut self, warp: usize) {
        self.clock[warp] += 1;
    }

    /// A barrier among whole warps.
    pub fn barrier(&mut self, members: &[usize]) {
        let mut joined = vec![0; self.warps];
        for &member in members {
            self.clock[member] += 1;
            let row = &self.known[member * self.warps..][..self.warps];
            for (joined, known) in joined.iter_mut().zip(row) {
                *joined = (*joined).max(*known);
            }
        }
        for &member in members {
            joined[member] = self.clock[member];
        }
        for &member in members {
            self.known[member * self.warps..][..self.warps].copy_from_slice(&joined);
        }
    }
}
