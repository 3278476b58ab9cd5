//! Whole numbers as a shell computes with them: an expression as a tree.

/// An expression.
#[derive(Clone, Debug)]
pub enum Expression {
    Number(i64),
    Variable {
        name: String,
        index: Option<Box<Self>>,
    },
    Unary(char, Box<Self>),
    Binary(Binary, Box<Self>, Box<Self>),
    Choice(Box<Self>, Box<Self>, Box<Self>),
    /// `name = value`, or with an operator before the sign.
    Assign {
        name: String,
        operator: Option<Binary>,
        value: Box<Self>,
    },
    /// `name++` and its kin: what is added, and whether before the value is taken.
    Step {
        name: String,
        by: i64,
        is_before: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Comma,
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

/// Operators with their strength, those first that begin like others.
const OPERATORS: &[(&str, Binary, u8)] = &[
    ("||", Binary::Or, 3),
    ("&&", Binary::And, 4),
    ("==", Binary::Equal, 8),
    ("!=", Binary::NotEqual, 8),
    ("<<", Binary::ShiftLeft, 10),
    (">>", Binary::ShiftRight, 10),
    ("<=", Binary::LessEqual, 9),
    (">=", Binary::GreaterEqual, 9),
    ("**", Binary::Power, 13),
    ("|", Binary::BitOr, 5),
    ("^", Binary::BitXor, 6),
    ("&", Binary::BitAnd, 7),
    ("<", Binary::Less, 9),
    (">", Binary::Greater, 9),
    ("+", Binary::Add, 11),
    ("-", Binary::Subtract, 11),
    ("*", Binary::Multiply, 12),
    ("/", Binary::Divide, 12),
    ("%", Binary::Remainder, 12),
];

/// Expressions inside each other at the most.
const DEEPEST: usize = 64;

/// The expression that `text` is; nothing is 0.
///
/// # Errors
/// In words, if it is none.
pub fn parse(text: &str) -> Result<Expression, String> {
    let mut reader = Reader { rest: text.trim(), depth: 0 };
    if reader.rest.is_empty() {
        return Ok(Expression::Number(0));
    }
    let expression = reader.sequence()?;
    match reader.rest.trim_start() {
        "" => Ok(expression),
        rest => Err(format!("`{text}` is no whole number of a shell: it cannot be read from `{rest}` on")),
    }
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn takes(&mut self, text: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(text) {
            Some(behind) => {
                self.rest = behind;
                true
            }
            None => false,
        }
    }

    fn sequence(&mut self) -> Result<Expression, String> {
        let mut expression = self.choice()?;
        while self.takes(",") {
            expression = Expression::Binary(Binary::Comma, Box::new(expression), Box::new(self.choice()?));
        }
        Ok(expression)
    }

    fn choice(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("an expression is nested deeper than {DEEPEST}"));
        }
        let found = self.assignment_or_choice();
        self.depth -= 1;
        found
    }

    fn assignment_or_choice(&mut self) -> Result<Expression, String> {
        let condition = self.binary(3)?;
        if let Expression::Variable { name, index: None } = &condition {
            let rest = self.rest.trim_start();
            let operator = OPERATORS
                .iter()
                .find(|(sign, ..)| rest.strip_prefix(sign).is_some_and(|behind| behind.starts_with('=')))
                .filter(|(sign, ..)| !matches!(*sign, "==" | "<=" | ">=" | "!="));
            let is_plain = rest.starts_with('=') && !rest.starts_with("==");
            if operator.is_some() || is_plain {
                self.takes(operator.map_or("", |(sign, ..)| sign));
                self.takes("=");
                let (name, operator) = (name.clone(), operator.map(|(_, operator, _)| *operator));
                return Ok(Expression::Assign { name, operator, value: Box::new(self.choice()?) });
            }
        }
        if !self.takes("?") {
            return Ok(condition);
        }
        let one = self.sequence()?;
        if !self.takes(":") {
            return Err("a colon is missing behind a question mark".to_owned());
        }
        let other = self.choice()?;
        Ok(Expression::Choice(Box::new(condition), Box::new(one), Box::new(other)))
    }

    fn binary(&mut self, least: u8) -> Result<Expression, String> {
        let mut left = self.unary()?;
        loop {
            let rest = self.rest.trim_start();
            let found = OPERATORS.iter().find(|(sign, ..)| rest.starts_with(sign));
            let Some((sign, operator, strength)) = found.filter(|(.., strength)| *strength >= least) else {
                return Ok(left);
            };
            let is_assignment =
                rest[sign.len()..].starts_with('=') && !matches!(*sign, "==" | "!=" | "<=" | ">=");
            if is_assignment && !rest[sign.len()..].starts_with("==") {
                return Ok(left);
            }
            self.takes(sign);
            let next = if *operator == Binary::Power { *strength } else { strength + 1 };
            self.depth += 1;
            if self.depth > DEEPEST {
                return Err(format!("an expression is nested deeper than {DEEPEST}"));
            }
            let right = self.binary(next)?;
            self.depth -= 1;
            left = Expression::Binary(*operator, Box::new(left), Box::new(right));
        }
    }

    fn unary(&mut self) -> Result<Expression, String> {
        for (sign, by) in [("++", 1), ("--", -1)] {
            if self.takes(sign) {
                let name = self.name();
                return match name.is_empty() {
                    true => Err(format!("a variable is missing behind {sign}")),
                    false => Ok(Expression::Step { name, by, is_before: true }),
                };
            }
        }
        for sign in ['!', '~', '-', '+'] {
            if self.takes(&sign.to_string()) {
                self.depth += 1;
                if self.depth > DEEPEST {
                    return Err(format!("an expression is nested deeper than {DEEPEST}"));
                }
                let inside = self.unary()?;
                self.depth -= 1;
                return Ok(Expression::Unary(sign, Box::new(inside)));
            }
        }
        self.primary()
    }

    fn name(&mut self) -> String {
        let rest = self.rest.trim_start();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        self.rest = &rest[end..];
        rest[..end].to_owned()
    }

    fn primary(&mut self) -> Result<Expression, String> {
        if self.takes("(") {
            let inside = self.sequence()?;
            return match self.takes(")") {
                true => Ok(inside),
                false => Err("a parenthesis is not closed".to_owned()),
            };
        }
        let word = self.name();
        if word.is_empty() {
            return Err(format!("a number is missing before `{}`", self.rest.trim()));
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number(&word).map(Expression::Number);
        }
        let mut index = None;
        if self.takes("[") {
            index = Some(Box::new(self.sequence()?));
            if !self.takes("]") {
                return Err("a bracket is not closed".to_owned());
            }
        }
        for (sign, by) in [("++", 1), ("--", -1)] {
            if index.is_none() && self.takes(sign) {
                return Ok(Expression::Step { name: word, by, is_before: false });
            }
        }
        Ok(Expression::Variable { name: word, index })
    }

    /// A number: decimal, 0x…, octal with a 0 before it, or BASE#digits.
    fn number(&mut self, word: &str) -> Result<i64, String> {
        let refused = || format!("`{word}` is no whole number");
        if self.rest.starts_with('#') {
            let base = word.parse::<u32>().ok().filter(|base| (2..=36).contains(base)).ok_or_else(refused)?;
            self.takes("#");
            let digits = self.name();
            return i64::from_str_radix(&digits, base).map_err(|_| refused());
        }
        let digits = word.to_ascii_lowercase();
        let read = match (digits.strip_prefix("0x"), digits.strip_prefix('0')) {
            (Some(hexadecimal), _) => i64::from_str_radix(hexadecimal, 16),
            (None, Some(octal)) if !octal.is_empty() => i64::from_str_radix(octal, 8),
            _ => digits.parse(),
        };
        read.map_err(|_| refused())
    }
}

/// What `operator` makes of two numbers.
///
/// # Errors
/// In words, if it is not defined.
pub fn apply(operator: Binary, left: i64, right: i64) -> Result<i64, String> {
    let zero = || "a division by zero".to_owned();
    let shift = |right: i64| (right & 63) as u32;
    Ok(match operator {
        Binary::Comma => right,
        Binary::Or => i64::from(left != 0 || right != 0),
        Binary::And => i64::from(left != 0 && right != 0),
        Binary::BitOr => left | right,
        Binary::BitXor => left ^ right,
        Binary::BitAnd => left & right,
        Binary::Equal => i64::from(left == right),
        Binary::NotEqual => i64::from(left != right),
        Binary::Less => i64::from(left < right),
        Binary::LessEqual => i64::from(left <= right),
        Binary::Greater => i64::from(left > right),
        Binary::GreaterEqual => i64::from(left >= right),
        Binary::ShiftLeft => left.wrapping_shl(shift(right)),
        Binary::ShiftRight => left.wrapping_shr(shift(right)),
        Binary::Add => left.wrapping_add(right),
        Binary::Subtract => left.wrapping_sub(right),
        Binary::Multiply => left.wrapping_mul(right),
        Binary::Divide if right == 0 => return Err(zero()),
        Binary::Divide => left.wrapping_div(right),
        Binary::Remainder if right == 0 => return Err(zero()),
        Binary::Remainder => left.wrapping_rem(right),
        Binary::Power => {
            let exponent = u64::try_from(right).map_err(|_| "a negative exponent".to_owned())?;
            power(left, exponent)
        }
    })
}

fn power(mut base: i64, mut exponent: u64) -> i64 {
    let mut result = 1_i64;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    result
}
