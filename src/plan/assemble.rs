//! From played strategies to the plan document.

use crate::cluster::ClusterDocument;
use crate::lower::Category;
use crate::lower::unit::units;
use crate::model::layer_graph;
use crate::plan::cautions;
use crate::plan::document::{
    CategoryBytes, ClusterRecord, CostModelRecord, Interval, ModelRecord, Plan, Prediction, RankPrediction,
    SafeMemory, StrategyRecord, TimelinePass, TimelineSpan,
};
use crate::plan::evidence::evidence;
use crate::plan::experts::expert_slots;
use crate::plan::file::VERSION;
use crate::plan::gradients::{GradientRecord, Lived, gradients};
use crate::plan::over_time::memory_over_time;
use crate::plan::verdict::verdict;
use crate::profile::catalog::sha256;
use crate::profile::coverage::HalfWidths;
use crate::program::build::build_on;
use crate::program::placing::Extent;
use crate::program::state::StateRules;
use crate::program::{Layout, Pass, Program};
use crate::search::{Candidate, Problem};
use crate::simulate::{RankPlayback, Span};
use crate::spelling::hidden;
use crate::strategy::{Draft, RuleBreak, Strategy};
use crate::units::{Bytes, Seconds};

/// Plays `strategy`, which must be legal, and writes it up.
pub fn simulate(problem: &Problem<'_>, strategy: Strategy) -> Plan {
    let candidate = problem.play(strategy);
    let mut plan = document(problem, &candidate);
    plan.verdict = verdict(problem, &candidate, &plan.prediction);
    plan.digest = digest(&plan);
    plan
}

/// Plays what `draft` means, with a warning for each of its keys that has no effect.
///
/// # Errors
/// The rule that it breaks.
pub fn simulate_draft(problem: &Problem<'_>, draft: &Draft) -> Result<Plan, RuleBreak> {
    let strategy = draft.resolve(&problem.facts)?;
    let idle = draft.idle(&strategy, problem.facts.defaults);
    let mut plan = simulate(problem, strategy);
    plan.warnings.extend(idle);
    plan.digest = digest(&plan);
    Ok(plan)
}

/// The document of `candidate` without what only a search knows; verdict and digest are left to the caller.
pub(super) fn document(problem: &Problem<'_>, candidate: &Candidate) -> Plan {
    let cluster = problem.cluster;
    let graph = layer_graph::document(problem.model);
    let strategy = strategy_record(problem, &candidate.strategy);
    let prediction = prediction(problem, candidate);
    // They quote what others wrote, and a document has no hidden characters.
    let shown = problem.model.warnings.iter().map(|warning| hidden::shown(warning).into_owned());
    let mut warnings: Vec<String> = shown.collect();
    warnings.extend(expert_slots(problem, &candidate.strategy));
    warnings.extend(cautions::of_problem(problem));
    warnings.extend(cautions::of_prediction(cluster, &prediction));
    let evidence = evidence(problem, &candidate.strategy, &prediction);
    let layout = problem.layout(&candidate.strategy);
    let program = build_on(&layout, &candidate.strategy, &problem.workload, problem.engine);
    Plan {
        version: VERSION,
        engine: problem.engine.name.clone(),
        cost_model: CostModelRecord {
            name: cluster.device.name.clone(),
            hash: cluster.cost_model_hash.clone(),
            origin: origin(problem),
        },
        model: ModelRecord {
            name: problem.model.name.clone(),
            parameters: problem.model.parameter_count(),
            layers: problem.model.blocks(),
            graph: serde_json::to_value(graph).unwrap_or_default(),
        },
        cluster: ClusterRecord {
            name: cluster.name.clone(),
            devices: cluster.devices(),
            nodes: cluster.nodes,
            device: cluster.device.name.clone(),
            device_memory_bytes: cluster.device.memory.value,
            document: serde_json::to_value(ClusterDocument::of(cluster)).unwrap_or_default(),
        },
        workload: problem.workload,
        strategy,
        prediction,
        evidence,
        fastest: None,
        engines: Vec::new(),
        search: None,
        alternatives: Vec::new(),
        ladder: Vec::new(),
        pareto: Vec::new(),
        swept: None,
        sweep: Vec::new(),
        break_evens: Vec::new(),
        sensitivity: Vec::new(),
        maximum: None,
        cost: None,
        goodput: None,
        verdict: String::new(),
        timeline: timeline(candidate),
        memory_over_time: Some(memory_over_time(problem, (candidate, fullest(candidate)), &program)),
        gradients: gradients_of(problem, &candidate.strategy, (&layout, &program)),
        warnings,
        digest: String::new(),
    }
}

fn gradients_of(
    problem: &Problem<'_>,
    strategy: &Strategy,
    (layout, program): (&Layout, &Program),
) -> Vec<GradientRecord> {
    let rules = StateRules::new(strategy, &problem.workload, problem.engine);
    let units = units(problem.model);
    gradients(&Lived { model: problem.model, units: &units, layout, rules: &rules }, program)
}

/// SHA-256 of the document with an empty digest and no wall time, in hexadecimal.
pub fn digest(plan: &Plan) -> String {
    let mut rest = Plan { digest: String::new(), ..plan.clone() };
    if let Some(search) = &mut rest.search {
        search.wall_time_s = 0.0;
    }
    sha256(&serde_json::to_string(&rest).unwrap_or_default())
}

fn origin(problem: &Problem<'_>) -> String {
    let parts: Vec<_> = problem
        .cluster
        .device
        .evidence()
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    parts.join(", ")
}

/// `strategy` as text and field by field.
pub(super) fn strategy_record(problem: &Problem<'_>, strategy: &Strategy) -> StrategyRecord {
    let text = strategy.text(problem.facts.defaults);
    let key = |name: &str, default: &str| {
        text.split(',')
            .find_map(|part| part.split_once('=').filter(|(key, _)| *key == name).map(|(_, value)| value))
            .unwrap_or(default)
            .to_owned()
    };
    StrategyRecord {
        description: strategy.describe(u64::from(problem.cluster.devices_per_node)),
        tensor_parallel: strategy.tensor,
        sequence_parallel: strategy.sequence_parallel,
        context_parallel: strategy.context,
        expert_parallel: strategy.expert,
        pipeline_parallel: strategy.pipeline,
        virtual_stages: strategy.virtual_stages,
        stage_layers: strategy.cuts.clone(),
        schedule: strategy.schedule.to_string(),
        data_parallel: strategy.data,
        zero_stage: strategy.zero,
        shard_group: strategy.shard,
        reshard_after_forward: strategy.reshard_after_forward,
        micro_batch: strategy.micro_batch,
        accumulation: strategy.accumulation,
        gradient_sync: strategy.sync.to_string(),
        checkpointing: key("ckpt", "none"),
        offload: key("offload", "none"),
        compression: strategy.compression.to_string(),
        mesh_order: key("order", "tp-cp-dp-pp"),
        numerics: strategy.differences(&problem.facts),
        text,
    }
}

/// The peak of the fullest rank, as every report prints it.
pub fn peak(problem: &Problem<'_>, candidate: &Candidate) -> Bytes {
    candidate.peak() + problem.cluster.device.reserve.workspace.value
}

/// What is predicted of `candidate`.
pub fn prediction(problem: &Problem<'_>, candidate: &Candidate) -> Prediction {
    let playback = &candidate.playback;
    let step = playback.step_time;
    let causes = playback.causes();
    let fullest = &playback.ranks[fullest(candidate)];
    let workspace = problem.cluster.device.reserve.workspace.value;
    let peak = peak(problem, candidate);
    let HalfWidths { time, memory } = problem.half_widths(candidate);
    let devices = candidate.strategy.devices() as f64;
    Prediction {
        step_time_s: step,
        tokens_per_s_per_device: problem.workload.tokens() as f64 / step.0 / devices,
        mfu: crate::plan::mfu::model_flops(problem.model, &problem.workload).0
            / (devices * step.0 * problem.cluster.device.peak(problem.workload.precision).0),
        interval: Interval {
            step_time_s: [step * (1.0 - time), step * (1.0 + time)],
            peak_memory_bytes: [peak.scaled(1.0 - memory), peak.scaled(1.0 + memory)],
        },
        fits: problem.fits(candidate),
        peak_memory_bytes: peak,
        extent_bytes: candidate.extents.iter().map(|extent| extent.device).max().unwrap_or_default()
            + workspace,
        memory_bytes: categories(&fullest.memory.categories, workspace),
        safe_memory_bytes: SafeMemory {
            allocated: candidate.memory.allocated,
            reserved: candidate.memory.reserved,
            process: candidate.memory.process,
        },
        host_memory_bytes: playback.ranks.iter().map(|rank| rank.memory.host).max().unwrap_or_default(),
        host_extent_bytes: candidate.extents.iter().map(|extent| extent.host).max().unwrap_or_default(),
        time_s: causes.into(),
        communication_hidden_s: causes.communication_hidden,
        ranks: playback
            .ranks
            .iter()
            .zip(&candidate.extents)
            .map(|(rank, extent)| rank_prediction(rank, *extent, workspace))
            .collect(),
    }
}

fn rank_prediction(rank: &RankPlayback, extent: Extent, workspace: Bytes) -> RankPrediction {
    RankPrediction {
        stage: rank.stage,
        step_time_s: rank.end,
        peak_memory_bytes: rank.memory.total + workspace,
        extent_bytes: extent.device + workspace,
        memory_bytes: categories(&rank.memory.categories, workspace),
        peak_at_s: rank.peak_at,
        peak_instant: rank.spans.get(rank.memory.call).map_or_else(
            || "step".to_owned(),
            |span| instant(span, rank.spans.iter().any(|other| other.pass.is_some() && other.chunk > 0)),
        ),
        host_memory_bytes: rank.memory.host,
        host_extent_bytes: extent.host,
        time_s: rank.causes.into(),
        communication_hidden_s: rank.causes.communication_hidden,
    }
}

/// A pass in words; which chunk is said where the rank has several.
fn instant(span: &Span, has_chunks: bool) -> String {
    let pass = match span.pass {
        Some(Pass::Forward) => "forward",
        Some(Pass::Backward) => "backward",
        Some(Pass::Weight) => "weight gradients",
        None => return "optimizer step".to_owned(),
    };
    let chunk = if has_chunks { format!(", chunk {}", span.chunk) } else { String::new() };
    format!("{pass} of micro-batch {}{chunk}", span.micro)
}

pub(super) fn categories(held: &[Bytes; 7], workspace: Bytes) -> CategoryBytes {
    let of = |category: Category| held[category as usize];
    CategoryBytes {
        parameters: of(Category::Parameters),
        gradients: of(Category::Gradients),
        optimizer: of(Category::Optimizer),
        activations: of(Category::Activations),
        logits: of(Category::Logits),
        buffers: of(Category::Buffers),
        overhead: of(Category::Overhead) + workspace,
    }
}

/// The place of the rank with the highest peak, the first of several.
fn fullest(candidate: &Candidate) -> usize {
    let ranks = &candidate.playback.ranks;
    let peak = |place: usize| ranks[place].memory.total;
    (0..ranks.len()).reduce(|full, rank| if peak(rank) > peak(full) { rank } else { full }).unwrap_or(0)
}

/// To a tenth of a microsecond.
pub(super) fn rounded(seconds: Seconds) -> Seconds {
    Seconds((seconds.0 * 1e7).round() / 1e7)
}

/// Most spans a document carries; a longer step is shown by its first and last parts.
const MOST_SPANS: usize = 20_000;

fn timeline(candidate: &Candidate) -> Vec<TimelineSpan> {
    let ranks = &candidate.playback.ranks;
    let most = (MOST_SPANS / ranks.len().max(1)).max(4);
    let mut list = Vec::new();
    for rank in ranks {
        let count = rank.spans.len();
        for (index, span) in rank.spans.iter().enumerate() {
            if count > most && index >= most / 2 && index < count - most / 2 {
                continue;
            }
            let pass = match span.pass {
                Some(Pass::Forward) => TimelinePass::Forward,
                Some(Pass::Backward) => TimelinePass::Backward,
                Some(Pass::Weight) => TimelinePass::Weight,
                None => TimelinePass::Step,
            };
            list.push(TimelineSpan {
                stage: rank.stage,
                pass,
                chunk: span.chunk,
                micro: span.micro,
                start_s: rounded(span.start),
                end_s: rounded(span.end),
            });
        }
    }
    list
}
