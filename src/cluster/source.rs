//! A cluster from what a user typed: a shorthand or the path of a file.

use std::path::{Path, PathBuf};

use super::{Cluster, ClusterDocument, ClusterError, shorthand};
use crate::files;
use crate::profile::parse_device_model;
use crate::units::Bytes;

/// The largest cluster file that is read.
const LARGEST_FILE: Bytes = Bytes::mib(16);

/// The most GPUs that any machine joins by one fast link, of those that are announced: NVL576 (NVIDIA, GTC 2025).
const MOST_IN_A_NODE: u32 = 576;

/// The cluster that `text` names: `8x8xh100-sxm`, the same with a cost-model file as device (`1x4x./cpu.json`), or a
/// JSON file.
pub fn load(text: &str) -> Result<Cluster, ClusterError> {
    let cluster = named(text)?;
    let (device, devices) = (&cluster.device, cluster.devices_per_node);
    if devices > MOST_IN_A_NODE && cluster.stretches_fast_link() {
        return Err(ClusterError::Node {
            text: text.to_owned(),
            devices,
            device: device.name.clone(),
            board: cluster.board(),
            most: MOST_IN_A_NODE,
            nearest: cluster.of_usual_nodes(),
        });
    }
    Ok(cluster)
}

/// A sentence that says how a shorthand was read, if it was not typed so: `8xH100` is `1x8xh100-sxm`.
pub fn read_as(text: &str, cluster: &Cluster) -> Option<String> {
    let is_shorthand = shorthand::is_shorthand(text) || without_nodes(text).is_some();
    let is_as_typed = text.eq_ignore_ascii_case(&cluster.name) || text.ends_with(".json");
    (is_shorthand && !is_as_typed)
        .then(|| format!("Cluster `{text}` is read as {}: {}.", cluster.name, cluster.device.title))
}

/// The shorthand of a text that names no file and leaves the nodes out.
fn without_nodes(text: &str) -> Option<String> {
    if Path::new(text).exists() { None } else { shorthand::with_nodes(text) }
}

fn named(text: &str) -> Result<Cluster, ClusterError> {
    if let Some(whole) = without_nodes(text) {
        return named(&whole);
    }
    if shorthand::is_shorthand(text) {
        return match shorthand::device(text).filter(|device| device.ends_with(".json")) {
            Some(path) => {
                let file = |reason| ClusterError::File { path: path.to_owned(), reason };
                let model = parse_device_model(&read(Path::new(path)).map_err(file)?);
                shorthand::parse_with(text, model.map_err(|error| error.in_file(path))?)
            }
            None => shorthand::parse(text),
        };
    }
    let path = Path::new(text);
    let meant_as_path = text.contains(['/', '\\']) || path.extension().is_some() || path.exists();
    if !meant_as_path {
        return Err(ClusterError::NotACluster { text: text.to_owned(), nearest: shorthand::meant(text) });
    }
    let json = read(path).map_err(|reason| ClusterError::File { path: text.to_owned(), reason })?;
    let cluster = ClusterDocument::parse(&json).and_then(|document| document.cluster());
    cluster.map_err(|error| error.in_file(text, &json))
}

/// The file that [`load`] would read of `text`, if it would read one.
pub fn source_of(text: &str) -> Option<PathBuf> {
    if let Some(whole) = without_nodes(text) {
        return source_of(&whole);
    }
    if shorthand::is_shorthand(text) {
        return shorthand::device(text).filter(|device| device.ends_with(".json")).map(PathBuf::from);
    }
    Some(PathBuf::from(text))
}

fn read(path: &Path) -> Result<String, String> {
    files::text(path, LARGEST_FILE).map_err(|unread| unread.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    fn reason(text: &str) -> String {
        match load(text).unwrap_err() {
            ClusterError::File { reason, .. } => reason,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn files_and_shorthands_are_both_clusters() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.json");
        let cluster = load("2x8xa100-sxm-80gb").unwrap();
        fs::write(&path, serde_json::to_string(&ClusterDocument::of(&cluster)).unwrap()).unwrap();
        assert_eq!(load(path.to_str().unwrap()).unwrap(), cluster);
    }

    #[test]
    fn what_was_not_typed_is_said() {
        let said = |text: &str| read_as(text, &load(text).unwrap());
        assert_eq!(
            said("8xH100").unwrap(),
            "Cluster `8xH100` is read as 1x8xh100-sxm: NVIDIA H100 SXM5 80 GB."
        );
        assert_eq!((said("1x8xH100-SXM"), said("1x8xh100-sxm")), (None, None));
    }

    #[test]
    fn a_device_may_be_a_cost_model_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("box.json");
        let text = include_str!("../../cost_models/cpu.json");
        fs::write(&path, text).unwrap();
        let cluster = load(&format!("1x2x{}", path.display())).unwrap();
        assert_eq!((cluster.name.as_str(), cluster.devices()), ("1x2xcpu", 2));
        assert_eq!(cluster.cost_model_hash, load("1x2xcpu").unwrap().cost_model_hash);
        fs::write(&path, &text[..200]).unwrap();
        let broken = load(&format!("1x2x{}", path.display())).unwrap_err();
        assert!(matches!(broken, ClusterError::Device(_)), "{broken}");
        assert_eq!(reason("1x2xmissing.json"), "there is no such file");
    }

    #[test]
    fn what_is_neither_says_so() {
        assert!(matches!(load("12xh100-sxm"), Err(ClusterError::NotACluster { .. })));
        assert!(matches!(load("h100-sxm"), Err(ClusterError::NotACluster { .. })));
        assert!(matches!(load(""), Err(ClusterError::NotACluster { .. })));
        assert!(matches!(load("0x8xh100-sxm"), Err(ClusterError::Count { .. })));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(reason(folder.path().to_str().unwrap()), "it is a directory");
        assert_eq!(reason("missing.json"), "there is no such file");
        let path = folder.path().join("large.json");
        File::create(&path).unwrap().set_len(LARGEST_FILE.0 + 1).unwrap();
        assert!(reason(path.to_str().unwrap()).starts_with("it is larger than 16.0 MiB"));
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(reason(path.to_str().unwrap()).contains("UTF-8"));
        fs::write(&path, "{\"version\": 1").unwrap();
        assert!(matches!(load(path.to_str().unwrap()), Err(ClusterError::CutOff(_))));
    }

    #[cfg(unix)]
    #[test]
    fn special_files_are_not_read() {
        assert_eq!(reason("/dev/zero"), "it is a device, not a regular file");
    }
}
