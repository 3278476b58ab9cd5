"""What every oracle shares: initial weights, tokens, AdamW and the golden file. Written from the contract, not from the code."""

import json
import pathlib
import sys

import autograd
import autograd.numpy as np
import numpy

# A script's first argument is the folder to write to.
GOLDEN = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "golden")
STEPS, BATCH, WINDOWS, VOCABULARY = 20, 4, 25, 97
OPTIMIZER = {"lr": 3e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
CLIP = 1.0
U64 = numpy.uint64


def splitmix64(x):
    x = x + U64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
    return x ^ (x >> U64(31))


def fnv1a64(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def normal(seed, name, shape):
    """Standard normal numbers that depend on nothing but seed, tensor name and element."""
    element = numpy.arange(numpy.prod(shape), dtype=U64)
    key = splitmix64(numpy.array([seed ^ fnv1a64(name)], U64))
    a, b = (splitmix64(key ^ (U64(2) * element + U64(half))) >> U64(11) for half in (0, 1))
    u1, u2 = (a.astype(float) + 0.5) * 2.0**-53, b.astype(float) * 2.0**-53
    return (numpy.sqrt(-2 * numpy.log(u1)) * numpy.cos(2 * numpy.pi * u2)).reshape(shape)


def initial(shapes, std, blocks, residual, seed=0):
    """One-dimensional tensors: biases 0, norms 1. `residual`: endings of names that write to the residual stream."""
    weights = {}
    for name, shape in shapes.items():
        if len(shape) == 1:
            weights[name] = numpy.full(shape, 0.0 if name.endswith("bias") else 1.0)
        else:
            scale = std / (2 * blocks) ** 0.5 if name.endswith(residual) else std
            weights[name] = scale * normal(seed, name, shape)
    return weights


def tokens(length):
    """A stream with structure: three of four tokens follow from the one before."""
    state, token, stream = 1, 0, []
    for _ in range(length):
        state = (1103515245 * state + 12345) % 2**31
        draw = state >> 16
        token = draw // 4 % VOCABULARY if draw % 4 == 0 else (5 * token + 7) % VOCABULARY
        stream.append(token)
    return stream


def batch(stream, window, step):
    """Inputs and targets, (B, T) each."""
    count = (len(stream) - 1) // window
    starts = [(step * BATCH + i) % count * window for i in range(BATCH)]
    return tuple(numpy.array([stream[s + shift : s + shift + window] for s in starts]) for shift in (0, 1))


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def cross_entropy(logits, targets):
    """Mean over all targets, in nats. logits (B, T, V)."""
    shifted = logits - np.max(logits, axis=-1, keepdims=True)
    chosen = np.sum(shifted * numpy.eye(logits.shape[-1])[targets], axis=-1)
    return np.mean(np.log(np.sum(np.exp(shifted), axis=-1)) - chosen)


def attention(q, k, v):
    """Causal attention. q, k, v (B, H, T, D)."""
    T, D = q.shape[-2:]
    scores = np.where(numpy.tri(T, dtype=bool), q @ np.swapaxes(k, -1, -2) / D**0.5, -1e300)
    return softmax(scores) @ v


def norm_of(gradients):
    return sum(float(numpy.sum(g * g)) for g in gradients.values()) ** 0.5


def adamw(weights, gradients, moments, t):
    """Clips and steps in place; returns the norm before clipping."""
    (beta1, beta2), norm = OPTIMIZER["betas"], norm_of(gradients)
    factor = min(1.0, CLIP / (norm + 1e-6))
    for name, w in weights.items():
        g = factor * gradients[name]
        m, v = moments.setdefault(name, [0 * g, 0 * g])
        m[...] = beta1 * m + (1 - beta1) * g
        v[...] = beta2 * v + (1 - beta2) * g * g
        decay = OPTIMIZER["weight_decay"] if w.ndim >= 2 else 0.0
        update = m / (1 - beta1**t) / (numpy.sqrt(v / (1 - beta2**t)) + OPTIMIZER["eps"])
        w -= OPTIMIZER["lr"] * (update + decay * w)
    return norm


def gradient_of(loss):
    """`step` of a model with one loss: weights, inputs, targets to gradients, loss, parts."""
    both = autograd.value_and_grad(loss)

    def step(weights, inputs, targets):
        value, gradients = both(weights, inputs, targets)
        return gradients, value, {}

    return step


def record(name, array):
    """Sum, norm and one entry out of each third, with its row-major index in the stored tensor."""
    flat = array.ravel()
    third = flat.size // 3
    entries = [[i, float(flat[i])] for i in (j * third + fnv1a64(f"{name} {j}") % third for j in range(3))]
    return {"sum": float(flat.sum()), "norm": float((flat @ flat) ** 0.5), "entries": entries}


def train(file, model, window, weights, step, micro=BATCH):
    """Trains and writes the golden file. `model`: what stands for it there."""
    stream = tokens(WINDOWS * window + 9)
    tensors = {n: {"shape": list(w.shape), "initial": record(n, w)} for n, w in weights.items()}
    moments, losses, norms, parts = {}, [], [], {}
    for t in range(STEPS):
        gradients, loss, named = step(weights, *batch(stream, window, t))
        if t == 0:
            for n, g in gradients.items():
                tensors[n]["gradient"] = record(n, g)
        losses.append(float(loss))
        for n, part in named.items():
            parts.setdefault(n, []).append(float(part))
        norms.append(adamw(weights, gradients, moments, t + 1))
    for n, w in weights.items():
        tensors[n]["final"] = record(n, w)
    workload = {"global_batch": BATCH, "micro_batch": micro, "seq_len": window, "precision": "fp64", "clip": CLIP}
    golden = {**model, "workload": workload, "optimizer": OPTIMIZER, "seed": 0, "tokens": stream,
              "losses": losses, "loss_parts": parts, "gradient_norms": norms, "tensors": tensors}
    write(GOLDEN / file, golden)


def write(path, golden):
    """One line a field and a tensor."""
    last = golden.pop("tensors")
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in golden.items()]
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in last.items())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + "\n".join(lines) + '\n "tensors": {\n' + rows + "\n }\n}\n")
