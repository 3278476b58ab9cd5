//! How long a run may take: what is predicted, with a margin.

use std::fmt;

use crate::units::Seconds;

/// A run takes at most so many times what is predicted of its steps.
const MARGIN: f64 = 2.0;
/// Until the first step and after the last: processes are started, weights are read and saved.
const STARTING: Seconds = Seconds(600.0);
/// No limit is written above it: a year.
const LONGEST_MINUTES: f64 = 365.0 * 24.0 * 60.0;
/// To save once the current step is done.
const SAVING: f64 = 120.0;
/// Slurm warns no earlier before the end.
const EARLIEST_WARNING: f64 = 65535.0;

/// How long the steps of a run are predicted to take.
#[derive(Clone, Debug, PartialEq)]
pub struct Length {
    pub steps: u64,
    pub step_time: Seconds,
    /// The cost model.
    pub predicted_by: String,
}

/// The time after which a run is ended: whole minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimit {
    minutes: u64,
}

impl Length {
    /// Twice the predicted time and ten minutes; none where that is more than a year, or no number.
    pub fn limit(&self) -> Option<TimeLimit> {
        let steps = self.step_time.0 * self.steps as f64;
        let minutes = ((MARGIN * steps + STARTING.0) / 60.0).ceil();
        // The cast is of a whole number that is small.
        (minutes <= LONGEST_MINUTES).then_some(TimeLimit { minutes: minutes as u64 })
    }

    /// Seconds before the end at which ranks must know of it: a step more than they need to save.
    pub fn warning(&self) -> u64 {
        (SAVING + self.step_time.0.ceil()).min(EARLIEST_WARNING) as u64
    }
}

impl TimeLimit {
    pub const fn seconds(self) -> u64 {
        self.minutes * 60
    }
}

/// As Slurm reads it: `HH:MM:SS`, after `D-` from a day on.
impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hours, minutes) = (self.minutes / 60, self.minutes % 60);
        match (hours / 24, hours % 24) {
            (0, hours) => write!(f, "{hours:02}:{minutes:02}:00"),
            (days, hours) => write!(f, "{days}-{hours:02}:{minutes:02}:00"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(steps: u64, step_time: f64) -> Length {
        Length { steps, step_time: Seconds(step_time), predicted_by: "cpu".to_owned() }
    }

    #[test]
    fn limits_are_twice_the_steps_and_ten_minutes() {
        for (steps, step_time, text, seconds) in [
            (0, 1.0, "00:10:00", 600),
            (10, 0.01, "00:11:00", 660),
            (30, 60.0, "01:10:00", 4200),
            (1_000, 43.5, "1-00:20:00", 87_600),
            (1_000_000, 1.5, "34-17:30:00", 3_000_600),
        ] {
            let limit = length(steps, step_time).limit().unwrap();
            assert_eq!((limit.to_string().as_str(), limit.seconds()), (text, seconds), "{steps} steps");
        }
        assert_eq!(length(1 << 40, 1.0).limit(), None);
        assert_eq!(length(1, f64::NAN).limit(), None);
    }

    #[test]
    fn the_warning_leaves_time_for_a_step_and_the_save() {
        assert_eq!(length(1, 0.0).warning(), 120);
        assert_eq!(length(1, 30.2).warning(), 151);
        assert_eq!(length(1, 1e9).warning(), 65535);
        // There is always more time than the warning asks for.
        for step_time in [0.1, 10.0, 1000.0, 1e5] {
            let length = length(1, step_time);
            assert!(length.warning() < length.limit().unwrap().seconds(), "{step_time}");
        }
    }
}
