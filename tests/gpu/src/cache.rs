//! Translated kernels kept by their content in the target folder, because compilers take longer than small cases.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Where results are kept.
pub fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target"));
    target.join("emulated-kernels")
}

/// Where a result with this content is kept.
pub fn place(content: impl Hash, extension: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    folder().join(format!("{:016x}.{extension}", hasher.finish()))
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
