"""Tokens a second of `meshwright execute`, PyTorch and JAX on GPT-2 124M, interleaved on this machine.

GPT-2 124M, batch 4 x 256 tokens, f32, forward, backward, clipping and AdamW, all cores. Every round runs every
contender once, in a fresh process; a contender's figure is the median of its rounds' medians.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).parent
BATCH, TOKENS = 4, 256
# What runs: change these, or set the variables of the same names.
MESHWRIGHT = os.environ.get("MESHWRIGHT", HERE.parents[1] / "target/release/meshwright")
TORCH_PYTHON = os.environ.get("TORCH_PYTHON", "/usr/bin/python3")
JAX_PYTHON = os.environ.get("JAX_PYTHON", HERE.parents[1] / "target/outside/bin/python")
SIMULATE = ["simulate", "gpt2", "--cluster", "1x1xcpu", "--global-batch", str(BATCH), "--seq-len", str(TOKENS),
            "--precision", "fp32", "--strategy", f"tp=1,micro={BATCH}", "--out"]
EXECUTE = ["execute", "--json", "--steps"]
CORE_TYPES = [None, "SkylakeX", "Haswell"]  # kernels of OpenBLAS, which Debian's torch uses


def run(command, environment):
    """The JSON that a command prints, or one line that says why there is none."""
    try:
        done = subprocess.run(list(map(str, command)), env={**os.environ, **environment}, capture_output=True, text=True)
        return json.loads(done.stdout.strip().splitlines()[-1] if "execute" not in command else done.stdout)
    except OSError as error:
        return str(error)
    except (IndexError, ValueError):
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def script(python, file, environment):
    return lambda warm, steps: run([python, HERE / file, warm, steps], environment)


def meshwright(warm, steps):
    """Its step time is the median after its own warm-up steps."""
    with tempfile.TemporaryDirectory() as folder:
        plan = pathlib.Path(folder) / "plan.json"
        made = run([MESHWRIGHT, *SIMULATE, plan], {})
        if not plan.exists():
            return made
        found = run([MESHWRIGHT, *EXECUTE, warm + steps, plan], {})
    if not isinstance(found, dict) or "error" in found:
        return found if isinstance(found, str) else found["error"]["message"]
    return {"version": "", "tokens_per_s": BATCH * TOKENS / found["step_time_s"]["measured"], "first_loss": found["losses"][0]}


def contenders():
    found = {"meshwright": meshwright}
    for core in CORE_TYPES:
        environment = {"OPENBLAS_CORETYPE": core} if core else {}
        found[f"torch {core or 'default'}"] = script(TORCH_PYTHON, "torch_gpt2.py", environment)
    found["jax"] = script(JAX_PYTHON, "jax_gpt2.py", {})
    return found


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="measured steps in each round")
    parser.add_argument("--warm", type=int, default=2, help="steps before them")
    parser.add_argument("--only", nargs="*", default=[], help="contenders whose name starts so")
    arguments = parser.parse_args()
    chosen = {n: c for n, c in contenders().items() if not arguments.only or n.startswith(tuple(arguments.only))}
    speeds, versions, failed, load = {n: [] for n in chosen}, {}, {}, os.getloadavg()[0]
    print(f"{machine()}; load average {load:.1f} before the start{', so the machine was BUSY' if load > 0.5 else ''}")
    for number in range(arguments.rounds):
        for name, contender in chosen.items():
            found = contender(arguments.warm, arguments.steps)
            if isinstance(found, str):
                failed[name] = found
                continue
            speeds[name].append(found["tokens_per_s"])
            versions[name] = found["version"]
            print(f"round {number + 1}: {name:16} {found['tokens_per_s']:7.1f} tokens/s, first loss {found['first_loss']:.3f}", flush=True)
    medians = {n: statistics.median(s) for n, s in speeds.items() if s}
    outside = [s for n, s in medians.items() if n != "meshwright"]
    print("\n| contender | version | tokens/s of each round | median | ratio to the fastest outside |\n| --- | --- | --- | --- | --- |")
    for name in chosen:
        if name in medians:
            ratio = f"{medians[name] / max(outside):.2f}" if outside else "-"
            rounds = " ".join(f"{s:.1f}" for s in speeds[name])
            print(f"| {name} | {versions[name]} | {rounds} | {medians[name]:.1f} | {ratio} |")
        else:
            print(f"| {name} | | did not run: {failed[name]} | | |")


if __name__ == "__main__":
    main()
