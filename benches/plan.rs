//! How long planning takes, its parts, and predicting all published runs: `cargo bench`.

use std::path::Path;
use std::{env, fs};

use divan::Bencher;
use meshwright::cluster::{self, Cluster};
use meshwright::model::{self, Model};
use meshwright::plan::{self, Plan};
use meshwright::profile::engines::engines;
use meshwright::search::closed_forms::ClosedForms;
use meshwright::search::{Problem, Request};
use meshwright::strategy::{Draft, Strategy, Workload};
use meshwright::units::ElementType;
use meshwright::validate;

/// Two workloads: model, cluster, sequences a step.
const WORKLOADS: [(&str, &str, u64); 2] =
    [("llama-3.1-70b", "8x8xh100-sxm", 512), ("llama-3.1-405b", "256x8xh100-sxm", 2048)];

/// A strategy of the first workload with every kind of parallelism that a dense model has.
const STRATEGY: &str = "tp=4,cp=2,pp=4,sched=interleaved,virtual=2,zero=1,micro=1,ckpt=selective";

/// A model and a cluster, read.
struct Subject {
    model: Model,
    cluster: Cluster,
    workload: Workload,
}

impl Subject {
    fn new((model, cluster, global_batch): (&str, &str, u64)) -> Self {
        let precision = ElementType::Bf16;
        Self {
            model: model::load(model).expect("a preset"),
            cluster: cluster::load(cluster).expect("a shorthand"),
            workload: Workload { global_batch, seq_len: 8192, precision, dropout: 0.0, clip: 1.0 },
        }
    }

    fn problem(&self) -> Problem<'_> {
        Problem::new(&self.model, &self.cluster, self.workload, &engines()[0], None)
    }

    fn search(&self) -> Plan {
        let request = Request { top: 5, ..Request::default() };
        plan::search(&self.problem(), &request, &|_| {}).expect("a plan fits")
    }
}

fn strategy(problem: &Problem<'_>) -> Strategy {
    Draft::parse(STRATEGY).expect("it parses").resolve(&problem.facts).expect("it is legal")
}

fn main() {
    if env::args().any(|argument| argument == "--bench") {
        for workload in WORKLOADS {
            print_account(workload);
        }
    }
    divan::main();
}

/// What became of the strategies of one search, and how much memory the process took so far.
fn print_account(workload: (&str, &str, u64)) {
    let plan = Subject::new(workload).search();
    let account = plan.search.unwrap_or_default();
    println!("{} on {}: {}", workload.0, workload.1, plan.strategy.text);
    println!(
        "  {} considered = {} illegal + {} out of memory + {} bounded + {} priced; {} played, gap {:.3}, {:.2} s",
        account.considered,
        account.illegal,
        account.out_of_memory,
        account.bounded,
        account.priced,
        account.played,
        account.gap,
        account.wall_time_s
    );
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status.lines().filter(|line| line.starts_with("VmHWM")) {
        println!("  peak memory of the process so far: {}", line.trim_start_matches("VmHWM:").trim());
    }
}

/// A whole search: its account comes first on stdout.
#[divan::bench(args = [0, 1], sample_count = 3, sample_size = 1)]
fn search(bencher: Bencher<'_, '_>, workload: usize) {
    let subject = Subject::new(WORKLOADS[workload]);
    bencher.bench_local(|| subject.search());
}

/// One strategy from text to plan document: lowered, built, played, written up.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn simulate(bencher: Bencher<'_, '_>) {
    let subject = Subject::new(WORKLOADS[0]);
    let problem = subject.problem();
    let strategy = strategy(&problem);
    bencher.bench_local(|| plan::simulate(&problem, strategy.clone()));
}

/// Memory and time bound of one strategy, nothing known of it before.
#[divan::bench(sample_count = 50, sample_size = 1)]
fn closed_form(bencher: Bencher<'_, '_>) {
    let subject = Subject::new(WORKLOADS[0]);
    let problem = subject.problem();
    let strategy = strategy(&problem);
    bencher
        .with_inputs(|| ClosedForms::new(&problem))
        .bench_local_refs(|closed_forms| closed_forms.close(&strategy));
}

/// The same where the lowered units and their prices are known, as in the middle of a search.
#[divan::bench(sample_count = 100, sample_size = 10)]
fn closed_form_again(bencher: Bencher<'_, '_>) {
    let subject = Subject::new(WORKLOADS[0]);
    let problem = subject.problem();
    let strategy = strategy(&problem);
    let closed_forms = ClosedForms::new(&problem);
    bencher.bench_local(|| closed_forms.close(&strategy));
}

/// All published runs read and predicted, as `validate traces/published` does.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn validate_published(bencher: Bencher<'_, '_>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/published");
    bencher.bench_local(|| validate::validate(validate::read(&folder).expect("traces"), None));
}
