"""Whether DeepSpeed's own configuration class accepts a file: deepspeed.py FILE WORLD_SIZE [TENSOR_TIMES_PIPELINE].

It runs DeepSpeedConfig of DeepSpeed's own source (0.19.8), and where the file spreads experts, its checks of that.
Needed: pydantic, hjson, and the source, as DEEPSPEED_SOURCE (the folder that holds `deepspeed/`) or installed without
its dependencies. PyTorch is not: what the classes touch of it stands in below.

WORLD_SIZE processes are taken to run, of which TENSOR_TIMES_PIPELINE (1) share a data rank's batch beside the ranks of
sequence parallelism, which the file says itself.
"""

import importlib.util
import json
import logging
import os
import sys
import types


class Anything(types.ModuleType):
    """A module in whose place anything may be asked for; each name is a class."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__init__": lambda self, *a, **k: None})
        setattr(self, name, made)
        return made


class AnythingFinder:
    """Finds modules that stand in for others."""

    # PyTorch, and two modules of DeepSpeed that read nothing of a configuration but import most of its kernels.
    names = ("torch", "deepspeed.runtime.utils", "deepspeed.utils.timer")

    def find_spec(self, name, path=None, target=None):
        if any(name == known or name.startswith(known + ".") for known in self.names):
            return importlib.util.spec_from_loader(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Anything(spec.name)

    def exec_module(self, module):
        if module.__name__ == "torch":
            module.__version__ = "2.9.0"
            module.dtype = type("dtype", (), {})
            for name in ("float16", "float32", "bfloat16", "int8", "half", "float64"):
                setattr(module, name, module.dtype())


class BareFinder:
    """Makes packages of DeepSpeed empty: their folder, and nothing that their __init__ would import."""

    def __init__(self, source):
        self.source = source

    def find_spec(self, name, path=None, target=None):
        folder = os.path.join(self.source, *name.split("."))
        if name.split(".")[0] == "deepspeed" and os.path.isdir(folder):
            spec = importlib.util.spec_from_loader(name, self, is_package=True)
            spec.submodule_search_locations = [folder]
            return spec
        return None

    def create_module(self, spec):
        return types.ModuleType(spec.name)

    def exec_module(self, module):
        name = module.__name__
        if name == "deepspeed.utils":
            module.logger = logging.getLogger("deepspeed")
            module.log_dist = lambda *a, **k: None
        elif name == "deepspeed.comm":
            module.get_rank = lambda *a: 0
            module.get_world_size = lambda *a: WORLD
        elif name == "deepspeed.accelerator":
            accelerator = types.SimpleNamespace(device_name="cpu", communication_backend_version=lambda: (0,))
            module.get_accelerator = lambda: accelerator
        elif name == "deepspeed.runtime.tensor_parallel":
            from deepspeed.runtime.tensor_parallel.config import get_tensor_parallel_config

            module.get_tensor_parallel_config = get_tensor_parallel_config


def source():
    """The folder that holds DeepSpeed's package."""
    given = os.environ.get("DEEPSPEED_SOURCE")
    if given:
        return given
    found = importlib.util.find_spec("deepspeed")
    if found is None:
        sys.exit("set DEEPSPEED_SOURCE to the folder that holds deepspeed/")
    return os.path.dirname(os.path.dirname(found.origin))


class Grid:
    """What an outside model-parallel unit says."""

    def __init__(self, data):
        self.data = data

    def get_data_parallel_world_size(self):
        return self.data


def main():
    sys.meta_path[:0] = [AnythingFinder(), BareFinder(source())]
    from deepspeed.runtime.config import DeepSpeedConfig

    with open(sys.argv[1]) as file:
        settings = json.load(file)
    sequence = settings.get("sequence_parallel_size", 1)
    config = DeepSpeedConfig(sys.argv[1], mpu=Grid(WORLD // INSIDE // sequence))
    sizes = config.train_micro_batch_size_per_gpu * config.gradient_accumulation_steps
    assert config.train_batch_size == sizes * (WORLD // INSIDE // sequence)
    experts = config.expert_parallel_config
    if experts.enabled:
        from deepspeed.module_inject.auto_ep_config import validate_autoep_config

        zero = config.zero_config
        tensor = max(config.tensor_parallel_config.autotp_size, 1)
        validate_autoep_config(
            experts,
            WORLD,
            int(settings.get("pipeline", {}).get("stages", 1)),
            tensor,
            sequence,
            zero_stage=config.zero_optimization_stage,
            zero_offload_optimizer=zero.offload_optimizer is not None,
            zero_offload_param=zero.offload_param is not None,
        )
    print(f"accepted: {sys.argv[1]}")


WORLD = int(sys.argv[2]) if len(sys.argv) > 2 else 1
INSIDE = int(sys.argv[3]) if len(sys.argv) > 3 else 1

if __name__ == "__main__":
    main()
