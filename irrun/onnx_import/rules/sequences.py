"""Rules for sequences of a known length and for optional values, which only exist during the import."""

from __future__ import annotations

from irrun.errors import ModelError, UnsupportedError
from irrun.onnx_import.graph import Value, constant, ops
from irrun.onnx_import.node import Item, Node, translate
from irrun.onnx_import.rules.helpers import concat, squeeze, unsqueeze

#: Maximum length of an axis that is split into a sequence.
MAX_PARTS = 4096


def _get_sequence(node: Node, position: int = 0) -> list[Value]:
    item = node.items[position]
    if not isinstance(item, list):
        raise UnsupportedError(f"input {position} is not a sequence of a known length")
    return item


def _read_position(node: Node, position: int, length: int, default: int) -> int:
    found = node.read_integers(position)
    index = default if found is None else found[0]
    if not -length <= index <= length:
        raise ModelError(f"the position is {index}, expected one in a sequence of {length} tensors")
    return index + length if index < 0 else index


@translate("SequenceConstruct")
def translate_construct(node: Node) -> list[Item]:
    """Return a sequence of the inputs."""
    return [node.inputs]


@translate("SequenceEmpty")
def translate_empty(node: Node) -> list[Item]:
    """Return a sequence without elements."""
    return [[]]


@translate("SequenceAt")
def translate_at(node: Node) -> Value:
    """Return an element at a constant position."""
    sequence = _get_sequence(node)
    index = _read_position(node, 1, len(sequence), 0)
    if index >= len(sequence):
        raise ModelError(f"the position is {index}, expected one in a sequence of {len(sequence)} tensors")
    return sequence[index]


@translate("SequenceInsert")
def translate_insert(node: Node) -> list[Item]:
    """Return a sequence with another element at a constant position."""
    sequence = _get_sequence(node)
    index = _read_position(node, 2, len(sequence), len(sequence))
    return [[*sequence[:index], node[1], *sequence[index:]]]


@translate("SequenceErase")
def translate_erase(node: Node) -> list[Item]:
    """Return a sequence without the element at a constant position."""
    sequence = _get_sequence(node)
    index = _read_position(node, 1, len(sequence), len(sequence) - 1)
    return [[*sequence[:index], *sequence[index + 1 :]]]


@translate("SequenceLength")
def translate_length(node: Node) -> Value:
    """Return a constant."""
    return constant(len(_get_sequence(node)))


@translate("ConcatFromSequence")
def translate_concat_from_sequence(node: Node) -> Value:
    """Concat, along a new axis if the attribute is set."""
    sequence, axis = _get_sequence(node), node.get_int("axis")
    if node.get_int("new_axis", 0):
        sequence = [unsqueeze(value, axis) for value in sequence]
    return concat(sequence, axis)


@translate("SplitToSequence")
def translate_split_to_sequence(node: Node) -> list[Item]:
    """VariadicSplit into constant lengths."""
    x, axis = node[0], node.get_int("axis", 0)
    total = x.get_dimension(axis)
    if total is None or total > MAX_PARTS:
        raise node.refuse(f"SplitToSequence along a dimension that is dynamic or longer than {MAX_PARTS}")
    lengths = node.read_integers(1)
    keeps = lengths is not None or bool(node.get_int("keepdims", 1))
    if lengths is None:
        sizes = [1] * total
    elif node[1].rank == 0:
        sizes = [min(lengths[0], total - start) for start in range(0, total, lengths[0])]
    else:
        sizes = lengths
    parts = ops("VariadicSplit", x, constant(axis), constant(sizes), outputs=len(sizes))
    return [parts if keeps else [squeeze(part, axis) for part in parts]]


@translate("Optional")
def translate_optional(node: Node) -> list[Item]:
    """Return the value itself."""
    return [node.items[0] if node.items else None]


@translate("OptionalHasElement")
def translate_has_element(node: Node) -> Value:
    """Return a constant."""
    return constant(bool(node.items) and node.items[0] is not None)


@translate("OptionalGetElement")
def translate_get_element(node: Node) -> list[Item]:
    """Return the value itself."""
    if not node.items or node.items[0] is None:
        raise ModelError("the optional has no value")
    return [node.items[0]]
