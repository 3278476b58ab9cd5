//! Words that shells may offer for values that can be anything else as well: models, clusters, devices, engines, strategies.

use std::ffi::OsStr;
use std::sync::LazyLock;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

use crate::export::targets;
use crate::model::presets;
use crate::profile::choices::CheckpointMode;
use crate::profile::engines::{engine, engines_in_use};
use crate::profile::{device_model, device_models};
use crate::strategy::Key;

/// Takes any text; what it offers is for completions alone.
#[derive(Clone, Copy, Debug)]
pub struct Hinted(fn() -> Vec<PossibleValue>);

/// Presets. A file is a model too.
pub const MODEL: Hinted = Hinted(|| {
    presets().iter().map(|preset| PossibleValue::new(preset.name).help(preset.description)).collect()
});

/// A node of each device.
pub const CLUSTER: Hinted = Hinted(|| listed(&CLUSTERS));

/// Devices, and what is measured of this machine.
pub const DEVICE: Hinted = Hinted(|| {
    let own = PossibleValue::new("cuda").help("The GPU of this machine");
    device_models().map(|(name, title)| PossibleValue::new(name).help(title)).chain([own]).collect()
});

/// Engines that plans are made for, and words for several.
pub const ENGINE: Hinted = Hinted(|| {
    let several = [
        ("auto", "The one with most measured runs on the device"),
        ("all", "The best plan of each (plan only)"),
    ];
    let named = engines_in_use().map(|profile| (profile.name.as_str(), profile.title.as_str()));
    several.into_iter().chain(named).map(|(name, help)| PossibleValue::new(name).help(help)).collect()
});

/// Pairs of a strategy text, of sizes only their key.
pub const STRATEGY: Hinted = Hinted(|| listed(&PAIRS));

/// Keys that change numerics.
pub const FREE: Hinted = Hinted(|| {
    let keys = Key::ALL.iter().filter(|key| key.changes_numerics());
    keys.map(|key| PossibleValue::new(key.name()).help(key.doc())).collect()
});

/// Keys that a sweep may go over.
pub const SWEEP: Hinted =
    Hinted(|| ["devices=", "batch=", "seq-len=", "memory="].map(PossibleValue::new).to_vec());

/// Targets of `export`.
pub const TARGET: Hinted = Hinted(|| listed(&TARGETS));

/// Names that are made up of others, and what each is.
type Made = LazyLock<Vec<(String, &'static str)>>;

static CLUSTERS: Made = LazyLock::new(|| {
    let node = |(name, title)| {
        let devices = device_model(name).map_or(1, |(model, _)| model.devices_per_node.value);
        (format!("1x{devices}x{name}"), title)
    };
    device_models().map(node).collect()
});

static PAIRS: Made = LazyLock::new(|| {
    let pairs = |key: Key| {
        let values: Vec<&str> = match key {
            Key::Zero => vec!["0", "1", "2", "3"],
            Key::Checkpoint => CheckpointMode::ALL.iter().map(|mode| mode.name()).collect(),
            _ if key.words().is_empty() => vec![""],
            _ => key.words().into_iter().map(|(word, _)| word).collect(),
        };
        values.into_iter().map(move |value| (format!("{key}={value}"), key.doc()))
    };
    Key::ALL.iter().flat_map(|key| pairs(*key)).collect()
});

static TARGETS: Made = LazyLock::new(|| {
    let title = |name| engine(name).map_or("", |profile| profile.title.as_str());
    targets().map(|target| (target.text(), title(target.dialect.name()))).collect()
});

fn listed(names: &'static Made) -> Vec<PossibleValue> {
    names.iter().map(|(name, help)| PossibleValue::new(name.as_str()).help(*help)).collect()
}

impl TypedValueParser for Hinted {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter()))
    }
}
