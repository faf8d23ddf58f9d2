"""Sequences of recurrent cells with any attributes: each direction is a compiled loop around its cell.

`recurrences.py` computes sequences with the default attributes, with gates in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.bindings import Shape, make_layout
from irrun.fast.jit.body_plans import BodyStep
from irrun.fast.jit.compiled_loops import CompiledLoop, LoopBody
from irrun.fast.jit.nests import StridedLayout
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.specialization import CallSite
from irrun.ops._support import registry
from irrun.ops._support.checks import read_lengths
from irrun.ops._support.context import BackEdgeDescription, BodyRunner, InputDescription, OutputDescription
from irrun.ops._support.recurrent_steps import reorder_gates

__all__ = ["CellSequenceKernel"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: The attributes that sequences and cells share.
ATTRIBUTES = (
    *("hidden_size", "activations", "activations_alpha", "activations_beta", "clip"),
    *("linear_before_reset", "input_forget"),
)


class CellSequenceKernel(CompiledKernel):
    """The kernel of a sequence with constant weights.

    Args:
        site: The call site.

    Raises:
        NoKernelError: The weights are not constant.
    """

    description = "compiled: a loop around a cell for each direction"

    def __init__(self, site: CallSite) -> None:
        self._site = site
        name = site.operation.type.removesuffix("Sequence")
        self._state_count = 2 if name == "LSTM" else 1
        self._scores = 5 + self._state_count if name == "AUGRU" else -1
        direction = site.attributes.get("direction", "forward")
        self._reversals = [False, True] if direction == "bidirectional" else [direction == "reverse"]
        gate = next(iter(site.attributes.get("activations", [])), "sigmoid").strip().lower()
        if gate == "relu" and name.endswith("GRU"):
            raise NoKernelError("the gates have no bounds, so that rounding errors grow from step to step")
        first = 2 + self._state_count
        weights = [site.get_constant(i) for i in range(first, first + 3)]
        has_peepholes = name == "LSTM" and site.has_input(first + 3)
        peepholes = site.get_constant(first + 3) if has_peepholes else None
        if any(x is None or len(x) != len(self._reversals) for x in weights):
            raise NoKernelError("the weights are not constant")
        if has_peepholes and peepholes is None:
            raise NoKernelError("the peepholes are not constant")
        order = str(site.attributes.get("weights_format", "fico"))
        self._loops = []
        for number in range(len(self._reversals)):
            own = [reorder_gates(x[number], order) for x in weights if x is not None]
            if peepholes is not None:
                own.append(np.reshape(peepholes, (len(self._reversals), -1))[number])
            self._loops.append(self._make_loop(name, own))

    def _make_loop(self, name: str, weights: Sequence[Array]) -> CompiledLoop:
        """Return the loop around a cell with some weights: W, R, B, and peepholes."""
        opset = {"LSTM": "opset1", "GRU": "opset3", "RNN": "opset1"}.get(name, "ie_internal_opset")
        cell, squeeze, unsqueeze = (
            registry.find(kind, version)
            for kind, version in ((f"{name}Cell", opset), ("Squeeze", "opset1"), ("Unsqueeze", "opset1"))
        )
        assert cell is not None
        assert squeeze is not None
        assert unsqueeze is not None
        has_scores = self._scores >= 0
        # Slots: the time axis, slices of X and of the scores, and states; the squeezed slices, the weights,
        # the new states, and the new hidden state as a part of the output.
        axis, X, A, H, C, x, a, y, first = range(9)
        states = [H, C][: self._state_count]
        numbers = range(first, first + len(weights))
        new = [*range(numbers.stop, numbers.stop + self._state_count)]
        constants = {axis: np.zeros(1, np.int64), **dict(zip(numbers, weights, strict=True))}

        def make_step(operation: Any, inputs: Sequence[int], outputs: Sequence[int], attributes: Any) -> BodyStep:
            known = tuple(constants.get(slot) for slot in inputs)
            site = CallSite(operation, attributes, known, (False,) * len(inputs), len(outputs))
            return BodyStep(site, tuple(inputs), tuple(outputs))

        attributes = {key: value for key, value in self._site.attributes.items() if key in ATTRIBUTES}
        steps = [make_step(squeeze, [X, axis], [x], {})]
        if has_scores:
            steps.append(make_step(squeeze, [A, axis], [a], {}))
        steps.append(make_step(cell, [x, *states, *numbers, *([a] if has_scores else [])], new, attributes))
        steps.append(make_step(unsqueeze, [new[0], axis], [y], {}))
        parameters = [X, *([A] if has_scores else []), *states]
        body = LoopBody(constants, tuple(parameters), (*new, y), (), tuple(steps))
        return CompiledLoop(_refuse, body, has_trip_count=False)

    def __call__(self, *inputs: Array) -> Any:
        """Compute the sequences, or leave them to the plain kernel if their lengths differ.

        Raises:
            NoKernelError: No kernel supports these inputs.
        """
        arguments: list[Any] = list(self._site.constants)
        for position, value in zip(self._site.variable_inputs, inputs, strict=True):
            arguments[position] = value
        X, *states = arguments[: 1 + self._state_count]
        lengths = arguments[1 + self._state_count]
        is_f32 = all(x.dtype == F32 and x.ndim == 3 for x in (X, *states))
        if not is_f32 or not X.size or any(s.shape[1] != len(self._loops) for s in states):
            return self._site.call_plain(*inputs)
        if (read_lengths("sequence_lengths", lengths, *X.shape[:2]) != X.shape[1]).any():
            return self._site.call_plain(*inputs)
        sliced = [X.transpose(1, 0, 2)]
        if self._scores >= 0:
            sliced.append(arguments[self._scores].transpose(1, 0, 2))
        Y = np.empty((X.shape[0], len(self._loops), X.shape[1], states[0].shape[2]), np.float32)
        last_states = [np.empty(state.shape, np.float32) for state in states]
        for d, (loop, is_reversed) in enumerate(zip(self._loops, self._reversals, strict=True)):
            runner = self._describe(len(sliced), is_reversed)
            output, *last = loop(*sliced, *(state[:, d] for state in states), body=runner)
            Y[:, d] = output.transpose(1, 0, 2)
            for state, value in zip(last_states, last, strict=True):
                state[:, d] = value
        return Y, *last_states

    def prepare(self, shapes: Sequence[Shape]) -> None:
        """Compile the kernels for declared shapes of the inputs.

        Raises:
            Exception: No kernel supports these shapes.
        """
        known = {i: x.shape for i, x in enumerate(self._site.constants) if x is not None}
        known.update(zip(self._site.variable_inputs, shapes, strict=True))
        batch, _, size = known[0]
        scores = [(1, batch, 1)] if self._scores >= 0 else []
        states = [(batch, known[1 + i][2]) for i in range(self._state_count)]
        for loop in self._loops:
            layouts = [StridedLayout(*make_layout(shape), F32) for shape in ((1, batch, size), *scores, *states)]
            own = loop.body
            own.make_plan(dict(zip(own.parameters, layouts, strict=True)), {}, own.parameters, own.results)

    def _describe(self, slice_count: int, is_reversed: bool) -> BodyRunner:
        """Return the port map of a loop."""
        count = self._state_count
        start, end, stride = (-1, 0, -1) if is_reversed else (0, -1, 1)
        inputs = [InputDescription(i, i, 0, start, end, stride) for i in range(slice_count)]
        inputs += [InputDescription(i, i) for i in range(slice_count, slice_count + count)]
        outputs = [OutputDescription(0, count, 0, start, end, stride)]
        outputs += [OutputDescription(1 + i, i) for i in range(count)]
        edges = [BackEdgeDescription(i, slice_count + i) for i in range(count)]
        return BodyRunner(_refuse, slice_count + count, 1 + count, tuple(inputs), tuple(outputs), tuple(edges))


def _refuse(*inputs: Any, **options: Any) -> NoReturn:
    """Raise an error instead of running an uncompiled loop.

    Raises:
        NoKernelError: Always.
    """
    raise NoKernelError("the loop around the cell is not compiled for these inputs")
