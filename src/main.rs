//! The `meshwright` program: the command line of the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    meshwright::cli::run()
}
