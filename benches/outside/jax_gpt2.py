"""GPT-2 124M trained in JAX on the CPU, f32, the whole step in one jit. Arguments: warm-up steps, steps. Prints JSON."""

import functools
import json
import statistics
import sys
import time

import jax
import jax.numpy as np

B, T, V, C, H, L, POSITIONS = 4, 256, 50257, 768, 12, 12, 1024
LR, BETA1, BETA2, EPS, DECAY, CLIP = 3e-4, 0.9, 0.95, 1e-8, 0.1, 1.0


def initial(key):
    def linear(key, inputs, outputs):
        return {"w": 0.02 * jax.random.normal(key, (inputs, outputs)), "b": np.zeros(outputs)}

    def norm():
        return {"w": np.ones(C), "b": np.zeros(C)}

    def block(key):
        k = jax.random.split(key, 4)
        return {"ln_1": norm(), "qkv": linear(k[0], C, 3 * C), "out": linear(k[1], C, C), "ln_2": norm(),
                "up": linear(k[2], C, 4 * C), "down": linear(k[3], 4 * C, C)}

    keys = jax.random.split(key, L + 2)
    return {"tokens": 0.02 * jax.random.normal(keys[0], (V, C)), "norm": norm(),
            "positions": 0.02 * jax.random.normal(keys[1], (POSITIONS, C)), "blocks": [block(k) for k in keys[2:]]}


def loss(weights, inputs, targets):
    def norm(x, p):
        x = x - np.mean(x, -1, keepdims=True)
        return x * jax.lax.rsqrt(np.mean(x * x, -1, keepdims=True) + 1e-5) * p["w"] + p["b"]

    def linear(x, p):
        return x @ p["w"] + p["b"]

    past = np.tril(np.ones((T, T), bool))
    x = weights["tokens"][inputs] + weights["positions"][:T]
    for p in weights["blocks"]:
        q, k, v = np.moveaxis(linear(norm(x, p["ln_1"]), p["qkv"]).reshape(B, T, 3, H, C // H), 2, 0)
        scores = np.einsum("bthd,bshd->bhts", q * (C // H) ** -0.5, k)
        shares = jax.nn.softmax(np.where(past, scores, -np.inf), -1)
        x = x + linear(np.einsum("bhts,bshd->bthd", shares, v).reshape(B, T, C), p["out"])
        x = x + linear(jax.nn.gelu(linear(norm(x, p["ln_2"]), p["up"]), approximate=True), p["down"])
    logits = norm(x, weights["norm"]) @ weights["tokens"].T
    chosen = np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return np.mean(jax.nn.logsumexp(logits, -1) - chosen)


@functools.partial(jax.jit, donate_argnums=(0, 1, 2))
def step(weights, first, second, t, inputs, targets):
    value, gradients = jax.value_and_grad(loss)(weights, inputs, targets)
    norm = np.sqrt(sum(np.vdot(g, g) for g in jax.tree.leaves(gradients)))
    factor = np.minimum(1.0, CLIP / (norm + 1e-6))
    first = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * factor * g, first, gradients)
    second = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * (factor * g) ** 2, second, gradients)

    def update(w, m, v):
        decay = DECAY if w.ndim >= 2 else 0.0
        return w - LR * (m / (1 - BETA1**t) / (np.sqrt(v / (1 - BETA2**t)) + EPS) + decay * w)

    return jax.tree.map(update, weights, first, second), first, second, value


def main(warm, steps):
    weights = initial(jax.random.key(0))
    parameters = sum(w.size for w in jax.tree.leaves(weights))
    first, second = (jax.tree.map(np.zeros_like, weights) for _ in range(2))
    seconds, losses = [], []
    for t in range(1, warm + steps + 1):
        stream = jax.random.randint(jax.random.key(t), (B, T + 1), 0, V).block_until_ready()
        start = time.perf_counter()
        weights, first, second, value = step(weights, first, second, float(t), stream[:, :-1], stream[:, 1:])
        jax.block_until_ready(weights)
        losses.append(float(value))
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"version": jax.__version__, "parameters": parameters, "first_loss": losses[0],
                      "tokens_per_s": B * T / statistics.median(seconds[warm:]), "step_s": seconds[warm:]}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
