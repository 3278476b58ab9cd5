//! The README of an export: how to start it, what was checked, what was rounded and what that costs.

use super::case::Case;
use super::exported::{Exported, Origin, Outlook};
use super::syntax::markdown::{code, sentence, words};
use super::targets::Target;
use crate::strategy::KeyChange;

/// The text of it, in Markdown.
pub fn readme(target: Target, case: &Case<'_>, exported: &Exported) -> String {
    let mut text = format!(
        "# {} on {}, for {}\n\n",
        words(&exported.plan.model.name),
        words(&exported.plan.cluster.name),
        exported.target
    );
    let work = &exported.plan.workload;
    let prediction = &exported.plan.prediction;
    text += &format!(
        "{}\n\n{}\n\n{} sequences of {} tokens a step, {}. Predicted for {}: **{}** a step, **{}** of the fullest \
         device{}.\n\n",
        sentence(&exported.plan.strategy.description),
        code(&exported.plan.strategy.text),
        work.global_batch,
        work.seq_len,
        work.precision,
        exported.plan.engine,
        prediction.step_time_s,
        prediction.process_bytes(),
        if prediction.fits { "" } else { ", which does **not** fit" },
    );
    text += &start(target, case);
    text += &origin(exported);
    text += "## What was checked\n\n";
    text += &format!("The rules of {} ({}), which hold:\n\n", exported.target, target.dialect.source());
    for check in &exported.checks {
        text += &format!("- {} ({})\n", sentence(&check.rule), sentence(&check.source));
    }
    text += "\nThe file was read back as `meshwright simulate --from` reads it, and means the strategy above.\n\n";
    text += "## What it does not say\n\n";
    for said in &exported.unsaid {
        text += &format!("- {}\n", sentence(said));
    }
    text += "- Data, checkpoints and the learning rate are yours to set.\n";
    text
}

fn start(target: Target, case: &Case<'_>) -> String {
    let nodes = case.nodes();
    let alone = match nodes {
        1 => "./run.sh".to_owned(),
        _ => "NODE_RANK=<0, 1, …> MASTER_ADDR=<the first node> ./run.sh   # on each node".to_owned(),
    };
    let placed = match super::launch::ranks(case.strategy, target.dialect.program(case).order) {
        None => {
            "Ranks follow the devices, node by node: the engine's order of ranks is the plan's.".to_owned()
        }
        Some(_) => {
            "The plan lays its mesh in another order than the engine numbers its ranks. So `ranks.txt` says \
                    which rank runs on which device: line 1 + device, node by node."
                .to_owned()
        }
    };
    format!(
        "## Start it\n\n```sh\n{alone}\nsbatch run.slurm\nHOSTFILE=hosts ./run.mpirun.sh\n```\n\n`{}` holds the settings, \
         `environment.sh` the environment. {placed}\n\n",
        target.dialect.file()
    )
}

fn origin(exported: &Exported) -> String {
    let now = Outlook::of(&exported.plan);
    match &exported.origin {
        Origin::AsPlanned => {
            "## What was rounded\n\nNothing: the settings say the strategy as it was planned.\n\n".to_owned()
        }
        Origin::Rounded(changes) => format!(
            "## What was rounded\n\nThis version has no word for these; the nearest was taken, and simulated anew:\n\n{}\n{}",
            table(changes),
            cost(&exported.planned, &now)
        ),
        Origin::PlannedAnew { changes, reason } => format!(
            "## Planned anew\n\nThe given plan cannot be exported as it is ({}). This one is the best that {} can run:\n\n{}\n{}",
            sentence(reason),
            exported.target,
            table(changes),
            cost(&exported.planned, &now)
        ),
    }
}

fn table(changes: &[KeyChange]) -> String {
    let rows: String = changes
        .iter()
        .map(|change| format!("| {} | {} | {} |\n", change.key, words(&change.from), words(&change.to)))
        .collect();
    format!("| key | planned | exported |\n| --- | --- | --- |\n{rows}")
}

/// What the change costs, in time and memory.
fn cost(before: &Outlook, now: &Outlook) -> String {
    let time = 100.0 * (now.step_time.0 / before.step_time.0 - 1.0);
    format!(
        "{} a step in place of {} ({time:+.1} %), {} in place of {} a device (before: as planned for {}).\n\n",
        now.step_time,
        before.step_time,
        now.process,
        before.process,
        words(&before.engine)
    )
}
