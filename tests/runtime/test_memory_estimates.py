"""Estimates of the elements of results, and guards of large ones, against their definitions."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ir_text import layer, net, port, write

import irrun
from irrun.element_types import ElementType
from irrun.limits import LARGE_PART, MemoryBudget, MemoryLimitError
from irrun.runtime.lowering import lower
from irrun.runtime.memory import (
    GROWTH,
    PROJECTION_COPIES,
    _count_broadcast,
    _count_einsum,
    _count_product,
    _Described,
    _get_width,
    _make_guard,
    _round_growth,
    create_guard,
    estimate_allocations,
)


def describe(*shape, dtype=np.float32):
    return _Described(tuple(shape), np.dtype(dtype))


def test_described_arrays_have_the_sizes_of_arrays():
    for shape, dtype in (((), np.int8), ((3,), np.float64), ((2, 0, 4), np.float32), ((2, 3, 4), np.float16)):
        described, array = describe(*shape, dtype=dtype), np.zeros(shape, dtype)
        for name in ("shape", "dtype", "ndim", "size", "itemsize"):
            assert getattr(described, name) == getattr(array, name)


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ij,jk->ik", [(2, 3), (3, 5)], 10),
        (" ij , jk -> ki", [(2, 3), (3, 5)], 10),
        ("ij,jk", [(2, 3), (3, 5)], 30),  # a bound: all labels
        ("ij,jk->ik", [(2, 3), (1, 5)], 10),
        ("ij,jk->ijk", [(2, 1), (3, 5)], 30),
        ("ii->i", [(4, 4)], 4),
        ("ij->", [(2, 3)], 1),
        ("i,j,k->kij", [(2,), (3,), (5,)], 30),
        ("...->...", [(2, 3)], 6),
        ("...ij,...jk->...ik", [(7, 2, 3), (7, 3, 5)], 70),
        ("...ij,...jk->...ik", [(7, 1, 2, 3), (4, 3, 5)], 280),  # axes of the ellipsis are broadcast
        ("...ij,jk->...ik", [(7, 4, 2, 3), (3, 5)], 280),
        ("i...,j...->ij...", [(2, 5), (3, 5)], 30),
        ("a...b,b->a...", [(2, 3, 4, 5), (5,)], 24),
        ("...i,...i->...", [(2, 3), (5, 3)], 0),  # does not fit
    ],
)
def test_results_of_einsum_are_counted(equation, shapes, expected):
    assert _count_einsum(equation, [describe(*shape) for shape in shapes]) == expected


def test_products_of_matrices_are_counted():
    shapes = [(), (3,), (2, 3), (3, 2), (1, 2, 3), (4, 3, 3), (5, 1, 3, 3), (0, 3)]
    for a, b, transpose_a, transpose_b in itertools.product(shapes, shapes, (False, True), (False, True)):
        attributes = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        x, y = np.zeros(a), np.zeros(b)
        x = x.swapaxes(-1, -2) if transpose_a and x.ndim > 1 else x
        y = y.swapaxes(-1, -2) if transpose_b and y.ndim > 1 else y
        try:
            expected = np.matmul(x, y).size
        except ValueError:
            continue  # the kernel reports what does not fit
        instruction = SimpleNamespace(attributes=attributes)
        assert _count_product(instruction, [describe(*a), describe(*b)]) == expected, (a, b)  # type: ignore[arg-type]
    instruction = SimpleNamespace(attributes={})
    for arrays in ([describe(2, 3)], [describe(), describe(2, 3)], [describe(2, 3), describe()]):
        assert _count_product(instruction, arrays) == 0  # type: ignore[arg-type]
    assert _count_product(instruction, [describe(2, 1, 3), describe(5, 3, 1)]) == 0  # type: ignore[arg-type]


def test_elementwise_results_are_counted():
    assert _count_broadcast([describe(2, 1, 3), describe(4, 1)]) == 24
    assert _count_broadcast([describe(2, 3)]) == 6
    assert _count_broadcast([describe(2, 3, 4), describe(3)]) == 24  # axes from the start
    assert _count_broadcast([describe(3), describe(2, 3, 4)]) == 24


@pytest.mark.parametrize(
    ("attributes", "types", "dtypes", "expected"),
    [
        ({"destination_type": ElementType.parse("f64")}, "same", [np.float32], 8),
        ({"destination_type": ElementType.parse("i8")}, "same", [np.float32], 1),
        ({}, ("boolean",), [np.float64], 1),
        ({}, "same", [np.float64, np.float32], 8),
        ({}, "same", [np.int8], 1),
        ({}, "same", [np.float16], 4),  # computed in f32
        ({}, "same", [ml_dtypes.bfloat16, np.int8], 4),
        ({}, "same", [np.int16, np.int64], 8),
    ],
)
def test_widths_of_elements(attributes, types, dtypes, expected):
    instruction = SimpleNamespace(attributes=attributes, operation=SimpleNamespace(output_types=types))
    assert _get_width(instruction, [describe(2, dtype=dtype) for dtype in dtypes]) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "factor"), [(0, 3), (1, 1), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)])
def test_guards_check_products_of_sizes_beyond_a_maximum(count, factor):
    maximum = 24
    checked = []
    slots = [4, 1, 2][:count]
    guard = _make_guard(slots, factor, maximum, checked.append)
    for sizes in itertools.product((0, 1, 2, 3, 4, 6, 8, 9, 12, 24, 25), repeat=count):
        values: list[Any] = [None] * 5
        for slot, size in zip(slots, sizes, strict=True):
            values[slot] = np.zeros(size)
        checked.clear()
        guard(values)
        product = factor * math.prod(sizes)
        assert bool(checked) is (product > maximum or not product), sizes
        assert all(found is values for found in checked)


F32 = np.dtype(np.float32)


def shape_inputs(*shapes):
    return tuple((shape, F32) for shape in shapes)


@pytest.mark.parametrize(
    ("before", "after", "fixed", "expected"),
    [
        ([(1, 2, 10, 8)], [(1, 2, 11, 8)], (), [(1, 2, GROWTH, 8)]),
        ([(1, 2, 63, 8)], [(1, 2, 64, 8)], (), [(1, 2, GROWTH, 8)]),
        ([(1, 2, 64, 8)], [(1, 2, 65, 8)], (), [(1, 2, 2 * GROWTH, 8)]),
        ([(1, 10), (10, 5)], [(1, 11), (11, 5)], (), [(1, GROWTH), (GROWTH, 5)]),
        ([(7, 10)], [(7, 7)], (), [(GROWTH, GROWTH)]),  # equal dimensions stay equal
        ([(1, 10)], [(1, 11)], (11,), [(1, 11)]),  # a constant has it as well
        ([(10,)], [(1,)], (), [(1,)]),  # broadcasts
        ([(10,)], [(0,)], (), [(0,)]),
        ([(10,)], [(10, 1)], (), None),
        ([(10,)], [(10,)], (), [(10,)]),
    ],
)
def test_dimensions_that_grow_are_rounded_up(before, after, fixed, expected):
    found = _round_growth(shape_inputs(*after), shape_inputs(*before), frozenset(fixed))
    assert found == (None if expected is None else shape_inputs(*expected))


def test_growing_results_are_checked_where_they_become_large(tmp_path):
    """The result of [n, 1] * [1, n] takes 4 * n ** 2 bytes; estimates are rounded up, limits are not."""
    parameters = [((-1, 1), 0), ((1, -1), 1)]
    layers = [
        layer(i, "Parameter", data=f'shape="{",".join(map(str, s))}" element_type="f32"', outputs=[port(0, s, "FP32")])
        for s, i in parameters
    ]
    layers.append(layer(2, "Multiply", "opset1", "", [port(0), port(1)], [port(2, (-1, -1), "FP32")]))
    path = write(
        tmp_path, net([*layers, layer(3, "Result", inputs=[port(0)])], [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)])
    )
    compiled = irrun.compile_model(path, memory="30M")
    for n in (10, 100, 200, 2000, 2001, 2002, 2500, 2700, 2001):
        inputs = [np.ones((n, 1), np.float32), np.ones((1, n), np.float32)]
        assert compiled(inputs)[0].shape == (n, n)
    for n in (2850, 2851, 2900, 5000):
        inputs = [np.ones((n, 1), np.float32), np.ones((1, n), np.float32)]
        with pytest.raises(MemoryLimitError):
            compiled(inputs)


def test_broadcast_results_of_einsum_are_refused_before_they_are_computed(tmp_path):
    parameters = [((700, 1, 2, 3), 0), ((400, 3, 5), 1)]
    layers = [
        layer(i, "Parameter", data=f'shape="{",".join(map(str, s))}" element_type="f32"', outputs=[port(0, s, "FP32")])
        for s, i in parameters
    ]
    data = 'equation="...ij,...jk->...ik"'
    layers.append(layer(2, "Einsum", "opset7", data, [port(0), port(1)], [port(2, (700, 400, 2, 5), "FP32")]))
    path = write(
        tmp_path, net([*layers, layer(3, "Result", inputs=[port(0)])], [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)])
    )
    inputs = [np.ones(shape, np.float32) for shape, _ in parameters]
    with pytest.raises(irrun.InputError, match=r"the run would take 10\.7 MiB, 0 MiB of which are in use"):
        irrun.compile_model(path, jit=False, memory="2M")(inputs)
    assert irrun.compile_model(path, jit=False, memory="20M")(inputs)[0].shape == (700, 400, 2, 5)


@pytest.mark.parametrize("is_fast", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
def test_fast_sequences_project_their_largest_input_at_once(is_fast, is_known, tmp_path):
    x, states = (4, 50, 3), (4, 1, 2)
    weights = [(1, 6, 3), (1, 6, 2), (1, 6)]
    shapes = [x, states, (4,), *weights]
    layers = [
        layer(i, "Parameter", data=f'shape="{",".join(map(str, s))}" element_type="{"i32" if i == 2 else "f32"}"',
              outputs=[port(0, s)])
        for i, s in enumerate(shapes)
    ]  # fmt: skip
    data = 'hidden_size="2" direction="forward"'
    layers.append(layer(6, "GRUSequence", "opset5", data, [port(i) for i in range(6)], [port(6), port(7)]))
    layers.append(layer(7, "Result", inputs=[port(0)]))
    path = write(tmp_path, net(layers, [*((i, 0, 6, i) for i in range(6)), (6, 6, 7, 0)]))
    (plain,) = lower(irrun.read_model(path)).instructions
    instruction = replace(plain, plain=(plain,)) if is_fast else plain
    values = dict(zip(plain.inputs, (describe(*s) for s in shapes), strict=True))
    ((size, scratch),) = estimate_allocations(instruction, values.get if is_known else lambda slot: None)
    assert size == 0
    if is_fast:
        assert scratch == (PROJECTION_COPIES * 4 * 50 * 3 * 4 if is_known else 0)


@pytest.mark.parametrize(
    ("type", "data", "constant", "limit", "has_guard"),
    [
        ("Add", 'auto_broadcast="numpy"', None, None, True),  # of two variable inputs
        ("Add", 'auto_broadcast="numpy"', (), None, False),
        ("Add", 'auto_broadcast="numpy"', (1, 1), None, False),
        ("Add", 'auto_broadcast="numpy"', (2, 1), None, True),
        ("Add", 'auto_broadcast="numpy"', (0,), None, False),
        ("MatMul", 'transpose_a="false" transpose_b="false"', (3, 4), None, True),
        ("Concat", 'axis="0"', (2, 3), None, False),  # no larger than its inputs together
        ("Concat", 'axis="0"', (2, 3), 24, False),
        ("Concat", 'axis="0"', (2, 3), 23, True),  # a large constant
    ],
)
def test_instructions_that_may_enlarge_their_inputs_have_guards(type, data, constant, limit, has_guard, tmp_path):
    shapes = [(2, 3), (2, 3) if constant is None else constant]
    layers = [
        layer(i, "Parameter", data=f'shape="{",".join(map(str, s))}" element_type="f32"', outputs=[port(0, s)])
        for i, s in enumerate(shapes)
    ]
    size = math.prod(shapes[1])
    if constant is not None:
        place = f'shape="{",".join(map(str, constant))}" element_type="f32" offset="0" size="{4 * size}"'
        layers[1] = layer(1, "Const", data=place, outputs=[port(0, constant, "FP32")])
    layers.append(layer(2, type, "opset1", data, [port(0), port(1)], [port(2)]))
    layers.append(layer(3, "Result", inputs=[port(0)]))
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]), np.ones(size, np.float32))
    program = lower(irrun.read_model(path))
    memory = MemoryBudget(None if limit is None else limit * LARGE_PART)
    assert (create_guard(program, program.instructions[0], memory) is not None) == has_guard
