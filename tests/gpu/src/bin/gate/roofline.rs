//! What each kernel moves and computes on the emulator, held against the least of its operator and the roofline of a card.

use std::collections::BTreeMap;
use std::fmt::Write;

use gpu::roofline::card::{Bound, Caches, H200};
use gpu::roofline::{Entry, Least};
use gpu::{Case, Counted, Fault, Gpu, Order};

/// A kernel that moves this many times the least needs a reason: one that reads its only operand twice, for example. None
/// may compute so much.
const MUCH: f64 = 1.5;

/// A file and a kernel of it.
pub type Name = (&'static str, &'static str);

/// Why a kernel moves much more than the least: the kernel and the reason.
pub type Reasons<'r> = &'r [(&'r str, &'r str)];

/// The launch of a kernel.
#[derive(Clone, Debug)]
pub struct Row {
    pub sizes: String,
    pub least: Least,
    pub counted: Counted,
}

pub type Rows = BTreeMap<Name, Row>;

/// Runs a kernel on an emulator that counts.
pub fn row(entry: &Entry) -> Result<(Name, Row), Fault> {
    let mut gpu = Gpu::counting();
    let work = entry.work(&mut gpu);
    let counted = work.counted(&mut gpu)?;
    let name = (work.source.file, work.launch.kernel);
    Ok((name, Row { sizes: entry.sizes.clone(), least: work.least, counted }))
}

/// The files and kernels that a case launches.
pub fn launched(case: &Case) -> Result<Vec<(String, &'static str)>, String> {
    let mut gpu = Gpu::emulated(Order::Forward, false);
    (case.run)(&mut gpu).map_err(|fault| format!("case {}: {fault}", case.name))?;
    Ok(gpu.launched().map(|(file, kernel)| (file.to_owned(), kernel)).collect())
}

impl Row {
    fn moved(&self) -> u64 {
        self.counted.traffic.read + self.counted.traffic.written
    }

    /// All that is moved, by the least.
    fn bytes_ratio(&self) -> f64 {
        self.moved() as f64 / self.least.bytes() as f64
    }

    fn flops_ratio(&self) -> Option<f64> {
        (self.least.flops > 0).then(|| self.counted.flops.all() as f64 / self.least.flops as f64)
    }

    fn moves_much_more(&self) -> bool {
        self.bytes_ratio() >= MUCH
    }

    fn bound(&self) -> Bound {
        H200.least(&self.least)
    }

    /// Of the bound, what the kernel reaches at most.
    fn share(&self, caches: Caches) -> f64 {
        self.bound().seconds() / H200.done(&self.counted, caches).seconds()
    }
}

/// Counts that the formulas of the least contradict, kernels that compute much more than the least, or move much more for no
/// stated reason, and reasons of those that do not.
pub fn faults(rows: &Rows, reasons: Reasons) -> Vec<String> {
    let mut faults = Vec::new();
    for ((file, kernel), row) in rows {
        let (traffic, least) = (&row.counted.traffic, &row.least);
        let once =
            [("reads", traffic.read_once, least.read), ("writes", traffic.written_once, least.written)];
        let wrong = once.into_iter().filter(|(_, counted, least)| counted != least);
        faults.extend(wrong.map(|(does, counted, least)| {
            format!(
                "{file}: {kernel} {does} {counted} bytes, each counted once; by its formula it needs {least}"
            )
        }));
        let flops = row.counted.flops.all();
        if flops < least.flops {
            faults.push(format!(
                "{file}: {kernel} makes {flops} FLOPs; by its formula it needs {}",
                least.flops
            ));
        }
        if row.flops_ratio().is_some_and(|ratio| ratio >= MUCH) {
            let needed = least.flops;
            faults.push(format!("{file}: {kernel} makes {flops} FLOPs, where {needed} are needed"));
        }
        if row.moves_much_more() && reason(reasons, kernel).is_none() {
            faults.push(format!(
                "{file}: {kernel} moves {} bytes, where {} are needed, for no stated reason",
                row.moved(),
                least.bytes()
            ));
        }
    }
    let needed =
        |kernel: &str| rows.iter().any(|((_, other), row)| *other == kernel && row.moves_much_more());
    let stale = reasons.iter().filter(|(kernel, _)| !needed(kernel));
    faults.extend(
        stale.map(|(kernel, _)| format!("{kernel}: a reason to move more than the least, and it doesn't")),
    );
    faults
}

fn reason<'r>(reasons: Reasons<'r>, kernel: &str) -> Option<&'r str> {
    reasons.iter().find(|(of, _)| *of == kernel).map(|(_, reason)| *reason)
}

/// The section of the page.
pub fn section(rows: &Rows, reasons: Reasons) -> String {
    let mut text = format!(
        "\n## Bytes and FLOPs, against the least\n\n\
         One launch of each kernel on the emulator, which counts what instructions ask for. Nothing here is a measured \
         time.\n\n\
         - *Least* follows from the operator's sizes alone: each operand is read once and each result written once; 2mnk \
         FLOPs for a product and so 4bhtsd for attention forward, half of it under a causal mask. The other kernels have \
         no such count of FLOPs and are bound by memory (–). The gate fails if a kernel reads or writes other bytes than \
         these, each counted once.\n\
         - *Moved* is what threads ask of global memory each time, with loads, asynchronous copies, stores and atomic \
         updates. Much of what is moved again comes from caches.\n\
         - *Done* are the FLOPs of `mma`, and of `fma` (2), `add`, `sub` and `mul` (1) in f32, packed bf16 and f64; not \
         those of divisions, roots and exponentials.\n\
         - *{0}, at least*: the least bytes at {1} TB/s and the least FLOPs at {2} TFLOP/s (tensor cores, dense bf16) or \
         {3} (f32), by NVIDIA's datasheet; the greater binds.\n\
         - *Share*: what the counts still allow the kernel to reach of that bound, if caches serve all that it moves \
         again / if they serve nothing. Memory, tensor cores, f32 and f64 units ({4} TFLOP/s) are taken to work at the same \
         time, so it is an upper limit: kernels reach less.\n\n\
         | kernel | sizes | bytes: moved / least | FLOPs: done / least | {0}, at least: bytes, FLOPs | binds | share | why more |\n\
         |---|---|---|---|---|---|---|---|\n",
        H200.name,
        H200.bytes / 1e12,
        H200.tensor / 1e12,
        H200.single / 1e12,
        H200.double / 1e12,
    );
    for ((_, kernel), row) in rows {
        let bound = row.bound();
        let flops = match row.flops_ratio() {
            Some(ratio) => {
                let [done, least] = [row.counted.flops.all(), row.least.flops].map(short);
                format!("{done} / {least} = {ratio:.2}")
            }
            None => format!("{} / –", short(row.counted.flops.all())),
        };
        let arithmetic = if row.least.flops > 0 { time(bound.arithmetic) } else { "–".into() };
        let _ = writeln!(
            text,
            "| `{kernel}` | {} | {} / {} = {:.2} | {flops} | {}, {arithmetic} | {} | {:.2} / {:.2} | {} |",
            row.sizes,
            short(row.moved()),
            short(row.least.bytes()),
            row.bytes_ratio(),
            time(bound.memory),
            bound.binds(),
            row.share(Caches::Everything),
            row.share(Caches::Nothing),
            reason(reasons, kernel).unwrap_or_default(),
        );
    }
    text
}

/// A count in three digits.
fn short(count: u64) -> String {
    let (scale, unit) = match count {
        0..1_000 => return count.to_string(),
        1_000..1_000_000 => (1e3, "k"),
        1_000_000..1_000_000_000 => (1e6, "M"),
        _ => (1e9, "G"),
    };
    let value = count as f64 / scale;
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {unit}")
}

fn time(seconds: f64) -> String {
    format!("{:.1} ns", seconds * 1e9)
}

#[cfg(test)]
mod tests {
    use gpu::{Flops, Traffic};

    use super::*;

    /// A kernel in f32 that moves `times` of what it needs, and computes what it needs.
    fn rows(times: u64) -> Rows {
        let least = Least { flops: 1000, ..Least::of_bytes(3000, 1000) };
        let traffic = Traffic { read: 3000 * times, written: 1000, read_once: 3000, written_once: 1000 };
        let counted = Counted { traffic, flops: Flops { single: 1000, ..Flops::default() } };
        Rows::from([(("k.cu", "kernel"), Row { sizes: "10".into(), least, counted })])
    }

    fn changed(change: impl Fn(&mut Row)) -> Vec<String> {
        let mut rows = rows(1);
        rows.values_mut().for_each(change);
        faults(&rows, &[])
    }

    #[test]
    fn a_formula_that_is_wrong_is_seen() {
        assert!(faults(&rows(1), &[]).is_empty());
        let found = changed(|row| row.least.read += 2);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("kernel reads 3000 bytes, each counted once; by its formula it needs 3002")
        );
        assert!(changed(|row| row.least.written -= 1)[0].contains("writes 1000 bytes"));
        assert!(changed(|row| row.least.flops += 1)[0].contains("makes 1000 FLOPs"));
        let twice = changed(|row| row.counted.flops.single *= 2);
        assert!(twice[0].contains("makes 2000 FLOPs, where 1000 are needed"));
    }

    #[test]
    fn much_more_needs_a_reason_and_a_reason_much_more() {
        assert!(faults(&rows(3), &[])[0].ends_with("for no stated reason"));
        assert!(faults(&rows(3), &[("kernel", "because")]).is_empty());
        assert_eq!(faults(&rows(1), &[("kernel", "because")]).len(), 1);
    }

    #[test]
    fn a_row_tells_all() {
        let text = section(&rows(3), &[("kernel", "because")]);
        let row = "\n| `kernel` | 10 | 10.0 k / 4.00 k = 2.50 | 1.00 k / 1.00 k = 1.00 | 0.8 ns, 0.0 ns | bytes | 1.00 / 0.40 | because |\n";
        assert!(text.ends_with(row), "{text}");
    }

    #[test]
    fn counts_have_three_digits() {
        let counts = [999, 1000, 9994, 9996, 123_456, 1_234_567];
        assert_eq!(counts.map(short), ["999", "1.00 k", "9.99 k", "10.0 k", "123 k", "1.23 M"]);
    }
}
