"""Llama: RMS norm, rotary positions, grouped-query attention, SwiGLU, untied head. Weights are stored (out, in)."""

import autograd.numpy as np
import numpy

from training import VOCABULARY, attention, cross_entropy, gradient_of, initial, train

H, K, D, T, C, F, L, EPS, THETA, STD = 4, 2, 16, 32, 64, 112, 3, 1e-5, 10000.0, 0.05
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": VOCABULARY, "hidden_size": C,
    "intermediate_size": F, "num_hidden_layers": L, "num_attention_heads": H, "num_key_value_heads": K, "head_dim": D,
    "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": EPS, "rope_theta": THETA, "rope_scaling": None,
    "initializer_range": STD, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
    "attention_dropout": 0.0,
}


def shapes():
    found = {"model.embed_tokens.weight": (VOCABULARY, C)}
    for i in range(L):
        for name, shape in [("self_attn.q_proj", (H * D, C)), ("self_attn.k_proj", (K * D, C)),
                            ("self_attn.v_proj", (K * D, C)), ("self_attn.o_proj", (C, H * D)),
                            ("mlp.gate_proj", (F, C)), ("mlp.up_proj", (F, C)), ("mlp.down_proj", (C, F)),
                            ("input_layernorm", (C,)), ("post_attention_layernorm", (C,))]:
            found[f"model.layers.{i}.{name}.weight"] = shape
    return {**found, "model.norm.weight": (C,), "lm_head.weight": (VOCABULARY, C)}


def rms_norm(x, weight, eps=EPS):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def rotate(x, theta):
    """Turns the pairs (i, i + D/2) of every head by position · theta^(-2i/D). x (B, heads, T, D)."""
    half = x.shape[-1] // 2
    angle = numpy.outer(numpy.arange(x.shape[-2]), theta ** (-numpy.arange(half) / half))
    cos, sin = numpy.cos(angle), numpy.sin(angle)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def grouped_attention(x, wq, wk, wv, wo, heads, kv_heads, theta):
    """x (B, T, C); query head h reads key-value head h // (heads / kv_heads)."""

    def split(y, count):
        return np.swapaxes(np.reshape(y, y.shape[:2] + (count, y.shape[-1] // count)), 1, 2)

    q = rotate(split(x @ wq.T, heads), theta)
    k, v = rotate(split(x @ wk.T, kv_heads), theta), split(x @ wv.T, kv_heads)
    k, v = (np.repeat(y, heads // kv_heads, axis=1) for y in (k, v))
    out = np.swapaxes(attention(q, k, v), 1, 2)
    return np.reshape(out, out.shape[:2] + (-1,)) @ wo.T


def forward(weights, inputs):
    """Logits (B, T, V) of token ids (B, T)."""
    x = weights["model.embed_tokens.weight"][inputs]
    for i in range(L):
        w = lambda name: weights[f"model.layers.{i}.{name}.weight"]
        projections = (w(f"self_attn.{p}_proj") for p in "qkvo")
        x = x + grouped_attention(rms_norm(x, w("input_layernorm")), *projections, H, K, THETA)
        y = rms_norm(x, w("post_attention_layernorm"))
        x = x + (silu(y @ w("mlp.gate_proj").T) * (y @ w("mlp.up_proj").T)) @ w("mlp.down_proj").T
    return rms_norm(x, weights["model.norm.weight"]) @ weights["lm_head.weight"].T


def loss(weights, inputs, targets):
    return cross_entropy(forward(weights, inputs), targets)


if __name__ == "__main__":
    weights = initial(shapes(), STD, L, ("o_proj.weight", "down_proj.weight"))
    train("llama.json", {"config": CONFIG}, T, weights, gradient_of(loss))
