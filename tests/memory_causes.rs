//! What frameworks hold, cause by cause: each seen in a measured run, or in the program where only a source says it.

use std::fs;
use std::path::Path;

use meshwright::lower::Category;
use meshwright::model::{self, Model};
use meshwright::profile::EngineProfile;
use meshwright::profile::engine::MasterWeights;
use meshwright::profile::engines::engine;
use meshwright::program::instruction::Holds;
use meshwright::program::state::StateRules;
use meshwright::program::{Layout, RankProgram, build};
use meshwright::search::Problem;
use meshwright::simulate::memory::{MemoryPeak, peak};
use meshwright::strategy::{Draft, Strategy, Workload, resolve};
use meshwright::trace::published::{PublishedRun, PublishedTrace};
use meshwright::units::ElementType;
use meshwright::validate::published::scenario;

const GIB: f64 = (1_u64 << 30) as f64;

/// Tokens of a sequence in cases.
const TOKENS: u64 = 4096;

fn runs(path: &str) -> Vec<PublishedRun> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let trace: PublishedTrace = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    trace.runs
}

/// What the allocator hands out for `run`, in bytes.
fn allocated(run: &PublishedRun) -> f64 {
    let read = scenario(run, &|_| None, None).unwrap_or_else(|reason| panic!("{}: {reason}", run.id));
    let problem = Problem::new(&read.model, &read.cluster, read.workload, &read.engine, None);
    let program = problem.program(&read.strategy);
    let most = program.ranks.iter().map(|rank| peak(rank).total).max().unwrap();
    problem.process_memory(&read.strategy, most).allocated.0 as f64
}

struct Case {
    model: Model,
    workload: Workload,
    engine: EngineProfile,
    strategy: Strategy,
}

impl Case {
    /// A small Llama under `text` on `devices` devices, as `engine` runs it.
    fn new(engine: EngineProfile, text: &str, devices: u64) -> Self {
        Self::of("llama-3.2-1b", engine, text, devices, ElementType::Bf16)
    }

    fn of(model: &str, engine: EngineProfile, text: &str, devices: u64, precision: ElementType) -> Self {
        let model = model::load(model).expect("built in");
        let workload =
            Workload { global_batch: devices, seq_len: TOKENS, precision, dropout: 0.0, clip: 1.0 };
        let draft = Draft::parse(text).expect("it parses");
        let strategy = resolve(&draft, &model, devices, &workload, &engine).expect("legal");
        Self { model, workload, engine, strategy }
    }

    fn rank(&self) -> RankProgram {
        let program = build(&self.model, &self.strategy, &self.workload, &self.engine);
        program.ranks.into_iter().next().unwrap()
    }

    fn peak(&self) -> MemoryPeak {
        peak(&self.rank())
    }

    fn rules(&self) -> StateRules {
        StateRules::new(&self.strategy, &self.workload, &self.engine)
    }

    fn at_peak(&self, category: Category) -> u64 {
        self.peak().categories[category as usize].0
    }
}

fn built_in(name: &str) -> EngineProfile {
    engine(name).expect("built in").clone()
}

#[test]
fn pytorch_on_its_own_holds_what_was_measured_on_an_h200() {
    let runs = runs("traces/own/gpu_facts-h200-sxm.json");
    assert_eq!(runs.len(), 11);
    let errors: Vec<(f64, &str)> = runs
        .iter()
        .map(|run| {
            let measured = run.measured.peak_memory_gib.expect("it was measured") * GIB;
            (allocated(run) / measured - 1.0, run.id.as_str())
        })
        .collect();
    let mean = errors.iter().map(|(error, _)| error.abs()).sum::<f64>() / errors.len() as f64;
    assert!(mean < 0.02, "{mean}: {errors:?}");
    assert!(errors.iter().all(|(error, _)| error.abs() < 0.05), "{errors:?}");
}

#[test]
fn states_of_one_type_take_eight_bytes_a_parameter() {
    let mut bare = built_in("torchtitan");
    bare.keep_no_master_weights();
    assert_eq!(bare.state.master_weights, MasterWeights::None);
    for text in ["zero=0", "zero=3"] {
        let rules = Case::new(bare.clone(), text, 8).rules();
        let parameter = rules.parameter.size() + rules.gradient.size() + rules.optimizer_size;
        assert_eq!(parameter, 8, "{text}");
        assert_eq!(rules.reduce, ElementType::Bf16, "{text}");
    }
    let plain = Case::new(built_in("torchtitan"), "zero=3", 8).rules();
    assert_eq!(plain.parameter.size() + plain.gradient.size() + plain.optimizer_size, 16);
}

#[test]
fn a_record_that_says_so_keeps_no_master_weights() {
    let mut run = runs("traces/published/torchtitan.json").remove(0);
    let masters = |run: &PublishedRun| scenario(run, &|_| None, None).unwrap().engine.state.master_weights;
    run.strategy.dtype = "bf16".to_owned();
    assert_eq!(masters(&run), MasterWeights::Stored);
    run.strategy.dtype = "bf16-true (all states)".to_owned();
    assert_eq!(masters(&run), MasterWeights::None);
}

#[test]
fn parameters_are_offloaded_where_a_record_says_so() {
    let mut run = runs("traces/published/torchtitan.json").remove(0);
    run.strategy.zero_stage = 3;
    let parameters = |run: &PublishedRun| {
        let read = scenario(run, &|_| None, None).unwrap();
        let program = build(&read.model, &read.strategy, &read.workload, &read.engine);
        program.ranks[0].persistent_bytes(Category::Parameters).0
    };
    run.strategy.offload = Some("optimizer (CPU)".to_owned());
    assert!(parameters(&run) > 0);
    let blocks = parameters(&run);
    run.strategy.offload = Some("optimizer+params (CPU)".to_owned());
    assert!(parameters(&run) < blocks / 3);
}

#[test]
fn a_compiled_loss_takes_four_bytes_a_logit() {
    let mut engine = built_in("autocast");
    let logits = |engine: &EngineProfile| {
        let case = Case::new(engine.clone(), "zero=0,micro=1", 1);
        case.at_peak(Category::Logits) as f64 / (TOKENS * 128_256) as f64
    };
    // Log-probabilities, the gradients of the negative log-likelihood and of the log-softmax.
    assert!((logits(&engine) - 12.0).abs() < 0.1, "{}", logits(&engine));
    engine.drop_what_compilers_drop();
    assert!((logits(&engine) - 4.0).abs() < 0.1, "{}", logits(&engine));
    // Log-probabilities and both gradients, all bf16.
    let bare = built_in("litgpt");
    assert!((logits(&bare) - 6.0).abs() < 0.1, "{}", logits(&bare));
}

#[test]
fn gradients_that_come_with_the_backward_are_not_there_at_the_loss() {
    let engine = built_in("autocast");
    let late = Case::new(engine.clone(), "zero=0,micro=1,ckpt=full", 1);
    assert!(late.rules().gradients_come_late);
    let mut stays = engine;
    stays.state.gradients_given_back = false;
    let stays = Case::new(stays, "zero=0,micro=1,ckpt=full", 1);
    let gradients = stays.model.parameter_count() * 4;
    assert!(stays.at_peak(Category::Gradients) >= gradients);
    // What is there is never more, and at the update all of it is.
    assert!(late.peak().total < stays.peak().total);
    assert!(late.peak().total.0 >= late.model.parameter_count() * 16);
}

#[test]
fn float8_products_of_a_compiled_model_keep_no_inputs() {
    let activations = |precision| {
        let mut engine = built_in("litgpt");
        engine.drop_what_compilers_drop();
        let case = Case::of("llama-3.2-1b", engine, "zero=0,micro=1", 1, precision);
        case.at_peak(Category::Activations)
    };
    // Inputs of the attention's, the MLP's and both last projections, of 16 blocks.
    let model = model::load("llama-3.2-1b").unwrap();
    let (hidden, width) = (2048, 8192);
    let saved = u64::from(model.blocks()) * TOKENS * 2 * (3 * hidden + width);
    let difference = activations(ElementType::Bf16) - activations(ElementType::Fp8);
    assert!(difference.abs_diff(saved) < saved / 10, "{difference} {saved}");
}

/// Names of the values that blocks keep under selective recomputation, over `expert` ranks.
fn kept_of_experts(name: &str, expert: u64) -> Vec<&'static str> {
    let text = format!("ep={expert},zero=3,micro=1,ckpt=selective");
    let case = Case::of("qwen3-30b-a3b", built_in(name), &text, 8, ElementType::Bf16);
    let layout = Layout::new(&case.model, &case.strategy, &case.workload, &case.engine);
    let unit = layout.chunks[0].units.iter().find(|unit| unit.is_block).unwrap();
    let lowered = layout.lowered(unit);
    lowered.kept.iter().map(|&id| lowered.values[usize::from(id)].name).collect()
}

#[test]
fn torchtitan_makes_grouped_products_again_and_keeps_what_was_sent() {
    let apart = kept_of_experts("torchtitan", 8);
    assert!(!apart.contains(&"expert gate"), "{apart:?}");
    assert!(apart.contains(&"expert input") && apart.contains(&"slots returned"), "{apart:?}");
    let alone = kept_of_experts("torchtitan", 1);
    assert!(!alone.contains(&"slots to send") && !alone.contains(&"expert input"), "{alone:?}");
    // Megatron keeps products of experts.
    assert!(kept_of_experts("megatron", 8).contains(&"expert gate"));
}

#[test]
fn deepspeed_keeps_reduced_gradients_beside_an_offloaded_optimizer() {
    for (text, zero) in [("zero=2", 2), ("zero=3", 3)] {
        let case = Case::new(built_in("deepspeed"), &format!("{text},offload=optimizer:1"), 8);
        let shards = |rank: &RankProgram| -> u64 {
            let shards = rank.persistent.iter().filter(|state| state.holds == Holds::GradientShards);
            shards.map(|state| state.device.0).sum()
        };
        assert_eq!(shards(&case.rank()), 0, "zero={zero}");
        let stays = Case::new(built_in("deepspeed"), text, 8);
        assert!(shards(&stays.rank()) > 0, "zero={zero}");
        // 16-bit parameters and gradients, 32-bit gradients, masters and both moments.
        assert_eq!(case.rules().host_size, 20, "zero={zero}");
    }
}

#[test]
fn a_softmax_of_its_own_keeps_32_bit_probabilities() {
    let probabilities = |single: bool| {
        let mut engine = built_in("colossalai");
        engine.activations.single_precision_softmax &= single;
        Case::new(engine, "zero=3,micro=1,attention=materialised", 8).at_peak(Category::Activations)
    };
    // 32 heads in 16 blocks, 4 bytes a pair of tokens.
    let wide = 16 * 32 * TOKENS * TOKENS * 4;
    assert_eq!(probabilities(true) - probabilities(false), wide);
}
