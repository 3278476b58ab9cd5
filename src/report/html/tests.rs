//! The page of plans of every shape: whole, legible, escaped, and nothing fetched.

use super::*;
use crate::plan::document::TimelinePass;
use crate::plan::money::Cost;
use crate::report::plot::legible::faults;
use crate::report::sample::{held, mapped_plan, one_forward_one_backward, prediction, rank, sample_plan};
use crate::units::{Bytes, Money, Seconds};

/// The names of elements that are open at the end, or that close what is not open.
pub(in crate::report) fn unbalanced(page: &str) -> Vec<String> {
    const VOID: [&str; 4] = ["meta", "!DOCTYPE", "wbr", "br"];
    let mut open = Vec::new();
    for piece in page.split('<').skip(1) {
        let Some((tag, _)) = piece.split_once('>') else { return vec![piece.to_owned()] };
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap_or_default().to_owned();
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

/// The page of `plan`, whose labels can be read, too.
fn check(plan: &Plan) -> String {
    let page = whole(plan);
    assert_eq!(faults(&page), Vec::<String>::new());
    page
}

/// The page of `plan`: all that it opens it closes, and it needs nothing else.
fn whole(plan: &Plan) -> String {
    let page = page(plan);
    assert_eq!(unbalanced(&page), Vec::<String>::new());
    for fetched in ["http:", "https:", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(fetched), "{fetched}");
    }
    // One script, which is ours.
    let script = copying::script().into_string();
    assert_eq!((page.matches(&script).count(), page.matches("<script").count()), (1, 1));
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
fn what_is_copied_is_the_text_itself() {
    let mut plan = sample_plan();
    plan.strategy.text = "tp=8,cuts=20/20/20/20,offload=activations:0.5+optimizer:0.25+params:1".to_owned();
    let page = check(&plan);
    for (id, text) in [("strategy-text", plan.strategy.text.clone()), ("command", words::command(&plan))] {
        let start = page.split_once(&format!("<code id=\"{id}\"")).unwrap().1;
        let inside = start.split_once('>').unwrap().1.split("</code>").next().unwrap();
        let shown: String =
            inside.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text)).collect();
        assert_eq!(shown, text);
        assert!(inside.contains("<span class=\"part\">cuts=20/</span><wbr>"), "{inside}");
        // Without the script there is no button.
        assert!(start.contains(&format!("data-copies=\"{id}\" aria-live=\"polite\" hidden>Copy</button>")));
    }
    assert!(page.contains(concat!("<p>Meshwright ", env!("CARGO_PKG_VERSION"), "</p></footer>")));
}

#[test]
fn memory_over_time_shows_peak_and_device() {
    let mut plan = sample_plan();
    let page = check(&plan);
    // Once for wide windows, once for narrow ones.
    for shown in ["peak 60.40 GiB at 1.90 s", "activations: 31.60 GiB at the peak, at most 31.60 GiB"] {
        assert_eq!(page.matches(shown).count(), 2, "{shown}");
    }
    plan.memory_over_time = None;
    assert!(!check(&plan).contains("peak 60.40 GiB at"));
    let mut empty = held(&rank(0, 4));
    empty.moments.clear();
    plan.memory_over_time = Some(empty);
    assert!(!check(&plan).contains("peak 60.40 GiB at"));
}

#[test]
fn chunks_are_told_apart() {
    let mut plan = sample_plan();
    assert!(!check(&plan).contains("chunk 1"));
    // The optimizer step is of no chunk, whatever it says.
    plan.timeline.iter_mut().for_each(|span| {
        span.chunk = if span.pass == TimelinePass::Step { 9 } else { span.micro % 3 };
    });
    let page = check(&plan);
    for chunk in ["chunk 0", "chunk 1", "chunk 2"] {
        assert!(page.contains(&format!("</span>{chunk}</li>")), "{chunk}");
    }
    assert!(!page.contains("chunk 3") && page.contains(">\n4·1\n<") && page.contains(">\n5·2\n<"));
    assert!(page.contains(" opacity=\"0.75\"") && page.contains(" opacity=\"0.5\""));
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
            point.cost = point.cost.map(|cost| Cost { token: Money(amount), step: Money(amount), ..cost });
            point.goodput.iter_mut().for_each(|goodput| goodput.days = Some(amount));
        }
        check(&plan);
        crate::report::plan_text(
            &plan,
            crate::report::Style { width: 1, colour: true, closing: crate::report::Closing::Wrapped },
        );
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
        plan.memory_over_time = Some(held(&plan.prediction.ranks[0]));
        let page = check(&plan);
        assert!(page.len() < 3_000_000, "{} bytes", page.len());
    }
    for amount in [0.0, 1e-12, 1e300, f64::INFINITY, f64::NAN] {
        let mut plan = sample_plan();
        let mut all = prediction(vec![rank(0, 1)]);
        let seconds = Seconds(amount);
        let bytes = Bytes(amount as u64);
        all.time_s.compute = seconds;
        all.time_s.bubble = seconds;
        all.step_time_s = seconds;
        all.mfu = amount;
        all.tokens_per_s_per_device = amount;
        all.interval.step_time_s = [seconds; 2];
        all.memory_bytes.activations = bytes;
        all.memory_bytes.optimizer = bytes;
        all.peak_memory_bytes = bytes;
        all.safe_memory_bytes.process = bytes;
        for span in &mut plan.timeline {
            span.end_s = seconds;
        }
        for moment in plan.memory_over_time.iter_mut().flat_map(|curve| &mut curve.moments) {
            moment.at_s = seconds;
            moment.memory_bytes.activations = bytes;
        }
        for point in &mut plan.pareto {
            point.step_time_s = seconds;
            point.peak_memory_bytes = bytes;
        }
        for step in &mut plan.ladder {
            step.prediction = all.clone();
        }
        plan.prediction = all;
        plan.cluster.device_memory_bytes = bytes;
        whole(&plan);
        crate::report::plan_text(
            &plan,
            crate::report::Style { width: 1, colour: true, closing: crate::report::Closing::Wrapped },
        );
    }
}
