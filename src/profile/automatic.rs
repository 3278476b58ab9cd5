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
    let own = table.runs.iter().any(|run| run.family == OWN && run.device == device.name);
    if device.class == DeviceClass::Cpu {
        return (embedded(), "it runs on CPUs".to_owned());
    }
    if own {
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

/// The family of runs that our own backend measured.
const OWN: &str = "own";
