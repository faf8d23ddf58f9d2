"""Writes the trained translator as one IR: encoder, beam search in a TensorIterator, GatherTree.

`Graph` is all there is to writing an IR by hand: layers, edges, and constants gathered in a `.bin`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree

__all__ = ["BEAMS", "END", "START", "STEPS", "VOCABULARY", "export"]

VOCABULARY = "0123456789-"  # tokens 0 to 10
END = len(VOCABULARY)
START = END + 1  # fed to the decoder first, never written by it
STEPS = len("2026-05-03") + 1
BEAMS = 4
NEVER = -1e9  # a log probability; minus infinity would make NaN of sums
ACTIVATIONS = "sigmoid,tanh,tanh"  # the default, but OpenVINO does not take it as read

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
NAMES = {"float32": ("f32", "FP32"), "int32": ("i32", "I32"), "int64": ("i64", "I64")}
N = T = -1  # the dimensions that vary: texts in the batch, characters in the longest of them


class Weights:
    """The bytes of the `.bin` file; equal constants are stored once."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.known: dict[bytes, int] = {}

    def offset(self, content: bytes) -> int:
        if content not in self.known:
            self.data += bytes(-len(self.data) % 16)
            self.known[content] = len(self.data)
            self.data += content
        return self.known[content]


@dataclass(frozen=True)
class Value:
    """An output port of a layer, and what is declared of it."""

    layer: str
    port: str
    precision: str
    shape: Shape


class Graph:
    """The layers and edges of a model or of a body, written into `root`."""

    def __init__(self, root: etree._Element, weights: Weights) -> None:
        self.layers = etree.SubElement(root, "layers")
        self.edges = etree.SubElement(root, "edges")
        self.weights = weights

    def layer(
        self,
        kind: str,
        opset: str,
        inputs: Iterable[Value],
        outputs: Iterable[tuple[str, Shape, str]],
        name: str = "",
        **attributes: object,
    ) -> tuple[etree._Element, list[Value]]:
        """Adds a layer; `outputs` lists precision, shape and tensor name of each output port."""
        number = str(len(self.layers))
        element = etree.SubElement(
            self.layers, "layer", id=number, name=name or f"{kind}_{number}", type=kind, version=opset
        )
        if attributes:
            etree.SubElement(element, "data", {key: str(value) for key, value in attributes.items()})
        values = []
        count = 0
        for value in inputs:
            side = element.find("input")
            side = etree.SubElement(element, "input") if side is None else side
            self._port(side, count, value.precision, value.shape)
            etree.SubElement(
                self.edges,
                "edge",
                {
                    "from-layer": value.layer,
                    "from-port": value.port,
                    "to-layer": number,
                    "to-port": str(count),
                },
            )
            count += 1
        for precision, shape, tensor in outputs:
            side = element.find("output")
            side = etree.SubElement(element, "output") if side is None else side
            self._port(side, count, precision, shape, tensor)
            values.append(Value(number, str(count), precision, shape))
            count += 1
        return element, values

    @staticmethod
    def _port(side: etree._Element, number: int, precision: str, shape: Shape, tensor: str = "") -> None:
        port = etree.SubElement(side, "port", id=str(number), precision=precision)
        if tensor:
            port.set("names", tensor)
        for size in shape:
            etree.SubElement(port, "dim").text = str(size)

    def op(
        self,
        operation: str,
        *inputs: Value,
        to: Shape,
        precision: str = "",
        name: str = "",
        **attributes: object,
    ) -> Value:
        """Adds an operation of one output, written as "Type-opset".

        The element type is that of the first input unless given; a name goes to the layer and to its output.
        """
        kind, opset = operation.split("-")
        output = (precision or inputs[0].precision, to, name)
        return self.layer(kind, f"opset{opset}", inputs, [output], name, **attributes)[1][0]

    def parameter(self, name: str, element_type: str, shape: Shape) -> Value:
        precision = next(precision for short, precision in NAMES.values() if short == element_type)
        declared = ",".join("?" if size < 0 else str(size) for size in shape)
        return self.op(
            "Parameter-1", to=shape, precision=precision, name=name, shape=declared, element_type=element_type
        )

    def constant(self, content: Array, name: str = "") -> Value:
        content = np.ascontiguousarray(content).reshape(content.shape)
        element_type, precision = NAMES[content.dtype.name]
        data = content.tobytes()
        return self.op(
            "Const-1",
            to=content.shape,
            precision=precision,
            name=name,
            element_type=element_type,
            shape=",".join(map(str, content.shape)),
            offset=self.weights.offset(data),
            size=len(data),
        )

    def ints(self, *numbers: int) -> Value:
        """A constant i64 [n]: a shape or axes."""
        return self.constant(np.array(numbers, np.int64))

    def number(self, number: float, dtype: type = np.float32) -> Value:
        return self.constant(np.array(number, dtype))

    def result(self, value: Value, name: str) -> str:
        element, _ = self.layer("Result", "opset1", [value], [], name)
        return str(element.get("id"))

    def dense(self, value: Value, weight: Array, bias: Array | None = None) -> Value:
        """`value @ weight.T + bias`."""
        shape = (*value.shape[:-1], weight.shape[0])
        product = self.op("MatMul-1", value, self.constant(weight), to=shape, transpose_b="true")
        return product if bias is None else self.op("Add-1", product, self.constant(bias), to=shape)


def gates(weight: Array) -> Array:
    """The gates of an LSTM in the order of the IR (f, i, c, o) instead of torch's (i, f, c, o)."""
    i, f, c, o = np.split(weight, 4)
    return np.concatenate([f, i, c, o])


def export(weights: Mapping[str, Array], folder: Path) -> None:
    """Writes model.xml and model.bin into `folder`.

    weights: what `state_dict` of the translator in train.py holds.
    """
    net = etree.Element("net", name="date_translation", version="11")
    data = Weights()
    build(Graph(net, data), weights)
    info = etree.SubElement(etree.SubElement(net, "rt_info"), "date_translation")
    etree.SubElement(info, "vocabulary", value=VOCABULARY)
    etree.SubElement(info, "beams", value=str(BEAMS))
    etree.indent(net, "\t")
    (folder / "model.bin").write_bytes(data.data)
    (folder / "model.xml").write_bytes(etree.tostring(net, xml_declaration=True, encoding="utf-8") + b"\n")


def build(g: Graph, w: Mapping[str, Array]) -> None:
    """The whole model: text [N, T] of ASCII codes, padded with 0, to beams [N, BEAMS, STEPS] and scores."""
    reader = w["encoder.weight_hh_l0"].shape[1]
    writer = w["decoder.weight_hh_l0"].shape[1]
    text = g.parameter("text", "i32", (N, T))
    shape = g.op("ShapeOf-3", text, to=(2,), precision="I64", output_type="i64")
    batch = g.op("Gather-8", shape, g.ints(0), g.ints(0), to=(1,))

    def filled(value: Value, *sizes: int) -> Value:
        """`value` for each text of the batch."""
        target = g.op("Concat-1", batch, g.ints(*sizes), to=(1 + len(sizes),), axis=0) if sizes else batch
        return g.op("Broadcast-3", value, target, to=(N, *sizes), mode="numpy")

    present = g.op("NotEqual-1", text, g.number(0, np.int32), to=(N, T), precision="BOOL")
    ones = g.op("Convert-1", present, to=(N, T), precision="I32", destination_type="i32")
    lengths = g.op("ReduceSum-1", ones, g.ints(1), to=(N,), name="lengths", keep_dims="false")
    table = g.constant(w["characters.weight"][w["fold"]], "characters")
    size = table.shape[1]
    embedded = g.op("Gather-8", table, text, g.ints(0), to=(N, T, size))

    # The encoder reads each text forward and, turned around, backward: two layers, not a bidirectional one,
    # so that padding always comes last and does no harm. (Where shapes are dynamic, OpenVINO's CPU plugin
    # disregards sequence_lengths.)
    nothing = filled(g.number(0.0), 1, reader)

    def turned(value: Value) -> Value:
        return g.op("ReverseSequence-1", value, lengths, to=value.shape, batch_axis=0, seq_axis=1)

    def read(value: Value, way: str) -> Value:
        parts = (
            w[f"encoder.weight_ih_{way}"],
            w[f"encoder.weight_hh_{way}"],
            w[f"encoder.bias_ih_{way}"] + w[f"encoder.bias_hh_{way}"],
        )
        _, (outputs, _, _) = g.layer(
            "LSTMSequence",
            "opset5",
            [value, nothing, nothing, lengths, *(g.constant(gates(part)[None]) for part in parts)],
            [("FP32", (N, 1, T, reader), ""), ("FP32", (N, 1, reader), ""), ("FP32", (N, 1, reader), "")],
            f"encoder_{way}",
            hidden_size=reader,
            direction="forward",
            activations=ACTIVATIONS,
        )
        return g.op("Squeeze-1", outputs, g.ints(1), to=(N, T, reader))

    forward, backward = read(embedded, "l0"), read(turned(embedded), "l0_reverse")
    memory = g.op("Concat-1", forward, turned(backward), to=(N, T, 2 * reader), name="memory", axis=2)
    both = g.op("Concat-1", forward, backward, to=(N, T, 2 * reader), axis=2)
    ends = g.op("Subtract-1", lengths, g.number(1, np.int32), to=(N,))
    summary = g.op("Gather-8", both, ends, g.ints(1), to=(N, 2 * reader), name="summary", batch_dims=1)
    hidden = g.op("Select-1", present, g.number(0.0), g.number(NEVER), to=(N, T), precision="FP32")
    mask = g.op("Unsqueeze-1", hidden, g.ints(1), to=(N, 1, T))

    # Where the beams begin: all in the same state, and all but the first so unlikely that the first step
    # takes its candidates from that one alone.
    def first(name: str) -> Value:
        state = g.dense(summary, w[f"{name}.weight"], w[f"{name}.bias"])
        state = g.op("Unsqueeze-1", g.op("Tanh-1", state, to=state.shape), g.ints(1), to=(N, 1, writer))
        return g.op("Broadcast-3", state, g.ints(1, BEAMS, 1), to=(N, BEAMS, writer), mode="bidirectional")

    starts = filled(g.number(START, np.int32), BEAMS)
    scores = filled(g.constant(np.array([0.0] + [NEVER] * (BEAMS - 1), np.float32)), BEAMS)
    positions = g.constant(w["positions"], "positions")

    element, (tokens, parents, scores) = g.layer(
        "TensorIterator",
        "opset1",
        [positions, starts, scores, first("first_hidden"), first("first_cell"), memory, mask],
        [
            ("I32", (STEPS, N, BEAMS), "tokens"),
            ("I32", (STEPS, N, BEAMS), "parents"),
            ("FP32", (N, BEAMS), "scores"),
        ],
        "beam_search",
    )
    decoder(element, g.weights, w)

    # Each step told which token it appended to which beam; GatherTree walks back from the last step.
    steps = filled(g.number(STEPS, np.int32))
    tree = g.op("GatherTree-1", tokens, parents, steps, g.number(END, np.int32), to=(STEPS, N, BEAMS), name="tree")
    beams = g.op("Transpose-1", tree, g.ints(1, 2, 0), to=(N, BEAMS, STEPS), name="beams")
    g.result(beams, "beams/result")
    g.result(scores, "scores/result")


def decoder(element: etree._Element, weights: Weights, w: Mapping[str, Array]) -> None:
    """One step of the beam search, as the body of the TensorIterator `element`."""
    vocabulary, writer = w["output.weight"].shape
    width = w["query.weight"].shape[0]
    port_map = etree.SubElement(element, "port_map")
    back_edges = etree.SubElement(element, "back_edges")
    b = Graph(etree.SubElement(element, "body"), weights)

    position = b.parameter("position", "f32", (1, w["positions"].shape[1]))
    token = b.parameter("token", "i32", (N, BEAMS))
    score = b.parameter("score", "f32", (N, BEAMS))
    hidden = b.parameter("hidden", "f32", (N, BEAMS, writer))
    cell = b.parameter("cell", "f32", (N, BEAMS, writer))
    memory = b.parameter("memory", "f32", (N, T, width))
    mask = b.parameter("mask", "f32", (N, 1, T))

    # The LSTM knows nothing of beams: to it they are one long batch.
    def flat(value: Value) -> Value:
        size = value.shape[-1]
        return b.op("Reshape-1", value, b.ints(-1, size), to=(N, size), special_zero="false")

    def beamed(value: Value) -> Value:
        size = value.shape[-1]
        return b.op("Reshape-1", value, b.ints(-1, BEAMS, size), to=(N, BEAMS, size), special_zero="false")

    table = b.constant(w["tokens.weight"], "token_embeddings")
    size = table.shape[1]
    embedded = b.op("Gather-8", table, token, b.ints(0), to=(N, BEAMS, size))
    placed = b.op("Add-1", embedded, position, to=embedded.shape)
    _, states = b.layer(
        "LSTMCell",
        "opset4",
        [
            flat(placed),
            flat(hidden),
            flat(cell),
            b.constant(gates(w["decoder.weight_ih_l0"])),
            b.constant(gates(w["decoder.weight_hh_l0"])),
            b.constant(gates(w["decoder.bias_ih_l0"] + w["decoder.bias_hh_l0"])),
        ],
        [("FP32", (N, writer), ""), ("FP32", (N, writer), "")],
        "decoder",
        hidden_size=writer,
        activations=ACTIVATIONS,
    )
    new_hidden, new_cell = map(beamed, states)

    # Attention over what the encoder read.
    query = b.dense(new_hidden, w["query.weight"])
    match = b.op("MatMul-1", query, memory, to=(N, BEAMS, T), transpose_b="true")
    match = b.op("Add-1", match, mask, to=match.shape)
    attention = b.op("SoftMax-8", match, to=match.shape, name="attention", axis=-1)
    context = b.op("MatMul-1", attention, memory, to=(N, BEAMS, width))
    joined = b.op("Concat-1", new_hidden, context, to=(N, BEAMS, writer + width), axis=-1)
    combined = b.dense(joined, w["combine.weight"], w["combine.bias"])
    combined = b.op("Tanh-1", combined, to=combined.shape)
    logits = b.dense(combined, w["output.weight"], w["output.bias"])
    logs = b.op("LogSoftmax-5", logits, to=logits.shape, name="log_probabilities", axis=-1)

    # A finished beam goes on with END alone, at no cost.
    finished = b.op("Equal-1", token, b.number(END, np.int32), to=token.shape, precision="BOOL")
    finished = b.op("Unsqueeze-1", finished, b.ints(2), to=(N, BEAMS, 1))
    only_end = np.full(vocabulary, NEVER, np.float32)
    only_end[END] = 0
    logs = b.op("Select-1", finished, b.constant(only_end), logs, to=logs.shape, precision="FP32")

    # The best candidates among all continuations of all beams of a text.
    before = b.op("Unsqueeze-1", score, b.ints(2), to=(N, BEAMS, 1))
    candidates = b.op("Add-1", logs, before, to=logs.shape)
    candidates = b.op(
        "Reshape-1",
        candidates,
        b.ints(-1, BEAMS * vocabulary),
        to=(N, BEAMS * vocabulary),
        special_zero="false",
    )
    _, (new_score, picked) = b.layer(
        "TopK",
        "opset3",
        [candidates, b.number(BEAMS, np.int64)],
        [("FP32", (N, BEAMS), ""), ("I32", (N, BEAMS), "")],
        "best",
        axis=1,
        mode="max",
        sort="value",
        index_element_type="i32",
    )
    per_beam = b.number(vocabulary, np.int32)
    parent = b.op("Divide-1", picked, per_beam, to=picked.shape)
    new_token = b.op("FloorMod-1", picked, per_beam, to=picked.shape)

    # Each beam goes on from the state of its parent.
    def of_parent(value: Value) -> Value:
        return b.op("Gather-8", value, parent, b.ints(1), to=value.shape, batch_dims=1)

    def step(value: Value) -> Value:
        return b.op("Unsqueeze-1", value, b.ints(0), to=(1, *value.shape))

    next_token = b.result(new_token, "next_token")
    next_score = b.result(new_score, "next_score")
    next_hidden = b.result(of_parent(new_hidden), "next_hidden")
    next_cell = b.result(of_parent(new_cell), "next_cell")
    step_tokens = b.result(step(new_token), "step_tokens")
    step_parents = b.result(step(parent), "step_parents")

    # The port map: inputs in the order of the parameters, of which the first is cut into steps; then outputs.
    axis = {"axis": "0", "start": "0", "end": "-1", "stride": "1", "part_size": "1"}
    parameters = [position, token, score, hidden, cell, memory, mask]
    entries = [("input", value.layer, axis if value is position else {}) for value in parameters]
    entries += [("output", step_tokens, axis), ("output", step_parents, axis), ("output", next_score, {})]
    for port, (side, layer, slicing) in enumerate(entries):
        etree.SubElement(port_map, side, {"external_port_id": str(port), "internal_layer_id": layer, **slicing})
    carried = [(next_token, token), (next_score, score), (next_hidden, hidden), (next_cell, cell)]
    for source, target in carried:
        etree.SubElement(back_edges, "edge", {"from-layer": source, "to-layer": target.layer})
