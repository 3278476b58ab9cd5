//! The page of all kernels, and what on it has no reason.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::ARCHITECTURES;
use crate::usage::Usage;

/// File, options and kernel, with what it takes on each architecture.
pub type Rows = BTreeMap<(&'static str, String, String), Vec<Usage>>;

/// A kernel, what its options contain, and why it spills.
type Reasons<'r> = &'r [(&'r str, &'r str, &'r str)];

/// Kernels that spill without a reason, and reasons of what does not spill.
pub fn unexplained(rows: &Rows, reasons: Reasons) -> Vec<String> {
    let spilling = || rows.iter().filter(|(_, usages)| usages.iter().any(|usage| usage.local > 0));
    let without = spilling().filter(|((_, options, kernel), _)| reason(reasons, options, kernel).is_none());
    let faults = without.map(|((file, options, kernel), usages)| {
        let local: Vec<u64> = usages.iter().map(|usage| usage.local).collect();
        format!(
            "{file}: {kernel} with {options} keeps {local:?} bytes of a thread in memory on {ARCHITECTURES:?}"
        )
    });
    let stale = reasons.iter().filter(|one| {
        !spilling()
            .any(|((_, options, kernel), _)| reason(std::slice::from_ref(*one), options, kernel).is_some())
    });
    faults
        .chain(stale.map(|(kernel, options, _)| format!("{kernel} with {options}: a reason, and no spill")))
        .collect()
}

fn reason<'r>(reasons: Reasons<'r>, options: &str, kernel: &str) -> Option<&'r str> {
    let fits = |(of, within, _): &&(&str, &str, &str)| kernel == *of && options.contains(within);
    reasons.iter().find(fits).map(|(_, _, reason)| *reason)
}

pub fn page(rows: &Rows, reasons: Reasons, version: &str) -> String {
    let mut page = format!(
        "# Registers, memory and roofline of the CUDA kernels\n\n\
         [Bytes and FLOPs](#bytes-and-flops-against-the-least) come last. \
         Written by `just gate` from what the assembler of NVRTC {version} says; do not edit. A cell is: registers of a \
         thread / bytes of shared memory that the source declares, to which a launch may add / bytes of a thread that do \
         not fit into registers.\n"
    );
    let mut last = "";
    for ((file, options, kernel), usages) in rows {
        if last != *file {
            last = file;
            let bars = "---|".repeat(ARCHITECTURES.len());
            let _ = write!(
                page,
                "\n## {file}\n\n| kernel | options | {} | why it spills |\n",
                ARCHITECTURES.join(" | ")
            );
            let _ = writeln!(page, "|---|---|{bars}---|");
        }
        let cell = |usage: &Usage| format!("{} / {} / {}", usage.registers, usage.shared, usage.local);
        let cells: Vec<String> = usages.iter().map(cell).collect();
        let reason = reason(reasons, options, kernel).unwrap_or_default();
        let _ = writeln!(page, "| `{kernel}` | {options} | {} | {reason} |", cells.join(" | "));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows {
        let usage = |local| vec![Usage { registers: 32, shared: 64, local }];
        let row = |kernel: &str| ("k.cu", String::from("A B"), String::from(kernel));
        Rows::from([(row("spills"), usage(4)), (row("holds"), usage(0))])
    }

    #[test]
    fn a_spill_needs_a_reason_and_a_reason_a_spill() {
        let faults = unexplained(&rows(), &[]);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("k.cu: spills with A B keeps [4] bytes"), "{faults:?}");
        assert!(unexplained(&rows(), &[("spills", "B", "because")]).is_empty());
        assert_eq!(unexplained(&rows(), &[("spills", "", "because"), ("holds", "", "because")]).len(), 1);
        assert_eq!(unexplained(&rows(), &[("spills", "C", "because")]).len(), 2);
    }

    #[test]
    fn a_row_tells_all() {
        let page = page(&rows(), &[("spills", "", "because")], "13.0");
        assert!(page.contains("\n| `spills` | A B | 32 / 64 / 4 | because |\n"), "{page}");
        assert_eq!(page.matches("## k.cu").count(), 1);
    }
}
