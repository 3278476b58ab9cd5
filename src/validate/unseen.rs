//! What the table of evidence knows of a published run: how far off it is predicted by numbers that were fitted without
//! its source.

use super::document::{Errors, Run};
use crate::profile::coverage::{MeasuredRun, measured_run};

/// The errors of `run` by numbers that saw nothing of its source; none where the table does not know it.
pub(super) fn errors(run: &Run) -> Option<Errors> {
    of(run, measured_run(&run.id)?)
}

fn of(run: &Run, known: &MeasuredRun) -> Option<Errors> {
    let left_out = |now: Option<f64>, then: Option<f64>, left_out: Option<[f64; 3]>| {
        left_out.filter(|_| is_same(now, then)).map(|[source, ..]| source)
    };
    let errors = Errors {
        step_time: left_out(run.error.step_time, known.time_error, known.left_out),
        memory: left_out(run.error.memory, known.memory_error, known.memory_left_out),
    };
    let is_known = known.family == run.family && (errors.step_time.is_some() || errors.memory.is_some());
    is_known.then_some(errors)
}

/// Whether the table speaks of this run and these numbers: the error that it has of it, in two digits, is today's.
fn is_same(now: Option<f64>, then: Option<f64>) -> bool {
    now.zip(then).is_some_and(|(now, then)| (now - then).abs() <= 0.002 + 0.06 * then.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{CategoryBytes, CauseSeconds};
    use crate::validate::Quantities;

    fn run(time: f64, memory: Option<f64>) -> Run {
        let nothing = Quantities { step_time_s: None, peak_memory_bytes: None };
        Run {
            id: "a".to_owned(),
            family: "b".to_owned(),
            quality: "A".to_owned(),
            memory_kind: "allocated".to_owned(),
            predicted: nothing,
            measured: nothing,
            error: Errors { step_time: Some(time), memory },
            left_out: None,
            time_s: CauseSeconds::default(),
            launches: 0.0,
            memory_bytes: CategoryBytes::default(),
            assumed: Vec::new(),
        }
    }

    #[test]
    fn a_run_is_known_by_its_name_its_source_and_its_error() {
        let known = MeasuredRun {
            id: "a".to_owned(),
            family: "b".to_owned(),
            device: "c".to_owned(),
            engine: "d".to_owned(),
            features: Vec::new(),
            time_error: Some(-0.12),
            memory_error: Some(0.05),
            left_out: Some([0.3, 0.4, 0.5]),
            memory_left_out: Some([0.1, 0.2, 0.3]),
            mfu: None,
        };
        let both = of(&run(-0.1204, Some(0.0496)), &known).unwrap();
        assert_eq!(both, Errors { step_time: Some(0.3), memory: Some(0.1) });
        let time = of(&run(-0.1204, None), &known).unwrap();
        assert_eq!(time, Errors { step_time: Some(0.3), memory: None });
        assert_eq!(of(&run(0.12, None), &known), None);
        assert_eq!(of(&run(-0.12, None), &MeasuredRun { family: "c".to_owned(), ..known }), None);
    }
}
