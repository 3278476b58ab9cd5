//! What is wrong is found: a buffer of another size than its kernels need, a rank that fails while others wait.

use meshwright::execute::data::{Synthetic, Tokens};
use meshwright::execute::run::{Job, Run, Settings};
use meshwright::execute::weights::Weights;
use meshwright::profile::engine::engine;
use meshwright::units::Bytes;

use crate::equivalence::{strategy, workload};
use crate::models;
use crate::training::train_run;

/// The error of two ranks whose buffer `name` has 8 bytes more or less than it should.
fn with_wrong_size(name: &str, change: i64) -> String {
    let model = models::llama();
    let workload = workload(1.0, 0.0);
    let strategy = strategy(&model, "dp=2,micro=1,zero=2", 2, &workload).unwrap();
    let job = Job { model: model.clone(), strategy, workload, engine: engine("embedded").unwrap() };
    let mut run = Run::new(job, Settings { cores: 1, ..Settings::default() }).unwrap();
    let buffers = run.program.ranks.iter_mut().flat_map(|rank| &mut rank.frames).flat_map(|f| &mut f.buffers);
    let mut found = 0;
    for buffer in buffers.filter(|buffer| buffer.name == name) {
        buffer.bytes = Bytes(buffer.bytes.0.saturating_add_signed(change));
        found += 1;
    }
    assert!(found > 0, "no buffer is named {name}");
    let tokens = Tokens::Synthetic(Synthetic::new(7, 61).unwrap());
    match train_run::<f64, f64>(run, tokens, &Weights::random(&model, 3), 1) {
        Ok(_) => panic!("{name} with {change} bytes trains as if nothing were wrong"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_wrong_size_is_found_and_ends_the_run() {
    let names = ["attention norm", "queries, keys, values", "log-sum-exp", "up", "residual stream", "logits"];
    for name in names {
        for change in [-8, 8] {
            let message = with_wrong_size(name, change);
            assert!(message.contains("panicked"), "{name}: {message}");
        }
    }
}
