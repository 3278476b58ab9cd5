//! The plugins of ColossalAI, which one a strategy takes, and how each numbers ranks.

use crate::export::case::Case;
use crate::strategy::{Axis, CheckpointMode, ContextKind, MeshOrder, Strategy};

/// Elements and bytes of buckets are counted in these.
pub const MEGA: f64 = 1_048_576.0;

/// A plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// ZeRO 1 and 2 over all ranks.
    LowLevelZero,
    /// ZeRO 3 in chunks, with tensor parallelism beside it.
    Gemini,
    /// Everything else of models without experts.
    Hybrid,
    /// The same of models with experts.
    Moe,
}

impl Plugin {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::LowLevelZero, Self::Gemini, Self::Hybrid, Self::Moe];

    /// The name of its class.
    pub const fn class(self) -> &'static str {
        match self {
            Self::LowLevelZero => "LowLevelZeroPlugin",
            Self::Gemini => "GeminiPlugin",
            Self::Hybrid => "HybridParallelPlugin",
            Self::Moe => "MoeHybridParallelPlugin",
        }
    }

    /// The plugin that runs the strategy of `case`, or the nearest to it.
    pub fn of(case: &Case<'_>) -> Self {
        let s = case.strategy;
        let is_alone = s.tensor == 1 && s.pipeline == 1 && s.context == 1 && s.expert == 1;
        match s.zero {
            3 if s.pipeline == 1 && s.context == 1 && s.expert == 1 => Self::Gemini,
            1.. if is_alone => Self::LowLevelZero,
            _ if case.problem.facts.experts.is_empty() => Self::Hybrid,
            _ => Self::Moe,
        }
    }
}

/// The order in which ranks are numbered (4f9953be `booster/plugin/hybrid_parallel_plugin.py:1100-1117`,
/// `gemini_plugin.py:551`): ring attention has tensor ranks nearest, other kinds the ranks of a sequence; data ranks are
/// beyond the pipeline where they are `outside`.
pub fn order(plugin: Plugin, kind: ContextKind, outside: bool) -> MeshOrder {
    use Axis::{Context, Pipeline, Replica, Shard, Tensor};
    let [first, second] = match kind {
        ContextKind::Ring => [Tensor, Context],
        ContextKind::Ulysses => [Context, Tensor],
    };
    match plugin {
        Plugin::LowLevelZero => MeshOrder::default(),
        Plugin::Gemini => MeshOrder([Tensor, Context, Replica, Shard, Pipeline]),
        Plugin::Hybrid | Plugin::Moe if outside => MeshOrder([first, second, Pipeline, Shard, Replica]),
        Plugin::Hybrid | Plugin::Moe => MeshOrder([first, second, Shard, Replica, Pipeline]),
    }
}

/// Whether data ranks are beyond the pipeline, as the plan lays its mesh.
pub fn is_outside(plugin: Plugin, strategy: &Strategy) -> bool {
    let size = |axis| strategy.size(axis);
    let outside = order(plugin, kind(plugin, strategy), true);
    // With experts, expert ranks would stay inside the pipeline, which no order of ours has.
    plugin == Plugin::Hybrid && strategy.order.normalised(size) == outside.normalised(size)
}

/// The kind of context parallelism that the plugin runs the strategy with.
pub fn kind(plugin: Plugin, strategy: &Strategy) -> ContextKind {
    match plugin {
        // Its sequence parallelism has no ring over ranks of their own.
        Plugin::Moe if strategy.context > 1 => ContextKind::Ulysses,
        _ => strategy.context_kind,
    }
}

/// Where in a list of stages, a chunk of each behind another, chunk `index` of the model stands.
pub fn place(strategy: &Strategy, index: u64) -> usize {
    let stage = strategy.stage_of(index);
    let turn = index / strategy.pipeline;
    usize::try_from(turn * strategy.pipeline + stage).unwrap_or_default()
}

/// The first blocks of each chunk that recompute wholly, where not all blocks or none do.
pub fn partly(strategy: &Strategy) -> Option<Vec<u32>> {
    let full = |index: usize| {
        strategy.checkpoint[index].modes().take_while(|mode| *mode == CheckpointMode::Full).count() as u32
    };
    let counts: Vec<u32> = (0..strategy.checkpoint.len()).map(full).collect();
    let is_all = counts == strategy.cuts;
    (!is_all && counts.iter().any(|count| *count > 0)).then_some(counts)
}

/// Whether any block recomputes.
pub fn recomputes(strategy: &Strategy) -> bool {
    let mut runs = strategy.checkpoint.iter().flat_map(|chunk| &chunk.runs);
    runs.any(|(mode, count)| *count > 0 && *mode != CheckpointMode::None)
}
