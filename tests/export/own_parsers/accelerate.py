"""Whether Accelerate's own classes accept a file: accelerate.py FILE.

It runs load_config_from_file and ParallelismConfig of Accelerate's own source (1.15.0), gives `accelerate launch` the
file and looks at the environment that it makes of it. Needed: pyyaml, psutil, numpy, packaging, and the source, as
ACCELERATE_SOURCE (the folder that holds `accelerate/`) or installed without its dependencies. PyTorch is not: what the
classes touch of it stands in below.
"""

import importlib.machinery
import importlib.util
import os
import sys
import types


class Anything(types.ModuleType):
    """A module in whose place anything may be asked for; each name is a class that holds anything again."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = Maker(name, (), {})
        setattr(self, name, made)
        return made


class Maker(type):
    """A class of which everything may be asked."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = Maker(name, (), {})
        setattr(cls, name, made)
        return made

    def __call__(cls, *arguments, **named):
        # A decorator gives back what it is put on.
        if len(arguments) == 1 and callable(arguments[0]) and not named:
            return arguments[0]
        return super().__call__()


class AnythingFinder:
    """Finds PyTorch, the hub's client and safetensors where they are not installed."""

    names = ("torch", "huggingface_hub", "safetensors")

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Anything(spec.name)

    def exec_module(self, module):
        if module.__name__ == "torch":
            module.__version__ = VERSIONS["torch"]
        if module.__name__ in ("torch.cuda", "torch.distributed"):
            module.is_available = lambda: False


class BareFinder:
    """Makes Accelerate's outermost packages empty: their folder, and nothing that their __init__ would import."""

    def __init__(self, source):
        self.source = source

    def find_spec(self, name, path=None, target=None):
        if name in ("accelerate", "accelerate.commands"):
            spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
            spec.submodule_search_locations = [os.path.join(self.source, *name.split("."))]
            return spec
        return None

    def create_module(self, spec):
        return types.ModuleType(spec.name)

    def exec_module(self, module):
        pass


# What it is to think is installed: the newest that it asks for is below these.
VERSIONS = {"torch": "2.11.0", "transformers": "5.0.0"}


def source():
    """The folder that holds Accelerate's package."""
    given = os.environ.get("ACCELERATE_SOURCE")
    if given:
        return given
    found = importlib.util.find_spec("accelerate")
    if found is None:
        sys.exit("set ACCELERATE_SOURCE to the folder that holds accelerate/")
    return os.path.dirname(os.path.dirname(found.origin))


def main():
    path = sys.argv[1]
    sys.path.pop(0)  # This file's folder, whose names are those of packages.
    sys.meta_path[:0] = [BareFinder(source()), AnythingFinder()]
    import importlib.metadata

    version = importlib.metadata.version
    importlib.metadata.version = lambda name: VERSIONS[name] if name in VERSIONS else version(name)
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    config = load_config_from_file(path)
    options = ["--config_file", path, "--main_process_port", "0", "train.py"]
    arguments, _, _ = _validate_launch_command(launch_command_parser().parse_args(options))
    made = prepare_multi_gpu_env(arguments)
    assert made["ACCELERATE_MIXED_PRECISION"] == (config.mixed_precision or "no")

    from accelerate.parallelism_config import ParallelismConfig

    names = ("dp_replicate", "dp_shard", "tp", "cp", "sp")
    sizes = {f"{name}_size": int(made[f"PARALLELISM_CONFIG_{name.upper()}_SIZE"]) for name in names}
    parallelism = ParallelismConfig(**sizes)
    assert parallelism.total_size == config.num_processes, (sizes, config.num_processes)
    is_second = made.get("FSDP_VERSION") == "2"
    if is_second and config.num_processes > 1:
        assert parallelism.dp_shard_enabled or parallelism.cp_enabled, "nothing to shard over"
    shown = {name: value for name, value in made.items() if name.startswith(("FSDP_", "PARALLELISM_"))}
    print(f"accepted: {path}", *(f"{name}={value}" for name, value in sorted(shown.items())), sep="\n  ")


if __name__ == "__main__":
    main()
