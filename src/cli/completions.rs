//! `meshwright completions`: what a shell needs to complete commands, flags and the names that they take.

use clap::{Arg, Args, Command};
use clap_complete::Shell;

use super::error::CliError;
use super::output::print;

pub const EXAMPLES: &str = "\
Examples:
  meshwright completions bash > \\
      ~/.local/share/bash-completion/completions/meshwright
  meshwright completions zsh > ~/.zfunc/_meshwright
  meshwright completions fish > ~/.config/fish/completions/meshwright.fish";

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct CompletionsArgs {
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// Runs the command.
pub fn run(args: &CompletionsArgs) -> Result<(), CliError> {
    let mut script = Vec::new();
    let mut command = super::command();
    clap_complete::generate(args.shell, &mut command, "meshwright", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if args.shell == Shell::Fish {
        script += &arguments_for_fish(&command);
    }
    print(&script)
}

/// Values that fish may offer for arguments without a flag, which the generator leaves out.
fn arguments_for_fish(command: &Command) -> String {
    let mut lines = String::new();
    for subcommand in command.get_subcommands() {
        let values = subcommand.get_positionals().flat_map(Arg::get_possible_values);
        let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
        if !names.is_empty() {
            lines += &format!(
                "complete -c meshwright -n \"__fish_meshwright_using_subcommand {}\" -a \"{}\"\n",
                subcommand.get_name(),
                names.join(" ")
            );
        }
    }
    lines
}
