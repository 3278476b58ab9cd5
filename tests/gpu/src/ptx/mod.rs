//! PTX as data: what the parser finds in the compiler's output and the translator turns into C++.

mod operand;
mod parse;
mod token;
mod types;

pub use parse::parse;
pub use types::Type;

/// A parsed module.
pub struct Module {
    /// The lines of the text, for messages.
    pub lines: Vec<String>,
    pub variables: Vec<Variable>,
    pub kernels: Vec<Kernel>,
}

/// Where a variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Constant,
    Parameter,
}

/// A variable with an address.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    pub space: Space,
    pub alignment: u64,
    /// Zero for dynamic shared memory.
    pub bytes: u64,
    pub initial: Vec<u8>,
}

/// A parameter of a kernel; `element` says nothing of structures, which are arrays of bytes.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: String,
    pub element: Type,
    pub bytes: u64,
    pub offset: u64,
}

/// A kernel and its statements in order.
pub struct Kernel {
    pub name: String,
    pub parameters: Vec<Parameter>,
    /// The most threads of a block by `.maxntid` or `.reqntid`.
    pub most_threads: Option<u32>,
    pub body: Vec<Statement>,
}

pub enum Statement {
    Open,
    Close,
    Label(String),
    Registers { kind: Type, names: Vec<String> },
    Variable(Variable),
    Targets { label: String, targets: Vec<String> },
    Instruction(Instruction),
}

pub struct Instruction {
    pub line: usize,
    /// The predicate register and whether it is negated.
    pub guard: Option<(String, bool)>,
    pub opcode: String,
    pub operands: Vec<Operand>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register, a special register or a symbol.
    Name(String),
    Integer(u64),
    /// The bits of a `0f` literal.
    Single(u32),
    /// The bits of a `0d` literal.
    Double(u64),
    Address(Box<Operand>, i64),
    Vector(Vec<Operand>),
    /// `%p|%q`.
    Pair(Box<Operand>, Box<Operand>),
    /// `!%p`.
    Not(Box<Operand>),
}
