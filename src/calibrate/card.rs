//! Which built-in device a card is, by the name that its driver gives it.

/// Names that drivers give devices, by how they are written, and our cost models; the first that is found counts.
const DEVICES: [(&str, &str); 21] = [
    ("A100-SXM4-40GB", "a100-sxm-40gb"),
    ("A100-SXM4-80GB", "a100-sxm-80gb"),
    ("A100-SXM-80GB", "a100-sxm-80gb"),
    ("A100 80GB PCIe", "a100-pcie-80gb"),
    ("H100 80GB HBM3", "h100-sxm"),
    ("H100 PCIe", "h100-pcie"),
    ("H200", "h200-sxm"),
    ("H20", "h20"),
    ("GB300", "gb300"),
    ("GB200", "gb200"),
    ("B300", "b300-sxm"),
    ("B200", "b200-sxm"),
    ("L40S", "l40s"),
    ("NVIDIA L4", "l4"),
    ("A10G", "a10g"),
    ("RTX 4090", "rtx-4090"),
    ("RTX 3090", "rtx-3090"),
    ("V100-SXM2-16GB", "v100-sxm-16gb"),
    ("V100-SXM2-32GB", "v100-sxm-32gb"),
    ("MI300X", "mi300x"),
    ("MI325X", "mi325x"),
];

/// Whether `words` stand in `text`, not as part of a longer word: an L40 is no L4.
fn has_words(text: &str, words: &str) -> bool {
    let is_inside = |c: char| c.is_ascii_alphanumeric();
    text.match_indices(words).any(|(place, _)| {
        !text[..place].ends_with(is_inside) && !text[place + words.len()..].starts_with(is_inside)
    })
}

/// The built-in device that a driver calls `card`.
pub fn built_in(card: &str) -> Option<&'static str> {
    DEVICES.iter().find(|(words, _)| has_words(card, words)).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::device_model;

    #[test]
    fn cards_are_known_by_whole_words() {
        assert_eq!(built_in("NVIDIA H200"), Some("h200-sxm"));
        assert_eq!(built_in("NVIDIA L40S"), Some("l40s"));
        assert_eq!(built_in("NVIDIA L40"), None);
        assert!(DEVICES.iter().all(|(_, name)| device_model(name).is_ok()));
    }
}
