//! Where gradients live, as plan and trace document it: read off the step program.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lower::UnitParameters;
use crate::lower::unit::UnitLayers;
use crate::model::Model;
use crate::ops::Group;
use crate::program::gradients::{During, GradientLife, GradientSum, lives, step_sums};
use crate::program::instruction::{Part, Task};
use crate::program::layout::PlacedUnit;
use crate::program::state::StateRules;
use crate::program::{GradientBuffer, Layout, Pass, Program, RankProgram};
use crate::units::{Bytes, ElementType};

/// A buffer of gradients that every rank of a pipeline stage has, of one unit or of each of a run of units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GradientRecord {
    pub stage: u32,
    /// The layers whose gradients it holds, e.g. `block 0 to block 5`.
    pub layers: String,
    /// First and last unit, in model order; none for a buffer that all units of the stage share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<[u32; 2]>,
    pub buffer: GradientBuffer,
    pub element_type: ElementType,
    /// On each rank; of each unit. Padding counts. Host bytes for a copy there.
    pub bytes: Bytes,
    /// Ranks that the summed gradient is spread over, 1/N on each.
    pub shards: u64,
    /// The same of experts, where there are some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expert_shards: Option<u64>,
    /// The pass in which it is first written, and that in which it is last used.
    pub from: String,
    pub until: String,
    /// How often it is written anew in a step.
    pub times: u32,
    /// The collectives that sum it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sums: Vec<GradientSumRecord>,
}

/// A collective that sums gradients over ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GradientSumRecord {
    /// `reduce-scatter` or `all-reduce`.
    pub collective: String,
    /// Over which ranks, in words.
    pub over: String,
    /// Of one time; what is summed in the optimizer step is summed for all units of the stage together.
    pub bytes: Bytes,
    pub from: String,
    pub until: String,
    pub times: u32,
}

/// What of a strategy the records of a program need.
pub struct Lived<'a> {
    pub model: &'a Model,
    pub units: &'a [UnitLayers],
    pub layout: &'a Layout,
    pub rules: &'a StateRules,
}

/// All gradient buffers of `program`, stage by stage.
pub fn gradients(lived: &Lived<'_>, program: &Program) -> Vec<GradientRecord> {
    let lenders = lived.layout.lenders();
    let mut list: Vec<GradientRecord> = Vec::new();
    for rank in &program.ranks {
        let step = step_sums(rank);
        let mut lives = lives(rank, &lenders);
        // Units of one kind of buffer stand together, in model order.
        lives.sort_by_key(|life| (life.buffer, life.unit));
        for life in lives {
            let next = record(lived, rank, &life, &step);
            match list.last_mut().filter(|last| is_alike(last, &next)) {
                Some(last) => {
                    if let (Some([_, end]), Some([_, unit])) = (&mut last.units, next.units) {
                        *end = unit;
                    }
                    let first = last.layers.split(" to ").next().unwrap_or_default();
                    last.layers = format!("{first} to {}", next.layers);
                }
                None => list.push(next),
            }
        }
    }
    list
}

/// Whether `next` is the same of the unit behind.
fn is_alike(last: &GradientRecord, next: &GradientRecord) -> bool {
    let follows = match (last.units, next.units) {
        (Some([_, end]), Some([unit, _])) => unit == end + 1,
        _ => false,
    };
    let moved = GradientRecord { layers: last.layers.clone(), units: last.units, ..next.clone() };
    follows && *last == moved
}

fn record(
    lived: &Lived<'_>,
    rank: &RankProgram,
    life: &GradientLife,
    step: &[GradientSum],
) -> GradientRecord {
    let rules = lived.rules;
    let element_type = match life.buffer {
        GradientBuffer::Bucket => rules.reduce,
        GradientBuffer::WideCopy => ElementType::Fp32,
        _ => rules.gradient,
    };
    let parameters = lived.parameters(rank.stage, life.unit);
    let shards = |shards: u64| if rules.shards_optimizer { shards } else { 1 };
    // What is kept over the step is what the optimizer step sums up.
    let is_kept =
        matches!(life.buffer, GradientBuffer::Whole | GradientBuffer::Shard | GradientBuffer::InParameters);
    let later = step.iter().filter(|sum| {
        is_kept
            && match sum.task {
                Task::SumTied => parameters.table > 0,
                Task::SumPartial => parameters.partial > 0,
                Task::SumReplicas(Part::Expert) => parameters.expert_trained > 0,
                _ => parameters.dense_trained > 0,
            }
    });
    let (from, until) = words(rank, life.during);
    GradientRecord {
        stage: rank.stage,
        layers: lived.layers(rank.stage, life.unit),
        units: life.unit.map(|unit| [unit; 2]),
        buffer: life.buffer,
        element_type,
        bytes: life.bytes,
        shards: shards(rules.shards),
        expert_shards: (parameters.expert_trained > 0).then(|| shards(rules.expert_shards)),
        from,
        until,
        times: life.during.times,
        sums: life.sums.iter().chain(later).map(|sum| sum_record(rank, sum)).collect(),
    }
}

fn sum_record(rank: &RankProgram, sum: &GradientSum) -> GradientSumRecord {
    let (from, until) = words(rank, sum.during);
    GradientSumRecord {
        collective: sum.op.kind.name().to_owned(),
        over: over(sum.op.group).to_owned(),
        bytes: sum.op.bytes,
        from,
        until,
        times: sum.during.times,
    }
}

/// The ranks of a group, as one of them sees the others.
const fn over(group: Group) -> &'static str {
    match group {
        Group::State => "the shard group",
        Group::Replica => "the replicas of the shard group",
        Group::Gradient => "all data and context ranks",
        Group::ExpertState => "the shard group of the experts",
        Group::ExpertReplica => "the replicas of the experts' shard group",
        Group::ExpertGradient => "all ranks that hold the same experts",
        Group::Tensor => "the tensor ranks",
        Group::Tied => "the stages that hold the tied table",
        Group::Context | Group::Expert | Group::ExpertTensor | Group::World => "a group",
    }
}

/// The calls in which something begins and ends: `backward of micro-batch 3, chunk 0`.
fn words(rank: &RankProgram, during: During) -> (String, String) {
    let word = |number: u32| {
        let call = rank.calls[number as usize];
        let template = &rank.templates[call.template as usize];
        let pass = match template.pass {
            Some(Pass::Forward) => "forward",
            Some(Pass::Backward) => "backward",
            Some(Pass::Weight) => "weight gradients",
            None => return "optimizer step".to_owned(),
        };
        format!("{pass} of micro-batch {}, chunk {}", call.micro, template.frame)
    };
    (word(during.first), word(during.last))
}

impl Lived<'_> {
    /// Unit `unit` on pipeline rank `stage`, or all units there.
    fn placed(&self, stage: u32, unit: Option<u32>) -> impl Iterator<Item = &PlacedUnit> {
        self.layout.chunks_of(stage).flat_map(move |chunk| match unit {
            // Units stand in model order.
            Some(unit) => match chunk.units.binary_search_by_key(&unit, |placed| placed.unit) {
                Ok(place) => &chunk.units[place..=place],
                Err(_) => &[],
            },
            None => &chunk.units[..],
        })
    }

    /// What a unit holds; of what several units share, what all of them do.
    fn parameters(&self, stage: u32, unit: Option<u32>) -> UnitParameters {
        let mut sum = UnitParameters::default();
        for placed in self.placed(stage, unit) {
            sum.dense_trained += placed.parameters.dense_trained;
            sum.expert_trained += placed.parameters.expert_trained;
            sum.partial += placed.parameters.partial;
            sum.table += placed.parameters.table;
        }
        sum
    }

    fn layers(&self, stage: u32, unit: Option<u32>) -> String {
        let Some(unit) = unit else { return format!("all of stage {stage}") };
        let layer = self.model.layer(self.units[unit as usize].layers.start);
        layer.block.map_or_else(|| layer.name.clone(), |block| format!("block {block}"))
    }
}
