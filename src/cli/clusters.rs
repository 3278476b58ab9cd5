//! `meshwright clusters`: the devices that clusters can be made of.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use super::document::{pretty, style};
use super::error::CliError;
use super::output::print;
use super::table::table;
use crate::cluster::ClusterError;
use crate::profile::coverage::evidence_table;
use crate::profile::{DeviceModel, device_model, device_models};
use crate::report::{Column, broken};
use crate::units::{Bytes, BytesPerSecond, ElementType, FlopsPerSecond};

pub const EXAMPLES: &str = "\
Examples:
  meshwright clusters
  meshwright clusters --json";

const SHORTHAND: &str = "A cluster is NODESxDEVICESxDEVICE: 8x8xh100-sxm is 8 nodes of 8 H100, 18x4xgb200 a rack of 72 \
    GB200, and 1xNxcpu is N CPU ranks of this machine. Anything else (links of your own, unequal links, another memory \
    size) is a JSON file: docs/schemas/cluster.schema.json. Bandwidths are one device's, in one direction, before their \
    efficiency. RUNS are those measured on the device that predictions rest on. \
    Every number of a device and its source stand in cost_models/DEVICE.json.";

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct ClustersArgs {
    /// Print the list as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Listing {
    devices: Vec<Entry>,
}

/// One device.
#[derive(Serialize)]
struct Entry {
    name: &'static str,
    title: &'static str,
    memory_bytes: Bytes,
    memory_bandwidth_bytes_per_s: BytesPerSecond,
    /// Dense peak by element type.
    peak_flops_per_s: BTreeMap<&'static str, FlopsPerSecond>,
    scale_up_bytes_per_s: BytesPerSecond,
    network_bytes_per_s: BytesPerSecond,
    host_link_bytes_per_s: BytesPerSecond,
    devices_per_node: u32,
    /// Published runs on it that predictions rest on.
    measured_runs: usize,
    /// How many of its numbers rest on which kind of evidence.
    evidence: BTreeMap<String, u64>,
    cost_model_hash: String,
}

/// Runs the command.
pub fn run(args: &ClustersArgs) -> Result<(), CliError> {
    let mut devices = Vec::new();
    for (name, title) in device_models() {
        let (model, hash) = device_model(name).map_err(ClusterError::from)?;
        devices.push(entry(name, title, &model, hash));
    }
    let listing = Listing { devices };
    print(&if args.json { pretty(&listing) } else { text(&listing) })
}

fn entry(name: &'static str, title: &'static str, model: &DeviceModel, hash: String) -> Entry {
    let evidence = model.evidence().into_iter();
    Entry {
        name,
        title,
        memory_bytes: model.memory.value,
        memory_bandwidth_bytes_per_s: model.memory_bandwidth.value,
        peak_flops_per_s: [
            ElementType::Fp64,
            ElementType::Fp32,
            ElementType::Bf16,
            ElementType::Fp16,
            ElementType::Fp8,
        ]
        .map(|element| (element.name(), model.peak(element)))
        .into(),
        scale_up_bytes_per_s: model.scale_up.link.bandwidth.value,
        network_bytes_per_s: model.network.bandwidth.value,
        host_link_bytes_per_s: model.host_link.bandwidth.value,
        devices_per_node: model.devices_per_node.value,
        measured_runs: evidence_table().runs.iter().filter(|run| run.device == name).count(),
        evidence: evidence.map(|(kind, count)| (kind.to_string(), count as u64)).collect(),
        cost_model_hash: hash,
    }
}

fn text(listing: &Listing) -> String {
    use Column::{Name, Number, Text};
    let columns = [
        ("DEVICE", Name),
        ("MEMORY", Number),
        ("BANDWIDTH", Number),
        ("BF16 PEAK", Number),
        ("SCALE-UP", Number),
        ("NETWORK", Number),
        ("NODE", Number),
        ("RUNS", Number),
        ("EVIDENCE", Text),
        ("", Text),
    ];
    let rows = listing.devices.iter().map(|device| {
        let evidence: Vec<_> =
            device.evidence.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        [
            device.name.to_owned(),
            device.memory_bytes.to_string(),
            device.memory_bandwidth_bytes_per_s.to_string(),
            device.peak_flops_per_s[ElementType::Bf16.name()].to_string(),
            device.scale_up_bytes_per_s.to_string(),
            device.network_bytes_per_s.to_string(),
            device.devices_per_node.to_string(),
            if device.measured_runs == 0 { "none".to_owned() } else { device.measured_runs.to_string() },
            evidence.join(", "),
            device.title.to_owned(),
        ]
    });
    let width = style().width;
    format!("{}\n\n{}\n", table(columns, rows), broken(SHORTHAND, width).join("\n"))
}
