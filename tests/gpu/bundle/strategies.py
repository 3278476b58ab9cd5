"""Parallel strategies train as one rank on cores does: the main crate's own tests, on this GPU."""

import re

# Of tests that also need settings of the stand-in for the driver, those that do not.
ALSO = ["binary::every_other_step_is_traced", "binary::a_slice_holds_what_it_holds_beside_its_peers"]
SMALL = ["gpt2_on_one_rank", "bf16_on_one_rank_and_on_several"]


def run(run):
    listed = run.command("strategies-list", [run.program("cuda"), "--list"], 10)
    names = re.findall(r"^(\S+): test$", listed.stdout, re.M)
    chosen = [name for name in names if "::" not in name or name in ALSO]
    if run.small:
        chosen = [name for name in chosen if name in SMALL]
    environment = {"MESHWRIGHT_STRATEGIES": "1" if run.small else "5"}
    done = run.command("strategies", [run.program("cuda"), "--exact", *chosen, "--test-threads", "1"], environment=environment)
    found = dict(re.findall(r"^test (\S+) \.\.\. (ok|FAILED)$", done.stdout, re.M))
    passed = [name for name, state in found.items() if state == "ok"]
    failed = [name for name, state in found.items() if state != "ok"]
    run.results["strategies"] = {"passed": passed, "failed": failed, "asked": chosen}
    said = f"{len(passed)} of {len(chosen)} tests passed"
    if failed:
        return "FAILED", f"{said}; failed: {', '.join(failed)}"
    if done.code == 0 and len(passed) == len(chosen) > 0:
        return "passed", said
    return ("not finished" if done.is_late() else "FAILED"), f"{said}; {done.complaint()}"
