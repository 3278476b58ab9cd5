//! The few facts about model, devices, workload and engine that defaults and rules look at, read once.

use super::cuts::CutCosts;
use super::{Defaults, Workload};
use crate::model::{LayerKind, LossWeight, Model};
use crate::profile::EngineProfile;

/// What strategies are judged by. Lists hold distinct entries, so that rules run in constant time a model.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    pub devices: u64,
    pub blocks: u32,
    pub heads: Vec<Heads>,
    /// Widths that tensor parallelism cuts: inside dense MLPs and inside shared experts.
    pub widths: Vec<u64>,
    pub experts: Vec<Experts>,
    /// A head has the table of the embedding.
    pub tied: bool,
    /// Some loss has an adaptive weight.
    pub adaptive_loss: bool,
    pub workload: Workload,
    pub profile: &'a EngineProfile,
    pub defaults: Defaults,
    /// What an engine weighs that cuts by cost.
    pub cut_costs: CutCosts,
}

/// Heads of an attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    pub query: u64,
    pub key_value: u64,
    pub causal: bool,
}

/// Routed experts of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    pub count: u64,
    pub top_k: u64,
    pub intermediate: u64,
}

impl<'a> Facts<'a> {
    /// Reads the facts off a model.
    pub fn new(model: &Model, devices: u64, workload: &Workload, profile: &'a EngineProfile) -> Self {
        let (mut heads, mut widths, mut experts) = (Vec::new(), Vec::new(), Vec::new());
        let mut tied = false;
        for layer in model.layers() {
            match &layer.kind {
                LayerKind::Attention(attention) => add(
                    &mut heads,
                    Heads {
                        query: attention.heads,
                        key_value: attention.kv_heads(),
                        causal: attention.causal,
                    },
                ),
                LayerKind::Mlp(mlp) => add(&mut widths, mlp.intermediate),
                LayerKind::Moe(moe) => {
                    add(
                        &mut experts,
                        Experts { count: moe.experts, top_k: moe.top_k, intermediate: moe.intermediate },
                    );
                    if moe.shared_intermediate > 0 {
                        add(&mut widths, moe.shared_intermediate);
                    }
                }
                LayerKind::Head(head) => tied |= head.tied,
                LayerKind::Embedding(_) | LayerKind::Loss(_) => {}
            }
        }
        Self {
            devices,
            blocks: model.blocks(),
            heads,
            widths,
            experts,
            tied,
            adaptive_loss: model.losses.iter().any(|loss| matches!(loss.weight, LossWeight::Adaptive { .. })),
            workload: *workload,
            profile,
            defaults: Defaults::new(workload, profile),
            cut_costs: CutCosts::of(model),
        }
    }
}

fn add<T: PartialEq>(list: &mut Vec<T>, entry: T) {
    if !list.contains(&entry) {
        list.push(entry);
    }
}
