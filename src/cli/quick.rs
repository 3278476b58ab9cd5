//! What `execute` trains where no plan is given: a small GPT on as many CPU ranks as there are cores, or on a GPU.

use std::thread;

use super::error::CliError;
use crate::cluster::{self, Cluster};
use crate::execute::run::DeviceKind;
use crate::model::{self, Model};
use crate::strategy::Workload;
use crate::units::ElementType;

/// Small enough to learn something in seconds; its vocabulary holds every byte, so any text file is data for it.
const MODEL: &str = r#"{"model_type": "gpt2", "n_embd": 128, "n_layer": 4, "n_head": 4, "vocab_size": 256,
    "n_positions": 256}"#;

/// Sequences a step for each rank.
const SEQUENCES: u64 = 8;

/// The small GPT.
pub fn model() -> Result<Model, CliError> {
    Ok(model::from_text(MODEL, "the built-in model", "small-gpt")?)
}

/// As many ranks as are given; else one for each core, at least two; one on a GPU, and four where ranks share it.
pub fn cluster(device: DeviceKind, ranks: Option<usize>) -> Result<Cluster, CliError> {
    let text = match device {
        DeviceKind::Cpu => {
            let cores = || thread::available_parallelism().map_or(1, usize::from).max(2);
            format!("1x{}xcpu", ranks.unwrap_or_else(cores))
        }
        DeviceKind::Cuda => "1x1xh100-sxm".to_owned(),
        DeviceKind::SharedCuda => "1x4xh100-sxm".to_owned(),
    };
    Ok(cluster::load(&text)?)
}

/// What it is trained on by `ranks` ranks.
pub const fn workload(ranks: u64) -> Workload {
    Workload {
        global_batch: SEQUENCES * ranks,
        seq_len: 64,
        precision: ElementType::Fp32,
        dropout: 0.0,
        clip: 1.0,
    }
}
