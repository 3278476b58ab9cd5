//! Splitting what expansions leave into words.

use std::ops::Range;

use super::state::{Field, Item};
use super::value::{Causes, Piece, Place, Text};

/// What a word is made of after its expansions.
#[derive(Clone, Debug)]
pub enum Segment {
    Piece {
        piece: Piece,
        splits: bool,
    },
    /// Quotes, which make a word of nothing.
    Empty,
    /// Elements of a list.
    Items {
        items: Vec<Item>,
        is_quoted: bool,
    },
    /// What was presumed on the way.
    Presumed(Causes),
}

/// The words that `segments` of the word at `span` make.
pub fn split(segments: Vec<Segment>, span: &Range<usize>, separators: &str) -> Vec<Field> {
    let is_alone =
        segments.iter().filter(|segment| !matches!(segment, Segment::Presumed(_) | Segment::Empty)).count()
            == 1;
    let mut splitter = Splitter {
        separators,
        span: span.clone(),
        fields: Vec::new(),
        current: None,
        is_many: false,
        presumed: Causes::default(),
    };
    for segment in segments {
        match segment {
            Segment::Presumed(causes) => splitter.presumed.add(&causes),
            Segment::Empty => {
                splitter.current.get_or_insert_with(Text::default);
            }
            Segment::Piece { piece, splits: false } => splitter.push(piece),
            Segment::Piece { piece, splits: true } => splitter.pieces(piece),
            Segment::Items { items, is_quoted } if is_alone => splitter.elements(items, is_quoted),
            Segment::Items { items, is_quoted } => {
                for (index, item) in items.into_iter().enumerate() {
                    if index > 0 {
                        splitter.end();
                    }
                    let text = item.text();
                    splitter.presumed.add(&text.presumed);
                    for piece in text.pieces {
                        match is_quoted {
                            true => splitter.push(piece),
                            false => splitter.pieces(piece),
                        }
                    }
                }
            }
        }
    }
    splitter.end();
    let mut fields = splitter.fields;
    if let [Field::One { text, span: place, .. }] = fields.as_mut_slice() {
        // A word that is one word still stands where it stands, unless it was set as an argument elsewhere.
        let is_inside = |piece: &Piece| {
            let place = piece.place().span;
            place.is_empty() || (place.start >= span.start && place.end <= span.end)
        };
        if text.span.is_none() && text.pieces.iter().all(is_inside) {
            *place = span.clone();
        }
    }
    fields
}

struct Splitter<'a> {
    separators: &'a str,
    span: Range<usize>,
    fields: Vec<Field>,
    current: Option<Text>,
    /// The current word may be several.
    is_many: bool,
    presumed: Causes,
}

impl Splitter<'_> {
    fn push(&mut self, piece: Piece) {
        self.current.get_or_insert_with(Text::default).pieces.push(piece);
    }

    fn end(&mut self) {
        let Some(mut text) = self.current.take() else { return };
        text.presumed.add(&self.presumed);
        let places: Vec<Range<usize>> =
            text.pieces.iter().map(|piece| piece.place().span).filter(|span| !span.is_empty()).collect();
        let in_order =
            places.windows(2).all(|pair| pair[0].end <= pair[1].start && pair[1].start <= pair[0].end + 2);
        let span = match (places.first(), places.last()) {
            (Some(first), Some(last)) if in_order => first.start..last.end,
            _ => self.span.clone(),
        };
        self.fields.push(Field::One { text, span, is_many: std::mem::take(&mut self.is_many) });
    }

    /// A piece that is split where separators stand in it.
    fn pieces(&mut self, piece: Piece) {
        match piece {
            Piece::Known { text, place, is_quoted } => self.known(&text, &place, is_quoted),
            Piece::Unknown { .. } => {
                self.push(piece);
                self.is_many = true;
            }
            Piece::Either(either) => {
                let begins = |text: &Text| {
                    text.text().is_some_and(|text| text.is_empty() || text.starts_with(char::is_whitespace))
                };
                let is_apart = self.current.is_none() || (begins(&either.one) && begins(&either.other));
                let parts = [&either.one, &either.other].map(|text| {
                    let segments =
                        text.pieces.iter().cloned().map(|piece| Segment::Piece { piece, splits: true });
                    let presumed = Segment::Presumed(text.presumed.clone());
                    split([presumed].into_iter().chain(segments).collect(), &self.span, self.separators)
                });
                if is_apart {
                    self.end();
                    let [one, other] = parts;
                    self.fields.push(Field::Either { one, other, causes: either.causes.clone() });
                } else {
                    let place = Place { span: self.span.clone(), is_exact: false };
                    self.push(Piece::Unknown { causes: either.causes.clone(), place, is_unset: false });
                    self.is_many = true;
                }
            }
        }
    }

    fn known(&mut self, text: &str, place: &Place, is_quoted: bool) {
        let is_separator = |c: char| self.separators.contains(c);
        let is_blank = |c: char| c.is_ascii_whitespace() && is_separator(c);
        let at = |start: usize, end: usize| match place.is_exact {
            true => Place { span: place.span.start + start..place.span.start + end, is_exact: true },
            false => place.clone(),
        };
        let mut start = 0;
        let mut ends = Vec::new();
        let mut pieces = Vec::new();
        for (index, letter) in text.char_indices().filter(|(_, letter)| is_separator(*letter)) {
            pieces.push((start, index));
            ends.push(!is_blank(letter));
            start = index + letter.len_utf8();
        }
        pieces.push((start, text.len()));
        for (number, (start, end)) in pieces.iter().enumerate() {
            if start < end {
                let place = at(*start, *end);
                self.push(Piece::Known { text: text[*start..*end].to_owned(), place, is_quoted });
            }
            match ends.get(number) {
                // A separator that is no blank ends a word even where it is empty.
                Some(true) => {
                    self.current.get_or_insert_with(Text::default);
                    self.end();
                }
                Some(false) => self.end(),
                None => {}
            }
        }
    }

    /// The elements of a list, which is all of the word.
    fn elements(&mut self, items: Vec<Item>, is_quoted: bool) {
        // Quotes around elements make no word of their own.
        if !items.is_empty() {
            self.current = None;
        }
        for item in items {
            match item {
                Item::Either { one, other, causes } => {
                    self.end();
                    let list =
                        |items| split(vec![Segment::Items { items, is_quoted }], &self.span, self.separators);
                    let (one, other) = (list(one), list(other));
                    self.fields.push(Field::Either { one, other, causes });
                }
                Item::One(text) => {
                    let known = text.text();
                    let is_whole = |known: &String| {
                        is_quoted || !(known.is_empty() || known.contains(|c| self.separators.contains(c)))
                    };
                    if known.as_ref().is_none_or(is_whole) {
                        let span = text.span.clone().unwrap_or_else(|| self.span.clone());
                        let is_many = known.is_none() && !is_quoted;
                        let text = text.presuming(&self.presumed);
                        self.fields.push(Field::One { text, span, is_many });
                    } else {
                        self.presumed.add(&text.presumed);
                        text.pieces.into_iter().for_each(|piece| self.pieces(piece));
                        self.end();
                    }
                }
            }
        }
    }
}
