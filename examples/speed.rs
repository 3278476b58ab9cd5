use meshwright::execute::data::{Batches, Synthetic, Tokens};
use meshwright::execute::error::ExecuteError;
use meshwright::execute::fleet::{Fleet, StepResult, Watcher};
use meshwright::execute::run::{Job, Run, Settings};
use meshwright::execute::weights::Weights;
use meshwright::profile::engine::engine;
use meshwright::strategy::{Draft, Workload, resolve};
use meshwright::units::ElementType;
use std::ops::ControlFlow;
struct W<'a>(&'a Batches);
impl Watcher for W<'_> {
    fn load(&mut self, fleet: &Fleet, step: u64) -> Result<(), ExecuteError> {
        fleet.load(self.0, step);
        Ok(())
    }
    fn wants_gradients(&self, _: u64) -> bool {
        false
    }
    fn gradients(&mut self, _: &Fleet, _: u64) -> Result<(), ExecuteError> {
        Ok(())
    }
    fn step(&mut self, fleet: &Fleet, r: &StepResult) -> Result<ControlFlow<()>, ExecuteError> {
        println!(
            "step {} loss {:.4} {:.3} s {:.1} tok/s",
            r.step,
            r.loss,
            r.seconds,
            fleet.run.workload.tokens() as f64 / r.seconds
        );
        let rank = &fleet.ranks[0];
        let mut sums: std::collections::BTreeMap<String, f64> = Default::default();
        for stream in meshwright::lower::Stream::ALL {
            let spans = fleet.spans(0, stream);
            for (span, &issue) in spans.iter().zip(&rank.placement.streams[stream as usize]) {
                let issue = &rank.placement.issues[issue as usize];
                let name = match issue.task {
                    meshwright::program::instruction::Task::Kernel { kernel, .. } => format!("{kernel:?}"),
                    t => format!("{t:?}"),
                };
                *sums.entry(name).or_default() += span.end - span.start;
            }
        }
        let mut list: Vec<_> = sums.into_iter().collect();
        list.sort_by(|a, b| b.1.total_cmp(&a.1));
        if r.step == 2 {
            for (n, s) in list.iter().take(24) {
                println!("   {:8.1} ms {n}", s * 1e3);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let model = meshwright::model::load(args.get(1).map_or("gpt2", |s| s.as_str())).unwrap();
    let devices: u64 = args.get(3).map_or(1, |s| s.parse().unwrap());
    let workload =
        Workload { global_batch: 4, seq_len: 256, precision: ElementType::Fp32, dropout: 0.0, clip: 1.0 };
    let e = engine("embedded").unwrap();
    let strategy = resolve(
        &Draft::parse(args.get(2).map_or("micro=4", |s| s.as_str())).unwrap(),
        &model,
        devices,
        &workload,
        e,
    )
    .unwrap();
    let batches =
        Batches::new(Tokens::Synthetic(Synthetic::new(1, 50257).unwrap()), 256, 4, strategy.data, None)
            .unwrap();
    let weights = Weights::random(&model, 0);
    let fleet =
        Fleet::new(Run::new(Job { model, strategy, workload, engine: e }, Settings::default()).unwrap())
            .unwrap();
    fleet.set_parameters::<f32>(&weights);
    fleet.train::<f32, f32>((0, 4), &mut W(&batches)).unwrap();
}
