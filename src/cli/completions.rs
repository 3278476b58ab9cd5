//! `meshwright completions`: what a shell needs to complete commands and flags.

use clap::Args;
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
    print(&String::from_utf8_lossy(&script))
}
