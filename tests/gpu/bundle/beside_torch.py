"""GPT-2's training step beside PyTorch's on this card, in turns."""

import json
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time

import matrix
from parts import LeftOut

ROUNDS = 3
# The model, sequences a step, and the strategy that does what PyTorch does.
COMPARED = [("gpt2", 16, "tp=1,micro=16"), ("gpt2-xl", 4, "tp=1,micro=4")]


def python(run):
    """A Python whose PyTorch sees the card."""
    test = "import torch; assert torch.cuda.is_available(); print(torch.__version__)"
    for name in dict.fromkeys([sys.executable, shutil.which("python3"), shutil.which("python"), "/usr/bin/python3"]):
        if name:
            done = run.command("torch", [name, "-c", test], 30)
            if done.code == 0:
                return name, done.stdout.strip()
    raise LeftOut("no Python here has a PyTorch that sees the card")


class Torch:
    """PyTorch in a process of its own, which trains a few steps whenever it is asked."""

    def __init__(self, run, program, model, batch, how):
        self.log = open(run.out / "logs" / f"torch-{model}-{how}.txt", "w")
        self.child = subprocess.Popen(
            [program, run.folder / "torch_speed.py", model, str(batch), how], cwd=run.out, env=run.environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, start_new_session=True)

    def ask(self, seconds):
        """Its answer, if there is one in time."""
        end = time.monotonic() + seconds
        try:
            self.child.stdin.write("go\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            return None
        while time.monotonic() < end:
            if select.select([self.child.stdout], [], [], 0.5)[0]:
                line = self.child.stdout.readline()
                if not line:
                    return None
                if line.startswith("{"):
                    return json.loads(line)
        return None

    def end(self):
        os.killpg(self.child.pid, signal.SIGKILL)  # Compiling starts processes too.
        self.child.wait()
        self.log.close()


def ours(run, model, batch, strategy, round_):
    line = matrix.Line(f"beside-torch-{model}", model, 1, batch, 1024, strategy, 10)
    path, _ = matrix.planned(run, line, line.name, run.machine.device)
    report, seconds = matrix.measured(run, line, f"{line.name}-{round_}", path)
    return {"step_s": seconds, "first_loss": report["losses"][0]}


def compared(run, program, model, batch, strategy):
    """Seconds a step of each contender in each round."""
    found, contenders = {}, {how: Torch(run, program, model, batch, how) for how in ("eager", "compile")}
    try:
        # What is compiled, and what warms up, is asked for first and not counted.
        ready = {how: torch for how, torch in contenders.items() if torch.ask(run.left() * 0.7) is not None}
        for round_ in range(ROUNDS):
            for how, torch in ready.items():
                answer = torch.ask(min(20, run.left() - 2)) if run.left() > 3 else None
                if answer:
                    found.setdefault(f"PyTorch {how}", []).append(answer)
            if run.left() > 3:
                found.setdefault("meshwright", []).append(ours(run, model, batch, strategy, round_))
    except LeftOut:
        pass
    finally:
        for torch in contenders.values():
            torch.end()
    return found


def run(run):
    if run.small:
        raise LeftOut("times of small models say nothing")
    program, version = python(run)
    rows, best = [], None
    print(f"PyTorch {version}, bf16, 1,024 tokens a sequence\n")
    print("| model | sequences | trained by | ms a step, each round | tokens/s | first loss |\n"
          "| --- | --- | --- | --- | --- | --- |")
    for model, batch, strategy in COMPARED:
        if run.left() < 25:
            print(f"| {model} | {batch} | left out: no time left | | | |")
            continue
        for name, answers in compared(run, program, model, batch, strategy).items():
            steps = [answer["step_s"] for answer in answers]
            rate = batch * 1024 / statistics.median(steps)
            rows.append({"model": model, "batch": batch, "by": name, "step_s": steps, "tokens_per_s": rate,
                         "first_loss": answers[0]["first_loss"]})
            each = " ".join(f"{1e3 * step:.1f}" for step in steps)
            print(f"| {model} | {batch} | {name} | {each} | {rate:,.0f} | {answers[0]['first_loss']:.3f} |", flush=True)
    run.results["pytorch"] = {"version": version, "rows": rows}
    rate = {row["by"]: row["tokens_per_s"] for row in rows if row["model"] == COMPARED[0][0]}
    best = max((value for name, value in rate.items() if name != "meshwright"), default=None)
    if "meshwright" not in rate or best is None:
        return "not finished", f"{len(rows)} contenders ran; logs/torch-* say why"
    return "measured", f"{rate['meshwright'] / best:.2f} of the faster PyTorch's tokens/s, {COMPARED[0][0]}"
