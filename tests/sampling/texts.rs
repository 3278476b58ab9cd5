//! Random texts of strategies for a model.

use meshwright::model::Model;
use meshwright::model::layer::LayerKind;

use crate::dice::Dice;

/// What a random strategy is drawn for.
#[derive(Clone, Copy)]
pub struct Draw {
    pub is_moe: bool,
    pub blocks: u64,
    pub most_stages: u64,
}

impl Draw {
    pub fn of(model: &Model) -> Self {
        let blocks = model.layers().filter_map(|layer| layer.block).max().map_or(0, |last| last + 1);
        let is_moe = model.layers().any(|layer| matches!(layer.kind, LayerKind::Moe(_)));
        Self { is_moe, blocks: u64::from(blocks), most_stages: 4 }
    }
}

/// A random strategy text for `devices` ranks; many are illegal.
pub fn random_text(dice: &mut Dice, devices: u64, draw: Draw) -> String {
    let mut left = devices;
    let mut part = |dice: &mut Dice, sizes: &[u64]| {
        let size = dice.pick(sizes);
        if left.is_multiple_of(size) {
            left /= size;
            size
        } else {
            1
        }
    };
    let (tp, pp, cp) = (
        part(dice, &[1, 1, 2, 4]),
        part(dice, &[1, 1, 2, 4].map(|stages: u64| stages.min(draw.most_stages))),
        part(dice, &[1, 1, 1, 2]),
    );
    let mut keys = vec![format!("tp={tp},pp={pp},cp={cp},micro={}", dice.pick(&[1, 1, 2, 4]))];
    let mut maybe = |odds: u64, dice: &mut Dice, choices: &[&str]| {
        if dice.next().is_multiple_of(odds) {
            keys.push(dice.pick(choices).to_owned());
        }
    };
    if tp > 1 {
        maybe(2, dice, &["sp=off"]);
    }
    if cp > 1 {
        maybe(2, dice, &["cp_kind=ulysses"]);
    }
    if pp > 1 {
        maybe(
            2,
            dice,
            &[
                "sched=gpipe",
                "sched=zb-h1",
                "sched=zb-h2",
                "sched=zb-v,virtual=2",
                "sched=interleaved,virtual=2",
            ],
        );
    }
    if draw.is_moe {
        maybe(2, dice, &["ep=2", "ep=4", "ep=2,etp=1", "ep=1,etp=1"]);
        maybe(1, dice, &["capacity=full"]);
    }
    maybe(1, dice, &["zero=0", "zero=1", "zero=2", "zero=3", "zero=3,reshard=off"]);
    maybe(3, dice, &["shard=2", "shard=1", "shard=4"]);
    maybe(2, dice, &["sync=immediate", "sync=scatter", "sync=deferred"]);
    maybe(2, dice, &["ckpt=full", "ckpt=selective", "ckpt=full:1"]);
    maybe(
        3,
        dice,
        &[
            "offload=optimizer:1",
            "offload=optimizer:0.5",
            "offload=params:1",
            "offload=activations:1",
            "offload=optimizer:0.3+params:0.5+activations:0.5",
        ],
    );
    maybe(4, dice, &["overlap=off"]);
    maybe(3, dice, &["loss=chunked"]);
    maybe(3, dice, &["attention=materialised"]);
    maybe(6, dice, &["order=dp-tp-cp-pp", "order=pp-tp-cp-dp"]);
    if pp > 1 && dice.next().is_multiple_of(2) {
        let chunks = if keys.iter().any(|key| key.ends_with("virtual=2")) { 2 * pp } else { pp };
        keys.push(format!("cuts={}", random_cuts(dice, draw.blocks, chunks)));
    }
    keys.join(",")
}

/// `blocks` blocks over `chunks` chunks, some of which may have none.
fn random_cuts(dice: &mut Dice, blocks: u64, chunks: u64) -> String {
    let mut cuts = vec![0; chunks as usize];
    for _ in 0..blocks {
        cuts[(dice.next() % chunks) as usize] += 1;
    }
    cuts.iter().map(u64::to_string).collect::<Vec<_>>().join("/")
}
