"""Compare the time of tokenizers in irrun with that in OpenVINO Tokenizers.

    python tools/make_tokenizers.py FOLDER gpt2 llama3 t5 --size 30000 --text book.txt
    python benchmarks/tokenization.py FOLDER book.txt

Measured for each tokenizer: the time until a compiled model has encoded one word, which includes its vocabulary; the
lines of the text at once, up to 1 MB of them, for the first time and again; the first lines one by one; and one
sentence again and again. Ratios are the time of irrun divided by that of OpenVINO Tokenizers on as many threads.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import openvino_tokenizers  # noqa: F401 (registers the operations)

import irrun

SENTENCE = "The quick brown fox jumps over the lazy dog, and then it tokenizes 12 words."
#: Lines that are encoded one by one.
SINGLE_LINES = 300


def read_lines(path: Path, size: int) -> list[str]:
    """Return the first lines of a text, up to a number of bytes."""
    lines: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        size -= len(line.encode()) + 1
        if size < 0:
            break
        lines.append(line)
    return lines


def measure(function: Callable[[], Any], repeats: int = 5) -> float:
    """Return the shortest time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def measure_tokenizer(path: Path, lines: list[str]) -> dict[str, float]:
    """Return the times of irrun in seconds, and ratios."""
    reference = openvino.Core().compile_model(path, "CPU")
    reference([np.array(["x"])] * len(reference.inputs))
    start = time.perf_counter()
    compiled = irrun.compile_model(path)
    count = len(reference.inputs)
    compiled([np.array(["x"], object)] * count)
    result = {"ready": time.perf_counter() - start}

    def compare(name: str, batches: list[list[str]], repeats: int) -> None:
        inputs = [[np.array(batch)] * count for batch in batches]
        texts = [[np.array(batch, object)] * count for batch in batches]
        expected = measure(lambda: [reference(values) for values in inputs], repeats)
        result[name] = measure(lambda: [compiled(values) for values in texts], repeats)
        result[f"{name} ratio"] = result[name] / expected

    compare("first", [lines], 1)
    compare("lines", [lines], 5)
    compare("single", [[line] for line in lines[:SINGLE_LINES]], 5)
    compare("sentence", [[SENTENCE]], 300)
    return result


def main() -> None:
    """Measure all tokenizers in a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folders with openvino_tokenizer.xml")
    parser.add_argument("text", type=Path, help="a text in UTF-8")
    parser.add_argument("--size", type=int, default=10**6, help="bytes of the text")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    lines = read_lines(arguments.text, arguments.size)
    results = {
        path.parent.name: measure_tokenizer(path, lines)
        for path in sorted(arguments.folder.glob("*/openvino_tokenizer.xml"))
    }
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    columns = ("first ratio", "lines ratio", "single ratio", "sentence ratio")
    print(f"{'tokenizer':<20}{'ready, s':>10}{'lines, s':>10}" + "".join(f"{name:>16}" for name in columns))
    for name, row in results.items():
        ratios = "".join(f"{row[column]:>16.2f}" for column in columns)
        print(f"{name:<20}{row['ready']:>10.2f}{row['lines']:>10.2f}{ratios}")
    means = [math.exp(np.mean([math.log(row[column]) for row in results.values()])) for column in columns]
    print(f"{'geometric mean':<40}" + "".join(f"{mean:>16.2f}" for mean in means))


if __name__ == "__main__":
    main()
