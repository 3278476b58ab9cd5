//! Lists, help and completions.

use crate::place::Place;
use meshwright::strategy::Key;

#[test]
fn models_are_listed_with_their_published_sizes() {
    let place = Place::new();
    let text = place.line("models").stdout;
    for line in ["gpt2 ", "llama-3.1-405b ", "deepseek-v3 "] {
        assert!(text.lines().any(|row| row.starts_with(line)), "{text}");
    }
    assert!(text.contains("70,553,706,496") && text.contains("gemma3_text"));
    let list = place.line("models --json").json();
    let models = list["models"].as_array().unwrap();
    let size = |name: &str| {
        models.iter().find(|model| model["name"] == name).unwrap()["parameters"].as_u64().unwrap()
    };
    assert_eq!(size("gpt2-xl"), 1_557_611_200);
    assert_eq!(size("bloom-176b"), 176_247_271_424);
    assert_eq!(list["model_types"].as_array().unwrap().len(), 29);
}

#[test]
fn clusters_are_listed_with_what_their_numbers_rest_on() {
    let place = Place::new();
    let text = place.line("clusters").stdout;
    assert!(text.contains("NODESxDEVICESxDEVICE") && text.contains("989.0 TFLOP/s"), "{text}");
    let list = place.line("clusters --json").json();
    let devices = list["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 22);
    for device in devices {
        assert!(device["memory_bytes"].as_u64().unwrap() > 0);
        assert!(device["peak_flops_per_s"]["bf16"].as_f64().unwrap() > 0.0);
        assert!(device["evidence"]["estimate"].as_u64().unwrap() > 0);
        // What no run was measured on is marked so.
        let is_new =
            ["h100-pcie", "h20", "l4", "rtx-3090", "mi325x"].contains(&device["name"].as_str().unwrap());
        assert!(!is_new || device["measured_runs"] == 0, "{device}");
        assert_eq!(device["cost_model_hash"].as_str().unwrap().len(), 64);
    }
}

/// Whatever the machine has, its cores train, and what is missing for a GPU is said.
#[cfg(unix)]
#[test]
fn devices_are_listed_with_what_is_missing() {
    let place = Place::new();
    let run = place.line("devices");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(
        ["cpu", "libcuda", "NVRTC", "train"].iter().all(|word| run.stdout.contains(word)),
        "{}",
        run.stdout
    );
    let run = place.line("devices --json");
    let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(document["cpu"]["cores"].as_u64().unwrap() > 0);
    for library in document["cuda"]["libraries"].as_array().unwrap() {
        assert!(library["version"].is_string() != library["problem"].is_string(), "{library}");
    }
    assert!(document["verdict"].as_str().unwrap().contains("train"), "{document}");
}

#[test]
fn every_shell_has_completions() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let run = place.line(&format!("completions {shell}"));
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{shell}");
        assert!(run.stdout.contains("simulate") && run.stdout.contains("memory-limit"), "{shell}");
    }
    let run = place.line("completions csh");
    assert!(run.code == 2 && run.stderr.contains("zsh"), "{}", run.stderr);
}

#[test]
fn every_command_has_help_with_examples() {
    let place = Place::new();
    for command in ["", "plan", "simulate", "report", "models", "clusters", "devices", "completions"] {
        for flag in ["-h", "--help"] {
            let run = place.line(&format!("{command} {flag}"));
            assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{command}");
            assert!(run.stdout.contains("Examples:\n  meshwright "), "{command}: {}", run.stdout);
        }
    }
    assert_eq!(place.line("--version").stdout, concat!("meshwright ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(place.line("").code, 2, "without a command it is a usage error");
}

#[test]
fn long_help_says_of_every_key_how_it_is_written() {
    let place = Place::new();
    for command in ["plan", "simulate", "explain", "execute"] {
        let (short, long) = (place.line(&format!("{command} -h")), place.line(&format!("{command} --help")));
        for key in Key::ALL {
            let form = key.form().replace('`', "");
            let row = format!(" {key:<10} {}", form.split(' ').next().unwrap());
            assert!(long.stdout.contains(&row), "{command}: {row}");
        }
        assert!(!short.stdout.contains("zb-v") && !short.stdout.contains("[1f1b"), "{}", short.stdout);
    }
}
