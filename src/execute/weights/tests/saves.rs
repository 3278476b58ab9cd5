//! A save is whole, or it is refused: bytes that were changed, files of other saves, saves that were still arriving.

use std::path::PathBuf;

use super::*;
use tempfile::TempDir;

const NAMES: [&str; 3] = [WEIGHTS, STATE, CONFIG];

/// A save of step `step`, with weights and moments from this seed on.
fn saved(model: &Model, seed: u64, step: u64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    save_into(folder.path(), model, seed, step);
    folder
}

fn save_into(folder: &Path, model: &Model, seed: u64, step: u64) {
    let weights = [seed, seed + 1, seed + 2].map(|seed| Weights::random(model, seed));
    let progress = Progress { step, data_position: 4 * step };
    save_all(folder, model, (ElementType::Fp32, progress), weights.each_ref().map(Some));
}

fn open(model: &Model, folder: &Path) -> Result<Opened, WeightsError> {
    Opened::new(model, folder, Begin::WhereItStopped)
}

fn copied(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in NAMES {
        fs::copy(folder.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn contents(folder: &Path) -> [Vec<u8>; 3] {
    NAMES.map(|name| fs::read(folder.join(name)).unwrap())
}

#[test]
fn every_byte_that_is_changed_is_seen() {
    let model = model(GPT2);
    let folder = saved(&model, 1, 5);
    for name in NAMES {
        let path = folder.path().join(name);
        let sound = fs::read(&path).unwrap();
        let header = if name == CONFIG {
            sound.len()
        } else {
            8 + u64::from_le_bytes(*sound.first_chunk().unwrap()) as usize
        };
        // All of the header, and tensors here and there.
        for at in (0..header).chain((header..sound.len()).step_by(211)) {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, &bytes).unwrap();
            let error = open(&model, folder.path()).expect_err(&format!("{name}: byte {at}"));
            assert!(error.to_string().contains(name), "{name} {at}: {error}");
        }
        for length in [0, 7, header - 1, sound.len() - 1] {
            fs::write(&path, &sound[..length]).unwrap();
            let error = open(&model, folder.path()).expect_err(name);
            assert!(error.to_string().contains(name), "{name}: {error}");
        }
        fs::write(&path, &sound).unwrap();
        assert!(open(&model, folder.path()).is_ok());
    }
}

#[test]
fn files_of_another_save_are_refused() {
    let first = model(GPT2);
    let own = saved(&first, 1, 5);
    // Another step, another run at the same step, another model of the same shapes, and one saved by others.
    let shifted = model(&GPT2.replace('}', r#","layer_norm_epsilon":0.001}"#));
    let others = [saved(&first, 1, 6), saved(&first, 40, 5), saved(&shifted, 40, 5)];
    for other in &others {
        for name in NAMES {
            let folder = copied(own.path());
            fs::copy(other.path().join(name), folder.path().join(name)).unwrap();
            let is_same =
                fs::read(own.path().join(name)).unwrap() == fs::read(other.path().join(name)).unwrap();
            let opened = open(&first, folder.path());
            if is_same {
                assert!(opened.is_ok(), "{name} is the same");
                continue;
            }
            let error = opened.expect_err(name).to_string();
            assert!(error.contains(name) && error.contains("--fresh"), "{name}: {error}");
            let fresh = Opened::new(&first, folder.path(), Begin::Fresh).unwrap();
            assert!(fresh.state.is_none() && fresh.remark.is_some());
        }
    }
    let folder = copied(own.path());
    counted(&folder.path().join(WEIGHTS), &stored(&first), Dtype::F32);
    let error = open(&first, folder.path()).unwrap_err().to_string();
    assert!(error.contains(STATE), "{error}");
    fs::remove_file(folder.path().join(STATE)).unwrap();
    let opened = open(&first, folder.path()).unwrap();
    assert!(opened.state.is_none() && opened.remark.unwrap().contains("step 0"));
    let folder = copied(own.path());
    fs::remove_file(folder.path().join(STATE)).unwrap();
    let error = open(&first, folder.path()).unwrap_err().to_string();
    assert!(error.contains(STATE) && error.contains("step 5"), "{error}");
}

#[test]
fn a_save_that_is_still_arriving_is_the_save() {
    let model = model(GPT2);
    let (old, new) = (saved(&model, 1, 5), saved(&model, 9, 6));
    let wanted = contents(new.path());
    for moved in 0..=NAMES.len() {
        let folder = copied(old.path());
        let arriving: PathBuf = folder.path().join(".meshwright-save");
        fs::create_dir(&arriving).unwrap();
        for (place, name) in NAMES.into_iter().enumerate() {
            let target = if place < moved { folder.path() } else { &arriving };
            fs::copy(new.path().join(name), target.join(name)).unwrap();
        }
        fs::write(folder.path().join("notes.txt"), "mine").unwrap();
        let opened = open(&model, folder.path()).unwrap();
        assert_eq!((opened.state.unwrap().step, opened.remark), (6, None), "{moved} were moved");
        save_into(folder.path(), &model, 9, 6);
        assert_eq!(contents(folder.path()), wanted);
        assert_eq!(names(folder.path()), [CONFIG, WEIGHTS, "notes.txt", STATE]);
    }
}

#[test]
fn whatever_else_is_in_a_folder_stays() {
    let model = model(GPT2);
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("out");
    save_into(&folder, &model, 1, 5);
    assert_eq!(names(place.path()), ["out"]);
    fs::write(folder.join("notes.txt"), "mine").unwrap();
    // Left by a run that was killed.
    for left in [place.path(), &folder] {
        fs::create_dir(left.join(".meshwright-save-left")).unwrap();
        fs::write(left.join(".meshwright-save-left/model.safetensors"), "half").unwrap();
    }
    let check = |step: u64| {
        save_into(&folder, &model, step, step);
        assert_eq!(open(&model, &folder).unwrap().state.unwrap().step, step);
        assert_eq!(fs::read_to_string(folder.join("notes.txt")).unwrap(), "mine");
        assert_eq!(names(place.path()), ["out"]);
    };
    check(6);
    assert_eq!(names(&folder), [CONFIG, WEIGHTS, "notes.txt", STATE]);
    // A folder in it has no second name, so files move in one by one.
    fs::create_dir(folder.join("logs")).unwrap();
    fs::write(folder.join("logs/one"), "1").unwrap();
    check(7);
    assert_eq!(names(&folder), [CONFIG, "logs", WEIGHTS, "notes.txt", STATE]);
    assert_eq!(fs::read_to_string(folder.join("logs/one")).unwrap(), "1");
}

#[cfg(unix)]
#[test]
fn a_folder_keeps_its_permissions_and_a_link_leads_where_it_led() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    let model = model(GPT2);
    let place = tempfile::tempdir().unwrap();
    let (folder, link) = (place.path().join("out"), place.path().join("link"));
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o2750)).unwrap();
    symlink("out", &link).unwrap();
    symlink("nowhere", folder.join("dangling")).unwrap();
    let before = fs::metadata(&folder).unwrap();
    save_into(&link, &model, 1, 5);
    let after = fs::metadata(&folder).unwrap();
    assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(names(&folder), [CONFIG, "dangling", WEIGHTS, STATE]);
    assert_eq!(names(place.path()), ["link", "out"]);
    assert_eq!(fs::metadata(folder.join(WEIGHTS)).unwrap().mode() & 0o600, 0o600);
}

#[test]
fn a_save_that_fails_leaves_the_old_one() {
    let model = model(GPT2);
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("out");
    save_into(&folder, &model, 1, 5);
    let before = contents(&folder);
    for (wrong, of) in
        [(f64::INFINITY, Kept::Parameters), (f64::NAN, Kept::SecondMoments), (1e300, Kept::FirstMoments)]
    {
        let values = |kept: Kept, parameter: (usize, Role)| {
            let number = if kept == of && parameter.0 == 4 { wrong } else { 0.5 };
            Some(vec![number; 1 << 12])
        };
        let progress = Progress { step: 6, data_position: 24 };
        let error = write(&folder, &model, ElementType::Fp32, progress, &values).map(drop).unwrap_err();
        assert!(matches!(error, WeightsError::NotFinite { step: 6, .. }), "{error}");
        assert_eq!((contents(&folder), names(place.path())), (before.clone(), vec!["out".to_owned()]));
    }
    fs::remove_file(folder.join(STATE)).unwrap();
    fs::create_dir(folder.join(STATE)).unwrap();
    let values = |_: Kept, _: (usize, Role)| None;
    let progress = Progress { step: 6, data_position: 24 };
    let error = write(&folder, &model, ElementType::Fp32, progress, &values).map(drop).unwrap_err();
    assert!(error.to_string().contains(STATE), "{error}");
    assert_eq!(names(place.path()), ["out"]);
}

#[test]
fn saves_at_the_same_time_are_one_of_them() {
    let model = model(GPT2);
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("out");
    let wanted: Vec<_> = (1..5).map(|step| contents(saved(&model, step, step).path())).collect();
    for _ in 0..4 {
        std::thread::scope(|scope| {
            for step in 1..5 {
                scope.spawn({
                    let (folder, model) = (&folder, &model);
                    move || save_into(folder, model, step, step)
                });
            }
            for _ in 0..20 {
                // A reader finds one of them, whole, or none yet.
                if folder.exists() {
                    open(&model, &folder).unwrap();
                }
            }
        });
        assert!(wanted.contains(&contents(&folder)));
        assert_eq!((names(place.path()), names(&folder).len()), (vec!["out".to_owned()], 3));
    }
}

/// Writing holds at once what it said before.
#[test]
fn memory_of_saving_is_known_before() {
    use std::cell::Cell;

    for text in [GPT2, MIXTRAL, GRAPH] {
        let model = model(text);
        let most = Cell::new(0);
        let values = |_: Kept, (layer, role): (usize, Role)| {
            let list = parameters(&model.layer(layer).kind);
            let elements = list.iter().find(|parameter| parameter.role == role).unwrap().elements();
            most.set(elements.max(most.get()));
            Some(vec![0.0; elements as usize])
        };
        let folder = tempfile::tempdir().unwrap();
        let progress = Progress { step: 0, data_position: 0 };
        write(folder.path(), &model, ElementType::Fp32, progress, &values).unwrap().put().unwrap();
        let said = memory_of_saving(&model, ElementType::Fp32).0;
        assert!(said >= 3 * 8 * most.get(), "{said} for {} elements", most.get());
    }
}
