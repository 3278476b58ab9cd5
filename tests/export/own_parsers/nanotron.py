"""Whether nanotron's own configuration classes take a file: exits 0 if they do.

    python nanotron.py config.yaml

It needs pyyaml, dacite and nanotron's source: a checkout whose `src` NANOTRON_SOURCE names, or the package, installed
without what it depends on (`pip install --no-deps nanotron`). The release on PyPI is older than the files that are
written here, whose keys are those of the main branch at 2411b022: it refuses `recompute_layer` and others. torch and what
else the classes import are stood in for here: only names of types, engines and modes are looked at.
"""

import enum
import importlib
import importlib.util
import os
import pathlib
import sys
import types


def module(name, **content):
    made = types.ModuleType(name)
    made.__dict__.update(content)
    sys.modules[name] = made
    return made


def source():
    named = os.environ.get("NANOTRON_SOURCE")
    if named:
        return pathlib.Path(named) / "nanotron"
    spec = importlib.util.find_spec("nanotron")
    if spec is None:
        sys.exit("nanotron is not installed, and NANOTRON_SOURCE names no checkout")
    return pathlib.Path(next(iter(spec.submodule_search_locations)))


def stand_ins(root):
    class dtype:
        pass

    names = "float32 float64 complex64 complex128 float16 bfloat16 uint8 int8 int16 int32 int64 bool"
    module("torch", dtype=dtype, **{name: dtype() for name in names.split()})

    class Engine:
        pass

    class AllFirst(Engine):
        pass

    class InTurn(Engine):
        pass

    Mode = enum.Enum("TensorParallelLinearMode", "ALL_REDUCE REDUCE_SCATTER")
    Sampler = enum.Enum("SamplerType", "TOP_P TOP_K GREEDY BASIC")
    log = types.SimpleNamespace(warning=print, info=print)
    # A package of the real folder, whose own __init__ is not run.
    package = module("nanotron")
    package.__path__ = [str(root)]
    for name in ("generation", "parallel", "parallel.pipeline_parallel", "parallel.tensor_parallel", "nn"):
        module(f"nanotron.{name}").__path__ = []
    module("nanotron.generation.sampler", SamplerType=Sampler)
    module("nanotron.logging", get_logger=lambda name: log, human_format=str)
    module(
        "nanotron.parallel.pipeline_parallel.engine",
        PipelineEngine=Engine,
        AllForwardAllBackwardPipelineEngine=AllFirst,
        OneForwardOneBackwardPipelineEngine=InTurn,
    )
    module("nanotron.parallel.tensor_parallel.nn", TensorParallelLinearMode=Mode)
    kernels = {"flash_attention_2": None, "flex_attention": None, "sdpa": None, "ring": None}
    module("nanotron.nn.attention", ALL_ATTENTION_FUNCTIONS=kernels, AttentionImplementation=str)
    module("transformers", AutoTokenizer=object)
    for name in ("datasets", "datasets.download"):
        module(name).__path__ = []
    module("datasets.download.streaming_download_manager", xPath=pathlib.Path)


def main():
    root = source()
    stand_ins(root)
    config = importlib.import_module("nanotron.config.config")
    read = config.get_config_from_file(sys.argv[1])
    shape = type(read.model.model_config).__name__
    if not shape.endswith("Config"):
        sys.exit(f"model_config is none of nanotron's models: {read.model.model_config}")
    print(f"{sys.argv[1]}: {shape}, {read.global_batch_size} sequences a step, {read.parallelism}")


if __name__ == "__main__":
    main()
