"""The plan of a compiled model: what it says about each instruction."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write, write_row_loop

import irrun
from irrun.runtime.executor import Executor, RequestState
from irrun.runtime.plan import list_plan


def multiply_fast(x):
    """Multiply in the fastest way.

    The second paragraph is not shown.
    """
    return x


class FastKernel:
    """The kernel of an object."""

    def __call__(self, x):
        return x


@pytest.mark.parametrize(
    ("kernel", "description", "expected"),
    [
        (multiply_fast, "", "multiply in the fastest way"),
        (functools.partial(multiply_fast, x=1), "", "multiply in the fastest way"),
        (functools.partial(functools.partial(multiply_fast), x=1), "", "multiply in the fastest way"),
        (FastKernel(), "", "the kernel of an object"),
        (lambda x: x, "", "specialized"),
        (multiply_fast, "columns: all others", "columns: all others"),
    ],
)
def test_implementations_are_described_by_their_summaries(kernel, description, expected, tmp_path):
    program = irrun.compile_model(write(tmp_path, chain("Relu")), optimize=False)._program
    (plain,) = program.instructions
    ((entry),) = list_plan(program)
    assert (entry.layers, entry.operations, entry.implementation, entry.depth) == (("layer1",), ("Relu",), "plain", 0)
    program.instructions = [replace(plain, kernel=kernel, plain=(plain,), description=description)]
    (entry,) = list_plan(program)
    assert entry.implementation == expected


def test_instructions_of_bodies_are_indented(tmp_path):
    entries = list(list_plan(irrun.compile_model(write_row_loop(tmp_path), optimize=False)._program))
    assert [(entry.layers, entry.operations, entry.depth) for entry in entries] == [
        (("it",), ("TensorIterator",), 0),
        (("layer1",), ("Relu",), 1),
    ]


@pytest.mark.falls_back
def test_specialized_kernels_may_replace_specialized_kernels(tmp_path):
    """If all of them fail, the plain kernel computes the result."""

    def fail(*_):
        raise ValueError

    program = irrun.compile_model(write(tmp_path, chain("Negative", "Abs")), optimize=False)._program
    first, second = program.instructions
    inner = replace(first, kernel=fail, plain=(first,))
    program.instructions = [replace(first, kernel=fail, plain=(inner,)), replace(second, kernel=fail, plain=(second,))]
    x = np.full((2, 3), 2, np.float32)
    state = RequestState()
    (result,) = Executor(program, state).run([x])
    np.testing.assert_array_equal(result, x)
    assert {layers: fallback.failures for layers, fallback in state.fallbacks.items()} == {
        ("layer1",): 2,
        ("layer2",): 1,
    }
    broken = replace(first, kernel=fail)
    program.instructions[0] = replace(first, kernel=fail, plain=(replace(inner, plain=(broken,)),))
    with pytest.raises(irrun.ExecutionError, match="'layer1'"):
        Executor(program, RequestState()).run([x])


def test_specializers_that_fail_are_shown(tmp_path, monkeypatch):
    def fail(site):
        raise ValueError("the constants do not match")

    monkeypatch.setattr("irrun.runtime.passes.specialization.specialize", fail)
    (entry,) = list_plan(irrun.compile_model(write(tmp_path, chain("Relu")), jit=False)._fast_program)
    assert (entry.implementation, entry.refused) == ("plain", ("specialize: the constants do not match",))


@pytest.mark.parametrize("has_sink", [False, True])
def test_methods_that_do_not_apply_are_shown(has_sink, tmp_path):
    shapes = [(1, 2, 4), (1, 3, 4), (1, 3, 4), (2, 3), (1,), (1, 2, 1)][: 6 if has_sink else 3]
    count = len(shapes)
    layers = [
        layer(i, "Parameter", data=f'shape="{",".join(map(str, s))}" element_type="f32"', outputs=[port(0, s, "FP32")])
        for i, s in enumerate(shapes)
    ]
    inputs = [port(i, shape) for i, shape in enumerate(shapes)]
    outputs = [port(count, (1, 2, 4), "FP32")]
    attention = layer(count, "ScaledDotProductAttention", "opset13", 'causal="false"', inputs, outputs)
    layers += [attention, layer(count + 1, "Result", inputs=[port(0, (1, 2, 4))])]
    edges = [*((i, 0, count, i) for i in range(count)), (count, count, count + 1, 0)]
    compiled = irrun.compile_model(write(tmp_path, net(layers, edges)), jit=False)
    (entry,) = list_plan(compiled._fast_program)
    condition = "variable queries, keys and values without a sink"
    name = "blocks of heads and rows"
    assert entry.implementation == ("plain" if has_sink else f"{name}: {condition}")
    assert entry.refused == ((f"use {name}: only for {condition}",) if has_sink else ())
