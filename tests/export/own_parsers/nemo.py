"""Whether NeMo's command line takes overrides of its recipe: nemo.py FILE.

It runs the recipe that run.sh names (nemo-toolkit 2.6.0) and gives the overrides to NeMo-Run's own parser (0.11.1),
which knows the fields of the classes and their types, those of Megatron core (0.16.1) among them. Needed: fiddle and the
small packages of check.sh, and the sources, as NEMO_SOURCE, NEMO_RUN_SOURCE and MEGATRON_SOURCE. PyTorch, Lightning and
Transformer Engine are not: of them only names are touched.
"""

import logging
import os
import pathlib
import re
import shlex
import sys
import warnings

import stand_in

# This folder has files that are called as packages are.
sys.path.pop(0)
for name in ("MEGATRON_SOURCE", "NEMO_RUN_SOURCE", "NEMO_SOURCE"):
    sys.path.insert(0, os.environ[name])
stand_in.install({"nemo", "megatron", "nemo_run", "fiddle"})
warnings.simplefilter("ignore")
logging.disable()
# It registers types of PyTorch, which stand-ins are not.
sys.modules["nemo.lightning.io.fdl_torch"] = stand_in.Module("nemo.lightning.io.fdl_torch")

from importlib import import_module  # noqa: E402

from nemo_run.cli.cli_parser import parse_cli_args  # noqa: E402

script = pathlib.Path("run.sh").read_text()
name, mode = re.search(r"RECIPE:-(\w+)(\(performance_mode=True\))?\}", script).groups()
recipe = import_module(f"nemo.collections.llm.recipes.{name}").pretrain_recipe(**({"performance_mode": True} if mode else {}))

text = pathlib.Path(sys.argv[1]).read_text()
inside = text[text.index("ARGUMENTS=(") + len("ARGUMENTS=(") : text.rindex(")")]
overrides = shlex.split(inside, comments=True)
for override in overrides:
    parse_cli_args(recipe, [override])


def left(config, path):
    """What of `config` the recipe has set and no override says."""
    said = {override.split("=", 1)[0] for override in overrides}
    for field, value in config.__arguments__.items():
        inner = f"{path}.{field}"
        if hasattr(value, "__arguments__"):
            yield from left(value, inner)
        elif inner not in said and value not in (None, False):
            yield inner


names = [*left(recipe.trainer.strategy, "trainer.strategy"), *left(recipe.optim.config, "optim.config")]
names += left(recipe.model.config, "model.config")
harmless = {
    "trainer.strategy.pipeline_dtype",
    "trainer.strategy.gradient_as_bucket_view",
    "trainer.strategy.ckpt_async_save",
    "trainer.strategy.ckpt_include_optimizer",
    "trainer.strategy.ckpt_parallel_load",
    "trainer.strategy.ddp.check_for_nan_in_grad",
    "trainer.strategy.ddp.average_in_collective",
    # The plugin of the precision says it anew.
    "trainer.strategy.ddp.grad_reduce_in_fp32",
    # Megatron-FSDP switches both on (core/distributed/fsdp/src/megatron_fsdp/megatron_fsdp.py:273); others say them.
    "trainer.strategy.ddp.overlap_grad_reduce",
    "trainer.strategy.ddp.overlap_param_gather",
    *(f"optim.config.{field}" for field in "optimizer lr weight_decay bf16 adam_beta1 adam_beta2 adam_eps".split()),
}
matters = sorted(set(names) - harmless)
if matters:
    sys.exit(f"the recipe {name} sets what no override says: {', '.join(matters)}")
print(f"NeMo 2.6.0 takes all {len(overrides)} overrides of {name}")
