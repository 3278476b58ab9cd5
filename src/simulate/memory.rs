//! The memory curve: allocations and frees in issue order, one logical clock a rank, whatever the streams do.

use crate::lower::Category;
use crate::program::{RankProgram, Template};
use crate::units::Bytes;

/// A rank's peak, its composition and where in the program it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPeak {
    pub total: Bytes,
    /// By category, in the order of [`Category::ALL`].
    pub categories: [Bytes; 7],
    /// Index of the call, and of the instruction within its template.
    pub call: usize,
    pub instruction: usize,
    /// Host bytes at the host's own peak.
    pub host: Bytes,
}

/// What a template does to memory: by category, where it stands highest and what it leaves behind.
#[derive(Default)]
struct Effect {
    at_peak: [i64; 7],
    peak_instruction: usize,
    net: [i64; 7],
    sent: [i64; 7],
    host_peak: i64,
    host_net: i64,
}

/// The peak of what `rank` holds at once over the step. Of equal peaks, the first.
pub fn peak(rank: &RankProgram) -> MemoryPeak {
    let effects: Vec<Effect> = rank.templates.iter().map(|template| effect(rank, template)).collect();
    let mut live = [0_i64; 7];
    for state in &rank.persistent {
        live[state.holds.category() as usize] += state.device.aligned().0 as i64;
    }
    let mut host = rank.persistent.iter().map(|state| state.host.aligned().0 as i64).sum::<i64>();
    let (mut best, mut call, mut instruction) = (live, 0, 0);
    let mut host_peak = host;
    let mut pending = [0_i64; 7];
    for (index, entry) in rank.calls.iter().enumerate() {
        let effect = &effects[entry.template as usize];
        let at = std::array::from_fn(|category| live[category] + effect.at_peak[category]);
        if sum(&at) > sum(&best) {
            (best, call, instruction) = (at, index, effect.peak_instruction);
        }
        host_peak = host_peak.max(host + effect.host_peak);
        host += effect.host_net;
        for category in 0..live.len() {
            live[category] += effect.net[category] - pending[category];
        }
        pending = effect.sent;
    }
    MemoryPeak {
        total: Bytes(sum(&best) as u64),
        categories: best.map(|bytes| Bytes(bytes as u64)),
        call,
        instruction,
        host: Bytes(host_peak as u64),
    }
}

fn sum(live: &[i64; 7]) -> i64 {
    live.iter().sum()
}

fn effect(rank: &RankProgram, template: &Template) -> Effect {
    let buffers = &rank.frames[template.frame as usize].buffers;
    let of = |id: &u32| {
        let buffer = &buffers[*id as usize];
        (buffer.category as usize, buffer.bytes.aligned().0 as i64)
    };
    let mut effect = Effect::default();
    let mut most = 0;
    for (index, instruction) in template.instructions.iter().enumerate() {
        instruction.allocates.iter().map(of).for_each(|(category, bytes)| effect.net[category] += bytes);
        if sum(&effect.net) > most {
            (most, effect.at_peak, effect.peak_instruction) = (sum(&effect.net), effect.net, index);
        }
        instruction.frees.iter().map(of).for_each(|(category, bytes)| effect.net[category] -= bytes);
        effect.host_net += instruction.host_held();
        effect.host_peak = effect.host_peak.max(effect.host_net);
    }
    template.sent.iter().map(of).for_each(|(category, bytes)| effect.sent[category] += bytes);
    effect
}

/// The category whose share of `peak` is the largest.
pub fn dominant(peak: &MemoryPeak) -> Category {
    let place = (0..peak.categories.len()).max_by_key(|&place| peak.categories[place]).unwrap_or(0);
    Category::ALL[place]
}
