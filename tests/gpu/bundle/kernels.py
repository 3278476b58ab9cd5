"""Kernels by themselves: each case beside a reference in f64, how fast they are, and NVIDIA's own checker."""

import os
import re
import shutil

from parts import LeftOut


def cases(run, log, only, limit=None):
    done = run.command(log, [run.program("cases"), "--only", only], limit)
    passed, failed = (re.findall(rf"^{word} (\S+)", done.stdout, re.M) for word in ("PASS", "FAIL"))
    for line in done.stdout.splitlines():
        if line.startswith("FAIL"):
            print(line[:300])
    said = f"{len(passed)} passed, {len(failed)} failed"
    run.results.setdefault("cases", {})[log] = {"passed": passed, "failed": failed}
    if done.code == 0 and passed:
        return "passed", said
    if done.is_late():
        return "FAILED" if failed else "not finished", f"{said}, {done.complaint()}"
    return "FAILED", f"{said}; {done.complaint()}" if not failed else f"{said}: {', '.join(failed)}"


def primitives(run):
    """The layouts of `mma` and `ldmatrix` fragments, which all else rests on."""
    return cases(run, "primitives", "primitives/")


def operators(run):
    return cases(run, "operators", "rotary/" if run.small else "")


def speed(run):
    if run.small:
        raise LeftOut("times of small kernels say nothing")
    done = run.command("speed", [run.program("speed")])
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    print("\n".join(rows))
    run.results["speed"] = rows
    count = max(len(rows) - 2, 0)
    if done.code == 0:
        return "measured", f"{count} kernels"
    return ("not finished" if done.is_late() else "FAILED"), f"{count} kernels, {done.complaint()}"


# What each of NVIDIA's checkers looks at: a tool, the words of a command.
CHECKED = [
    ("memcheck", ["cases", "--only", "gemm/"]),
    ("racecheck", ["cases", "--only", "norm/"]),
    ("memcheck", ["cases", "--only", "attention/"]),
    ("synccheck", ["cases", "--only", "gemm/"]),
]


def sanitizer(run):
    places = [shutil.which("compute-sanitizer", path=run.environment.get("PATH")),
              "/usr/local/cuda/bin/compute-sanitizer"]
    program = next((place for place in places if place and os.access(place, os.X_OK)), None)
    if not program:
        raise LeftOut("compute-sanitizer is not here; a CUDA toolkit has it")
    states = []
    for number, (tool, (name, *words)) in enumerate(CHECKED):
        command = [program, "--tool", tool, "--error-exitcode", "99", run.program(name), *words]
        try:
            done = run.command(f"sanitizer-{number}", command)
        except LeftOut as why:
            states.append((tool, words[-1], str(why)))
            continue
        states.append((tool, words[-1], "no error" if done.code == 0 else done.complaint()))
    for tool, what, said in states:
        print(f"{tool} of {what} {said}")
    run.results["sanitizer"] = states
    wrong = [said for _, _, said in states if said.startswith("exit code")]
    clean = sum(said == "no error" for _, _, said in states)
    return ("FAILED" if wrong else "passed" if clean else "not finished"), f"{clean} of {len(states)} without an error"
