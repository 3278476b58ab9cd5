//! The built-in cost models, read from `cost_models/` at compile time, and the reading of any other.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

use super::device::DeviceModel;
use super::error::ProfileError;
use super::naming::device_named;
use crate::json;

macro_rules! cost_models {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../cost_models/", $name, ".json")))),*]
    };
}

/// Name and text of each built-in file.
const FILES: &[(&str, &str)] = cost_models![
    "a10",
    "a100-pcie-40gb",
    "a100-pcie-80gb",
    "a100-sxm-40gb",
    "a100-sxm-80gb",
    "a10g",
    "a30",
    "a40",
    "a800-pcie-40gb",
    "a800-pcie-80gb",
    "a800-sxm-80gb",
    "b200-sxm",
    "b300-sxm",
    "cpu",
    "gb200",
    "gb300",
    "h100-nvl",
    "h100-pcie",
    "h100-sxm",
    "h100-sxm-96gb-500w",
    "h20",
    "h200-sxm",
    "h800-pcie",
    "h800-sxm",
    "l4",
    "l40",
    "l40s",
    "mi300x",
    "mi325x",
    "rtx-3090",
    "rtx-4090",
    "rtx-5090",
    "rtx-6000-ada",
    "rtx-a6000",
    "t4",
    "v100-pcie-16gb",
    "v100-pcie-32gb",
    "v100-sxm-16gb",
    "v100-sxm-32gb",
];

type Parsed = Result<(DeviceModel, String), ProfileError>;

static CATALOG: LazyLock<Vec<(&str, Parsed)>> =
    LazyLock::new(|| FILES.iter().map(|(name, text)| (*name, parse_device_model(text))).collect());

/// Name and title of each built-in cost model, by name.
pub fn device_models() -> impl Iterator<Item = (&'static str, &'static str)> {
    CATALOG.iter().filter_map(|(name, parsed)| Some((*name, parsed.as_ref().ok()?.0.title.as_str())))
}

/// Name and text of each built-in cost model, by name.
pub fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().copied()
}

/// The built-in cost model called `name` and the SHA-256 of its text in hexadecimal.
pub fn device_model(name: &str) -> Result<(DeviceModel, String), ProfileError> {
    match CATALOG.iter().find(|(known, _)| *known == name) {
        Some((_, parsed)) => parsed.clone(),
        None => {
            let meant = device_named(name)?;
            Err(ProfileError::UnknownDevice { name: name.to_owned(), nearest: vec![meant.to_owned()] })
        }
    }
}

/// Reads and validates the text of a cost model; with it comes the text's SHA-256 in hexadecimal.
pub fn parse_device_model(text: &str) -> Result<(DeviceModel, String), ProfileError> {
    let model: DeviceModel = json::read(text).map_err(ProfileError::Json)?;
    model.validate()?;
    Ok((model, sha256(text)))
}

/// The SHA-256 of `text` in hexadecimal.
pub fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Evidence, device::DeviceClass};
    use crate::units::Bytes;

    #[test]
    fn every_built_in_file_is_valid_and_bears_its_name() {
        for (name, text) in FILES {
            let (model, hash) = parse_device_model(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(model.name, *name);
            assert_eq!(hash, device_model(name).unwrap().1);
            assert_eq!(hash.len(), 64);
            let sources = model.fields().iter().all(|field| !field.source.trim().is_empty());
            assert!(sources, "{name} has a number without source");
            assert_eq!(model.fields().len(), text.matches("\"kind\"").count(), "{name}: fields() misses one");
        }
        assert_eq!(device_models().count(), FILES.len());
        let in_folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/cost_models")).unwrap();
        let files =
            in_folder.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "json"));
        assert_eq!(files.count(), FILES.len(), "a file in cost_models/ is not built in");
    }

    /// Vendor figures: dense 16-bit and fp32 TFLOP/s, GB/s of memory, fast link and network a device, one way.
    const DATASHEETS: &[(&str, f64, f64, f64, f64, f64)] = &[
        ("a100-sxm-40gb", 312.0, 19.5, 1555.0, 300.0, 25.0),
        ("a100-sxm-80gb", 312.0, 19.5, 2039.0, 300.0, 25.0),
        ("a100-pcie-80gb", 312.0, 19.5, 1935.0, 31.5, 12.5),
        ("h100-sxm", 989.0, 67.0, 3350.0, 450.0, 50.0),
        ("h100-sxm-96gb-500w", 989.0, 67.0, 2400.0, 450.0, 50.0),
        ("h200-sxm", 989.0, 67.0, 4800.0, 450.0, 50.0),
        ("b200-sxm", 2250.0, 75.0, 7672.0, 900.0, 50.0),
        ("b300-sxm", 2250.0, 75.0, 7700.0, 900.0, 100.0),
        ("gb200", 2500.0, 80.0, 8000.0, 900.0, 50.0),
        ("gb300", 2500.0, 80.0, 8000.0, 900.0, 100.0),
        ("v100-sxm-16gb", 125.0, 15.7, 900.0, 150.0, 6.25),
        ("v100-sxm-32gb", 125.0, 15.7, 900.0, 150.0, 6.25),
        ("a10g", 70.0, 35.0, 600.0, 31.5, 1.5625),
        ("l40s", 362.05, 91.6, 864.0, 31.5, 12.5),
        ("rtx-4090", 165.2, 82.6, 1008.0, 31.5, 3.125),
        ("mi300x", 1307.4, 163.4, 5300.0, 448.0, 50.0),
        ("mi325x", 1307.4, 163.4, 6000.0, 448.0, 50.0),
        ("h100-pcie", 756.0, 51.2, 2000.0, 63.0, 25.0),
        ("h20", 148.0, 44.0, 4000.0, 450.0, 50.0),
        ("rtx-3090", 71.0, 35.6, 936.0, 31.5, 3.125),
        ("l4", 121.0, 30.3, 300.0, 31.5, 1.5625),
        ("a100-pcie-40gb", 312.0, 19.5, 1555.0, 31.5, 12.5),
        ("a800-sxm-80gb", 312.0, 19.5, 2039.0, 200.0, 25.0),
        ("a800-pcie-80gb", 312.0, 19.5, 1935.0, 31.5, 12.5),
        ("a800-pcie-40gb", 312.0, 19.5, 1555.0, 31.5, 12.5),
        ("h800-sxm", 989.0, 67.0, 3350.0, 200.0, 50.0),
        ("h800-pcie", 756.0, 51.2, 2000.0, 63.0, 25.0),
        ("h100-nvl", 835.5, 60.0, 3900.0, 63.0, 25.0),
        ("v100-pcie-16gb", 112.0, 14.0, 900.0, 15.75, 3.125),
        ("v100-pcie-32gb", 112.0, 14.0, 900.0, 15.75, 3.125),
        ("a30", 165.0, 10.3, 933.0, 31.5, 3.125),
        ("a10", 125.0, 31.2, 600.0, 31.5, 1.5625),
        ("a40", 149.7, 37.4, 696.0, 31.5, 3.125),
        ("rtx-a6000", 154.8, 38.7, 768.0, 31.5, 3.125),
        ("l40", 181.05, 90.5, 864.0, 31.5, 12.5),
        ("rtx-6000-ada", 364.25, 91.1, 960.0, 31.5, 12.5),
        ("rtx-5090", 209.5, 104.8, 1792.0, 63.0, 3.125),
        ("t4", 65.0, 8.1, 320.0, 15.75, 1.5625),
    ];

    #[test]
    fn figures_are_those_of_the_vendors() {
        assert_eq!(DATASHEETS.len() + 1, FILES.len(), "all but the CPU");
        for &(name, half, single, memory, fast, network) in DATASHEETS {
            let model = device_model(name).unwrap().0;
            let fp16 = model.peak.fp16.as_ref().unwrap().value.0;
            let figures = [
                fp16 / 1e12,
                model.peak.fp32.value.0 / 1e12,
                model.memory_bandwidth.value.0 / 1e9,
                model.scale_up.link.bandwidth.value.0 / 1e9,
                model.network.bandwidth.value.0 / 1e9,
            ];
            for (is, expected) in figures.into_iter().zip([half, single, memory, fast, network]) {
                assert!((is / expected - 1.0).abs() < 1e-9, "{name}: {is} is not {expected}");
            }
            if let Some(bf16) = &model.peak.bf16 {
                assert_eq!(bf16.value.0, fp16, "{name}");
            }
        }
    }

    #[test]
    fn memory_is_what_a_process_sees() {
        // Nominal sizes in vendors' gigabytes, which are binary: a little of each stays hidden.
        let nominal = [
            ("a100-sxm-40gb", 40),
            ("a100-sxm-80gb", 80),
            ("a100-pcie-80gb", 80),
            ("h100-sxm", 80),
            ("h100-sxm-96gb-500w", 96),
            ("h200-sxm", 141),
            ("b200-sxm", 180),
            ("b300-sxm", 270),
            ("gb200", 186),
            ("gb300", 279),
            ("v100-sxm-16gb", 16),
            ("v100-sxm-32gb", 32),
            ("rtx-4090", 24),
            ("mi300x", 192),
            ("mi325x", 256),
            ("h100-pcie", 80),
            ("h20", 96),
            ("rtx-3090", 24),
            ("a100-pcie-40gb", 40),
            ("a800-sxm-80gb", 80),
            ("a800-pcie-80gb", 80),
            ("a800-pcie-40gb", 40),
            ("h800-sxm", 80),
            ("h800-pcie", 80),
            ("h100-nvl", 94),
            ("v100-pcie-16gb", 16),
            ("v100-pcie-32gb", 32),
            ("a30", 24),
            ("rtx-a6000", 48),
            ("rtx-6000-ada", 48),
            ("rtx-5090", 32),
        ];
        for (name, size) in nominal {
            let memory = device_model(name).unwrap().0.memory.value;
            assert!(memory <= Bytes::gib(size), "{name}");
            assert!(memory.as_gib() > 0.97 * size as f64, "{name}");
        }
        // GDDR6 with error correction in the data bits loses a sixteenth.
        assert!((device_model("l40s").unwrap().0.memory.value.as_gib() - 44.4).abs() < 0.1);
        assert!((device_model("a10g").unwrap().0.memory.value.as_gib() - 21.99).abs() < 0.01);
    }

    /// A device without runs of its own has its sister's numbers, and calls them estimates.
    #[test]
    fn what_is_copied_from_a_sister_is_as_it_is_there() {
        let mut copied = 0;
        for (name, _) in FILES {
            let model = device_model(name).unwrap().0;
            for field in model.fields() {
                let Some((sister, kind)) =
                    field.source.strip_prefix("as on ").and_then(|rest| rest.split_once(", where it is "))
                else {
                    continue;
                };
                let sister = device_model(sister).unwrap_or_else(|error| panic!("{name}: {error}")).0;
                let there = sister.fields().into_iter().find(|other| other.path == field.path).unwrap();
                assert_eq!(
                    (field.value, kind),
                    (there.value, there.evidence.to_string().as_str()),
                    "{name}: {}",
                    field.path
                );
                assert_eq!(field.evidence, Evidence::Estimate, "{name}: {}", field.path);
                copied += 1;
            }
        }
        assert!(copied > 50, "{copied}");
    }

    #[test]
    fn racks_of_72_have_trays_of_four() {
        for name in ["gb200", "gb300"] {
            let model = device_model(name).unwrap().0;
            assert_eq!(model.devices_per_node.value, 4);
            assert_eq!(model.scale_up.span.unwrap().value, 72);
        }
    }

    #[test]
    fn a_cpu_rank_reserves_nothing() {
        let model = device_model("cpu").unwrap().0;
        assert_eq!(model.class, DeviceClass::Cpu);
        let reserve = &model.reserve;
        assert_eq!((reserve.context.value, reserve.communicator.value), (Bytes::ZERO, Bytes::ZERO));
        assert_eq!((reserve.workspace.value, reserve.allocator_factor.value), (Bytes::ZERO, 1.0));
    }

    #[test]
    fn an_unknown_device_names_its_neighbours() {
        let error = device_model("h100-sxn").unwrap_err();
        assert_eq!(error.nearest()[0], "h100-sxm");
        assert_eq!(error.field(), "device");
        assert!(error.to_string().starts_with("device `h100-sxn` is unknown; nearest: h100-sxm"));
    }

    #[test]
    fn evidence_is_counted_by_kind() {
        let model = device_model("h100-sxm").unwrap().0;
        let counts = model.evidence();
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<usize>(), model.fields().len());
        assert!(counts.iter().any(|(kind, _)| *kind == Evidence::Measured));
        assert!(counts.is_sorted_by_key(|(kind, _)| *kind));
    }

    #[test]
    fn values_that_no_formula_can_use_are_named() {
        let valid = || device_model("h100-sxm").unwrap().0;
        let mut model = valid();
        model.version = 3;
        assert!(matches!(model.validate(), Err(ProfileError::Version { version: 3, .. })));
        type Spoil = fn(&mut DeviceModel);
        let spoilt: [(&str, Spoil); 7] = [
            ("memory", |model| model.memory.value = Bytes::ZERO),
            ("memory_bandwidth", |model| model.memory_bandwidth.value.0 = f64::NAN),
            ("gemm.efficiency", |model| model.gemm.efficiency.value = 1.1),
            ("gemm.tiles", |model| model.gemm.tiles.value.clear()),
            ("network.latency", |model| model.network.latency.value.0 = -1e-6),
            ("reserve.allocator_factor", |model| model.reserve.allocator_factor.value = 0.99),
            ("peak.fp8", |model| model.peak.fp8.as_mut().unwrap().value.0 = f64::INFINITY),
        ];
        for (field, spoil) in spoilt {
            let mut model = valid();
            spoil(&mut model);
            assert_eq!(model.validate().unwrap_err().field(), field);
        }
    }
}
