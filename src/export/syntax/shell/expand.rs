//! From words as they stand to the words that a command gets: expansions, then splitting.

use std::ops::Range;

use super::super::SyntaxError;
use super::brace;
use super::machine::Machine;
use super::split::{Segment, split};
use super::state::{Field, Item, State};
use super::tree::{Argument, Parameter, Part, Subscript, Word};
use super::value::{Cause, Causes, Piece, Place, Text, What};

/// The value of an expansion.
pub enum Value {
    Text(Text),
    /// What stands behind the sign of a default, and what is presumed for it.
    Word(Word, Causes),
    /// Elements, each a word of its own in quotes unless `is_joined`.
    Items {
        items: Vec<Item>,
        is_joined: bool,
    },
}

impl Machine<'_> {
    /// The words that `arguments` stand for; assignments among them are left out.
    pub fn argument_fields(
        &mut self,
        state: &mut State,
        arguments: &[Argument],
    ) -> Result<Vec<Field>, SyntaxError> {
        let mut fields = Vec::new();
        for argument in arguments {
            if let Argument::Word(word) = argument {
                self.word_fields(state, word, &mut fields)?;
            }
        }
        Ok(fields)
    }

    /// The words that `word` stands for.
    pub fn word_fields(
        &mut self,
        state: &mut State,
        word: &Word,
        fields: &mut Vec<Field>,
    ) -> Result<(), SyntaxError> {
        let words = brace::expanded(word)
            .ok_or_else(|| self.error(word.span.start, "its braces make more words than any command has"))?;
        for word in words {
            let separators = self.separators(state);
            let mut segments = Vec::new();
            for part in &word.parts {
                self.segments(state, part, false, &mut segments)?;
            }
            for segment in &segments {
                if let Segment::Piece { piece, .. } = segment {
                    self.makes(&Text::of(piece.clone()), word.span.start)?;
                }
            }
            fields.extend(split(segments, &word.span, &separators));
        }
        self.step(word.span.start, 1)
    }

    /// The text of `word`, of which nothing is split.
    pub fn text(&mut self, state: &mut State, word: &Word) -> Result<Text, SyntaxError> {
        let mut all = Text::default();
        for part in &word.parts {
            let text = match part {
                Part::Double(parts) => {
                    let inside = Word { parts: parts.clone(), span: word.span.clone() };
                    let text = self.text(state, &inside)?.with_quotes(true);
                    // Nothing in quotes is a word too.
                    let nothing =
                        || Piece::Known { text: String::new(), place: Place::default(), is_quoted: true };
                    if text.pieces.is_empty() { Text { pieces: vec![nothing()], ..text } } else { text }
                }
                _ => self.part_text(state, part)?,
            };
            all.push(text);
        }
        self.makes(&all, word.span.start)?;
        self.step(word.span.start, 1)?;
        Ok(all)
    }

    /// The text of a part that is no double quotes.
    fn part_text(&mut self, state: &mut State, part: &Part) -> Result<Text, SyntaxError> {
        Ok(match part {
            Part::Text { text, span, is_quoted, is_exact } => Text::of(Piece::Known {
                text: text.clone(),
                place: Place { span: span.clone(), is_exact: *is_exact },
                is_quoted: *is_quoted,
            }),
            Part::Double(_) => Text::default(),
            Part::Parameter(parameter) => match self.parameter(state, parameter)? {
                Value::Text(text) => text.placed(&parameter.span),
                Value::Word(word, presumed) => {
                    self.deeper(word.span.start, |machine| machine.text(state, &word))?.presuming(&presumed)
                }
                Value::Items { items, .. } => self.joined(state, &items, &parameter.span),
            },
            Part::Command { list, span, text } => self.substitution(state, list, span, text)?.placed(span),
            Part::Arithmetic { expression, span } => match self.number(state, expression)? {
                Ok((number, presumed)) => Text::known(number.to_string(), span.clone()).presuming(&presumed),
                Err(causes) => Text::unknown(causes, span.clone()),
            },
            Part::Process { span } => Text::known("/dev/fd/63", span.clone()),
        })
    }

    /// Elements in one text, with the first separator between them.
    pub fn joined(&mut self, state: &mut State, items: &[Item], span: &Range<usize>) -> Text {
        let separator = self.separators(state).chars().next().map(String::from).unwrap_or_default();
        let mut all = Text::default();
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                all.push(Text::known(separator.clone(), span.clone()));
            }
            all.push(item.text());
        }
        all
    }

    fn separators(&mut self, state: &State) -> String {
        let set = state.variables.get("IFS").and_then(|variable| variable.first());
        set.and_then(|text| text.text()).unwrap_or_else(|| " \t\n".to_owned())
    }

    /// What `part` is made of; `is_expanded` where it stands in an expansion, so that its own text is split.
    fn segments(
        &mut self,
        state: &mut State,
        part: &Part,
        is_expanded: bool,
        segments: &mut Vec<Segment>,
    ) -> Result<(), SyntaxError> {
        if let Part::Double(parts) = part {
            return self.quoted(state, parts, segments);
        }
        let text = match part {
            Part::Parameter(parameter) => match self.parameter(state, parameter)? {
                Value::Items { items, .. } => {
                    segments.push(Segment::Items { items, is_quoted: false });
                    return Ok(());
                }
                Value::Word(word, presumed) => {
                    segments.push(Segment::Presumed(presumed));
                    return self.deeper(word.span.start, |machine| {
                        let mut parts = word.parts.iter();
                        parts.try_for_each(|part| machine.segments(state, part, true, segments))
                    });
                }
                Value::Text(text) => text.placed(&parameter.span),
            },
            _ => self.part_text(state, part)?,
        };
        let splits = is_expanded || !matches!(part, Part::Text { .. } | Part::Process { .. });
        segments.push(Segment::Presumed(text.presumed.clone()));
        let piece = |piece: Piece| {
            let is_quoted = matches!(piece, Piece::Known { is_quoted: true, .. });
            Segment::Piece { piece, splits: splits && !is_quoted }
        };
        segments.extend(text.pieces.into_iter().map(piece));
        Ok(())
    }

    /// What stands in double quotes, which is a word even where it is empty, but for lists without elements.
    fn quoted(
        &mut self,
        state: &mut State,
        parts: &[Part],
        segments: &mut Vec<Segment>,
    ) -> Result<(), SyntaxError> {
        let may_be_none = |part: &Part| match part {
            Part::Parameter(parameter) => is_separate(parameter),
            // It says so itself.
            Part::Double(_) => true,
            _ => false,
        };
        if parts.is_empty() || !parts.iter().all(may_be_none) {
            segments.push(Segment::Empty);
        }
        for part in parts {
            let text = match part {
                Part::Parameter(parameter) => match self.parameter(state, parameter)? {
                    Value::Items { items, is_joined: false } if is_separate(parameter) => {
                        segments.push(Segment::Items { items, is_quoted: true });
                        continue;
                    }
                    Value::Items { items, .. } => self.joined(state, &items, &parameter.span),
                    Value::Word(word, presumed) => {
                        segments.push(Segment::Presumed(presumed));
                        self.deeper(word.span.start, |machine| machine.quoted(state, &word.parts, segments))?;
                        continue;
                    }
                    Value::Text(text) => text.placed(&parameter.span),
                },
                Part::Double(parts) => {
                    self.quoted(state, parts, segments)?;
                    continue;
                }
                _ => self.part_text(state, part)?,
            };
            let text = text.with_quotes(true);
            segments.push(Segment::Presumed(text.presumed.clone()));
            segments.extend(text.pieces.into_iter().map(|piece| Segment::Piece { piece, splits: false }));
        }
        Ok(())
    }

    /// What a command writes, as far as it is known without running one.
    fn substitution(
        &mut self,
        state: &State,
        list: &super::tree::List,
        span: &Range<usize>,
        text: &str,
    ) -> Result<Text, SyntaxError> {
        let mut inner = self.copy(state, span.start)?;
        inner.output = Some(Text::default());
        let marks = self.waiting.len();
        self.deeper(span.start, |machine| machine.list(&mut inner, list))?;
        self.waiting.truncate(marks);
        let output = inner.output.unwrap_or_default();
        Ok(match output.text() {
            Some(known) => {
                let presumed = output.presumed;
                Text::known(known.trim_end_matches('\n'), span.clone()).presuming(&presumed)
            }
            None => {
                let what = What::Output(text.chars().take(60).collect());
                let mut causes = Causes::of(Cause { name: None, what, at: span.start });
                let inside = output.causes();
                if inside.iter().any(|cause| cause.name.is_some()) {
                    causes = inside;
                }
                Text::unknown(causes, span.clone())
            }
        })
    }
}

/// Whether a parameter stands for elements.
pub fn is_list(parameter: &Parameter) -> bool {
    !matches!(parameter.operator, super::tree::Operator::Length)
        && (matches!(parameter.subscript, Some(Subscript::All { .. }))
            || matches!(parameter.name.as_str(), "@" | "*"))
}

/// Whether its elements are words of their own in quotes.
fn is_separate(parameter: &Parameter) -> bool {
    is_list(parameter)
        && parameter.name != "*"
        && !matches!(parameter.subscript, Some(Subscript::All { is_joined: true }))
}
