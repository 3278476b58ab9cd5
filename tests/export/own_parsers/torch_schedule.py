"""Whether torch's pipelines load and end a schedule from a file: torch_schedule.py FILE RANKS MICRO_BATCHES.

It runs `_PipelineScheduleRuntime._load_csv` of torch 2.9 or newer, which torchtitan calls, and then torch's own
simulation of passes and messages, which raises where ranks wait for each other. Needed: torch's Python files, as
TORCH_SOURCE (the folder that holds `torch/`); nothing of torch is run but this one module, so that all it imports is
stood in for.
"""

import os
import sys
import types

PIPELINING = os.path.join(os.environ["TORCH_SOURCE"], "torch", "distributed", "pipelining")


class Anything(type):
    """A class that has every attribute, itself, and decorates by doing nothing."""

    def __getattr__(cls, _):
        return cls


class StandIn(metaclass=Anything):
    def __init__(self, *_, **__):
        pass

    def __call__(self, *arguments, **_):
        return arguments[0] if arguments else self

    def __getattr__(self, _):
        return StandIn()


def stand_in(name):
    module = types.ModuleType(name)
    module.__getattr__ = lambda _: StandIn
    sys.modules[name] = module
    return module


def source(name):
    path = os.path.join(PIPELINING, f"{name}.py")
    module = types.ModuleType(f"pipelining.{name}")
    module.__package__ = "pipelining"
    sys.modules[module.__name__] = module
    with open(path) as file:
        # Annotations name types that are stood in for.
        exec(compile("from __future__ import annotations\n" + file.read(), path, "exec"), module.__dict__)
    return module


for name in (
    "torch",
    "torch._dynamo",
    "torch.distributed",
    "torch.distributed.fsdp",
    "torch.nn",
    "torch.nn.modules",
    "torch.nn.modules.loss",
    "torch.profiler",
    "pipelining",
    "pipelining.microbatch",
    "pipelining.stage",
):
    stand_in(name)
sys.modules["pipelining"].__path__ = [PIPELINING]
source("_utils")
schedules = source("schedules")

ranks, micro_batches = int(sys.argv[2]), int(sys.argv[3])
runtime = schedules._PipelineScheduleRuntime.__new__(schedules._PipelineScheduleRuntime)
runtime.pipeline_order = {}
runtime.pp_group_size = runtime._num_stages = ranks
runtime._n_microbatches = micro_batches
runtime._stages = []
runtime._load_csv(sys.argv[1])

# The simulation knows passes and messages, and not what sharding adds.
adds = ("SHARD", "REDUCE_GRAD")
orders = {
    rank: [action for action in actions if not any(word in repr(action) for word in adds)]
    for rank, actions in runtime.pipeline_order_with_comms.items()
}
schedules._simulate_comms_compute(orders, lambda stage: runtime.stage_index_to_group_rank[stage], ranks)
print("torch loads it, and no rank waits for ever:", sum(map(len, orders.values())), "passes and messages")
