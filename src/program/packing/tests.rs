//! Packings are sound, repeatable and, for nests, exact.

use super::calendar::{Calendar, join};
use super::orders::{Order, place, sorted};
use super::{Lifetime, gaps, pack, periods};

fn assert_apart(lifetimes: &[Lifetime], offsets: &[u64]) {
    for (one, first) in lifetimes.iter().enumerate() {
        for (other, second) in lifetimes.iter().enumerate().skip(one + 1) {
            let together = first.start < second.end && second.start < first.end;
            let apart =
                offsets[one] + first.bytes <= offsets[other] || offsets[other] + second.bytes <= offsets[one];
            assert!(!together || apart, "{first:?} and {second:?} overlap");
        }
    }
}

fn assert_sound(lifetimes: &[Lifetime]) {
    let packing = pack(lifetimes, 0);
    assert_eq!(packing, pack(lifetimes, 0));
    let loose = pack(lifetimes, 2 * packing.live);
    assert!(loose.extent >= packing.extent && loose.extent <= packing.extent.max(2 * packing.live));
    assert_apart(lifetimes, &packing.offsets);
    let ends = packing.offsets.iter().zip(lifetimes).map(|(offset, lifetime)| offset + lifetime.bytes);
    assert_eq!(ends.max().unwrap_or(0), packing.extent);
    assert!(packing.extent >= packing.live);
}

/// Numbers below a limit.
fn draws() -> impl FnMut(u64) -> u64 {
    let mut state = 7u64;
    move |limit| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % limit
    }
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
    let mut draw = draws();
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

/// Micro-batches that each take and free the same, a few of them under way at once, beside some of other lifetimes at
/// either end and one over all.
#[test]
fn a_few_periods_stand_for_all() {
    let (mut draw, mut repeated) = (draws(), 0);
    for _ in 0..60 {
        let (count, instants, ahead) = (1 + draw(9), 12 + draw(20), 1 + draw(5));
        let mut lifetimes = vec![Lifetime { bytes: 64, start: 0, end: 90 * instants as u32 }];
        let mut add = |bytes: u64, start: u64, length: u64| {
            let (start, end) = (start as u32, (start + length) as u32);
            lifetimes.push(Lifetime { bytes: 64 * bytes, start, end });
        };
        for _ in 0..draw(30) {
            add(draw(40), [0, 70][draw(2) as usize] * instants + draw(2 * instants), 1 + draw(10));
        }
        for _ in 0..count {
            let (bytes, start, length) = (draw(40), draw(instants), 1 + draw(ahead * instants));
            (2..72).for_each(|micro| add(bytes, micro * instants + start, length));
        }
        lifetimes.sort_by_key(|lifetime| lifetime.start);
        let Some(offsets) = periods::place(&lifetimes, 0) else { continue };
        repeated += 1;
        assert_apart(&lifetimes, &offsets);
        let extent = |offsets: &[u64]| {
            offsets.iter().zip(&lifetimes).map(|(offset, lifetime)| offset + lifetime.bytes).max()
        };
        let held = gaps::held(&lifetimes);
        let plain = Order::ALL.map(|order| {
            let order = sorted(&lifetimes, &held, order);
            extent(&place(&lifetimes, &order, &mut Calendar::new(&lifetimes)))
        });
        assert!(extent(&offsets) <= plain.into_iter().flatten().min());
    }
    assert!(repeated > 20, "{repeated} repeat themselves");
}
