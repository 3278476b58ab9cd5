//! For which architecture kernels are compiled: the GPU's own, or the nearest that the compiler knows and the GPU runs.
//!
//! A binary for compute capability X.y runs on GPUs of X.z where z ≥ y, but not between desktop and Tegra; PTX runs on all
//! that are newer, because the driver compiles it (NVIDIA, *CUDA C++ programming guide*, binary and PTX compatibility).

/// Compute capability, as (9, 0).
pub type Capability = (i32, i32);

/// Tegra's, as 87 for 8.7, though their numbers lie between those of others.
const TEGRA: [i32; 7] = [53, 62, 72, 87, 88, 101, 110];
/// PTX of this runs on every GPU that the kernels run on.
const OLDEST: i32 = 80;

const fn number((major, minor): Capability) -> i32 {
    10 * major + minor
}

/// Whether a GPU runs binaries for `other`. Tegra's run their own.
fn runs(capability: Capability, other: i32) -> bool {
    let own = number(capability);
    let is_alike = !TEGRA.contains(&own) && !TEGRA.contains(&other);
    other == own || (is_alike && other / 10 == capability.0 && other < own)
}

/// The architectures that a kept kernel of the GPU may be of, the best first: binaries as `sm_86`, then PTX as `compute_80`.
pub fn of_cache(capability: Capability) -> impl Iterator<Item = String> {
    let own = number(capability);
    let older = || (OLDEST..=own).rev();
    let binaries = older().filter(move |other| runs(capability, *other)).map(|other| format!("sm_{other}"));
    binaries.chain(older().map(|other| format!("compute_{other}")))
}

/// What a compiler that knows the architectures `known`, as 90, is asked for: a binary if it can make one, else PTX. The
/// GPU's own where it knows none that is older, so that it says so.
pub fn of_compiler(capability: Capability, known: &[i32]) -> String {
    let own = number(capability);
    let binary = known.iter().copied().filter(|known| runs(capability, *known)).max();
    let text = known.iter().copied().filter(|known| *known <= own && !TEGRA.contains(known)).max();
    match (binary, text) {
        (Some(binary), _) => format!("sm_{binary}"),
        (None, Some(text)) => format!("compute_{text}"),
        (None, None) => format!("sm_{own}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some of what NVRTC of CUDA 12.8 compiles for: 10.3 came with 12.9.
    const KNOWN: [i32; 9] = [72, 75, 80, 86, 89, 90, 100, 101, 120];

    #[test]
    fn the_nearest_that_the_gpu_runs_is_taken() {
        let cases = [
            ((8, 0), "sm_80"),
            ((8, 6), "sm_86"),
            ((9, 0), "sm_90"),
            // 10.1 is Tegra's.
            ((10, 3), "sm_100"),
            ((10, 1), "sm_101"),
            ((12, 1), "sm_120"),
            // Tegra's, and unknown: the driver compiles.
            ((8, 7), "compute_86"),
            // Newer than the compiler.
            ((13, 0), "compute_120"),
        ];
        for (capability, expected) in cases {
            assert_eq!(of_compiler(capability, &KNOWN), expected, "{capability:?}");
        }
        for nothing_older in [&[][..], &[100]] {
            assert_eq!(of_compiler((9, 0), nothing_older), "sm_90");
        }
    }

    #[test]
    fn kept_binaries_come_before_kept_text() {
        let all: Vec<String> = of_cache((8, 2)).collect();
        assert_eq!(all, ["sm_82", "sm_81", "sm_80", "compute_82", "compute_81", "compute_80"]);
        let binaries =
            |capability| of_cache(capability).filter(|name| name.starts_with("sm_")).collect::<Vec<_>>();
        assert_eq!(
            binaries((8, 9)),
            ["sm_89", "sm_86", "sm_85", "sm_84", "sm_83", "sm_82", "sm_81", "sm_80"]
        );
        assert_eq!(binaries((8, 7)), ["sm_87"]);
    }

    #[test]
    fn whatever_a_compiler_made_for_a_gpu_is_found_among_what_is_kept() {
        for capability in (8..=13).flat_map(|major| (0..=9).map(move |minor| (major, minor))) {
            let made = of_compiler(capability, &KNOWN);
            assert!(of_cache(capability).any(|kept| kept == made), "{capability:?}: {made}");
        }
    }
}
