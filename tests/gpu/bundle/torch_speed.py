"""Trains GPT-2 by PyTorch as a plan of ours does: `torch_speed.py gpt2|gpt2-xl|tiny BATCH eager|compile`. Each line on its
input asks for a few steps, which it answers by one line of JSON.

Alike: bf16 weights with fp32 master weights and moments, bf16 activations, tied head of 50,257 rows, fused attention
(scaled_dot_product_attention), gradients clipped to a norm of 1, AdamW on the master weights (fused). Not alike: the gradient
of a weight leaves its product in bf16 here and in fp32 there, and cross-entropy is of fp32 logits here.
"""

import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY = 50257
# Layers, hidden, heads, tokens a sequence.
MODELS = {"gpt2": (12, 768, 12, 1024), "gpt2-xl": (48, 1600, 25, 1024), "tiny": (2, 64, 2, 32)}
WARM, STEPS = 3, 8


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):  # (B, T, C)
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(self.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, layers, hidden, heads, tokens):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, hidden), nn.Embedding(tokens, hidden)
        self.blocks, self.norm = nn.ModuleList(Block(hidden, heads) for _ in range(layers)), nn.LayerNorm(hidden)
        for parameter in self.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, inputs, targets):
        x = self.tokens(inputs) + self.positions.weight[:inputs.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.float().view(-1, VOCABULARY), targets.reshape(-1))


class Trainer:
    def __init__(self, name, batch, how, device):
        layers, hidden, heads, self.length = MODELS[name]
        self.batch, self.device = batch, device
        torch.manual_seed(0)
        self.model = Model(layers, hidden, heads, self.length).to(device=device, dtype=torch.bfloat16)
        self.loss = torch.compile(self.model) if how == "compile" else self.model
        self.weights = list(self.model.parameters())
        self.masters = [weight.detach().float().clone() for weight in self.weights]
        groups = [{"params": [m for m in self.masters if (m.dim() >= 2) == matrix], "weight_decay": 0.1 * matrix}
                  for matrix in (True, False)]
        self.optimizer = torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=device == "cuda")

    def step(self):
        stream = torch.randint(VOCABULARY, (self.batch, self.length + 1), device=self.device)
        for weight in self.weights:
            weight.grad = None
        loss = self.loss(stream[:, :-1].contiguous(), stream[:, 1:].contiguous())
        loss.backward()
        for master, weight in zip(self.masters, self.weights):
            master.grad = weight.grad.float()
        nn.utils.clip_grad_norm_(self.masters, 1.0, foreach=True)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_(self.weights, self.masters)
        return loss

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()


def main(name, batch, how, device="cuda"):
    trainer, first = None, None
    for _ in sys.stdin:
        if trainer is None:
            trainer = Trainer(name, int(batch), how, device)
            first = trainer.step().item()
            for _ in range(WARM):
                trainer.step()
        seconds = []
        for _ in range(STEPS):
            trainer.wait()
            began = time.perf_counter()
            trainer.step().item()
            trainer.wait()
            seconds.append(time.perf_counter() - began)
        print(json.dumps({"step_s": statistics.median(seconds), "first_loss": first}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
