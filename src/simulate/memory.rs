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
struct Effect {
    at_peak: [i64; 7],
    peak_total: i64,
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
    let mut best = (live.iter().sum::<i64>(), live, 0, 0);
    let mut host_peak = host;
    let mut pending = [0_i64; 7];
    for (index, call) in rank.calls.iter().enumerate() {
        let effect = &effects[call.template as usize];
        let before: i64 = live.iter().sum();
        if before + effect.peak_total > best.0 {
            let at = std::array::from_fn(|category| live[category] + effect.at_peak[category]);
            best = (before + effect.peak_total, at, index, effect.peak_instruction);
        }
        host_peak = host_peak.max(host + effect.host_peak);
        host += effect.host_net;
        for category in 0..live.len() {
            live[category] += effect.net[category] - pending[category];
        }
        pending = effect.sent;
    }
    MemoryPeak {
        total: Bytes(best.0 as u64),
        categories: best.1.map(|bytes| Bytes(bytes as u64)),
        call: best.2,
        instruction: best.3,
        host: Bytes(host_peak as u64),
    }
}

fn effect(rank: &RankProgram, template: &Template) -> Effect {
    let buffers = &rank.frames[template.frame as usize].buffers;
    let held = |id: u32| buffers[id as usize].bytes.aligned().0 as i64;
    let mut live = [0_i64; 7];
    let mut effect = Effect {
        at_peak: live,
        peak_total: 0,
        peak_instruction: 0,
        net: live,
        sent: live,
        host_peak: 0,
        host_net: 0,
    };
    let mut total = 0;
    for (index, instruction) in template.instructions.iter().enumerate() {
        for &id in &instruction.allocates {
            let buffer = &buffers[id as usize];
            live[buffer.category as usize] += held(id);
            total += held(id);
        }
        if total > effect.peak_total {
            (effect.peak_total, effect.at_peak, effect.peak_instruction) = (total, live, index);
        }
        for &id in &instruction.frees {
            let buffer = &buffers[id as usize];
            live[buffer.category as usize] -= held(id);
            total -= held(id);
        }
        effect.host_net += instruction.host_held();
        effect.host_peak = effect.host_peak.max(effect.host_net);
    }
    effect.net = live;
    for &id in &template.sent {
        let buffer = &buffers[id as usize];
        effect.sent[buffer.category as usize] += held(id);
    }
    effect
}

/// The category whose share of `peak` is the largest.
pub fn dominant(peak: &MemoryPeak) -> Category {
    let place = (0..peak.categories.len()).max_by_key(|&place| peak.categories[place]).unwrap_or(0);
    Category::ALL[place]
}
