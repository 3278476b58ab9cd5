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
    assert_eq!(list["model_types"].as_array().unwrap().len(), 94);
}

#[test]
fn clusters_are_listed_with_what_their_numbers_rest_on() {
    let place = Place::new();
    let text = place.line("clusters").stdout;
    assert!(text.contains("NODESxDEVICESxDEVICE") && text.contains("989.0 TFLOP/s"), "{text}");
    let list = place.line("clusters --json").json();
    let devices = list["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 39);
    for device in devices {
        assert!(device["memory_bytes"].as_u64().unwrap() > 0);
        assert!(device["peak_flops_per_s"]["bf16"].as_f64().unwrap() > 0.0);
        assert!(device["evidence"]["estimate"].as_u64().unwrap() > 0);
        // What no run was measured on is marked so.
        let is_new = ["h100-pcie", "h20", "l4", "mi325x", "a800-pcie-80gb", "t4", "rtx-5090"]
            .contains(&device["name"].as_str().unwrap());
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
        // Elvish and PowerShell complete no values.
        if ["bash", "zsh", "fish"].contains(&shell) {
            for name in
                ["llama-3.1-8b", "1x8xh100-sxm", "torchtitan", "sched=zb-v", "zero=3", "ckpt=full", "grad"]
            {
                assert!(run.stdout.contains(name), "{shell}: {name}");
            }
        }
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
fn help_on_strategies_says_of_every_key_how_it_is_written() {
    let place = Place::new();
    let topic = place.line("help strategy");
    assert_eq!((topic.code, topic.stderr.as_str()), (0, ""));
    for key in Key::ALL {
        let form = key.form().replace('`', "");
        let row = format!(" {key:<10} {}", form.split(' ').next().unwrap());
        assert!(topic.stdout.contains(&row), "{row}");
    }
    for line in
        ["--help strategy", "plan --help strategy", "simulate gpt2 --help strategy", "plan -h strategy"]
    {
        assert_eq!(place.line(line).stdout, topic.stdout, "{line}");
    }
}

/// Help is read on a screen: what few need is behind `--help`, and how strategies are written behind `help strategy`.
#[test]
fn help_fits_a_screen() {
    let place = Place::new();
    let commands = [
        "",
        "plan",
        "simulate",
        "explain",
        "execute",
        "calibrate",
        "validate",
        "export",
        "report",
        "models",
        "clusters",
        "devices",
        "completions",
        "help",
    ];
    for command in commands {
        let (short, long) = (
            place.wide(&format!("{command} -h"), 100).stdout,
            place.wide(&format!("{command} --help"), 100).stdout,
        );
        assert!(short.lines().count() <= 42, "{command}: {}\n{short}", short.lines().count());
        assert!(long.lines().count() <= 80, "{command}: {}\n{long}", long.lines().count());
        for text in [&short, &long] {
            assert!(!text.contains("zb-v") && !text.contains("[1f1b"), "{text}");
            assert!(text.contains("Examples:\n  meshwright "), "{command}: {text}");
        }
        if !command.is_empty() {
            let topic = place.wide(&format!("help {command}"), 100);
            assert_eq!((topic.code, topic.stdout), (0, long), "{command}");
        }
    }
    // Each option is in the long one, and what is typed daily in the short one.
    let (short, long) = (place.line("plan -h").stdout, place.line("plan --help").stdout);
    for option in
        ["--cluster", "--seq-len", "--engine", "--fix", "--memory-limit", "--report", "--sweep", "--export"]
    {
        assert!(short.contains(option) && long.contains(option), "{option}");
    }
    for option in ["--mtbf-device", "--tolerance", "--free", "--mtp", "--exhaustive"] {
        assert!(!short.contains(option) && long.contains(option), "{option}");
    }
    assert!(short.contains("help strategy") && short.contains("--help"), "{short}");
    assert_eq!(place.line("help nothing").code, 2);
}
