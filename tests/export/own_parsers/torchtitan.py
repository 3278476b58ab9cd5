"""Whether torchtitan's own configuration manager accepts a file: torchtitan.py FILE.

It runs ConfigManager of torchtitan 0.2.2 on the file, which refuses unknown sections, keys and types. Needed: tyro, and
the source, as TORCHTITAN_SOURCE (the folder that holds `torchtitan/`) or installed without its dependencies. PyTorch is
not: of it the package touches only names of types.
"""

import os
import sys
import types

SOURCE = os.environ.get("TORCHTITAN_SOURCE")
if SOURCE:
    sys.path.insert(0, SOURCE)


def stand_in(name, **names):
    module = types.ModuleType(name)
    module.__dict__.update(names)
    sys.modules[name] = module
    return module


class Logger:
    def __getattr__(self, _):
        return lambda *arguments, **named: None


# The package's own `__init__` imports kernels; its configuration needs none of them.
package = stand_in("torchtitan")
if SOURCE:
    package.__path__ = [os.path.join(SOURCE, "torchtitan")]
else:
    import importlib.util

    del sys.modules["torchtitan"]
    place = importlib.util.find_spec("torchtitan").submodule_search_locations
    package = stand_in("torchtitan")
    package.__path__ = list(place)
stand_in("torchtitan.tools")
stand_in("torchtitan.tools.logging", logger=Logger())
stand_in("torch", float16="float16", float32="float32", bfloat16="bfloat16", device=type("device", (), {}))

from torchtitan.config import ConfigManager  # noqa: E402

config = ConfigManager().parse_args(["--job.config_file", sys.argv[1]])
parallelism = config.parallelism
degrees = [
    parallelism.data_parallel_replicate_degree,
    parallelism.data_parallel_shard_degree,
    parallelism.context_parallel_degree,
    parallelism.tensor_parallel_degree,
    parallelism.pipeline_parallel_degree,
]
if any(degree < 1 for degree in degrees):
    sys.exit(f"degrees {degrees} are not all at least 1")
print("torchtitan 0.2.2 takes it:", config.model.name, config.model.flavor, "degrees", degrees)
