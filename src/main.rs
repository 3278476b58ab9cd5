//! The `meshwright` program: the command line of the library.

use std::process::ExitCode;

use meshwright::cli::Heap;

#[global_allocator]
static HEAP: Heap = Heap;

/// How many queues of a GPU its streams share: 8 unless asked, 32 at most. Ranks that share a GPU have more streams than
/// that, and streams of one queue wait for one another. The driver reads it when it starts.
const QUEUES: (&str, &str) = ("CUDA_DEVICE_MAX_CONNECTIONS", "32");

fn main() -> ExitCode {
    let (name, most) = QUEUES;
    if std::env::var_os(name).is_none() {
        // SAFETY: there is no other thread yet.
        #[expect(unsafe_code, reason = "the environment is everybody's")]
        unsafe {
            std::env::set_var(name, most);
        }
    }
    meshwright::cli::run()
}
