//! Random legal strategies of an engine: models that people train, clusters of whole nodes, every key.

use meshwright::cluster::{self, Cluster};
use meshwright::model::{self, Model};
use meshwright::profile::EngineProfile;
use meshwright::search::Problem;
use meshwright::strategy::{Draft, Key, Strategy, Workload};
use meshwright::units::ElementType;

use crate::dice::Dice;

/// A model that engines know well, small in its number of blocks.
pub fn models() -> Vec<Model> {
    let llama = |name: &str, layers: u32, tied: bool| {
        let text = format!(
            r#"{{"model_type":"llama","hidden_size":1024,"num_hidden_layers":{layers},"num_attention_heads":16,
                "num_key_value_heads":8,"intermediate_size":2816,"max_position_embeddings":4096,"vocab_size":32000,
                "hidden_act":"silu","rms_norm_eps":1e-5,"tie_word_embeddings":{tied}}}"#
        );
        model::from_text(&text, "config.json", name).expect("the configuration is legal")
    };
    let mixtral = r#"{"model_type":"mixtral","hidden_size":512,"num_hidden_layers":8,"num_attention_heads":8,
        "num_key_value_heads":4,"intermediate_size":1024,"max_position_embeddings":4096,"num_local_experts":8,
        "num_experts_per_tok":2,"vocab_size":32000,"hidden_act":"silu","tie_word_embeddings":false}"#;
    vec![
        llama("llama of 12", 12, false),
        llama("llama of 10", 10, false),
        llama("tied llama", 8, true),
        model::from_text(mixtral, "config.json", "mixtral").expect("the configuration is legal"),
        model::load("llama-3.1-8b").expect("a preset"),
    ]
}

pub fn clusters() -> Vec<Cluster> {
    ["1x1xh100-sxm", "1x4xh100-sxm", "1x8xh100-sxm", "2x8xh100-sxm", "4x8xh100-sxm"]
        .map(|text| cluster::load(text).expect("a cluster"))
        .to_vec()
}

/// What strategies are drawn for.
pub struct Draw {
    pub model: usize,
    pub cluster: usize,
    pub workload: Workload,
    keys: Vec<(Key, String)>,
}

/// The draw of `seed`; sizes are drawn so that most fit each other.
pub fn draw(seed: u64, (models, clusters): (&[Model], &[Cluster]), profile: &EngineProfile) -> Draw {
    let mut dice = Dice::new(seed);
    let model = (dice.next() % models.len() as u64) as usize;
    let cluster = (dice.next() % clusters.len() as u64) as usize;
    let supports = &profile.supports;
    let precisions: Vec<ElementType> = supports.precisions.iter().copied().collect();
    let workload = Workload {
        global_batch: dice.pick(&[32, 64, 96]),
        seq_len: dice.pick(&[1024, 2048]),
        precision: if dice.next().is_multiple_of(2) { precisions[0] } else { dice.pick(&precisions) },
        dropout: 0.0,
        clip: dice.pick(&[1.0, 1.0, 0.0]),
    };
    let devices = clusters[cluster].devices();
    let mut keys: Vec<(Key, String)> = Vec::new();
    let mut left = devices;
    for key in [Key::Tensor, Key::Pipeline, Key::Context] {
        let size = dice.pick(&[1, 1, 2, 2, 4]);
        if left.is_multiple_of(size) {
            left /= size;
            keys.push((key, size.to_string()));
        }
    }
    let pipeline =
        keys.iter().find(|(key, _)| *key == Key::Pipeline).map_or(1, |(_, size)| size.parse().unwrap());
    let is_piped = pipeline > 1;
    let mut maybe = |dice: &mut Dice, key: Key, values: &[String]| {
        if !values.is_empty() && !dice.next().is_multiple_of(3) {
            keys.push((key, values[(dice.next() % values.len() as u64) as usize].clone()));
        }
    };
    let names = |list: &[bool]| -> Vec<String> {
        list.iter().map(|on| if *on { "on" } else { "off" }.to_owned()).collect()
    };
    maybe(&mut dice, Key::SequenceParallel, &names(&supports.sequence_parallel));
    maybe(&mut dice, Key::ContextKind, &supports.context.iter().map(ToString::to_string).collect::<Vec<_>>());
    let texts = |list: &[&str]| -> Vec<String> { list.iter().map(|text| (*text).to_owned()).collect() };
    if *supports.expert_parallel {
        maybe(&mut dice, Key::Expert, &texts(&["1", "2", "4", "8"]));
        maybe(&mut dice, Key::ExpertTensor, &texts(&["1", "2"]));
    }
    if *supports.token_dropping {
        maybe(&mut dice, Key::Capacity, &texts(&["1.25", "2", "full"]));
    }
    let mut chunks = pipeline;
    if is_piped {
        let schedules: Vec<String> = supports.schedules.iter().map(ToString::to_string).collect();
        let schedule = schedules[(dice.next() % schedules.len() as u64) as usize].clone();
        let each = match schedule.as_str() {
            "interleaved" => dice.pick(&[2, 2, 3]),
            "zb-v" => 2,
            _ => 1,
        };
        chunks *= each;
        keys.push((Key::Schedule, schedule));
        keys.push((Key::VirtualStages, each.to_string()));
        if dice.next().is_multiple_of(3) {
            keys.push((Key::Cuts, cuts(&mut dice, models[model].blocks(), chunks)));
        }
    }
    // An engine without pipelines takes no stage with one.
    let zeros: Vec<String> = supports.zeros(is_piped).iter().map(ToString::to_string).collect();
    if !zeros.is_empty() {
        keys.push((Key::Zero, zeros[(dice.next() % zeros.len() as u64) as usize].clone()));
    }
    let mut maybe = |dice: &mut Dice, key: Key, values: &[String]| {
        if !values.is_empty() && !dice.next().is_multiple_of(3) {
            keys.push((key, values[(dice.next() % values.len() as u64) as usize].clone()));
        }
    };
    if left > 1 {
        maybe(&mut dice, Key::Shard, &texts(&["1", "2", "4"]));
    }
    maybe(&mut dice, Key::Reshard, &names(&supports.reshard));
    maybe(&mut dice, Key::MicroBatch, &texts(&["1", "2", "4"]));
    let mut modes: Vec<String> = supports.checkpoint.iter().map(ToString::to_string).collect();
    modes.extend(texts(&["full:1", "full:2"]));
    maybe(&mut dice, Key::Checkpoint, &modes);
    let shares = ["1", "1", "0.5", "0.25"];
    let mut offers: Vec<String> =
        supports.offload.iter().map(|offer| format!("{}:{}", offer.category, dice.pick(&shares))).collect();
    if *supports.offload_together && !offers.is_empty() {
        offers =
            vec![supports.offloads().map(|category| format!("{category}:1")).collect::<Vec<_>>().join("+")];
    }
    if dice.next().is_multiple_of(3) {
        maybe(&mut dice, Key::Offload, &offers);
        maybe(&mut dice, Key::Overlap, &texts(&["on", "off"]));
    }
    maybe(&mut dice, Key::Loss, &supports.loss.iter().map(ToString::to_string).collect::<Vec<_>>());
    if dice.next().is_multiple_of(3) {
        maybe(&mut dice, Key::Attention, &texts(&["fused", "materialised"]));
        maybe(&mut dice, Key::Bucket, &texts(&["40M", "12M", "500M"]));
        maybe(&mut dice, Key::Gradient, &texts(&["fp32", "bf16"]));
        maybe(&mut dice, Key::Reduce, &texts(&["fp32", "bf16"]));
    }
    let orders = ["tp-cp-dp-pp", "tp-cp-pp-dp", "tp-dp-cp-pp", "cp-tp-shard-pp-replica", "dp-tp-cp-pp"];
    if dice.next().is_multiple_of(4) {
        maybe(&mut dice, Key::Order, &texts(&orders));
    }
    Draw { model, cluster, workload, keys }
}

/// Random cuts of `blocks` into `chunks`.
fn cuts(dice: &mut Dice, blocks: u32, chunks: u64) -> String {
    let mut list = vec![0_u32; chunks as usize];
    for _ in 0..blocks {
        let at = (dice.next() % chunks) as usize;
        list[at] += 1;
    }
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join("/")
}

impl Draw {
    /// The strategy, if it is legal in `problem`.
    pub fn strategy(&self, problem: &Problem<'_>) -> Option<Strategy> {
        let text: Vec<String> = self.keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Draft::parse(&text.join(",")).ok()?.resolve(&problem.facts).ok()
    }
}
