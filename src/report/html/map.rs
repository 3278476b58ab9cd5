//! The sections of the page about a plan's surroundings: run and cost, sweep, what if, the largest that fits.

use maud::{Markup, html};

use crate::plan::Plan;

use super::super::{map, plot, words};
use super::copying::code;
use super::figures::fitting;
use super::tables::{plain, table};
use super::{legend, section};

/// Days and money of a run; nothing where neither was asked for.
pub fn run(plan: &Plan) -> Markup {
    let goodput = plan.goodput.as_ref().map(map::run);
    let cost = plan.cost.as_ref().map(|cost| map::cost(cost, plan.goodput.as_ref()));
    let list = |items: Vec<String>| html! { ul { @for item in items { li { (item) } } } };
    match (goodput, cost) {
        (None, None) => html! {},
        (goodput, cost) => section(
            "run",
            "The run",
            html! {
                @if let Some(items) = goodput { h3 { "Time" } (list(items)) }
                @if let Some(items) = cost { h3 { "Cost" } (list(items)) }
            },
        ),
    }
}

/// The best plan at each value of a sweep.
pub fn sweep(plan: &Plan) -> Markup {
    let Some(key) = plan.swept else { return html! {} };
    let columns = [
        (map::column(key), true),
        ("step time", true),
        ("tokens/s", true),
        ("efficiency", true),
        ("memory", true),
        ("run", true),
        ("cost of a million tokens", true),
        ("strategy", false),
    ];
    let rows: Vec<Vec<Option<Markup>>> = plan
        .sweep
        .iter()
        .map(|point| {
            let prediction = point.prediction.as_ref();
            let days = point.goodput.as_ref().and_then(|goodput| goodput.days);
            vec![
                Some(plain(map::shown(key, map::value(key, point)))),
                Some(prediction.map_or(plain("-"), |prediction| plain(prediction.step_time_s))),
                Some(point.tokens_per_s.map_or(plain("-"), |rate| plain(words::rate(rate)))),
                point.efficiency.map(|share| plain(words::percent(share))),
                Some(prediction.map_or(plain("-"), |prediction| plain(prediction.process_bytes()))),
                days.map(|days| plain(map::span(days * 86_400.0))),
                point.cost.map(|cost| plain(map::million(cost.token))),
                Some(html! {
                    @if let Some(strategy) = &point.strategy { (code(&strategy.text)) }
                    @if let Some(reason) = &point.reason { (reason) }
                    @if map::is_chosen(plan, point) { " " strong { "chosen" } }
                }),
            ]
        })
        .collect();
    // A column that no row has is not shown.
    let is_used: Vec<bool> =
        (0..columns.len()).map(|place| rows.iter().any(|row| row[place].is_some())).collect();
    let used = |place: &usize| is_used[*place];
    let columns: Vec<_> = (0..columns.len()).filter(used).map(|place| columns[place]).collect();
    let rows = rows.into_iter().map(|row| {
        let cells = row.into_iter().enumerate().filter(|(place, _)| used(place));
        cells.map(|(_, cell)| cell.unwrap_or_else(|| plain("-"))).collect()
    });
    let has_ideal = key == crate::search::map::SweepKey::Devices;
    let has_change = !plan.break_evens.is_empty();
    section(
        "sweep",
        "The sweep",
        html! {
            p { "The best plan at each value, each searched by itself." }
            @if has_change {
                (legend([(1, "the kind of the plan before"), (4, "another kind of plan")].into_iter()))
            }
            (fitting(|width| plot::throughput(plan, key, width), html! {
                "Tokens a second of all devices together."
                @if has_ideal { " The thin line is perfect scaling from the fewest devices that fit." }
            }))
            @if plan.sweep.iter().any(|point| point.cost.is_some()) {
                (fitting(|width| plot::cost(plan, key, width), html! { "What training costs, without failures." }))
            }
            @if has_change {
                h3 { "Where the kind of plan changes" }
                ul { @for found in &plan.break_evens { li { (map::break_even(key, found)) } } }
            }
            (table("The best plan at each value", &columns, rows))
        },
    )
}

/// What the plan would be were one thing different.
pub fn sensitivity(plan: &Plan) -> Markup {
    if plan.sensitivity.is_empty() {
        return html! {};
    }
    let columns = [
        ("with", false),
        ("step time", true),
        ("memory", true),
        ("best plan then", false),
        ("keeping this plan costs", false),
    ];
    let rows = plan.sensitivity.iter().map(|answer| {
        let prediction = answer.prediction.as_ref();
        vec![
            plain(answer.scenario.words()),
            prediction.map_or(plain("-"), |prediction| plain(prediction.step_time_s)),
            prediction.map_or(plain("-"), |prediction| plain(prediction.process_bytes())),
            match (&answer.strategy, map::changes(plan, answer)) {
                (Some(strategy), changes) if changes != "the same" => code(&strategy.text),
                (_, changes) => plain(changes),
            },
            plain(map::kept(&answer.kept)),
        ]
    });
    section("sensitivity", "What if", table("One thing different at a time", &columns, rows))
}

/// The largest that fits.
pub fn maximum(plan: &Plan) -> Markup {
    let Some(record) = &plan.maximum else { return html! {} };
    let [found, next] = map::maximum(record);
    section("maximum", "The largest that fits", html! { p { (found) "." } p { (next) } })
}
