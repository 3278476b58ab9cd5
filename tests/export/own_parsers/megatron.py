"""Whether Megatron core knows the arguments of a file: megatron.py FILE.

The parser of Megatron-LM is not on PyPI; its arguments are made from the fields of core's dataclasses (`a_b` becomes
`--a-b`), and these are: this reads them out of the source of megatron-core, without running it. Arguments that have no
field there are those of `megatron/training/arguments.py` (NVIDIA/Megatron-LM d98e8a64d), listed below with the place
where they are added. Needed: the source, as MEGATRON_SOURCE (the folder that holds `megatron/core/`).
"""

import ast
import os
import pathlib
import shlex
import sys

# Name: (function of arguments.py that adds it, number of values; None for one or more).
OWN = {
    "group-query-attention": ("_add_network_size_args", 0),
    "num-query-groups": ("_add_network_size_args", 1),
    "hidden-size": ("_add_network_size_args", 1),
    "max-position-embeddings": ("_add_network_size_args", 1),
    "position-embedding-type": ("_add_network_size_args", 1),
    "make-vocab-size-divisible-by": ("_add_network_size_args", 1),
    "swiglu": ("_add_network_size_args", 0),
    "squared-relu": ("_add_network_size_args", 0),
    "untie-embeddings-and-output-weights": ("_add_network_size_args", 0),
    "disable-bias-linear": ("_add_training_args", 0),
    "micro-batch-size": ("_add_training_args", 1),
    "global-batch-size": ("_add_training_args", 1),
    "seq-length": ("_add_data_args", 1),
    "vocab-size": ("_add_tokenizer_args", 1),
    "fp8-format": ("_add_transformer_engine_args", 1),
    "num-virtual-stages-per-pipeline-rank": ("_add_distributed_args", 1),
    "pipeline-model-parallel-layout": ("_add_distributed_args", 1),
    "use-tp-pp-dp-mapping": ("_add_distributed_args", 0),
    "use-megatron-fsdp": ("_add_distributed_args", 0),
    "ckpt-format": ("_add_checkpointing_args", 1),
    "grad-reduce-in-bf16": ("_add_training_args", 0),
    "accumulate-allreduce-grads-in-fp32": ("_add_distributed_args", 0),
    "multi-latent-attention": ("_add_mla_args", 0),
    "num-experts": ("_add_moe_args", 1),
    "moe-layer-freq": ("_add_moe_args", 1),
    "norm-epsilon": ("core transformer_config.py:201, layernorm_epsilon", 1),
    "apply-layernorm-1p": ("core transformer_config.py:206, layernorm_zero_centered_gamma", 0),
    "rotary-base": ("_add_network_size_args", 1),
    "rotary-percent": ("_add_network_size_args", 1),
    "rotary-seq-len-interpolation-factor": ("_add_network_size_args", 1),
    "use-rope-scaling": ("_add_network_size_args", 0),
    "rope-scaling-factor": ("_add_network_size_args", 1),
    "rope-type": ("_add_training_args", 1),
    "rotary-scaling-factor": ("_add_mla_args", 1),
    "mscale": ("_add_mla_args", 1),
    "mscale-all-dim": ("_add_mla_args", 1),
    "yarn-original-max-position-embeddings": ("_add_network_size_args", 1),
    "yarn-beta-fast": ("_add_network_size_args", 1),
    "yarn-beta-slow": ("_add_network_size_args", 1),
    "no-yarn-correction-range-round-to-int": ("_add_network_size_args", 0),
    "window-size": ("_add_network_size_args", 1),
    "window-attn-skip-freq": ("_add_network_size_args", 1),
    "quick-geglu": ("_add_network_size_args", 0),
    # Newer than the release of core on PyPI (0.16.1).
    "activation-offload-fraction": ("core 0.20 transformer_config.py:1343", 1),
    "fine-grained-activation-offloading": ("core 0.20 transformer_config.py:1323", 0),
    "offload-modules": ("core 0.20 transformer_config.py:1326", None),
}

FILES = [
    "transformer/transformer_config.py",
    "model_parallel_config.py",
    "distributed/distributed_data_parallel_config.py",
    "optimizer/optimizer_config.py",
]


def fields():
    root = pathlib.Path(os.environ["MEGATRON_SOURCE"]) / "megatron" / "core"
    for name in FILES:
        for node in ast.walk(ast.parse((root / name).read_text())):
            if isinstance(node, ast.ClassDef):
                for item in node.body:
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                        yield item.target.id.replace("_", "-"), ast.unparse(item.annotation)


def main():
    known = dict(fields())
    text = pathlib.Path(sys.argv[1]).read_text()
    inside = text[text.index("ARGUMENTS=(") + len("ARGUMENTS=(") : text.rindex(")")]
    words = shlex.split(inside, comments=True)
    arguments = []
    for word in words:
        if word.startswith("--"):
            arguments.append((word[2:], []))
        else:
            arguments[-1][1].append(word)
    wrong = []
    for name, values in arguments:
        if name in OWN:
            count = OWN[name][1]
            if count is not None and count != len(values):
                wrong.append(f"--{name} takes {count} values, not {values}")
        elif name not in known:
            wrong.append(f"--{name} is unknown")
        else:
            is_switch = known[name].strip() == "bool"
            if is_switch != (not values):
                wrong.append(f"--{name} is {known[name]}, and has {values}")
            if known[name].strip() in ("int", "Optional[int]") and not values[0].lstrip("-").isdigit():
                wrong.append(f"--{name} {values[0]} is no whole number")
    if wrong:
        sys.exit("; ".join(wrong))
    print(f"megatron core knows all {len(arguments)} arguments")


main()
