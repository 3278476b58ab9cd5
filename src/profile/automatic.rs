//! The engine that a plan is made for where none is named.

use super::coverage::evidence_table;
use super::device::{DeviceClass, DeviceModel};
use super::engine::EngineProfile;
use super::engines::{embedded, engine};

/// Engines that plans can be made for unless told otherwise, where none of our own runs is known.
const AUTOMATIC: [&str; 7] =
    ["torchtitan", "megatron", "nemo", "deepspeed", "colossalai", "nanotron", "maxtext"];

/// The engine for `device` where none is named, and why: our own backend where it has run or ranks are threads, else
/// the engine in use with most measured runs of quality A and B on the device, else torchtitan.
pub fn automatic(device: &DeviceModel) -> (&'static EngineProfile, String) {
    let table = evidence_table();
    if device.class == DeviceClass::Cpu {
        return (embedded(), "it runs on CPUs".to_owned());
    }
    if OWN.contains(&device.name.as_str()) {
        return (embedded(), format!("runs of it on {} were measured", device.name));
    }
    let count = |name: &str| {
        let runs = table.runs.iter();
        runs.filter(|run| run.engine == name && run.device == device.name).count()
    };
    let best = AUTOMATIC.iter().rev().max_by_key(|name| count(name)).copied().unwrap_or("torchtitan");
    let why = match count(best) {
        0 => format!("no engine has measured runs on {}", device.name),
        runs => format!("it has the most measured runs on {}, {runs}", device.name),
    };
    let name = if count(best) == 0 { "torchtitan" } else { best };
    (engine(name).unwrap_or_else(embedded), why)
}

/// Devices of which `traces/own/` has runs of our own backend.
const OWN: [&str; 1] = ["h200-sxm"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::profile::device_model;

    #[test]
    fn own_devices_are_those_of_our_own_traces() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/own");
        let mut devices = BTreeSet::new();
        for entry in fs::read_dir(folder).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            let trace: Value = serde_json::from_str(&text).unwrap();
            devices.extend(trace["plan"]["cluster"]["device"].as_str().map(str::to_owned));
        }
        assert_eq!(devices, OWN.iter().map(|name| (*name).to_owned()).collect());
    }

    #[test]
    fn our_backend_plans_for_what_it_ran_on() {
        let engine = |name: &str| automatic(&device_model(name).unwrap().0).0.name.clone();
        assert_eq!(engine("h200-sxm"), "embedded");
        assert_eq!(engine("cpu"), "embedded");
        assert_ne!(engine("h100-sxm"), "embedded");
        assert_eq!(engine("t4"), "torchtitan");
    }
}
