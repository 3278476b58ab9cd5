//! A step that needs no host in its middle is one graph a rank, from the third step on. On the stand-ins, which count calls;
//! each test starts itself as a process.

use std::cell::RefCell;

use meshwright::execute::contents::{Kept, Tensors};
use meshwright::execute::device::Tracing;
use meshwright::execute::error::ExecuteError;
use meshwright::execute::fleet::Fleet;
use meshwright::execute::run::{DeviceKind, Job, Settings};
use meshwright::model::Model;
use meshwright::profile::engines::engine;
use meshwright::trace::Resident;

use crate::child::{counts, run};
use crate::strategies::strategy;
use crate::training::{Manner, Trained};
use crate::uneven::weights;
use crate::{models, settings, trained_in, workload};

pub const CHILD: &str = "whole::child";
/// What says which strategy the child trains under, on how many GPUs, for how many steps.
const ASKED: [&str; 3] = ["MESHWRIGHT_TEST_STRATEGY", "MESHWRIGHT_TEST_RANKS", "MESHWRIGHT_TEST_STEPS"];

fn train(
    (model, text, devices): (&Model, &str, u64),
    manner: Manner<'_>,
    inspect: bool,
    steps: u64,
) -> Result<Trained, ExecuteError> {
    let workload = workload(if model.name.contains("gpt2") { 0.2 } else { 0.0 });
    let strategy = strategy(model, text, devices, &workload).unwrap_or_else(|| panic!("{text} is legal"));
    let job = Job { model: model.clone(), strategy, workload, engine: engine("embedded").unwrap() };
    trained_in::<f32, f32>(manner, job, Settings { device: DeviceKind::Cuda, inspect, ..settings() }, steps)
}

/// Trains untraced, and says how that ended.
#[test]
#[ignore = "other tests start it as a process of its own"]
fn child() {
    let [text, ranks, steps] = ASKED.map(|name| std::env::var(name).unwrap());
    let inspect = text.contains("inspected:");
    let text = text.trim_start_matches("inspected:");
    let case = (&models::llama(), text, ranks.parse().unwrap());
    match train(case, Manner::default(), inspect, steps.parse().unwrap()) {
        Ok(trained) => {
            let Resident { predicted, measured } = trained.fleet.resident();
            assert_eq!(predicted, measured, "what is taken of the GPUs");
            println!("the run was whole");
        }
        Err(error) => println!("the run ended: {error}"),
    }
}

/// The settings by which the child trains so.
pub fn asked<'a>(text: &'a str, ranks: &'a str, steps: &'a str) -> [(&'static str, &'a str); 4] {
    let [one, two, three] = ASKED;
    [(one, text), (two, ranks), (three, steps), ("FAKE_CUDA_DEVICES", ranks)]
}

/// Losses, norms and parameters are those of steps whose instructions are submitted one by one, to the bit. The rate of
/// updates and dropout, which differ from step to step, are read by every launch.
fn same_bits(model: &Model, devices: u64, texts: &[&str]) {
    for text in texts {
        let [expected, found] = [Tracing::On, Tracing::Off].map(|tracing| {
            let manner = Manner { tracing, ..Manner::default() };
            train((model, text, devices), manner, false, 4).unwrap_or_else(|error| panic!("{text}: {error}"))
        });
        assert_eq!((&found.losses, &found.norms), (&expected.losses, &expected.norms), "{text}");
        assert!(found.parameters == expected.parameters, "{text}: parameters differ");
    }
}

#[test]
fn one_rank_gives_the_same_bits() {
    same_bits(&models::gpt2(), 1, &["micro=4", "micro=8,ckpt=full"]);
}

#[test]
#[ignore = "another test starts it as a process of its own"]
fn with_shards() {
    same_bits(&models::gpt2(), 2, &["tp=2,micro=4", "zero=3,micro=2"]);
    same_bits(&models::llama(), 2, &["micro=4"]);
}

#[test]
#[ignore = "another test starts it as a process of its own"]
fn with_stages() {
    same_bits(&models::gpt2(), 2, &["pp=2,sched=zb-v,micro=2"]);
    same_bits(&models::llama(), 4, &["tp=2,pp=2,zero=1,micro=4"]);
}

#[test]
fn several_ranks_give_the_same_bits() {
    for (name, gpus) in [("whole::with_shards", "2"), ("whole::with_stages", "4")] {
        let output = run(name, &[("FAKE_CUDA_DEVICES", gpus)]);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// What two steps more have a run of `text` call, beside calls of every entry point that is no work.
fn of_two_steps(text: &str, ranks: &str) -> Vec<(String, u64)> {
    let [four, six] = ["4", "6"].map(|steps| counts(CHILD, &asked(text, ranks, steps)));
    let is_work = |name: &str| {
        let of_driver =
            ["cuLaunch", "cuGraph", "cuMemset", "cuStreamWait", "cuStreamBegin", "cublasLtMatmul"];
        let of_nccl = ["All", "Reduce", "Broadcast", "Send", "Recv", "Group"];
        let is_one = |words: &[&str], name: &str| words.iter().any(|word| name.starts_with(word));
        is_one(&of_driver, name) || name.strip_prefix("nccl").is_some_and(|name| is_one(&of_nccl, name))
    };
    let more = |(name, count): (&String, &u64)| {
        let before = four.get(name).copied().unwrap_or_default();
        (is_work(name) && *count > before).then(|| (name.clone(), count - before))
    };
    six.iter().filter_map(more).collect()
}

#[test]
fn a_step_is_one_launch_a_rank() {
    for (text, ranks) in [("micro=4", "1"), ("zero=3,micro=2", "2"), ("tp=2,pp=2,micro=2", "4")] {
        let launches = 2 * ranks.parse::<u64>().unwrap();
        assert_eq!(of_two_steps(text, ranks), [("cuGraphLaunch".to_owned(), launches)], "{text}");
    }
}

/// What the host computes or looks at comes in the middle of a step: only graphs of whole steps are uploaded.
#[test]
fn a_step_that_needs_the_host_is_no_graph() {
    let uploads = |text, ranks| counts(CHILD, &asked(text, ranks, "4")).get("cuGraphUpload").copied();
    assert_eq!(uploads("zero=1,micro=2", "2"), Some(2));
    for (text, ranks) in [
        ("inspected:micro=4", "1"),
        ("micro=4,offload=optimizer:1", "1"),
        ("micro=4,offload=optimizer:1,overlap=off", "1"),
        ("zero=1,micro=2,offload=optimizer:0.5", "2"),
    ] {
        assert_eq!(uploads(text, ranks), None, "{text}");
    }
}

/// How the child says that its run of six steps ended.
pub fn ending(text: &str, ranks: &str, settings: &[(&str, &str)]) -> String {
    let output = run(CHILD, &[&asked(text, ranks, "6")[..], settings].concat());
    let [said, told] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success() && !told.contains("panicked"), "{said}{told}");
    said.lines().find(|line| line.starts_with("the run")).unwrap_or_default().to_owned()
}

/// The GPU refuses the launch, or ends the run while it is waited for.
#[test]
fn a_fault_in_a_graph_ends_the_run() {
    for (text, ranks, fault, words) in [
        ("micro=4", "1", "cuGraphLaunch:2:719", "the GPU has ended the run with 719"),
        ("micro=4", "1", "cuGraphLaunch:2:2", "no memory is left"),
        ("zero=3,micro=2", "2", "cuGraphLaunch:5:719", "the GPU has ended the run with 719"),
        ("pp=2,micro=2", "2", "cuGraphLaunch:3:999", "a graph: the CUDA driver answers 999"),
    ] {
        let ended = ending(text, ranks, &[("FAKE_CUDA_FAIL", fault)]);
        assert!(ended.contains(words), "{text}, {fault}: {ended}");
    }
}

/// Then ranks submit as they do without such graphs.
#[test]
fn what_cannot_be_captured_is_submitted() {
    for (text, ranks) in [("micro=4", "1"), ("zero=3,micro=2", "2")] {
        for fault in ["cuGraphUpload:1:801", "cuGraphInstantiateWithFlags:1:801"] {
            assert_eq!(ending(text, ranks, &[("FAKE_CUDA_FAIL", fault)]), "the run was whole", "{fault}");
        }
    }
}

/// A loss that is no number ends a run that is made of graphs as any other. A rank that is alone keeps what the step began
/// with, so that it can be looked for where numbers were lost.
#[test]
#[ignore = "another test starts it as a process of its own"]
fn a_loss_is_lost() {
    let model = models::gpt2();
    let odd = "transformer.h.1.mlp.c_fc.weight";
    for (text, devices) in [("micro=4", 1), ("pp=2,micro=2", 2)] {
        let began = RefCell::new(None);
        let parameters = |fleet: &Fleet| {
            let all = fleet.read(Kept::Parameters).into_iter();
            all.filter(|(_, values)| values.iter().all(|value| value.is_finite())).collect::<Tensors>()
        };
        let lose = |fleet: &Fleet, step| {
            if step == 4 {
                fleet.set_parameters(&weights(&model, odd));
                *began.borrow_mut() = Some(parameters(fleet));
            }
        };
        let is_as_it_began = |fleet: &Fleet| {
            assert!(
                devices > 1 || began.borrow().as_ref() == Some(&parameters(fleet)),
                "{text}: it was updated"
            );
        };
        let manner = Manner { before: &lose, behind_failure: &is_as_it_began, ..Manner::default() };
        match train((&model, text, devices), manner, false, 6).map(|_| ()) {
            Err(ExecuteError::NotFinite { step: 4, rank, .. }) => assert_eq!(rank as u64, devices - 1),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_loss_that_is_lost_ends_the_run() {
    let output = run("whole::a_loss_is_lost", &[("FAKE_CUDA_DEVICES", "2")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
