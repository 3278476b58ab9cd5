"""GPT-2 124M trained in eager PyTorch on the CPU, f32. Arguments: warm-up steps, steps. Prints one line of JSON."""

import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

B, T, V, C, H, L, POSITIONS, THREADS = 4, 256, 50257, 768, 12, 12, 1024, 2
fused_attention = getattr(F, "scaled_dot_product_attention", None)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv, self.out = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.up, self.down = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)
        self.register_buffer("future", torch.ones(T, T, dtype=torch.bool).triu(1))

    def forward(self, x):
        q, k, v = (y.view(B, T, H, C // H).transpose(1, 2) for y in self.qkv(self.ln_1(x)).split(C, dim=2))
        if fused_attention:
            y = fused_attention(q, k, v, is_causal=True)
        else:
            scores = (q * (C // H) ** -0.5) @ k.transpose(-2, -1)
            y = scores.masked_fill_(self.future, -torch.inf).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(V, C), nn.Embedding(POSITIONS, C)
        self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(L))), nn.LayerNorm(C)
        for p in self.parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, inputs, targets):
        x = self.tokens(inputs) + self.positions.weight[:T]
        logits = self.norm(self.blocks(x)) @ self.tokens.weight.T
        return F.cross_entropy(logits.view(B * T, V), targets.reshape(B * T))


def adamw(model):
    groups = [{"params": [p for p in model.parameters() if (p.dim() >= 2) == matrix], "weight_decay": 0.1 * matrix}
              for matrix in (True, False)]
    options = {"lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8}
    try:
        return torch.optim.AdamW(groups, fused=True, **options)
    except (TypeError, RuntimeError):  # fused on the CPU since 2.4
        return torch.optim.AdamW(groups, **options)


def main(warm, steps):
    torch.manual_seed(0)
    torch.set_num_threads(THREADS)
    model = Model()
    optimizer, seconds, losses = adamw(model), [], []
    for _ in range(warm + steps):
        stream = torch.randint(V, (B, T + 1))
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = model(stream[:, :-1], stream[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"version": torch.__version__, "parameters": sum(p.numel() for p in model.parameters()),
                      "first_loss": losses[0], "tokens_per_s": B * T / statistics.median(seconds[warm:]),
                      "step_s": seconds[warm:]}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
