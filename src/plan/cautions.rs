//! What works, but not as its user may think: warnings that follow from cluster and precision, and from a prediction.

use crate::cluster::Cluster;
use crate::plan::document::Prediction;
use crate::profile::device::DeviceClass;
use crate::search::Problem;
use crate::units::{Bytes, ElementType, several};

/// The warnings about `problem`, whatever its strategy.
pub fn of_problem(problem: &Problem<'_>) -> Vec<String> {
    let cluster = problem.cluster;
    [precision(problem), node(cluster), processes(cluster)].into_iter().flatten().collect()
}

/// The warnings about what is predicted of a strategy on `cluster`.
pub fn of_prediction(cluster: &Cluster, prediction: &Prediction) -> Vec<String> {
    shared_memory(cluster, prediction).into_iter().collect()
}

/// That the device has no units for the type of the arithmetic.
fn precision(problem: &Problem<'_>) -> Option<String> {
    let device = &problem.cluster.device;
    let precision = problem.workload.precision;
    if device.has_units(precision) || device.class == DeviceClass::Cpu {
        return None;
    }
    let better = match precision {
        ElementType::Bf16 => ElementType::Fp16,
        _ => ElementType::Bf16,
    };
    let advice = if device.has_units(better) {
        format!("; it has {better} at {} (--precision {better})", device.peak(better))
    } else {
        String::new()
    };
    Some(format!(
        "{} has no units for {precision}, which is emulated: products are taken to run at the peak of fp32, {}{advice}.",
        device.name,
        device.peak(precision),
    ))
}

/// That a node holds more devices than boards of this kind join.
fn node(cluster: &Cluster) -> Option<String> {
    let innermost = cluster.levels.first().filter(|_| cluster.stretches_fast_link())?;
    Some(format!(
        "A node of {} has {}, and {} are built {} to a node: all {} are taken to be joined by the same fast \
         link, {} each. {} joins nodes of that size by the network.",
        cluster.name,
        several("device", cluster.devices_per_node),
        cluster.device.name,
        cluster.board(),
        innermost.span,
        innermost.link.bandwidth,
        cluster.of_usual_nodes(),
    ))
}

/// That a node's host has less memory than the processes of its ranks take before anything is offloaded.
fn processes(cluster: &Cluster) -> Option<String> {
    let needed = cluster.host_memory_of_processes();
    let host = cluster.host.memory;
    (cluster.device.class == DeviceClass::Gpu && host < needed).then(|| {
        format!(
            "The host of a node has {host}; the processes of its {} take about {needed} with the system, before \
             anything is offloaded: nothing can be kept on the host, and ranks may fail to start.",
            several("rank", cluster.devices_per_node)
        )
    })
}

/// That the ranks of a node, whose memory is its host's, take more than there is.
fn shared_memory(cluster: &Cluster, prediction: &Prediction) -> Option<String> {
    if cluster.device.class != DeviceClass::Cpu {
        return None;
    }
    let stages = prediction.ranks.len().max(1) as u64;
    let rank = |extent: Bytes, host: Bytes| extent + host;
    let stage_sum: Bytes =
        prediction.ranks.iter().map(|each| rank(each.extent_bytes, each.host_extent_bytes)).sum();
    let ranks = u64::from(cluster.devices_per_node);
    let needed = Bytes(
        u64::try_from(u128::from(stage_sum.0) * u128::from(ranks) / u128::from(stages)).unwrap_or(u64::MAX),
    );
    let host = cluster.host.memory;
    (needed > host).then(|| {
        format!(
            "The {ranks} ranks of a node take {needed} together, and its memory is {host}; they share it."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::engines::engine;
    use crate::strategy::Workload;
    use crate::{cluster, model};

    fn cautions(cluster: &Cluster, precision: ElementType) -> Vec<String> {
        let model = model::load("gpt2").unwrap();
        let workload = Workload { global_batch: 16, seq_len: 64, precision, dropout: 0.0, clip: 1.0 };
        of_problem(&Problem::new(&model, cluster, workload, engine("megatron").unwrap(), None))
    }

    #[test]
    fn emulated_types_are_said_with_what_the_device_has() {
        let of = |text: &str, precision| cautions(&cluster::load(text).unwrap(), precision);
        let volta = of("1x8xv100-sxm-32gb", ElementType::Bf16);
        assert!(volta[0].contains("no units for bf16") && volta[0].contains("--precision fp16"), "{volta:?}");
        for (text, precision) in [
            ("1x8xv100-sxm-32gb", ElementType::Fp16),
            ("1x8xa100-sxm-80gb", ElementType::Bf16),
            ("1x8xh100-sxm", ElementType::Fp8),
            ("1x8xmi300x", ElementType::Fp8),
            ("1x4xcpu", ElementType::Bf16),
        ] {
            assert_eq!(of(text, precision), [""; 0], "{text} {precision}");
        }
    }

    #[test]
    fn nodes_larger_than_boards_are_said_with_the_link_that_is_assumed() {
        let of = |text: &str| cautions(&cluster::load(text).unwrap(), ElementType::Bf16).concat();
        let large = of("1x16xh100-sxm");
        assert!(large.contains("built 8 to a node") && large.contains("2x8xh100-sxm"), "{large}");
        assert!(of("2x12xh100-sxm").contains("3x8xh100-sxm"));
        assert!(of("1x144xgb200").contains("36x4xgb200"));
        for text in ["1x72xgb200", "18x4xgb200", "1x8xh100-sxm", "1x64xcpu", "16x1xh100-sxm"] {
            assert_eq!(of(text), "", "{text}");
        }
        let mut own = cluster::load("1x16xh100-sxm").unwrap();
        own.levels[0].link.bandwidth = own.levels[0].link.bandwidth * 0.5;
        assert_eq!(cautions(&own, ElementType::Bf16), [""; 0], "the file says which link");
    }

    #[test]
    fn hosts_too_small_for_their_processes_are_said() {
        let mut cluster = cluster::load("1x8xh100-sxm").unwrap();
        cluster.host.memory = Bytes::gib(16);
        let said = cautions(&cluster, ElementType::Bf16).concat();
        assert!(said.contains("16.00 GiB") && said.contains("8 ranks"), "{said}");
        cluster.host.memory = cluster.host_memory_of_processes();
        assert_eq!(cautions(&cluster, ElementType::Bf16), [""; 0]);
    }
}
