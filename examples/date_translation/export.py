"""Export of the trained translator as one IR: encoder, beam search in a TensorIterator, GatherTree.

`Graph` shows how to write an IR by hand: layers, edges, and constants that are stored in a `.bin` file.
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
START = END + 1  # the first input of the decoder, never an output
STEPS = len("2026-05-03") + 1
BEAMS = 4
IMPOSSIBLE = -1e9  # a log probability; sums with minus infinity could be NaN
ACTIVATIONS = "sigmoid,tanh,tanh"  # the default, but OpenVINO requires the attribute

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
NAMES = {"float32": ("f32", "FP32"), "int32": ("i32", "I32"), "int64": ("i64", "I64")}
N = T = -1  # dynamic dimensions: batch size, length of the longest text


class Weights:
    """The contents of the `.bin` file; equal constants are stored once."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.offsets: dict[bytes, int] = {}

    def add(self, content: bytes) -> int:
        """Store a constant and return its offset."""
        if content not in self.offsets:
            self.data += bytes(-len(self.data) % 16)
            self.offsets[content] = len(self.data)
            self.data += content
        return self.offsets[content]


@dataclass(frozen=True)
class Value:
    """An output port of a layer, with its declared type and shape."""

    layer: str
    port: str
    precision: str
    shape: Shape


class Graph:
    """A graph whose layers and edges are added to the element `root` of a model or body."""

    def __init__(self, root: etree._Element, weights: Weights) -> None:
        self.layers = etree.SubElement(root, "layers")
        self.edges = etree.SubElement(root, "edges")
        self.weights = weights

    def add_layer(
        self,
        kind: str,
        opset: str,
        inputs: Iterable[Value],
        outputs: Iterable[tuple[str, Shape, str]],
        name: str = "",
        **attributes: object,
    ) -> tuple[etree._Element, list[Value]]:
        """Add a layer; `outputs` lists the precision, shape and tensor name of each output port."""
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
            self._add_port(side, count, value.precision, value.shape)
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
            self._add_port(side, count, precision, shape, tensor)
            values.append(Value(number, str(count), precision, shape))
            count += 1
        return element, values

    @staticmethod
    def _add_port(side: etree._Element, number: int, precision: str, shape: Shape, tensor: str = "") -> None:
        port = etree.SubElement(side, "port", id=str(number), precision=precision)
        if tensor:
            port.set("names", tensor)
        for size in shape:
            etree.SubElement(port, "dim").text = str(size)

    def add(
        self,
        operation: str,
        *inputs: Value,
        to: Shape,
        precision: str = "",
        name: str = "",
        **attributes: object,
    ) -> Value:
        """Add a layer with one output.

        Args:
            operation: Type and opset, such as "Gather-8".
            *inputs: The inputs.
            to: Shape of the output.
            precision: Precision of the output; by default that of the first input.
            name: Name of the layer and of its output tensor.
            **attributes: Attributes of the layer.
        """
        kind, opset = operation.split("-")
        output = (precision or inputs[0].precision, to, name)
        return self.add_layer(kind, f"opset{opset}", inputs, [output], name, **attributes)[1][0]

    def add_parameter(self, name: str, element_type: str, shape: Shape) -> Value:
        precision = next(precision for short, precision in NAMES.values() if short == element_type)
        declared = ",".join("?" if size < 0 else str(size) for size in shape)
        return self.add(
            "Parameter-1", to=shape, precision=precision, name=name, shape=declared, element_type=element_type
        )

    def add_constant(self, content: Array, name: str = "") -> Value:
        content = np.ascontiguousarray(content).reshape(content.shape)
        element_type, precision = NAMES[content.dtype.name]
        data = content.tobytes()
        return self.add(
            "Const-1",
            to=content.shape,
            precision=precision,
            name=name,
            element_type=element_type,
            shape=",".join(map(str, content.shape)),
            offset=self.weights.add(data),
            size=len(data),
        )

    def add_integers(self, *numbers: int) -> Value:
        """Add a constant of type i64 and shape [n], such as a shape or axes."""
        return self.add_constant(np.array(numbers, np.int64))

    def add_number(self, number: float, dtype: type = np.float32) -> Value:
        return self.add_constant(np.array(number, dtype))

    def add_result(self, value: Value, name: str) -> str:
        element, _ = self.add_layer("Result", "opset1", [value], [], name)
        return str(element.get("id"))

    def add_dense(self, value: Value, weight: Array, bias: Array | None = None) -> Value:
        """Add `value @ weight.T + bias`."""
        shape = (*value.shape[:-1], weight.shape[0])
        product = self.add("MatMul-1", value, self.add_constant(weight), to=shape, transpose_b="true")
        return product if bias is None else self.add("Add-1", product, self.add_constant(bias), to=shape)


def reorder_gates(weight: Array) -> Array:
    """Reorder the gates of an LSTM from PyTorch's order (i, f, c, o) to that of the IR (f, i, c, o)."""
    i, f, c, o = np.split(weight, 4)
    return np.concatenate([f, i, c, o])


def export(weights: Mapping[str, Array], folder: Path) -> None:
    """Write model.xml and model.bin.

    Args:
        weights: The `state_dict` of the translator in train.py, as NumPy arrays.
        folder: The output folder.
    """
    net = etree.Element("net", name="date_translation", version="11")
    data = Weights()
    build_model(Graph(net, data), weights)
    info = etree.SubElement(etree.SubElement(net, "rt_info"), "date_translation")
    etree.SubElement(info, "vocabulary", value=VOCABULARY)
    etree.SubElement(info, "beams", value=str(BEAMS))
    etree.indent(net, "\t")
    (folder / "model.bin").write_bytes(data.data)
    (folder / "model.xml").write_bytes(etree.tostring(net, xml_declaration=True, encoding="utf-8") + b"\n")


def build_model(g: Graph, w: Mapping[str, Array]) -> None:
    """Build the model: from text [N, T] of ASCII codes, padded with 0, to beams [N, BEAMS, STEPS] and scores."""
    reader = w["encoder.weight_hh_l0"].shape[1]
    writer = w["decoder.weight_hh_l0"].shape[1]
    text = g.add_parameter("text", "i32", (N, T))
    shape = g.add("ShapeOf-3", text, to=(2,), precision="I64", output_type="i64")
    batch = g.add("Gather-8", shape, g.add_integers(0), g.add_integers(0), to=(1,))

    def broadcast_to_batch(value: Value, *sizes: int) -> Value:
        """Broadcast `value` to [N, *sizes]."""
        target = g.add("Concat-1", batch, g.add_integers(*sizes), to=(1 + len(sizes),), axis=0) if sizes else batch
        return g.add("Broadcast-3", value, target, to=(N, *sizes), mode="numpy")

    present = g.add("NotEqual-1", text, g.add_number(0, np.int32), to=(N, T), precision="BOOL")
    ones = g.add("Convert-1", present, to=(N, T), precision="I32", destination_type="i32")
    lengths = g.add("ReduceSum-1", ones, g.add_integers(1), to=(N,), name="lengths", keep_dims="false")
    table = g.add_constant(w["characters.weight"][w["fold"]], "characters")
    size = table.shape[1]
    embedded = g.add("Gather-8", table, text, g.add_integers(0), to=(N, T, size))

    # One layer encodes each text forward, another one encodes the reversed text. A bidirectional layer would start
    # with the padding, since OpenVINO's CPU plugin ignores sequence_lengths if shapes are dynamic.
    zeros = broadcast_to_batch(g.add_number(0.0), 1, reader)

    def reverse(value: Value) -> Value:
        return g.add("ReverseSequence-1", value, lengths, to=value.shape, batch_axis=0, seq_axis=1)

    def encode(value: Value, suffix: str) -> Value:
        parts = (
            w[f"encoder.weight_ih_{suffix}"],
            w[f"encoder.weight_hh_{suffix}"],
            w[f"encoder.bias_ih_{suffix}"] + w[f"encoder.bias_hh_{suffix}"],
        )
        _, (outputs, _, _) = g.add_layer(
            "LSTMSequence",
            "opset5",
            [value, zeros, zeros, lengths, *(g.add_constant(reorder_gates(part)[None]) for part in parts)],
            [("FP32", (N, 1, T, reader), ""), ("FP32", (N, 1, reader), ""), ("FP32", (N, 1, reader), "")],
            f"encoder_{suffix}",
            hidden_size=reader,
            direction="forward",
            activations=ACTIVATIONS,
        )
        return g.add("Squeeze-1", outputs, g.add_integers(1), to=(N, T, reader))

    forward, backward = encode(embedded, "l0"), encode(reverse(embedded), "l0_reverse")
    memory = g.add("Concat-1", forward, reverse(backward), to=(N, T, 2 * reader), name="memory", axis=2)
    both = g.add("Concat-1", forward, backward, to=(N, T, 2 * reader), axis=2)
    ends = g.add("Subtract-1", lengths, g.add_number(1, np.int32), to=(N,))
    summary = g.add("Gather-8", both, ends, g.add_integers(1), to=(N, 2 * reader), name="summary", batch_dims=1)
    hidden = g.add("Select-1", present, g.add_number(0.0), g.add_number(IMPOSSIBLE), to=(N, T), precision="FP32")
    mask = g.add("Unsqueeze-1", hidden, g.add_integers(1), to=(N, 1, T))

    # All beams start in the same state. All but the first are so unlikely that the first step selects its candidates
    # from the first beam only.
    def make_initial_state(name: str) -> Value:
        state = g.add_dense(summary, w[f"{name}.weight"], w[f"{name}.bias"])
        state = g.add("Unsqueeze-1", g.add("Tanh-1", state, to=state.shape), g.add_integers(1), to=(N, 1, writer))
        return g.add("Broadcast-3", state, g.add_integers(1, BEAMS, 1), to=(N, BEAMS, writer), mode="bidirectional")

    starts = broadcast_to_batch(g.add_number(START, np.int32), BEAMS)
    scores = broadcast_to_batch(g.add_constant(np.array([0.0] + [IMPOSSIBLE] * (BEAMS - 1), np.float32)), BEAMS)
    positions = g.add_constant(w["positions"], "positions")

    element, (tokens, parents, scores) = g.add_layer(
        "TensorIterator",
        "opset1",
        [positions, starts, scores, make_initial_state("first_hidden"), make_initial_state("first_cell"), memory, mask],
        [
            ("I32", (STEPS, N, BEAMS), "tokens"),
            ("I32", (STEPS, N, BEAMS), "parents"),
            ("FP32", (N, BEAMS), "scores"),
        ],
        "beam_search",
    )
    build_decoder(element, g.weights, w)

    # Each step returns the tokens that it appended and their parent beams; GatherTree traces them from the last step.
    steps = broadcast_to_batch(g.add_number(STEPS, np.int32))
    tree = g.add("GatherTree-1", tokens, parents, steps, g.add_number(END, np.int32), to=(STEPS, N, BEAMS), name="tree")
    beams = g.add("Transpose-1", tree, g.add_integers(1, 2, 0), to=(N, BEAMS, STEPS), name="beams")
    g.add_result(beams, "beams/result")
    g.add_result(scores, "scores/result")


def build_decoder(element: etree._Element, weights: Weights, w: Mapping[str, Array]) -> None:
    """Build one step of the beam search as the body of the TensorIterator `element`."""
    vocabulary, writer = w["output.weight"].shape
    width = w["query.weight"].shape[0]
    port_map = etree.SubElement(element, "port_map")
    back_edges = etree.SubElement(element, "back_edges")
    b = Graph(etree.SubElement(element, "body"), weights)

    position = b.add_parameter("position", "f32", (1, w["positions"].shape[1]))
    token = b.add_parameter("token", "i32", (N, BEAMS))
    score = b.add_parameter("score", "f32", (N, BEAMS))
    hidden = b.add_parameter("hidden", "f32", (N, BEAMS, writer))
    cell = b.add_parameter("cell", "f32", (N, BEAMS, writer))
    memory = b.add_parameter("memory", "f32", (N, T, width))
    mask = b.add_parameter("mask", "f32", (N, 1, T))

    # The LSTM processes the beams of all texts as one batch.
    def flatten_beams(value: Value) -> Value:
        size = value.shape[-1]
        return b.add("Reshape-1", value, b.add_integers(-1, size), to=(N, size), special_zero="false")

    def split_beams(value: Value) -> Value:
        size = value.shape[-1]
        return b.add("Reshape-1", value, b.add_integers(-1, BEAMS, size), to=(N, BEAMS, size), special_zero="false")

    table = b.add_constant(w["tokens.weight"], "token_embeddings")
    size = table.shape[1]
    embedded = b.add("Gather-8", table, token, b.add_integers(0), to=(N, BEAMS, size))
    positioned = b.add("Add-1", embedded, position, to=embedded.shape)
    _, states = b.add_layer(
        "LSTMCell",
        "opset4",
        [
            flatten_beams(positioned),
            flatten_beams(hidden),
            flatten_beams(cell),
            b.add_constant(reorder_gates(w["decoder.weight_ih_l0"])),
            b.add_constant(reorder_gates(w["decoder.weight_hh_l0"])),
            b.add_constant(reorder_gates(w["decoder.bias_ih_l0"] + w["decoder.bias_hh_l0"])),
        ],
        [("FP32", (N, writer), ""), ("FP32", (N, writer), "")],
        "decoder",
        hidden_size=writer,
        activations=ACTIVATIONS,
    )
    new_hidden, new_cell = map(split_beams, states)

    # Attention over the encoded text.
    query = b.add_dense(new_hidden, w["query.weight"])
    similarity = b.add("MatMul-1", query, memory, to=(N, BEAMS, T), transpose_b="true")
    similarity = b.add("Add-1", similarity, mask, to=similarity.shape)
    attention = b.add("SoftMax-8", similarity, to=similarity.shape, name="attention", axis=-1)
    context = b.add("MatMul-1", attention, memory, to=(N, BEAMS, width))
    joined = b.add("Concat-1", new_hidden, context, to=(N, BEAMS, writer + width), axis=-1)
    combined = b.add_dense(joined, w["combine.weight"], w["combine.bias"])
    combined = b.add("Tanh-1", combined, to=combined.shape)
    logits = b.add_dense(combined, w["output.weight"], w["output.bias"])
    logs = b.add("LogSoftmax-5", logits, to=logits.shape, name="log_probabilities", axis=-1)

    # A finished beam is continued with END only, and its score does not change.
    finished = b.add("Equal-1", token, b.add_number(END, np.int32), to=token.shape, precision="BOOL")
    finished = b.add("Unsqueeze-1", finished, b.add_integers(2), to=(N, BEAMS, 1))
    only_end = np.full(vocabulary, IMPOSSIBLE, np.float32)
    only_end[END] = 0
    logs = b.add("Select-1", finished, b.add_constant(only_end), logs, to=logs.shape, precision="FP32")

    # Select the best of all continuations of all beams of a text.
    before = b.add("Unsqueeze-1", score, b.add_integers(2), to=(N, BEAMS, 1))
    candidates = b.add("Add-1", logs, before, to=logs.shape)
    candidates = b.add(
        "Reshape-1",
        candidates,
        b.add_integers(-1, BEAMS * vocabulary),
        to=(N, BEAMS * vocabulary),
        special_zero="false",
    )
    _, (new_score, selected) = b.add_layer(
        "TopK",
        "opset3",
        [candidates, b.add_number(BEAMS, np.int64)],
        [("FP32", (N, BEAMS), ""), ("I32", (N, BEAMS), "")],
        "best",
        axis=1,
        mode="max",
        sort="value",
        index_element_type="i32",
    )
    per_beam = b.add_number(vocabulary, np.int32)
    parent = b.add("Divide-1", selected, per_beam, to=selected.shape)
    new_token = b.add("FloorMod-1", selected, per_beam, to=selected.shape)

    # Each beam continues the state of its parent.
    def select_parent(value: Value) -> Value:
        return b.add("Gather-8", value, parent, b.add_integers(1), to=value.shape, batch_dims=1)

    def add_step_axis(value: Value) -> Value:
        return b.add("Unsqueeze-1", value, b.add_integers(0), to=(1, *value.shape))

    next_token = b.add_result(new_token, "next_token")
    next_score = b.add_result(new_score, "next_score")
    next_hidden = b.add_result(select_parent(new_hidden), "next_hidden")
    next_cell = b.add_result(select_parent(new_cell), "next_cell")
    step_tokens = b.add_result(add_step_axis(new_token), "step_tokens")
    step_parents = b.add_result(add_step_axis(parent), "step_parents")

    # The port map: inputs in the order of the parameters, of which the first is sliced by steps, then outputs.
    axis = {"axis": "0", "start": "0", "end": "-1", "stride": "1", "part_size": "1"}
    parameters = [position, token, score, hidden, cell, memory, mask]
    entries = [("input", value.layer, axis if value is position else {}) for value in parameters]
    entries += [("output", step_tokens, axis), ("output", step_parents, axis), ("output", next_score, {})]
    for port, (side, layer, slicing) in enumerate(entries):
        etree.SubElement(port_map, side, {"external_port_id": str(port), "internal_layer_id": layer, **slicing})
    carried = [(next_token, token), (next_score, score), (next_hidden, hidden), (next_cell, cell)]
    for source, target in carried:
        etree.SubElement(back_edges, "edge", {"from-layer": source, "to-layer": target.layer})
