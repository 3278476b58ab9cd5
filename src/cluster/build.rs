//! From a cluster document to the cluster: defaults from the cost model, and what must hold.

use super::file::{ClusterDocument, LevelDocument};
use super::uniform::MOST_DEVICES;
use super::{Cluster, ClusterError, Level, Link};
use crate::profile::catalog::sha256;
use crate::profile::{DeviceModel, Evidence, ProfileError, Sourced, device_model, device_named};
use crate::spelling::nearest;
use crate::units::BytesPerSecond;

impl ClusterDocument {
    /// The cluster that the document describes; the first thing that cannot be is an error.
    pub fn cluster(&self) -> Result<Cluster, ClusterError> {
        if self.version != 1 {
            return Err(value("version", self.version, "1 is read", ["1".to_owned()]));
        }
        let nodes = at_least_one("nodes", self.nodes)?;
        let devices_per_node = at_least_one("devices_per_node", self.devices_per_node)?;
        let devices = u64::from(nodes) * u64::from(devices_per_node);
        if devices > MOST_DEVICES {
            let rule = format!("at most {MOST_DEVICES} devices are possible");
            return Err(value("nodes x devices_per_node", devices, &rule, [MOST_DEVICES.to_string()]));
        }
        let (mut model, hash) = self.model()?;
        if let Some(memory) = self.memory {
            at_least_one("memory", memory.0.0)?;
            let source = format!("given by cluster `{}`", self.name);
            model.memory = Sourced { value: memory.0, kind: Evidence::Estimate, source };
        }
        let mut cluster = Cluster::uniform(self.name.clone(), nodes, devices_per_node, model, hash);
        self.set_host(&mut cluster)?;
        if let Some(levels) = &self.levels {
            cluster.levels = build_levels(levels, &cluster)?;
        }
        self.set_slower(&mut cluster)?;
        Ok(cluster)
    }

    /// The cost model and the hash of its text.
    fn model(&self) -> Result<(DeviceModel, String), ClusterError> {
        let Some(model) = &self.device_model else {
            if let Some(hash) = &self.cost_model_hash {
                let (model, built_in) = device_model(&self.device)?;
                let rule = format!("the built-in cost model `{}` has {built_in}", self.device);
                return if *hash == built_in {
                    Ok((model, built_in))
                } else {
                    Err(value("cost_model_hash", hash, &rule, [built_in]))
                };
            }
            return Ok(device_model(device_named(&self.device)?)?);
        };
        model.validate()?;
        if model.name != self.device {
            let rule = format!("device_model is of `{}`", model.name);
            return Err(value("device", &self.device, &rule, [model.name.clone()]));
        }
        let hash = match &self.cost_model_hash {
            Some(hash) => hash.clone(),
            None => {
                let text = serde_json::to_string(model).map_err(|error| ProfileError::Json(error.into()))?;
                sha256(&text)
            }
        };
        Ok((model.clone(), hash))
    }

    fn set_host(&self, cluster: &mut Cluster) -> Result<(), ClusterError> {
        if let Some(host) = &self.host {
            if let Some(memory) = host.memory {
                at_least_one("host.memory", memory.0.0)?;
                cluster.host.memory = memory.0;
            }
            if let Some(bandwidth) = host.memory_bandwidth {
                cluster.host.memory_bandwidth = positive("host.memory_bandwidth", bandwidth.0)?;
            }
            if let Some(cores) = host.cores {
                cluster.host.cores = at_least_one("host.cores", cores)?;
            }
        }
        if let Some(link) = &self.host_link {
            cluster.host_link.bandwidth = positive("host_link.bandwidth", link.bandwidth.0)?;
            cluster.host_link.latency = link.latency.map_or(cluster.host_link.latency, |latency| latency.0);
        }
        Ok(())
    }

    fn set_slower(&self, cluster: &mut Cluster) -> Result<(), ClusterError> {
        let devices = cluster.devices();
        for (at, slower) in self.slower.iter().enumerate() {
            let field = |name: &str| format!("slower[{at}].{name}");
            let Some(place) = cluster.levels.iter().position(|level| level.name == slower.level) else {
                let near = nearest(&slower.level, cluster.levels.iter().map(|level| level.name.as_str()));
                return Err(value(field("level"), &slower.level, "no level has this name", near));
            };
            let inner_span = if place == 0 { 1 } else { cluster.levels[place - 1].span };
            let domains = devices / inner_span;
            let level = &mut cluster.levels[place];
            if slower.domain >= domains {
                let rule = format!("level `{}` joins {domains} of them, counted from 0", level.name);
                return Err(value(field("domain"), slower.domain, &rule, [(domains - 1).to_string()]));
            }
            if level.slower.iter().any(|(domain, _)| *domain == slower.domain) {
                return Err(value(field("domain"), slower.domain, "it is given twice", []));
            }
            let bandwidth = positive(&field("bandwidth"), slower.bandwidth.0)?;
            if bandwidth >= level.link.bandwidth {
                let rule =
                    format!("level `{}` has {}, and this is not slower", level.name, level.link.bandwidth);
                return Err(value(field("bandwidth"), bandwidth, &rule, []));
            }
            level.slower.push((slower.domain, bandwidth));
        }
        Ok(())
    }
}

/// The levels of a document: named once each, spans nested, the last over all devices.
fn build_levels(documents: &[LevelDocument], cluster: &Cluster) -> Result<Vec<Level>, ClusterError> {
    let devices = cluster.devices();
    let mut levels: Vec<Level> = Vec::with_capacity(documents.len());
    for (at, document) in documents.iter().enumerate() {
        let field = |name: &str| format!("levels[{at}].{name}");
        if document.name.is_empty() || levels.iter().any(|level| level.name == document.name) {
            return Err(value(
                field("name"),
                format!("`{}`", document.name),
                "each level needs its own name",
                [],
            ));
        }
        let inner = levels.last().map_or(1, |level| level.span);
        let nests = document.span > 0
            && document.span.is_multiple_of(inner)
            && devices.is_multiple_of(document.span)
            && (levels.is_empty() || document.span > inner);
        if !nests {
            let rule =
                format!("it must divide the {devices} devices and be a multiple of the next inner span");
            let least = if levels.is_empty() { 1 } else { inner + 1 };
            return Err(value(
                field("span"),
                document.span,
                &rule,
                spans(document.span, inner, least, devices),
            ));
        }
        let default = if at == 0 { &cluster.device.scale_up.link } else { &cluster.device.network };
        let latency = document.latency.map_or(default.latency.value, |latency| latency.0);
        let bandwidth = bandwidth(document, &field, cluster)?;
        let ring_loss = default.ring_loss.as_ref().map_or(0.0, |loss| loss.value);
        let link = Link { bandwidth, latency, ring_loss };
        levels.push(Level { name: document.name.clone(), span: document.span, link, slower: Vec::new() });
    }
    match levels.last() {
        None => Err(value("levels", "[]", "at least one level is needed", [])),
        Some(last) if last.span < devices => {
            let field = format!("levels[{}].span", levels.len() - 1);
            Err(value(field, last.span, "the last level must span all devices", [devices.to_string()]))
        }
        Some(_) => Ok(levels),
    }
}

/// The legal span next below and next above a wrong one.
fn spans(wrong: u64, inner: u64, least: u64, devices: u64) -> Vec<String> {
    let legal = |span: &u64| span.is_multiple_of(inner) && devices.is_multiple_of(*span);
    let below = (least..wrong.min(devices + 1)).rev().find(legal);
    let above = (wrong.max(least)..=devices).find(legal);
    below.into_iter().chain(above).map(|span| span.to_string()).collect()
}

/// What one device sustains on a level: given, or its share of the node's adapters.
fn bandwidth(
    document: &LevelDocument,
    field: &dyn Fn(&str) -> String,
    cluster: &Cluster,
) -> Result<BytesPerSecond, ClusterError> {
    match (document.bandwidth, &document.nics) {
        (Some(bandwidth), None) => positive(&field("bandwidth"), bandwidth.0),
        (None, Some(nics)) => {
            let count = at_least_one(&field("nics.per_node"), nics.per_node)?;
            let rated = positive(&field("nics.bandwidth"), nics.bandwidth.0)?;
            let efficiency = nics.efficiency.unwrap_or(cluster.device.network.efficiency.value);
            if !(efficiency > 0.0 && efficiency <= 1.0) {
                let rule = "a share above 0 and at most 1 is needed";
                return Err(value(field("nics.efficiency"), efficiency, rule, ["1".to_owned()]));
            }
            Ok(rated * (f64::from(count) * efficiency / f64::from(cluster.devices_per_node)))
        }
        (Some(bandwidth), Some(_)) => {
            Err(value(field("bandwidth"), bandwidth.0, "either bandwidth or nics may be given", []))
        }
        (None, None) => Err(value(field("bandwidth"), "left out", "bandwidth or nics is needed", [])),
    }
}

fn value(
    field: impl Into<String>,
    is: impl ToString,
    rule: &str,
    nearest: impl IntoIterator<Item = String>,
) -> ClusterError {
    ClusterError::Value {
        field: field.into(),
        value: is.to_string(),
        rule: rule.to_owned(),
        nearest: nearest.into_iter().collect(),
    }
}

fn at_least_one<T: Copy + PartialOrd + From<u8> + ToString>(
    field: &str,
    count: T,
) -> Result<T, ClusterError> {
    if count >= T::from(1) {
        Ok(count)
    } else {
        Err(value(field, count, "at least 1 is needed", ["1".to_owned()]))
    }
}

fn positive(field: &str, rate: BytesPerSecond) -> Result<BytesPerSecond, ClusterError> {
    if rate.0.is_finite() && rate.0 > 0.0 {
        Ok(rate)
    } else {
        Err(value(field, rate, "a bandwidth above 0 is needed", []))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cluster::shorthand;
    use crate::units::{Bytes, Seconds};

    const UNEQUAL: &str = r#"{
        "version": 1, "name": "lab", "device": "h100-sxm", "nodes": 4, "devices_per_node": 8,
        "memory": "64GiB",
        "host": { "memory": "512GiB", "cores": 64 },
        "host_link": { "bandwidth": "25GB/s" },
        "levels": [
            { "name": "nvlink", "span": 8, "bandwidth": 3.6e11, "latency": "2us" },
            { "name": "leaf", "span": 16, "nics": { "per_node": 4, "bandwidth": "400Gb/s", "efficiency": 0.9 } },
            { "name": "spine", "span": 32, "bandwidth": "10GB/s" }
        ],
        "slower": [{ "level": "leaf", "domain": 3, "bandwidth": "100Gb/s" }]
    }"#;

    fn read(text: &str) -> Result<Cluster, ClusterError> {
        ClusterDocument::parse(text)?.cluster()
    }

    #[test]
    fn a_file_overrides_the_cost_model() {
        let cluster = read(UNEQUAL).unwrap();
        assert_eq!(cluster.name, "lab");
        assert_eq!(cluster.device.memory.value, Bytes::gib(64));
        assert_eq!((cluster.host.memory, cluster.host.cores), (Bytes::gib(512), 64));
        assert_eq!(cluster.host.memory_bandwidth.0, 614.4e9);
        assert_eq!(cluster.host_link.bandwidth.0, 25e9);
        let [nvlink, leaf, spine] = cluster.levels.as_slice() else { panic!("three levels") };
        assert_eq!((nvlink.link.bandwidth.0, nvlink.link.latency), (3.6e11, Seconds(2e-6)));
        // 4 adapters of 50 GB/s for 8 devices.
        assert!((leaf.link.bandwidth.0 - 22.5e9).abs() < 1.0);
        assert_eq!(leaf.slower, [(3, BytesPerSecond(12.5e9))]);
        assert_eq!(leaf.link.latency, cluster.device.network.latency.value);
        assert_eq!((spine.span, spine.link.bandwidth.0), (32, 1e10));
        assert_eq!(cluster.slowest_bandwidths(&[16, 24])[1].0, 12.5e9);
        assert_eq!(cluster.members_per_domain(&[0, 8, 16, 24]), [1, 2, 4]);
    }

    #[test]
    fn what_is_left_out_is_the_shorthand() {
        let text =
            r#"{"version":1,"name":"2x8xb200-sxm","device":"b200-sxm","nodes":2,"devices_per_node":8}"#;
        assert_eq!(read(text).unwrap(), shorthand::parse("2x8xb200-sxm").unwrap());
    }

    #[test]
    fn documents_read_back_equal() {
        let uniform = shorthand::parse("36x4xgb300").unwrap();
        for cluster in [uniform, read(UNEQUAL).unwrap()] {
            let text = serde_json::to_string(&ClusterDocument::of(&cluster)).unwrap();
            assert_eq!(read(&text).unwrap(), cluster);
        }
    }

    #[test]
    fn an_inline_cost_model_needs_no_catalogue() {
        let mut cluster = shorthand::parse("1x2xcpu").unwrap();
        cluster.device.name = "cpu-here".to_owned();
        let mut document = ClusterDocument::of(&cluster);
        assert_eq!(document.cluster().unwrap(), cluster);
        document.cost_model_hash = None;
        assert_eq!(document.cluster().unwrap().cost_model_hash.len(), 64);
        document.device = "cpu".to_owned();
        assert_eq!(document.cluster().unwrap_err().field(), "device");
        document.device_model = None;
        document.cost_model_hash = Some("0".to_owned());
        assert_eq!(document.cluster().unwrap_err().field(), "cost_model_hash");
    }

    #[test]
    fn wrong_values_are_named_with_the_nearest() {
        let wrong = |from: &str, to: &str| {
            assert!(UNEQUAL.contains(from), "{from}");
            let error = read(&UNEQUAL.replace(from, to)).unwrap_err();
            (error.field().to_owned(), error.value(), error.nearest())
        };
        let is = |field: &str, value: &str, nearest: &[&str]| {
            (
                field.to_owned(),
                value.to_owned(),
                nearest.iter().map(|&near| near.to_owned()).collect::<Vec<_>>(),
            )
        };
        assert_eq!(wrong("\"version\": 1", "\"version\": 2"), is("version", "2", &["1"]));
        assert_eq!(wrong("\"nodes\": 4", "\"nodes\": 0"), is("nodes", "0", &["1"]));
        assert_eq!(wrong("h100-sxm", "h100-sxn").2[0], "h100-sxm");
        assert_eq!(wrong("64GiB", "0GiB"), is("memory", "0", &["1"]));
        assert_eq!(wrong("\"span\": 16", "\"span\": 12"), is("levels[1].span", "12", &["16"]));
        assert_eq!(wrong("\"span\": 16", "\"span\": 8"), is("levels[1].span", "8", &["16"]));
        assert_eq!(wrong("\"span\": 16", "\"span\": 24"), is("levels[1].span", "24", &["16", "32"]));
        assert_eq!(wrong("\"span\": 32", "\"span\": 64"), is("levels[2].span", "64", &["32"]));
        assert_eq!(wrong("\"span\": 8", "\"span\": 0"), is("levels[0].span", "0", &["1"]));
        assert_eq!(wrong("\"leaf\", \"span\"", "\"nvlink\", \"span\"").0, "levels[1].name");
        assert_eq!(wrong("0.9", "1.5"), is("levels[1].nics.efficiency", "1.5", &["1"]));
        assert_eq!(wrong("\"bandwidth\": \"10GB/s\"", "\"latency\": 1").0, "levels[2].bandwidth");
        assert_eq!(wrong("\"leaf\", \"domain\"", "\"leave\", \"domain\"").2[0], "leaf");
        assert_eq!(wrong("\"domain\": 3", "\"domain\": 4"), is("slower[0].domain", "4", &["3"]));
        assert_eq!(wrong("100Gb/s", "400GB/s").0, "slower[0].bandwidth");
        assert_eq!(wrong("3.6e11", "0").0, "levels[0].bandwidth");
        assert_eq!(wrong("\"nodes\": 4", "\"nodes\": 4194304").2, ["1048576"]);
    }

    #[test]
    fn the_last_level_spans_all() {
        let text = UNEQUAL
            .replace(",\n            { \"name\": \"spine\", \"span\": 32, \"bandwidth\": \"10GB/s\" }", "");
        let error = read(&text).unwrap_err();
        assert_eq!((error.field(), error.nearest()), ("levels[1].span", vec!["32".to_owned()]));
    }

    #[test]
    fn json_that_is_wrong_is_told_apart_from_json_that_ends() {
        assert!(matches!(read("{}"), Err(ClusterError::Json(_))));
        assert!(matches!(read("[]"), Err(ClusterError::Json(_))));
        assert!(matches!(read(&UNEQUAL.replace("\"cores\"", "\"core\"")), Err(ClusterError::Json(_))));
        assert!(matches!(read(&UNEQUAL.replace("64GiB", "much")), Err(ClusterError::Json(_))));
        assert!(matches!(
            read(&UNEQUAL.replace("\"nodes\": 4", "\"nodes\": -4")),
            Err(ClusterError::Json(_))
        ));
    }

    proptest! {
        #[test]
        fn cut_off_files_are_errors(at in 0..UNEQUAL.len()) {
            // A number that ends early (`3.`) is wrong rather than unfinished to the JSON reader.
            let error = read(&UNEQUAL[..at]).unwrap_err();
            prop_assert!(matches!(error, ClusterError::CutOff(_) | ClusterError::Json(_)));
        }
    }
}
