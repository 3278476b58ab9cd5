//! In steady state, a step holds nothing beside the arenas but a stated constant.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI64, Ordering};

use meshwright::execute::data::{Batches, Synthetic, Tokens};
use meshwright::execute::error::ExecuteError;
use meshwright::execute::fleet::{Fleet, StepResult, Watcher};
use meshwright::execute::run::{Job, Run, Settings};
use meshwright::execute::weights::Weights;
use meshwright::model;
use meshwright::profile::engines::engine;
use meshwright::strategy::{Draft, Workload, resolve};
use meshwright::units::ElementType;

/// Heap bytes that a rank may hold beside its arenas while it makes a step: lists of a few parts of a unit.
const BESIDE: i64 = 16 * 1024;

static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

struct Counting;

// SAFETY: every call is handed on to the system's allocator as it came.
#[expect(unsafe_code, reason = "a counting allocator")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed) + layout.size() as i64;
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Meter<'a> {
    batches: &'a Batches,
    before: i64,
    most: i64,
}

impl Watcher for Meter<'_> {
    fn load(&mut self, fleet: &Fleet, step: u64) -> Result<(), ExecuteError> {
        fleet.load(self.batches, step)?;
        self.before = LIVE.load(Ordering::Relaxed);
        PEAK.store(self.before, Ordering::Relaxed);
        Ok(())
    }

    fn wants_gradients(&self, _step: u64) -> bool {
        false
    }

    fn gradients(&mut self, _fleet: &Fleet, _step: u64) -> Result<(), ExecuteError> {
        Ok(())
    }

    fn step(&mut self, _fleet: &Fleet, result: &StepResult) -> Result<ControlFlow<()>, ExecuteError> {
        if result.step > 0 {
            self.most = self.most.max(PEAK.load(Ordering::Relaxed) - self.before);
        }
        Ok(ControlFlow::Continue(()))
    }
}

#[test]
fn a_step_holds_nothing_beside_its_arenas() {
    let config = r#"{"model_type": "llama", "vocab_size": 500, "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": false, "max_position_embeddings": 64}"#;
    let model = model::from_text(config, "config.json", "small").unwrap();
    let workload =
        Workload { global_batch: 8, seq_len: 64, precision: ElementType::Fp32, dropout: 0.0, clip: 1.0 };
    let engine = engine("embedded").unwrap();
    for (text, devices) in [
        ("micro=2", 1),
        ("tp=2,dp=2,micro=2,zero=3", 4),
        ("dp=2,micro=1,zero=2,ckpt=full,offload=optimizer:1+activations:1", 2),
    ] {
        let strategy = resolve(&Draft::parse(text).unwrap(), &model, devices, &workload, engine).unwrap();
        let tokens = Tokens::Synthetic(Synthetic::new(1, 500).unwrap());
        let batches = Batches::new(tokens, 64, 8, strategy.data, None).unwrap();
        let job = Job { model: model.clone(), strategy, workload, engine };
        let fleet = Fleet::new(Run::new(job, Settings { cores: 1, ..Settings::default() }).unwrap()).unwrap();
        fleet.set_parameters(&Weights::random(&model, 0));
        let mut meter = Meter { batches: &batches, before: 0, most: 0 };
        fleet.train((0, 3), &mut meter).unwrap();
        assert!(meter.most <= BESIDE * devices as i64, "{text}: {} B beside the arenas", meter.most);
    }
}
