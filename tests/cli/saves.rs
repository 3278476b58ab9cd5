//! Saves under attack: killed runs, files that were changed or exchanged, signals, weights that are no numbers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::Value;

use crate::place::{Place, Run};

const FILES: [&str; 3] = ["model.safetensors", "state.safetensors", "config.json"];

/// A model whose save takes a while, and one that takes none.
const WIDE: &str =
    r#"{"model_type":"gpt2","n_embd":128,"n_layer":2,"n_head":2,"vocab_size":8192,"n_positions":16}"#;
const TINY: &str =
    r#"{"model_type":"gpt2","n_embd":16,"n_layer":2,"n_head":2,"vocab_size":32,"n_positions":16}"#;

fn planned(place: &Place, model: &str, plan: &str) {
    place.write("model.json", model);
    let line = format!(
        "simulate model.json --cluster 1x2xcpu --global-batch 2 --seq-len 8 --precision fp32 --strategy dp=2 --out {plan}"
    );
    let run = place.line(&line);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

fn done(place: &Place, line: &str) -> Run {
    let run = place.line(line);
    assert_eq!(run.code, 0, "{line}\n{}", run.stderr);
    run
}

fn started(place: &Place, line: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshwright"));
    command.args(line.split_whitespace()).arg("--no-calibrate").current_dir(place.path());
    command.env("CUDA_VISIBLE_DEVICES", "").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn contents(folder: &Path) -> [Vec<u8>; 3] {
    FILES.map(|file| fs::read(folder.join(file)).unwrap_or_default())
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Numbers that look drawn, the same in every run (Knuth's multiplicative hashing).
fn share(number: u64) -> f64 {
    f64::from((number.wrapping_mul(2_654_435_761) >> 7) as u32 % 1000) / 1000.0
}

fn is_staging(path: &Path) -> bool {
    path.file_name().unwrap().to_string_lossy().starts_with(".meshwright-save")
}

fn stagings(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| is_staging(path)).collect()
}

/// Kills `child` at the instant that `number` draws: every other time within its save, of which it is known by what is
/// written then, and else at any time of the run.
fn kill(child: &mut Child, place: &Place, number: u64, (run, save): (Duration, Duration)) {
    if number.is_multiple_of(2) {
        while stagings(place.path()).is_empty() && child.try_wait().unwrap().is_none() {
            std::hint::spin_loop();
        }
        sleep(save.mul_f64(1.1 * share(number)));
    } else {
        sleep(run.mul_f64(share(number)));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Runs killed at random instants over an older save leave the old save or the new one, whole, whatever looks at it, with
/// what else is in its folder. `MESHWRIGHT_KILLS` says how many.
#[test]
fn a_killed_run_leaves_the_old_save_or_the_new_one() {
    let kills = std::env::var("MESHWRIGHT_KILLS").map_or(12, |count| count.parse().unwrap());
    let place = Place::new();
    planned(&place, WIDE, "plan.json");
    done(&place, "execute plan.json --steps 1 --save old");
    place.write("old/notes.txt", "mine");
    let out = place.path().join("out");
    copy(&place.path().join("old"), &out);
    let line = "execute plan.json --init out --steps 1 --save out";
    let began = Instant::now();
    let mut child = started(&place, line);
    while stagings(place.path()).is_empty() && child.try_wait().unwrap().is_none() {
        std::hint::spin_loop();
    }
    let at_save = Instant::now();
    assert!(child.wait().unwrap().success());
    let times = (began.elapsed(), at_save.elapsed());
    let (old, new) = (contents(&place.path().join("old")), contents(&out));
    assert_ne!(old, new);
    let mut counts = [0; 2];
    for number in 0..kills {
        copy(&place.path().join("old"), &out);
        let mut child = started(&place, line);
        kill(&mut child, &place, number, times);
        let found = contents(&out);
        let step = if found == old { 1 } else { 2 };
        assert!(found == old || found == new, "kill {number} left a mixture");
        assert_eq!(place.read("out/notes.txt"), "mine", "kill {number}");
        counts[step - 1] += 1;
        let run = done(&place, "execute plan.json --init out --steps 0 --json");
        assert_eq!(run.json()["first_step"], step, "kill {number}");
    }
    println!("{kills} kills: {} left the old save, {} the new one, 0 a mixture", counts[0], counts[1]);
    done(&place, line);
    assert_eq!(stagings(place.path()), Vec::<PathBuf>::new(), "the next save takes away what was left");
    assert_eq!(stagings(&out), Vec::<PathBuf>::new());
}

/// Every file of a save in turn cut, changed, gone, or that of another step, run or model.
#[test]
fn a_save_with_a_wrong_file_is_refused_and_the_file_is_named() {
    let place = Place::new();
    planned(&place, TINY, "plan.json");
    done(&place, "execute plan.json --steps 2 --save own");
    done(&place, "execute plan.json --steps 3 --save step");
    done(&place, "execute plan.json --steps 2 --seed 5 --save run");
    planned(&place, &TINY.replace("\"n_head\":2", "\"n_head\":4"), "other.json");
    done(&place, "execute other.json --steps 2 --save model");
    let out = place.path().join("out");
    let refused = |what: &str, file: &str| {
        let run = place.line("execute plan.json --init out --steps 1 --json");
        assert_eq!(run.code, 3, "{file}, {what}: {}", run.stderr);
        let error = &run.json()["error"];
        assert_eq!((error["kind"].as_str(), error["field"].as_str()), (Some("input"), Some("init")));
        assert!(run.stderr.contains(&format!("out/{file}")), "{file}, {what}: {}", run.stderr);
    };
    for file in FILES {
        let path = out.join(file);
        let reset = || copy(&place.path().join("own"), &out);
        reset();
        let sound = fs::read(&path).unwrap();
        for at in [0, 1, 9, 200, sound.len() / 2, sound.len() - 1] {
            let mut bytes = sound.clone();
            bytes[at % sound.len()] ^= 0x10;
            fs::write(&path, bytes).unwrap();
            refused(&format!("byte {at}"), file);
        }
        for length in [0, 100, sound.len() - 4] {
            fs::write(&path, &sound[..length]).unwrap();
            refused(&format!("{length} bytes"), file);
        }
        for other in ["step", "run", "model"] {
            reset();
            let theirs = fs::read(place.path().join(other).join(file)).unwrap();
            if theirs != sound {
                fs::write(&path, theirs).unwrap();
                refused(&format!("of another {other}"), file);
            }
        }
        if file != "config.json" {
            reset();
            fs::remove_file(&path).unwrap();
            refused("gone", file);
        }
    }
    copy(&place.path().join("own"), &out);
    fs::remove_file(out.join("state.safetensors")).unwrap();
    let run = done(&place, "execute plan.json --init out --fresh --steps 1 --json");
    assert_eq!(run.json()["first_step"], 0);
    assert!(run.stderr.contains("stopped after step 2") && run.stderr.contains("step 0"), "{}", run.stderr);
    assert_eq!(place.line("execute plan.json --fresh").code, 2, "fresh from what?");
}

/// Weights that others saved start at step 0, and a line says so; so do one's own where that is asked for, with moments of 0.
#[test]
fn weights_of_others_start_at_step_0() {
    let place = Place::new();
    planned(&place, TINY, "plan.json");
    done(&place, "execute plan.json --steps 2 --save own");
    let bytes = fs::read(place.path().join("own/model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    fs::create_dir(place.path().join("theirs")).unwrap();
    let tensors: Vec<(String, TensorView<'_>)> = file.tensors();
    safetensors::serialize_to_file(tensors, None, &place.path().join("theirs/model.safetensors")).unwrap();
    let losses = |line: &str| {
        let run = done(&place, &format!("execute plan.json --steps 2 --json {line}"));
        let document: Value = run.json();
        (document["first_step"].clone(), document["losses"].clone(), run.stderr)
    };
    let (step, theirs, said) = losses("--init theirs");
    assert_eq!(step, 0);
    assert!(said.contains("no state") && said.contains("step 0"), "{said}");
    let (step, fresh, said) = losses("--init own --fresh");
    assert_eq!((step, fresh), (Value::from(0), theirs.clone()));
    assert!(said.contains("step 2"), "{said}");
    let (step, resumed, said) = losses("--init own");
    assert!(step == 2 && !said.contains("note:"), "{step}: {said}");
    assert_ne!(resumed, theirs);
}

#[test]
fn a_terminated_run_saves_as_an_interrupted_one_does() {
    let place = Place::new();
    planned(&place, TINY, "plan.json");
    let mut child = started(&place, "execute plan.json --steps 1000000000 --save out");
    sleep(Duration::from_millis(2500));
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let run = done(&place, "execute plan.json --init out --steps 0 --json");
    assert!(run.json()["first_step"].as_u64().unwrap() > 0);
    assert_eq!(place.names(), ["model.json", "out", "plan.json"]);
}

#[test]
fn weights_that_are_no_numbers_are_not_saved() {
    let place = Place::new();
    planned(&place, TINY, "plan.json");
    let line = "execute plan.json --lr 3e38 --steps 1";
    for line in [line.to_owned(), format!("{line} --save out"), format!("{line} --trace trace.json")] {
        let run = place.line(&format!("{line} --json"));
        assert_eq!(run.code, 6, "{line}: {}", run.stderr);
        assert_eq!(run.json()["error"]["kind"], "run");
        assert!(run.stderr.contains("after step 1"), "{line}: {}", run.stderr);
    }
    assert_eq!(place.names(), ["model.json", "plan.json", "trace.json"]);
    let trace: Value = serde_json::from_str(&place.read("trace.json")).unwrap();
    assert!(trace["failure"].as_str().unwrap().contains("after step 1"));
    done(&place, "execute plan.json --steps 1 --save out");
    let before = contents(&place.path().join("out"));
    assert_eq!(place.line(&format!("{line} --init out --save out")).code, 6);
    assert_eq!(contents(&place.path().join("out")), before);
}

/// Folders that stand where a save is to go, and disks that are too small for it.
#[test]
fn a_save_goes_where_it_is_told_or_leaves_things_as_they_are() {
    let place = Place::new();
    planned(&place, TINY, "plan.json");
    fs::create_dir(place.path().join("here")).unwrap();
    place.write("here/notes.txt", "mine");
    // The folder that one is in stays the folder that one is in.
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshwright"));
    command.args("execute ../plan.json --no-calibrate --steps 1 --save .".split(' '));
    let inside = command.current_dir(place.path().join("here")).output().unwrap();
    assert!(inside.status.success(), "{}", String::from_utf8_lossy(&inside.stderr));
    let again = place.line("execute plan.json --init here --steps 1 --save here/deeper/still");
    assert_eq!((again.code, place.read("here/notes.txt")), (0, "mine".to_owned()));
    done(&place, "execute plan.json --init here/deeper/still --steps 0");
    let names: Vec<_> = fs::read_dir(place.path().join("here")).unwrap().collect();
    assert_eq!(names.len(), 5, "{names:?}");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("here", place.path().join("link")).unwrap();
        done(&place, "execute plan.json --init link --steps 1 --save link");
        assert!(fs::symlink_metadata(place.path().join("link")).unwrap().is_symlink());
        let run = done(&place, "execute plan.json --init here --steps 0 --json");
        assert_eq!(run.json()["first_step"], 2);
        // A file that may not grow beyond a few kibibytes is what a full disk is like.
        let before = contents(&place.path().join("here"));
        let script = format!(
            "trap '' XFSZ; ulimit -f 8; exec {} execute plan.json --no-calibrate --init here --steps 1 --save here",
            env!("CARGO_BIN_EXE_meshwright")
        );
        let full = Command::new("bash").args(["-c", &script]).current_dir(place.path()).output().unwrap();
        let said = String::from_utf8_lossy(&full.stderr).into_owned();
        assert_eq!(full.status.code(), Some(5), "{said}");
        assert!(said.contains("here/model.safetensors"), "{said}");
        assert_eq!(contents(&place.path().join("here")), before);
    }
    place.write("file", "mine");
    let run = place.line("execute plan.json --steps 1 --save file");
    assert_eq!((run.code, place.read("file")), (5, "mine".to_owned()), "{}", run.stderr);
    assert_eq!(stagings(place.path()), Vec::<PathBuf>::new());
}
