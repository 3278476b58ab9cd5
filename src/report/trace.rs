//! The passes of a plan as trace events, which Perfetto and Chrome's tracing page show.

use serde_json::{Value, json};

use crate::plan::Plan;
use crate::plan::document::{TimelinePass, TimelineSpan};

/// A trace event document (the JSON format of Chrome's tracing page): one thread a pipeline stage, times in
/// microseconds.
pub fn trace_events(plan: &Plan) -> Value {
    let stages = plan.timeline.iter().map(|span| span.stage + 1).max().unwrap_or(0);
    let title = format!("{} on {}: {}", plan.model.name, plan.cluster.name, plan.strategy.text);
    let process = json!({ "ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": { "name": title } });
    let threads = (0..stages).flat_map(|stage| {
        let name = json!({ "name": format!("stage {stage}") });
        let order = json!({ "sort_index": stage });
        [("thread_name", name), ("thread_sort_index", order)]
            .map(|(event, args)| json!({ "ph": "M", "name": event, "pid": 0, "tid": stage, "args": args }))
    });
    let events: Vec<Value> =
        std::iter::once(process).chain(threads).chain(plan.timeline.iter().map(event)).collect();
    json!({ "displayTimeUnit": "ms", "traceEvents": events })
}

/// A complete event: its start and how long it takes.
fn event(span: &TimelineSpan) -> Value {
    let (pass, name) = match span.pass {
        TimelinePass::Forward => ("forward", format!("forward {}", span.micro)),
        TimelinePass::Backward => ("backward", format!("backward {}", span.micro)),
        TimelinePass::Weight => ("weight", format!("weight {}", span.micro)),
        TimelinePass::Step => ("step", "optimizer step".to_owned()),
    };
    json!({
        "ph": "X",
        "name": name,
        "cat": pass,
        "pid": 0,
        "tid": span.stage,
        "ts": span.start_s.0 * 1e6,
        "dur": (span.end_s - span.start_s).0.max(0.0) * 1e6,
        "args": { "chunk": span.chunk, "micro_batch": span.micro },
    })
}
