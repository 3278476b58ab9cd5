"""A Llama-like trunk under two heads, each with its loss; the first head is tied to the embedding.

A layer graph: tensors are named `layer.role`, a gated `up` holds the gate's rows before the others.
"""

import autograd
import autograd.numpy as np

from llama import grouped_attention, rms_norm, silu
from training import BATCH, VOCABULARY, cross_entropy, initial, norm_of, train

H, K, T, C, F, L, EPS, THETA = 4, 2, 16, 32, 72, 2, 1e-5, 10000.0
AT = f"block {L - 1} mlp"
CONSTANTS = {"norm_epsilon": EPS, "rope_theta": THETA, "initializer_range": 0.02}


def graph(weight):
    norm = {"kind": "rms", "width": C}
    attention = {"hidden": C, "heads": H, "projection": {"grouped": {"kv_heads": K, "head_dim": C // H}}, "norm": norm,
                 "position": "rotary"}
    mlp = {"hidden": C, "intermediate": F, "gated": True, "activation": "silu", "norm": norm}
    head = {"hidden": C, "vocabulary": VOCABULARY, "norm": norm}
    rows = [("embedding", "embedding", {"vocabulary": VOCABULARY, "hidden": C}, []),
            ("attention", "attention", attention, ["embedding"]), ("mlp", "mlp", mlp, ["attention"]),
            ("head", "head", {**head, "tied": True}, ["mlp"]), ("tokens", "loss", "cross_entropy", ["head"]),
            ("auxiliary head", "head", head, ["mlp"]), ("auxiliary", "loss", "cross_entropy", ["auxiliary head"])]
    return {"version": 1, "name": "two-losses", "max_sequence": 64,
            "layers": [{"name": name, "kind": {kind: what}, "inputs": inputs} for name, kind, what, inputs in rows],
            "repeat": [{"first": "attention", "last": "mlp", "count": L}],
            "losses": [{"name": "tokens", "layer": "tokens"}, {"name": "auxiliary", "layer": "auxiliary", "weight": weight}]}


def shapes():
    found, kv = {"embedding.tokens": (VOCABULARY, C)}, C // H * K
    for i in range(L):
        for name, shape in [("attention.norm", (C,)), ("attention.query", (C, C)), ("attention.key", (kv, C)),
                            ("attention.value", (kv, C)), ("attention.output", (C, C)),
                            ("mlp.norm", (C,)), ("mlp.up", (2 * F, C)), ("mlp.down", (C, F))]:
            found[f"block_{i}_{name}"] = shape
    return {**found, "head.norm": (C,), "auxiliary_head.norm": (C,), "auxiliary_head.vocabulary": (VOCABULARY, C)}


def losses(weights, inputs, targets):
    """The two losses, unweighted."""
    x = weights["embedding.tokens"][inputs]
    for i in range(L):
        w = lambda name: weights[f"block_{i}_{name}"]
        projections = (w(f"attention.{p}") for p in ("query", "key", "value", "output"))
        x = x + grouped_attention(rms_norm(x, w("attention.norm"), EPS), *projections, H, K, THETA)
        up = rms_norm(x, w("mlp.norm"), EPS) @ w("mlp.up").T
        x = x + (silu(up[..., :F]) * up[..., F:]) @ w("mlp.down").T
    heads = [("head.norm", "embedding.tokens"), ("auxiliary_head.norm", "auxiliary_head.vocabulary")]
    return [cross_entropy(rms_norm(x, weights[n], EPS) @ weights[table].T, targets) for n, table in heads]


def watched(gradients):
    """Norm over all parameters of the layer at which an adaptive weight looks."""
    return norm_of({n: g for n, g in gradients.items() if n.startswith(AT.replace(" ", "_") + ".")})


def step(micro, weight):
    """One backward for each loss and micro-batch of `micro` sequences. `weight`: a number, or none if adaptive.

    A micro-batch's share of a loss is its sum over targets divided by the targets of the whole batch.
    """
    backward = [autograd.value_and_grad(lambda *a, k=k: losses(*a)[k] * micro / BATCH) for k in (0, 1)]

    def run(weights, inputs, targets):
        total, value, parts = {n: 0 * w for n, w in weights.items()}, 0.0, [0.0, 0.0]
        for first in range(0, BATCH, micro):
            rows = slice(first, first + micro)
            (a, of), (b, own) = (f(weights, inputs[rows], targets[rows]) for f in backward)
            factor = min(watched(of) / (watched(own) + 1e-4), 1e4) if weight is None else weight
            total = {n: total[n] + of[n] + factor * own[n] for n in total}
            value, parts = value + a + factor * b, [parts[0] + a, parts[1] + b]
        return total, value, dict(zip(("tokens", "auxiliary"), parts))

    return run


if __name__ == "__main__":
    adaptive = {"adaptive": {"of": "tokens", "at": AT}}
    for file, micro, weight in [("two_losses", BATCH, 0.3), ("two_losses_adaptive", BATCH, None),
                                ("two_losses_adaptive_micro", BATCH // 2, None)]:
        model = {"layer_graph": graph(adaptive if weight is None else weight), "constants": CONSTANTS}
        weights = initial(shapes(), 0.02, L, ("attention.output", "mlp.down"))
        train(file + ".json", model, T, weights, step(micro, weight), micro)
