//! Schedules as files: one row a rank, its passes in order (torch 2.11 `distributed/pipelining/schedules.py:1563`,
//! `_load_csv`). torchtitan runs any order that such a file says.

use crate::export::case::Case;
use crate::profile::choices::Schedule;
use crate::program::schedule::{Action, Pass, order};

/// The name of the file.
pub const FILE: &str = "schedule.csv";

/// How many ranks, chunks of a rank and micro-batches a schedule has, and where its chunks lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub ranks: u64,
    pub chunks: u64,
    pub micro: u64,
    /// The second chunk of a rank lies as far from the end as the first from the start.
    pub is_v: bool,
}

/// A pass as the file has it: its letter, stage and micro-batch.
type Step = (char, u64, u64);

/// Whether torchtitan has no name for `schedule`, so that a file says it.
pub const fn needs(schedule: Schedule) -> bool {
    matches!(schedule, Schedule::ZeroBubbleH1 | Schedule::ZeroBubbleH2)
}

/// The file of `case`, with its name, where it needs one.
pub fn of(case: &Case<'_>) -> Option<(String, String)> {
    let s = case.strategy;
    let frame = Frame { ranks: s.pipeline, chunks: 1, micro: s.accumulation, is_v: false };
    (s.pipeline > 1 && needs(s.schedule)).then(|| (FILE.to_owned(), frame.text(s.schedule)))
}

fn letter(pass: Pass, schedule: Schedule) -> char {
    match pass {
        Pass::Forward => 'F',
        Pass::Backward if schedule.splits_weight() => 'I',
        Pass::Backward => 'B',
        Pass::Weight => 'W',
    }
}

impl Frame {
    fn steps(self, schedule: Schedule, rank: u64) -> impl Iterator<Item = Step> {
        let step = move |action: Action| {
            let chunk = u64::from(action.chunk);
            let stage =
                if self.is_v && chunk == 1 { 2 * self.ranks - 1 - rank } else { chunk * self.ranks + rank };
            (letter(action.pass, schedule), stage, u64::from(action.micro))
        };
        order(schedule, self.ranks, rank, self.micro, self.chunks).into_iter().map(step)
    }

    /// The schedules that have such a frame.
    fn candidates(self) -> impl Iterator<Item = Schedule> {
        Schedule::ALL.iter().copied().filter(move |schedule| match schedule {
            Schedule::Interleaved => self.chunks > 1 && !self.is_v,
            Schedule::ZeroBubbleV => self.chunks == 2 && self.is_v,
            _ => self.chunks == 1,
        })
    }

    /// The text of the file for `schedule`.
    pub fn text(self, schedule: Schedule) -> String {
        let row = |rank| {
            let cells: Vec<String> = self.steps(schedule, rank).map(|step| shown(Some(step))).collect();
            cells.join(",") + "\n"
        };
        (0..self.ranks).map(row).collect()
    }

    /// The schedule that `text` says.
    ///
    /// # Errors
    /// In words, if it is cut off, malformed, of another frame, or an order that is none of the known ones.
    pub fn schedule(self, text: &str) -> Result<Schedule, String> {
        let rows: Vec<Vec<Step>> = text.lines().enumerate().map(row).collect::<Result<_, _>>()?;
        if rows.len() as u64 != self.ranks {
            return Err(format!("it has {} rows, and there are {} pipeline ranks", rows.len(), self.ranks));
        }
        // Before orders are made that are as long as the settings say.
        let wanted = self.micro.saturating_mul(self.chunks);
        for (rank, row) in rows.iter().enumerate() {
            let forwards = row.iter().filter(|step| step.0 == 'F').count() as u64;
            if forwards != wanted {
                return Err(format!(
                    "rank {rank} has {forwards} forwards, and {} micro-batches on {} chunks a rank need {wanted}",
                    self.micro, self.chunks
                ));
            }
        }
        let differences = self.candidates().map(|schedule| (self.difference(schedule, &rows), schedule));
        // The nearest is the one that it follows longest.
        let mut nearest: Option<(Difference, Schedule)> = None;
        for (difference, schedule) in differences {
            let Some(difference) = difference else { return Ok(schedule) };
            if nearest.as_ref().is_none_or(|(known, _)| known.same < difference.same) {
                nearest = Some((difference, schedule));
            }
        }
        Err(match nearest {
            None => "no known schedule has its chunks".to_owned(),
            Some((difference, schedule)) => format!(
                "no known schedule has this order; the nearest is {schedule}, from which rank {} differs first at place {}: \
                 it has {}, and {schedule} has {}",
                difference.rank,
                difference.place + 1,
                shown(difference.found),
                shown(difference.wanted)
            ),
        })
    }

    /// Where `rows` first leave `schedule`; none if they never do.
    fn difference(self, schedule: Schedule, rows: &[Vec<Step>]) -> Option<Difference> {
        let mut same = 0;
        let mut first = None;
        for (rank, row) in (0_u64..).zip(rows) {
            let steps: Vec<Step> = self.steps(schedule, rank).collect();
            let agree = steps.iter().zip(row).take_while(|(known, found)| known == found).count();
            same += agree;
            if first.is_none() && (agree < steps.len() || agree < row.len()) {
                first = Some((rank, agree, row.get(agree).copied(), steps.get(agree).copied()));
            }
        }
        first.map(|(rank, place, found, wanted)| Difference { same, rank, place, found, wanted })
    }
}

/// Where a file leaves a schedule.
struct Difference {
    /// Passes before any rank leaves it.
    same: usize,
    rank: u64,
    place: usize,
    found: Option<Step>,
    wanted: Option<Step>,
}

fn shown(step: Option<Step>) -> String {
    step.map_or_else(|| "nothing".to_owned(), |(letter, stage, micro)| format!("{stage}{letter}{micro}"))
}

/// The passes of a row. Empty cells stand for waiting, which the engine leaves out too.
fn row((rank, line): (usize, &str)) -> Result<Vec<Step>, String> {
    let cells = line.split(',').enumerate().filter(|(_, cell)| !cell.trim().is_empty());
    cells
        .map(|(place, cell)| {
            step(cell.trim()).ok_or_else(|| {
                let start: String = cell.trim().chars().take(24).collect();
                format!(
                    "rank {rank}, cell {}: `{start}` is no pass; a stage, F, B, I or W and a micro-batch are needed, as 0F0",
                    place + 1
                )
            })
        })
        .collect()
}

fn step(cell: &str) -> Option<Step> {
    let at = cell.find(['F', 'B', 'I', 'W'])?;
    let number = |text: &str| -> Option<u64> {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    };
    Some((cell[at..].chars().next()?, number(&cell[..at])?, number(&cell[at + 1..])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame { ranks: 4, chunks: 1, micro: 8, is_v: false };

    #[test]
    fn the_file_of_four_ranks() {
        let text = FRAME.text(Schedule::ZeroBubbleH1);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 4);
        assert_eq!(
            rows[0],
            "0F0,0F1,0F2,0F3,0I0,0W0,0F4,0I1,0W1,0F5,0I2,0W2,0F6,0I3,0W3,0F7,0I4,0W4,0I5,0W5,0I6,0W6,0I7,0W7"
        );
        assert_eq!(
            rows[3],
            "3F0,3I0,3F1,3I1,3F2,3I2,3F3,3I3,3W0,3F4,3I4,3W1,3F5,3I5,3W2,3F6,3I6,3W3,3F7,3I7,3W4,3W5,3W6,3W7"
        );
    }

    #[test]
    fn every_schedule_comes_back() {
        for (chunks, is_v, schedules) in [
            (1, false, vec![Schedule::GPipe, Schedule::OneForwardOneBackward]),
            (1, false, vec![Schedule::ZeroBubbleH1, Schedule::ZeroBubbleH2]),
            (2, false, vec![Schedule::Interleaved]),
            (2, true, vec![Schedule::ZeroBubbleV]),
        ] {
            for (ranks, micro) in [(2, 4), (4, 8), (4, 16)] {
                let frame = Frame { ranks, chunks, micro, is_v };
                for schedule in &schedules {
                    assert_eq!(frame.schedule(&frame.text(*schedule)), Ok(*schedule));
                }
            }
        }
    }

    #[test]
    fn waiting_is_left_out() {
        let text = FRAME.text(Schedule::ZeroBubbleH2).replace("1F0", ",,1F0, ").replace('\n', ",\r\n");
        assert_eq!(FRAME.schedule(&text), Ok(Schedule::ZeroBubbleH2));
    }

    #[test]
    fn other_orders_are_refused_where_they_differ() {
        let text = FRAME.text(Schedule::ZeroBubbleH1);
        let swapped = text.replace("2I1,", "2W9,");
        let deep = "(".repeat(100_000) + "\n\n\n\n";
        let cut = &text[..text.len() / 2];
        let huge = text.replace("0F0", "0F99999999999999999999999");
        let other = Frame { micro: u64::MAX, ..FRAME };
        for (frame, text, wanted) in [
            (FRAME, swapped.as_str(), "nearest is zb-h1, from which rank 2 differs first at place"),
            (FRAME, "", "0 rows"),
            (FRAME, cut, "rows, and there are 4"),
            (FRAME, deep.as_str(), "is no pass"),
            (FRAME, huge.as_str(), "is no pass"),
            (FRAME, &text.replace("1F3", "1UNSHARD"), "rank 1, cell"),
            (FRAME, &text.replace("1F3", "ü1F3"), "is no pass"),
            (other, text.as_str(), "rank 0 has 8 forwards"),
        ] {
            let error = frame.schedule(text).expect_err(wanted);
            assert!(error.contains(wanted), "{error}");
        }
    }
}
