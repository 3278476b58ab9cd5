//! Binaries of kernels kept on disk.
//!
//! An entry is `nvrtc-VERSION/KEY.cubin` below the cache's folder; the key is a digest of all that the binary depends on.
//! The names of the folders are the only index: without a compiler, [`Cache::versions`] says for which compilers a key can
//! be asked. An entry says its own key and the digest of its bytes, so that one that is damaged, cut off or of something
//! else is as good as none.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::nvrtc::{Program, Version};

/// The largest entry that is read, in bytes.
const LARGEST_ENTRY: u64 = 64 << 20;

const MAGIC: &[u8; 16] = b"meshwright.cubin";

/// What stands before the bytes of an entry: magic, key, digest.
const HEADER: usize = MAGIC.len() + 2 * 32;

pub type Key = [u8; 32];

/// The digest of `program` and the compiler. Each part is preceded by its length, so that no two programs run together.
pub fn key(program: &Program, version: Version) -> Key {
    let mut digest = Sha256::new();
    let mut add = |part: &str| {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    };
    add(&version.to_string());
    add(program.architecture);
    add(program.file);
    add(program.source);
    add(&program.headers.len().to_string());
    for (name, text) in program.headers {
        add(name);
        add(text);
    }
    for option in program.options {
        add(option);
    }
    digest.finalize().into()
}

#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The versions of compilers that entries were made with, the newest first.
    pub fn versions(&self) -> Vec<Version> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut versions: Vec<Version> =
            entries.filter_map(|entry| version_of(entry.file_name().to_str()?)).collect();
        versions.sort_by(|a, b| b.cmp(a));
        versions
    }

    /// The binary of `key`, if a whole one is there.
    pub fn get(&self, version: Version, key: &Key) -> Option<Vec<u8>> {
        // Not by `crate::files`: the tests of kernels compile this module by itself.
        let path = self.path(version, key);
        let found = fs::metadata(&path).ok().filter(|found| found.is_file() && found.len() <= LARGEST_ENTRY);
        let mut entry = found.and_then(|_| fs::read(&path).ok())?;
        let (header, body) = entry.split_at_checked(HEADER)?;
        (header == header_of(key, body)).then(|| entry.split_off(HEADER))
    }

    /// Keeps `cubin`. A reader sees all of it or nothing, also while others write the same entry.
    ///
    /// # Errors
    /// If the folder cannot be written to, or is full.
    pub fn put(&self, version: Version, key: &Key, cubin: &[u8]) -> io::Result<()> {
        let path = self.path(version, key);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder)?;
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
        file.write_all(&header_of(key, cubin))?;
        file.write_all(cubin)?;
        file.persist(&path)?;
        Ok(())
    }

    fn path(&self, version: Version, key: &Key) -> PathBuf {
        let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("nvrtc-{version}")).join(format!("{name}.cubin"))
    }
}

fn header_of(key: &Key, body: &[u8]) -> Vec<u8> {
    [MAGIC.as_slice(), key, &Sha256::digest(body)].concat()
}

fn version_of(folder: &str) -> Option<Version> {
    let (major, minor) = folder.strip_prefix("nvrtc-")?.split_once('.')?;
    Some(Version { major: major.parse().ok()?, minor: minor.parse().ok()? })
}
