//! Packings are sound, repeatable and, for nests, exact.

use super::calendar::join;
use super::{Lifetime, pack};

fn assert_sound(lifetimes: &[Lifetime]) {
    let packing = pack(lifetimes, 0);
    assert_eq!(packing, pack(lifetimes, 0));
    let loose = pack(lifetimes, 2 * packing.live);
    assert!(loose.extent >= packing.extent && loose.extent <= packing.extent.max(2 * packing.live));
    for (one, first) in lifetimes.iter().enumerate() {
        assert!(packing.offsets[one] + first.bytes <= packing.extent);
        for (other, second) in lifetimes.iter().enumerate().skip(one + 1) {
            let together = first.start < second.end && second.start < first.end;
            let apart = packing.offsets[one] + first.bytes <= packing.offsets[other]
                || packing.offsets[other] + second.bytes <= packing.offsets[one];
            assert!(!together || apart, "{first:?} and {second:?} overlap");
        }
    }
    assert!(packing.extent >= packing.live);
}

#[test]
fn nothing_needs_no_space() {
    assert_eq!(pack(&[], 0).extent, 0);
    assert_eq!(pack(&[Lifetime { bytes: 0, start: 1, end: 9 }], 0).extent, 0);
}

#[test]
fn a_nest_is_exact() {
    let lifetimes: Vec<Lifetime> = (0..50)
        .map(|depth| Lifetime { bytes: 64 * u64::from(depth + 1), start: depth, end: 200 - depth })
        .collect();
    let packing = pack(&lifetimes, 0);
    assert_eq!(packing.extent, packing.live);
    assert_sound(&lifetimes);
}

#[test]
fn mixed_lifetimes_never_overlap() {
    let mut state = 7u64;
    let mut draw = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % limit
    };
    for count in [1, 2, 5, 17, 60, 250] {
        let mut lifetimes: Vec<Lifetime> = (0..count)
            .map(|_| {
                let start = draw(100) as u32;
                Lifetime { bytes: 64 * draw(40), start, end: start + 1 + draw(30) as u32 }
            })
            .collect();
        lifetimes.sort_by_key(|lifetime| lifetime.start);
        assert_sound(&lifetimes);
    }
}

#[test]
fn ranges_that_touch_are_joined() {
    let mut taken = vec![];
    for range in [(0, 64), (128, 192), (320, 384)] {
        join(&mut taken, range);
    }
    assert_eq!(taken, [(0, 64), (128, 192), (320, 384)]);
    join(&mut taken, (64, 128));
    assert_eq!(taken, [(0, 192), (320, 384)]);
    join(&mut taken, (0, 1024));
    assert_eq!(taken, [(0, 1024)]);
}
