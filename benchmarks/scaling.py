"""Measure how reading, compiling and running grow with the size of a file.

    python benchmarks/scaling.py                       # 10^3 to 10^5 of everything
    python benchmarks/scaling.py --max 1000000 layers edges

For each size the CPU time per element is printed. It must not grow by more than a factor of 3 between the smallest and
the largest size: then the work is linear up to caches and logarithms.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("IRRUN_JIT", "off")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
from ir_text import graph, layer, net, port, write

import irrun

#: Largest factor between the times per element of the smallest and the largest size.
MAX_GROWTH = 3.0

Text = tuple[str, bytes]


def parameter(id: int) -> str:
    return layer(id, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,))])


def build_layers(n: int) -> Text:
    """A chain of n layers."""
    layers = [parameter(0), *(layer(i, "ReLU", inputs=[port(0)], outputs=[port(1)]) for i in range(1, n))]
    edges = [(i - 1, int(i > 1), i, 0) for i in range(1, n)]
    return net([*layers, layer(n, "Result", inputs=[port(0)])], [*edges, (n - 1, int(n > 1), n, 0)]), b""


def build_shuffled(n: int) -> Text:
    """A chain of n layers in the opposite order."""
    text, weights = build_layers(n)
    head, _, rest = text.partition("<layers>")
    body, _, tail = rest.partition("</layers>")
    return f"{head}<layers>{''.join(reversed(body.splitlines()))}</layers>{tail}", weights


def build_edges(n: int) -> Text:
    """n edges from one port to one layer."""
    concat = layer(1, "Concat", data='axis="0"', inputs=[port(i) for i in range(n)], outputs=[port(n)])
    edges = [(0, 0, 1, i) for i in range(n)]
    return net([parameter(0), concat, layer(2, "Result", inputs=[port(0)])], [*edges, (1, n, 2, 0)]), b""


def build_ports(n: int) -> Text:
    """A layer with n output ports, of which one is used."""
    outputs = [port(2 + i) for i in range(n)]
    data = f'element_type="f32" shape="{n}" offset="8" size="{4 * n}"'
    layers = [
        layer(0, "Const", data=data, outputs=[port(0, (n,))]),
        layer(1, "Const", data='element_type="i64" shape="" offset="0" size="8"', outputs=[port(0)]),
        layer(2, "Split", data=f'num_splits="{n}"', inputs=[port(0), port(1)], outputs=outputs),
        layer(3, "Result", inputs=[port(0)]),
    ]
    return net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]), bytes(8 + 4 * n)


def build_names(n: int) -> Text:
    """A port with n tensor names."""
    names = ",".join(f"n{i}" for i in range(n))
    layers = [layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), names=names)])]
    return net([*layers, layer(1, "Result", inputs=[port(0)])], [(0, 0, 1, 0)]), b""


def build_equal_names(n: int) -> Text:
    """n layers of one name."""
    text, weights = build_layers(n)
    return text.replace('name="layer', 'name="same" unused="'), weights


def build_bodies(n: int) -> Text:
    """A chain of n layers with bodies."""
    inner = graph([parameter(0), layer(1, "Result", inputs=[port(0)])], [(0, 0, 1, 0)])
    entries = '<input external_port_id="0" internal_layer_id="0"/><output external_port_id="1" internal_layer_id="1"/>'
    text = f"<body>{inner}</body><port_map>{entries}</port_map>"
    layers = [layer(i, "TensorIterator", inputs=[port(0)], outputs=[port(1)], inner=text) for i in range(1, n)]
    edges = [(i - 1, int(i > 1), i, 0) for i in range(1, n)]
    result = layer(n, "Result", inputs=[port(0)])
    return net([parameter(0), *layers, result], [*edges, (n - 1, int(n > 1), n, 0)]), b""


def build_outputs(n: int) -> Text:
    """n Results."""
    layers = [layer(i, "Result", inputs=[port(0)]) for i in range(1, n + 1)]
    return net([parameter(0), *layers], [(0, 0, i, 0) for i in range(1, n + 1)]), b""


def build_constants(n: int) -> Text:
    """n constants that are concatenated, and folded."""
    data = 'element_type="f32" shape="1" offset="{}" size="4"'
    layers = [layer(i, "Const", data=data.format(4 * i), outputs=[port(0, (1,))]) for i in range(n)]
    concat = layer(n, "Concat", data='axis="0"', inputs=[port(i) for i in range(n)], outputs=[port(n)])
    edges = [(i, 0, n, i) for i in range(n)]
    return net([*layers, concat, layer(n + 1, "Result", inputs=[port(0)])], [*edges, (n, n, n + 1, 0)]), bytes(4 * n)


def build_attributes(n: int) -> Text:
    """Layers with n attributes in all, 100 each."""
    data = " ".join(f'a{i}="1"' for i in range(100))
    count = max(n // 100, 1)
    layers = [layer(i, "ReLU", data=data, inputs=[port(0)], outputs=[port(1)]) for i in range(1, count + 1)]
    edges = [(i - 1, int(i > 1), i, 0) for i in range(1, count + 1)]
    return net(
        [parameter(0), *layers, layer(count + 1, "Result", inputs=[port(0)])], [*edges, (count, 1, count + 1, 0)]
    ), b""


BUILDERS: dict[str, Callable[[int], Text]] = {
    name.removeprefix("build_"): function for name, function in globals().items() if name.startswith("build_")
}


def measure(build: Callable[[int], Text], n: int) -> float:
    """Return the microseconds of CPU time per element for reading, compiling and running a model."""
    text, weights = build(n)
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), text, weights)
        del text
        gc.collect()
        gc.disable()
        start = time.process_time()
        compiled = irrun.compile_model(path)
        compiled([np.ones(2, np.float32)] * len(compiled.inputs))
        seconds = time.process_time() - start
        gc.enable()
    return seconds / n * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"what to measure: {', '.join(BUILDERS)} (default: all)")
    parser.add_argument("--min", type=int, default=1000, help="smallest size (default: 1000)")
    parser.add_argument("--max", type=int, default=100_000, help="largest size (default: 100000)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    sizes = [options.min]
    while sizes[-1] * 10 <= options.max:
        sizes.append(sizes[-1] * 10)
    figures: dict[str, list[float]] = {}
    failed = False
    for name in options.names or BUILDERS:
        measure(BUILDERS[name], 10)  # imports the kernels
        figures[name] = [measure(BUILDERS[name], n) for n in sizes]
        growth = figures[name][-1] / figures[name][0]
        failed |= growth > MAX_GROWTH
        if not options.json:
            shown = "  ".join(f"{n:>8}: {value:8.2f} us" for n, value in zip(sizes, figures[name], strict=True))
            print(f"{name:<12} {shown}  {'linear' if growth <= MAX_GROWTH else f'GROWS by {growth:.1f}'}", flush=True)
    if options.json:
        print(json.dumps({"sizes": sizes, "figures": figures}, indent=1))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
