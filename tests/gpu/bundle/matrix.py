"""Predicted against measured: plans made on the spot, executed, and compared line by line."""

import json

from parts import LeftOut


class Line:
    """One plan: what is asked, the model, ranks, sequences a step, tokens a sequence, the strategy, steps, and the rank of a
    plan of which one rank alone runs."""

    def __init__(self, name, model, ranks, batch, tokens, strategy, steps, alone=None):
        self.name, self.model, self.ranks, self.batch, self.tokens = name, model, ranks, batch, tokens
        self.strategy, self.steps, self.alone = strategy, steps, alone


# In order of value. All are bf16 with fp32 master weights. Where several ranks share the card, the prediction is of a card
# for each: times are not comparable, only what one policy is to another.
LINES = [
    Line("124M", "gpt2", 1, 16, 1024, "tp=1,micro=16", 10),
    Line("124M recomputed", "gpt2", 1, 16, 1024, "tp=1,micro=16,ckpt=full", 10),
    Line("124M in 4 micro-batches", "gpt2", 1, 16, 1024, "tp=1,micro=4", 10),
    Line("124M offload serial", "gpt2", 1, 16, 1024, "tp=1,micro=16,offload=optimizer:1,overlap=off", 8),
    Line("124M offload overlapped", "gpt2", 1, 16, 1024, "tp=1,micro=16,offload=optimizer:1", 8),
    Line("1.5B recomputed", "gpt2-xl", 1, 8, 1024, "tp=1,micro=8,ckpt=full", 6),
    Line("1.5B", "gpt2-xl", 1, 8, 1024, "tp=1,micro=8", 6),
    Line("8B slice", "llama-3.1-8b", 8, 8, 4096, "tp=1,zero=3,micro=1", 3, alone=0),
    Line("8B slice recomputed", "llama-3.1-8b", 8, 8, 4096, "tp=1,zero=3,micro=1,ckpt=full", 3, alone=0),
    Line("sync immediate", "gpt2", 2, 32, 1024, "tp=1,zero=1,micro=4,sync=immediate", 8),
    Line("sync deferred", "gpt2", 2, 32, 1024, "tp=1,zero=1,micro=4,sync=deferred", 8),
    Line("1.5B in 4 micro-batches", "gpt2-xl", 1, 8, 1024, "tp=1,micro=2", 6),
    Line("1.5B offload overlapped", "gpt2-xl", 1, 8, 1024, "tp=1,micro=8,ckpt=full,offload=optimizer:1", 6),
    Line("1.5B offload serial", "gpt2-xl", 1, 8, 1024, "tp=1,micro=8,ckpt=full,offload=optimizer:1,overlap=off", 6),
    Line("shard group of 2 of 4", "gpt2", 4, 32, 1024, "tp=1,zero=3,micro=2,shard=2", 8),
    Line("shard group of all 4", "gpt2", 4, 32, 1024, "tp=1,zero=3,micro=2", 8),
    Line("8B slice offload overlapped", "llama-3.1-8b", 8, 8, 4096,
         "tp=1,zero=3,micro=1,ckpt=full,offload=optimizer:1", 3, alone=0),
    Line("8B slice offload serial", "llama-3.1-8b", 8, 8, 4096,
         "tp=1,zero=3,micro=1,ckpt=full,offload=optimizer:1,overlap=off", 3, alone=0),
]
# The same questions of a model that a stand-in for a GPU trains in seconds.
SMALL = [
    Line("124M", "small", 1, 8, 16, "tp=1,micro=8", 4),
    Line("124M offload serial", "small", 1, 8, 16, "tp=1,micro=8,offload=optimizer:1,overlap=off", 4),
    Line("124M offload overlapped", "small", 1, 8, 16, "tp=1,micro=8,offload=optimizer:1", 4),
    Line("sync immediate", "small", 2, 8, 16, "tp=1,zero=1,micro=2,sync=immediate", 4),
    Line("8B slice", "small", 4, 8, 16, "tp=1,zero=3,micro=1", 2, alone=0),
]
SMALL_MODEL = {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 4, "vocab_size": 32, "n_positions": 16}

# What is asked: the time of the first line as a multiple of the second's.
QUESTIONS = [
    ("recomputation costs, 124M", "124M recomputed", "124M"),
    ("recomputation costs, 1.5B", "1.5B recomputed", "1.5B"),
    ("recomputation costs, 8B slice", "8B slice recomputed", "8B slice"),
    ("four micro-batches cost, 124M", "124M in 4 micro-batches", "124M"),
    ("four micro-batches cost, 1.5B", "1.5B in 4 micro-batches", "1.5B"),
    ("optimizer offload costs, 124M", "124M offload overlapped", "124M"),
    ("overlapped offload is faster than serial by (an article claims 1.5), 124M",
     "124M offload serial", "124M offload overlapped"),
    ("the same, 1.5B", "1.5B offload serial", "1.5B offload overlapped"),
    ("the same, 8B slice", "8B slice offload serial", "8B slice offload overlapped"),
    ("immediate sync takes, of deferred, two ranks on one card", "sync immediate", "sync deferred"),
    ("a shard group of all takes, of halves, four ranks on one card", "shard group of all 4", "shard group of 2 of 4"),
]


def planned(run, line, name, device):
    """The plan document in a file; predicted by the cost model of `device`, a name or a file."""
    path, model = run.out / "plans" / f"{name}.json", line.model
    if model == "small":
        model = run.out / "plans" / "small-model.json"
        model.write_text(json.dumps(SMALL_MODEL))
    plan, done = run.meshwright(
        f"{name}-plan", "simulate", model, "--cluster", f"1x{line.ranks}x{device}", "--engine", "embedded",
        "--precision", "bf16", "--global-batch", line.batch, "--seq-len", line.tokens, "--strategy", line.strategy, "--out", path)
    if done.code == 4 and plan and "prediction" in plan:
        raise LeftOut("does not fit this card")
    if done.code:
        raise ValueError(done.complaint())
    return path, plan["prediction"]


def measured(run, line, name, path):
    """The report of a run of the plan, and its seconds a step."""
    share = ["--share-device"] if line.ranks > 1 and line.alone is None else []
    alone = ["--slice", line.alone] if line.alone is not None else []
    trace = run.out / "traces" / f"{name}.json"
    report, done = run.meshwright(
        name, "execute", path, "--device", "cuda", "--steps", line.steps, "--trace", trace, *share, *alone)
    if done.is_late():
        raise LeftOut(done.complaint())
    if done.code or report is None:
        raise ValueError(done.complaint())
    return report, report["slice"]["composed_step_time_s"] if alone else report["step_time_s"]["measured"]


def differences(report):
    """What is held is not what was predicted: rank, space, category, bytes of both."""
    rows = [("total", row) for row in report["extent"]] + [(row["category"], row) for row in report["memory"]]
    return [
        f"rank {row['rank']} {row['space']} {category}: {row['measured_bytes']} in place of {row['predicted_bytes']}"
        for category, row in rows if row["measured_bytes"] != row["predicted_bytes"]]


def tried(run, line):
    """A row of what was found."""
    name = line.name.replace(" ", "-").replace(".", "_")
    path, prediction = planned(run, line, name, run.machine.device)
    row = {"name": line.name, "model": line.model, "ranks": line.ranks, "strategy": line.strategy,
           "predicted_s": prediction["step_time_s"], "predicted_bytes": prediction["extent_bytes"]}
    if run.calibrated:
        row["by_calibrated_s"] = planned(run, line, f"{name}-calibrated", run.calibrated)[1]["step_time_s"]
    report, seconds = measured(run, line, name, path)
    row.update(measured_s=seconds, memory_differs=differences(report), trace=f"traces/{name}.json")
    row["tokens_per_s"] = report["tokens_per_s"]
    row["losses"] = report["losses"]
    return row


def shown(row):
    def milliseconds(field):
        return f"{row[field] * 1e3:.1f}" if row.get(field) is not None else "-"

    off = f"{100 * (row['predicted_s'] / row['measured_s'] - 1):+.0f} %" if row.get("measured_s") else "-"
    memory = "equal" if not row["memory_differs"] else "DIFFERS"
    return (f"| {row['name']} | {milliseconds('predicted_s')} | {milliseconds('by_calibrated_s')} | {milliseconds('measured_s')} "
            f"| {off} | {row['predicted_bytes'] / 2**30:.2f} GiB, {memory} |")


def run(run):
    rows, wrong, left = [], [], []
    if run.small:
        print("A tiny model stands for each; its times say nothing.\n")
    print("| plan | predicted ms | by the calibrated model | measured ms | predicted is off by | memory |\n"
          "| --- | --- | --- | --- | --- | --- |")
    for line in SMALL if run.small else LINES:
        try:
            row = tried(run, line)
            rows.append(row)
            print(shown(row), flush=True)
        except LeftOut as why:
            left.append([line.name, str(why)])
            print(f"| {line.name} | left out: {why} | | | | |", flush=True)
        except (ValueError, KeyError, TypeError) as error:
            wrong.append([line.name, str(error)])
            print(f"| {line.name} | FAILED: {error} | | | | |", flush=True)
        run.results["predicted"] = {"rows": rows, "failed": wrong, "left_out": left}
        run.save()
    ratios = answered(rows)
    run.results["questions"] = ratios
    if ratios:
        print("\n| question | predicted | measured |\n| --- | --- | --- |")
        for ratio in ratios:
            print(f"| {ratio['question']} | {ratio['predicted']:.2f} | {ratio['measured']:.2f} |")
    said = f"{len(rows)} plans measured, {len(wrong)} failed, {len(left)} left out"
    return ("FAILED" if wrong else "measured" if rows else "left out"), said


def answered(rows):
    of = {row["name"]: row for row in rows if row.get("measured_s")}
    return [
        {"question": question, "predicted": of[a]["predicted_s"] / of[b]["predicted_s"],
         "measured": of[a]["measured_s"] / of[b]["measured_s"]}
        for question, a, b in QUESTIONS if a in of and b in of]


def memory(run):
    """Of the plans that ran: what the ranks hold is what was predicted, to the byte."""
    rows = run.results.get("predicted", {}).get("rows", [])
    if not rows:
        raise LeftOut("no plan was measured")
    differ = [f"{row['name']}: {row['memory_differs'][0]}" for row in rows if row["memory_differs"]]
    for line in differ:
        print(line)
    said = f"{len(rows) - len(differ)} of {len(rows)} plans held what was predicted, to the byte"
    return ("FAILED" if differ else "passed"), said
