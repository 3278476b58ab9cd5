//! `meshwright help`: a command in full, or the strategy text; and which options `-h` leaves out to fit a screen.

use std::ffi::OsString;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Command, CommandFactory};

use super::error::CliError;
use super::keys::strategy_help;
use super::output::print;

pub const EXAMPLES: &str = "\
Examples:
  meshwright help plan
  meshwright help strategy";

/// The name of the topic of the strategy text.
const STRATEGY: &str = "strategy";

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct HelpArgs {
    /// A command, or strategy: the keys of strategy texts, their values and defaults
    #[arg(value_name = "TOPIC", value_parser = PossibleValuesParser::new(topics()), hide_possible_values = true)]
    topic: Option<String>,
}

fn topics() -> Vec<PossibleValue> {
    const COMMANDS: [&str; 12] = [
        "plan",
        "simulate",
        "explain",
        "execute",
        "calibrate",
        "validate",
        "export",
        "report",
        "models",
        "clusters",
        "devices",
        "completions",
    ];
    let here = COMMANDS.into_iter().filter(|name| cfg!(unix) || *name != "devices");
    here.chain([STRATEGY, "help"]).map(PossibleValue::new).collect()
}

/// Options that few runs need, by command: `-h` leaves them out, `--help` lists all.
const RARE: [(&str, &[&str]); 5] = [
    (
        "plan",
        &[
            "free",
            "tolerance",
            "top",
            "exhaustive",
            "dropout",
            "clip",
            "freeze",
            "mtp",
            "mtbf_device",
            "checkpoint_interval",
            "checkpoint_bandwidth",
            "restart_time",
        ],
    ),
    ("simulate", &["dropout", "clip", "freeze", "mtp", "timeline"]),
    ("explain", &["dropout", "clip", "freeze", "mtp"]),
    (
        "execute",
        &[
            "data_format",
            "shuffle",
            "grads_out",
            "slice",
            "launch",
            "share_device",
            "no_calibrate",
            "betas",
            "eps",
            "weight_decay",
            "dropout",
            "clip",
            "freeze",
            "seq_len",
            "global_batch",
            "precision",
        ],
    ),
    ("calibrate", &["trace", "base", "models"]),
];

/// The commands as `-h` shows them: without rare options, one example each, and a line on where the rest is.
pub fn brief(command: Command) -> Command {
    command.mut_subcommands(|command| {
        let rare =
            RARE.iter().find(|(name, _)| *name == command.get_name()).map_or(&[][..], |(_, rare)| rare);
        let command = command.mut_args(|arg| {
            let is_rare = rare.contains(&arg.get_id().as_str());
            if is_rare { arg.hide(true) } else { arg }
        });
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let mut after = first(&examples);
        let takes_strategies =
            command.get_arguments().any(|arg| ["strategy", "fix"].contains(&arg.get_id().as_str()));
        let more = [
            (!rare.is_empty()).then_some("All options: --help"),
            takes_strategies.then_some("Keys of strategies: meshwright help strategy"),
        ];
        let more = more.into_iter().flatten().collect::<Vec<_>>().join("   ");
        if !more.is_empty() {
            after += &format!("\n\n{more}");
        }
        command.after_help(after)
    })
}

/// Of examples the first command.
fn first(examples: &str) -> String {
    let lines = examples.lines().skip_while(|line| !line.trim().starts_with("meshwright "));
    let mut text = "Examples:".to_owned();
    for line in lines {
        text += &format!("\n{line}");
        if !line.ends_with('\\') {
            break;
        }
    }
    text
}

/// Whether help is asked for on the strategy text: `--help strategy`, whatever comes before it.
pub fn asks_for_strategy(typed: &[OsString]) -> bool {
    typed.windows(2).any(|pair| (pair[0] == "--help" || pair[0] == "-h") && pair[1] == STRATEGY)
}

/// Prints what is to be said of strategy texts.
pub fn strategy() -> Result<(), CliError> {
    print(&format!("{}\n", strategy_help()))
}

/// Runs the command.
pub fn run(args: &HelpArgs) -> Result<(), CliError> {
    let mut root = super::Cli::command();
    match args.topic.as_deref() {
        Some(STRATEGY) => strategy(),
        None => print(&root.render_help().to_string()),
        Some(topic) => {
            // So that the usage is that of the whole command line.
            root.build();
            let command = root.find_subcommand_mut(topic);
            print(&command.map(|command| command.render_help().to_string()).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_the_commands() {
        let commands = super::super::Cli::command();
        let mut names: Vec<&str> = commands.get_subcommands().map(Command::get_name).collect();
        names.push(STRATEGY);
        names.sort_unstable();
        let topics = topics();
        let mut listed: Vec<&str> = topics.iter().map(PossibleValue::get_name).collect();
        listed.sort_unstable();
        assert_eq!(listed, names);
    }

    #[test]
    fn what_is_rare_is_an_option_of_the_command() {
        let commands = super::super::Cli::command();
        for (name, rare) in RARE {
            let command = commands.find_subcommand(name).unwrap();
            for option in rare {
                assert!(command.get_arguments().any(|arg| arg.get_id() == option), "{name}: {option}");
            }
        }
    }

    #[test]
    fn one_example_is_a_whole_command() {
        assert_eq!(
            first("Examples:\n  meshwright a \\\n      b\n  meshwright c"),
            "Examples:\n  meshwright a \\\n      b"
        );
        assert_eq!(first("Examples:\n  # So\n  meshwright a"), "Examples:\n  meshwright a");
    }
}
