//! Values of a script: text that is known, with its place, and what is not known, with what it hangs on.

use std::ops::Range;
use std::rc::Rc;

/// What a value hangs on that no script says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// The variable or argument that settles it if it is given.
    pub name: Option<String>,
    pub what: What,
    /// Where it is asked for.
    pub at: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A variable that the script does not set.
    Environment,
    /// What a command writes.
    Output(String),
    /// Whether a command ends well, or a file is there.
    Outcome(String),
    /// What a loop leaves that runs an unknown number of times.
    Loop,
}

/// Causes beyond these are not told apart.
const MOST_CAUSES: usize = 6;

/// Causes in order, none twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Causes(Vec<Cause>);

impl Causes {
    pub fn of(cause: Cause) -> Self {
        Self(vec![cause])
    }

    pub fn iter(&self) -> impl Iterator<Item = &Cause> {
        self.0.iter()
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, others: &Self) {
        for cause in &others.0 {
            if self.0.len() < MOST_CAUSES
                && self.0.iter().all(|known| (&known.name, &known.what) != (&cause.name, &cause.what))
            {
                self.0.push(cause.clone());
            }
        }
    }

    pub fn and(mut self, others: &Self) -> Self {
        self.add(others);
        self
    }

    /// The same, where those without a name are settled by the variable `name`.
    pub fn named(mut self, name: &str) -> Self {
        for cause in &mut self.0 {
            cause.name.get_or_insert_with(|| name.to_owned());
        }
        self
    }
}

/// Where text stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub span: Range<usize>,
    /// Its bytes are those of the script.
    pub is_exact: bool,
}

#[derive(Clone, Debug)]
pub enum Piece {
    Known {
        text: String,
        place: Place,
        is_quoted: bool,
    },
    /// `is_unset`: it is what the environment gives, and nothing where that gives none.
    Unknown {
        causes: Causes,
        place: Place,
        is_unset: bool,
    },
    /// One text or the other.
    Either(Rc<Either>),
}

#[derive(Clone, Debug)]
pub struct Either {
    pub one: Text,
    pub other: Text,
    pub causes: Causes,
}

/// A value in its pieces.
#[derive(Clone, Debug, Default)]
pub struct Text {
    pub pieces: Vec<Piece>,
    /// What is taken as not given, where the script itself says what holds then.
    pub presumed: Causes,
    /// The word that it was read from, quotes included; of elements of arrays.
    pub span: Option<Range<usize>>,
}

impl Piece {
    pub fn place(&self) -> Place {
        match self {
            Self::Known { place, .. } | Self::Unknown { place, .. } => place.clone(),
            Self::Either(either) => either.one.pieces.first().map(Self::place).unwrap_or_default(),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Known { text, .. }, Self::Known { text: other, .. }) => text == other,
            (
                Self::Unknown { causes, is_unset: true, .. },
                Self::Unknown { causes: other, is_unset: true, .. },
            ) => causes == other,
            (Self::Either(one), Self::Either(other)) => Rc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Text {
    /// Text that is known.
    pub fn known(text: impl Into<String>, span: Range<usize>) -> Self {
        let place = Place { span, is_exact: false };
        Self::of(Piece::Known { text: text.into(), place, is_quoted: false })
    }

    pub fn unknown(causes: Causes, span: Range<usize>) -> Self {
        Self::of(Piece::Unknown { causes, place: Place { span, is_exact: false }, is_unset: false })
    }

    /// The variable `name`, which the environment may set.
    pub fn environment(name: &str, span: Range<usize>) -> Self {
        let causes =
            Causes::of(Cause { name: Some(name.to_owned()), what: What::Environment, at: span.start });
        Self::of(Piece::Unknown { causes, place: Place { span, is_exact: false }, is_unset: true })
    }

    pub fn of(piece: Piece) -> Self {
        Self { pieces: vec![piece], ..Self::default() }
    }

    /// The text, if all of it is known.
    pub fn text(&self) -> Option<String> {
        let known = |piece: &Piece| match piece {
            Piece::Known { text, .. } => Some(text.clone()),
            _ => None,
        };
        self.pieces.iter().map(known).collect()
    }

    /// What it hangs on where it is not known.
    pub fn causes(&self) -> Causes {
        let mut all = Causes::default();
        for piece in &self.pieces {
            match piece {
                Piece::Known { .. } => {}
                Piece::Unknown { causes, .. } => all.add(causes),
                Piece::Either(either) => all.add(&either.causes),
            }
        }
        all
    }

    /// What is known in its places, each with what is not known behind it.
    pub fn shown(&self) -> Vec<(String, Option<Causes>)> {
        let mut parts = vec![(String::new(), None)];
        for piece in &self.pieces {
            if let (Piece::Known { .. }, Some((_, Some(_)))) = (piece, parts.last()) {
                parts.push((String::new(), None));
            }
            let Some(last) = parts.last_mut() else { continue };
            match piece {
                Piece::Known { text, .. } => last.0.push_str(text),
                Piece::Unknown { causes, .. } => last.1 = Some(causes.clone()),
                Piece::Either(either) => last.1 = Some(either.causes.clone()),
            }
        }
        parts
    }

    /// The text, or what it hangs on.
    pub fn settled(&self) -> Result<String, Causes> {
        self.text().ok_or_else(|| self.causes())
    }

    pub fn presuming(mut self, causes: &Causes) -> Self {
        self.presumed.add(causes);
        self
    }

    pub fn push(&mut self, other: Self) {
        self.pieces.extend(other.pieces);
        self.presumed.add(&other.presumed);
    }

    /// The same with quotes around all of it, or none around any.
    pub fn with_quotes(mut self, are_there: bool) -> Self {
        for piece in &mut self.pieces {
            if let Piece::Known { is_quoted, .. } = piece {
                *is_quoted = are_there;
            }
        }
        self
    }

    /// Whether it is empty: it is, it is not, or that hangs on something.
    pub fn is_empty(&self) -> Truth {
        let is_text = |piece: &Piece| matches!(piece, Piece::Known { text, .. } if !text.is_empty());
        if self.pieces.iter().any(is_text) {
            return Truth::known(false).presuming(&self.presumed);
        }
        let unsettled = |piece: &&Piece| !matches!(piece, Piece::Known { .. });
        let is_unset = |piece: &Piece| matches!(piece, Piece::Unknown { is_unset: true, .. });
        match self.pieces.iter().filter(unsettled).all(is_unset) {
            true => Truth::known(true).presuming(&self.causes()).presuming(&self.presumed),
            false => Truth::Unknown(self.causes()),
        }
    }

    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        let size = |piece: &Piece| match piece {
            Piece::Known { text, .. } => text.len(),
            _ => 0,
        };
        self.pieces.iter().map(size).sum::<usize>() + 16 * self.pieces.len()
    }

    /// The same at `span`: where an expansion stands, in place of where its text was set. Text that may be arguments
    /// stays where it was set, so that these can be changed there.
    pub fn placed(mut self, span: &Range<usize>) -> Self {
        let text = self.text().unwrap_or_else(|| "-".to_owned());
        let is_arguments = text.trim().contains(char::is_whitespace) || text.trim().starts_with('-');
        if !is_arguments {
            for piece in &mut self.pieces {
                if let Piece::Known { place, .. } | Piece::Unknown { place, .. } = piece {
                    *place = Place { span: span.clone(), is_exact: false };
                }
            }
        }
        self
    }

    /// Whether both are the same text, wherever it stands.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self.text(), other.text()) {
            (Some(one), Some(other)) => one == other,
            (None, None) => {
                self.pieces.len() == other.pieces.len()
                    && self.pieces.iter().zip(&other.pieces).all(|(one, other)| one.is_same(other))
            }
            _ => false,
        }
    }

    /// One of two texts: what they begin with alike, then either rest.
    pub fn either(self, other: Self, causes: &Causes) -> Self {
        if self.is_same(&other) {
            let presumed = self.presumed.clone().and(&other.presumed);
            return Self { presumed, ..self };
        }
        let alike =
            self.pieces.iter().zip(&other.pieces).take_while(|(one, other)| one.is_same(other)).count();
        let presumed = self.presumed.clone().and(&other.presumed);
        let rest = |text: &Self| Self { pieces: text.pieces[alike..].to_vec(), ..Self::default() };
        let either = Either { one: rest(&self), other: rest(&other), causes: causes.clone() };
        let mut pieces = self.pieces;
        pieces.truncate(alike);
        pieces.push(Piece::Either(Rc::new(either)));
        Self { pieces, presumed, span: self.span }
    }
}

/// Whether something holds.
#[derive(Clone, Debug)]
pub enum Truth {
    /// It does or not; `presumed` is what was taken as not given.
    Known {
        holds: bool,
        presumed: Causes,
    },
    Unknown(Causes),
}

impl Truth {
    pub fn known(holds: bool) -> Self {
        Self::Known { holds, presumed: Causes::default() }
    }

    pub fn not(self) -> Self {
        match self {
            Self::Known { holds, presumed } => Self::Known { holds: !holds, presumed },
            unknown => unknown,
        }
    }

    pub fn presuming(self, causes: &Causes) -> Self {
        match self {
            Self::Known { holds, presumed } => Self::Known { holds, presumed: presumed.and(causes) },
            unknown => unknown,
        }
    }

    /// Both, or with `is_or` one of them; the second counts only where the first does not settle it.
    pub fn with(self, other: impl FnOnce() -> Self, is_or: bool) -> Self {
        match self {
            Self::Known { holds, presumed } if holds == is_or => Self::Known { holds, presumed },
            Self::Known { presumed, .. } => other().presuming(&presumed),
            Self::Unknown(causes) => match other() {
                Self::Known { holds, presumed } if holds == is_or && presumed.is_empty() => {
                    Self::Known { holds, presumed }
                }
                Self::Known { .. } => Self::Unknown(causes),
                Self::Unknown(more) => Self::Unknown(causes.and(&more)),
            },
        }
    }
}
