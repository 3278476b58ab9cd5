//! For which architecture kernels are compiled: the GPU's own, or the nearest that the compiler knows and the GPU runs.
//!
//! A binary for compute capability X.y runs on GPUs of X.z where z ≥ y; PTX runs on all that are newer, because the driver
//! compiles it (NVIDIA, *CUDA C++ programming guide*, binary and PTX compatibility).

/// Compute capability, as (9, 0).
pub type Capability = (i32, i32);

/// The architectures whose binaries run on a GPU, the nearest first, as `sm_86`, `sm_85` and so on to `sm_80`.
pub fn of_binaries((major, minor): Capability) -> impl Iterator<Item = String> {
    (0..=minor).rev().map(move |minor| format!("sm_{major}{minor}"))
}

/// What a compiler that knows the architectures `known`, as 90, is asked for: a binary if it can make one, else PTX. The
/// GPU's own where it knows none that is older, so that it says so.
pub fn of_compiler((major, minor): Capability, known: &[i32]) -> String {
    let own = 10 * major + minor;
    let older = || known.iter().copied().filter(|known| *known <= own);
    match (older().filter(|known| known / 10 == major).max(), older().max()) {
        (Some(binary), _) => format!("sm_{binary}"),
        (None, Some(text)) => format!("compute_{text}"),
        (None, None) => format!("sm_{own}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What NVRTC 12.4 says that it knows.
    const KNOWN: [i32; 13] = [50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 89, 90];

    #[test]
    fn the_nearest_that_the_gpu_runs_is_taken() {
        let cases = [
            ((8, 0), "sm_80"),
            ((8, 6), "sm_86"),
            ((8, 7), "sm_86"),
            ((9, 0), "sm_90"),
            // Newer than the compiler: the driver compiles for them.
            ((10, 3), "compute_90"),
            ((12, 1), "compute_90"),
        ];
        for (capability, expected) in cases {
            assert_eq!(of_compiler(capability, &KNOWN), expected, "{capability:?}");
        }
        assert_eq!(of_compiler((10, 3), &[90, 100, 120]), "sm_100");
        for nothing_older in [&[][..], &[100]] {
            assert_eq!(of_compiler((9, 0), nothing_older), "sm_90");
        }
    }

    #[test]
    fn binaries_of_the_same_major_run_from_the_nearest_down() {
        assert_eq!(of_binaries((8, 2)).collect::<Vec<_>>(), ["sm_82", "sm_81", "sm_80"]);
        assert_eq!(of_binaries((9, 0)).collect::<Vec<_>>(), ["sm_90"]);
    }
}
