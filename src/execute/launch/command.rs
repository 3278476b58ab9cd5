//! The command of a rank as words and as lines of a script, and the comments beside it.

use crate::plan::shell::quoted;

/// Columns of a script.
const WIDTH: usize = 100;
/// Before the lines that go on with a command.
const INDENT: &str = "    ";

/// The words that are typed to execute a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    words: Vec<String>,
    plan: String,
    device: DeviceFlag,
}

/// Whether the command says what ranks run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceFlag {
    /// As it was typed, or as it is where nothing is typed.
    AsTyped,
    /// `--device cuda` is added to what was typed.
    Added,
}

impl Command {
    /// `arguments` of the program, which name the plan at `plan`.
    pub fn new(arguments: Vec<String>, plan: &str, device: DeviceFlag) -> Self {
        let mut words = vec!["meshwright".to_owned()];
        words.extend(arguments);
        if device == DeviceFlag::Added {
            // Words after `--` are not flags.
            let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
            words.splice(end..end, ["--device", "cuda"].map(str::to_owned));
        }
        Self { words, plan: plan.to_owned(), device }
    }

    /// The plan's path, as a shell reads it.
    pub(super) fn plan(&self) -> String {
        quoted(&self.plan)
    }

    pub(super) fn has_added_device(&self) -> bool {
        self.device == DeviceFlag::Added
    }

    /// On as many lines as it needs; the first goes on with a command that ends there.
    pub(super) fn lines(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| quoted(word)).collect();
        continued(words)
    }
}

/// `words` of a command after others that end in ` \`, indented; a flag's value is on the line of the flag.
pub(super) fn continued(words: impl IntoIterator<Item = String>) -> String {
    let mut lines = vec![INDENT.to_owned()];
    let mut pairs: Vec<String> = Vec::new();
    for word in words {
        match pairs.last_mut() {
            Some(flag) if is_lone_flag(flag) && !word.starts_with('-') => *flag += &format!(" {word}"),
            _ => pairs.push(word),
        }
    }
    for pair in pairs {
        let line =
            lines.last_mut().filter(|line| line.len() == INDENT.len() || line.len() + pair.len() < WIDTH);
        match line {
            Some(line) if line.len() == INDENT.len() => *line += &pair,
            Some(line) => *line += &format!(" {pair}"),
            None => lines.push(format!("{INDENT}{pair}")),
        }
    }
    lines.join(" \\\n") + "\n"
}

fn is_lone_flag(text: &str) -> bool {
    text.starts_with('-') && text != "--" && !text.contains([' ', '='])
}

/// `text` as comments of a shell, broken between words. Ends of lines in it are blanks.
pub(super) fn comment(text: &str) -> String {
    let mut lines = vec!["#".to_owned()];
    for word in text.split_whitespace() {
        match lines.last_mut().filter(|line| line.len() == 1 || line.len() + word.len() < WIDTH) {
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(format!("# {word}")),
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &str, device: DeviceFlag) -> Command {
        Command::new(words.split(' ').map(str::to_owned).collect(), "plan.json", device)
    }

    #[test]
    fn the_device_is_added_as_a_flag() {
        let added = |words| command(words, DeviceFlag::Added).lines();
        assert_eq!(
            added("execute plan.json --steps 3"),
            "    meshwright execute plan.json --steps 3 --device cuda\n"
        );
        assert_eq!(added("execute -- --plan"), "    meshwright execute --device cuda -- --plan\n");
    }

    #[test]
    fn words_of_others_stay_words() {
        let words = ["execute", "it's $(x)\n.json", "--json"].map(str::to_owned).to_vec();
        let lines = Command::new(words, "it's $(x)\n.json", DeviceFlag::AsTyped).lines();
        assert_eq!(lines, "    meshwright execute $'it\\'s $(x)\\012.json' --json\n");
    }

    #[test]
    fn long_lines_are_broken_before_flags() {
        let path = "p".repeat(60);
        let lines =
            command(&format!("execute plan.json --data {path} --save {path}"), DeviceFlag::AsTyped).lines();
        let expected =
            format!("    meshwright execute plan.json \\\n    --data {path} \\\n    --save {path}\n");
        // The first pair fits beside the command.
        let expected = expected.replacen(" \\\n    --data", " --data", 1);
        assert_eq!(lines, expected);
        assert_eq!(comment(&format!("a {path}\n{path}")), format!("# a {path}\n# {path}\n"));
    }
}
