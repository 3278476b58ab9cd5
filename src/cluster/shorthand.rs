//! `NODESxDEVICESxDEVICE`: a cluster in a word, such as `8x8xh100-sxm`.

use super::Cluster;
use super::error::ClusterError;
use super::uniform::MOST_DEVICES;
use crate::profile::{DeviceModel, device_model};

/// Whether `text` has the shape of a shorthand: two numbers, right or wrong, before the device's name.
pub fn is_shorthand(text: &str) -> bool {
    let number = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | '_' | ','))
    };
    parts(text).is_some_and(|(nodes, devices, _)| number(nodes) && number(devices))
}

/// The shorthand that a text of one count and a device, or of a device alone, may have meant.
pub fn meant(text: &str) -> Option<String> {
    let is_device = |name: &str| device_model(name).is_ok();
    let (count, device) = match text.split_once('x') {
        Some((count, device)) if is_device(device) && count.parse::<u32>().is_ok_and(|count| count > 0) => {
            (count.to_owned(), device)
        }
        _ if is_device(text) => (device_model(text).ok()?.0.devices_per_node.value.to_string(), text),
        _ => return None,
    };
    Some(format!("1x{count}x{device}"))
}

/// The device of a shorthand.
pub fn device(text: &str) -> Option<&str> {
    parts(text).map(|(_, _, device)| device)
}

/// Reads a shorthand; the device is one of the built-in cost models.
pub fn parse(text: &str) -> Result<Cluster, ClusterError> {
    let (nodes, devices) = counts(text)?;
    let model = device_model(device(text).unwrap_or_default())?;
    Ok(build(nodes, devices, model))
}

/// Reads the counts of a shorthand, for devices of `model`, which has the hash beside it.
pub fn parse_with(text: &str, model: (DeviceModel, String)) -> Result<Cluster, ClusterError> {
    let (nodes, devices) = counts(text)?;
    Ok(build(nodes, devices, model))
}

fn build(nodes: u32, devices: u32, (model, hash): (DeviceModel, String)) -> Cluster {
    Cluster::uniform(format!("{nodes}x{devices}x{}", model.name), nodes, devices, model, hash)
}

fn counts(text: &str) -> Result<(u32, u32), ClusterError> {
    let (nodes, devices, _) =
        parts(text).ok_or_else(|| ClusterError::NotACluster { text: text.to_owned(), nearest: None })?;
    let nodes = count(text, "nodes", nodes, MOST_DEVICES)?;
    let devices = count(text, "devices per node", devices, MOST_DEVICES / u64::from(nodes))?;
    Ok((nodes, devices))
}

/// The three parts; the device's name may itself hold an `x`.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let (nodes, rest) = text.split_once('x')?;
    let (devices, device) = rest.split_once('x')?;
    Some((nodes, devices, device))
}

/// A whole number from 1 to `most`.
fn count(text: &str, field: &'static str, value: &str, most: u64) -> Result<u32, ClusterError> {
    let error =
        |nearest| ClusterError::Count { text: text.to_owned(), field, value: value.to_owned(), nearest };
    if !value.is_empty() && value.bytes().all(|digit| digit.is_ascii_digit()) {
        // More digits than a number holds is more than `most` too.
        return match value.parse::<u64>() {
            Ok(0) => Err(error(1)),
            Ok(count) if count <= most => u32::try_from(count).map_err(|_| error(most)),
            Ok(_) | Err(_) => Err(error(most)),
        };
    }
    let real = value.parse::<f64>().unwrap_or(1.0);
    // The cast saturates, and turns what is no number into 0.
    Err(error((real.round() as u64).clamp(1, most)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::profile::device_models;

    #[test]
    fn eight_nodes_of_h100() {
        let cluster = parse("8x8xh100-sxm").unwrap();
        assert_eq!((cluster.nodes, cluster.devices_per_node, cluster.devices()), (8, 8, 64));
        assert_eq!(cluster.name, "8x8xh100-sxm");
        let [fast, network] = cluster.levels.as_slice() else { panic!("two levels") };
        assert_eq!((fast.name.as_str(), fast.span), ("scale-up", 8));
        assert_eq!((network.name.as_str(), network.span), ("network", 64));
        let sustained =
            |link: &crate::profile::device::LinkModel| link.bandwidth.value.0 * link.efficiency.value;
        assert_eq!(fast.link.bandwidth.0, sustained(&cluster.device.scale_up.link));
        assert_eq!(network.link.bandwidth.0, sustained(&cluster.device.network));
        assert_eq!(cluster.host_link.bandwidth.0, sustained(&cluster.device.host_link));
        assert_eq!(cluster.cost_model_hash.len(), 64);
    }

    #[test]
    fn one_node_has_one_level() {
        let cluster = parse("1x4xcpu").unwrap();
        assert_eq!(cluster.levels.len(), 1);
        assert_eq!(cluster.levels[0].span, 4);
        assert_eq!(parse("1x1xrtx-4090").unwrap().levels[0].span, 1);
        assert_eq!(parse("2x8xmi300x").unwrap().device.name, "mi300x");
    }

    #[test]
    fn racks_join_nodes() {
        let spans =
            |text: &str| parse(text).unwrap().levels.iter().map(|level| level.span).collect::<Vec<_>>();
        assert_eq!(spans("18x4xgb200"), [72]);
        assert_eq!(spans("36x4xgb200"), [72, 144]);
        assert_eq!(spans("2x4xgb300"), [8]);
        // 72 does not divide 128: 16 trays of each rack are used.
        assert_eq!(spans("32x4xgb200"), [64, 128]);
        assert_eq!(spans("19x4xgb200"), [4, 76]);
    }

    #[test]
    fn wrong_counts_name_the_nearest() {
        let nearest = |text: &str| {
            let error = parse(text).unwrap_err();
            (error.field().to_owned(), error.value(), error.nearest()[0].clone())
        };
        let is = |field: &str, value: &str, nearest: &str| {
            (field.to_owned(), value.to_owned(), nearest.to_owned())
        };
        assert_eq!(nearest("0x8xh100-sxm"), is("nodes", "0", "1"));
        assert_eq!(nearest("-2x8xh100-sxm"), is("nodes", "-2", "1"));
        assert_eq!(nearest("8x2.6xh100-sxm"), is("devices per node", "2.6", "3"));
        assert_eq!(nearest("xx"), is("nodes", "", "1"));
        assert_eq!(nearest("1048577x1xcpu"), is("nodes", "1048577", "1048576"));
        assert_eq!(nearest("1024x1025xcpu"), is("devices per node", "1025", "1024"));
        assert_eq!(nearest("99999999999999999999999x1xcpu").2, "1048576");
        assert_eq!(parse("1024x1024xcpu").unwrap().devices(), MOST_DEVICES);
        assert_eq!(
            parse("0x8xh100-sxm").unwrap_err().to_string(),
            "cluster `0x8xh100-sxm`: nodes is `0`; nearest legal: 1"
        );
    }

    #[test]
    fn unknown_devices_name_the_nearest() {
        let error = parse("8x8xh100").unwrap_err();
        assert_eq!(error.field(), "device");
        assert_eq!(error.value(), "h100");
        assert_eq!(error.nearest()[0], "h100-sxm");
    }

    #[test]
    fn a_shorthand_without_nodes_is_understood() {
        assert_eq!(meant("8xh100-sxm").as_deref(), Some("1x8xh100-sxm"));
        assert_eq!(meant("gb200").as_deref(), Some("1x4xgb200"));
        assert_eq!((meant("0xh100-sxm"), meant("eight"), meant("")), (None, None, None));
    }

    #[test]
    fn paths_are_no_shorthand() {
        assert!(is_shorthand("8x8xh100-sxm"));
        assert!(is_shorthand("-1x0.5xnothing"));
        assert!(!is_shorthand("cluster.json"));
        assert!(!is_shorthand("xxx"));
        assert!(!is_shorthand("8xh100-sxm"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,24}") {
            let _ = parse(&text);
        }

        #[test]
        fn no_shape_panics(nodes in "[-+.0-9e]{0,22}", devices in "[-+.0-9e]{0,22}", device in "[a-z0-9-]{0,12}") {
            let _ = parse(&format!("{nodes}x{devices}x{device}"));
        }

        #[test]
        fn names_read_back(nodes in 1u32..1024, devices in 1u32..1024, pick in any::<prop::sample::Index>()) {
            let names: Vec<_> = device_models().map(|(name, _)| name).collect();
            let cluster = parse(&format!("{nodes}x{devices}x{}", names[pick.index(names.len())])).unwrap();
            prop_assert_eq!(&parse(&cluster.name).unwrap(), &cluster);
            prop_assert_eq!(cluster.levels.last().unwrap().span, cluster.devices());
            prop_assert!(cluster.levels.windows(2).all(|pair| pair[1].span % pair[0].span == 0));
        }
    }
}
