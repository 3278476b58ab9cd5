//! What is to be planned: a model on a cluster under a workload, for an engine; and one strategy played on it.

use rayon::prelude::*;

use crate::cluster::Cluster;
use crate::cost::DevicePricing;
use crate::model::Model;
use crate::profile::EngineProfile;
use crate::profile::choices::Feature;
use crate::profile::coverage::{Coverage, HalfWidths, Question, evidence_table};
use crate::profile::device::DeviceClass;
use crate::profile::expert_load::ExpertLoad;
use crate::program::placing::{Extent, place};
use crate::program::{Layout, Program, RankProgram, build};
use crate::simulate::{Playback, RankPlayback, play};
use crate::strategy::features::features;
use crate::strategy::{Capacity, Facts, Strategy, Workload};
use crate::units::Bytes;

/// A model on a cluster under a workload, for an engine.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    pub model: &'a Model,
    pub cluster: &'a Cluster,
    pub workload: Workload,
    pub engine: &'a EngineProfile,
    /// What the rules look at.
    pub facts: Facts<'a>,
    /// Device memory that a plan may use: the device's own, or what the user allows.
    pub memory_limit: Bytes,
    /// Host memory that a device's share of a plan may use.
    pub host_limit: Bytes,
}

/// A strategy with its playback.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub strategy: Strategy,
    pub playback: Playback,
    /// What the buffers of each pipeline rank take.
    pub extents: Vec<Extent>,
    /// What the worst rank's process takes of the device.
    pub memory: ProcessMemory,
}

/// Memory of a process: what its allocator hands out, what that reserves, and all that the device loses to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessMemory {
    pub allocated: Bytes,
    pub reserved: Bytes,
    pub process: Bytes,
}

impl Candidate {
    /// What the program of the fullest rank peaks at, as reports print it.
    pub fn peak(&self) -> Bytes {
        peak(&self.playback)
    }
}

impl<'a> Problem<'a> {
    /// The problem of training `model` on all of `cluster`.
    pub fn new(
        model: &'a Model,
        cluster: &'a Cluster,
        workload: Workload,
        engine: &'a EngineProfile,
        memory_limit: Option<Bytes>,
    ) -> Self {
        let facts = Facts::new(model, cluster.devices(), &workload, engine);
        let device = cluster.device.memory.value;
        let memory_limit = memory_limit.map_or(device, |limit| limit.min(device));
        let host_limit = cluster.host_memory_per_device();
        Self { model, cluster, workload, engine, facts, memory_limit, host_limit }
    }

    /// The same with room for what memory may be above its prediction, a share of it: plans may use so much less.
    #[must_use]
    pub fn with_room_for(&self, share: f64) -> Self {
        let less = |limit: Bytes| limit.scaled(1.0 / (1.0 + share));
        let (memory_limit, host_limit) = (less(self.memory_limit), less(self.host_limit));
        Self { memory_limit, host_limit, ..self.clone() }
    }

    /// The same under another `engine`.
    pub fn under<'b>(&'b self, engine: &'b EngineProfile) -> Problem<'b> {
        let problem = Problem::new(self.model, self.cluster, self.workload, engine, None);
        Problem { memory_limit: self.memory_limit, host_limit: self.host_limit, ..problem }
    }

    /// The step program of `strategy`, which must be legal.
    pub fn program(&self, strategy: &Strategy) -> Program {
        build(self.model, strategy, &self.workload, self.engine)
    }

    /// How the model lies over the pipeline under `strategy`.
    pub fn layout(&self, strategy: &Strategy) -> Layout {
        Layout::new(self.model, strategy, &self.workload, self.engine)
    }

    /// Prices under the mesh of `strategy`.
    pub fn pricing(&self, strategy: &Strategy) -> DevicePricing<'a> {
        DevicePricing::new(self.cluster, self.engine, strategy, self.workload.compute_type())
    }

    /// Plays `strategy`, which must be legal.
    pub fn play(&self, strategy: Strategy) -> Candidate {
        let program = self.program(&strategy);
        let playback = play(&program, &self.pricing(&strategy));
        let mut candidate = self.candidate(strategy, &program, playback, Extent::default());
        self.place(&mut candidate, &program);
        candidate
    }

    /// Places the buffers of all ranks of `candidate`, which has this program, as low as can be found.
    pub fn place(&self, candidate: &mut Candidate, program: &Program) {
        if self.engine.buffers.placed {
            let placed = |rank: &RankProgram| place(rank, Extent::default()).extent();
            candidate.extents = program.ranks.par_iter().map(placed).collect();
        }
    }

    /// `strategy`, whose program has this playback. Only of the rank that takes most are buffers placed as low as can
    /// be found, or no higher than `enough`: others take no more.
    pub fn candidate(
        &self,
        strategy: Strategy,
        program: &Program,
        playback: Playback,
        enough: Extent,
    ) -> Candidate {
        let held = |rank: &RankPlayback| Extent { device: rank.memory.total, host: rank.memory.host };
        let mut extents: Vec<Extent> = playback.ranks.iter().map(held).collect();
        if self.engine.buffers.placed {
            let mut order: Vec<usize> = (0..extents.len()).collect();
            order.sort_by_key(|&rank| std::cmp::Reverse(extents[rank].device));
            let mut most = enough;
            for rank in order {
                extents[rank] = place(&program.ranks[rank], most).extent();
                most = most.max(extents[rank]);
            }
        }
        let extent = extents.iter().copied().fold(Extent::default(), Extent::max);
        let memory = self.process_memory(&strategy, extent.device);
        Candidate { strategy, playback, extents, memory }
    }

    /// What a process takes whose program peaks at `peak`, or has that extent.
    pub fn process_memory(&self, strategy: &Strategy, peak: Bytes) -> ProcessMemory {
        let reserve = &self.cluster.device.reserve;
        // Half of the workspace is the framework's, half that of the kernels which experts run on several streams.
        let streams = if self.facts.experts.is_empty() { 0 } else { self.engine.buffers.expert_streams };
        let allocated = peak + reserve.workspace.value + Bytes(reserve.workspace.value.0 / 2 * streams);
        let fragmentation = self.engine.buffers.fragmentation.as_ref().map_or(1.0, |factor| factor.value);
        // Where the program places its buffers, nothing lies between them.
        let factor = if self.engine.buffers.placed { 1.0 } else { reserve.allocator_factor.value };
        let reserved = allocated.scaled(factor * fragmentation);
        let process = reserved + reserve.context.value + reserve.communicator.value * communicators(strategy);
        ProcessMemory { allocated, reserved, process }
    }

    /// Bytes that a program may peak at so that its process stays within the limit; rounded up a little.
    pub fn room(&self, strategy: &Strategy) -> f64 {
        self.room_within(strategy, self.memory_limit)
    }

    /// The same for another limit.
    pub fn room_within(&self, strategy: &Strategy, limit: Bytes) -> f64 {
        let fixed = self.process_memory(strategy, Bytes::ZERO).process.0 as f64;
        let large = Bytes(1 << 40);
        let slope = (self.process_memory(strategy, large).process.0 as f64 - fixed) / large.0 as f64;
        (limit.0 as f64 - fixed) / slope + 4096.0
    }

    /// The features of `strategy` that measured runs cover or do not.
    pub fn features(&self, strategy: &Strategy) -> Vec<Feature> {
        features(strategy, &self.workload, u64::from(self.cluster.devices_per_node))
    }

    /// What measured runs say of a plan with `strategy`.
    pub fn coverage(&self, strategy: &Strategy) -> Coverage {
        let features = self.features(strategy);
        match self.question(&features) {
            Some(question) => evidence_table().coverage(question),
            None => Coverage { half_widths: self.known_half_widths(&[]), ..Coverage::default() },
        }
    }

    /// Half-widths of the 80 % intervals of a plan with `features`, as far as these settle them.
    pub fn known_half_widths(&self, features: &[Feature]) -> HalfWidths {
        let uncertainty = &self.cluster.device.uncertainty;
        match self.question(features) {
            Some(question) => evidence_table().doubts(question).1,
            // Ranks on this machine hold what is predicted to the byte, and its own cost model says how far time is off.
            None => HalfWidths { time: uncertainty.time.value, memory: uncertainty.memory.value },
        }
    }

    /// The question to the table of measured runs, which knows none on CPUs.
    fn question<'q>(&'q self, features: &'q [Feature]) -> Option<Question<'q>> {
        let device = &self.cluster.device;
        let (name, engine) = (device.name.as_str(), self.engine.name.as_str());
        (device.class != DeviceClass::Cpu).then_some(Question { device: name, engine, features })
    }

    /// How tokens fall on experts under `strategy`, where that is not settled before a step: nothing is dropped, and
    /// kernels take as many as come.
    pub fn expert_load(&self, strategy: &Strategy) -> Option<&'a ExpertLoad> {
        let is_open = strategy.capacity == Capacity::Full && !self.facts.experts.is_empty();
        self.engine.dropless.as_ref().filter(|_| is_open)
    }

    /// Half-widths of the 80 % interval of what is predicted of `candidate`: what measured runs are off by, and what a
    /// heavier load of experts costs. One has nothing to do with the other, so their squares add up.
    pub fn half_widths(&self, candidate: &Candidate) -> HalfWidths {
        let known = self.known_half_widths(&self.features(&candidate.strategy));
        let Some(load) = self.expert_load(&candidate.strategy) else { return known };
        let engine = EngineProfile { dropless: Some(load.heavier()), ..self.engine.clone() };
        let problem = self.under(&engine);
        let heavier = play(&problem.program(&candidate.strategy), &problem.pricing(&candidate.strategy));
        let time = heavier.step_time.0 / candidate.playback.step_time.0 - 1.0;
        let memory = peak(&heavier).0 as f64 / candidate.peak().0.max(1) as f64 - 1.0;
        HalfWidths { time: known.time.hypot(time), memory: known.memory.hypot(memory) }
    }

    /// Whether `candidate` fits the memory of its devices and hosts.
    pub fn fits(&self, candidate: &Candidate) -> bool {
        let host = candidate.extents.iter().map(|extent| extent.host).max().unwrap_or_default();
        candidate.memory.process <= self.memory_limit && host <= self.host_limit
    }
}

fn peak(playback: &Playback) -> Bytes {
    playback.ranks.iter().map(|rank| rank.memory.total).max().unwrap_or_default()
}

/// Process groups of more than one member that a rank is in.
pub fn communicators(strategy: &Strategy) -> u64 {
    let sizes = [
        strategy.tensor,
        strategy.context,
        strategy.pipeline,
        strategy.shard * strategy.context,
        strategy.replicas(),
        strategy.expert,
    ];
    sizes.into_iter().filter(|&size| size > 1).count() as u64
}
