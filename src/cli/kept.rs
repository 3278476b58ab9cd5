//! The folder for what is kept between runs, and this machine's cost model in it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::CliError;
use super::interrupt;
use super::output::failure;
use crate::files::{self, Unread};
use crate::profile::catalog::sha256;
use crate::profile::device::MachineKey;
use crate::profile::{DeviceModel, parse_device_model};
use crate::units::Bytes;

/// The largest cost model that is read.
pub const LARGEST_FILE: Bytes = Bytes::mib(16);

/// Names the folder.
pub const VARIABLE: &str = "MESHWRIGHT_CACHE";

/// What the folder has for a machine.
#[derive(Debug, PartialEq)]
pub enum Kept {
    /// Its cost model, and the SHA-256 of the text.
    Model(Box<DeviceModel>, String),
    Nothing,
    /// A file that cannot be used, and why.
    Unusable(String),
}

/// The folder: `MESHWRIGHT_CACHE`, or one of our own in the user's cache directory; none where there is no such
/// directory.
pub fn folder() -> Option<PathBuf> {
    let named = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| !path.as_os_str().is_empty());
    if let Some(folder) = named(VARIABLE) {
        return Some(folder);
    }
    let users = if cfg!(target_os = "windows") {
        named("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        env::home_dir().map(|home| home.join("Library/Caches"))
    } else {
        // The XDG specification has relative paths ignored.
        let named = named("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        named.or_else(|| env::home_dir().map(|home| home.join(".cache")))
    };
    users.map(|users| users.join("meshwright"))
}

/// Where in `folder` the cost model of the machine `key` is kept: each machine, version and build has a file of its
/// own, as folders are shared.
pub fn path(folder: &Path, key: &MachineKey) -> PathBuf {
    let hash = sha256(&serde_json::to_string(key).unwrap_or_default());
    folder.join(format!("cpu-{}.json", &hash[..16]))
}

/// What `folder` has for the machine `key`.
pub fn read(folder: &Path, key: &MachineKey) -> Kept {
    let text = match files::regular_text(&path(folder, key), LARGEST_FILE) {
        Ok(text) => text,
        Err(Unread::Missing) => return Kept::Nothing,
        Err(unread) => return Kept::Unusable(unread.to_string()),
    };
    match parse_device_model(&text) {
        Ok((model, hash)) => match &model.machine {
            Some(machine) if machine.key == *key => Kept::Model(Box::new(model), hash),
            _ => Kept::Unusable("it was measured on another machine or by another version".to_owned()),
        },
        Err(error) => Kept::Unusable(error.to_string()),
    }
}

/// Keeps `text`, the cost model of the machine `key`, in `folder`; returns where.
///
/// # Errors
/// If it cannot be written there.
pub fn write(folder: &Path, key: &MachineKey, text: &str) -> Result<PathBuf, CliError> {
    let path = path(folder, key);
    let _guard = interrupt::hold();
    // A link or a pipe there is somebody else's doing.
    let written = fs::create_dir_all(folder).and_then(|()| files::replace(&path, text.as_bytes()));
    written.map_err(|error| failure((VARIABLE, &path), &error, &[]))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::super::document::pretty;
    use super::*;
    use crate::calibrate::machine;
    use crate::profile::device::MeasuredMachine;
    use crate::profile::{Evidence, Sourced, device_model};
    use crate::units::FlopsPerSecond;

    fn model(key: &MachineKey) -> DeviceModel {
        let fixed_kernel =
            Sourced { value: FlopsPerSecond(1e11), kind: Evidence::Measured, source: "a test".to_owned() };
        let mut model = device_model("cpu").unwrap().0;
        model.version = 2;
        model.machine = Some(MeasuredMachine { key: key.clone(), fixed_kernel });
        model
    }

    #[test]
    fn what_is_kept_is_found_again_by_its_key_alone() {
        let folder = tempfile::tempdir().unwrap();
        let own = machine::key();
        assert_eq!(read(folder.path(), &own), Kept::Nothing);
        let inside = folder.path().join("made/here");
        let text = pretty(&model(&own));
        assert_eq!(write(&inside, &own, &text).unwrap(), path(&inside, &own));
        assert_eq!(read(&inside, &own), Kept::Model(Box::new(model(&own)), sha256(&text)));
        let others = [
            MachineKey { processor: "another".to_owned(), ..own.clone() },
            MachineKey { cores: own.cores + 1, ..own.clone() },
            MachineKey { program: "0.0.0".to_owned(), ..own.clone() },
        ];
        for other in others {
            assert_eq!(read(&inside, &other), Kept::Nothing, "{other:?}");
        }
        assert_eq!(fs::read_dir(&inside).unwrap().count(), 1, "nothing half-written stays");
    }

    #[test]
    fn damaged_and_foreign_files_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let own = machine::key();
        let unusable = |text: &str| {
            fs::write(path(folder.path(), &own), text).unwrap();
            match read(folder.path(), &own) {
                Kept::Unusable(reason) => reason,
                other => panic!("{other:?}"),
            }
        };
        let whole = pretty(&model(&own));
        assert!(unusable(&whole[..whole.len() / 2]).contains("not readable"));
        assert!(unusable(&whole.replace("\"version\": 2", "\"version\": 9")).contains("version 9"));
        let foreign = MachineKey { program: "0.0.0".to_owned(), ..own.clone() };
        assert!(unusable(&pretty(&model(&foreign))).contains("another version"));
        assert!(unusable(&pretty(&device_model("cpu").unwrap().0)).contains("another machine"));
    }

    #[cfg(unix)]
    #[test]
    fn what_stands_in_its_place_is_not_read_and_not_followed() {
        use std::os::unix::fs::symlink;
        use std::process::Command;

        let folder = tempfile::tempdir().unwrap();
        let own = machine::key();
        let place = path(folder.path(), &own);
        let theirs = folder.path().join("theirs");
        fs::write(&theirs, "theirs").unwrap();
        let hostile: [(&str, &dyn Fn()); 4] = [
            ("a pipe", &|| assert!(Command::new("mkfifo").arg(&place).status().unwrap().success())),
            ("it is a device", &|| symlink("/dev/zero", &place).unwrap()),
            ("larger than", &|| fs::File::create(&place).unwrap().set_len(5 << 30).unwrap()),
            ("not readable", &|| symlink(&theirs, &place).unwrap()),
        ];
        for (says, make) in hostile {
            make();
            match read(folder.path(), &own) {
                Kept::Unusable(reason) => assert!(reason.contains(says), "{reason}"),
                other => panic!("{other:?}"),
            }
            write(folder.path(), &own, &pretty(&model(&own))).unwrap();
            assert!(fs::symlink_metadata(&place).unwrap().is_file(), "{says}");
            assert!(matches!(read(folder.path(), &own), Kept::Model(..)), "{says}");
            fs::remove_file(&place).unwrap();
        }
        assert_eq!(fs::read_to_string(theirs).unwrap(), "theirs");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_value() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let own = machine::key();
        let error = write(&folder.path().join("file"), &own, "{}").unwrap_err();
        assert!(error.message.contains("cannot write"), "{}", error.message);
    }
}
