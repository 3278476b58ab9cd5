//! What the units of a model cost under a shape: lowered and priced once for all strategies whose sizes make no
//! difference to a unit, and all links that its groups can meet.

use std::sync::Arc;

use crate::cost::DevicePricing;
use crate::cost::digest::UnitDigest;
use crate::lower::unit::{UnitKind, UnitLayers, graph, lower, units};
use crate::lower::{Shape, UnitParameters};
use crate::model::layer::LayerKind;
use crate::profile::choices::{CheckpointMode, Compression, ContextKind};
use crate::search::cache::Cache;
use crate::search::links::{KnownLinks, Links};
use crate::search::problem::Problem;
use crate::strategy::{Capacity, Strategy};

/// Checkpoint modes.
pub const MODES: usize = CheckpointMode::ALL.len();

/// One class of units under a shape.
#[derive(Clone, Debug)]
pub struct ClassCosts {
    pub parameters: UnitParameters,
    /// By checkpoint mode; outside blocks all are one.
    pub digests: [UnitDigest; MODES],
}

/// All units of the model under a shape.
#[derive(Clone, Debug)]
pub struct ModelCosts {
    /// By class.
    pub classes: Vec<Arc<ClassCosts>>,
}

/// What of a shape a class of units sees; what it does not see is at its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct ClassKey {
    class: usize,
    tensor: u64,
    context: u64,
    micro_batch: u64,
    sequence_parallel: bool,
    splits_weight: bool,
    compression: Option<Compression>,
    fused_attention: bool,
    context_kind: Option<ContextKind>,
    chunked_loss: bool,
    /// Experts, tensor ranks inside one, and how many slots one has.
    experts: Option<(u64, u64, Capacity)>,
    /// Ranks of a stage, where they share the cores of a machine.
    alike: u64,
}

/// Which layers a class has.
#[derive(Clone, Copy, Debug, Default)]
struct Contents {
    attention: bool,
    experts: bool,
    head: bool,
}

/// Costs that are remembered at once.
const MOST_COSTS: usize = 65_536;

/// Lowers and prices classes of units, and remembers what each costs.
pub struct ClassCostCache<'a> {
    problem: &'a Problem<'a>,
    units: Vec<UnitLayers>,
    /// By class: a unit of it, and what it has.
    classes: Vec<(usize, Contents)>,
    links: KnownLinks,
    known: Cache<(ClassKey, Links), ClassCosts>,
}

impl<'a> ClassCostCache<'a> {
    /// Nothing is lowered yet.
    pub fn new(problem: &'a Problem<'a>) -> Self {
        let units = units(problem.model);
        let count = units.iter().map(|unit| unit.class + 1).max().unwrap_or(0);
        let classes = (0..count)
            .map(|class| {
                let unit = units.iter().position(|unit| unit.class == class).unwrap_or_default();
                let mut contents = Contents::default();
                for index in units[unit].layers.clone() {
                    match problem.model.layer(index).kind {
                        LayerKind::Attention(_) => contents.attention = true,
                        LayerKind::Moe(_) => contents.experts = true,
                        LayerKind::Head(_) => contents.head = true,
                        _ => {}
                    }
                }
                (unit, contents)
            })
            .collect();
        Self { problem, units, classes, links: KnownLinks::default(), known: Cache::new(MOST_COSTS) }
    }

    /// The model's units, in order.
    pub fn units(&self) -> &[UnitLayers] {
        &self.units
    }

    /// The number of the links under `pricing`.
    pub fn links(&self, pricing: &DevicePricing<'_>) -> Links {
        self.links.number(pricing)
    }

    /// The costs under the shape of `strategy` at the prices of `pricing`, whose links are `links`.
    pub fn costs(&self, strategy: &Strategy, pricing: &DevicePricing<'_>, links: Links) -> ModelCosts {
        let shape = {
            let mut shape = Shape::new(strategy, &self.problem.workload, self.problem.engine);
            // With several losses, gradients of weights do not wait.
            shape.splits_weight &= self.problem.model.losses.len() == 1;
            shape
        };
        let classes =
            (0..self.classes.len()).map(|class| self.class(class, strategy, shape, (pricing, links)));
        ModelCosts { classes: classes.collect() }
    }

    fn class(
        &self,
        class: usize,
        strategy: &Strategy,
        shape: Shape<'_>,
        (pricing, links): (&DevicePricing<'_>, Links),
    ) -> Arc<ClassCosts> {
        let (unit, contents) = self.classes[class];
        let mut key = key(class, contents, strategy, &shape);
        if self.problem.cluster.device.cores.is_some() {
            key.alike = strategy.tensor * strategy.context * strategy.data;
        }
        self.known.of((key, links), || self.lowered(&self.units[unit], shape, pricing))
    }

    fn lowered(&self, unit: &UnitLayers, shape: Shape<'_>, pricing: &DevicePricing<'_>) -> ClassCosts {
        let graph = graph(self.problem.model, unit, shape);
        let is_block = matches!(unit.kind, UnitKind::Block(_));
        let digest = |mode| UnitDigest::new(&lower(&graph, shape, mode, is_block), pricing);
        // Outside blocks all modes are one.
        let digests = match is_block {
            true => std::array::from_fn(|mode| digest(CheckpointMode::ALL[mode])),
            false => [digest(CheckpointMode::None); MODES],
        };
        let parameters = UnitParameters::of(self.problem.model, unit.layers.clone(), &shape);
        ClassCosts { parameters, digests }
    }
}

fn key(class: usize, contents: Contents, strategy: &Strategy, shape: &Shape<'_>) -> ClassKey {
    ClassKey {
        class,
        tensor: strategy.tensor,
        context: strategy.context,
        micro_batch: strategy.micro_batch,
        sequence_parallel: strategy.sequence_parallel,
        splits_weight: shape.splits_weight,
        compression: Some(strategy.compression),
        fused_attention: contents.attention && shape.fused_attention,
        context_kind: (contents.attention && strategy.context > 1).then_some(strategy.context_kind),
        chunked_loss: contents.head && shape.chunked_loss,
        experts: contents.experts.then_some((strategy.expert, strategy.expert_tensor, strategy.capacity)),
        alike: 0,
    }
}
