//! Where a path leads: links are followed, also to what is not there yet, so that two paths to one place are known as one.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

/// Links that are followed at most, as in Linux.
const MOST_LINKS: usize = 40;

/// The place that a path leads to.
#[derive(Clone, Debug)]
pub struct Place {
    /// Without links on the way; as it was given where the place has no name, like a pipe that a shell made.
    pub path: PathBuf,
    /// The file that is there.
    pub found: Option<Metadata>,
    /// The descriptor of this process that it is.
    pub descriptor: Option<u32>,
    /// The file that is there, or the nearest folder above it that exists.
    ground: Ground,
    /// The way from that folder.
    rest: PathBuf,
}

/// A file or folder, by whatever name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ground(u64, u64, PathBuf);

impl Ground {
    /// Of what is at `path`.
    #[cfg(unix)]
    fn of(found: &Metadata, _: &Path) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(found.dev(), found.ino(), PathBuf::new())
    }

    #[cfg(not(unix))]
    fn of(_: &Metadata, path: &Path) -> Self {
        Self(0, 0, path.to_owned())
    }
}

impl Place {
    /// Follows `path`.
    ///
    /// # Errors
    /// If it is empty, leads through a file or in a circle, or the system does not say.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            if path.as_os_str().is_empty() {
                return Err(io::Error::new(ErrorKind::InvalidInput, "the path is empty"));
            }
            match fs::metadata(&path) {
                Ok(found) => return Self::there(path, found),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            // What is not there may be a link to what is not there, or lie in one.
            let link = path.ancestors().find_map(|above| Some((above, fs::read_link(above).ok()?)));
            let Some((above, target)) = link else { return Self::absent(&path) };
            let followed = folder_of(above).join(target);
            path = match path.strip_prefix(above) {
                Ok(rest) if !rest.as_os_str().is_empty() => followed.join(rest),
                _ => followed,
            };
        }
        Err(io::Error::other("it is a link that leads to too many others"))
    }

    fn there(path: PathBuf, found: Metadata) -> io::Result<Self> {
        let descriptor = descriptor(&path);
        // A pipe that a shell made has no path, and neither has a file that was deleted.
        let path = match fs::canonicalize(&path) {
            Err(error) if found.is_dir() => return Err(error),
            resolved => resolved.unwrap_or(path),
        };
        let ground = Ground::of(&found, &path);
        Ok(Self { ground, rest: PathBuf::new(), path, found: Some(found), descriptor })
    }

    /// The place of what is not there: the nearest folder that is, and the way from it.
    fn absent(path: &Path) -> io::Result<Self> {
        let missing = || io::Error::from(ErrorKind::NotFound);
        let mut above = path.to_owned();
        let mut rest = PathBuf::new();
        loop {
            let Some(Component::Normal(name)) = above.components().next_back() else { return Err(missing()) };
            rest = if rest.as_os_str().is_empty() { name.into() } else { Path::new(name).join(rest) };
            above = folder_of(&above);
            match fs::canonicalize(&above) {
                Ok(folder) => {
                    let found = fs::metadata(&folder)?;
                    if !found.is_dir() {
                        return Err(ErrorKind::NotADirectory.into());
                    }
                    let ground = Ground::of(&found, &folder);
                    return Ok(Self {
                        path: folder.join(&rest),
                        found: None,
                        descriptor: None,
                        ground,
                        rest,
                    });
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the folder is there that holds it, or is to hold it.
    pub fn has_folder(&self) -> bool {
        self.rest.components().count() <= 1
    }

    /// Whether both are one place.
    pub fn is(&self, other: &Self) -> bool {
        self.ground == other.ground && self.rest == other.rest
    }

    /// Whether this place is the folder `other` or lies in it.
    pub fn is_in(&self, other: &Self) -> bool {
        self.is(other) || self.path.starts_with(&other.path)
    }

    /// Whether a terminal or the like is there, of which any number may be written to at once.
    #[cfg(unix)]
    pub fn is_shared(&self) -> bool {
        use std::os::unix::fs::FileTypeExt;
        self.found.as_ref().is_some_and(|found| found.file_type().is_char_device())
    }

    #[cfg(not(unix))]
    pub fn is_shared(&self) -> bool {
        false
    }
}

/// The folder that holds what `path` names.
pub fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The descriptor of this process that `path` leads to, like `/dev/stdout` or `/dev/fd/3`.
fn descriptor(path: &Path) -> Option<u32> {
    let own = fs::canonicalize("/proc/self/fd").ok()?;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let folder = fs::canonicalize(folder_of(&path)).ok()?;
        let name = path.file_name()?;
        if folder == own {
            return name.to_str()?.parse().ok();
        }
        path = folder.join(fs::read_link(folder.join(name)).ok()?);
    }
    None
}
