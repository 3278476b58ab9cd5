//! Compiled kernels kept by their content in the target folder, because compilers take longer than small cases.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Where results with this content are kept.
pub fn place(content: impl Hash, extension: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target"));
    target.join("emulated-kernels").join(format!("{:016x}.{extension}", hash(content)))
}

pub fn hash(content: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

/// Does `make`, but not while another thread of this process does it for the same path: what that one leaves is found then.
pub fn alone<R>(path: &Path, make: impl FnOnce() -> R) -> R {
    static BUSY: Mutex<BTreeMap<PathBuf, Arc<Mutex<()>>>> = Mutex::new(BTreeMap::new());
    let mut busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
    let of_path = Arc::clone(busy.entry(path.to_owned()).or_default());
    drop(busy);
    let _alone = of_path.lock().unwrap_or_else(PoisonError::into_inner);
    make()
}

/// A name beside `path` that no other process or thread writes to; it's renamed to `path` once complete.
pub fn own(path: &Path, extension: &str) -> PathBuf {
    static COUNTER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    path.with_extension(format!("{}-{number}.{extension}", std::process::id()))
}

/// Writes a result for the next time. A failure costs only time.
pub fn keep(path: &Path, bytes: &[u8]) {
    let own = own(path, "part");
    let _ = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(&own, bytes))
        .and_then(|()| std::fs::rename(&own, path));
}

/// A source with all that it includes, directly or not, from these folders.
pub fn with_includes(source: &str, folders: &[PathBuf]) -> Vec<String> {
    let (mut texts, mut seen) = (vec![source.to_owned()], BTreeSet::new());
    let mut at = 0;
    while at < texts.len() {
        let names: Vec<String> = texts[at]
            .lines()
            .filter_map(|line| line.trim().strip_prefix("#include \"")?.strip_suffix('"').map(str::to_owned))
            .collect();
        for name in names {
            if !seen.insert(name.clone()) {
                continue;
            }
            for folder in folders {
                texts.extend(std::fs::read_to_string(folder.join(&name)));
            }
        }
        at += 1;
    }
    texts
}
