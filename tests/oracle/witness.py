"""A witness for the oracle: Hugging Face's own models and torch's own AdamW, in f64, against the golden files.

Needs torch, transformers and autograd. Where Hugging Face's code rounds to f32, `torch.float32` is made to mean f64.
"""

import json
import pathlib
import sys

import torch
import transformers

import gpt2
import llama
import moe
from training import initial

GOLDEN = pathlib.Path(__file__).parent / "golden"
RESIDUAL = {"gpt2": ("c_proj.weight",), "llama": ("o_proj.weight", "down_proj.weight"),
            "moe": ("o_proj.weight", "w2.weight")}


class Double:
    """The module torch, in which `float32` and `float` mean f64."""

    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def build(name, golden, source):
    config = {**golden["config"]}
    config = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    config._attn_implementation = "eager"
    config.use_cache = False
    model = transformers.AutoModelForCausalLM.from_config(config).double()
    sys.modules[type(model).__module__].torch = Double()
    for module in model.modules():  # frequencies were computed in f32
        if "Rotary" in type(module).__name__:
            module.inv_freq = module.base ** (-torch.arange(0, module.dim, 2) / module.dim)
            if hasattr(module, "_set_cos_sin_cache"):
                module._set_cos_sin_cache(module.max_position_embeddings, "cpu", torch.float64)
    weights = initial(source.shapes(), config.initializer_range, config.num_hidden_layers, RESIDUAL[name])
    named = dict(model.named_parameters())
    assert named.keys() == weights.keys(), named.keys() ^ weights.keys()
    with torch.no_grad():
        for key, value in weights.items():
            named[key].copy_(torch.from_numpy(value))
    return model, named


def worst(named, tensors, kind, of=lambda p: p):
    """Largest difference over sums, norms and entries."""
    found = 0.0
    for key, p in named.items():
        flat, golden = of(p).detach().reshape(-1), tensors[key][kind]
        pairs = [(flat.sum(), golden["sum"]), (flat.norm(), golden["norm"]), *((flat[i], v) for i, v in golden["entries"])]
        found = max(found, *(abs(float(a) - b) for a, b in pairs))
    return found


def witness(name, source):
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    model, named = build(name, golden, source)
    o, T, B = golden["optimizer"], golden["workload"]["seq_len"], golden["workload"]["global_batch"]
    groups = [{"params": [p for p in named.values() if (p.dim() >= 2) == matrix], "weight_decay": o["weight_decay"] * matrix}
              for matrix in (True, False)]
    adamw = torch.optim.AdamW(groups, lr=o["lr"], betas=o["betas"], eps=o["eps"])
    stream, step_error, gradient_error = torch.tensor(golden["tokens"]), 0.0, 0.0
    windows = stream[: (len(stream) - 1) // T * T].view(-1, T)
    targets = stream[1 : windows.numel() + 1].view(-1, T)
    for step, expected in enumerate(golden["losses"]):
        rows = torch.arange(step * B, step * B + B) % len(windows)
        logits = model(windows[rows]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[rows].flatten())
        adamw.zero_grad()
        loss.backward()
        if step == 0:
            gradient_error = worst(named, golden["tensors"], "gradient", lambda p: p.grad)
        torch.nn.utils.clip_grad_norm_(named.values(), golden["workload"]["clip"])
        adamw.step()
        step_error = max(step_error, abs(loss.item() - expected))
    final = worst(named, golden["tensors"], "final")
    print(f"{name}: losses within {step_error:.1e}, gradients {gradient_error:.1e}, final weights {final:.1e}")


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    for name, source in [("gpt2", gpt2), ("llama", llama), ("moe", moe)]:
        witness(name, source)
