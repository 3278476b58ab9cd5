//! Which built-in device a name means, as people, clouds and drivers write it: `A100-80GB`, `NVIDIA H100 80GB HBM3`.
//!
//! The family is read before the spelling: an A100 of 80 GB is never taken for an A10G, which is spelled alike.

use std::cmp::Reverse;

use super::catalog::{device_model, device_models};
use super::error::ProfileError;
use crate::spelling::{ranked, words};

/// Words that say nothing: makers, product lines, and memory that a family has anyway.
const IDLE: [&str; 18] = [
    "nvidia",
    "geforce",
    "tesla",
    "quadro",
    "rtx",
    "gtx",
    "amd",
    "instinct",
    "intel",
    "gpu",
    "tensor",
    "core",
    "generation",
    "hbm2",
    "hbm2e",
    "hbm3",
    "hbm3e",
    "nvl72",
];

/// How a card is built in: the first is the usual one where a name does not say.
const FORMS: [(&str, &[&str]); 3] = [
    ("sxm", &["sxm", "sxm2", "sxm3", "sxm4", "sxm5", "sxm6", "hgx", "dgx", "oam"]),
    ("pcie", &["pcie"]),
    ("nvl", &["nvl"]),
];

/// The facts about a device in a name.
#[derive(Debug, Default, PartialEq)]
struct Said {
    /// In alphabetical order.
    family: Vec<String>,
    form: Option<&'static str>,
    gigabytes: Option<f64>,
    watts: Option<String>,
}

impl Said {
    fn read(text: &str) -> Self {
        let mut said = Self::default();
        let mut names = words(text);
        // `80 GB` is `80gb`.
        for place in (1..names.len()).rev() {
            let is_number = names[place - 1].starts_with(|c: char| c.is_ascii_digit())
                && names[place - 1].parse::<f64>().is_ok();
            if is_number && ["gb", "gib", "w"].contains(&names[place].as_str()) {
                let unit = names.remove(place);
                names[place - 1] += &unit;
            }
        }
        for name in names {
            said.add(&name);
        }
        said.family.sort_unstable();
        said
    }

    fn add(&mut self, word: &str) {
        let number_before = |units: &[&str]| {
            let digits = units.iter().find_map(|unit| word.strip_suffix(unit))?;
            digits.parse::<f64>().ok().filter(|_| digits.starts_with(|c: char| c.is_ascii_digit()))
        };
        if let Some((form, _)) = FORMS.iter().find(|(_, spellings)| spellings.contains(&word)) {
            self.form = Some(form);
        } else if let Some(gigabytes) = number_before(&["gb", "gib", "g"]) {
            self.gigabytes = Some(gigabytes);
        } else if number_before(&["w"]).is_some() {
            self.watts = Some(word.to_owned());
        } else if let Some((family, form)) = glued(word) {
            self.form = Some(form);
            self.add(family);
        } else if let Some(rest) = word.strip_prefix("rtx").filter(|rest| !rest.is_empty()) {
            self.add(rest);
        } else if !IDLE.contains(&word) {
            self.family.push(word.to_owned());
        }
    }
}

/// `h100sxm5` as `h100` and its form.
fn glued(word: &str) -> Option<(&str, &'static str)> {
    let spellings = FORMS.iter().flat_map(|(form, all)| all.iter().map(move |spelling| (*spelling, *form)));
    let mut parts = spellings.filter_map(|(spelling, form)| Some((word.strip_suffix(spelling)?, form)));
    parts.find(|(family, _)| family.ends_with(|c: char| c.is_ascii_digit()))
}

/// The built-in device that `text` means: one that has what the text says of family, form and memory. Where it says no
/// form, that of the family's servers; where it says no memory, the device that is called by family and form alone.
///
/// # Errors
/// Where no device is meant, or several as well; the nearest are those of its family.
pub fn device_named(text: &str) -> Result<&'static str, ProfileError> {
    if let Some((name, _)) = device_models().find(|(name, _)| *name == text) {
        return Ok(name);
    }
    let said = Said::read(text);
    let meant: Vec<(&'static str, Said)> = if said.family.is_empty() {
        Vec::new()
    } else {
        known().filter(|(name, device)| is_meant(&said, name, device)).collect()
    };
    let best = meant.iter().map(|(_, device)| place(device)).min();
    let first: Vec<&'static str> =
        meant.iter().filter(|(_, device)| Some(place(device)) == best).map(|(name, _)| *name).collect();
    let name = text.to_owned();
    match first.as_slice() {
        [only] => Ok(only),
        [] => Err(ProfileError::UnknownDevice { name, nearest: nearest(text, &said) }),
        several => {
            let mut nearest = nearest(text, &said);
            nearest.retain(|near| several.contains(&near.as_str()));
            Err(ProfileError::SeveralDevices { name, nearest })
        }
    }
}

/// The built-in devices, with what their names say.
fn known() -> impl Iterator<Item = (&'static str, Said)> {
    device_models().map(|(name, _)| (name, Said::read(name)))
}

/// Whether the device called `name`, which says `device`, has all that was `said`.
fn is_meant(said: &Said, name: &str, device: &Said) -> bool {
    let has_form = said.form.is_none() || device.form.is_none() || said.form == device.form;
    let has_power = said.watts.is_none() || said.watts == device.watts;
    said.family == device.family && has_form && has_power && has_memory(said, name, device)
}

/// Whether the device called `name` has as much memory as was said: what its name says, or about what a process sees.
fn has_memory(said: &Said, name: &str, device: &Said) -> bool {
    let Some(wanted) = said.gigabytes else { return true };
    match device.gigabytes {
        Some(gigabytes) => gigabytes == wanted,
        None => gibibytes(name).is_some_and(|seen| (0.9..1.02).contains(&(seen / wanted))),
    }
}

/// Of devices of one family, the usual one first.
fn place(device: &Said) -> (usize, usize) {
    let form = FORMS.iter().position(|(form, _)| device.form.is_none_or(|own| own == *form));
    (
        form.unwrap_or(FORMS.len()),
        usize::from(device.gigabytes.is_some()) + usize::from(device.watts.is_some()),
    )
}

fn gibibytes(name: &str) -> Option<f64> {
    device_model(name).ok().map(|(model, _)| model.memory.value.as_gib())
}

/// At most four devices: of the family first, those that have the memory and the form first, then by the letters. Only
/// where no device is of its family, those that are spelled alike.
fn nearest(text: &str, said: &Said) -> Vec<String> {
    const MOST: usize = 4;
    let shared = |device: &Said| device.family.iter().filter(|word| said.family.contains(word)).count();
    let mut kin: Vec<(&'static str, Said)> = known().filter(|(_, device)| shared(device) > 0).collect();
    let letters = |name: &str| ranked(text, [name])[0].0;
    kin.sort_by_key(|(name, device)| {
        let lacks_memory = !has_memory(said, name, device);
        let lacks_form = said.form.is_some() && said.form != device.form;
        let memory = gibibytes(name).unwrap_or(0.0);
        let other_memory = said.gigabytes.map_or(0, |wanted| (memory - wanted).abs() as u64);
        (
            Reverse(shared(device)),
            lacks_memory,
            lacks_form,
            other_memory,
            place(device).0,
            letters(name),
            Reverse(memory as u64),
        )
    });
    if !kin.is_empty() {
        return kin.into_iter().take(MOST).map(|(name, _)| name.to_owned()).collect();
    }
    let family = said.family.join(" ");
    let families = known().filter(|(_, device)| !device.family.is_empty());
    let families: Vec<(&'static str, String)> =
        families.map(|(name, device)| (name, device.family.join(" "))).collect();
    let near = ranked(&family, families.iter().map(|(_, family)| family.as_str()));
    let Some((least, _)) = near.first().filter(|(far, name)| *far <= 2 * name.len()) else {
        return Vec::new();
    };
    let is_near = |own: &str| near.iter().any(|(far, name)| *far == *least && *name == own);
    let mut alike: Vec<(&'static str, Said)> =
        families.iter().filter(|(_, own)| is_near(own)).map(|(name, _)| (*name, Said::read(name))).collect();
    alike.sort_by_key(|(_, device)| place(device));
    alike.into_iter().take(MOST).map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Option<&'static str> {
        device_named(text).ok()
    }

    /// Every name under which `nvidia-smi -L` and `rocm-smi` list these cards.
    #[test]
    fn drivers_names_are_understood() {
        for (text, name) in [
            ("NVIDIA H100 80GB HBM3", "h100-sxm"),
            ("NVIDIA H100 PCIe", "h100-pcie"),
            ("NVIDIA H100 NVL", "h100-nvl"),
            ("NVIDIA H200", "h200-sxm"),
            ("NVIDIA H20", "h20"),
            ("NVIDIA H800", "h800-sxm"),
            ("NVIDIA H800 PCIe", "h800-pcie"),
            ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
            ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
            ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
            ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
            ("A100-SXM-80GB", "a100-sxm-80gb"),
            ("NVIDIA A800-SXM4-80GB", "a800-sxm-80gb"),
            ("NVIDIA A800 80GB PCIe", "a800-pcie-80gb"),
            ("NVIDIA B200", "b200-sxm"),
            ("NVIDIA GB200", "gb200"),
            ("NVIDIA GB300", "gb300"),
            ("NVIDIA L4", "l4"),
            ("NVIDIA L40", "l40"),
            ("NVIDIA L40S", "l40s"),
            ("NVIDIA A10", "a10"),
            ("NVIDIA A10G", "a10g"),
            ("NVIDIA A40", "a40"),
            ("NVIDIA A30", "a30"),
            ("Tesla T4", "t4"),
            ("Tesla V100-SXM2-16GB", "v100-sxm-16gb"),
            ("Tesla V100-SXM2-32GB", "v100-sxm-32gb"),
            ("Tesla V100-PCIE-32GB", "v100-pcie-32gb"),
            ("NVIDIA GeForce RTX 3090", "rtx-3090"),
            ("NVIDIA GeForce RTX 4090", "rtx-4090"),
            ("NVIDIA GeForce RTX 5090", "rtx-5090"),
            ("NVIDIA RTX A6000", "rtx-a6000"),
            ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
            ("AMD Instinct MI300X OAM", "mi300x"),
        ] {
            assert_eq!(named(text), Some(name), "{text}");
        }
    }

    #[test]
    fn short_names_are_understood_where_one_device_is_meant() {
        for (text, name) in [
            ("H100-SXM", "h100-sxm"),
            ("a100-80gb", "a100-sxm-80gb"),
            ("A100 80 GB", "a100-sxm-80gb"),
            ("a100_40g", "a100-sxm-40gb"),
            ("h100", "h100-sxm"),
            ("h100-80gb", "h100-sxm"),
            ("H100 SXM5 80GB", "h100-sxm"),
            ("h100sxm5", "h100-sxm"),
            ("h100-94gb", "h100-nvl"),
            ("h100-96gb", "h100-sxm-96gb-500w"),
            ("h200-141gb", "h200-sxm"),
            ("b200", "b200-sxm"),
            ("GB200 NVL72", "gb200"),
            ("4090", "rtx-4090"),
            ("rtx4090", "rtx-4090"),
            ("RTX-A6000", "rtx-a6000"),
            ("a6000", "rtx-a6000"),
            ("v100-32gb", "v100-sxm-32gb"),
            ("MI300X", "mi300x"),
            ("a800", "a800-sxm-80gb"),
            ("h800", "h800-sxm"),
        ] {
            assert_eq!(named(text), Some(name), "{text}");
        }
    }

    #[test]
    fn where_several_are_meant_each_is_named_and_no_other_family() {
        for (text, family) in
            [("a100", "a100"), ("v100", "v100"), ("a100-pcie", "a100-pcie"), ("a100-64gb", "a100")]
        {
            let nearest = device_named(text).unwrap_err().nearest();
            assert!(
                nearest.len() > 1 && nearest.iter().all(|near| near.starts_with(family)),
                "{text}: {nearest:?}"
            );
        }
        assert_eq!(device_named("a100-64gb").unwrap_err().nearest()[0], "a100-sxm-80gb");
        assert_eq!(device_named("h1000").unwrap_err().nearest()[0], "h100-sxm");
        assert_eq!(device_named("h100-sxn").unwrap_err().nearest()[0], "h100-sxm");
        assert_eq!(device_named("mi300").unwrap_err().nearest()[0], "mi300x");
        assert_eq!(device_named("a10g-80gb").unwrap_err().nearest()[0], "a10g");
        for text in ["", "gpu", "NVIDIA", "80gb", "sxm", "nonsense-device"] {
            assert!(device_named(text).is_err(), "{text}");
        }
        assert!(device_named("nonsense-device").unwrap_err().nearest().is_empty());
    }

    #[test]
    fn every_device_means_itself() {
        for (name, title) in device_models() {
            assert_eq!(named(&name.to_uppercase()), Some(name));
            let title = title.split(" (").next().unwrap();
            let meant = named(title).unwrap_or_default();
            assert!(name == "cpu" || meant == name, "{title} is taken for `{meant}`");
        }
    }
}
