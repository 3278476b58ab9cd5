//! The tables of the page.

use maud::{Markup, html};

use crate::plan::{Plan, StrategyRecord};
use crate::units::grouped;

use super::super::{map, words};
use super::copying::{code, parts};
use super::section;

/// A table of these columns, of which the marked hold numbers, under a caption that may be empty.
pub fn table(caption: &str, columns: &[(&str, bool)], rows: impl Iterator<Item = Vec<Markup>>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label=(caption) {
            table.cards {
                caption { (caption) }
                thead { tr {
                    @for (name, is_number) in columns { th.number[*is_number] scope="col" { (name) } }
                } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (place, (cell, (name, is_number))) in row.into_iter().zip(columns).enumerate() {
                                @if place == 0 {
                                    th.number[*is_number] scope="row" data-column=(name) { (cell) }
                                } @else {
                                    td.number[*is_number] data-column=(name) { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

pub fn plain(text: impl ToString) -> Markup {
    html! { (text.to_string()) }
}

/// What the strategy sets, where it is not the plainest.
pub fn strategy(record: &StrategyRecord) -> Markup {
    let yes = |is_on: bool| if is_on { "on" } else { "off" }.to_owned();
    let is_split = |size: u64| size > 1;
    let layers: Vec<_> = record.stage_layers.iter().map(u32::to_string).collect();
    let entries = [
        ("tensor parallel", record.tensor_parallel.to_string(), is_split(record.tensor_parallel)),
        ("sequence parallel", yes(record.sequence_parallel), is_split(record.tensor_parallel)),
        ("context parallel", record.context_parallel.to_string(), is_split(record.context_parallel)),
        ("expert parallel", record.expert_parallel.to_string(), is_split(record.expert_parallel)),
        ("pipeline stages", record.pipeline_parallel.to_string(), is_split(record.pipeline_parallel)),
        ("schedule", record.schedule.clone(), is_split(record.pipeline_parallel)),
        ("chunks a stage", record.virtual_stages.to_string(), is_split(record.virtual_stages)),
        ("blocks a chunk", layers.join(", "), is_split(record.pipeline_parallel)),
        ("data parallel", record.data_parallel.to_string(), true),
        ("ZeRO stage", record.zero_stage.to_string(), true),
        ("shard group", record.shard_group.to_string(), record.zero_stage > 0),
        ("reshard after forward", yes(record.reshard_after_forward), record.zero_stage == 3),
        ("sequences a micro-batch", record.micro_batch.to_string(), true),
        ("micro-batches a step", record.accumulation.to_string(), true),
        ("gradient sync", record.gradient_sync.clone(), is_split(record.accumulation)),
        ("recompute", record.checkpointing.clone(), true),
        ("offload", record.offload.clone(), record.offload != "none"),
        ("compression", record.compression.clone(), record.compression != "none"),
        ("order of ranks", record.mesh_order.clone(), true),
    ];
    html! {
        dl.facts {
            @for (name, value, matters) in entries {
                @if matters { div { dt { (name) } dd { (parts(&value)) } } }
            }
        }
    }
}

/// Memory and time of each pipeline rank; nothing where there is but one.
pub fn ranks(plan: &Plan) -> Markup {
    let ranks = &plan.prediction.ranks;
    if ranks.len() < 2 {
        return html! {};
    }
    let columns = [
        ("stage", true),
        ("live at the peak", true),
        ("host memory", true),
        ("reached at", true),
        ("reached in", false),
        ("step", true),
        ("bubble", true),
    ];
    let rows = ranks.iter().map(|rank| {
        vec![
            plain(rank.stage),
            plain(rank.peak_memory_bytes),
            plain(rank.host_memory_bytes),
            plain(rank.peak_at_s),
            plain(&rank.peak_instant),
            plain(rank.step_time_s),
            plain(rank.time_s.bubble),
        ]
    });
    html! {
        details open[ranks.len() <= 8] {
            summary { "All " (ranks.len()) " pipeline ranks" }
            (table("Pipeline ranks", &columns, rows))
        }
    }
}

/// The next best plans.
pub fn alternatives(plan: &Plan) -> Markup {
    if plan.alternatives.is_empty() {
        return html! {};
    }
    let columns = [
        ("strategy", false),
        ("step time", true),
        ("memory", true),
        ("MFU", true),
        ("what it trades", false),
    ];
    let rows = plan.alternatives.iter().map(|other| {
        vec![
            code(&other.strategy.text),
            plain(other.prediction.step_time_s),
            plain(other.prediction.process_bytes()),
            plain(words::percent(other.prediction.mfu)),
            html! {
                (other.trades)
                @for difference in &other.strategy.numerics { br; span.caution { (difference) } }
            },
        ]
    });
    section("alternatives", "The next plans", table("Next best first", &columns, rows))
}

/// The steps of the ladder.
pub fn ladder(plan: &Plan) -> Markup {
    let columns =
        [("change", false), ("step time", true), ("memory", true), ("fit", false), ("strategy", false)];
    let device = plan.cluster.device_memory_bytes;
    let rows = plan.ladder.iter().map(|step| {
        vec![
            plain(&step.changed),
            plain(step.prediction.step_time_s),
            plain(step.prediction.process_bytes()),
            plain(words::fit(&step.prediction, device)),
            code(&step.strategy.text),
        ]
    });
    table("From the simplest strategy to this plan", &columns, rows)
}

/// The plans of the Pareto front.
pub fn pareto(plan: &Plan) -> Markup {
    let has_devices = plan.pareto.iter().any(|point| point.devices.is_some());
    let has_cost = plan.pareto.iter().any(|point| point.cost_token.is_some());
    let mut columns = vec![("", true), ("step time", true), ("memory", true)];
    columns.extend(has_devices.then_some(("devices", true)));
    columns.extend(has_cost.then_some(("cost of a million tokens", true)));
    columns.push(("strategy", false));
    let rows =
        plan.pareto.iter().enumerate().map(|(place, point)| {
            let mut cells = vec![plain(place + 1), plain(point.step_time_s), plain(point.process_bytes())];
            cells.extend(has_devices.then(|| plain(point.devices.map_or(String::new(), grouped))));
            cells.extend(has_cost.then(|| {
                plain(point.cost_token.map_or(String::new(), |cost| map::million(cost).to_string()))
            }));
            cells.push(html! {
                (code(&point.strategy))
                @if words::is_chosen(plan, point) { " " strong { "chosen" } }
            });
            cells
        });
    let caption = format!("Plans that no other beats in {}", words::dimensions(plan));
    html! {
        @if plan.pareto.len() <= 12 {
            (table(&caption, &columns, rows))
        } @else {
            details { summary { "All " (plan.pareto.len()) " plans" } (table(&caption, &columns, rows)) }
        }
    }
}

/// What became of every strategy, and the values tried.
pub fn search(plan: &Plan) -> Markup {
    let Some(account) = &plan.search else { return html! {} };
    let fates = [
        ("illegal", account.illegal),
        ("out of memory", account.out_of_memory),
        ("ruled out by their lower bound of time", account.bounded),
        ("priced", account.priced),
    ];
    let fates = fates.into_iter().map(|(fate, number)| {
        vec![
            plain(fate),
            plain(grouped(number)),
            plain(words::share(number as f64, account.considered as f64)),
        ]
    });
    let axes =
        account.axes.iter().map(|(key, values)| vec![html! { code { (key) } }, plain(values.join(", "))]);
    section(
        "search",
        "The search",
        html! {
            p { (words::search(account)) "; " (words::proof(account)) "." }
            (table("What became of every strategy", &[("fate", false), ("strategies", true), ("share", true)], fates))
            @if !account.axes.is_empty() {
                details {
                    summary { "Values tried on each key" }
                    (table("Values tried", &[("key", false), ("values", false)], axes))
                }
            }
        },
    )
}

/// Where the numbers come from.
pub fn provenance(plan: &Plan) -> Markup {
    let entry = |name: &str, value: Markup| html! { div { dt { (name) } dd { (value) } } };
    section(
        "provenance",
        "What the numbers rest on",
        html! {
            dl.facts.wide {
                (entry("cost model", plain(&plan.cost_model.name)))
                (entry("its evidence", plain(&plan.cost_model.origin)))
                (entry("its hash", html! { code { (plan.cost_model.hash) } }))
                (entry("engine", plain(&plan.engine)))
                (entry("model", html! {
                    (plan.model.name) ", " (grouped(plan.model.parameters)) " parameters"
                }))
                (entry("cluster", html! {
                    (plan.cluster.name) ", " (words::several("device", plan.cluster.devices)) " of "
                    (plan.cluster.device_memory_bytes)
                }))
                (entry("digest of the plan", html! { code { (plan.digest) } }))
            }
            p.small {
                "MFU counts matrix weights that multiply and attention over whole sequences, no recompute, against the \
                 dense peak of " (plan.workload.precision) "."
            }
        },
    )
}
