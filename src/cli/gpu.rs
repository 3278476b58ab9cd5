//! `execute --device cuda`: which built-in cost model knows the GPU of this machine, and what is said of a plan for another
//! device.

use super::machine::Source;
use super::output::say;
use crate::cluster::Cluster;
use crate::execute::device::cuda::survey;
use crate::plan::shell::quoted;
use crate::profile::device::DeviceClass;
use crate::profile::device_named;

/// What predicts where nobody knows the GPU.
const USUAL: &str = "h100-sxm";

fn first_card() -> Option<String> {
    survey::cards().into_iter().next()
}

/// Says which GPU ranks run on, where this machine has several kinds.
pub fn warn_of_several_kinds() {
    let cards = survey::cards();
    if let [first, others @ ..] = cards.as_slice()
        && let Some(other) = others.iter().find(|other| *other != first)
    {
        say(&format!("GPUs of several kinds: all ranks run on cuda:0, {first}; {other} is left alone"));
    }
}

/// The cost model of what is planned here for the GPU.
pub fn own() -> Source {
    Source::BuiltIn(first_card().and_then(|card| device_named(&card).ok()).unwrap_or(USUAL))
}

/// The cost model that predicts a plan for `cluster` on the GPU, where that is another device than the plan's. Says so, and
/// how to plan for the GPU. Where there is no GPU, the run says it.
pub fn instead_of(cluster: &Cluster) -> Option<Source> {
    let (card, planned) = (first_card()?, &cluster.device.name);
    let Ok(known) = device_named(&card) else {
        let base = if cluster.device.class == DeviceClass::Gpu { planned } else { USUAL };
        say(&format!(
            "the plan is for {planned}, and no built-in cost model is of this GPU, {card}: times are predicted for \
             {planned}; measure this one: meshwright calibrate --device cuda --base {base} --out gpu.json"
        ));
        return None;
    };
    if known == planned {
        return None;
    }
    let wanted = format!("{}x{}x{known}", cluster.nodes, cluster.devices_per_node);
    say(&format!(
        "the plan is for {planned}, and this GPU is {card}: another plan may be better on it; to plan anew, say \
         --cluster {} to meshwright plan",
        quoted(&wanted)
    ));
    Some(Source::BuiltIn(known))
}
