//! Places for labels beside dots, so that none lies on a dot or on another label.

use super::LETTER;

/// A rectangle of pixels: left, top, right, bottom.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Area([i32; 4]);

impl Area {
    /// Around (x, y), so far to each side.
    const fn around((x, y): (i32, i32), across: i32, down: i32) -> Self {
        Self([x - across, y - down, x + across, y + down])
    }

    fn touches(&self, other: &Self) -> bool {
        let ([left, top, right, bottom], [other_left, other_top, other_right, other_bottom]) =
            (self.0, other.0);
        left < other_right && other_left < right && top < other_bottom && other_top < bottom
    }

    fn is_within(&self, whole: &Self) -> bool {
        let ([left, top, right, bottom], [least, highest, most, lowest]) = (self.0, whole.0);
        left >= least && top >= highest && right <= most && bottom <= lowest
    }
}

/// What is drawn already.
pub struct Labels {
    whole: Area,
    taken: Vec<Area>,
}

impl Labels {
    /// No label yet in a picture with these dots, each with its radius; labels stay between these left, top, right and
    /// bottom pixels.
    pub fn new(whole: [i32; 4], dots: &[((i32, i32), i32)]) -> Self {
        let taken = dots.iter().map(|&(at, radius)| Area::around(at, radius, radius)).collect();
        Self { whole: Area(whole), taken }
    }

    /// The middle of `text` beside the dot at `dot`, and keeps that place; nothing where none is free.
    pub fn place(&mut self, text: &str, dot: (i32, i32), radius: i32) -> Option<(i32, i32)> {
        let (across, down) = ((text_width(text) / 2.0).ceil() as i32, (LETTER / 2.0).ceil() as i32);
        let (beside, above) = (radius + across + 1, radius + down + 1);
        // Right above first: a front falls to the right, so nothing is there.
        let ways = [(1, -1), (-1, 1), (0, -1), (0, 1), (1, 0), (-1, 0), (-1, -1), (1, 1)];
        let found = ways.into_iter().find_map(|(right, lower)| {
            let middle = (dot.0 + right * beside, dot.1 + lower * above);
            let area = Area::around(middle, across, down);
            let is_free = area.is_within(&self.whole) && self.taken.iter().all(|taken| !taken.touches(&area));
            is_free.then_some((middle, area))
        });
        let (middle, area) = found?;
        self.taken.push(area);
        Some(middle)
    }
}

/// About how wide `text` is: what wide fonts need.
pub fn text_width(text: &str) -> f64 {
    0.58 * LETTER * text.chars().count() as f64
}

/// `text` cut between words into lines of at most `most` characters, the last of at most `lines` with an ellipsis where
/// some are missing.
pub fn broken(text: &str, most: usize, lines: usize) -> Vec<String> {
    let mut list: Vec<String> = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let last = list.len() - 1;
        let length = list[last].chars().count();
        if length == 0 {
            list[last].push_str(word);
        } else if length + 1 + word.chars().count() <= most || list.len() == lines {
            list[last] += &format!(" {word}");
        } else {
            list.push(word.to_owned());
        }
    }
    list.iter().map(|line| super::panel::shortened(line, most)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(
            broken("pipeline of 4 stages, ZeRO 1 instead of 3", 24, 2),
            ["pipeline of 4 stages,", "ZeRO 1 instead of 3"]
        );
        assert_eq!(broken("one two three four", 8, 2), ["one two", "three f…"]);
        assert_eq!(broken("", 8, 2), [""]);
    }

    proptest! {
        #[test]
        fn no_label_lies_on_another_or_on_a_dot(
            dots in proptest::collection::vec((0..400i32, 0..300i32), 1..30),
            length in 1usize..12,
        ) {
            let radius = 6;
            let drawn: Vec<_> = dots.iter().map(|&dot| (dot, radius)).collect();
            let mut labels = Labels::new([0, 0, 400, 300], &drawn);
            let text = "8".repeat(length);
            let placed: Vec<_> =
                dots.iter().filter_map(|&dot| labels.place(&text, dot, radius)).collect();
            let (across, down) = ((text_width(&text) / 2.0) as i32, (LETTER / 2.0) as i32);
            let whole = Area([0, 0, 400, 300]);
            let areas: Vec<_> = placed.iter().map(|&at| Area::around(at, across, down)).collect();
            for (place, area) in areas.iter().enumerate() {
                prop_assert!(area.is_within(&whole));
                prop_assert!(areas[..place].iter().all(|other| !other.touches(area)));
                prop_assert!(dots.iter().all(|&dot| !Area::around(dot, radius, radius).touches(area)));
            }
        }
    }
}
