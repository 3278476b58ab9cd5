"""Whether torchtitan 0.3.0 takes the configuration that a function makes: torchtitan_recipe.py FILE DEVICES.

It runs the function beside torchtitan's own classes, whose fields are fixed, and then what they check of themselves, of
the mesh, of the model and of the batch. Needed: tyro, and the source, as TORCHTITAN_RECIPE_SOURCE (the folder that holds
`torchtitan/`). PyTorch is not: of it the package touches only names here.
"""

import dataclasses
import importlib
import logging
import os
import sys
import types
import typing

import stand_in

# This folder has files that are called as packages are.
sys.path.pop(0)
sys.path.insert(0, os.environ["TORCHTITAN_RECIPE_SOURCE"])
sys.path.insert(0, os.getcwd())
stand_in.install({"torchtitan", "tyro", "planned"})
logging.disable()

from torchtitan.distributed.parallel_dims import ParallelDims  # noqa: E402
from torchtitan.distributed.pipeline_parallel import _generate_llm_fqn_per_model_part, _get_pipeline_metadata  # noqa: E402

config = importlib.import_module(os.path.splitext(sys.argv[1])[0]).planned()
devices = int(sys.argv[2])


def fits(value, hint):
    """Whether `value` is of the type `hint`; hints that only PyTorch knows fit all."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return value in inner
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if origin is list:
        return isinstance(value, list) and all(fits(item, inner[0]) for item in value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return not isinstance(hint, type) or isinstance(value, hint)


for part in (config.training, config.parallelism, config.compile):
    hints = typing.get_type_hints(type(part))
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        assert fits(value, hints[field.name]), f"{field.name} = {value!r} is no {hints[field.name]}"
    if hasattr(part, "__post_init__"):
        part.__post_init__()
config.__post_init__()
mesh = ParallelDims.from_config(config.parallelism, devices)
config.model_spec.model.update_from_config(config=config)

# As the trainer checks them before it trains (trainer.py:307,415).
training, parallelism = config.training, config.parallelism
divisor = (mesh.tp if parallelism.enable_sequence_parallel else 1) * (2 * mesh.cp if mesh.cp > 1 else 1)
assert training.seq_len % divisor == 0, f"{training.seq_len} is no multiple of {divisor}"
once = training.local_batch_size * mesh.dp_replicate * mesh.dp_shard
assert training.global_batch_size % once == 0, f"{training.global_batch_size} is no multiple of {once}"

if mesh.pp > 1:
    stages, layers, first, last = _get_pipeline_metadata(mesh, parallelism, config.model_spec.model)
    parts = parallelism.module_fqns_per_model_part or _generate_llm_fqn_per_model_part(stages, layers, first, last)
    assert len(parts) % mesh.pp == 0, f"{len(parts)} parts on {mesh.pp} ranks"
    named = [name for part in parts for name in part]
    assert len(named) == len(set(named)), "a module is named twice"
    model = config.model_spec.model
    # A module that no part names is not built (distributed/pipeline_parallel.py, `_split_module`).
    due = {"tok_embeddings", "norm", "lm_head", *(f"layers.{layer}" for layer in range(len(model.layers)))}
    assert set(named) == due, f"{sorted(set(named) ^ due)} is unknown or left out"

degrees = [mesh.dp_replicate, mesh.dp_shard, mesh.cp, mesh.tp, mesh.pp, mesh.ep]
print("torchtitan 0.3.0 takes it:", config.model_spec.name, config.model_spec.flavor, "degrees", degrees)
