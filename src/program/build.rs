//! From a model under a strategy to its step program.

use crate::model::Model;
use crate::ops::Op;
use crate::profile::EngineProfile;
use crate::program::frame::ChunkFrame;
use crate::program::instruction::{Call, Frame, Message, Program, RankProgram, Task, Template};
use crate::program::layout::{Chunk, Layout, PlacedUnit};
use crate::program::passes::{self, Plan, Variant};
use crate::program::reduction::reduces;
use crate::program::schedule::{Action, Pass, orders};
use crate::program::state::{Gathering, StateRules, persistent};
use crate::program::step;
use crate::strategy::{Strategy, Workload};
use crate::units::Bytes;

/// Builds the program of one optimizer step. `strategy` must be legal for `model`, `workload` and `engine`.
pub fn build(model: &Model, strategy: &Strategy, workload: &Workload, engine: &EngineProfile) -> Program {
    build_on(&Layout::new(model, strategy, workload, engine), strategy, workload, engine)
}

/// Builds the program of a model that is laid out already.
pub fn build_on(
    layout: &Layout,
    strategy: &Strategy,
    workload: &Workload,
    engine: &EngineProfile,
) -> Program {
    let entering: Vec<Bytes> =
        (0..layout.chunks.len()).map(|chunk| entering_of(layout, chunk as u32)).collect();
    let plan = Plan {
        layout,
        strategy,
        engine,
        rules: StateRules::new(strategy, workload, engine),
        entering: &entering,
    };
    let orders = orders(strategy.schedule, strategy.pipeline, strategy.accumulation, strategy.virtual_stages);
    let ranks =
        orders.into_iter().enumerate().map(|(stage, order)| rank(&plan, workload, stage, &order)).collect();
    Program { ranks }
}

/// Bytes of the residual stream that crosses into `chunk`; one without units passes on what the next takes.
pub fn entering_of(layout: &Layout, chunk: u32) -> Bytes {
    let next = layout.chunks[chunk as usize..].iter().find_map(|chunk| chunk.units.first());
    next.and_then(|unit| {
        let lowered = layout.lowered(unit);
        lowered.input.map(|id| lowered.values[usize::from(id)].bytes)
    })
    .unwrap_or_default()
}

/// The optimizer step of `stage` alone.
pub fn step_template(
    layout: &Layout,
    strategy: &Strategy,
    workload: &Workload,
    engine: &EngineProfile,
    rules: StateRules,
    stage: u32,
) -> Template {
    let plan = Plan { layout, strategy, engine, rules, entering: &[] };
    let units: Vec<&PlacedUnit> = layout.chunks_of(stage).flat_map(|chunk| &chunk.units).collect();
    step::template(&plan, workload, &units, stage as usize, 0, tied_elements(layout, stage)).0
}

/// Elements of a tied table that this stage holds a copy of, where another stage holds the other.
pub fn tied_elements(layout: &Layout, stage: u32) -> u64 {
    match tied_head(layout) {
        Some((head_stage, elements)) if stage == 0 || stage == head_stage => elements,
        _ => 0,
    }
}

/// The stage of a tied head that holds its own copy of the table, and the table's elements.
pub fn tied_head(layout: &Layout) -> Option<(u32, u64)> {
    let units =
        layout.chunks.iter().flat_map(|chunk| chunk.units.iter().map(move |unit| (chunk.stage, unit)));
    let mut apart = units.filter(|(stage, unit)| unit.parameters.trains_tied && *stage != 0);
    apart.next_back().map(|(stage, unit)| (stage, unit.parameters.tied))
}

fn rank(plan: &Plan<'_>, workload: &Workload, stage: usize, order: &[Action]) -> RankProgram {
    let chunks: Vec<&Chunk> = plan.layout.chunks_of(stage as u32).collect();
    let frames: Vec<ChunkFrame> = chunks.iter().map(|chunk| ChunkFrame::new(plan, chunk)).collect();
    let mut variants: Vec<(u32, Variant)> = Vec::new();
    let mut templates: Vec<Template> = Vec::new();
    let mut calls: Vec<Call> = Vec::with_capacity(order.len() + 1);
    for action in order {
        let variant = variant(plan, action);
        let key = (action.chunk, variant);
        let template = variants.iter().position(|known| *known == key).unwrap_or_else(|| {
            variants.push(key);
            let place = action.chunk as usize;
            templates.push(passes::template(plan, chunks[place], &frames[place], action.chunk, variant));
            templates.len() - 1
        });
        calls.push(Call { template: template as u32, micro: action.micro });
    }
    let units: Vec<&PlacedUnit> = chunks.iter().flat_map(|chunk| &chunk.units).collect();
    let tied = tied_elements(plan.layout, stage as u32);
    let (step, step_frame) = step::template(plan, workload, &units, stage, frames.len() as u32, tied);
    calls.push(Call { template: templates.len() as u32, micro: 0 });
    templates.push(step);
    let frames: Vec<Frame> = frames.into_iter().map(|frame| frame.frame).chain([step_frame]).collect();
    // A table is borrowed where the embedding is: on the first stage.
    let lenders = if stage == 0 { plan.layout.lenders() } else { Vec::new() };
    RankProgram {
        stage: stage as u32,
        table_starts_with: table_starts_with(&lenders, &calls, &templates),
        lenders,
        has_inboxes: plan.engine.buffers.placed,
        gathers_once: plan.rules.gathering == Gathering::OnceAStep,
        persistent: persistent(
            &units,
            (stage, plan.layout.matrix_shape_elements(stage as u32)),
            &inboxes(plan, &templates),
            plan.layout.scalars(plan.strategy.accumulation),
            &plan.rules,
            plan.strategy,
            plan.engine,
        ),
        frames,
        templates,
        calls,
    }
}

/// The unit whose instruction is the first of micro-batch 0 to write to the gradient of a lent table.
fn table_starts_with(lenders: &[(u32, u32)], calls: &[Call], templates: &[Template]) -> Option<u32> {
    let lender = lenders.first()?.1;
    let shares = |unit: u32| unit == lender || lenders.iter().any(|&(borrower, _)| borrower == unit);
    let firsts = calls.iter().filter(|call| call.micro == 0);
    let mut instructions = firsts.flat_map(|call| &templates[call.template as usize].instructions);
    let first = instructions.find(|one| {
        let writes = match one.task {
            // Into a buffer of the pass, it is written to what is kept later.
            Task::Kernel { kernel, adds_gradient, .. } => {
                adds_gradient && kernel.is_of_table() && one.writes.is_empty()
            }
            Task::KeepGradient { .. } | Task::AddGradient { .. } => true,
            _ => false,
        };
        writes && one.unit.is_some_and(shares)
    });
    first?.unit
}

/// The messages that the passes of `templates` receive, with their sizes, where messages arrive in memory of their own.
fn inboxes(plan: &Plan<'_>, templates: &[Template]) -> Vec<(Message, Bytes)> {
    let mut list: Vec<(Message, Bytes)> = Vec::new();
    for template in templates.iter().filter(|_| plan.engine.buffers.placed) {
        for one in template.instructions.iter().filter(|one| one.task == Task::Receive) {
            let (Some(message), Op::Receive(bytes)) = (one.message, one.op) else { continue };
            if list.iter().all(|(known, _)| *known != message) {
                list.push((message, bytes));
            }
        }
    }
    list
}

/// What is special about `action`; passes without anything special share one template.
fn variant(plan: &Plan<'_>, action: &Action) -> Variant {
    let strategy = plan.strategy;
    let (reduces, across_replicas) = reduces(strategy, u64::from(action.micro), strategy.accumulation);
    let last_pass = if strategy.schedule.splits_weight() { Pass::Weight } else { Pass::Backward };
    let concerns = action.pass == last_pass
        || action.pass == Pass::Backward && !plan.rules.keeps_whole_gradients
        || (action.pass == Pass::Forward
            && strategy.loss == crate::profile::choices::LossMode::Chunked
            && !plan.rules.keeps_whole_gradients);
    Variant {
        pass: action.pass,
        first: action.pass == Pass::Forward
            && action.micro == 0
            && (plan.rules.gathering == Gathering::OnceAStep || plan.rules.gathers_updates_ahead),
        reduces: reduces && concerns,
        across_replicas: across_replicas && concerns,
    }
}
