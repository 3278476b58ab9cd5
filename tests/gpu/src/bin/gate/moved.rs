//! What the kernels move, as the cases launch them on the emulator.

use std::collections::BTreeMap;
use std::fmt::Write;

use gpu::{Case, Gpu, Moved, Order};

/// File and kernel, with its largest launch of all cases.
pub type Launches = BTreeMap<(String, String), Moved>;

/// What each launch of a case moves.
pub fn of_case(case: &Case) -> Result<Vec<Moved>, String> {
    let mut gpu = Gpu::emulated(Order::Forward, false);
    gpu.count_traffic();
    (case.run)(&mut gpu).map_err(|fault| format!("case {}: {fault}", case.name))?;
    Ok(gpu.moved())
}

/// Keeps the launch of each kernel with the most bytes, each counted once; of equal ones the first by its options.
pub fn keep(launches: &mut Launches, moved: Moved) {
    let size = |moved: &Moved| moved.traffic.read_once + moved.traffic.written_once;
    let key = (moved.file.clone(), moved.launch.kernel.to_owned());
    let larger = launches.get(&key).is_none_or(|kept| {
        (size(&moved), moved.traffic) > (size(kept), kept.traffic)
            || moved.traffic == kept.traffic && moved.options < kept.options
    });
    if larger {
        launches.insert(key, moved);
    }
}

/// The section of the page.
pub fn section(launches: &Launches) -> String {
    let mut text = String::from(
        "\n## Bytes of global memory that launches move\n\n\
         Counted by the emulator: of each kernel the launch of the cases with the most bytes. *Ratio* is all that is moved by all that is moved once. *Moved* is what threads ask \
         for with loads, asynchronous copies, stores and atomic updates (which read and write), each time. *Once* counts \
         each byte once: those whose value before the launch is read, and those that are written. What several blocks \
         read again comes mostly from the L2 cache, and what lanes of a warp read together is one transaction, so *moved* \
         is not what the memory itself moves. A byte that is read without need counts in both. The cases are \
         small: products and attention have few tiles here.\n\n\
         | file | kernel | options | grid | block | read: moved / once | written: moved / once | ratio |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for ((file, kernel), Moved { options, launch, traffic, .. }) in launches {
        let once = traffic.read_once + traffic.written_once;
        let ratio = (traffic.read + traffic.written) as f64 / once as f64;
        let _ = writeln!(
            text,
            "| {file} | `{kernel}` | {} | {:?} | {:?} | {} / {} | {} / {} | {ratio:.2} |",
            crate::words(options),
            launch.grid,
            launch.block,
            traffic.read,
            traffic.read_once,
            traffic.written,
            traffic.written_once
        );
    }
    text
}
