//! Today's date, for documents.

use std::time::{SystemTime, UNIX_EPOCH};

/// The date in UTC as `2026-11-21`.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    written(seconds / 86_400)
}

/// The date of a day counted from 1970-01-01 (Hinnant, "chrono-compatible low-level date algorithms").
fn written(day: u64) -> String {
    // Years here begin in March, so that a leap day is the last of its year; eras are of 400 years.
    let shifted = day + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{date:02}", era * 400 + year + next)
}

#[cfg(test)]
mod tests {
    use super::written;

    #[test]
    fn days_are_dates() {
        assert_eq!(written(0), "1970-01-01");
        assert_eq!(written(11_016), "2000-02-29");
        assert_eq!(written(11_017), "2000-03-01");
        assert_eq!(written(20_453), "2025-12-31");
        assert_eq!(written(20_454), "2026-01-01");
    }
}
