//! Regular expressions of `[[ … =~ … ]]`, as far as scripts use them, run without going back.

/// Letters of an expression at the most, and states that it may have.
const MOST: usize = 2000;

#[derive(Clone, Debug)]
enum Node {
    Is(char),
    Any,
    OneOf {
        is_negated: bool,
        ranges: Vec<(char, char)>,
    },
    Start,
    End,
    Sequence(Vec<Node>),
    Either(Vec<Node>),
    /// At least and at the most so often.
    Repeat(Box<Node>, usize, Option<usize>),
}

/// The expression that is `text` and nothing else.
pub fn plain(text: &str) -> String {
    let escaped =
        |letter: char| if letter.is_alphanumeric() { letter.to_string() } else { format!("\\{letter}") };
    text.chars().map(escaped).collect()
}

/// Whether `expression` is found in `text`.
///
/// # Errors
/// In words, if it is none that is read here.
pub fn is_match(expression: &str, text: &str) -> Result<bool, String> {
    let refused = || format!("the regular expression {expression} is not read here");
    let letters: Vec<char> = expression.chars().collect();
    if letters.len() > MOST {
        return Err(refused());
    }
    let mut parser = Parser { letters: &letters, at: 0, depth: 0 };
    let node = parser.either().filter(|_| parser.at == letters.len()).ok_or_else(refused)?;
    let mut states = Vec::new();
    compile(&node, &mut states).ok_or_else(refused)?;
    states.push(State::Done);
    Ok(found(&states, &text.chars().collect::<Vec<_>>()))
}

struct Parser<'a> {
    letters: &'a [char],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn either(&mut self) -> Option<Node> {
        self.depth += 1;
        if self.depth > 20 {
            return None;
        }
        let mut list = vec![self.sequence()?];
        while self.peek() == Some('|') {
            self.at += 1;
            list.push(self.sequence()?);
        }
        self.depth -= 1;
        Some(Node::Either(list))
    }

    fn sequence(&mut self) -> Option<Node> {
        let mut list = Vec::new();
        while let Some(letter) = self.peek().filter(|letter| !matches!(letter, '|' | ')')) {
            self.at += 1;
            let node = match letter {
                '.' => Node::Any,
                '^' => Node::Start,
                '$' => Node::End,
                '(' => {
                    let inside = self.either()?;
                    self.peek().filter(|letter| *letter == ')')?;
                    self.at += 1;
                    inside
                }
                '[' => self.one_of()?,
                '\\' => {
                    self.at += 1;
                    Node::Is(*self.letters.get(self.at - 1)?)
                }
                '*' | '+' | '?' | '{' => return None,
                other => Node::Is(other),
            };
            list.push(self.repeated(node)?);
        }
        Some(Node::Sequence(list))
    }

    fn repeated(&mut self, node: Node) -> Option<Node> {
        let (least, most) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                let end = self.letters[self.at..].iter().position(|letter| *letter == '}')?;
                let inside: String = self.letters[self.at + 1..self.at + end].iter().collect();
                self.at += end;
                let (least, most) = inside.split_once(',').unwrap_or((&inside, &inside));
                (least.parse().ok()?, if most.is_empty() { None } else { Some(most.parse().ok()?) })
            }
            _ => return Some(node),
        };
        self.at += 1;
        Some(Node::Repeat(Box::new(node), least, most))
    }

    fn one_of(&mut self) -> Option<Node> {
        let is_negated = self.peek() == Some('^');
        self.at += usize::from(is_negated);
        let mut ranges = Vec::new();
        let start = self.at;
        loop {
            let first = self.peek()?;
            self.at += 1;
            if first == ']' && self.at > start + 1 {
                return Some(Node::OneOf { is_negated, ranges });
            }
            if first == '[' && self.peek() == Some(':') {
                let rest: String =
                    self.letters[self.at + 1..].iter().take_while(|letter| **letter != ':').collect();
                ranges.extend(match rest.as_str() {
                    "digit" => vec![('0', '9')],
                    "alpha" => vec![('a', 'z'), ('A', 'Z')],
                    "alnum" => vec![('a', 'z'), ('A', 'Z'), ('0', '9')],
                    "space" => vec![(' ', ' '), ('\t', '\r')],
                    _ => return None,
                });
                self.at += rest.len() + 3;
                continue;
            }
            let last = self
                .letters
                .get(self.at + 1)
                .copied()
                .filter(|last| self.peek() == Some('-') && *last != ']');
            if last.is_some() {
                self.at += 2;
            }
            ranges.push((first, last.unwrap_or(first)));
        }
    }
}

/// A step of the machine; numbers are states.
enum State {
    Takes(Node),
    Start,
    End,
    Goes(Vec<usize>),
    Done,
}

/// Adds the states of `node`, which end in the next that is added.
fn compile(node: &Node, states: &mut Vec<State>) -> Option<()> {
    if states.len() > MOST {
        return None;
    }
    match node {
        Node::Is(_) | Node::Any | Node::OneOf { .. } => states.push(State::Takes(node.clone())),
        Node::Start => states.push(State::Start),
        Node::End => states.push(State::End),
        Node::Sequence(list) => list.iter().try_for_each(|node| compile(node, states))?,
        Node::Either(list) => {
            let fork = states.len();
            states.push(State::Goes(Vec::new()));
            let (mut begins, mut ends) = (Vec::new(), Vec::new());
            for node in list {
                begins.push(states.len());
                compile(node, states)?;
                ends.push(states.len());
                states.push(State::Goes(Vec::new()));
            }
            let end = states.len();
            states[fork] = State::Goes(begins);
            for place in ends {
                states[place] = State::Goes(vec![end]);
            }
        }
        Node::Repeat(inside, least, most) => {
            for _ in 0..*least {
                compile(inside, states)?;
            }
            match most {
                None => {
                    let fork = states.len();
                    states.push(State::Goes(Vec::new()));
                    compile(inside, states)?;
                    states.push(State::Goes(vec![fork]));
                    states[fork] = State::Goes(vec![fork + 1, states.len()]);
                }
                Some(most) => {
                    let mut forks = Vec::new();
                    for _ in *least..*most {
                        forks.push(states.len());
                        states.push(State::Goes(Vec::new()));
                        compile(inside, states)?;
                    }
                    let end = states.len();
                    for fork in forks {
                        states[fork] = State::Goes(vec![fork + 1, end]);
                    }
                }
            }
        }
    }
    Some(())
}

fn found(states: &[State], text: &[char]) -> bool {
    let mut live = vec![false; states.len()];
    for at in 0..=text.len() {
        let mut todo: Vec<usize> =
            live.iter().enumerate().filter(|(_, is)| **is).map(|(state, _)| state).collect();
        // A match may begin anywhere.
        todo.push(0);
        let mut seen = vec![false; states.len()];
        let mut next = vec![false; states.len()];
        while let Some(state) = todo.pop() {
            if std::mem::replace(&mut seen[state], true) {
                continue;
            }
            match &states[state] {
                State::Done => return true,
                State::Start if at == 0 => todo.push(state + 1),
                State::End if at == text.len() => todo.push(state + 1),
                State::Goes(others) => todo.extend(others),
                State::Takes(node) if text.get(at).is_some_and(|letter| takes(node, *letter)) => {
                    next[state + 1] = true;
                }
                _ => {}
            }
        }
        live = next;
    }
    false
}

fn takes(node: &Node, letter: char) -> bool {
    match node {
        Node::Is(own) => *own == letter,
        Node::OneOf { is_negated, ranges } => {
            ranges.iter().any(|(first, last)| (*first..=*last).contains(&letter)) != *is_negated
        }
        _ => true,
    }
}
