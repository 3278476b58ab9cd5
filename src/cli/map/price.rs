//! `--price`: what devices cost an hour.

use super::super::error::CliError;
use crate::profile::device_named;
use crate::units::Price;

/// Prices by device; the one without a device is of all.
#[derive(Debug, Default)]
pub struct Prices(Vec<(Option<String>, Price)>);

impl Prices {
    /// Reads `DEVICE=2.5/h` or `2.5` of each text.
    pub fn parse(texts: &[String]) -> Result<Self, CliError> {
        let mut list: Vec<(Option<String>, Price)> = Vec::new();
        for text in texts {
            let (device, price) = match text.rsplit_once('=') {
                Some((device, price)) => (Some(device.to_owned()), price),
                None => (None, text.as_str()),
            };
            let price = price.parse::<Price>().map_err(|_| {
                CliError::usage("price", text, "a price above 0 is needed, such as 2.5/h").or(["2.5/h"])
            })?;
            if list.iter().any(|(known, _)| *known == device) {
                return Err(CliError::usage("price", text, "there is a price for it already"));
            }
            list.push((device, price));
        }
        Ok(Self(list))
    }

    /// Whether none was given.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The price of `device`, the only kind that the cluster has.
    pub fn of(&self, device: &str) -> Result<Option<Price>, CliError> {
        let is_other = |named: &&str| *named != device && device_named(named).ok() != Some(device);
        let stranger = self.0.iter().find_map(|(named, _)| named.as_deref().filter(is_other));
        if let Some(stranger) = stranger {
            let rule = format!("the cluster has no such device; it has {device}");
            return Err(CliError::usage("price", stranger, rule).or([device]));
        }
        let named = self.0.iter().find(|(named, _)| named.is_some());
        Ok(named.or(self.0.first()).map(|(_, price)| *price))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_by_name_goes_before_all_devices() {
        let parse = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            Prices::parse(&texts)
        };
        let price = |text: &str| text.parse::<Price>().ok();
        assert_eq!(parse(&["2", "a100=3/h"]).unwrap().of("a100").unwrap(), price("3"));
        assert_eq!(parse(&["2"]).unwrap().of("a100").unwrap(), price("2"));
        assert_eq!(parse(&[]).unwrap().of("a100").unwrap(), None);
        assert_eq!(parse(&["h100=2"]).unwrap().of("a100").unwrap_err().nearest, ["a100"]);
        assert!(parse(&["a=2", "a=3"]).is_err() && parse(&["a=-2"]).is_err() && parse(&["a="]).is_err());
    }
}
