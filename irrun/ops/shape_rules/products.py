"""Shapes of matrix products, attention and recurrent networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from irrun.ops.shape_rules.axes import check_axis, check_rank, check_size, get_dimension, match_sizes
from irrun.ops.shape_rules.dimensions import (
    ONE,
    Dimension,
    broadcast,
    broadcast_shapes,
    make_static,
    make_unknown,
    merge,
    multiply,
)
from irrun.ops.shape_rules.registration import Shapes, rule
from irrun.ops.shape_rules.values import Inputs, ShapeError
from irrun.shapes import UNBOUNDED, PartialShape

__all__: list[str] = []


@rule
def infer_matmul(inputs: Inputs) -> Shapes:
    """Return the shape of a product of matrices. Other dimensions are broadcast."""
    left, right = inputs.require_shape(0), inputs.require_shape(1)
    if not left or not right:
        raise ShapeError(f"a has the shape {left} and b has the shape {right}, expected at least one dimension")
    is_row, is_column = len(left) == 1, len(right) == 1
    rows = (ONE, left[0]) if is_row else _swap(left) if inputs["transpose_a"] else left
    columns = (right[0], ONE) if is_column else _swap(right) if inputs["transpose_b"] else right
    if merge(rows[-1], columns[-2]) is None:
        raise ShapeError(
            f"a{_show_transposed(inputs, 'a')} has the shape {left} and b{_show_transposed(inputs, 'b')} has the shape "
            f"{right}, expected {rows[-1]} rows in b, found {columns[-2]}"
        )
    try:
        batch = broadcast_shapes(PartialShape(rows[:-2]), PartialShape(columns[:-2]))
    except ValueError:
        raise ShapeError(
            f"a has the shape {left} and b has the shape {right}; their batch dimensions cannot be broadcast"
        ) from None
    assert batch is not None
    result = [*batch, *(() if is_row else rows[-2:-1]), *(() if is_column else columns[-1:])]
    return [PartialShape(result)]


def _swap(shape: Sequence[Dimension]) -> Sequence[Dimension]:
    return (*shape[:-2], shape[-1], shape[-2])


def _show_transposed(inputs: Inputs, name: str) -> str:
    return " (transposed)" if inputs[f"transpose_{name}"] else ""


@rule
def infer_fully_connected(inputs: Inputs) -> Shapes:
    """Return the data with the number of rows of the weights as the last dimension."""
    data, weights = inputs.require_shape(0), inputs.require_shape(1)
    if not data or len(weights) < 2:
        return [None]
    return [PartialShape([*data[:-1], weights[-2]])]


@rule
def infer_einsum(inputs: Inputs) -> Shapes:
    """Return the sizes of the labels of the output."""
    equation = "".join(inputs["equation"].split())
    terms, arrow, output = equation.partition("->")
    operands = terms.split(",")
    sizes: dict[str, Dimension] = {}
    ellipsis: PartialShape | None = PartialShape()
    for position, term in enumerate(operands):
        shape = inputs.get_shape(position)
        if shape is None:
            return [_make_unknown_result(equation)]
        before, dots, after = term.partition("...")
        count = len(shape) - len(before) - len(after)
        if count < 0 or (count and not dots):
            raise ShapeError(f"input {position} has the shape {shape}, the equation {equation} expects {term}")
        if dots:
            ellipsis = _merge_labels(ellipsis, PartialShape(shape[len(before) : len(before) + count]), equation)
        labels = [
            *zip(before, shape[: len(before)], strict=True),
            *zip(after, shape[len(before) + count :], strict=True),
        ]
        for label, size in labels:
            merged = broadcast(sizes[label], size) if label in sizes else size
            if merged is None:
                raise ShapeError(
                    f"the label {label} of the equation {equation} has the sizes {sizes[label]} and {size}"
                )
            sizes[label] = merged
    if not arrow:
        joined = "".join(term.replace("...", "") for term in operands)
        output = ("..." if "..." in terms else "") + "".join(sorted(c for c in sizes if joined.count(c) == 1))
    before, dots, after = output.partition("...")
    assert ellipsis is not None
    return [PartialShape([*(sizes[c] for c in before), *(ellipsis if dots else ()), *(sizes[c] for c in after)])]


def _make_unknown_result(equation: str) -> PartialShape | None:
    """Return the shape of a result with unknown sizes."""
    _, arrow, output = equation.partition("->")
    return None if not arrow or "..." in output else make_unknown(len(output))


def _merge_labels(first: PartialShape | None, second: PartialShape, equation: str) -> PartialShape | None:
    try:
        return broadcast_shapes(first, second)
    except ValueError:
        raise ShapeError(f"the dimensions of '...' in the equation {equation} are {first} and {second}") from None


@rule
def infer_attention(inputs: Inputs) -> Shapes:
    """Return [batch..., length of the query, size of the value]."""
    query, key, value = inputs.require_shape(0), inputs.get_shape(1), inputs.get_shape(2)
    if key is None or value is None:
        return [PartialShape([*query[:-1], UNBOUNDED if value is None else value[-1]])]
    if len(query) < 2 or len(key) != len(query) or len(value) != len(query):
        raise ShapeError(f"query {query}, key {key} and value {value} have different ranks, expected at least 2")
    match_sizes(query[-1], key[-1], f"query {query} and key {key} have different sizes {query[-1]} and {key[-1]}")
    match_sizes(key[-2], value[-2], f"key {key} and value {value} have different lengths {key[-2]} and {value[-2]}")
    batch: PartialShape | None = PartialShape(query[:-2])
    try:
        for other in (key, value):
            batch = broadcast_shapes(batch, PartialShape(other[:-2]))
    except ValueError:
        raise ShapeError(f"query {query}, key {key} and value {value} cannot be broadcast to each other") from None
    assert batch is not None
    return [PartialShape([*batch, query[-2], value[-1]])]


@rule
def infer_rotary_embedding(inputs: Inputs) -> Shapes:
    """Return an unknown shape, as the attributes transpose the data in many ways and split heads."""
    return [make_unknown(4 if inputs["is_qwen"] or inputs["is_chatglm"] else inputs.get_rank(0))]


@rule
def infer_gated_unit(inputs: Inputs) -> Shapes:
    """Return one part of the data along the axis."""
    data = inputs.require_shape(0)
    axis = check_axis(inputs["axis"], len(data))
    size = inputs["split_lengths"]
    return [PartialShape([*data[:axis], make_static(size), *data[axis + 1 :]])]


@rule
def infer_grouped_product(inputs: Inputs) -> Shapes:
    """Return one product per group, or the rows of all groups."""
    left, right = inputs.require_shape(0), inputs.require_shape(1)
    if len(left) == 2 and len(right) == 3:
        return [PartialShape([left[0], right[1]])]
    if len(left) == 3 and len(right) == 3:
        return [PartialShape([left[0], left[1], right[1]])]
    groups = inputs.get_length(2)
    return [PartialShape([groups, left[-1] if len(left) == 2 else left[-2], right[-1]])]


@rule
def infer_cell(inputs: Inputs) -> Shapes:
    """Return [batch, hidden size] for each state."""
    return _infer_cell(inputs, _find_hidden_size)


@rule
def infer_lstm_cell(inputs: Inputs) -> Shapes:
    """Return [batch, hidden size] for each state; the hidden size is the attribute, as in the reference."""
    return _infer_cell(inputs, _get_hidden_size)


def _infer_cell(inputs: Inputs, find_hidden_size: Callable[[Inputs, int, int], Dimension]) -> Shapes:
    count = max(len(inputs.operation.output_types), 1)
    check_rank(inputs, 0, 2)
    batch = _merge_batch(inputs, [0, *range(1, count + 1)])
    size = find_hidden_size(inputs, count, 0)
    if inputs.has(count + 2):
        _check_weights(inputs, count + 1, 0)
    return [PartialShape([batch, size])] * count


@rule
def infer_sequence(inputs: Inputs) -> Shapes:
    """Return [batch, directions, length, hidden size], and [batch, directions, hidden size] for each state."""
    count = max(len(inputs.operation.output_types) - 1, 1)
    check_rank(inputs, 0, 3)
    batch = _merge_batch(inputs, [0, *range(1, count + 2)])
    size = _find_hidden_size(inputs, count, 1)
    number = 2 if inputs.attributes.get("direction") == "bidirectional" else 1
    for position, axis in [*((i, 1) for i in range(1, count + 1)), *((i, 0) for i in range(count + 2, count + 5))]:
        check_size(inputs, position, axis, number)
    _check_weights(inputs, count + 2, 1)
    directions = make_static(number)
    data = inputs.get_shape(0)
    length = UNBOUNDED if data is None else data[1]
    state = PartialShape([batch, directions, size])
    return [PartialShape([batch, directions, length, size]), *[state] * count]


def _merge_batch(inputs: Inputs, positions: Sequence[int]) -> Dimension:
    """Return the batch size shared by all inputs.

    Raises:
        ShapeError: Inputs have different batch sizes.
    """
    batch: Dimension = UNBOUNDED
    first = 0
    for position in positions:
        shape = inputs.get_shape(position)
        if not shape:
            continue
        name = inputs.get_name(position)
        merged = match_sizes(
            batch, shape[0], f"{name} has the batch size {shape[0]}, {inputs.get_name(first)} has {batch}"
        )
        if batch != merged:
            first = position
        batch = merged
    return batch


def _get_hidden_size(inputs: Inputs, states: int, axis: int) -> Dimension:
    """Return the size of the states that the attribute states.

    Args:
        inputs: The inputs.
        states: The number of states, which follow the data.
        axis: The axis of the gates of the weights: 0 for cells, 1 for sequences.

    Raises:
        ShapeError: A state has another size.
    """
    hidden: int = inputs["hidden_size"]
    for position in range(1, states + 1):
        check_size(inputs, position, -1, hidden)
    return make_static(hidden)


def _find_hidden_size(inputs: Inputs, states: int, axis: int) -> Dimension:
    """Return the size of the states as far as it follows from the inputs, with the arguments of `_get_hidden_size`."""
    stated = _get_hidden_size(inputs, states, axis)
    first = states + axis + 1
    if any(isinstance(get_dimension(inputs.get_shape(i), axis), int) for i in (first, first + 1)):
        return stated
    result: Dimension = UNBOUNDED
    for position in range(1, states + 1):
        size = get_dimension(inputs.get_shape(position), -1)
        result = result if size is None else merge(result, size) or result
    return result


def _check_weights(inputs: Inputs, position: int, axis: int) -> None:
    """Check the sizes of the weights for the data and for the state, and of the bias.

    Args:
        inputs: The inputs.
        position: The position of the weights of the data, which the others follow.
        axis: The axis of the gates.
    """
    hidden = inputs["hidden_size"]
    gates = (inputs.operation.gates or 1) * hidden
    for weights in (position, position + 1):
        check_size(inputs, weights, axis, gates)
    check_size(inputs, position + 1, -1, hidden)
    found, expected = get_dimension(inputs.get_shape(position), -1), get_dimension(inputs.get_shape(0), -1)
    if found is not None and expected is not None:
        match_sizes(found, expected, f"X has {expected} features, W {inputs.get_shape(position)} expects {found}")
    extra = hidden if inputs.attributes.get("linear_before_reset") else 0
    check_size(inputs, position + 2, -1, gates + extra)


@rule
def infer_ctc_decoder(inputs: Inputs) -> Shapes:
    """Return [batch, time, 1, 1]."""
    data, mask = inputs.get_shape(0), inputs.get_shape(1)
    time, batch = (UNBOUNDED, UNBOUNDED) if data is None else (data[0], data[1])
    if mask is not None:
        time, batch = (
            match_sizes(found, expected, f"sequence_mask {mask} and data {data} have different {name}")
            for found, expected, name in ((mask[0], time, "length"), (mask[1], batch, "batch size"))
        )
    return [PartialShape([batch, time, 1, 1])]


@rule
def infer_ctc_decoder_with_lengths(inputs: Inputs) -> Shapes:
    """Return [batch, time] and [batch]."""
    data = inputs.get_shape(0)
    time, batch = (UNBOUNDED, UNBOUNDED) if data is None else (data[1], data[0])
    lengths = inputs.get_shape(1)
    if lengths:
        message = f"sequence_length has {lengths[0]} elements, data {data} expects {batch}"
        batch = match_sizes(lengths[0], batch, message)
    return [PartialShape([batch, time]), PartialShape([batch])]


@rule
def infer_ctc_loss(inputs: Inputs) -> Shapes:
    """Return [batch]."""
    return [PartialShape([_merge_batch(inputs, range(4))])]


@rule
def infer_group_query_attention(inputs: Inputs) -> Shapes:
    """Return the rows of all heads, and the caches, which grow unless shapes are static."""
    query, key, past = (inputs.get_shape(i) for i in (0, 1, 3))
    output = None if query is None else PartialShape([query[0], query[2], multiply(query[3], inputs["num_heads"])])
    if past is None:
        return [output, None, None]
    is_constant = inputs["sliding_window_cache"] or (key is not None and key.is_static and past.is_static)
    cache = past if is_constant else PartialShape([*past[:2], UNBOUNDED, *past[3:]])
    return [output, cache, cache]


@rule
def infer_gathered_product(inputs: Inputs) -> Shapes:
    """Return [experts of a row, rows, rows of the matrices]."""
    weights, indices = inputs.get_shape(1), inputs.get_shape(2)
    rows, count = (get_dimension(indices, axis) or UNBOUNDED for axis in (0, 1))
    return [PartialShape([count, rows, get_dimension(weights, 1) or UNBOUNDED])]


@rule
def infer_variable_length_attention(inputs: Inputs) -> Shapes:
    """Return the shape of the query, transposed twice, with the size of the value."""
    query, value = inputs.get_shape(0), inputs.get_shape(2)
    if query is None or value is None:
        return [query and make_unknown(len(query))]
    result = [*_reorder(query, inputs["order_q"])[:-1], _reorder(value, inputs["order_v"])[-1]]
    return [PartialShape(_reorder(result, inputs["order_out"]))]


def _reorder(shape: Sequence[Dimension], order: Sequence[int]) -> Sequence[Dimension]:
    if not order:
        return shape
    if sorted(order) != list(range(len(shape))):
        raise ShapeError(f"found the order {list(order)} of axes for the shape {PartialShape(shape)}")
    return [shape[axis] for axis in order]


@rule
def infer_paged_attention(inputs: Inputs) -> Shapes:
    """Return [tokens, heads * size of a value], and two vectors."""
    query, key, value = (inputs.get_shape(i) for i in range(3))
    tokens = get_dimension(query, 0)
    width, keys, values = (get_dimension(shape, 1) for shape in (query, key, value))
    columns: Dimension = UNBOUNDED
    if isinstance(width, int) and isinstance(keys, int) and isinstance(values, int) and keys:
        columns = make_static(width * values // keys)
    vector = PartialShape([UNBOUNDED])
    return [PartialShape([tokens or UNBOUNDED, columns]), vector, vector]
