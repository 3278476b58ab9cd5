//! The `meshwright` program: the command line of the library.

use std::process::ExitCode;

use meshwright::cli::Heap;

#[global_allocator]
static HEAP: Heap = Heap;

/// What NVIDIA's libraries read when they start, unless it is set.
const SETTINGS: [(&str, &str); 2] = [
    // How many queues of a GPU its streams share: 8 unless asked, 32 at most. Ranks that share a GPU have more streams than
    // that, and streams of one queue wait for one another.
    ("CUDA_DEVICE_MAX_CONNECTIONS", "32"),
    // Collectives of several groups begin on a GPU in the order in which its thread issues them, which is that of all ranks
    // (user guide of NCCL 2.30).
    ("NCCL_LAUNCH_ORDER_IMPLICIT", "1"),
];

fn main() -> ExitCode {
    for (name, value) in SETTINGS {
        if std::env::var_os(name).is_none() {
            // SAFETY: there is no other thread yet.
            #[expect(unsafe_code, reason = "the environment is everybody's")]
            unsafe {
                std::env::set_var(name, value);
            }
        }
    }
    meshwright::cli::run()
}
