//! Reads PTX text. What it doesn't know is an error with its line.

use super::operand::integer;
use super::token::{Token, tokens};
use super::{Instruction, Kernel, Module, Operand, Parameter, Space, Statement, Type, Variable};
use crate::fault::{Fault, fault};

pub struct Parser {
    pub tokens: Vec<Token>,
    pub at: usize,
}

pub fn parse(text: &str) -> Result<Module, Fault> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let mut module =
        Module { lines: text.lines().map(str::to_owned).collect(), variables: vec![], kernels: vec![] };
    while parser.at < parser.tokens.len() {
        match parser.peek() {
            ".version" | ".target" | ".address_size" => {
                parser.at += 2;
            }
            ".visible" | ".extern" | ".weak" => parser.at += 1,
            ".entry" => module.kernels.push(parser.kernel()?),
            _ => module.variables.push(parser.variable()?),
        }
    }
    Ok(module)
}

impl Parser {
    pub fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", |token| &token.text)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at.min(self.tokens.len().saturating_sub(1))).map_or(0, |token| token.line)
    }

    pub fn next(&mut self) -> String {
        let text = self.peek().to_owned();
        self.at += 1;
        text
    }

    pub fn take(&mut self, text: &str) -> bool {
        let found = self.peek() == text;
        self.at += usize::from(found);
        found
    }

    pub fn expect(&mut self, text: &str) -> Result<(), Fault> {
        if self.take(text) { Ok(()) } else { self.unknown(&format!("`{text}` is expected")) }
    }

    pub fn unknown<T>(&self, why: &str) -> Result<T, Fault> {
        fault(format!("PTX line {}: `{}` isn't understood: {why}", self.line(), self.peek()))
    }

    pub fn number(&mut self) -> Result<u64, Fault> {
        match integer(self.peek()) {
            Some(number) => {
                self.at += 1;
                Ok(number)
            }
            None => self.unknown("a number is expected"),
        }
    }

    fn kind(&mut self) -> Result<Type, Fault> {
        match self.peek().strip_prefix('.').and_then(Type::named) {
            Some(kind) => {
                self.at += 1;
                Ok(kind)
            }
            None => self.unknown("a type is expected"),
        }
    }

    /// `.space .align N .type name[count] = {values};`
    fn variable(&mut self) -> Result<Variable, Fault> {
        let space = match self.peek() {
            ".const" => Space::Constant,
            ".global" => Space::Global,
            ".shared" => Space::Shared,
            ".local" => Space::Local,
            _ => return self.unknown("no such directive is known"),
        };
        self.at += 1;
        let stated = if self.take(".align") { Some(self.number()?) } else { None };
        let kind = self.kind()?;
        let name = self.next();
        let mut count = 1;
        while self.take("[") {
            count *= if self.peek() == "]" { 0 } else { self.number()? };
            self.expect("]")?;
        }
        let mut initial = vec![];
        if self.take("=") {
            let braces = self.take("{");
            loop {
                let value = match self.operand()? {
                    Operand::Integer(value) | Operand::Double(value) => value,
                    Operand::Single(value) => u64::from(value),
                    _ => return self.unknown("only numbers initialise a variable"),
                };
                initial.extend_from_slice(&value.to_le_bytes()[..kind.bytes() as usize]);
                if !self.take(",") {
                    break;
                }
            }
            if braces {
                self.expect("}")?;
            }
        }
        self.expect(";")?;
        let alignment = stated.unwrap_or(kind.bytes());
        Ok(Variable { name, space, alignment, bytes: count * kind.bytes(), initial })
    }

    fn kernel(&mut self) -> Result<Kernel, Fault> {
        self.expect(".entry")?;
        let name = self.next();
        let mut parameters: Vec<Parameter> = vec![];
        if self.take("(") {
            while !self.take(")") {
                parameters.push(self.parameter(parameters.last())?);
                self.take(",");
            }
        }
        let mut most_threads = None;
        while self.peek() != "{" {
            let directive = self.next();
            let mut product = self.number()?;
            while self.take(",") {
                product *= self.number()?;
            }
            match directive.as_str() {
                ".maxntid" | ".reqntid" => most_threads = Some(product as u32),
                ".minnctapersm" | ".maxnreg" => {}
                _ => return self.unknown(&format!("the directive {directive} isn't known")),
            }
        }
        self.expect("{")?;
        let mut body = vec![];
        let mut depth = 1;
        while depth > 0 {
            if self.at >= self.tokens.len() {
                return self.unknown("the kernel doesn't end");
            }
            match self.peek() {
                "{" => {
                    depth += 1;
                    self.at += 1;
                    body.push(Statement::Open);
                }
                "}" => {
                    depth -= 1;
                    self.at += 1;
                    body.push(Statement::Close);
                }
                _ => self.statement(&mut body)?,
            }
        }
        body.pop();
        Ok(Kernel { name, parameters, most_threads, body })
    }

    fn parameter(&mut self, previous: Option<&Parameter>) -> Result<Parameter, Fault> {
        self.expect(".param")?;
        let stated = if self.take(".align") { Some(self.number()?) } else { None };
        let element = self.kind()?;
        if self.take(".ptr") {
            while self.peek().starts_with('.') {
                if self.next() == ".align" {
                    self.number()?;
                }
            }
        }
        let name = self.next();
        let mut bytes = element.bytes();
        if self.take("[") {
            bytes *= self.number()?;
            self.expect("]")?;
        }
        let end = previous.map_or(0, |previous| previous.offset + previous.bytes);
        let offset = end.next_multiple_of(stated.unwrap_or(element.bytes()));
        Ok(Parameter { name, element, bytes, offset })
    }

    fn statement(&mut self, body: &mut Vec<Statement>) -> Result<(), Fault> {
        if self.take(";") {
            return Ok(());
        }
        if self.tokens.get(self.at + 1).is_some_and(|token| token.text == ":") {
            let label = self.next();
            self.at += 1;
            if self.take(".branchtargets") {
                let mut targets = vec![self.next()];
                while self.take(",") {
                    targets.push(self.next());
                }
                self.expect(";")?;
                body.push(Statement::Targets { label, targets });
            } else {
                body.push(Statement::Label(label));
            }
            return Ok(());
        }
        match self.peek() {
            ".reg" => {
                self.at += 1;
                let kind = self.kind()?;
                let mut names = vec![];
                loop {
                    let name = self.next();
                    if self.take("<") {
                        names.extend((0..self.number()?).map(|index| format!("{name}{index}")));
                        self.expect(">")?;
                    } else {
                        names.push(name);
                    }
                    if !self.take(",") {
                        break;
                    }
                }
                self.expect(";")?;
                body.push(Statement::Registers { kind, names });
            }
            ".shared" | ".local" | ".const" | ".global" => body.push(Statement::Variable(self.variable()?)),
            ".pragma" => {
                self.at += 2;
                self.expect(";")?;
            }
            directive if directive.starts_with('.') => return self.unknown("no such directive is known"),
            _ => body.push(Statement::Instruction(self.instruction()?)),
        }
        Ok(())
    }

    fn instruction(&mut self) -> Result<Instruction, Fault> {
        let line = self.line();
        let guard = if self.take("@") {
            let negated = self.take("!");
            Some((self.next(), negated))
        } else {
            None
        };
        let opcode = self.next();
        let mut operands = vec![];
        while !self.take(";") {
            operands.push(self.operand()?);
            if self.peek() != ";" {
                self.expect(",")?;
            }
        }
        Ok(Instruction { line, guard, opcode, operands })
    }
}
