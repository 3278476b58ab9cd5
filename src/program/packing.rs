//! Packing: offsets for buffers whose sizes and lifetimes are known, in as little memory as possible.

/// When a buffer of `bytes` bytes is held: from `start` until before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    pub bytes: u64,
    pub start: u32,
    pub end: u32,
}

/// Where buffers lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    pub offsets: Vec<u64>,
    pub extent: u64,
    pub live: u64,
}

/// Packs `lifetimes`, which are in order of their starts.
pub fn pack(lifetimes: &[Lifetime]) -> Packing {
    let mut ends: Vec<usize> = (0..lifetimes.len()).collect();
    ends.sort_by_key(|&index| lifetimes[index].end);
    let mut ending = ends.into_iter().peekable();
    let mut packing = Packing { offsets: vec![0; lifetimes.len()], extent: 0, live: 0 };
    // Holes by their start.
    let mut holes: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
    let mut live = 0;
    for (index, lifetime) in lifetimes.iter().enumerate() {
        while let Some(gone) = ending.next_if(|&other| lifetimes[other].end <= lifetime.start) {
            live -= lifetimes[gone].bytes;
            let (mut start, mut length) = (packing.offsets[gone], lifetimes[gone].bytes);
            if length == 0 {
                continue;
            }
            if let Some((&before, &size)) = holes.range(..start).next_back()
                && before + size == start
            {
                holes.remove(&before);
                (start, length) = (before, size + length);
            }
            if let Some(size) = holes.remove(&(start + length)) {
                length += size;
            }
            holes.insert(start, length);
        }
        live += lifetime.bytes;
        packing.live = packing.live.max(live);
        let need = lifetime.bytes;
        if need == 0 {
            continue;
        }
        let fits = holes.iter().filter(|(_, length)| **length >= need);
        let best = fits.min_by_key(|(_, length)| **length).map(|(&start, &length)| (start, length));
        let start = match best {
            Some((start, length)) => {
                holes.remove(&start);
                if length > need {
                    holes.insert(start + need, length - need);
                }
                start
            }
            None => {
                let last = holes.last_key_value().map(|(&start, &length)| (start, length));
                let start = last.filter(|(start, length)| start + length == packing.extent);
                let start = start.map_or(packing.extent, |(start, _)| start);
                holes.remove(&start);
                packing.extent = start + need;
                start
            }
        };
        packing.offsets[index] = start;
    }
    packing
}
