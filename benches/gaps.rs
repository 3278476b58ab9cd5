//! How near to the best the planner's answers are proven to be, and how long they take: every preset on 1, 2, 8 and 64
//! nodes of eight H100, planned for eight engines at default settings, each in a process of its own. Takes ten
//! minutes: `cargo bench --bench gaps`.
//!
//! Words narrow it down: `-- gpt2 nemo 64x8` runs the cases whose names hold all of them. `--against BINARY` plans each
//! case with another build too, and plays its answer by this one's prices; `--out FILE` writes a line a case.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;
use std::{env, fmt::Write as _};

use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_meshwright");
const NODES: [u64; 4] = [1, 2, 8, 64];
const ENGINES: [&str; 8] =
    ["embedded", "torchtitan", "megatron", "nemo", "deepspeed", "colossalai", "nanotron", "maxtext"];

/// One search and its answer.
struct Case {
    name: String,
    seconds: f64,
    /// None if nothing fits.
    answer: Option<Answer>,
    /// What the other build's plan takes, by its own prices and by ours.
    other: Option<(f64, Option<f64>)>,
}

struct Answer {
    is_proven: bool,
    gap: f64,
    step_time: f64,
    strategy: String,
}

fn main() {
    let mut words: Vec<String> = Vec::new();
    let (mut against, mut out) = (None, None);
    let mut arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    if !env::args().any(|argument| argument == "--bench") {
        return;
    }
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--against" => against = arguments.next().map(PathBuf::from),
            "--out" => out = arguments.next().map(PathBuf::from),
            _ => words.push(argument),
        }
    }
    let models: Value = json(Command::new(BINARY).args(["models", "--json"])).expect("the list of presets");
    let models = models["models"].as_array().expect("a list");
    let models: Vec<&str> = models.iter().filter_map(|model| model["name"].as_str()).collect();
    let mut cases = Vec::new();
    for nodes in NODES {
        for model in &models {
            for engine in ENGINES {
                let cluster = format!("{nodes}x8xh100-sxm");
                let name = format!("{model} {cluster} {engine}");
                if words.iter().all(|word| name.contains(word.as_str())) {
                    let case = searched(name, model, &cluster, engine, against.as_ref());
                    println!("{}", case.line());
                    cases.push(case);
                    if let Some(out) = &out {
                        let lines: Vec<String> = cases.iter().map(Case::line).collect();
                        fs::write(out, lines.join("\n") + "\n").expect("the file can be written");
                    }
                }
            }
        }
    }
    println!("{}", summary(&cases));
}

/// What `command` prints as JSON, if it does.
fn json(command: &mut Command) -> Option<Value> {
    let output = command.output().expect("the program starts");
    serde_json::from_slice(&output.stdout).ok()
}

fn searched(name: String, model: &str, cluster: &str, engine: &str, against: Option<&PathBuf>) -> Case {
    let problem = [model, "--cluster", cluster, "--engine", engine, "--json"];
    let start = Instant::now();
    let plan = json(Command::new(BINARY).arg("plan").args(problem));
    let seconds = start.elapsed().as_secs_f64();
    let answer = plan.and_then(|plan| {
        Some(Answer {
            is_proven: plan["search"]["proven_optimal"].as_bool()?,
            gap: plan["search"]["gap"].as_f64()?,
            step_time: step_time(&plan)?,
            strategy: strategy(&plan)?,
        })
    });
    let other = against.and_then(|binary| {
        let plan = json(Command::new(binary).arg("plan").args(problem))?;
        let own = step_time(&plan)?;
        let strategy = strategy(&plan)?;
        let ours = json(Command::new(BINARY).arg("simulate").args(problem).args(["--strategy", &strategy]));
        Some((own, ours.as_ref().filter(|ours| ours["prediction"]["fits"] == true).and_then(step_time)))
    });
    Case { name, seconds, answer, other }
}

fn step_time(plan: &Value) -> Option<f64> {
    plan["prediction"]["step_time_s"].as_f64()
}

fn strategy(plan: &Value) -> Option<String> {
    plan["strategy"]["text"].as_str().map(str::to_owned)
}

impl Case {
    fn line(&self) -> String {
        let mut line = format!("{:44} {:7.2} s", self.name, self.seconds);
        match &self.answer {
            Some(Answer { gap, step_time, strategy, .. }) => {
                let _ = write!(line, "  gap {:6.2} %  step {step_time:.6} s  {strategy}", gap * 100.0);
            }
            None => line += "  no plan",
        }
        match self.other {
            Some((own, Some(ours))) => {
                let _ = write!(line, "  other {own:.6} s, here {ours:.6} s");
            }
            Some((own, None)) => {
                let _ = write!(line, "  other {own:.6} s, does not fit here");
            }
            None => {}
        }
        line
    }
}

fn summary(cases: &[Case]) -> String {
    let mut seconds: Vec<f64> = cases.iter().map(|case| case.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let answers = || cases.iter().filter_map(|case| Some((case, case.answer.as_ref()?)));
    let (plans, proven) = (answers().count(), answers().filter(|(_, answer)| answer.is_proven).count());
    let slower = answers().filter(
        |(case, answer)| matches!(case.other, Some((_, Some(other))) if answer.step_time > other * (1.0 + 1e-9)),
    );
    format!(
        "{} searches: {plans} plans, {proven} proven ({:.1} %); median {:.2} s, {} over 5 s, longest {:.2} s; {} slower \
         than the other build's",
        cases.len(),
        100.0 * proven as f64 / plans.max(1) as f64,
        seconds.get(seconds.len() / 2).copied().unwrap_or_default(),
        seconds.iter().filter(|&&seconds| seconds > 5.0).count(),
        seconds.last().copied().unwrap_or_default(),
        slower.count(),
    )
}
