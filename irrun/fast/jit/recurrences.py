"""Steps of recurrent sequences: the product of the state and the gate functions, in registers.

The hidden state is divided into *units* of one vector. A call computes some units of one step: the gates of a unit are
accumulated for several rows of the batch at a time, and their functions are computed before the next unit. On one
thread, another kernel computes all steps in a call. Several threads divide the units of large states, and all steps are
a list of jobs that run without the interpreter.

Weights are stored in reading order: [unit, group of gates, row of the state, gate, lane], with zeros up to whole units.
Projections of the input are [..., unit, gate, lane]. States are padded with zeros, too, and the padding stays 0.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.projections import Projection
from irrun.fast.jit.tasks import SCRATCH, Call, Task, make_base, reserve_scratch
from irrun.fast.jit.team import run_jobs
from irrun.fast.jit.vectors import Vectors
from irrun.fast.packing import allocate_kept
from irrun.fast.recurrent.recurrences import Recurrence, RecurrentWeights
from irrun.threads import get_thread_count

__all__ = ["CompiledRecurrence", "CompiledWeights", "compile_weights", "pack_weights"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Minimum number of multiplications for a step to be divided between threads.
MIN_SHARED_SIZE = 1 << 16
#: Number of registers for a tile, by the number of lanes: its sums, a weight for each gate, and an element of a row. If
#: a tile used more of AVX-512's 32 registers, LLVM would move sums to the stack.
REGISTERS = {16: 27, 8: 15, 4: 27}
#: Number of gates that are accumulated at a time, by the number of lanes, if it divides the number of gates. With few
#: registers, more rows for fewer gates need fewer loads of weights.
GROUP_SIZES = {16: 4, 8: 2, 4: 4}
#: Number of elements of a projection that is computed at a time, so that it stays in the cache until the steps read it,
#: and minimum number of rows.
PROJECTION_SIZE, MIN_BLOCK_ROWS = 1 << 19, 128
#: Number of f32 in a cache line.
LINE_SIZE = 16
#: Number of independent chains of additions that keep the processor busy.
CHAINS = 8

#: The arrays of a step, in the order of the parameters of its functions: the projections of the input, the state before
#: and after the step, the output, and two arrays that depend on the recurrence.
ARRAYS = ("projection", "state", "result", "output", "first", "second")
INTEGERS = ("projection_row", "state_row", "output_row", "hidden", "rows", "first_unit", "last_unit")

#: Computes the results of a unit from its gates. Takes, for each row, the function, the vectors of the gates' products,
#: and functions that load projections by the number of the gate, and load and store arrays.
Finish = Callable[["_Unit", "list[Value]"], None]


class _Unit(NamedTuple):
    """A unit of one row.

    Attributes:
        function: The function.
        row: The row of the batch.
        unit: The number of the unit.
        mask: The mask of its valid elements; None for all.
        gates: The number of gates of all parts.
    """

    function: Function
    row: Value
    unit: Value
    mask: Value | None
    gates: int

    def load_projection(self, gate: int) -> Value:
        """Return the projection of the input for a gate."""
        return self.function.load(self._locate_projection(gate), self.function.vector)

    def prefetch_projections(self) -> None:
        """Prefetch the projections of the input."""
        for gate in range(0, self.gates, max(1, LINE_SIZE // self.function.lanes)):
            self.function.prefetch(self._locate_projection(gate), 1)

    def _locate_projection(self, gate: int) -> Value:
        f, p = self.function, self.function.parameters
        column = self.unit * (self.gates * f.lanes) + gate * f.lanes
        return f.offset(p["projection"], self.row * p["projection_row"] + column)

    def load(self, name: str) -> Value:
        """Return the elements of an array of states."""
        return self.function.load(self._locate(name), self.function.vector)

    def store(self, value: Value, name: str) -> None:
        """Store the elements of an array of states."""
        self.function.store(value, self._locate(name))

    def _locate(self, name: str) -> Value:
        f, p = self.function, self.function.parameters
        return f.offset(p[name], self.row * p["state_row"] + self.unit * f.lanes)

    def store_state(self, value: Value) -> None:
        """Store the elements of the new state. Its padding is NaN if the input is infinite, and set to 0."""
        self.store(value if self.mask is None else self.function.select(self.mask, value, 0.0), "result")

    def store_output(self, value: Value) -> None:
        """Store the elements of the new state and of the output."""
        f, p = self.function, self.function.parameters
        self.store_state(value)
        f.store(value, f.offset(p["output"], self.row * p["output_row"] + self.unit * f.lanes), self.mask)

    def load_constant(self) -> Value:
        """Return the elements of the second array, shared by all rows."""
        f, p = self.function, self.function.parameters
        return f.load(f.offset(p["second"], self.unit * f.lanes), f.vector)


def _compute_sigmoid(f: Function, value: Value) -> Value:
    """Return the sigmoid of twice a value, since the weights of these gates are halved."""
    grown = Vectors(f).grow(value)
    return (grown + 1.0) / (grown + 2.0)


def _compute_tanh(f: Function, value: Value) -> Value:
    grown = Vectors(f).grow(value)
    return grown / (grown + 2.0)


def _multiply_tanh(f: Function, value: Value, gate: Value) -> Value:
    """Return the product of the tanh of a value and the sigmoid of twice a gate, with one division."""
    value, gate = Vectors(f).grow(value), Vectors(f).grow(gate)
    return value * (gate + 1.0) / ((value + 2.0) * (gate + 2.0))


def _finish_lstm(unit: _Unit, gates: list[Value]) -> None:
    """Compute a step of an LSTM with the gates c, f, i, o; the first array is the cell state."""
    f = unit.function
    candidate, forget, new, output = (gate + unit.load_projection(i) for i, gate in enumerate(gates))
    cell = f.multiply_add(unit.load("first"), _compute_sigmoid(f, forget), _multiply_tanh(f, candidate, new))
    unit.store(cell, "first")
    unit.store_output(_multiply_tanh(f, cell, output))


def _finish_rnn(unit: _Unit, gates: list[Value]) -> None:
    unit.store_output(_compute_tanh(unit.function, gates[0] + unit.load_projection(0)))


def _finish_gru(unit: _Unit, gates: list[Value]) -> None:
    """Compute a step of a GRU with the gates z, r, h; the second array is the bias of the product of h."""
    f = unit.function
    update, reset = (_compute_sigmoid(f, gates[i] + unit.load_projection(i)) for i in range(2))
    candidate = _compute_tanh(f, f.multiply_add(gates[2] + unit.load_constant(), reset, unit.load_projection(2)))
    unit.store_output(f.multiply_add(unit.load("state") - candidate, update, candidate))


def _finish_gates(unit: _Unit, gates: list[Value]) -> None:
    """Compute the gates z and r of a GRU: the first array is z, and the result is the product of r and the state."""
    f = unit.function
    update, reset = (_compute_sigmoid(f, gates[i] + unit.load_projection(i)) for i in range(2))
    unit.store(update, "first")
    unit.store_state(reset * unit.load("state"))


def _finish_candidate(unit: _Unit, gates: list[Value]) -> None:
    """Compute the rest of a GRU from the product of r and the state; the first arrays are z and the state."""
    f = unit.function
    candidate = _compute_tanh(f, gates[0] + unit.load_projection(2))
    unit.store_output(f.multiply_add(unit.load("second") - candidate, unit.load("first"), candidate))


class _Part(NamedTuple):
    """A part of a step: the product for some gates, and the computation after it.

    Attributes:
        gates: The number of gates.
        finish: Computes the results from the gates.
        total: The number of gates of all parts.
    """

    gates: int
    finish: Finish
    total: int


#: Name of the recurrence -> the parts of a step.
PARTS: dict[str, tuple[_Part, ...]] = {
    "LSTM": (_Part(4, _finish_lstm, 4),),
    "GRU": (_Part(3, _finish_gru, 3),),
    "ResetFirstGRU": (_Part(2, _finish_gates, 3), _Part(1, _finish_candidate, 3)),
    "RNN": (_Part(1, _finish_rnn, 1),),
}


def _count_grouped(gates: int) -> int:
    """Return the number of gates that are accumulated at a time."""
    size = GROUP_SIZES[get_lanes()]
    return size if gates % size == 0 else gates


@cache_kernel
def _compile_step(part: _Part, tile: int, rest: int, is_ragged: bool) -> Kernel:
    """Return the kernel of a part of a step.

    Args:
        part: The part.
        tile: The number of rows of a tile.
        rest: The number of rows after the last whole tile.
        is_ragged: Whether the last unit has fewer elements than a vector.
    """
    name = part.finish.__name__.removeprefix("_finish_")
    parameters = [*((key, "ptr") for key in (*ARRAYS, "weights", "sums")), *((key, "i64") for key in INTEGERS)]
    f = Function(f"recurrent_{name}_{tile}_{rest}", parameters, get_lanes())
    p = f.parameters
    code = _StepCode(f, part)
    with f.loop(p["first_unit"], p["last_unit"]) as unit:
        mask = f.mask_range(0, p["hidden"] - unit * f.lanes) if is_ragged else None
        last = p["rows"] - rest
        with f.loop(0, last, tile) as row:
            code.compute_tile(tile, row, unit, mask)
        if rest:
            code.compute_tile(rest, last, unit, mask)
    return compile_function(f)


def _count_rows(part: _Part, batch: int) -> int:
    """Return the number of rows per tile, so that tiles have similar sizes."""
    grouped = _count_grouped(part.gates)
    most = (REGISTERS[get_lanes()] - 1 - grouped) // grouped
    return -(-batch // -(-batch // most))


class _StepCode(NamedTuple):
    """The code of a part of a step.

    Attributes:
        function: The function.
        part: The part.
    """

    function: Function
    part: _Part

    def compute_tile(self, count: int, row: Value, unit: Value, mask: Value | None) -> None:
        """Compute a unit for several rows.

        The sums of several rows are stored before the gates are computed, so that the computation needs few registers,
        and the processor computes the gates of neighboring rows at the same time.
        """
        f, gates = self.function, self.part.gates
        p = f.parameters
        units = [_Unit(f, row + i, unit, mask, self.part.total) for i in range(count)]
        for own_unit in units:
            own_unit.prefetch_projections()
        size = _count_grouped(gates)
        sums: list[list[Value]] = [[] for _ in units]
        for group in range(gates // size):
            weights = f.offset(p["weights"], (unit * (gates // size) + group) * p["state_row"] * (size * f.lanes))
            for own, new in zip(
                sums, self._accumulate([own_unit.row for own_unit in units], weights, size), strict=True
            ):
                own += new
            if count > 1:
                for own_unit, own in zip(units, sums, strict=True):
                    for gate in range(group * size, group * size + size):
                        f.store(own[gate], self._locate_sum(own_unit.row, gate))
        if count == 1:
            self.part.finish(units[0], sums[0])
            return
        with f.loop(row, row + count) as r:
            totals = [f.load(self._locate_sum(r, gate), f.vector) for gate in range(gates)]
            self.part.finish(_Unit(f, r, unit, mask, self.part.total), totals)

    def _locate_sum(self, row: Value, gate: int) -> Value:
        """Return the address of a sum in scratch memory."""
        f = self.function
        return f.offset(f.parameters["sums"], (row * self.part.gates + gate) * f.lanes)

    def _accumulate(self, rows: Sequence[Value], weights: Value, gates: int) -> list[list[Value]]:
        """Return the products of some gates for several rows."""
        f = self.function
        p = f.parameters
        states = [f.offset(p["state"], r * p["state_row"]) for r in rows]
        depth = max(1, -(-CHAINS // (len(rows) * gates)))  # sums that are added at the end
        depth = min(1 << (depth - 1).bit_length(), f.lanes)
        sums = [[[f.variable(f.vector, 0.0) for _ in range(depth)] for _ in range(gates)] for _ in rows]
        for variable in (v for own in sums for each in own for v in each):
            variable.set(0.0)
        step = max(depth, 2)
        with f.loop(0, p["state_row"], step) as k:
            for i in range(step):
                place = f.offset(weights, (k + i) * (gates * f.lanes))
                columns = [f.load(f.offset(place, gate * f.lanes), f.vector) for gate in range(gates)]
                for state, own in zip(states, sums, strict=True):
                    value = f.splat(f.load(f.offset(state, k + i)), f.vector)
                    for column, each in zip(columns, own, strict=True):
                        variable = each[i % depth]
                        variable.set(f.multiply_add(value, column, variable.get()))
        return [[_add_up([variable.get() for variable in each]) for each in own] for own in sums]


def _add_up(values: Sequence[Value]) -> Value:
    """Return the pairwise sum of a power-of-two number of values."""
    while len(values) > 1:
        values = [a + b for a, b in zip(values[::2], values[1::2], strict=True)]
    return values[0]


class _Step(NamedTuple):
    """A step for a batch size.

    Attributes:
        kernels: The kernels of the parts.
        units: The number of units.
        scratch_sizes: Bytes of the scratch memory of the parts.
        is_shared: For each part, whether threads divide it.
    """

    kernels: tuple[Kernel, ...]
    units: int
    scratch_sizes: tuple[int, ...]
    is_shared: tuple[bool, ...]


@functools.lru_cache(maxsize=256)
def _prepare_step(name: str, hidden: int, batch: int) -> _Step:
    """Return the kernels of a step."""
    lanes = get_lanes()
    kernels, sizes, is_shared = [], [], []
    for part in PARTS[name]:
        tile = _count_rows(part, batch)
        kernels.append(_compile_step(part, tile, batch % tile, hidden % lanes > 0))
        sizes.append(F32.itemsize * batch * part.gates * lanes if batch > 1 else 0)
        is_shared.append(batch * part.gates * hidden * hidden >= MIN_SHARED_SIZE)
    return _Step(tuple(kernels), -(-hidden // lanes), tuple(sizes), tuple(is_shared))


@cache_kernel
def _compile_steps(part_count: int) -> Kernel:
    """Return the kernel that computes several steps of a recurrence with a number of parts."""
    numbers = range(part_count)
    arrays = ("projection", "old", "new", "output", "first", "second", "bias", "sums")
    pointers = (*arrays, *(f"weights{i}" for i in numbers), *(f"step{i}" for i in numbers))
    integers = ("steps", "projection_step", "output_step", "units", *INTEGERS[:-2])
    f = Function(f"recurrent_steps_{part_count}", [*((n, "ptr") for n in pointers), *((n, "i64") for n in integers)], 4)
    p = f.parameters
    with f.loop(0, p["steps"]) as step:
        is_first = f.compare("eq", step & 1, 0)
        before, after = f.select(is_first, p["old"], p["new"]), f.select(is_first, p["new"], p["old"])
        projection = f.offset(p["projection"], step * p["projection_step"])
        output = f.offset(p["output"], step * p["output_step"])
        states = [(before, after, p["bias"])]
        if part_count == 2:
            states = [(before, p["second"], p["bias"]), (p["second"], after, before)]
        for i, (state, result, second) in enumerate(states):
            own = (projection, state, result, output, p["first"], second, p[f"weights{i}"], p["sums"])
            shown = [f"ptr {value}" for value in own]
            shown += [f"i64 {value}" for value in (*(p[n] for n in INTEGERS[:-2]), 0, p["units"])]
            f.append(f"call void {p[f'step{i}']}({', '.join(shown)})")
    return compile_function(f)


@functools.lru_cache(maxsize=256)
def _make_tasks(
    name: str, hidden: int, batch: int, projection_row: int, output_row: int, thread_count: int
) -> tuple[Task, ...]:
    """Return the tasks of a step. Their arrays are `ARRAYS` and the weights."""
    step = _prepare_step(name, hidden, batch)
    tasks = []
    for kernel, scratch_size, is_shared in zip(step.kernels, step.scratch_sizes, step.is_shared, strict=True):
        count = min(thread_count, step.units) if is_shared else 1
        bounds = [step.units * i // count for i in range(count + 1)]
        arrays = [make_base(i) for i in range(len(ARRAYS) + 1)]
        integers = (projection_row, step.units * get_lanes(), output_row, hidden, batch)
        parts = ([Call(kernel, (*arrays, SCRATCH, *integers, *own))] for own in itertools.pairwise(bounds))
        tasks.append(Task(parts, scratch_size))
    return tuple(tasks)


class _Jobs(NamedTuple):
    """The jobs of a step.

    Attributes:
        words: Their words; see `irrun.fast.jit.team_code`.
        positions: The positions of the addresses of arrays.
        columns: The number of the array for each position. The arrays of each part are consecutive.
        scratch: For each address of scratch memory: its position, the number of the thread, and the size.
        helper_count: The number of helpers that take part.
        tasks: The tasks; `words` contains addresses of their data.
    """

    words: Array
    positions: Array
    columns: Array
    scratch: list[list[int]]
    helper_count: int
    tasks: tuple[Task, ...]


@functools.lru_cache(maxsize=256)
def _make_jobs(name: str, hidden: int, batch: int, projection_row: int, output_row: int, thread_count: int) -> _Jobs:
    """Return the jobs of a step; see `_make_tasks`."""
    tasks = _make_tasks(name, hidden, batch, projection_row, output_row, thread_count)
    count = len(ARRAYS) + 1
    words: list[int] = []
    positions: list[int] = []
    columns: list[int] = []
    scratch: list[list[int]] = []
    for number, task in enumerate(tasks):
        helpers = task.count_helpers(thread_count)
        words += task.describe(helpers, count)
        for thread in range(helpers + 1):
            if task.scratch_size:
                scratch.append([len(words) + 1, thread, task.scratch_size])
            positions += range(len(words) + 2, len(words) + 2 + count)
            columns += range(number * count, (number + 1) * count)
            words += [0] * (2 + count)
    helper_count = max(task.count_helpers(thread_count) for task in tasks)
    return _Jobs(np.array(words, np.int64), np.array(positions), np.array(columns), scratch, helper_count, tasks)


class CompiledWeights(NamedTuple):
    """The weights of a recurrence in the order that its kernels read.

    Attributes:
        name: The name of the recurrence in `PARTS`.
        hidden: The size of the hidden state.
        matrices: The recurrent weights of each part.
        hidden_bias: The bias of the product of the candidate of a GRU, with zeros up to whole units.
    """

    name: str
    hidden: int
    matrices: tuple[Array, ...]
    hidden_bias: Array

    @property
    def size(self) -> int:
        """The size of the state with zeros up to whole units."""
        return len(self.hidden_bias)


def pack_weights(name: str, matrices: Sequence[Array], hidden_bias: Array | None = None) -> CompiledWeights:
    """Arrange the weights of a recurrence.

    Args:
        name: The name of the recurrence in `PARTS`.
        matrices: The recurrent weights of each part, f32, shape [gates * hidden, hidden].
        hidden_bias: The bias of the product of the candidate of a GRU, shape [hidden].
    """
    lanes, hidden = get_lanes(), matrices[0].shape[1]
    size = hidden + -hidden % lanes
    packed = []
    for part, matrix in zip(PARTS[name], matrices, strict=True):
        result = np.zeros((part.gates, size, size), np.float32)
        result[:, :hidden, :hidden] = matrix.reshape(part.gates, hidden, hidden)
        grouped = _count_grouped(part.gates)
        by_unit = result.reshape(part.gates // grouped, grouped, size // lanes, lanes, size)
        packed.append(allocate_kept((size // lanes, part.gates // grouped, size, grouped, lanes)))
        packed[-1][...] = by_unit.transpose(2, 0, 4, 1, 3)
    bias = np.zeros(size, np.float32)
    if hidden_bias is not None:
        bias[:hidden] = hidden_bias
    return CompiledWeights(name, hidden, tuple(packed), bias)


def arrange_gates(values: Array, hidden: int) -> Array:
    """Return projections in the order that kernels read.

    Args:
        values: f32, shape [..., gates * hidden].
        hidden: The size of the hidden state.

    Returns:
        Shape [..., units * gates * lanes], with zeros up to whole units.
    """
    lanes, lead = get_lanes(), values.shape[:-1]
    gates, units = values.shape[-1] // hidden, -(-hidden // lanes)
    result = np.zeros((*lead, gates, units * lanes), np.float32)
    result[..., :hidden] = values.reshape(*lead, gates, hidden)
    return np.ascontiguousarray(result.reshape(*lead, gates, units, lanes).swapaxes(-2, -3)).reshape(*lead, -1)


def compile_weights(weights: RecurrentWeights) -> RecurrentWeights:
    """Return the weights of a recurrence whose steps are compiled."""
    parts = [weights.options["matrix"], weights.options.get("candidate_weights")]
    matrices = [part.matrix for part in parts if part is not None]
    hidden = weights.hidden
    packed = pack_weights(weights.recurrence.__name__, matrices, weights.options.get("hidden_bias"))
    bias = None if weights.bias is None else arrange_gates(weights.bias, hidden)
    project = Projection(arrange_gates(weights.W, hidden), bias)
    rows = max(MIN_BLOCK_ROWS, PROJECTION_SIZE // (len(packed.hidden_bias) * weights.gates))
    return weights.replace_recurrence(functools.partial(_start, packed), project, rows)


def _start(packed: CompiledWeights, weights: RecurrentWeights, batch: int, states: Sequence[Array]) -> Recurrence:
    return CompiledRecurrence(packed, batch, states)


class CompiledRecurrence:
    """The state of one direction while it runs.

    Args:
        weights: The weights.
        batch: The batch size.
        states: The initial states, [batch, hidden] each: the hidden state, and for an LSTM the cell state.
    """

    def __init__(self, weights: CompiledWeights, batch: int, states: Sequence[Array]) -> None:
        self._weights = weights
        self._state_count = len(states)
        #: The hidden state and its next value, in any order, and two arrays of the recurrence.
        self._values = np.zeros((4, batch, weights.size), np.float32)
        self._current = 0
        for place, state in zip((0, 2), states, strict=False):
            self._values[place, :, : weights.hidden] = state

    def run_block(self, projection: Array, outputs: Array) -> None:
        """Run several steps.

        Args:
            projection: The part of the gates that does not depend on the state, shape
                [time, batch, units * gates * lanes]; see `arrange_gates`.
            outputs: Where the hidden states are written, shape [time, batch, hidden], the last axis contiguous.
        """
        projection = np.ascontiguousarray(projection)
        steps, batch, _ = projection.shape
        step = _prepare_step(self._weights.name, self._weights.hidden, batch)
        if get_thread_count() > 1 and any(step.is_shared):
            self._run_shared(projection, outputs)
        else:
            self._run_alone(projection, outputs, step)
        self._current ^= steps & 1

    def _run_alone(self, projection: Array, outputs: Array, step: _Step) -> None:
        """Run the steps in one call."""
        weights = self._weights
        steps, batch, columns = projection.shape
        values, size = get_address(self._values), batch * weights.size * F32.itemsize
        old, new = values + self._current * size, values + (1 - self._current) * size
        output_step, output_row = outputs.strides[0] // F32.itemsize, outputs.strides[1] // F32.itemsize
        _compile_steps(len(step.kernels))(
            get_address(projection), old, new, get_address(outputs), values + 2 * size, values + 3 * size,
            get_address(weights.hidden_bias), reserve_scratch(0, max(step.scratch_sizes)),
            *[get_address(matrix) for matrix in weights.matrices], *[kernel.address for kernel in step.kernels],
            steps, batch * columns, output_step, step.units, columns, weights.size, output_row, weights.hidden, batch,
        )  # fmt: skip

    def _run_shared(self, projection: Array, outputs: Array) -> None:
        """Run each step on several threads."""
        weights = self._weights
        steps, batch, columns = projection.shape
        output_row = outputs.strides[1] // F32.itemsize
        jobs = _make_jobs(weights.name, weights.hidden, batch, columns, output_row, get_thread_count())
        old, new, first, second = (get_address(self._values[i]) for i in (self._current, 1 - self._current, 2, 3))
        # The address of an array in a step is its base + (step + shift & mask) * size.
        projections = get_address(projection), 0, -1, projection.strides[0]
        results = get_address(outputs), 0, -1, outputs.strides[0]
        before, after = ((old, shift, 1, new - old) for shift in (0, 1))
        fixed = [(address, 0, 0, 0) for address in (first, second, get_address(weights.hidden_bias))]
        matrices = [(get_address(matrix), 0, 0, 0) for matrix in weights.matrices]
        if len(matrices) == 1:
            arrays = [projections, before, after, results, fixed[0], fixed[2], matrices[0]]
        else:
            arrays = [projections, before, fixed[1], results, fixed[0], fixed[2], matrices[0]]
            arrays += [projections, fixed[1], after, results, fixed[0], before, matrices[1]]
        bases, shifts, masks, sizes = np.array(arrays, np.int64)[jobs.columns].T
        words = np.empty((steps, len(jobs.words)), np.int64)
        words[...] = jobs.words
        for position, thread, size in jobs.scratch:
            words[:, position] = reserve_scratch(thread, size)
        words[:, jobs.positions] = (np.arange(steps)[:, np.newaxis] + shifts & masks) * sizes + bases
        run_jobs(words.reshape(-1), steps * len(matrices), jobs.helper_count)

    def get_states(self) -> list[Array]:
        """Return the present states, [batch, hidden] each."""
        return [np.array(self._values[i, :, : self._weights.hidden]) for i in (self._current, 2)[: self._state_count]]
