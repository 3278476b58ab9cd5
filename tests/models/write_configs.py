"""Writes configs of many model types as this version of transformers writes them, with the parameters it counts.

    pip install torch transformers==4.57.1    (and once more with transformers==5.24.0)
    python tests/models/write_configs.py tests/models

A line of `transformers-<version>.jsonl` is one model: its name, its parameters (a tied matrix once) and its
`config.json`. Models are made on the meta device, so that they take no memory. Sizes are small and odd on
purpose: none of them is the default of its class.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

FIVE = int(transformers.__version__.split(".")[0]) >= 5


def rope(**fields):
    """Rotary positions as each version wants them: since 5, the base stands among them."""
    theta = fields.pop("rope_theta", 50_000.0)
    if FIVE:
        return {"rope_parameters": {**fields, "rope_theta": theta}}
    return {"rope_theta": theta, "rope_scaling": fields if fields["rope_type"] != "default" else None}


LINEAR = rope(rope_type="linear", factor=4.0)
LLAMA3 = rope(
    rope_type="llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=1024,
)
YARN = rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=512)

GPT2 = dict(vocab_size=1013, n_positions=192, n_embd=48, n_layer=3, n_head=4)
DECODER = dict(
    vocab_size=1013,
    hidden_size=48,
    intermediate_size=136,
    num_hidden_layers=3,
    num_attention_heads=6,
    max_position_embeddings=1536,
)
GROUPED = dict(**DECODER, num_key_value_heads=2)
LATENT = dict(
    **DECODER,
    kv_lora_rank=20,
    qk_rope_head_dim=8,
    qk_nope_head_dim=12,
    v_head_dim=10,
    n_routed_experts=10,
    num_experts_per_tok=2,
    moe_intermediate_size=28,
    first_k_dense_replace=1,
    n_group=1,
    topk_group=1,
)
NO_TOKENS = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)

MODELS = {
    "gpt2": [GPT2, dict(**GPT2, n_inner=100, tie_word_embeddings=False)],
    "gptj": [
        dict(**GPT2, rotary_dim=8),
        dict(**GPT2, rotary_dim=4, n_inner=100),
    ],
    "gpt_neox": [
        DECODER,
        dict(**DECODER, use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True),
    ],
    "opt": [
        dict(
            vocab_size=1013,
            hidden_size=48,
            num_hidden_layers=3,
            ffn_dim=136,
            max_position_embeddings=190,
            num_attention_heads=6,
            word_embed_proj_dim=width,
            do_layer_norm_before=width == 48,
            enable_bias=width == 48,
        )
        for width in (48, 20)
    ],
    "bloom": [dict(vocab_size=1013, hidden_size=48, n_layer=3, n_head=6)],
    "falcon": [
        dict(vocab_size=1013, hidden_size=48, num_hidden_layers=3, num_attention_heads=6, **shape)
        for shape in (
            dict(multi_query=True, bias=True),
            dict(new_decoder_architecture=True, num_kv_heads=2, ffn_hidden_size=100),
            dict(multi_query=False, parallel_attn=False, alibi=True, tie_word_embeddings=False),
        )
    ],
    "mpt": [
        dict(vocab_size=1013, d_model=48, n_layers=3, n_heads=6, expansion_ratio=3, max_seq_len=192),
    ],
    "llama": [
        dict(**GROUPED, **LLAMA3, tie_word_embeddings=True),
        dict(**GROUPED, head_dim=20, attention_bias=True, mlp_bias=True, **LINEAR),
    ],
    "mistral": [dict(**GROUPED, sliding_window=96), dict(**GROUPED, head_dim=12, sliding_window=None)],
    "mixtral": [dict(**GROUPED, num_local_experts=5, num_experts_per_tok=3, sliding_window=96)],
    "qwen2": [
        dict(**GROUPED, tie_word_embeddings=True),
        dict(**GROUPED, use_sliding_window=True, sliding_window=64, max_window_layers=1, **YARN),
    ],
    "qwen2_moe": [
        dict(
            **GROUPED,
            num_experts=7,
            num_experts_per_tok=2,
            moe_intermediate_size=28,
            shared_expert_intermediate_size=52,
            decoder_sparse_step=step,
            mlp_only_layers=dense,
        )
        for step, dense in ((1, []), (2, []), (1, [2]))
    ],
    "qwen3": [dict(**GROUPED, head_dim=20), dict(**GROUPED, head_dim=8, attention_bias=True, **YARN)],
    "qwen3_moe": [
        dict(
            **GROUPED,
            head_dim=20,
            num_experts=16,
            num_experts_per_tok=3,
            moe_intermediate_size=28,
            decoder_sparse_step=step,
            mlp_only_layers=dense,
        )
        for step, dense in ((1, []), (2, []), (1, [0]))
    ],
    "gemma": [dict(**GROUPED, head_dim=20), dict(**GROUPED, head_dim=12, attention_bias=True)],
    "gemma2": [dict(**GROUPED, head_dim=20, sliding_window=96, query_pre_attn_scalar=20)],
    "gemma3_text": [
        dict(**{**GROUPED, "num_hidden_layers": 7}, head_dim=20, sliding_window=96),
        dict(**GROUPED, head_dim=20, attention_bias=True, tie_word_embeddings=False),
    ],
    "phi": [dict(**GROUPED, **NO_TOKENS), dict(**DECODER, **NO_TOKENS, tie_word_embeddings=True)],
    "phi3": [dict(**GROUPED, **NO_TOKENS, sliding_window=95)],
    "gpt_oss": [
        dict(**GROUPED, head_dim=16, num_local_experts=6, num_experts_per_tok=2, sliding_window=96),
        dict(**GROUPED, head_dim=8, num_local_experts=3, num_experts_per_tok=1, attention_bias=False),
    ],
    "deepseek_v2": [
        dict(**LATENT, q_lora_rank=24, n_shared_experts=3),
        dict(**LATENT, q_lora_rank=None, n_shared_experts=1, attention_bias=True),
    ],
    "deepseek_v3": [
        dict(**LATENT, q_lora_rank=24, n_shared_experts=2),
        dict(**LATENT, q_lora_rank=None, n_shared_experts=1, attention_bias=True),
    ],
    "glm4": [
        dict(**GROUPED, head_dim=20, **NO_TOKENS),
        dict(**GROUPED, head_dim=8, **NO_TOKENS, attention_bias=True),
    ],
    "glm4_moe": [
        dict(
            **GROUPED,
            head_dim=20,
            n_routed_experts=9,
            n_shared_experts=2,
            num_experts_per_tok=2,
            moe_intermediate_size=28,
            first_k_dense_replace=2,
            use_qk_norm=norm,
            attention_bias=norm,
        )
        for norm in (False, True)
    ],
    "olmo2": [dict(**GROUPED), dict(**GROUPED, attention_bias=True, tie_word_embeddings=True)],
    "starcoder2": [dict(**GROUPED, sliding_window=96), dict(**GROUPED, use_bias=False)],
    "stablelm": [
        dict(**GROUPED, use_qkv_bias=True),
        dict(**GROUPED, use_parallel_residual=True, tie_word_embeddings=True),
    ],
    "cohere": [dict(**GROUPED, **NO_TOKENS), dict(**GROUPED, **NO_TOKENS, attention_bias=True)],
    "granite": [
        dict(**GROUPED, embedding_multiplier=12.0, residual_multiplier=0.22),
        dict(**GROUPED, attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    ],
}


def line(name, model_type, fields):
    """One model of these fields: its name, its parameters, its config."""
    config = AutoConfig.for_model(model_type, **fields)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    with tempfile.TemporaryDirectory() as folder:
        model.config.save_pretrained(folder)
        written = json.loads((Path(folder) / "config.json").read_text())
    entry = {"name": name, "parameters": parameters, "config": written}
    return json.dumps(entry, sort_keys=True, separators=(",", ":"))


def main():
    lines = []
    for model_type, shapes in MODELS.items():
        for number, fields in enumerate(shapes):
            try:
                lines.append(line(f"{model_type} {number}", model_type, fields))
            except Exception as error:
                print(f"{model_type} {number}: {error!r}", file=sys.stderr)
    path = Path(sys.argv[1]) / f"transformers-{transformers.__version__}.jsonl"
    path.write_text("\n".join(lines) + "\n")
    print(f"{path}: {len(lines)} models of {len(MODELS)} types")


if __name__ == "__main__":
    main()
