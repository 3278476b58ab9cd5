//! `--sweep`: which values of what.

use super::super::error::{CliError, Kind};
use super::super::number::whole_with;
use super::super::quantity::size;
use super::super::workload::{MOST_SEQ_LEN, MOST_SEQUENCES, limit};
use crate::cluster::ClusterError;
use crate::cluster::uniform::MOST_DEVICES;
use crate::profile::{Evidence, Sourced};
use crate::search::map::{Setting, Sweep, SweepKey};
use crate::spelling::nearest;
use crate::units::{Bytes, Kilo};

/// Values that may be listed; each is a search.
const MOST_VALUES: usize = 64;

/// The sweep with its syntax checked.
#[derive(Clone, Debug)]
pub struct SweepRequest {
    pub key: SweepKey,
    values: Values,
}

/// Numbers of devices, sequences, tokens or bytes.
#[derive(Clone, Debug)]
enum Values {
    /// Doublings, and both ends.
    Range(u64, u64),
    /// In ascending order.
    List(Vec<u64>),
}

impl SweepRequest {
    /// Reads `devices=8..4096` or `devices=8,64,96`.
    pub fn parse(text: &str) -> Result<Self, CliError> {
        let names = || SweepKey::ALL.into_iter().map(SweepKey::name);
        let (name, values) = text.split_once('=').ok_or_else(|| {
            let rule = format!(
                "a key with values is needed, such as devices=8..64 or devices=8,24; the keys are {}",
                names().collect::<Vec<_>>().join(", ")
            );
            CliError::usage("sweep", text, rule).or(["devices=8..64"])
        })?;
        let key = SweepKey::ALL.into_iter().find(|key| key.name() == name).ok_or_else(|| {
            let rule = format!("no such key; the keys are {}", names().collect::<Vec<_>>().join(", "));
            let near = nearest(name, names());
            CliError::usage("sweep", name, rule).or(if near.is_empty() {
                names().map(str::to_owned).collect()
            } else {
                near
            })
        })?;
        let values = match values.split_once("..") {
            Some((low, high)) => {
                let (from, to) = (number(key, low)?, number(key, high)?);
                if from > to {
                    let rule = "the range runs from the lower to the upper value";
                    return Err(CliError::usage("sweep", text, rule).or([format!("{name}={high}..{low}")]));
                }
                Values::Range(from, to)
            }
            None => {
                let mut list: Vec<u64> =
                    values.split(',').map(|value| number(key, value)).collect::<Result<_, _>>()?;
                list.sort_unstable();
                list.dedup();
                Values::List(list)
            }
        };
        match &values {
            Values::List(list) if list.len() > MOST_VALUES => {
                let rule = format!("{} values; at most {MOST_VALUES} are searched", list.len());
                Err(CliError::usage("sweep", text, rule))
            }
            _ => Ok(Self { key, values }),
        }
    }

    /// From one device to all of the cluster.
    pub fn all_devices(home: &Setting<'_>) -> Self {
        Self { key: SweepKey::Devices, values: Values::Range(1, home.cluster.devices()) }
    }

    /// The settings, each legal.
    pub fn settings<'a>(&self, home: &Setting<'a>) -> Result<Sweep<'a>, CliError> {
        let values = match (&self.values, self.key) {
            (Values::List(list), _) => list.clone(),
            (&Values::Range(low, high), SweepKey::Devices) => {
                for end in [low, high] {
                    resized(home, end)?;
                }
                home.cluster.counts(low, high)
            }
            (&Values::Range(low, high), _) => {
                let doublings = std::iter::successors(Some(low), |value| value.checked_mul(2));
                doublings.take_while(|value| *value < high).chain([high]).collect()
            }
        };
        let settings = values.into_iter().map(|value| self.setting(home, value));
        Ok(Sweep { key: self.key, settings: settings.collect::<Result<_, _>>()? })
    }

    fn setting<'a>(&self, home: &Setting<'a>, value: u64) -> Result<Setting<'a>, CliError> {
        let mut setting = home.clone();
        match self.key {
            SweepKey::Devices => return resized(home, value),
            SweepKey::Batch => setting.workload.global_batch = value,
            SweepKey::SeqLen => setting.workload.seq_len = value,
            SweepKey::Memory => {
                let source = "given by the sweep".to_owned();
                setting.cluster.device.memory =
                    Sourced { value: Bytes(value), kind: Evidence::Estimate, source };
            }
        }
        limit(home.model, &setting.workload)
            .map_err(|error| CliError { field: "sweep".to_owned(), ..error })?;
        Ok(setting)
    }
}

/// `home` with another number of devices.
fn resized<'a>(home: &Setting<'a>, devices: u64) -> Result<Setting<'a>, CliError> {
    let cluster = home.cluster.resized(devices).map_err(|error| match error {
        ClusterError::Value { value, rule, nearest, .. } => {
            let error = CliError::usage("sweep", &format!("devices={value}"), rule).or(nearest);
            CliError { kind: Kind::Input, value, ..error }
        }
        other => other.into(),
    })?;
    Ok(Setting { cluster, ..home.clone() })
}

fn number(key: SweepKey, text: &str) -> Result<u64, CliError> {
    let text = text.trim();
    let (most, kilo) = match key {
        SweepKey::Devices => (MOST_DEVICES, Kilo::Either),
        SweepKey::Batch => (MOST_SEQUENCES, Kilo::Either),
        SweepKey::SeqLen => (MOST_SEQ_LEN, Kilo::Binary),
        SweepKey::Memory => {
            return Ok(size("sweep", text)?.0);
        }
    };
    whole_with(kilo, "sweep", text, 1..=most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wrong_sweeps_say_what_would_do() {
        let error = |text: &str| SweepRequest::parse(text).unwrap_err();
        assert_eq!(error("device=8..64").nearest, ["devices"]);
        assert_eq!(error("devices=64..8").nearest, ["devices=8..64"]);
        assert_eq!(error("devices=0..8").nearest, ["1"]);
        assert_eq!(error("devices=8..").value, "");
        assert!(error("devices").message.contains("devices, batch, seq-len, memory"));
        assert_eq!(error("memory=40gigs").nearest, ["40GiB", "40GB"]);
        assert_eq!(error("memory=40..80GiB").nearest, ["40GiB", "40GB", "40B"]);
        let many: Vec<String> = (1..=65).map(|value: u64| value.to_string()).collect();
        assert!(error(&format!("batch={}", many.join(","))).message.contains("at most 64"));
    }

    proptest! {
        #[test]
        fn no_sweep_panics(text in "(devices|batch|seq-len|memory|x)?=?[0-9.,GiB-]{0,12}") {
            let _ = SweepRequest::parse(&text);
        }
    }
}
