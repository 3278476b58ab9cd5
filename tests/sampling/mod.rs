//! Random models, workloads and legal strategies for property tests.

use meshwright::model::graph::LossWeight;
use meshwright::model::{self, Model};
use meshwright::profile::EngineProfile;
use meshwright::profile::engines::engines;
use meshwright::strategy::{Draft, Key, Strategy, Workload, resolve};
use meshwright::units::ElementType;

mod dice;

pub use dice::Dice;

/// One legal case.
pub struct Case {
    pub model: Model,
    pub workload: Workload,
    pub engine: &'static EngineProfile,
    pub strategy: Strategy,
    pub devices: u64,
    /// What was typed.
    pub text: String,
}

/// A small model: GPT-2, Llama, Mixtral or OPT like or of two or three losses; one in four partly frozen.
pub fn model(dice: &mut Dice) -> Model {
    let mut model = if dice.next().is_multiple_of(5) { several_losses(dice) } else { one_loss(dice) };
    if dice.next().is_multiple_of(4) {
        freeze(&mut model, dice);
    }
    model
}

/// Freezes the first layers, or some anywhere; a weight that a loss looks at stays trained.
fn freeze(model: &mut Model, dice: &mut Dice) {
    let count = model.graph.node_count() as u64;
    let first = dice.next() % (count / 2 + 1);
    let anywhere = dice.next().is_multiple_of(2);
    let watched: Vec<String> = model
        .losses
        .iter()
        .filter_map(|loss| match &loss.weight {
            LossWeight::Adaptive { at, .. } => Some(at.clone()),
            LossWeight::Fixed(_) => None,
        })
        .collect();
    for (index, layer) in model.graph.node_weights_mut().enumerate() {
        let frozen = if anywhere { dice.next().is_multiple_of(3) } else { (index as u64) < first };
        layer.frozen = frozen && !watched.contains(&layer.name);
    }
    if model.trainable_count() == 0 {
        model.graph.node_weights_mut().for_each(|layer| layer.frozen = false);
    }
}

/// Blocks under two heads and a loss of features, whose weights may be adaptive.
fn several_losses(dice: &mut Dice) -> Model {
    let blocks = dice.pick(&[1, 2, 3, 4, 6]);
    let hidden = dice.pick(&[64, 128]);
    let vocabulary = dice.pick(&[101, 128]);
    let weight = |dice: &mut Dice, of: &str| match dice.next() % 4 {
        0 => "1".to_owned(),
        1 => dice.pick(&["0.25", "0"]).to_owned(),
        _ => {
            let at = format!("block {} {}", dice.next() % blocks, dice.pick(&["attention", "mlp"]));
            format!(r#"{{"adaptive":{{"of":"{of}","at":"{at}"}}}}"#)
        }
    };
    let tied = dice.pick(&["true", "false"]);
    let (second, third) = (weight(dice, "tokens"), weight(dice, "tokens"));
    let mut layers = format!(
        r#"{{"name":"embedding","kind":{{"embedding":{{"vocabulary":{vocabulary},"hidden":{hidden}}}}}}},
           {{"name":"attention","inputs":["embedding"],"kind":{{"attention":{{"hidden":{hidden},"heads":4,
             "projection":{{"grouped":{{"kv_heads":4,"head_dim":{}}}}},"norm":{{"kind":"rms","width":{hidden}}},
             "position":"rotary"}}}}}},
           {{"name":"mlp","inputs":["attention"],"kind":{{"mlp":{{"hidden":{hidden},"intermediate":{},
             "activation":"gelu","norm":{{"kind":"rms","width":{hidden}}}}}}}}},
           {{"name":"head","inputs":["mlp"],"kind":{{"head":{{"hidden":{hidden},"vocabulary":{vocabulary},
             "norm":{{"kind":"rms","width":{hidden}}},"tied":{tied},"soft_cap":true}}}}}},
           {{"name":"next token","inputs":["head"],"kind":{{"loss":"cross_entropy"}}}}"#,
        hidden / 4,
        2 * hidden
    );
    let (has_features, has_labels) = match dice.next() % 3 {
        0 => (true, false),
        1 => (false, true),
        _ => (true, true),
    };
    // Weights may look at losses that stand behind, and in a circle: such are planned too.
    let first = match dice.next() % 4 {
        0 => weight(dice, if has_features { "features" } else { "labels" }),
        _ => "1".to_owned(),
    };
    let mut losses = format!(r#"{{"name":"tokens","layer":"next token","weight":{first}}}"#);
    if has_features {
        layers += r#",{"name":"features","inputs":["mlp"],"kind":{"loss":"mean_squared_error"}}"#;
        losses += &format!(r#",{{"name":"features","layer":"features","weight":{second}}}"#);
    }
    if has_labels {
        layers += &format!(
            r#",{{"name":"second head","inputs":["mlp"],"kind":{{"head":{{"hidden":{hidden},"vocabulary":64}}}}}},
                {{"name":"labels","inputs":["second head"],"kind":{{"loss":"cross_entropy"}}}}"#
        );
        losses += &format!(r#",{{"name":"labels","layer":"labels","weight":{third}}}"#);
    }
    let text = format!(
        r#"{{"version":1,"name":"sample","max_sequence":256,"layers":[{layers}],
            "repeat":[{{"first":"attention","last":"mlp","count":{blocks}}}],"losses":[{losses}]}}"#
    );
    model::from_text(&text, "graph.json", "sample").expect("the graph is legal")
}

fn one_loss(dice: &mut Dice) -> Model {
    let layers = dice.pick(&[1, 2, 3, 4, 6, 8]);
    let heads = dice.pick(&[4, 8]);
    let kv_heads = dice.pick(&[2, 4]);
    let hidden = heads * dice.pick(&[8, 16]);
    let vocabulary = dice.pick(&[101, 128, 1000]);
    let tied = dice.pick(&["true", "false"]);
    let config = match dice.next() % 4 {
        3 => format!(
            r#"{{"model_type":"opt","hidden_size":{hidden},"num_hidden_layers":{layers},"num_attention_heads":{heads},
                "ffn_dim":{},"max_position_embeddings":256,"vocab_size":{vocabulary},"activation_function":"relu",
                "word_embed_proj_dim":{},"do_layer_norm_before":false,"tie_word_embeddings":{tied}}}"#,
            4 * hidden,
            hidden / 2
        ),
        0 => format!(
            r#"{{"model_type":"gpt2","n_embd":{hidden},"n_layer":{layers},"n_head":{heads},"n_positions":256,
                "vocab_size":{vocabulary},"activation_function":"gelu_new","tie_word_embeddings":{tied}}}"#
        ),
        1 => format!(
            r#"{{"model_type":"llama","hidden_size":{hidden},"num_hidden_layers":{layers},"num_attention_heads":{heads},
                "num_key_value_heads":{kv_heads},"intermediate_size":{},"max_position_embeddings":256,
                "vocab_size":{vocabulary},"hidden_act":"silu","tie_word_embeddings":{tied}}}"#,
            3 * hidden
        ),
        _ => format!(
            r#"{{"model_type":"mixtral","hidden_size":{hidden},"num_hidden_layers":{layers},"num_attention_heads":{heads},
                "num_key_value_heads":{kv_heads},"intermediate_size":{},"max_position_embeddings":256,
                "num_local_experts":8,"num_experts_per_tok":2,"vocab_size":{vocabulary},"hidden_act":"silu",
                "tie_word_embeddings":{tied}}}"#,
            2 * hidden
        ),
    };
    model::from_text(&config, "config.json", "sample").expect("the configuration is legal")
}

/// Keys of the mesh, in the order in which they are drawn.
const MESH: [Key; 3] = [Key::Tensor, Key::Pipeline, Key::Context];

/// Values of the other keys, of which each is given in one case of three.
const CHOICES: [(Key, &[&str]); 19] = [
    (Key::SequenceParallel, &["on", "off"]),
    (Key::ContextKind, &["ring", "ulysses"]),
    (Key::Expert, &["1", "2", "4"]),
    (Key::ExpertTensor, &["1", "2"]),
    (Key::Capacity, &["1.25", "full", "0.5"]),
    (Key::Schedule, &["gpipe", "1f1b", "interleaved", "interleaved", "zb-h1", "zb-h2", "zb-v", "zb-v"]),
    (Key::Zero, &["0", "1", "2", "3", "3"]),
    (Key::Shard, &["1", "2", "4"]),
    (Key::Reshard, &["on", "off"]),
    (Key::MicroBatch, &["1", "2"]),
    (Key::Sync, &["immediate", "scatter", "deferred"]),
    (Key::Checkpoint, &["none", "selective", "full", "full:1"]),
    (
        Key::Offload,
        &["optimizer:1", "optimizer:0.3", "params:0.5", "activations:0.5", "params:1+activations:1"],
    ),
    (Key::Overlap, &["on", "off"]),
    (Key::Compression, &["8bit", "4bit"]),
    (Key::Loss, &["full", "chunked"]),
    (Key::Attention, &["fused", "materialised"]),
    (Key::Bucket, &["1K", "40M"]),
    (Key::Reduce, &["fp32", "bf16"]),
];

#[test]
fn every_key_is_drawn_or_left_out() {
    // What follows from other keys, lists as long as a case has chunks, and what other tests draw.
    const LEFT_OUT: [Key; 6] =
        [Key::Data, Key::VirtualStages, Key::Cuts, Key::Accumulation, Key::Gradient, Key::Order];
    let drawn = MESH.into_iter().chain(CHOICES.map(|(key, _)| key));
    let mut keys: Vec<Key> = drawn.chain(LEFT_OUT).collect();
    keys.sort_unstable();
    assert_eq!(keys, Key::ALL, "each key once");
}

/// The legal case of `seed`, if its draw is legal.
pub fn case(seed: u64) -> Option<Case> {
    let mut dice = Dice::new(seed);
    let model = model(&mut dice);
    let engine = &engines()[dice.pick(&[0, 0, 0, 0, 1, 2, 3, 4])];
    let devices = dice.pick(&[1, 2, 4, 8, 16]);
    let workload = Workload {
        global_batch: dice.pick(&[4, 8, 16, 24]),
        seq_len: dice.pick(&[16, 32, 64]),
        precision: dice.pick(&[ElementType::Bf16, ElementType::Bf16, ElementType::Fp32]),
        dropout: dice.pick(&[0.0, 0.1]),
        clip: dice.pick(&[0.0, 1.0]),
    };
    let mut keys = Vec::new();
    let mut left: u64 = devices;
    for key in MESH {
        let size = dice.pick(&[1, 1, 2, 2, 4]);
        if left.is_multiple_of(size) && size > 1 {
            keys.push(format!("{key}={size}"));
            left /= size;
        }
    }
    for (key, values) in CHOICES {
        if dice.next().is_multiple_of(3) {
            keys.push(format!("{key}={}", dice.pick(values)));
        }
    }
    let text = keys.join(",");
    let draft = Draft::parse(&text).ok()?;
    let strategy = resolve(&draft, &model, devices, &workload, engine).ok()?;
    Some(Case { model, workload, engine, strategy, devices, text })
}

/// `count` legal cases, from seeds that follow `seed`.
pub fn cases(seed: u64, count: usize) -> impl Iterator<Item = (u64, Case)> {
    (seed..).filter_map(|seed| case(seed).map(|case| (seed, case))).take(count)
}
