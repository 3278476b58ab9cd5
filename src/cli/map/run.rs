//! `--tokens`, `--mtbf` and what goes with them: a run and its failures.

use super::super::error::CliError;
use super::super::quantity::{LEAST_COUNTED, RATES, Rule, TIMES, TOKENS, quantity};
use super::MapArgs;
use crate::plan::goodput::{CHECKPOINT_BANDWIDTH, Failures, RESTART_TIME, Run};
use crate::units::{BytesPerSecond, Seconds, Tokens};

/// A run with its syntax checked.
#[derive(Clone, Copy, Debug)]
pub struct RunRequest {
    tokens: Tokens,
    failures: Option<(Mtbf, Failures)>,
}

/// Whose failures a mean time is between.
#[derive(Clone, Copy, Debug)]
enum Mtbf {
    Job,
    Device,
}

impl RunRequest {
    /// What the flags say of a run; none where they say nothing.
    pub fn parse(args: &MapArgs) -> Result<Option<Self>, CliError> {
        let mtbf = match (&args.mtbf, &args.mtbf_device) {
            (Some(_), Some(device)) => {
                let rule = "--mtbf says how often the whole job fails; one of the two is needed";
                return Err(CliError::usage("mtbf-device", device, rule));
            }
            (Some(text), None) => Some((Mtbf::Job, positive_time("mtbf", text, &["h", "d", "m"])?)),
            (None, Some(text)) => Some((Mtbf::Device, positive_time("mtbf-device", text, &["y", "d", "h"])?)),
            (None, None) => None,
        };
        let beside = [
            ("checkpoint-interval", &args.checkpoint_interval),
            ("checkpoint-bandwidth", &args.checkpoint_bandwidth),
            ("restart-time", &args.restart_time),
        ];
        if mtbf.is_none()
            && let Some((flag, text)) =
                beside.into_iter().find_map(|(flag, text)| Some((flag, text.as_ref()?)))
        {
            return Err(CliError::usage(
                flag,
                text,
                "it says something only beside --mtbf, such as --mtbf 3h",
            ));
        }
        let Some(tokens) = &args.tokens else {
            let typed = args.mtbf.as_ref().map(|text| ("mtbf", text));
            let typed = typed.or_else(|| Some(("mtbf-device", args.mtbf_device.as_ref()?)));
            return match typed {
                None => Ok(None),
                Some((flag, text)) => {
                    let rule = "failures are those of a run, so its length is needed, such as --tokens 15T";
                    Err(CliError::usage(flag, text, rule))
                }
            };
        };
        let rule = Rule {
            is_legal: |_: &Tokens| true,
            legal: "from 1 to 1000T with K, M, B or T",
            example: "15T",
            spellings: TOKENS,
            units: &["T", "B", "M"],
            needs_unit: |tokens| tokens.0 < LEAST_COUNTED,
        };
        let tokens = quantity("tokens", tokens, &rule)?;
        let failures = match mtbf {
            None => None,
            Some((of, mtbf)) => Some((of, failures(args, mtbf)?)),
        };
        Ok(Some(Self { tokens, failures }))
    }

    /// The run on a cluster of `devices` devices, which is what `--mtbf` is of.
    pub fn on(self, devices: u64) -> Run {
        let failures = self.failures.map(|(of, failures)| match of {
            Mtbf::Device => failures,
            Mtbf::Job => Failures { device_mtbf: failures.device_mtbf * devices as f64, ..failures },
        });
        Run { tokens: self.tokens, failures }
    }
}

fn failures(args: &MapArgs, mtbf: Seconds) -> Result<Failures, CliError> {
    let interval = args.checkpoint_interval.as_ref();
    let interval =
        interval.map(|text| positive_time("checkpoint-interval", text, &["m", "h", "s"])).transpose()?;
    let bandwidth = args.checkpoint_bandwidth.as_ref().map(|text| {
        let rule = Rule {
            is_legal: |rate: &BytesPerSecond| rate.0 > 0.0,
            legal: "above 0 with a unit",
            example: "2GB/s",
            spellings: RATES,
            units: &["GB/s", "MB/s"],
            needs_unit: |_| true,
        };
        quantity("checkpoint-bandwidth", text, &rule)
    });
    let restart = args.restart_time.as_ref().map(|text| {
        let rule = Rule {
            is_legal: |_: &Seconds| true,
            legal: "of at least 0 with s, m, h, d or y",
            example: "10m",
            spellings: TIMES,
            units: &["m", "s", "h"],
            needs_unit: |time| time.0 > 0.0,
        };
        quantity("restart-time", text, &rule)
    });
    Ok(Failures {
        device_mtbf: mtbf,
        interval,
        bandwidth: bandwidth.transpose()?.unwrap_or(CHECKPOINT_BANDWIDTH),
        restart: restart.transpose()?.unwrap_or(RESTART_TIME),
    })
}

fn positive_time(field: &str, text: &str, units: &[&str]) -> Result<Seconds, CliError> {
    let rule = Rule {
        is_legal: |time: &Seconds| time.0 > 0.0,
        legal: "above 0 with s, m, h, d or y",
        example: "3h",
        spellings: TIMES,
        units,
        needs_unit: |_| true,
    };
    quantity(field, text, &rule)
}
