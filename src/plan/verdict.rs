//! One sentence that says what binds, and what to do about it.

use crate::plan::document::Prediction;
use crate::search::{Candidate, Problem};
use crate::units::{Bytes, Seconds, agreeing};

/// What binds `candidate`: memory where it does not fit, else the largest cause of time that is not compute.
pub fn verdict(problem: &Problem<'_>, candidate: &Candidate, prediction: &Prediction) -> String {
    let limit = problem.memory_limit;
    let process = candidate.memory.process;
    if !prediction.fits {
        return does_not_fit(problem, process, limit, prediction);
    }
    let step = prediction.step_time_s.0.max(f64::MIN_POSITIVE);
    let percent = |seconds: Seconds| 100.0 * seconds.0 / step;
    let causes = prediction.time_s;
    let losses = [
        (
            "exposed communication",
            causes.communication_exposed,
            "a smaller tensor or shard group, or more tokens a micro-batch, would shorten it",
        ),
        ("the pipeline bubble", causes.bubble, "more micro-batches or more chunks a rank would shrink it"),
        ("recomputation", causes.recompute, "memory for more activations would save it"),
        ("the optimizer step", causes.optimizer, "more ranks to share its state would shorten it"),
        (
            "exposed copies to and from the host",
            causes.copy_exposed,
            "a faster host link or less offload would shorten them",
        ),
    ];
    let (name, seconds, advice) = losses
        .into_iter()
        .reduce(|most, next| if next.1.0 > most.1.0 { next } else { most })
        .unwrap_or(losses[0]);
    let spare = limit.saturating_sub(process);
    let error = memory_error(prediction);
    let memory = if (spare.0 as f64) < error * process.0 as f64 {
        format!(
            "Memory fits by {spare} of {limit}, which is within the error of the prediction (± {:.0} %); ",
            100.0 * error
        )
    } else if (spare.0 as f64) < 0.1 * limit.0 as f64 {
        format!("Memory is nearly full ({process} of {limit}); ")
    } else {
        format!("{spare} of {limit} a device stay free; ")
    };
    let memory = memory + &host_words(problem, prediction);
    if percent(seconds) < 5.0 {
        return format!(
            "{memory}compute binds: {:.0} % of the step, no other cause above 5 %; faster kernels or more devices are what is left.",
            percent(causes.compute)
        );
    }
    format!(
        "{memory}beside compute ({:.0} %), {name} costs most: {:.0} % of the step; {advice}.",
        percent(causes.compute),
        percent(seconds)
    )
}

/// What takes most of the least memory that a strategy needs, and what would take less.
pub fn memory_verdict(problem: &Problem<'_>, candidate: &Candidate, prediction: &Prediction) -> String {
    if !prediction.fits {
        return verdict(problem, candidate, prediction);
    }
    let (dominant, bytes) = dominant(prediction);
    let share = 100.0 * bytes.0 as f64 / prediction.peak_memory_bytes.0.max(1) as f64;
    let take = agreeing(dominant, "take");
    let advice = match dominant {
        "parameters" | "gradients" | "optimizer" => "more devices to shard them over would take less",
        "activations" | "logits" => "shorter sequences would take less",
        _ => "they are the engine's and the driver's own",
    };
    format!(
        "{} of {} a device; {dominant} {take} most ({share:.0} %): {advice}. Where memory need not be the least, \
         --objective robust finds a faster plan.",
        candidate.memory.process, problem.memory_limit
    )
}

/// The category that takes most at the peak, and what it takes.
fn dominant(prediction: &Prediction) -> (&'static str, Bytes) {
    let parts = prediction.memory_bytes.parts().into_iter();
    parts
        .reduce(|most, next| if next.1 > most.1 { next } else { most })
        .unwrap_or(("parameters", Bytes::ZERO))
}

/// That the host's memory is nearly full, where it is.
fn host_words(problem: &Problem<'_>, prediction: &Prediction) -> String {
    let (used, room) = (prediction.host_memory_bytes, problem.cluster.host_memory_per_device());
    if (used.0 as f64) < (1.0 - NEARLY) * room.0 as f64 || used == Bytes::ZERO {
        return String::new();
    }
    format!("host memory is nearly full ({used} of {room} a device that are free for it); ")
}

/// Of a memory, the share that is left where it is nearly full.
const NEARLY: f64 = 0.1;

fn does_not_fit(problem: &Problem<'_>, process: Bytes, limit: Bytes, prediction: &Prediction) -> String {
    let host = problem.cluster.host_memory_per_device();
    if prediction.host_memory_bytes > host {
        return format!(
            "Does not fit: {} of host memory a device are needed and there are {host}; offload less.",
            prediction.host_memory_bytes
        );
    }
    let (dominant, bytes) = dominant(prediction);
    let take = agreeing(dominant, "take");
    let over = process.saturating_sub(limit);
    let error = memory_error(prediction);
    let doubt = if (over.0 as f64) < error * process.0 as f64 {
        format!(" That is within the error of the prediction (± {:.0} %).", 100.0 * error)
    } else {
        String::new()
    };
    format!(
        "Does not fit: {process} are needed and {limit} are there, {over} too much; {dominant} {take} most ({bytes}).{doubt}"
    )
}

/// Half-width of the 80 % interval of memory predictions, as a share; none where ranks hold what is predicted to the
/// byte.
pub(super) fn memory_error(prediction: &Prediction) -> f64 {
    let [_, high] = prediction.interval.peak_memory_bytes;
    let peak = prediction.peak_memory_bytes;
    high.saturating_sub(peak).0 as f64 / (peak.0.max(1) as f64)
}
