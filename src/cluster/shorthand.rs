//! `NODESxDEVICESxDEVICE`: a cluster in a word, such as `8x8xh100-sxm`.

use super::Cluster;
use super::error::ClusterError;
use super::uniform::MOST_DEVICES;
use crate::profile::device::DeviceClass;
use crate::profile::{DeviceModel, device_model, device_named};

/// Whether `text` has the shape of a shorthand: two numbers, right or wrong, before the device's name.
pub fn is_shorthand(text: &str) -> bool {
    parts(text).is_some_and(|(nodes, devices, _)| is_number(nodes) && is_number(devices))
}

/// `text` with the nodes that it leaves out: `8xh100-sxm` is one node, and `64xh100-sxm` eight of the usual size. None
/// where `text` has another shape, or no number of whole nodes has so many devices.
pub fn with_nodes(text: &str) -> Option<String> {
    let (count, device) = split_at_times(text)?;
    // A count that is no number, as in `1x1e3xh100-sxm`, is none that was left out.
    let is_counted =
        split_at_times(device).is_some_and(|(count, _)| count.starts_with(|c: char| c.is_ascii_digit()));
    if !is_number(count) || is_counted || is_shorthand(text) {
        return None;
    }
    let wanted: u64 = count.parse().unwrap_or(0);
    let node = usual_node(device).filter(|&node| wanted > node);
    match node {
        None => Some(format!("1x{count}x{device}")),
        Some(node) if wanted.is_multiple_of(node) => Some(format!("{}x{node}x{device}", wanted / node)),
        Some(_) => None,
    }
}

/// The shorthands that a text may have meant which is none: a device alone, a device before its count, more devices than
/// are in a node and no whole nodes.
pub fn meant(text: &str) -> Vec<String> {
    if let Ok(name) = device_named(text) {
        let node = usual_node(name).unwrap_or(1);
        return vec![format!("1x{node}x{name}")];
    }
    let around = |at: usize| (&text[..at], text[at..].trim_start_matches(['x', 'X', '×', ':', '*', ' ']));
    let is_sign = |c: char| matches!(c, 'x' | 'X' | '×' | ':' | '*' | ' ');
    let mut pairs = text.char_indices().filter(|(_, c)| is_sign(*c)).map(|(at, _)| around(at));
    let pair = pairs.find_map(|(one, other)| {
        let named = |count: &str, device: &str| {
            Some((count.trim().parse::<u64>().ok().filter(|&count| count > 0)?, device_named(device).ok()?))
        };
        named(one, other).or_else(|| named(other, one))
    });
    let Some((count, name)) = pair else { return Vec::new() };
    match usual_node(name).filter(|&node| count > node && !count.is_multiple_of(node)) {
        None => with_nodes(&format!("{count}x{name}")).into_iter().collect(),
        Some(node) => {
            let few = count / node;
            [few, few + 1].map(|nodes| format!("{nodes}x{node}x{name}")).to_vec()
        }
    }
}

/// Devices that are built into a node of `device`; none where ranks are threads, or the device is not known.
fn usual_node(device: &str) -> Option<u64> {
    let (model, _) = device_model(device_named(device).ok()?).ok()?;
    (model.class == DeviceClass::Gpu).then_some(u64::from(model.devices_per_node.value))
}

/// Whether `part` is in the place of a count, right or wrong.
fn is_number(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | '_' | ','))
}

/// The device of a shorthand.
pub fn device(text: &str) -> Option<&str> {
    parts(text).map(|(_, _, device)| device)
}

/// Reads a shorthand; the device is one of the built-in cost models.
pub fn parse(text: &str) -> Result<Cluster, ClusterError> {
    let (nodes, devices) = counts(text)?;
    let model = device_model(device_named(device(text).unwrap_or_default())?)?;
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
    let (nodes, devices, _) = parts(text)
        .ok_or_else(|| ClusterError::NotACluster { text: text.to_owned(), nearest: Vec::new() })?;
    let nodes = count(text, "nodes", nodes, MOST_DEVICES)?;
    let devices = count(text, "devices per node", devices, MOST_DEVICES / u64::from(nodes))?;
    Ok((nodes, devices))
}

/// The three parts; the device's name may itself hold an `x`.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let (nodes, rest) = split_at_times(text)?;
    let (devices, device) = split_at_times(rest)?;
    Some((nodes, devices, device))
}

/// The text before and after the first sign of multiplication.
fn split_at_times(text: &str) -> Option<(&str, &str)> {
    let (before, after) = text.split_once(['x', 'X', '×'])?;
    Some((before.trim(), after.trim()))
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
        let error = parse("8x8xh1000").unwrap_err();
        assert_eq!(error.field(), "device");
        assert_eq!(error.value(), "h1000");
        assert_eq!(error.nearest()[0], "h100-sxm");
    }

    #[test]
    fn short_names_of_devices_are_understood() {
        assert_eq!(parse("8x8xh100").unwrap(), parse("8x8xh100-sxm").unwrap());
        assert_eq!(parse("8X8XH100-SXM").unwrap(), parse("8x8xh100-sxm").unwrap());
        assert_eq!(parse("2 x 8 × NVIDIA RTX 4090").unwrap(), parse("2x8xrtx-4090").unwrap());
        let error = parse("1x8xa100").unwrap_err();
        assert!(
            error.to_string().starts_with("device `a100` may be any of a100-sxm-80gb, a100-sxm-40gb"),
            "{error}"
        );
    }

    #[test]
    fn a_shorthand_without_nodes_is_understood() {
        let nodes = |text: &str| with_nodes(text).map(|text| parse(&text).unwrap().name);
        assert_eq!(nodes("8xh100-sxm").as_deref(), Some("1x8xh100-sxm"));
        assert_eq!(nodes("64xH100").as_deref(), Some("8x8xh100-sxm"));
        assert_eq!(nodes("4x4090").as_deref(), Some("1x4xrtx-4090"));
        assert_eq!(nodes("64xcpu").as_deref(), Some("1x64xcpu"));
        assert_eq!(nodes("12xh100-sxm"), None);
        assert_eq!(meant("12xh100-sxm"), ["1x8xh100-sxm", "2x8xh100-sxm"]);
        assert_eq!(meant("gb200"), ["1x4xgb200"]);
        for text in ["h100-sxm:16", "H100 x 16", "16*h100", "16 h100"] {
            assert_eq!(meant(text), ["2x8xh100-sxm"], "{text}");
        }
        assert_eq!((meant("eight"), meant(""), meant("é×x")), (vec![], vec![], vec![]));
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
