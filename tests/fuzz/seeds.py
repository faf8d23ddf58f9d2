"""Seeds of the fuzzer: models of one operation from the conformance cases, and small models with edges and bodies."""

from __future__ import annotations

import contextlib
import xml.sax.saxutils
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from ir_text import chain, graph, layer, net, port

from irrun.element_types import ElementType
from irrun.packing import pack

__all__ = ["Seed", "list_operations", "list_seeds", "make_seed"]

#: Largest seed in bytes of its weights and inputs.
MAX_BYTES = 1 << 16


@dataclass
class Seed:
    """A model file with its weights and inputs.

    Attributes:
        xml: The .xml.
        weights: The .bin.
        inputs: One array per Parameter.
    """

    xml: bytes
    weights: bytes = b""
    inputs: list[np.ndarray] = field(default_factory=list)


@cache
def list_seeds() -> tuple[Seed, ...]:
    """Return all seeds, always in the same order."""
    return (*_list_structures(), *list_operations())


def list_operations() -> list[Seed]:
    """Return up to four models of each operation, made from its conformance cases."""
    from irrun.conformance.cases import GENERATORS, load_generators

    load_generators()
    seeds: list[Seed] = []

    def generate(type: str, since: int) -> Iterator[Any]:
        with contextlib.suppress(ImportError):  # some expect what OpenVINO computes
            yield from GENERATORS[type, since](np.random.default_rng(0))

    for type, since in sorted(GENERATORS):
        count = 0
        for case in generate(type, since):
            inputs = [x for x in case.inputs if x is not None]
            if case.build is None and sum(x.nbytes for x in inputs) < MAX_BYTES:
                seeds.append(make_seed(type, since, inputs, case.attributes, case.constants, count % 2 == 1))
                count += 1
            if count == 4:
                break
    return seeds


def make_seed(
    type: str,
    since: int,
    inputs: list[np.ndarray],
    attributes: dict[str, Any],
    constants: Any,
    all_constant: bool = False,
) -> Seed:
    """Return a model of one operation.

    Args:
        type: The operation.
        since: Its opset.
        inputs: Its inputs.
        attributes: Its attributes.
        constants: The inputs that are constants.
        all_constant: Whether all inputs but the first are constants.
    """
    layers, edges, weights, values = [], [], b"", []
    for i, x in enumerate(inputs):
        element_type = ElementType.of(x.dtype)
        shape = ",".join(map(str, x.shape))
        data = f'shape="{shape}" element_type="{element_type}"'
        if i in constants or (all_constant and i):
            packed = pack(element_type, x)
            data += f' offset="{len(weights)}" size="{len(packed)}"'
            weights += packed
            layers.append(layer(i, "Const", data=data, outputs=[port(0, x.shape)]))
        else:
            layers.append(layer(i, "Parameter", data=data, outputs=[port(0, x.shape)]))
            values.append(x)
        edges.append((i, 0, len(inputs), i))
    count = len(inputs)
    data = " ".join(f"{k}={xml.sax.saxutils.quoteattr(_format(v))}" for k, v in attributes.items())
    ports = [port(i, x.shape) for i, x in enumerate(inputs)]
    layers.append(layer(count, type, f"opset{since}", data, ports, [port(count)]))
    layers.append(layer(count + 1, "Result", inputs=[port(0)]))
    edges.append((count, count, count + 1, 0))
    return Seed(net(layers, edges).encode(), weights, values)


def _format(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, (list, tuple, np.ndarray)):
        return ",".join(map(_format, value))
    return str(value)


def _list_structures() -> list[Seed]:
    """Return models with chains, bodies, port maps, variables, and of old versions."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    seeds = [Seed(chain("ReLU", "Sigmoid", "Exp").encode(), b"", [x])]
    body = graph(
        [
            layer(0, "Parameter", data='shape="1,3" element_type="f32"', outputs=[port(0, (1, 3))]),
            layer(1, "Parameter", data='shape="1,3" element_type="f32"', outputs=[port(0, (1, 3))]),
            layer(2, "Add", inputs=[port(0, (1, 3)), port(1, (1, 3))], outputs=[port(2, (1, 3), "FP32")]),
            layer(3, "Result", inputs=[port(0, (1, 3))]),
            layer(4, "Const", data='element_type="boolean" shape="" offset="8" size="1"', outputs=[port(0)]),
            layer(5, "Result", inputs=[port(0)]),
        ],
        [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0), (4, 0, 5, 0)],
    )
    entries = (
        '<input external_port_id="{0}" internal_layer_id="0" axis="0" start="0" end="-1" stride="1" part_size="1"/>'
        '<input external_port_id="{1}" internal_layer_id="1"/>'
        '<output external_port_id="{2}" internal_layer_id="3" axis="0" start="0" end="-1" stride="1" part_size="1"/>'
        '<output external_port_id="{3}" internal_layer_id="3"/>'
    )
    back = '<back_edges><edge from-layer="3" to-layer="1"/></back_edges>'
    parameters = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3))]),
        layer(1, "Parameter", data='shape="1,3" element_type="f32"', outputs=[port(0, (1, 3))]),
    ]
    iterator = layer(
        2, "TensorIterator", "opset1", "", [port(0, (2, 3)), port(1, (1, 3))], [port(2, (2, 3)), port(3, (1, 3))],
        inner=f"<port_map>{entries.format(0, 1, 2, 3)}</port_map>{back}<body>{body}</body>",
    )  # fmt: skip
    results = [layer(3, "Result", inputs=[port(0)]), layer(4, "Result", inputs=[port(0)])]
    edges = [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0), (2, 3, 4, 0)]
    flag = np.int64(2).tobytes() + b"\1"
    seeds.append(Seed(net([*parameters, iterator, *results], edges).encode(), flag, [x, x[:1]]))
    condition = '<output external_port_id="-1" internal_layer_id="5" purpose="execution_condition"/>'
    constants = [
        layer(5, "Const", data='element_type="i64" shape="" offset="0" size="8"', outputs=[port(0)]),
        layer(6, "Const", data='element_type="boolean" shape="" offset="8" size="1"', outputs=[port(0)]),
    ]
    loop = layer(
        2, "Loop", "opset5", "", [port(i) for i in range(4)], [port(4), port(5)],
        inner=f"<port_map>{entries.format(2, 3, 4, 5)}{condition}</port_map>{back}<body>{body}</body>",
    )  # fmt: skip
    edges = [(5, 0, 2, 0), (6, 0, 2, 1), (0, 0, 2, 2), (1, 0, 2, 3), (2, 4, 3, 0), (2, 5, 4, 0)]
    seeds.append(Seed(net([*parameters, *constants, loop, *results], edges).encode(), flag, [x, x[:1]]))
    variable = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3))]),
        layer(
            1, "ReadValue", "opset6", 'variable_id="v" variable_type="f32" variable_shape="2,3"', [port(0)], [port(1)]
        ),
        layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2)]),
        layer(3, "Assign", "opset6", 'variable_id="v"', [port(0)], [port(1)]),
        layer(4, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 1, 0), (0, 0, 2, 0), (1, 1, 2, 1), (2, 2, 3, 0), (2, 2, 4, 0)]
    seeds.append(Seed(net(variable, edges).encode(), b"", [x]))
    seeds.extend(_list_legacy())
    return seeds


def _list_legacy() -> list[Seed]:
    dims = "".join(f"<dim>{n}</dim>" for n in (1, 4, 6, 6))
    seeds = []
    for type, data, blobs in (
        ("Convolution", 'kernel="1,1" output="4" strides="1,1" pads_begin="0,0" pads_end="0,0" group="1"', 16),
        ("Pooling", 'kernel="2,2" strides="2,2" pads_begin="0,0" pads_end="0,0" pool-method="max"', 0),
        ("FullyConnected", 'out-size="2"', 288),
        ("Norm", 'alpha="1" beta="1" local-size="3" region="across"', 0),
        ("Power", 'power="2" scale="3" shift="1"', 0),
        ("Reshape", 'dim="1,-1"', 0),
        ("Permute", 'order="0,2,3,1"', 0),
        ("Crop", 'axis="2,3" offset="1,1" dim="2,2"', 0),
        ("Resample", 'type="caffe.ResampleParameter.NEAREST" factor="2" antialias="0"', 0),
        ("Swish", 'alpha="1"', 0),
        ("Concat", 'axis="1"', 0),
        ("Tile", 'axis="1" tiles="2"', 0),
    ):
        blob = f'<blobs><weights offset="0" size="{4 * blobs}"/></blobs>' if blobs else ""
        text = (
            '<net name="n" version="6" batch="1"><layers><layer id="0" name="i" type="Input" precision="FP32"><output>'
            f'<port id="0">{dims}</port></output></layer><layer id="1" name="l" type="{type}" precision="FP32">'
            f'<data {data}/><input><port id="0">{dims}</port></input><output><port id="1">{dims}</port></output>{blob}'
            '</layer></layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></net>'
        )
        inputs = [np.ones((1, 4, 6, 6), np.float32)]
        seeds.append(Seed(text.encode(), np.ones(blobs, np.float32).tobytes(), inputs))
    return seeds
