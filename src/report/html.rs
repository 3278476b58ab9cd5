//! A plan as a page for a browser: self-contained, light and dark, readable without its pictures.

mod copying;
mod evidence;
mod figures;
mod gradients;
mod map;
mod tables;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::plan::Plan;

use super::words;
pub(super) use figures::{figure, legend};
pub(super) use tables::{plain, table};

/// Colours, sizes and layout; the colours of both themes are variables.
const SHEET: &str = include_str!("html/page.css");

/// The whole page. It fetches nothing, its one script is its own and only copies; whatever comes from the plan is escaped.
pub fn page(plan: &Plan) -> String {
    let title = format!("{} on {} x {}", plan.model.name, plan.cluster.devices, plan.cluster.device);
    let header = html! {
        p.kicker { "Meshwright plan" }
        h1 { (words::subject(plan)) }
        p { (words::work(&plan.workload, &plan.engine)) }
    };
    let main = html! {
        (headline(plan))
        (strategy(plan))
        (evidence::evidence(plan))
        (figures::memory(plan))
        (map::run(plan))
        (gradients::gradients(plan))
        (figures::time(plan))
        (figures::timeline(plan))
        (figures::ladder(plan))
        (tables::alternatives(plan))
        (figures::pareto(plan))
        (map::sweep(plan))
        (map::sensitivity(plan))
        (map::maximum(plan))
        (tables::search(plan))
        (tables::provenance(plan))
        (copying::script())
    };
    let footer = "Every figure is a prediction; intervals are 80 %. GiB are 2³⁰ bytes.";
    frame(&format!("Meshwright plan: {title}"), header, main, footer)
}

/// A page of these parts, in the house's style.
pub(super) fn frame(title: &str, header: Markup, main: Markup, footer: &str) -> String {
    let body = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "meshwright " (env!("CARGO_PKG_VERSION")) };
                title { (title) }
                style { (PreEscaped(SHEET)) }
            }
            body {
                header { (header) }
                main { (main) }
                footer {
                    p { (footer) }
                    p { "Meshwright " (env!("CARGO_PKG_VERSION")) }
                }
            }
        }
    };
    body.into_string()
}

/// A section under a heading.
pub(super) fn section(id: &str, heading: &str, body: Markup) -> Markup {
    html! {
        section id=(id) aria-labelledby={ (id) "-heading" } {
            h2 id={ (id) "-heading" } { (heading) }
            (body)
        }
    }
}

fn headline(plan: &Plan) -> Markup {
    let prediction = &plan.prediction;
    let device = plan.cluster.device_memory_bytes;
    let [fast, slow] = prediction.interval.step_time_s;
    let [least, most] = prediction.interval.peak_memory_bytes;
    let tile = |name: &str, value: String, beside: String| {
        html! { div { dt { (name) } dd { strong { (value) } span { (beside) } } } }
    };
    let fit = words::fit(prediction, device);
    html! {
        section.headline aria-label="Headline numbers" {
            p.verdict { (plan.verdict) }
            @if !prediction.fits {
                p.alert role="alert" { strong { "This plan does not fit" } " (" (fit) ")." }
            }
            dl.tiles {
                (tile("step time", prediction.step_time_s.to_string(), match words::spread(prediction) {
                    Some(spread) => format!("{spread}, {fast} to {slow}"),
                    None => String::new(),
                }))
                (tile("tokens/s per device", words::rate(prediction.tokens_per_s_per_device), String::new()))
                (tile("model FLOP utilisation", words::percent(prediction.mfu), String::new()))
                (tile("peak memory of a device", prediction.peak_memory_bytes.to_string(),
                    format!("of {device}; {least} to {most}")))
                (tile("safe figure of the process", prediction.safe_memory_bytes.process.to_string(), fit.clone()))
                @if prediction.host_memory_bytes.0 > 0 {
                    (tile("host memory", prediction.host_memory_bytes.to_string(), "a device".to_owned()))
                }
            }
        }
    }
}

fn strategy(plan: &Plan) -> Markup {
    let record = &plan.strategy;
    section(
        "plan",
        "The plan",
        html! {
            p { (record.description) "." }
            (copying::copied("strategy-text", "Strategy text", &record.text))
            @for difference in &record.numerics {
                p.caution { strong { "Numerics: " } (difference) }
            }
            (tables::strategy(record))
            p { "To predict it again:" }
            (copying::copied("command", "Command", &words::command(plan)))
            @if !plan.warnings.is_empty() {
                h3 { "Warnings" }
                ul { @for warning in &plan.warnings { li.caution { (warning) } } }
            }
        },
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::sample::{mapped_plan, one_forward_one_backward, prediction, rank, sample_plan};
    use super::*;
    use crate::plan::money::Cost;
    use crate::units::{Bytes, Money, Seconds};

    /// The names of elements that are open at the end, or that close what is not open.
    pub(in crate::report) fn unbalanced(page: &str) -> Vec<String> {
        const VOID: [&str; 4] = ["meta", "!DOCTYPE", "wbr", "br"];
        let mut open = Vec::new();
        for piece in page.split('<').skip(1) {
            let Some((tag, _)) = piece.split_once('>') else { return vec![piece.to_owned()] };
            let name =
                tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap_or_default().to_owned();
            if tag.starts_with('/') {
                match open.pop() {
                    Some(last) if last == name => {}
                    _ => return vec![format!("/{name}")],
                }
            } else if !tag.ends_with('/') && !VOID.contains(&name.as_str()) {
                open.push(name);
            }
        }
        open
    }

    fn check(plan: &Plan) -> String {
        let page = page(plan);
        assert_eq!(unbalanced(&page), Vec::<String>::new());
        for fetched in ["http:", "https:", "src=", "href=", "@import", "url(", "<script"] {
            assert!(!page.contains(fetched), "{fetched}");
        }
        // Nothing is left of the colours and fonts that plotters writes.
        let pictures: String =
            page.split("<svg").skip(1).filter_map(|rest| rest.split("</svg>").next()).collect();
        for left in ["=\"#", "sans-serif"] {
            assert!(!pictures.contains(left), "{left}");
        }
        page
    }

    #[test]
    fn the_page_is_whole_and_needs_no_network() {
        let page = check(&sample_plan());
        for heading in [
            "memory",
            "gradients",
            "time",
            "timeline",
            "ladder",
            "alternatives",
            "pareto",
            "search",
            "provenance",
        ] {
            assert!(page.contains(&format!("<section id=\"{heading}\"")), "{heading}");
        }
        assert!(page.contains("<title>stage 0: activations 31.60 GiB (52.3 %)</title>"));
        assert!(page.contains("The first "), "a long timeline is shown in parts");
        assert!(page.len() < 400_000, "{} bytes", page.len());
    }

    #[test]
    fn the_map_has_its_sections() {
        let mut plan = mapped_plan();
        let page = check(&plan);
        for heading in ["run", "sweep", "sensitivity", "maximum"] {
            assert!(page.contains(&format!("<section id=\"{heading}\"")), "{heading}");
        }
        assert!(page.contains("perfect scaling") && page.contains("between 64 and 128 devices: tp 8 to 4"));
        let evil = || "<script>alert('&\"')</script>".to_owned();
        plan.sweep[0].reason = Some(evil());
        plan.sweep[1].strategy.as_mut().unwrap().text = evil();
        plan.break_evens[0].changes[0].to = evil();
        plan.sensitivity[0].kept.reason = Some(evil());
        plan.sensitivity[1].strategy.as_mut().unwrap().text = evil();
        plan.maximum.as_mut().unwrap().next_value_fails_because = evil();
        check(&plan);
        for amount in [0.0, 1e-300, 1e300, f64::INFINITY, f64::NAN] {
            for point in &mut plan.sweep {
                (point.tokens_per_s, point.efficiency) = (Some(amount), Some(amount));
                point.cost =
                    point.cost.map(|cost| Cost { token: Money(amount), step: Money(amount), ..cost });
                point.goodput.iter_mut().for_each(|goodput| goodput.days = Some(amount));
            }
            check(&plan);
            super::super::plan_text(&plan, super::super::Style { width: 1, colour: true });
        }
    }

    #[test]
    fn every_colour_of_a_picture_is_defined_in_both_themes() {
        let page = check(&sample_plan());
        let (light, dark) = SHEET.split_once("prefers-color-scheme: dark").unwrap();
        for used in page.split("var(").skip(1).filter_map(|rest| rest.split(')').next()) {
            let definition = format!("{used}:");
            assert!(light.contains(&definition) && dark.contains(&definition), "{used}");
        }
    }

    #[test]
    fn whatever_a_plan_says_is_escaped() {
        let mut plan = sample_plan();
        let evil = "<script>alert('&\"')</script>".to_owned();
        let (other, gradients) = (&mut plan.alternatives[0], &mut plan.gradients[0]);
        for place in [
            &mut plan.model.name,
            &mut plan.cluster.name,
            &mut plan.cluster.device,
            &mut plan.engine,
            &mut plan.cost_model.name,
            &mut plan.cost_model.hash,
            &mut plan.cost_model.origin,
            &mut plan.strategy.text,
            &mut plan.strategy.description,
            &mut plan.strategy.schedule,
            &mut plan.verdict,
            &mut plan.digest,
            &mut plan.warnings[0],
            &mut plan.pareto[0].strategy,
            &mut plan.ladder[0].changed,
            &mut other.trades,
            &mut other.strategy.text,
            &mut plan.prediction.ranks[0].peak_instant,
            &mut gradients.layers,
            &mut gradients.from,
            &mut gradients.sums[0].over,
        ] {
            place.clone_from(&evil);
        }
        plan.strategy.numerics.push(evil.clone());
        plan.search.as_mut().unwrap().axes.insert(evil.clone(), vec![evil]);
        check(&plan);
    }

    #[test]
    fn plans_without_extras_have_no_empty_sections() {
        let mut plan = sample_plan();
        plan.search = None;
        plan.alternatives.clear();
        plan.ladder.clear();
        plan.pareto.clear();
        plan.timeline.clear();
        plan.gradients.clear();
        plan.warnings.clear();
        let page = check(&plan);
        for absent in ["gradients", "timeline", "ladder", "alternatives", "pareto", "search"] {
            assert!(!page.contains(&format!("<section id=\"{absent}\"")), "{absent}");
        }
    }

    #[test]
    fn no_size_of_a_plan_is_too_much() {
        for (stages, micros) in [(1, 1), (2, 3), (64, 4), (64, 256)] {
            let mut plan = sample_plan();
            plan.prediction = prediction((0..stages).map(|stage| rank(stage, stages)).collect());
            plan.timeline = one_forward_one_backward(stages, micros);
            let page = check(&plan);
            assert!(page.len() < 3_000_000, "{} bytes", page.len());
        }
        for amount in [0.0, 1e-12, 1e300, f64::INFINITY, f64::NAN] {
            let mut plan = sample_plan();
            let mut whole = prediction(vec![rank(0, 1)]);
            let seconds = Seconds(amount);
            let bytes = Bytes(amount as u64);
            whole.time_s.compute = seconds;
            whole.time_s.bubble = seconds;
            whole.step_time_s = seconds;
            whole.mfu = amount;
            whole.tokens_per_s_per_device = amount;
            whole.interval.step_time_s = [seconds; 2];
            whole.memory_bytes.activations = bytes;
            whole.memory_bytes.optimizer = bytes;
            whole.peak_memory_bytes = bytes;
            whole.safe_memory_bytes.process = bytes;
            for span in &mut plan.timeline {
                span.end_s = seconds;
            }
            for point in &mut plan.pareto {
                point.step_time_s = seconds;
                point.peak_memory_bytes = bytes;
            }
            for step in &mut plan.ladder {
                step.prediction = whole.clone();
            }
            plan.prediction = whole;
            plan.cluster.device_memory_bytes = bytes;
            check(&plan);
            super::super::plan_text(&plan, super::super::Style { width: 1, colour: true });
        }
    }
}
