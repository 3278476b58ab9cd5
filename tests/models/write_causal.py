"""Writes a golden file of every causal model type of this version of transformers: a small config, and its parameters.

    python3 -m venv target/causal && target/causal/bin/pip install torch transformers==5.24.0
    target/causal/bin/python tests/models/write_causal.py tests/models/causal-5.24.0.jsonl

A line is a type: its name, the parameters that its text model trains (a tied matrix once) and its `config.json`; or, where it cannot be
made from its defaults, why. Models are made on the meta device, so that they take no memory. Sizes are small, odd and
unlike one another, so that a count is right only if each size is in its place; a second line of a type turns its switches
(biases, ties, windows) the other way round.
"""

import inspect
import json
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

# What sizes are made small, by the names of all types. A type is given those that it has.
SIZES = {
    "vocab_size": 1013,
    "hidden_size": 48,
    "n_embd": 48,
    "d_model": 48,
    "intermediate_size": 136,
    "intermediate_size_mlp": 152,
    "prefix_dense_intermediate_size": 144,
    "ffn_dim": 136,
    "ffn_hidden_size": 136,
    "n_inner": 136,
    "dff": 136,
    "num_hidden_layers": 6,
    "num_layers": 6,
    "n_layer": 6,
    "n_layers": 6,
    "num_attention_heads": 6,
    "attention_heads": 6,
    "num_heads": 6,
    "n_head": 6,
    "n_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 20,
    "max_position_embeddings": 190,
    "n_positions": 190,
    "sliding_window": 33,
    "window_size": 33,
    "attention_chunk_size": 33,
    "kv_lora_rank": 22,
    "q_lora_rank": 26,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12,
    "v_head_dim": 10,
    "moe_intermediate_size": 28,
    "shared_expert_intermediate_size": 52,
    "shared_intermediate_size": 44,
    "num_experts": 9,
    "num_local_experts": 9,
    "n_routed_experts": 9,
    "moe_num_experts": 9,
    "num_experts_per_tok": 2,
    "moe_topk": 2,
    "moe_k": 2,
    "n_shared_experts": 3,
    "num_shared_experts": 3,
    "moe_num_shared_experts": 3,
    "first_k_dense_replace": 2,
    "n_group": 1,
    "topk_group": 1,
    "rotary_dim": 4,
    "mlp_only_layers": [1],
    "moe_layer_end_index": 4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

# Switches that a second line turns the other way round.
SWITCHES = [
    "tie_word_embeddings",
    "attention_bias",
    "attention_out_bias",
    "mlp_bias",
    "use_bias",
    "bias",
    "enable_bias",
    "use_qkv_bias",
    "qkv_bias",
    "lm_head_bias",
    "use_qk_norm",
    "qk_layernorm",
    "use_post_norm",
    "use_parallel_residual",
    "multi_query",
    "use_sliding_window",
]

# What a type wants beside its sizes.
OWN = {
    "bert-generation": {"is_decoder": True},
    "ernie4_5_moe": {"moe_layer_start_index": 1},
    "helium": {"head_dim": 8},
    "falcon": {"num_kv_heads": 2},
    "gpt_neo": {"attention_types": [[["global", "local"], 3]]},
    "mpt": {"expansion_ratio": 4, "max_seq_len": 190},
    "nemotron": {"num_key_value_heads": 2},
    "xglm": {"decoder_start_token_id": 2},
}


def small(model_type, turned):
    """The type's config with small sizes, and its switches the other way round if `turned`."""
    cls = CONFIG_MAPPING[model_type]
    known = set(inspect.signature(cls.__init__).parameters) | set(getattr(cls, "__dataclass_fields__", {}))
    fields = {name: size for name, size in SIZES.items() if name in known}
    if turned:
        defaults = cls()
        for name in SWITCHES:
            if name in known and isinstance(getattr(defaults, name, None), bool):
                fields[name] = not getattr(defaults, name)
        if "sliding_window" in fields and "layer_types" in known:
            fields["num_hidden_layers"] = 7
    fields.update(OWN.get(model_type, {}))
    if "text_config" in known:
        text = type(cls().text_config)
        inner = set(getattr(text, "__dataclass_fields__", {}))
        fields["text_config"] = {name: size for name, size in SIZES.items() if name in inner}
    return cls(**fields)


def of_text(model):
    """The parameters of the text model alone, where towers stand beside it."""
    named = list(model.named_parameters())
    has_towers = any("language_model." in name for name, _ in named)
    return [p for name, p in named if not has_towers or "language_model." in name or name.startswith("lm_head")]


def line(model_type, number):
    """One config of the type, and the parameters that are trained."""
    entry = {"type": model_type}
    try:
        config = small(model_type, turned=number == 1)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        model.tie_weights()
        entry["parameters"] = sum(p.numel() for p in of_text(model) if p.requires_grad)
        with tempfile.TemporaryDirectory() as folder:
            model.config.save_pretrained(folder)
            written = json.loads((Path(folder) / "config.json").read_text())
        entry["config"] = {name: value for name, value in written.items() if name != "transformers_version"}
    except Exception as error:
        if number == 1:
            return None
        entry["config"] = {"model_type": model_type}
        entry["error"] = f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}"
    return json.dumps(entry, sort_keys=True, separators=(",", ":"))


def main():
    lines = []
    for model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        for number in (0, 1):
            written = line(model_type, number)
            if written is not None and not (lines and lines[-1] == written):
                lines.append(written)
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n")
    types = {json.loads(written)["type"] for written in lines}
    print(f"{sys.argv[1]}: {len(lines)} models of {len(types)} types of transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
