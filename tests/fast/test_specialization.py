"""The registration of specializers, and the specialized program as a whole."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fast.harness import find_operation, make_floats, make_programs
from irrun.errors import IrrunError
from irrun.fast import specialization
from irrun.fast.modules import MODULES
from irrun.ops._support.operation import Operation
from irrun.ops._support.registry import list_operations
from irrun.runtime.executor import Executor, RequestState


def load_specializers() -> dict[str, str]:
    """Return the module that registers the specializer of each operation."""
    for module in set(MODULES.values()):
        importlib.import_module(f"irrun.fast.{module}")
    return {name: f.__module__.split(".")[2] for name, f in specialization._specializers.items()}


def test_table_lists_what_modules_register():
    registered = {name.rpartition("-")[0]: module for name, module in load_specializers().items()}
    assert registered == MODULES


def test_specialized_operations_exist():
    assert set(load_specializers()) <= {str(operation) for operation in list_operations()}


def test_operation_of_user_is_never_replaced():
    def add(a, b):
        return a - b

    operation = Operation.from_function(add, "Add", since=1)
    _, fast = make_programs(operation, [make_floats((2,)), make_floats((2,))], {}, (), 1)
    assert fast.instructions[0].kernel is add


def test_plain_program_is_not_changed():
    plain, fast = make_programs(find_operation("Add-1"), [make_floats((2,))] * 2, {}, (), 1)
    assert plain.instructions[0].kernel is find_operation("Add-1").kernel
    assert fast.instructions[0].plain[0].kernel is plain.instructions[0].kernel


@pytest.mark.falls_back
def test_error_of_plain_kernel_is_reported():
    inputs = [make_floats((2,)), make_floats((3,))]
    _, fast = make_programs(find_operation("Add-1"), inputs, {}, (), 1)
    with pytest.raises(IrrunError, match="cannot be broadcast"):
        Executor(fast, RequestState()).run(inputs)


@pytest.mark.parametrize(
    ("name", "constant", "attributes"),
    [
        ("Reshape-1", np.array([0, -1, 2]), {"special_zero": True}),
        ("ShapeOf-1", None, {}),
        ("Tile-1", np.array([2, 1]), {}),
        ("ReduceMean-1", np.array([0]), {}),
        ("MVN-6", np.array([-1]), {"normalize_variance": True, "eps": 1e-5, "eps_mode": "inside_sqrt"}),
        ("Split-1", np.array(1), {"num_splits": 2}),
        ("Pad-1", None, {"pad_mode": "constant"}),
        ("Broadcast-3", np.array([3, 1, 1]), {"mode": "bidirectional"}),
    ],
)
def test_threads_share_specialized_kernels(name, constant, attributes):
    variants = [make_floats((n, 4), n) for n in range(1, 9)]
    inputs = [variants[0]] if constant is None else [variants[0], constant]
    if name == "Pad-1":
        inputs = [variants[0], np.array([1, 2]), np.array([0, 3])]
    constants = range(1, len(inputs))
    outputs = 2 if name == "Split-1" else 1
    plain, fast = make_programs(find_operation(name), inputs, attributes, constants, outputs)
    expected = [Executor(plain, RequestState()).run([x]) for x in variants]

    def run(seed: int) -> None:
        executor = Executor(fast, RequestState())
        rng = np.random.default_rng(seed)
        for i in rng.integers(0, len(variants), 2000):
            for a, b in zip(executor.run([variants[i]]), expected[i], strict=True):
                assert a.shape == b.shape
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, range(2)))
