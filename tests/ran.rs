//! What ran must fit: published runs of quality A and B, predicted by their own engine, against their device's memory.

use std::path::Path;

use meshwright::search::Problem;
use meshwright::simulate::peak;
use meshwright::trace::published::Quality;
use meshwright::units::Bytes;
use meshwright::validate::published::scenario;
use meshwright::validate::{Measured, read};

/// Runs that state what they recompute, and those of them that are predicted above their device's memory.
#[test]
fn runs_that_state_their_checkpointing_fit() {
    let runs = read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/traces/published"))).unwrap();
    let (mut stated, mut all, mut over) = (0, 0, Vec::new());
    for (id, measured) in runs {
        let Measured::Published(run) = measured else { continue };
        // Some are there because they ran out of memory.
        if run.quality >= Quality::C || id.ends_with("-oom") {
            continue;
        }
        let Ok(scenario) = scenario(&run, &|_| None, None) else { continue };
        let problem =
            Problem::new(&scenario.model, &scenario.cluster, scenario.workload, &scenario.engine, None);
        let program = problem.program(&scenario.strategy);
        let peak = program.ranks.iter().map(|rank| peak(rank).total).max().unwrap_or_default();
        let process = problem.process_memory(&scenario.strategy, peak).process;
        all += 1;
        let states = run.strategy.checkpointing.is_some();
        stated += u32::from(states);
        if process > problem.memory_limit {
            over.push((
                states,
                id,
                process,
                problem.memory_limit,
                scenario.strategy.text(problem.facts.defaults),
            ));
        }
    }
    let of_stated = over.iter().filter(|(states, ..)| *states).count();
    let list: Vec<String> = over
        .iter()
        .map(|(states, id, process, limit, text): &(bool, String, Bytes, Bytes, String)| {
            format!("{} {id}: {process} of {limit}, {text}", if *states { "stated" } else { "silent" })
        })
        .collect();
    // At most one in a hundred. Known are four of Azure's and one of SC21's ZeRO-3 runs, whose tables do not say what else
    // was offloaded; BLOOM's 200 B on 80 devices, 3 % over, whose table says neither where the pipeline was cut nor of
    // which device the memory is; and two of Llama 3 405B, whose chunks and micro-batches are guessed. Three that state
    // nothing (DeepSeek-V3 twice, Kimi K2) do not fit whatever they recompute.
    assert!(
        of_stated * 100 <= stated as usize && over.len() - of_stated <= 3,
        "{of_stated} of {stated} that state it, {} of {all}:\n{}",
        over.len(),
        list.join("\n")
    );
}
