//! `meshwright devices`: what this machine can train on.

use clap::Args;
use serde::Serialize;

use super::document::{pretty, style};
use super::error::CliError;
use super::output::print;
use super::table::table;
use crate::execute::device::cuda::survey::Survey;
use crate::report::{Column, broken};
use crate::units::Bytes;

pub const EXAMPLES: &str = "\
Examples:
  meshwright devices
  meshwright devices --json";

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct DevicesArgs {
    /// Print the list as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Listing {
    cpu: Cores,
    cuda: Survey,
    verdict: String,
}

#[derive(Serialize)]
struct Cores {
    cores: usize,
    free_bytes: Bytes,
}

/// Runs the command.
pub fn run(args: &DevicesArgs) -> Result<(), CliError> {
    let cuda = Survey::take();
    let cpu = Cores {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        free_bytes: crate::execute::limits::free_memory(),
    };
    let verdict = verdict(&cuda);
    let listing = Listing { cpu, cuda, verdict };
    print(&if args.json { pretty(&listing) } else { text(&listing) })
}

/// What can be done here, and what is missing for more.
fn verdict(cuda: &Survey) -> String {
    if let Some(device) = cuda.devices.iter().find(|device| device.problem.is_none()) {
        return format!("{} trains with --device cuda; cores train without it", device.name);
    }
    let of_devices = cuda.devices.iter().find_map(|device| device.problem.as_deref());
    let of_libraries = || {
        let needed = cuda.libraries.iter().filter(|library| !library.optional);
        needed.into_iter().find_map(|library| library.problem.as_deref())
    };
    let why = of_devices.or_else(of_libraries).unwrap_or("the driver finds no GPU");
    format!("only cores train here: {why}")
}

fn text(listing: &Listing) -> String {
    use Column::{Name, Number, Text};
    let columns = [
        ("DEVICE", Name),
        ("MEMORY", Number),
        ("FREE", Number),
        ("CAPABILITY", Number),
        ("CORES", Number),
        ("", Text),
    ];
    let Listing { cpu, cuda, verdict } = listing;
    let cores = [
        "cpu".to_owned(),
        "".to_owned(),
        cpu.free_bytes.to_string(),
        String::new(),
        cpu.cores.to_string(),
        "trains".to_owned(),
    ];
    let gpus = cuda.devices.iter().map(|device| {
        [
            format!("cuda:{} {}", device.index, device.name),
            device.memory_bytes.to_string(),
            device.free_bytes.map_or_else(String::new, |bytes| bytes.to_string()),
            device.compute_capability.clone(),
            device.multiprocessors.to_string(),
            device.problem.clone().unwrap_or_else(|| "trains".to_owned()),
        ]
    });
    let mut sections = vec![table(columns, std::iter::once(cores).chain(gpus))];
    if !cuda.links.is_empty() {
        let columns = [("FROM", Name), ("TO", Name), ("PEER ACCESS", Text), ("RANK", Number)];
        let rows = cuda.links.iter().map(|link| {
            let peer = if link.peer_access { "yes" } else { "no" };
            let name = |index| format!("cuda:{index}");
            [name(link.from), name(link.to), peer.to_owned(), link.performance_rank.to_string()]
        });
        sections.push(table(columns, rows));
    }
    let columns = [("LIBRARY", Name), ("VERSION", Number), ("FOUND", Name), ("FOR", Text)];
    let rows = cuda.libraries.iter().map(|library| {
        let version = library.version.clone().unwrap_or_else(|| "none".to_owned());
        let file = library.file.as_ref().map_or_else(String::new, |file| file.display().to_string());
        [library.name.to_owned(), version, file, library.needed_for.to_owned()]
    });
    sections.push(table(columns, rows));
    let width = style().width;
    let problems = cuda.libraries.iter().filter_map(|library| library.problem.as_deref());
    sections.extend(problems.map(|problem| broken(problem, width).join("\n")));
    sections.push(broken(verdict, width).join("\n"));
    sections.join("\n\n") + "\n"
}
