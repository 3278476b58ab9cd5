//! The cluster of a published run: the cost model of its GPU, and the network that its table names.

use crate::cluster::Cluster;
use crate::profile::{DeviceModel, device_model, device_named};
use crate::trace::published::{Hardware, PublishedRun};
use crate::units::BytesPerSecond;

/// GPUs that tables call otherwise than names of devices can be read, and our names; the first that begins alike counts.
const DEVICES: &[(&str, &str)] = &[
    ("H100-SXM-96GB", "h100-sxm-96gb-500w"),
    ("H100-SXM-95GB", "h100-sxm-96gb-500w"),
    ("V100-SXM2-16GB", "v100-sxm-16gb"),
    ("V100-SXM", "v100-sxm-32gb"),
    ("B200", "b200-sxm"),
    ("B300", "b300-sxm"),
    ("GB200", "gb200"),
    ("GB300", "gb300"),
    ("MI300X", "mi300x"),
    ("MI325X", "mi325x"),
];

/// Name of the cost model of a GPU as tables call it, or as we do; what stands in brackets is not read.
pub fn device_name(gpu: &str) -> Option<&'static str> {
    let plain = gpu.split('(').next().unwrap_or_default().trim();
    let known = DEVICES.iter().find(|(prefix, _)| plain.starts_with(prefix)).map(|(_, name)| *name);
    known.or_else(|| device_named(plain).ok())
}

/// The cluster on which `run` ran, its devices as `models` has them.
///
/// # Errors
/// Says what is not known.
pub fn cluster(run: &PublishedRun, models: &dyn Fn(&str) -> Option<DeviceModel>) -> Result<Cluster, String> {
    let hardware = &run.hardware;
    let name =
        device_name(&hardware.gpu).ok_or_else(|| format!("there is no cost model of `{}`", hardware.gpu))?;
    let built_in = device_model(name).map_err(|error| error.to_string())?;
    let (device, hash) = models(name).map_or(built_in, |device| (device, String::new()));
    let per_node = hardware.gpus_per_node.min(hardware.num_gpus).max(1);
    let nodes = hardware.num_gpus / per_node;
    let counts = (u32::try_from(nodes), u32::try_from(per_node));
    let (Ok(nodes @ 1..), Ok(per_node)) = counts else {
        return Err(format!("hardware.num_gpus is {}", hardware.num_gpus));
    };
    let mut cluster = Cluster::uniform(format!("{nodes}x{per_node}x{name}"), nodes, per_node, device, hash);
    let network = cluster.device.network.efficiency.value;
    if let (Some(bandwidth), Some(level)) = (node_bandwidth(hardware), cluster.levels.get_mut(1)) {
        level.link.bandwidth = BytesPerSecond(bandwidth / hardware.gpus_per_node.max(1) as f64 * network);
    }
    Ok(cluster)
}

/// Bytes/s of all network cards of a node, where the table gives them: `8x200Gb/s HDR IB`, `3200Gb/s per node`,
/// `400Gb/s per GPU`.
fn node_bandwidth(hardware: &Hardware) -> Option<f64> {
    let text = hardware.inter_node.as_str();
    let end = text.find("Gb/s")?;
    let figure = text[..end].rsplit(|c: char| !c.is_ascii_digit() && c != '.' && c != 'x').next()?;
    let (count, each) = match figure.split_once('x') {
        Some((count, each)) => (count.parse::<f64>().ok()?, each.parse::<f64>().ok()?),
        None if text[end..].contains("per GPU") => (hardware.gpus_per_node as f64, figure.parse().ok()?),
        None => (1.0, figure.parse().ok()?),
    };
    let bytes = count * each * 1e9 / 8.0;
    (bytes > 0.0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn hardware(inter_node: &str) -> Hardware {
        Hardware {
            gpu: "A100-SXM-80GB".to_owned(),
            gpu_memory_gb: None,
            num_gpus: 16,
            gpus_per_node: 8,
            intra_node: String::new(),
            inter_node: inter_node.to_owned(),
            other: BTreeMap::new(),
        }
    }

    #[test]
    fn networks_are_read_as_tables_write_them() {
        let gigabits = |text: &str| node_bandwidth(&hardware(text)).map(|bytes| bytes * 8.0 / 1e9);
        assert_eq!(gigabits("8x200Gb/s HDR IB"), Some(1600.0));
        assert_eq!(gigabits("Omni-Path 4x100Gb/s per node (Jean Zay gpu_p5)"), Some(400.0));
        assert_eq!(gigabits("4x200Gb/s HDR IB (800 Gb/s per node, as it says)"), Some(800.0));
        assert_eq!(gigabits("AWS p5 EFA 3200Gb/s per node"), Some(3200.0));
        assert_eq!(gigabits("RoCE/RDMA 400Gb/s per GPU (Grand Teton)"), Some(3200.0));
        assert_eq!(gigabits("réseau à é400Gb/s"), Some(400.0));
        assert_eq!(gigabits("é Gb/s"), None);
        assert_eq!(gigabits("unknown"), None);
        assert_eq!(gigabits("n/a (single node)"), None);
    }

    #[test]
    fn gpus_have_cost_models() {
        for (_, name) in DEVICES {
            assert!(device_model(name).is_ok(), "{name}");
        }
        assert_eq!(device_name("H100-SXM-96GB-HBM2e (500W power limit)"), Some("h100-sxm-96gb-500w"));
        assert_eq!(device_name("A100-SXM-80GB (Azure NDm A100 v4)"), Some("a100-sxm-80gb"));
        assert_eq!(device_name("A800-SXM-80GB"), Some("a800-sxm-80gb"));
        assert_eq!(device_name("H800-SXM-80GB"), Some("h800-sxm"));
        assert_eq!(device_name("H200-SXM"), Some("h200-sxm"));
        assert_eq!(device_name("A100-SXM-40GB"), Some("a100-sxm-40gb"));
        assert_eq!(device_name("A100-PCIe-80GB"), Some("a100-pcie-80gb"));
        assert_eq!(device_name("RTX 4090"), Some("rtx-4090"));
        assert_eq!(device_name("TPU v4"), None);
    }
}
