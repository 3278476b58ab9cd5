"""Tries all of Meshwright's CUDA device on this machine's GPU: kernels, training, memory, times, speed beside PyTorch.

Needs NVIDIA's driver and Python 3.9; no cargo, no network. Prints what it finds, and leaves results.json, logs and traces in
a folder of its own.
"""

import argparse
import datetime
import json
import pathlib
import sys

import beside_torch
import calibrated
import joined
import kernels
import matrix
import oracles
import strategies
from machine import Machine
from parts import LeftOut, Run

HERE = pathlib.Path(__file__).resolve().parent
# In order of value, each with the seconds that it may take. What a part leaves of them, later parts may use.
PARTS = [
    ("primitives", 10, kernels.primitives),
    ("operators", 40, kernels.operators),
    ("oracles", 25, oracles.run),
    ("strategies", 45, strategies.run),
    ("joined", 30, joined.run),
    ("calibrate", 68, calibrated.run),
    ("predicted", 120, matrix.run),
    ("memory", 1, matrix.memory),
    ("pytorch", 95, beside_torch.run),
    ("speed", 25, kernels.speed),
    ("sanitizer", 25, kernels.sanitizer),
]


def attempt(run, name, work):
    """The part's state, and what it says. A part that fails in any way does not stop the next."""
    try:
        return work(run)
    except LeftOut as why:
        return "left out", str(why)
    except Exception as error:  # What a part did not think of is its failure.
        return "FAILED", f"{type(error).__name__}: {error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="tiny models and few cases: shows that all parts go through")
    parser.add_argument("--only", nargs="+", metavar="PART", choices=[name for name, _, _ in PARTS], default=[])
    parser.add_argument("--out", type=pathlib.Path, help="folder for what is found [default: results-DATE beside this]")
    parser.add_argument("--patience", type=float, default=1.0, help="factor on all time limits")
    arguments = parser.parse_args()
    out = arguments.out or HERE / datetime.datetime.now().strftime("results-%Y%m%d-%H%M%S")
    run = Run(HERE, out.resolve(), arguments.small)
    run.allow(15)
    run.machine = Machine(run)
    print(run.machine, flush=True)
    for name, seconds, work in PARTS:
        run.allow(seconds * arguments.patience)
        if arguments.only and name not in arguments.only:
            continue
        print(f"\n== {name}", flush=True)
        began = run.seconds()
        state, said = attempt(run, name, work)
        taken = run.seconds() - began
        print(f"{name}: {state}, {said} ({taken:.0f} s)", flush=True)
        run.results["parts"][name] = {"state": state, "said": said, "seconds": round(taken, 1)}
        run.save()
    print(f"\n== all, in {run.seconds():.0f} s on {run.machine.gpu}\n")
    print("| part | state | seconds | |\n| --- | --- | --- | --- |")
    for name, part in run.results["parts"].items():
        print(f"| {name} | {part['state']} | {part['seconds']:.0f} | {part['said']} |")
    print(f"\n{run.out / 'results.json'}, with logs/ and traces/ beside it")
    return any(part["state"] == "FAILED" for part in run.results["parts"].values())


if __name__ == "__main__":
    sys.exit(main())
