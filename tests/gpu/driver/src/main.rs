//! Prints a folder of the fake libraries: `LD_LIBRARY_PATH="$(driver-folder)" FAKE_CUDA_NVRTC=… meshwright …`.

use std::process::ExitCode;

fn main() -> ExitCode {
    match driver::folder() {
        Ok(folder) => {
            println!("{}", folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("the folder of fake libraries can't be made: {error}");
            ExitCode::FAILURE
        }
    }
}
