//! The same choice as [`joint`](super::joint()) without a solver, as a table.
//!
//! Ranks meet only in how many blocks stand before them and in when the last of them ends. So with `own(r, b)` the
//! seconds in which rank `r` performs `b` blocks in the quickest modes that have room,
//!
//! ```text
//! ends(r, p) = least over b of max(ends(r - 1, p - b), seconds(r) + before(r) (p - b) + own(r, b))
//! ```
//!
//! is the soonest end of the ranks up to `r` with `p` blocks among them, and `ends` of the last rank and all blocks the
//! answer: `ranks x blocks²` steps, and as many again for each mode beyond the second.

use super::joint::ends;
use super::{Counts, Joint, JointRank, Mode, Refused};

/// How many of `blocks` each rank has in which mode, so that the last of them ends soonest; none if nothing fits.
pub fn table(ranks: &[JointRank], blocks: u32) -> Result<Option<Joint>, Refused> {
    ranks.iter().try_for_each(JointRank::legal)?;
    let counts = filled(ranks, blocks);
    Ok(counts.map(|counts| Joint { seconds: ends(ranks, &counts), counts }))
}

/// The counts that the table ends on.
fn filled(ranks: &[JointRank], blocks: u32) -> Option<Counts> {
    let owns: Vec<Vec<Own>> = ranks.iter().map(|rank| owns(rank, blocks)).collect();
    // By rank and by blocks placed: when the last ends, and which of the rank's own choices that is.
    let mut rows: Vec<Vec<Option<(f64, usize)>>> = vec![vec![Some((0.0, 0))]];
    for (rank, owns) in ranks.iter().zip(&owns) {
        let before = rows.last()?;
        let end = |placed: u32| {
            let options = owns.iter().enumerate().filter_map(|(place, own)| {
                let left = placed.checked_sub(own.held)?;
                let (others, _) = (*before.get(left as usize)?)?;
                let way = rank.seconds_a_block_before * f64::from(left);
                Some((others.max(rank.seconds + way + own.seconds), place))
            });
            options.min_by(|(one, _), (other, _)| one.total_cmp(other))
        };
        let row = (0..=blocks).map(end).collect();
        rows.push(row);
    }
    let mut placed = blocks;
    let mut counts = Vec::new();
    for (row, owns) in rows.iter().skip(1).zip(&owns).rev() {
        let (_, place) = (*row.get(placed as usize)?)?;
        let own = owns.get(place)?;
        counts.push(own.counts.clone());
        placed -= own.held;
    }
    counts.reverse();
    (placed == 0).then_some(counts)
}

/// What a rank's blocks take in the modes that they keep.
struct Own {
    held: u32,
    seconds: f64,
    counts: Vec<u32>,
}

/// The quickest modes that have room, for each number of blocks that `rank` may have, of at most `blocks`.
fn owns(rank: &JointRank, blocks: u32) -> Vec<Own> {
    (rank.least..=rank.most.min(blocks)).filter_map(|held| quickest(rank, &rank.modes, held, 0.0)).collect()
}

/// The quickest way to spread `blocks` over the last of the rank's modes, the others of which hold `bytes`.
fn quickest(rank: &JointRank, modes: &[Mode], blocks: u32, bytes: f64) -> Option<Own> {
    let Some((mode, rest)) = modes.split_first() else {
        return (blocks == 0 && bytes <= rank.room).then_some(Own {
            held: 0,
            seconds: 0.0,
            counts: Vec::new(),
        });
    };
    let taking = |count: u32| {
        let number = f64::from(count);
        let mut own = quickest(rank, rest, blocks - count, bytes + number * (mode.bytes + rank.state))?;
        own.held += count;
        own.seconds += number * mode.seconds;
        own.counts.insert(0, count);
        Some(own)
    };
    let all = if rest.is_empty() { blocks..=blocks } else { 0..=blocks };
    all.filter_map(taking).min_by(|one, other| one.seconds.total_cmp(&other.seconds))
}
