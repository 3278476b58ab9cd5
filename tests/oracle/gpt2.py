"""GPT-2 as Hugging Face computes it: packed Conv1D weights stored (in, out), pre-norm, `gelu_new`, tied head."""

import autograd.numpy as np

from training import VOCABULARY, attention, cross_entropy, gradient_of, initial, train

B, H, T, C, L, POSITIONS, EPS = "transformer.", 4, 32, 48, 3, 40, 1e-5
CONFIG = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": VOCABULARY, "n_positions": POSITIONS,
    "n_embd": C, "n_layer": L, "n_head": H, "n_inner": None, "activation_function": "gelu_new",
    "layer_norm_epsilon": EPS, "initializer_range": 0.02, "tie_word_embeddings": True,
    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
}


def shapes():
    found = {B + "wte.weight": (VOCABULARY, C), B + "wpe.weight": (POSITIONS, C)}
    for i in range(L):
        for name, shape in [("ln_1", (C,)), ("attn.c_attn", (C, 3 * C)), ("attn.c_proj", (C, C)),
                            ("ln_2", (C,)), ("mlp.c_fc", (C, 4 * C)), ("mlp.c_proj", (4 * C, C))]:
            found[f"{B}h.{i}.{name}.weight"] = shape
            found[f"{B}h.{i}.{name}.bias"] = shape[-1:]
    return {**found, B + "ln_f.weight": (C,), B + "ln_f.bias": (C,)}


def forward(weights, inputs):
    """Logits (B, T, V) of token ids (B, T)."""

    def layer_norm(x, name):
        mean = np.mean(x, axis=-1, keepdims=True)
        variance = np.mean((x - mean) ** 2, axis=-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + EPS) * weights[name + ".weight"] + weights[name + ".bias"]

    def linear(x, name):
        return x @ weights[name + ".weight"] + weights[name + ".bias"]

    def gelu_new(x):
        return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))

    def heads(x):  # (B, T, C) to (B, H, T, D)
        return np.swapaxes(np.reshape(x, x.shape[:2] + (H, C // H)), 1, 2)

    table = weights[B + "wte.weight"]
    x = table[inputs] + weights[B + "wpe.weight"][: inputs.shape[1]]
    for i in range(L):
        h = f"{B}h.{i}."
        packed = linear(layer_norm(x, h + "ln_1"), h + "attn.c_attn")
        q, k, v = (heads(packed[..., j * C : (j + 1) * C]) for j in range(3))
        x = x + linear(np.reshape(np.swapaxes(attention(q, k, v), 1, 2), x.shape), h + "attn.c_proj")
        x = x + linear(gelu_new(linear(layer_norm(x, h + "ln_2"), h + "mlp.c_fc")), h + "mlp.c_proj")
    return layer_norm(x, B + "ln_f") @ table.T


def loss(weights, inputs, targets):
    return cross_entropy(forward(weights, inputs), targets)


if __name__ == "__main__":
    weights = initial(shapes(), 0.02, L, ("c_proj.weight",))
    train("gpt2.json", {"config": CONFIG}, T, weights, gradient_of(loss))
