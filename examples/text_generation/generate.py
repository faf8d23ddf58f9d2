"""Continue a tale: python generate.py Once there was a clever cat named Zoe"""

import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

import irrun

LENGTH = 450

model = irrun.compile_model(Path(__file__).with_name("model.xml"))
text = " ".join(sys.argv[1:]) or "Once there was"
tokens = list(text.encode("ascii", "replace"))
cached = 0  # number of tokens in the variables of the model
stderr = Console(stderr=True)
for _ in track(range(LENGTH), "Generating", console=stderr, transient=True, disable=not stderr.is_terminal):
    outputs = model(
        {
            "input_ids": np.array([tokens[cached:]]),
            "attention_mask": np.ones((1, len(tokens)), np.int64),
            "position_ids": np.arange(cached, len(tokens))[None],
            "beam_idx": np.zeros(1, np.int32),
        }
    )
    cached = len(tokens)
    tokens.append(int(outputs["logits"][0, -1].argmax()))
    if tokens[-1] == ord("\n"):
        break
print(bytes(tokens).decode().rstrip("\n"))
