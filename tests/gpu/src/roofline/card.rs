//! What a card can do at most, and so how long a launch takes at least.

use super::Least;
use crate::Counted;

/// Who computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Tensor cores, in bf16 with sums in f32.
    Tensor,
    /// f32.
    Single,
}

/// Rates a second.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    pub name: &'static str,
    pub bytes: f64,
    /// FLOPs of tensor cores in dense bf16, in f32 and in f64 without them.
    pub tensor: f64,
    pub single: f64,
    pub double: f64,
}

/// By NVIDIA's datasheet of the H200 (SXM).
pub const H200: Card = Card { name: "H200", bytes: 4.8e12, tensor: 989e12, single: 67e12, double: 34e12 };

/// Seconds that memory and arithmetic take at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    pub memory: f64,
    pub arithmetic: f64,
}

impl Bound {
    /// Both may go on at the same time.
    pub fn seconds(&self) -> f64 {
        self.memory.max(self.arithmetic)
    }

    pub fn binds(&self) -> &'static str {
        if self.arithmetic > self.memory { "FLOPs" } else { "bytes" }
    }
}

/// What caches serve of the bytes that a kernel moves again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caches {
    Everything,
    Nothing,
}

impl Card {
    /// For what the operator needs.
    pub fn least(&self, least: &Least) -> Bound {
        let rate = match least.unit {
            Unit::Tensor => self.tensor,
            Unit::Single => self.single,
        };
        Bound { memory: least.bytes() as f64 / self.bytes, arithmetic: least.flops as f64 / rate }
    }

    /// For what a kernel has done, if all units work at the same time.
    pub fn done(&self, Counted { traffic, flops }: &Counted, caches: Caches) -> Bound {
        let bytes = match caches {
            Caches::Everything => traffic.read_once + traffic.written_once,
            Caches::Nothing => traffic.read + traffic.written,
        };
        let units = [(flops.tensor, self.tensor), (flops.single, self.single), (flops.double, self.double)];
        Bound {
            memory: bytes as f64 / self.bytes,
            arithmetic: units.map(|(flops, rate)| flops as f64 / rate).into_iter().fold(0.0, f64::max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flops, Traffic};

    #[test]
    fn the_slower_side_binds() {
        let least = Least { read: 4_000_000, written: 800_000, flops: 67_000_000, unit: Unit::Single };
        let bound = H200.least(&least);
        assert_eq!((bound.memory, bound.arithmetic), (1e-6, 1e-6));
        let bound = H200.least(&Least { flops: 989_000_000, unit: Unit::Tensor, ..least });
        assert_eq!((bound.seconds(), bound.binds()), (1e-6, "bytes"));
        let bound = H200.least(&Least { flops: 2 * 67_000_000, ..least });
        assert_eq!((bound.seconds(), bound.binds()), (2e-6, "FLOPs"));
    }

    #[test]
    fn what_is_moved_again_binds_without_caches() {
        let traffic =
            Traffic { read: 9_600_000, written: 4_800_000, read_once: 4_000_000, written_once: 800_000 };
        let flops = Flops { tensor: 989_000_000, single: 2 * 67_000_000, double: 34_000_000 };
        let done = |caches| H200.done(&Counted { traffic, flops }, caches);
        assert_eq!(done(Caches::Everything), Bound { memory: 1e-6, arithmetic: 2e-6 });
        assert_eq!(done(Caches::Nothing), Bound { memory: 3e-6, arithmetic: 2e-6 });
    }
}
