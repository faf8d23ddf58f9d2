"""Train the text generator and write model.xml and model.bin.

    pip install irrun[train] openvino
    python examples/text_generation/train.py

Training takes about ten minutes on one core. It is deterministic on the same machine and version of PyTorch.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import openvino as ov
import torch
from stateful import convert, make_causal_mask
from tales import generate_tale
from torch import Tensor, nn
from torch.nn import functional as F

VOCABULARY = 128  # ASCII codes
LAYERS, HEADS, SIZE = 2, 4, 24
WIDTH = HEADS * SIZE


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Apply rotary position embeddings (RoPE)."""
    a, b = x.chunk(2, -1)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Block(nn.Module):
    """A transformer layer in the style of Llama."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.RMSNorm(WIDTH)
        self.heads = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.joined = nn.Linear(WIDTH, WIDTH, bias=False)
        self.between = nn.RMSNorm(WIDTH)
        self.gate = nn.Linear(WIDTH, 256, bias=False)
        self.up = nn.Linear(WIDTH, 256, bias=False)
        self.down = nn.Linear(256, WIDTH, bias=False)

    def forward(self, x: Tensor, mask: Tensor, angles: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        batch, length, _ = x.shape
        heads = self.heads(self.before(x)).view(batch, length, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4)
        keys = torch.cat([keys, rotate(heads[1], angles)], 2)
        values = torch.cat([values, heads[2]], 2)
        attention = F.scaled_dot_product_attention(rotate(heads[0], angles), keys, values, attn_mask=mask)
        x = x + self.joined(attention.transpose(1, 2).reshape(batch, length, WIDTH))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), keys, values


class TextGenerator(nn.Module):
    """A character-level language model; `caches` are the keys and values of the previous characters."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH)
        self.register_buffer("speeds", 10000 ** -(torch.arange(SIZE // 2) * 2 / SIZE))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, *caches: Tensor
    ) -> tuple[Tensor, ...]:
        x = self.embedding(input_ids)
        mask = make_causal_mask(attention_mask, input_ids.shape[1])
        angles = position_ids[:, :, None] * self.speeds
        updated = []
        for i, block in enumerate(self.blocks):
            x, *cache = block(x, mask, angles, caches[2 * i], caches[2 * i + 1])
            updated += cache
        return F.linear(self.norm(x), self.embedding.weight), *updated


def make_batch(rng: random.Random, rows: int, length: int) -> Tensor:
    """Return character codes [rows, length + 1] of consecutive tales, cut at random positions."""
    lines = []
    for _ in range(rows):
        text = "".join(generate_tale(rng) for _ in range(3))
        start = rng.choice([0, rng.randrange(len(text) - length - 1)])
        lines.append(list(text[start : start + length + 1].encode()))
    return torch.tensor(lines)


def train(steps: int, rows: int = 12, length: int = 480, seed: int = 2026) -> TextGenerator:
    """Train a model on `steps` batches of random tales."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    rng = random.Random(seed)
    model = TextGenerator()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps, pct_start=0.1)
    mask = torch.ones(rows, length, dtype=torch.int64)
    positions = torch.arange(length).expand(rows, length)
    empty = torch.zeros(rows, HEADS, 0, SIZE)
    start = time.monotonic()
    for step in range(1, steps + 1):
        codes = make_batch(rng, rows, length)
        logits = model(codes[:, :-1], mask, positions, *[empty] * (2 * LAYERS))[0]
        loss = F.cross_entropy(logits.flatten(0, 1), codes[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}, {time.monotonic() - start:.0f} s", flush=True)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1800, help="number of training batches")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, help="output folder")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)

    model = train(options.steps)
    with torch.no_grad():
        ov.save_model(convert(model, LAYERS, HEADS, SIZE), options.output / "model.xml", compress_to_fp16=True)


if __name__ == "__main__":
    main()
