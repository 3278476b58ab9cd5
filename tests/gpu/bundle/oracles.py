"""Training against an oracle of nobody's kernels: losses of 20 steps and the first gradient, which autograd and numpy
computed in f64 (`oracle/*.json`, the golden files of the main crate's tests)."""

import array
import json
import math
import struct

from parts import LeftOut

# The golden file, and the strategy.
ORACLES = [
    ("gpt2", 1, "tp=1,micro=4"), ("llama", 1, "tp=1,micro=4"), ("moe", 1, "tp=1,micro=4,capacity=full"),
    ("two_losses", 1, "tp=1,micro=4"), ("two_losses_adaptive_micro", 1, "tp=1,micro=2"),
    ("llama", 2, "tp=2,micro=4"), ("gpt2", 2, "tp=1,zero=3,micro=2"),
]
# f32 beside f64, relative to the loss, and to the tensor's norm.
LOSS_TOLERANCE, GRADIENT_TOLERANCE = 1e-3, 1e-3


def tensors(path):
    """The tensors of a safetensors file of f32, flat."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    found = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + at for at in entry["data_offsets"])
            if entry["dtype"] != "F32":
                raise ValueError(f"{name} is {entry['dtype']}, not F32")
            found[name] = array.array("f", data[begin:end])
    return found


def difference(values, expected):
    """The largest difference of norm, sum and entries, relative to the tensor's norm."""
    norm = math.sqrt(sum(value * value for value in values))
    pairs = [(norm, expected["norm"]), *((values[index], entry) for index, entry in expected["entries"])]
    # A sum of n numbers may be off by the square root of n roundings more.
    pairs.append((sum(values) / math.sqrt(len(values)), expected["sum"] / math.sqrt(len(values))))
    return max(abs(found - wanted) for found, wanted in pairs) / max(expected["norm"], 1e-2)


def trained(run, name, ranks, strategy):
    """Largest differences of losses and of gradients."""
    golden = json.loads((run.folder / "oracle" / f"{name}.json").read_text())
    model, tokens = run.out / "plans" / f"oracle-{name}.json", run.out / "plans" / f"oracle-{name}.bin"
    model.write_text(json.dumps(golden.get("config") or golden["layer_graph"]))
    tokens.write_bytes(b"".join(struct.pack("<H", token) for token in golden["tokens"]))
    workload, optimizer = golden["workload"], golden["optimizer"]
    log, plan = f"oracle-{name}-{ranks}", run.out / "plans" / f"oracle-{name}-{ranks}.json"
    _, made = run.meshwright(
        log + "-plan", "simulate", model, "--cluster", f"1x{ranks}xcpu", "--engine", "embedded", "--precision", "fp32",
        "--global-batch", workload["global_batch"], "--seq-len", workload["seq_len"], "--clip", workload["clip"],
        "--strategy", strategy, "--out", plan)
    if made.code:
        raise ValueError(f"{name} cannot be planned: {made.complaint()}")
    gradients, found = run.out / "plans" / f"{log}.safetensors", []
    for steps, wanted in ((1, ["--grads", "all", "--grads-out", gradients]), (len(golden["losses"]), [])):
        report, done = run.meshwright(
            f"{log}-{steps}", "execute", plan, "--device", "cuda", "--share-device", "--steps", steps, "--data", tokens,
            "--lr", optimizer["lr"], "--betas", ",".join(map(str, optimizer["betas"])), "--eps", optimizer["eps"],
            "--weight-decay", optimizer["weight_decay"], "--seed", golden["seed"], *wanted)
        if done.is_late():
            raise LeftOut(done.complaint())
        if done.code:
            raise ValueError(f"{name}: {done.complaint()}")
        found = report["losses"]
    losses = max(abs(loss - wanted) / wanted for loss, wanted in zip(found, golden["losses"]))
    stored = tensors(gradients)
    gradient = max(difference(stored[of], entry["gradient"]) for of, entry in golden["tensors"].items())
    if len(found) != len(golden["losses"]) or not math.isfinite(losses + gradient):
        raise ValueError(f"{name}: {len(found)} losses, difference {losses}, of gradients {gradient}")
    return losses, gradient


def run(run):
    chosen = ORACLES[:1] if run.small else ORACLES
    rows, wrong, left = [], [], 0
    print("| oracle | ranks | strategy | losses off by | gradients off by | |\n| --- | --- | --- | --- | --- | --- |")
    for name, ranks, strategy in chosen:
        try:
            losses, gradient = trained(run, name, ranks, strategy)
            state = "right" if losses < LOSS_TOLERANCE and gradient < GRADIENT_TOLERANCE else "WRONG"
            numbers = f"{losses:.1e} | {gradient:.1e}"
        except LeftOut as why:
            state, numbers, left = str(why), "- | -", left + 1
        except (ValueError, KeyError, OSError) as error:
            state, numbers = f"FAILED: {error}", "- | -"
        print(f"| {name} | {ranks} | {strategy} | {numbers} | {state} |", flush=True)
        rows.append([name, ranks, strategy, numbers, state])
        wrong += [name] if state.startswith(("WRONG", "FAILED")) else []
    run.results["oracles"] = rows
    right = len(rows) - len(wrong) - left
    said = f"{right} of {len(rows)} as autograd computed them"
    return ("FAILED" if wrong else "passed" if right and not left else "not finished"), said
