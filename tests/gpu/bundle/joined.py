"""Two processes, joined by NCCL: with a card each, or with one card for both, which NCCL allows from 2.30 on if it is told."""

import json
import socket

from matrix import SMALL_MODEL
from parts import LeftOut

STRATEGIES = ["tp=2,micro=4", "zero=3,micro=2", "pp=2,micro=2"]
# The first version that lets two ranks use one card.
SHARES = (2, 30)
# What 32-bit sums in another order may do to a loss.
TOLERANCE = 1e-4
# As torchrun starts them: the first in front, whose words and exit code count.
BOTH = 'RANK=1 LOCAL_RANK=1 "$@" >/dev/null & RANK=0 LOCAL_RANK=0 "$@"; code=$?; wait; exit $code'


def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def planned(run, strategy, name):
    path, model, tokens = run.out / "plans" / f"{name}.json", "gpt2", 256
    if run.small:
        model, tokens = run.out / "plans" / "joined-model.json", 16
        model.write_text(json.dumps(SMALL_MODEL))
    _, done = run.meshwright(
        f"{name}-plan", "simulate", model, "--cluster", f"1x2x{run.machine.device}", "--engine", "embedded",
        "--precision", "fp32", "--global-batch", 8, "--seq-len", tokens, "--strategy", strategy, "--out", path)
    if done.code:
        raise ValueError(done.complaint())
    return path


def tried(run, strategy, settings):
    """Losses of two ranks of one process that share a card, and of two processes; what one step of these takes."""
    name = "joined-" + strategy.split(",")[0].replace("=", "")
    path = planned(run, strategy, name)
    words = ["execute", path, "--device", "cuda", "--steps", 6]
    shared, done = run.meshwright(f"{name}-shared", *words, "--share-device")
    if shared is None or done.code:
        raise ValueError(f"sharing a card: {done.complaint()}")
    environment = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port()), **settings}
    program = [run.program("meshwright"), *words, "--no-calibrate", "--json"]
    done = run.command(name, ["sh", "-c", BOTH, "sh", *program], environment=environment)
    if done.code != 0:
        raise ValueError(done.complaint())
    joined = json.loads(done.stdout)
    off = max(abs(one - other) / other for one, other in zip(joined["losses"], shared["losses"]))
    return {"strategy": strategy, "off": off, "seconds": joined["step_time_s"]["measured"], "losses": joined["losses"]}


def run(run):
    machine = run.results["machine"]
    version = machine["libraries"].get("NCCL")
    if version is None:
        raise LeftOut("NCCL is not here: `pip install nvidia-nccl-cu13`, or -cu12 with a driver of CUDA 12, brings it")
    settings = {}
    if machine["cards"] < 2:
        if tuple(map(int, version.split(".")[:2])) < SHARES:
            raise LeftOut(f"there is one card, and NCCL {version} gives each rank its own")
        settings = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    rows, wrong = [], []
    for strategy in STRATEGIES[:1] if run.small else STRATEGIES:
        try:
            row = tried(run, strategy, settings)
            rows.append(row)
            print(f"{strategy}: losses of two processes are off by {row['off']:.1e}, {row['seconds'] * 1e3:.1f} ms a step", flush=True)
            if row["off"] > TOLERANCE:
                wrong.append(f"{strategy}: losses are off by {row['off']:.1e}")
        except (ValueError, KeyError, TypeError) as error:
            wrong.append(f"{strategy}: {error}")
            print(f"{strategy}: FAILED: {error}", flush=True)
    run.results["joined"] = {"nccl": version, "cards": machine["cards"], "rows": rows, "failed": wrong}
    alike = sum(row["off"] <= TOLERANCE for row in rows)
    cards = "1 card" if machine["cards"] == 1 else f"{machine['cards']} cards"
    said = f"NCCL {version}, {cards}: {alike} strategies train alike"
    return ("FAILED", f"{said}; {wrong[0]}") if wrong else ("passed", said)
