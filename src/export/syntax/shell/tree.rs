//! A shell script as a tree: lists of commands, words and their parts, each with its place.

use std::cell::OnceCell;
use std::ops::Range;
use std::rc::Rc;

/// Commands one after the other.
#[derive(Clone, Debug, Default)]
pub struct List(pub Vec<AndOr>);

/// Pipelines joined by `&&` and `||`.
#[derive(Clone, Debug)]
pub struct AndOr {
    pub first: Pipeline,
    pub rest: Vec<(Join, Pipeline)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    And,
    Or,
}

/// Commands of which each reads what the one before it writes.
#[derive(Clone, Debug)]
pub struct Pipeline {
    pub is_negated: bool,
    pub commands: Vec<Command>,
}

#[derive(Clone, Debug)]
pub struct Command {
    pub kind: Kind,
    /// Where it begins.
    pub at: usize,
    pub redirects: Vec<Redirect>,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Simple(Simple),
    Group(List),
    Subshell(List),
    If {
        arms: Vec<(List, List)>,
        otherwise: Option<List>,
    },
    For {
        name: String,
        words: Option<Vec<Word>>,
        body: List,
    },
    /// `for ((first; condition; step))`.
    Count {
        first: Word,
        condition: Word,
        step: Word,
        body: List,
    },
    /// `while`, or `until` if negated.
    While {
        is_negated: bool,
        condition: List,
        body: List,
    },
    Case {
        word: Word,
        arms: Vec<CaseArm>,
    },
    /// `[[ … ]]`.
    Test(Test),
    /// `(( … ))`.
    Arithmetic(Word),
    Function {
        name: String,
        body: Rc<Command>,
    },
}

/// A command by its name, behind assignments.
#[derive(Clone, Debug, Default)]
pub struct Simple {
    pub assignments: Vec<Assignment>,
    pub arguments: Vec<Argument>,
}

#[derive(Clone, Debug)]
pub enum Argument {
    Word(Word),
    /// Of `export`, `local` and the like.
    Assignment(Assignment),
}

#[derive(Clone, Debug)]
pub struct Assignment {
    pub name: String,
    pub index: Option<Word>,
    /// `+=`.
    pub is_more: bool,
    pub value: Assigned,
    pub span: Range<usize>,
}

#[derive(Clone, Debug)]
pub enum Assigned {
    Scalar(Word),
    Array(Vec<Element>),
}

#[derive(Clone, Debug)]
pub struct Element {
    pub index: Option<Word>,
    pub value: Word,
}

#[derive(Clone, Debug)]
pub struct CaseArm {
    pub patterns: Vec<Word>,
    pub body: List,
    pub end: CaseEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseEnd {
    /// `;;`.
    Done,
    /// `;&`: the next arm runs too.
    FallsThrough,
    /// `;;&`: the next patterns are tried too.
    TriesOn,
}

/// What stands in `[[ … ]]`.
#[derive(Clone, Debug)]
pub enum Test {
    Not(Box<Test>),
    And(Box<Test>, Box<Test>),
    Or(Box<Test>, Box<Test>),
    /// `-f WORD`; a word alone is `-n WORD`.
    Unary(String, Word),
    Binary(Word, String, Word),
}

/// Where a command's input comes from, or its output goes.
#[derive(Clone, Debug)]
pub enum Redirect {
    /// The text of a here-document, which is known once the line is read.
    Here(Rc<OnceCell<Word>>),
    /// `<<< word`.
    HereString(Word),
    /// `2>&1`, `> file`, `< file`.
    File { takes_output: bool },
}

#[derive(Clone, Debug, Default)]
pub struct Word {
    pub parts: Vec<Part>,
    /// Its bytes in the script, quotes included.
    pub span: Range<usize>,
}

#[derive(Clone, Debug)]
pub enum Part {
    /// Text; `is_quoted` if it stands in single quotes or behind a backslash, `is_exact` if its bytes are the script's.
    Text {
        text: String,
        span: Range<usize>,
        is_quoted: bool,
        is_exact: bool,
    },
    /// What stands in double quotes.
    Double(Vec<Self>),
    Parameter(Box<Parameter>),
    /// `$(…)` or backquotes.
    Command {
        list: Rc<List>,
        span: Range<usize>,
        text: String,
    },
    /// `$((…))`.
    Arithmetic {
        expression: Word,
        span: Range<usize>,
    },
    /// `<(…)`.
    Process {
        span: Range<usize>,
    },
}

/// `${…}` or `$name`.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: String,
    pub subscript: Option<Subscript>,
    /// `${!name}`.
    pub is_indirect: bool,
    pub operator: Operator,
    pub span: Range<usize>,
}

#[derive(Clone, Debug)]
pub enum Subscript {
    /// `[@]`, or `[*]` if joined.
    All {
        is_joined: bool,
    },
    At(Word),
}

#[derive(Clone, Debug)]
pub enum Operator {
    None,
    /// `${#name}`.
    Length,
    /// `-`, `=`, `?`, `+`; with a colon an empty value counts as none.
    Default {
        kind: DefaultKind,
        has_colon: bool,
        word: Word,
    },
    /// `#`, `##`, `%`, `%%`.
    Remove {
        is_prefix: bool,
        is_longest: bool,
        pattern: Word,
    },
    /// `/`, `//`, `/#`, `/%`.
    Replace {
        place: Replace,
        pattern: Word,
        with: Word,
    },
    /// `:offset:length`.
    Slice {
        offset: Word,
        length: Option<Word>,
    },
    /// `^`, `^^`, `,`, `,,`.
    Case {
        is_upper: bool,
        is_all: bool,
    },
    /// `@Q` and others of its kind.
    Transform,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultKind {
    Value,
    Assign,
    Error,
    Alternative,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    First,
    All,
    Prefix,
    Suffix,
}
