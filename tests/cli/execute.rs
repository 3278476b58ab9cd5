//! `execute`: the quick start, resumed runs, kept gradients, and every bad input with its exit code.

use std::fs;

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use crate::place::Place;

const TINY: &str =
    r#"{"model_type":"gpt2","n_embd":16,"n_layer":2,"n_head":2,"vocab_size":32,"n_positions":16}"#;

/// A plan of the tiny model on two CPU ranks, in `plan.json`.
fn planned(place: &Place, strategy: &str, precision: &str) {
    place.write("tiny.json", TINY);
    let line = format!(
        "simulate tiny.json --cluster 1x2xcpu --global-batch 4 --seq-len 8 --precision {precision} \
         --strategy {strategy} --out plan.json"
    );
    let run = place.line(&line);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Runs `line` with `--json`, which must end well.
fn done(place: &Place, line: &str) -> Value {
    let run = place.line(&format!("{line} --json"));
    assert_eq!(run.code, 0, "{line}\n{}", run.stderr);
    run.json()
}

/// Runs `line`, which must end with `code` and an error of `kind` that says `says`.
fn fails(place: &Place, line: &str, (code, kind, field): (i32, &str, &str), says: &str) {
    let run = place.line(&format!("{line} --json"));
    assert_eq!(run.code, code, "{line}\n{}", run.stderr);
    let error = &run.json()["error"];
    assert_eq!((&error["kind"], &error["field"]), (&json!(kind), &json!(field)), "{line}\n{}", run.stderr);
    assert!(error["message"].as_str().unwrap().contains(says), "{line}\n{}", run.stderr);
    assert!(run.stderr.contains(says), "{line}\n{}", run.stderr);
}

/// Memory rows are there for every rank, space and category, sum to their totals, and do not differ.
fn check_memory(document: &Value, ranks: u64) {
    let rows = document["memory"].as_array().unwrap();
    assert_eq!(rows.len() as u64, ranks * 2 * 8);
    for rows in rows.chunks(8) {
        let bytes = |row: &Value, field: &str| row[field].as_u64().unwrap();
        for row in rows {
            assert_eq!(row["predicted_bytes"], row["measured_bytes"], "{row}");
            assert_eq!(row["predicted_own_peak_bytes"], row["measured_own_peak_bytes"], "{row}");
        }
        let sum: u64 = rows[..7].iter().map(|row| bytes(row, "measured_bytes")).sum();
        assert_eq!((sum, &rows[7]["category"]), (bytes(&rows[7], "measured_bytes"), &json!("total")));
    }
    assert!(rows[7]["measured_bytes"].as_u64().unwrap() > 0);
    check_arenas(document, ranks);
}

/// Arenas hold what is live, steps write as far as predicted, and the process is not much larger than they are; none of
/// it was measured where no step was made.
fn check_arenas(document: &Value, ranks: u64) {
    let rows = document["extent"].as_array().unwrap();
    assert_eq!(rows.len() as u64, 2 * ranks);
    let has_steps = !numbers(&document["losses"]).is_empty();
    for row in rows {
        let [live, extent] = ["live_bytes", "extent_bytes"].map(|field| row[field].as_u64().unwrap());
        assert!(live <= extent && row["predicted_bytes"].as_u64().unwrap() <= extent, "{row}");
        let measured = if has_steps { row["predicted_bytes"].clone() } else { Value::Null };
        assert_eq!(row["measured_bytes"], measured, "{row}");
    }
    let resident = &document["resident_bytes"];
    if !has_steps {
        assert_eq!(resident["measured"], Value::Null);
        return;
    }
    let [predicted, measured] = ["predicted", "measured"].map(|field| resident[field].as_f64().unwrap());
    let most = (0.05 * predicted).max(64.0 * 1024.0 * 1024.0);
    assert!((measured - predicted).abs() <= most, "{resident}");
}

/// Rows of time sum to a step that is no longer than the measured one.
fn check_time(document: &Value) {
    let step = document["step_time_s"]["measured"].as_f64().unwrap();
    for rows in document["time"].as_array().unwrap().chunks(6) {
        let sum: f64 = rows.iter().map(|row| row["measured_s"].as_f64().unwrap()).sum();
        assert!(sum > 0.0 && sum <= step * 1.01, "{sum} of {step}");
    }
}

#[test]
fn the_quick_start_learns_and_memory_is_as_predicted() {
    let place = Place::new();
    let line =
        "execute --steps 4 --lr 2e-3 --global-batch 4 --seq-len 32 --strategy zero=1,micro=2 --trace t.json";
    let run = place.line(line);
    let Some(last) = run.stdout.lines().last() else { panic!("{}", run.stderr) };
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(last.starts_with("Memory is as predicted to the byte") && last.contains("binds"), "{last}");
    let trace: Value = serde_json::from_str(&place.read("t.json")).unwrap();
    let losses = numbers(&trace["losses"]);
    assert!(losses.len() == 4 && losses[3] < losses[0] - 0.1, "{losses:?}");
    let ranks = trace["plan"]["cluster"]["devices"].as_u64().unwrap();
    check_memory(&trace, ranks);
    check_time(&trace);
    let schema = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schemas/trace.schema.json"));
    let schema: Value = serde_json::from_str(&schema.unwrap()).unwrap();
    jsonschema::validate(&schema, &trace).unwrap();
    let stage = &trace["stages"][0];
    assert_eq!(
        stage["instructions"].as_array().unwrap().len(),
        trace["ranks"][0]["start_us"].as_array().unwrap().len()
    );
    let curve = stage["device_curve"].as_array().unwrap();
    let highest = curve.iter().map(|moment| moment["bytes"].as_u64().unwrap()).max();
    assert_eq!(highest, trace["memory"][7]["measured_bytes"].as_u64());
}

#[test]
fn json_has_the_documented_fields() {
    let place = Place::new();
    planned(&place, "pp=2,offload=optimizer:1", "fp32");
    let document = done(&place, "execute plan.json --steps 3 --trace trace.json");
    assert_eq!(numbers(&document["losses"]).len(), 3);
    assert_eq!(document["trace"], "trace.json");
    check_memory(&document, 2);
    check_time(&document);
    let host = document["memory"][15].clone();
    assert_eq!((&host["space"], &host["category"]), (&json!("host"), &json!("total")));
    assert!(host["measured_bytes"].as_u64().unwrap() > 0);
    assert!(document["step_time_s"]["predicted"].as_f64().unwrap() > 0.0);
    let schema = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schemas/execute.schema.json"));
    let schema: Value = serde_json::from_str(&schema.unwrap()).unwrap();
    jsonschema::validate(&schema, &document).unwrap();
}

#[test]
fn a_saved_run_goes_on_bit_for_bit() {
    for (strategy, precision) in [("zero=1,micro=1", "fp32"), ("pp=2,micro=1", "fp64")] {
        let place = Place::new();
        planned(&place, strategy, precision);
        let execute = "execute plan.json --clip 0 --lr 1e-2";
        let whole = done(&place, &format!("{execute} --steps 5 --save whole"));
        let first = done(&place, &format!("{execute} --steps 2 --save part"));
        let rest = done(&place, &format!("{execute} --steps 3 --init part --save part"));
        assert_eq!(rest["first_step"], 2);
        let parts = [numbers(&first["losses"]), numbers(&rest["losses"])].concat();
        assert_eq!(numbers(&whole["losses"]), parts, "{strategy}");
        for file in ["model.safetensors", "state.safetensors", "config.json"] {
            let [one, other] = ["whole", "part"].map(|folder| fs::read(place.path().join(folder).join(file)));
            assert!(one.unwrap() == other.unwrap(), "{file} of {strategy} differs");
        }
    }
}

#[test]
fn initial_weights_and_gradients_are_written() {
    let place = Place::new();
    planned(&place, "zero=2,micro=2", "fp32");
    let document = done(&place, "execute plan.json --steps 0 --save start");
    assert_eq!((numbers(&document["losses"]), &document["saved"]), (Vec::new(), &json!("start")));
    done(&place, "execute plan.json --steps 1 --grads all");
    let all = fs::read(place.path().join("grads.safetensors")).unwrap();
    let line =
        "execute plan.json --steps 1 --init start --grads transformer.wpe.weight --grads-out one.safetensors";
    assert_eq!(done(&place, line)["gradients"], "one.safetensors");
    let one = fs::read(place.path().join("one.safetensors")).unwrap();
    let (all, one) = (SafeTensors::deserialize(&all).unwrap(), SafeTensors::deserialize(&one).unwrap());
    assert_eq!(one.names(), ["transformer.wpe.weight"]);
    // Drawn weights and those read back are the same, so their gradients are.
    let [from_drawn, from_read] = [&all, &one].map(|file| file.tensor("transformer.wpe.weight").unwrap());
    assert_eq!((from_drawn.shape(), from_drawn.data()), (&[16, 16][..], from_read.data()));
    assert!(from_drawn.data().iter().any(|&byte| byte != 0));
    let weights = fs::read(place.path().join("start/model.safetensors")).unwrap();
    let weights = SafeTensors::deserialize(&weights).unwrap();
    let mut names = weights.names();
    let mut found = all.names();
    names.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, names, "every weight has a gradient");
}

#[test]
fn a_dry_run_counts_every_rank() {
    let place = Place::new();
    place.write("tiny.json", TINY.replace("\"n_layer\":2", "\"n_layer\":8"));
    let line = "simulate tiny.json --cluster 8x8xh100-sxm --global-batch 64 --seq-len 8 --strategy \
                tp=2,pp=4,zero=1,micro=2 --out plan.json";
    assert_eq!(place.line(line).code, 0);
    let document = done(&place, "execute plan.json --dry-run");
    check_memory(&document, 64);
    assert!(numbers(&document["losses"]).is_empty());
    assert!(document["step_time_s"]["measured"].is_null());
    let run = place.line("execute plan.json --dry-run");
    assert_eq!(run.code, 0);
    assert!(run.stdout.contains("48 to 63") && run.stdout.contains("nothing was computed"), "{}", run.stdout);
}

#[test]
fn plans_that_cannot_be_executed_say_why() {
    let place = Place::new();
    planned(&place, "dp=2,micro=1", "fp32");
    let plan = place.read("plan.json");
    place.write("older.json", plan.replacen("\"version\": 3", "\"version\": 2", 1));
    place.write("changed.json", plan.replacen("\"fits\": true", "\"fits\": false", 1));
    place.write("cut.json", &plan[..plan.len() / 2]);
    for (line, expected, says) in [
        ("older.json", (3, "input", "version"), "meshwright simulate"),
        ("changed.json", (3, "input", "digest"), "changed after it was written"),
        ("cut.json", (3, "input", "plan"), "not JSON"),
        ("missing.json", (3, "input", "plan"), "missing.json"),
        ("plan.json --steps -1", (2, "usage", "steps"), "from 0"),
        ("plan.json --lr fast", (2, "usage", "lr"), "at least 0"),
        ("plan.json --betas 0.9", (2, "usage", "betas"), "two numbers"),
        ("plan.json --data-format csv", (2, "usage", "data-format"), "u16"),
        ("plan.json --device cuda", (6, "run", "device"), "CUDA driver"),
        ("plan.json --precision fp16", (4, "illegal", "plan"), "bf16, fp32 and fp64"),
        ("plan.json --global-batch 3", (4, "illegal", "pp"), "global batch of 3"),
        ("plan.json --strategy tp=4", (4, "illegal", "tp"), "2 devices"),
        ("plan.json --save plan.json/folder", (5, "output", "save"), "no folder"),
        ("plan.json --trace nowhere/trace.json", (5, "output", "trace"), "does not exist"),
    ] {
        fails(&place, &format!("execute {line}"), expected, says);
    }
    let line = "simulate tiny.json --cluster 1x2xcpu --engine megatron --global-batch 4 --seq-len 8 --strategy dp=2 \
                --out megatron.json";
    assert_eq!(place.line(line).code, 0);
    fails(&place, "execute megatron.json", (4, "illegal", "engine"), "embedded");
}

/// The same ids in every form of file that is read: one stream of tokens, so the same losses to the bit.
#[test]
fn every_form_of_data_is_the_same_tokens() {
    let place = Place::new();
    planned(&place, "dp=2,micro=1", "fp32");
    let ids: Vec<u8> = (0..400_u32).map(|at| (at * at % 29) as u8).collect();
    let wide =
        |width: usize| ids.iter().flat_map(move |&id| (0..width).map(move |at| if at == 0 { id } else { 0 }));
    let header = |magic: i32, version: i32| {
        let mut numbers = [0; 256];
        numbers[..3].copy_from_slice(&[magic, version, ids.len() as i32]);
        numbers.into_iter().flat_map(i32::to_le_bytes)
    };
    place.write("bytes.txt", &ids);
    place.write("nanogpt.bin", wide(2).collect::<Vec<u8>>());
    place.write("gpt2.bin", header(20_240_520, 1).chain(wide(2)).collect::<Vec<u8>>());
    place.write("llama3.bin", header(20_240_801, 7).chain(wide(4)).collect::<Vec<u8>>());
    let losses =
        |file: &str| numbers(&done(&place, &format!("execute plan.json --steps 4 --data {file}"))["losses"]);
    let of_bytes = losses("bytes.txt");
    assert_eq!(of_bytes.len(), 4);
    for file in ["nanogpt.bin", "gpt2.bin", "llama3.bin"] {
        assert_eq!(losses(file), of_bytes, "{file}");
    }
    let drawn = numbers(&done(&place, "execute plan.json --steps 4")["losses"]);
    assert_ne!(drawn, of_bytes, "the file is not read");
}

#[test]
fn data_and_weights_that_cannot_be_used_say_why() {
    let place = Place::new();
    planned(&place, "dp=2,micro=1", "fp32");
    place.write("short.bin", [0; 40]);
    place.write("large.bin", [9, 0, 200, 0].repeat(100));
    place.write("odd.bin", [0; 401]);
    for (line, field, says) in [
        ("--data short.bin", "data", "needs 33 tokens"),
        ("--data large.bin", "data", "token 1 is 200; the model's vocabulary is 32"),
        ("--data odd.bin", "data", "401 bytes"),
        ("--data missing.bin", "data", "missing.bin"),
        ("--init nowhere", "init", "nowhere"),
        ("--grads transformer.wte.wieght", "grads", "transformer.wte.weight"),
    ] {
        fails(&place, &format!("execute plan.json --steps 1 {line}"), (3, "input", field), says);
    }
    done(&place, "execute plan.json --steps 0 --save weights");
    place.write("wide.json", TINY.replace("\"n_embd\":16", "\"n_embd\":32"));
    let line = "simulate wide.json --cluster 1x2xcpu --global-batch 4 --seq-len 8 --precision fp32 --strategy dp=2 \
                --out wide-plan.json";
    assert_eq!(place.line(line).code, 0);
    let says = "transformer.wte.weight";
    fails(&place, "execute wide-plan.json --init weights", (3, "input", "init"), says);
    fails(&place, "execute wide-plan.json --init weights", (3, "input", "init"), "[32, 16]");
    place.write("deep.json", TINY.replace("\"n_layer\":2", "\"n_layer\":3"));
    let line = line.replace("wide", "deep");
    assert_eq!(place.line(&line).code, 0);
    fails(
        &place,
        "execute deep-plan.json --init weights",
        (3, "input", "init"),
        "no tensor `transformer.h.2.",
    );
}

#[test]
fn more_memory_than_there_is_is_said_before_anything_runs() {
    let place = Place::new();
    let line =
        "simulate gpt3-175b --cluster 8x8xh100-sxm --global-batch 64 --strategy tp=8,zero=1 --out plan.json";
    assert_eq!(place.line(line).code, 4);
    fails(&place, "execute plan.json", (4, "infeasible", "memory"), "this machine has");
}

#[test]
fn a_loss_that_is_no_number_names_its_layer() {
    let place = Place::new();
    planned(&place, "pp=2,micro=1", "fp32");
    done(&place, "execute plan.json --steps 0 --save weights");
    // As a checkpoint of others: in one's own, a byte that was changed is seen before anything runs.
    let bytes = fs::read(place.path().join("weights/model.safetensors")).unwrap();
    let sound = SafeTensors::deserialize(&bytes).unwrap();
    let wrong = "transformer.h.1.mlp.c_fc.weight";
    let mut changed = sound.tensor(wrong).unwrap().data().to_vec();
    changed[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    let tensors = sound.tensors().into_iter().map(|(name, tensor)| {
        let data = if name == wrong { &changed[..] } else { tensor.data() };
        (name, TensorView::new(tensor.dtype(), tensor.shape().to_vec(), data).unwrap())
    });
    fs::create_dir(place.path().join("theirs")).unwrap();
    safetensors::serialize_to_file(tensors, None, &place.path().join("theirs/model.safetensors")).unwrap();
    let line = "execute plan.json --steps 3 --init theirs";
    fails(
        &place,
        line,
        (6, "run", "loss"),
        "at step 0: the first value that is not finite comes out of block 1 mlp",
    );
    fails(&place, line, (6, "run", "loss"), "linear (up)");
}

#[test]
fn gradients_say_where_they_live() {
    let place = Place::new();
    planned(&place, "tp=2,micro=1", "fp32");
    let names = "transformer.wpe.weight,transformer.h.1.mlp.c_fc.weight,transformer.wte.weight";
    let line = format!("execute plan.json --steps 2 --grads {names} --trace trace.json");
    let document = done(&place, &line);
    let trace: Value = serde_json::from_str(&place.read("trace.json")).unwrap();
    assert_eq!(document["named_gradients"], trace["named_gradients"]);
    assert_eq!(trace["gradients"], trace["plan"]["gradients"], "the plan says what is done");
    let file = fs::read(place.path().join("grads.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&file).unwrap();
    let gradients = document["named_gradients"].as_array().unwrap();
    assert_eq!(gradients.len(), 3);
    for gradient in gradients {
        let name = gradient["name"].as_str().unwrap();
        let written = file.tensor(name).unwrap();
        assert_eq!(json!(written.shape()), gradient["shape"], "{name}");
        let values =
            written.data().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        let squares: f64 = values.map(|value| f64::from(value).powi(2)).sum();
        let norm = gradient["norm"].as_f64().unwrap();
        assert!((norm - squares.sqrt()).abs() < 1e-9 * norm, "{name}: {norm}");
        let shards = gradient["shards"].as_array().unwrap();
        let of_copies = |copy: bool| {
            let kept = shards.iter().filter(move |shard| shard["is_copy"] == copy);
            kept.map(|shard| shard["elements"][1].as_u64().unwrap() - shard["elements"][0].as_u64().unwrap())
        };
        assert_eq!(of_copies(false).sum::<u64>() as usize * 4, written.data().len(), "{name}");
        // Positions are on both tensor ranks, the others are cut.
        let copied = of_copies(true).sum::<u64>();
        assert_eq!(copied > 0, name.contains("wpe"), "{name}: {copied}");
    }
    let run = place.line(&line);
    assert!(
        run.stdout.contains("gradients gradient") && run.stdout.contains("0, 1: 0..256"),
        "{}",
        run.stdout
    );
}

#[test]
fn plans_say_where_gradients_live() {
    let place = Place::new();
    for (strategy, place_of, sums) in [
        (
            "dp=2,zero=0,micro=1",
            "fp32, whole on every rank; all-reduce over all data and context ranks, once",
            1,
        ),
        (
            "dp=2,zero=2,micro=1",
            "fp32, 1/2 on each rank of the shard group; reduce-scatter over the shard group, 2 times",
            0,
        ),
        ("dp=2,zero=2,micro=1,sync=deferred", "once summed, 1/2 on each rank of the shard group", 1),
    ] {
        planned(&place, strategy, "fp32");
        let plan: Value = serde_json::from_str(&place.read("plan.json")).unwrap();
        let kept = &plan["gradients"][1];
        assert_eq!(kept["sums"].as_array().map_or(0, Vec::len), sums, "{strategy}: {kept}");
        assert_eq!(
            (&kept["layers"], &kept["from"], &kept["until"]),
            (
                &json!("block 0 to block 1"),
                &json!("backward of micro-batch 0, chunk 0"),
                &json!("optimizer step")
            ),
            "{strategy}"
        );
        let line = format!(
            "simulate tiny.json --cluster 1x2xcpu --global-batch 4 --seq-len 8 --precision fp32 --strategy {strategy}"
        );
        let shown = place.line(&line).stdout;
        let shown: Vec<_> = shown.split_whitespace().collect();
        assert!(shown.join(" ").contains(place_of), "{strategy}: {}", shown.join(" "));
    }
}

#[test]
fn a_failed_run_leaves_the_trace_of_its_steps() {
    let place = Place::new();
    planned(&place, "zero=1,micro=1", "fp32");
    // The first update throws the weights far out.
    let line = "execute plan.json --steps 5 --lr 1e30 --grads all --trace trace.json";
    fails(&place, line, (6, "run", "loss"), "the trace of 1 step before that is in `trace.json`");
    fails(&place, line, (6, "run", "loss"), "no gradients were written");
    assert_eq!(place.names(), ["plan.json", "tiny.json", "trace.json"]);
    let trace: Value = serde_json::from_str(&place.read("trace.json")).unwrap();
    assert_eq!(numbers(&trace["losses"]).len(), 1);
    assert!(trace["failure"].as_str().unwrap().contains("at step 1"), "{}", trace["failure"]);
    check_memory(&trace, 2);
    let schema = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schemas/trace.schema.json"));
    let schema: Value = serde_json::from_str(&schema.unwrap()).unwrap();
    jsonschema::validate(&schema, &trace).unwrap();
    let run = place.line("validate trace.json --json");
    assert_eq!(run.code, 0, "{}", run.stderr);
}

/// Programs that keep all cores busy are seen, and then the advice is to wait for them and not to change the plan.
#[cfg(target_os = "linux")]
#[test]
fn a_loaded_machine_is_noticed_and_the_advice_follows() {
    use std::process::{Command, Stdio};

    let place = Place::new();
    planned(&place, "dp=2,micro=1", "fp32");
    let cores = std::thread::available_parallelism().unwrap().get();
    let spin = || {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdout(Stdio::null()).spawn().unwrap()
    };
    let mut others: Vec<_> = (0..2 * cores).map(|_| spin()).collect();
    let runs = ["--json", ""].map(|form| place.line(&format!("execute plan.json --steps 400 {form}")));
    for other in &mut others {
        other.kill().unwrap();
        other.wait().unwrap();
    }
    let [document, text] = runs;
    assert_eq!((document.code, text.code), (0, 0), "{}{}", document.stderr, text.stderr);
    let elsewhere = document.json()["step_time_s"]["elsewhere"].as_f64().unwrap();
    assert!(elsewhere > 0.15 * cores as f64 && elsewhere <= 1.05 * cores as f64, "{elsewhere} of {cores}");
    let last = text.stdout.lines().last().unwrap();
    assert!(last.contains("other programs kept") && last.contains("run it again"), "{last}");
    assert!(!last.contains("more ranks"), "{last}");
}
