"""Mixtral: Llama's attention, and of every four experts the two that the router likes best. No token is dropped."""

import autograd.numpy as np
import numpy
from autograd.tracer import getval

from llama import grouped_attention, rms_norm, silu
from training import VOCABULARY, cross_entropy, gradient_of, initial, train

H, K, T, C, F, L, EXPERTS, TOP, EPS, THETA = 4, 2, 16, 32, 56, 2, 4, 2, 1e-5, 1e6
CONFIG = {
    "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "vocab_size": VOCABULARY, "hidden_size": C,
    "intermediate_size": F, "num_hidden_layers": L, "num_attention_heads": H, "num_key_value_heads": K,
    "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": EPS, "rope_theta": THETA,
    "sliding_window": None, "num_experts_per_tok": TOP, "num_local_experts": EXPERTS, "output_router_logits": False,
    "router_aux_loss_coef": 0.0, "initializer_range": 0.02, "tie_word_embeddings": False, "attention_dropout": 0.0,
}
margin = []  # how far the last expert taken was ahead of the first not taken, for every token


def shapes():
    found, head = {"model.embed_tokens.weight": (VOCABULARY, C)}, C // H
    for i in range(L):
        experts = [(f"block_sparse_moe.experts.{e}.{w}", shape)
                   for e in range(EXPERTS) for w, shape in [("w1", (F, C)), ("w2", (C, F)), ("w3", (F, C))]]
        for name, shape in [("self_attn.q_proj", (C, C)), ("self_attn.k_proj", (K * head, C)),
                            ("self_attn.v_proj", (K * head, C)), ("self_attn.o_proj", (C, C)),
                            ("block_sparse_moe.gate", (EXPERTS, C)), *experts,
                            ("input_layernorm", (C,)), ("post_attention_layernorm", (C,))]:
            found[f"model.layers.{i}.{name}.weight"] = shape
    return {**found, "model.norm.weight": (C,), "lm_head.weight": (VOCABULARY, C)}


def routing(logits):
    """Weights (B, T, experts): softmax over a token's best, 0 for the others."""
    order = numpy.sort(getval(logits), axis=-1)
    margin.append(float(numpy.min(order[..., -TOP] - order[..., -TOP - 1])))
    chosen = getval(logits) >= order[..., -TOP, None]
    e = np.exp(logits - order[..., -1, None]) * chosen
    return e / np.sum(e, axis=-1, keepdims=True)


def forward(weights, inputs):
    """Logits (B, T, V) of token ids (B, T)."""
    x = weights["model.embed_tokens.weight"][inputs]
    for i in range(L):
        w = lambda name: weights[f"model.layers.{i}.{name}.weight"]
        projections = (w(f"self_attn.{p}_proj") for p in "qkvo")
        x = x + grouped_attention(rms_norm(x, w("input_layernorm"), EPS), *projections, H, K, THETA)
        y = rms_norm(x, w("post_attention_layernorm"), EPS)
        share = routing(y @ w("block_sparse_moe.gate").T)
        for e in range(EXPERTS):
            w1, w2, w3 = (w(f"block_sparse_moe.experts.{e}.w{j}") for j in (1, 2, 3))
            x = x + share[..., e, None] * ((silu(y @ w1.T) * (y @ w3.T)) @ w2.T)
    return rms_norm(x, weights["model.norm.weight"], EPS) @ weights["lm_head.weight"].T


def loss(weights, inputs, targets):
    return cross_entropy(forward(weights, inputs), targets)


if __name__ == "__main__":
    weights = initial(shapes(), 0.02, L, ("o_proj.weight", "w2.weight"))
    train("moe.json", {"config": CONFIG}, T, weights, gradient_of(loss))
    print(f"closest choice of an expert: {min(margin):.1e} between logits")
