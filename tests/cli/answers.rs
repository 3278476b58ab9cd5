//! Answers that agree: one best plan whatever else is asked, lists whose strategies are what `simulate` says of them, one
//! figure of memory, a diagnosis of the rank that the others wait for.

use std::collections::BTreeMap;

use meshwright::cluster;
use meshwright::model::{self, Model};
use meshwright::plan::simulate_draft;
use meshwright::profile::engines::{engine, engines_in_use};
use meshwright::search::Problem;
use meshwright::strategy::{Draft, Workload};
use meshwright::units::{Bytes, ElementType};
use serde_json::Value;

use crate::place::Place;

/// Small enough that every search takes a few hundredths of a second.
const TINY: &str =
    r#"{"model_type":"gpt2","n_embd":256,"n_layer":6,"n_head":8,"vocab_size":512,"n_positions":1024}"#;

fn place() -> Place {
    let place = Place::new();
    place.write("tiny.json", TINY);
    place
}

/// The document of a line as it is typed, which ends with `code`.
fn document(place: &Place, line: &str, code: i32) -> Value {
    let run = place.typed(&format!("{line} --json"));
    assert_eq!(run.code, code, "{line}: {}", run.stderr);
    run.json()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn text(strategy: &Value) -> &str {
    strategy.as_str().or_else(|| strategy["text"].as_str()).unwrap_or_else(|| panic!("{strategy}"))
}

/// The headline of a plan.
fn headline(plan: &Value) -> [&Value; 3] {
    [&plan["strategy"], &plan["prediction"], &plan["verdict"]]
}

/// Settings of engines that force different things; in some the robust plan is another than the fastest.
fn settings() -> Vec<String> {
    let engines = ["embedded", "torchtitan", "megatron", "deepspeed", "accelerate"];
    let tiny = "tiny.json --cluster 2x4xh100-sxm --global-batch 64 --seq-len 256";
    let mut list = engines.map(|engine| format!("{tiny} --engine {engine}")).to_vec();
    let larger = "gpt2-xl --cluster 1x8xa100-sxm-40gb --global-batch 64 --seq-len 1024 --engine nemo";
    list.push(larger.to_owned());
    list
}

#[test]
fn the_plan_is_one_whatever_else_is_asked() {
    let place = place();
    let mut differing = 0;
    for setting in settings() {
        let plain = document(&place, &format!("plan {setting}"), 0);
        differing += usize::from(!plain["fastest"].is_null());
        for beside in [
            "--objective robust --sweep devices=4,8 --price 2.5 --top 0",
            "--sensitivity --sweep batch=32,64 --tokens 1B --mtbf 30h",
            "--maximize batch --top 40",
        ] {
            let more = document(&place, &format!("plan {setting} {beside}"), 0);
            assert_eq!(headline(&more), headline(&plain), "{setting} {beside}");
            let devices = &plain["cluster"]["devices"];
            let (rows, none) = (more["sweep"].as_array(), Vec::new());
            let same = |row: &&Value| {
                row["devices"] == *devices && row["global_batch"] == plain["workload"]["global_batch"]
            };
            for row in rows.unwrap_or(&none).iter().filter(same) {
                assert_eq!(row["strategy"], plain["strategy"], "{setting} {beside}");
                assert_eq!(row["prediction"], plain["prediction"], "{setting} {beside}");
            }
        }
        // The fastest is what is answered where the fastest is asked for, again whatever is asked beside it.
        let line = format!("plan {setting} --objective time --sensitivity --sweep devices=4,8");
        let fastest = document(&place, &line, 0);
        let known = if plain["fastest"].is_null() { &plain } else { &plain["fastest"] };
        assert_eq!(known["strategy"], fastest["strategy"], "{setting}");
        assert_eq!(known["prediction"], fastest["prediction"], "{setting}");
    }
    assert!(differing >= 2, "the robust plan is the fastest in all but {differing} settings");
}

#[test]
fn every_row_of_a_map_is_the_plan_of_its_own_setting() {
    let place = place();
    let tiny = "tiny.json --engine megatron";
    let line = format!(
        "plan {tiny} --cluster 1x4xh100-sxm --global-batch 32 --seq-len 256 --sweep devices=1..8 --sensitivity \
         --maximize seq-len"
    );
    let map = document(&place, &line, 0);
    let alone = |cluster: &str, batch: u64, seq_len: u64, more: &str| {
        let work = format!("--global-batch {batch} --seq-len {seq_len}");
        document(&place, &format!("plan {tiny} --cluster {cluster} {work} {more}"), 0)
    };
    for row in map["sweep"].as_array().unwrap() {
        let devices = row["devices"].as_u64().unwrap();
        let cluster = format!("{}x{}xh100-sxm", devices.div_ceil(4), devices.min(4));
        let own = alone(&cluster, 32, 256, "");
        assert_eq!(
            [&row["strategy"], &row["prediction"]],
            [&own["strategy"], &own["prediction"]],
            "{devices}"
        );
    }
    for (scenario, batch) in [("double-batch", 64), ("half-batch", 16)] {
        let answers = map["sensitivity"].as_array().unwrap();
        let answer = answers.iter().find(|answer| answer["scenario"] == scenario).unwrap();
        let own = alone("1x4xh100-sxm", batch, 256, "");
        assert_eq!(answer["strategy"], own["strategy"], "{scenario}");
    }
    let longest = map["maximum"]["value"].as_u64().unwrap();
    assert_eq!(map["maximum"]["strategy"], alone("1x4xh100-sxm", 32, longest, "")["strategy"]);
}

#[test]
fn explain_compares_with_the_plan_and_says_of_it_that_it_is_the_best() {
    let place = place();
    for setting in settings() {
        let plan = document(&place, &format!("plan {setting}"), 0);
        let best = text(&plan["strategy"]);
        let itself = document(&place, &format!("explain {setting} --strategy {best}"), 0);
        assert_eq!(itself["best"]["strategy"], plan["strategy"], "{setting}");
        assert_eq!(itself["best"]["prediction"], plan["prediction"], "{setting}");
        assert_eq!((number(&itself["slower_by"]), &itself["dominated_by"]), (0.0, &Value::Null), "{setting}");
        assert!(itself["verdict"].as_str().unwrap().starts_with("This is the best plan"), "{setting}");
        let listed = plan["alternatives"].as_array().unwrap().iter().chain(plan.get("fastest"));
        for other in listed.take(2) {
            let other = text(&other["strategy"]);
            let explained = document(&place, &format!("explain {setting} --strategy {other}"), 0);
            assert_eq!(explained["best"]["strategy"], plan["strategy"], "{setting}: {other}");
            assert!(number(&explained["slower_by"]) >= -0.03, "{setting}: {other}");
            let verdict = explained["verdict"].as_str().unwrap();
            assert!(!verdict.starts_with("This is the best plan"), "{setting}: {other}: {verdict}");
        }
    }
}

/// What a document is about: enough to simulate its strategies.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct About {
    cluster: String,
    batch: u64,
    seq_len: u64,
}

/// A strategy that stands in a document with what is predicted of it.
struct Listed<'v> {
    about: About,
    path: String,
    object: &'v Value,
}

/// Every object of `value` that has a strategy and a step time or prediction of it.
fn listed<'v>(value: &'v Value, path: &str, about: &About, list: &mut Vec<Listed<'v>>) {
    match value {
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                listed(item, &format!("{path}[{place}]"), about, list);
            }
        }
        Value::Object(fields) => {
            let mut about = about.clone();
            // A row of a sweep, a scenario, the largest that fits: each says what it is about.
            if path.starts_with("sweep[") && fields.contains_key("devices") {
                let devices = value["devices"].as_u64().unwrap();
                about.cluster = format!("{}x{}xh100-sxm", devices.div_ceil(4), devices.min(4));
                about.batch = value["global_batch"].as_u64().unwrap();
                about.seq_len = value["seq_len"].as_u64().unwrap();
            }
            if path.starts_with("pareto[")
                && let Some(devices) = value["devices"].as_u64()
            {
                about.cluster = format!("{}x{}xh100-sxm", devices.div_ceil(4), devices.min(4));
            }
            match value["scenario"].as_str() {
                Some("double-batch") => about.batch *= 2,
                Some("half-batch") => about.batch /= 2,
                _ => {}
            }
            if value["what"] == "batch" {
                about.batch = value["value"].as_u64().unwrap();
            }
            let is_said = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
            if is_said("strategy") && (is_said("prediction") || is_said("step_time_s")) {
                list.push(Listed { about: about.clone(), path: path.to_owned(), object: value });
            }
            for (name, item) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                listed(item, &path, &about, list);
            }
        }
        _ => {}
    }
}

/// The document of `strategy` simulated by itself.
fn simulated(model: &Model, about: &About, name: &str, strategy: &str) -> Result<Value, String> {
    let cluster = cluster::load(&about.cluster).unwrap();
    let workload = Workload {
        global_batch: about.batch,
        seq_len: about.seq_len,
        precision: ElementType::Bf16,
        dropout: 0.0,
        clip: 1.0,
    };
    let problem = Problem::new(model, &cluster, workload, engine(name).unwrap(), None);
    let draft = Draft::parse(strategy).map_err(|error| error.to_string())?;
    let plan = simulate_draft(&problem, &draft).map_err(|broken| broken.to_string())?;
    let text = serde_json::to_string(&plan).unwrap();
    Ok(serde_json::from_str(&text).unwrap())
}

/// That each strategy of `document` is written as it resolves, is legal, and takes what `simulate` says, to the last digit.
fn check_lists(document: &Value, model: &Model, about: &About, engine: &str) -> usize {
    let mut list = Vec::new();
    listed(document, "", about, &mut list);
    let mut known: BTreeMap<(About, String), Result<Value, String>> = BTreeMap::new();
    for Listed { about, path, object } in &list {
        let strategy = text(&object["strategy"]);
        let own = known
            .entry((about.clone(), strategy.to_owned()))
            .or_insert_with(|| simulated(model, about, engine, strategy));
        let own = own.as_ref().unwrap_or_else(|broken| panic!("{engine}, {path}: {strategy}: {broken}"));
        assert_eq!(text(&own["strategy"]), strategy, "{engine}, {path}: what it means is written otherwise");
        if object["strategy"].is_object() {
            assert_eq!(object["strategy"], own["strategy"], "{engine}, {path}: {strategy}");
        }
        let mut prediction = own["prediction"].clone();
        if !object["prediction"].is_null() {
            // Another limit of memory may have been asked for.
            prediction["fits"] = object["prediction"]["fits"].clone();
            assert_eq!(object["prediction"], prediction, "{engine}, {path}: {strategy}");
        }
        for (name, said) in [
            ("step_time_s", &prediction["step_time_s"]),
            ("peak_memory_bytes", &prediction["peak_memory_bytes"]),
            ("process_bytes", &prediction["safe_memory_bytes"]["process"]),
        ] {
            let listed = &object[name];
            assert!(
                listed.is_null() || listed == said,
                "{engine}, {path}: {strategy}: {name} {listed}, {said}"
            );
        }
    }
    list.len()
}

#[test]
fn every_strategy_of_every_list_is_what_simulate_says() {
    let place = place();
    let about = About { cluster: "1x4xh100-sxm".to_owned(), batch: 32, seq_len: 256 };
    let work = "--cluster 1x4xh100-sxm --global-batch 32 --seq-len 256";
    for (name, more) in [("tiny.json", ""), ("gpt2-large", "--memory-limit 12GiB")] {
        let model = if name == "tiny.json" {
            model::from_text(TINY, "the test", "tiny").unwrap()
        } else {
            model::load(name).unwrap()
        };
        let larger = ["torchtitan", "embedded"];
        let engines = engines_in_use().map(|engine| engine.name.as_str());
        for engine in engines.filter(|engine| name == "tiny.json" || larger.contains(engine)) {
            let asked = if name == "tiny.json" {
                "--sweep devices=2,8 --price 2 --sensitivity --maximize batch --top 8"
            } else {
                "--top 8"
            };
            let plan = document(&place, &format!("plan {name} {work} --engine {engine} {more} {asked}"), 0);
            let count = check_lists(&plan, &model, &about, engine);
            assert!(count >= if name == "tiny.json" { 12 } else { 4 }, "{engine}: {count} are listed");
            // Too large, illegal, and slow.
            for strategy in ["micro=8", "tp=3,zero=1", "zero=3,micro=1,ckpt=full"] {
                let limit = if strategy == "micro=8" { "--memory-limit 3GiB" } else { "" };
                let line = format!("explain {name} {work} --engine {engine} {limit} --strategy {strategy}");
                check_lists(&document(&place, &line, 0), &model, &about, engine);
            }
        }
    }
}

#[test]
fn what_is_held_is_held_in_every_list() {
    let place = place();
    let setting = "tiny.json --cluster 1x4xh100-sxm --global-batch 32 --seq-len 256 --engine megatron";
    let plan = document(&place, &format!("plan {setting} --fix ckpt=none,micro=2 --top 8"), 0);
    let mut list = Vec::new();
    let about = About { cluster: String::new(), batch: 32, seq_len: 256 };
    listed(&plan, "", &about, &mut list);
    // The ladder leads to the plan from what is simpler.
    for Listed { path, object, .. } in list.iter().filter(|one| !one.path.starts_with("ladder")) {
        let strategy = text(&object["strategy"]);
        assert!(!strategy.contains("ckpt") && strategy.contains("micro=2"), "{path}: {strategy}");
    }
}

#[test]
fn one_figure_of_memory_is_printed_and_judged() {
    let place = place();
    let setting = "gpt2-xl --cluster 1x8xa100-sxm-40gb --global-batch 64 --seq-len 1024 --engine nemo";
    let line = format!("plan {setting} --sweep devices=4,8 --sensitivity --report page.html");
    let plan = document(&place, &line, 0);
    let printed = place.typed(&line).stdout;
    let page = place.read("page.html");
    let bytes = |prediction: &Value, pointer: &str| {
        Bytes(prediction.pointer(pointer).and_then(Value::as_u64).unwrap()).to_string()
    };
    let process = |prediction: &Value| bytes(prediction, "/safe_memory_bytes/process");
    let (must_fit, live) = (process(&plan["prediction"]), bytes(&plan["prediction"], "/peak_memory_bytes"));
    assert_ne!(must_fit, live);
    // Where memory is explained, both stand; the headline is what must fit.
    let row = |label: &str, text: &str| {
        text.lines()
            .find(|line| line.starts_with(label))
            .unwrap_or_else(|| panic!("{label}: {text}"))
            .to_owned()
    };
    assert!(row("memory ", &printed).starts_with(&format!("memory    {must_fit}")), "{printed}");
    assert_eq!(printed.matches(&live).count(), 1, "{live} is what is live at the peak:\n{printed}");
    let lists = ["alternatives", "ladder", "sweep"].map(|list| plan[list].as_array().unwrap().clone());
    for one in lists.concat() {
        let (must_fit, live) = (process(&one["prediction"]), bytes(&one["prediction"], "/peak_memory_bytes"));
        assert!(printed.contains(&must_fit), "{must_fit} of {}: {printed}", one["strategy"]["text"]);
        assert!(page.contains(&must_fit), "{must_fit} of {}", one["strategy"]["text"]);
        let is_said = printed.lines().any(|line| line.contains(&live) && !line.contains("live at the peak"));
        assert!(!is_said, "{live} of {}: {printed}", one["strategy"]["text"]);
    }
    // `explain` prints of the plan what `plan` prints of it.
    let line = format!("explain {setting} --strategy {}", text(&plan["strategy"]));
    assert_eq!(row("memory ", &place.typed(&line).stdout), row("memory ", &printed));
    for figure in [must_fit, live] {
        assert!(page.contains(&figure), "{figure}");
    }
}

/// Time of a rank in which something runs.
fn busy(causes: &Value) -> f64 {
    let causes = causes.as_object().unwrap().iter().filter(|(cause, _)| *cause != "bubble");
    causes.map(|(_, seconds)| number(seconds)).sum()
}

#[test]
fn the_rank_that_others_wait_for_is_diagnosed() {
    let place = place();
    let mut lighter = 0;
    for (setting, strategy) in [
        // Stages with few blocks at both ends: the last to finish has nothing to do for most of the step.
        ("gpt2 --cluster 1x4xh100-sxm --global-batch 32 --engine embedded", "pp=4,cuts=1/5/5/1,micro=1"),
        (
            "gpt2 --cluster 1x4xh100-sxm --global-batch 32 --engine embedded",
            "pp=4,cuts=0/6/6/0,micro=1,ckpt=full",
        ),
        ("gpt2 --cluster 1x8xh100-sxm --global-batch 64 --engine megatron", "pp=8,zero=1,micro=1"),
        ("gpt2 --cluster 1x4xh100-sxm --global-batch 8 --engine embedded", "pp=4,sched=interleaved,micro=1"),
        ("gpt2 --cluster 1x4xh100-sxm --global-batch 32 --engine nemo", "zero=1,micro=2"),
    ] {
        let plan = document(&place, &format!("simulate {setting} --strategy {strategy}"), 0);
        let prediction = &plan["prediction"];
        let (step, causes) = (number(&prediction["step_time_s"]), &prediction["time_s"]);
        let parts: f64 = causes.as_object().unwrap().values().map(number).sum();
        assert!((parts / step - 1.0).abs() < 1e-9, "{strategy}: {parts} s of {step} s");
        let ranks = prediction["ranks"].as_array().unwrap();
        let most = ranks.iter().map(|rank| busy(&rank["time_s"])).fold(0.0, f64::max);
        assert!((busy(causes) / most - 1.0).abs() < 1e-9, "{strategy}: {} s, {most} s", busy(causes));
        let last = ranks
            .iter()
            .max_by(|one, other| number(&one["step_time_s"]).total_cmp(&number(&other["step_time_s"])));
        lighter += usize::from(busy(&last.unwrap()["time_s"]) < 0.8 * most);
        // What the verdict names is the largest loss of that rank.
        let verdict = plan["verdict"].as_str().unwrap();
        let loss = |cause: &str| number(&causes[cause]) / step;
        let worst = ["recompute", "communication_exposed", "copy_exposed", "bubble", "optimizer"]
            .into_iter()
            .max_by(|one, other| loss(one).total_cmp(&loss(other)))
            .unwrap();
        let is_bubble = worst == "bubble" && loss(worst) >= 0.05;
        assert_eq!(verdict.contains("the pipeline bubble"), is_bubble, "{strategy}: {verdict}");
        if ranks.len() > 1 {
            let stage = ranks.iter().position(|rank| busy(&rank["time_s"]) == most).unwrap();
            let printed = place.typed(&format!("simulate {setting} --strategy {strategy}")).stdout;
            assert!(
                printed.contains(&format!("on the busiest rank (stage {stage})")),
                "{strategy}: {printed}"
            );
        }
    }
    assert!(lighter > 0, "in no setting a light rank is the last");
}

#[test]
fn every_engine_that_is_simulated_by_name_is_planned_explained_and_exported() {
    let place = place();
    let setting = "tiny.json --cluster 1x4xh100-sxm --global-batch 32 --seq-len 256";
    for engine in engines_in_use().map(|engine| engine.name.as_str()) {
        let line = format!("plan {setting} --engine {engine} --out {engine}.json");
        let plan = document(&place, &line, 0);
        let best = text(&plan["strategy"]);
        for command in ["simulate", "explain"] {
            let line = format!("{command} {setting} --engine {engine} --strategy {best}");
            assert_eq!(document(&place, &line, 0)["engine"], engine, "{line}");
        }
    }
    let all = document(&place, &format!("plan {setting} --engine all"), 0);
    for record in all["engines"].as_array().unwrap() {
        let engine = record["engine"].as_str().unwrap();
        let own: Value = serde_json::from_str(&place.read(&format!("{engine}.json"))).unwrap();
        assert_eq!(record["strategy"], own["strategy"], "{engine}");
        assert_eq!(record["prediction"], own["prediction"], "{engine}");
    }
    // A configuration of Accelerate is written as planned, and read back as what it was.
    let exported = document(&place, "export accelerate.json --to accelerate --out accelerate", 0);
    assert_eq!(exported["origin"], "as_planned", "{exported}");
    let line = format!(
        "explain {setting} --engine accelerate --from accelerate/{}",
        exported["files"][0].as_str().unwrap()
    );
    let explained = document(&place, &line, 0);
    assert_eq!(text(&explained["strategy"]), exported["strategy"].as_str().unwrap(), "{explained}");
}

#[test]
fn a_stage_that_shards_nothing_by_itself_is_kept_for_what_needs_it() {
    let place = Place::new();
    let setting = "gpt2-large --cluster 1x1xa10g --global-batch 4 --seq-len 512 --memory-limit 9GiB";
    for (engine, zero) in
        [("deepspeed", "zero=1"), ("deepspeed", "zero=3"), ("deepspeed", "zero=0"), ("megatron", "zero=1")]
    {
        let line = format!("explain {setting} --engine {engine} --strategy {zero},micro=1,ckpt=full");
        let explained = document(&place, &line, 0);
        assert_eq!((&explained["legal"], &explained["fits"]), (&true.into(), &false.into()), "{line}");
        let fixes = explained["fixes"].as_array().unwrap();
        let hosted = fixes.iter().find(|fix| fix["to"].as_str().unwrap().starts_with("optimizer"));
        let hosted = hosted.unwrap_or_else(|| panic!("{line}: {fixes:?}"));
        let stage = text(&hosted["strategy"]).split(',').find(|key| key.starts_with("zero=")).unwrap();
        let typed = if zero == "zero=0" { "zero=1" } else { zero };
        assert_eq!(stage, typed, "{line}: {hosted}");
        document(
            &place,
            &format!("simulate {setting} --engine {engine} --strategy {}", text(&hosted["strategy"]))
                .replace(" --memory-limit 9GiB", ""),
            0,
        );
    }
}
