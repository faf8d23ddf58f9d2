"""Train the date translator and write model.xml, model.bin and input.npy.

    pip install irrun[train]
    python examples/date_translation/train.py

Training takes about six minutes on one core. It is deterministic on the same machine and version of PyTorch.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import numpy as np
import torch
from dates import blur_character, choose_day, format_date, is_held_out
from export import END, START, STEPS, VOCABULARY, export
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

ALPHABET = "? abcdefghijklmnopqrstuvwxyz0123456789.,/-'"


class Translator(nn.Module):
    """A character-level translator: a bidirectional LSTM encoder and an LSTM decoder with attention.

    Text is passed as ASCII codes padded with 0. `fold` maps a code to its row of the embedding: upper case to lower
    case, and characters outside of the alphabet to the question mark.
    """

    def __init__(self, embedding: int = 32, reader: int = 64, writer: int = 128) -> None:
        super().__init__()
        fold = [max(ALPHABET.find(chr(code).lower()), 0) for code in range(128)]
        self.register_buffer("fold", torch.tensor(fold))
        self.characters = nn.Embedding(len(ALPHABET), embedding)
        self.encoder = nn.LSTM(embedding, reader, batch_first=True, bidirectional=True)
        self.first_hidden = nn.Linear(2 * reader, writer)
        self.first_cell = nn.Linear(2 * reader, writer)
        self.tokens = nn.Embedding(len(VOCABULARY) + 2, embedding)  # END and START follow the vocabulary
        self.positions = nn.Parameter(0.1 * torch.randn(STEPS, embedding))
        self.decoder = nn.LSTM(embedding, writer, batch_first=True)
        self.query = nn.Linear(writer, 2 * reader, bias=False)
        self.combine = nn.Linear(writer + 2 * reader, writer)
        self.output = nn.Linear(writer, len(VOCABULARY) + 1)

    def encode(self, text: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Encode text.

        Args:
            text: Character codes [batch, time].

        Returns:
            The encoded text [batch, time, 2 * reader], a mask of the characters that are not padding
            [batch, 1, time], and the initial state of the decoder.
        """
        present = text != 0
        embedded = pack_padded_sequence(
            self.characters(self.fold[text]), present.sum(1), batch_first=True, enforce_sorted=False
        )
        packed, (last, _) = self.encoder(embedded)
        memory, _ = pad_packed_sequence(packed, batch_first=True, total_length=text.shape[1])
        summary = last.transpose(0, 1).flatten(1)
        state = (torch.tanh(self.first_hidden(summary)), torch.tanh(self.first_cell(summary)))
        return memory, present[:, None], (state[0][None], state[1][None])

    def decode(
        self,
        tokens: Tensor,
        positions: Tensor,
        memory: Tensor,
        present: Tensor,
        state: tuple[Tensor, Tensor],
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the log probabilities [batch, steps, vocabulary] of the next tokens, and the new state."""
        hidden, state = self.decoder(self.tokens(tokens) + positions, state)
        attention = self.query(hidden) @ memory.transpose(1, 2)
        attention = attention.masked_fill(~present, -1e9).softmax(-1)
        combined = torch.tanh(self.combine(torch.cat([hidden, attention @ memory], -1)))
        return self.output(combined).log_softmax(-1), state

    def forward(self, text: Tensor, tokens: Tensor) -> Tensor:
        memory, present, state = self.encode(text)
        return self.decode(tokens, self.positions, memory, present, state)[0]


def encode(texts: list[str]) -> Tensor:
    """Return the ASCII codes of texts, padded with 0 to the longest one."""
    codes = [list(text.encode("ascii", "replace")) for text in texts]
    longest = max(map(len, codes))
    return torch.tensor([row + [0] * (longest - len(row)) for row in codes])


def make_dates(count: int, rng: random.Random, *, held_out: bool) -> tuple[list[str], list[str]]:
    """Return `count` dates in random styles and in ISO form, either held-out days only or none of them."""
    texts, answers = [], []
    while len(texts) < count:
        day = choose_day(rng)
        if is_held_out(day) == held_out:
            texts.append(format_date(day, rng))
            answers.append(day.isoformat())
    return texts, answers


def train(steps: int, batch: int = 256, seed: int = 2026) -> Translator:
    """Train a translator on `steps` batches of random dates."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    rng = random.Random(seed)
    model = Translator()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=0.1)
    start = time.monotonic()
    for step in range(1, steps + 1):
        texts, answers = make_dates(batch, rng, held_out=False)
        # An illegible character may make a date ambiguous, so that the model learns to rank alternatives.
        texts = [blur_character(text, rng) if rng.random() < 0.15 else text for text in texts]
        targets = torch.tensor([[*map(VOCABULARY.index, answer), END] for answer in answers])
        inputs = torch.cat([torch.full((batch, 1), START), targets[:, :-1]], 1)
        loss = F.nll_loss(model(encode(texts), inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 250 == 0:
            print(f"step {step}: loss {loss.item():.5f}, {time.monotonic() - start:.0f} s", flush=True)
    return model.eval()


@torch.no_grad()
def beam_search(model: Translator, text: str, width: int) -> tuple[list[str], list[float]]:
    """Return the `width` best translations of a text and their log probabilities."""
    memory, present, state = model.encode(encode([text]))
    beams = [([START], 0.0, state)]
    for step in range(STEPS):
        candidates = []
        for tokens, score, state in beams:
            if tokens[-1] == END:
                candidates.append((tokens, score, state))
                continue
            position = model.positions[step : step + 1]
            logs, new_state = model.decode(torch.tensor([tokens[-1:]]), position, memory, present, state)
            candidates += [([*tokens, token], score + log, new_state) for token, log in enumerate(logs[0, 0].tolist())]
        beams = sorted(candidates, key=lambda candidate: -candidate[1])[:width]
    return ["".join(VOCABULARY[t] for t in tokens[1:] if t != END) for tokens, _, _ in beams], [
        score for _, score, _ in beams
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=5000, help="number of training batches")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, help="output folder")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)

    model = train(options.steps)
    texts, answers = make_dates(1000, random.Random(1), held_out=True)
    correct = sum(beam_search(model, text, 1)[0] == [answer] for text, answer in zip(texts, answers, strict=True))
    print(f"{correct / len(texts):.1%} of {len(texts)} held-out dates are correct")

    export({name: value.numpy() for name, value in model.state_dict().items()}, options.output)
    example = encode(["3 May 2026", "may 3rd, 26", "03.05.2026"])
    np.save(options.output / "input.npy", example.numpy().astype(np.int32))


if __name__ == "__main__":
    main()
