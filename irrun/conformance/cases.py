"""Cases of single operations, and the generators that yield them.

A module in `generators/` yields the cases to test for each versioned operation:

    @register_cases("Gather", since=8)
    def gather_8(rng):
        for axis in (0, -1):
            yield Case([data, indices, np.array(axis)], {"batch_dims": 0})
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

__all__ = ["GENERATORS", "Case", "generate_cases", "list_cases", "load_generators", "register_cases"]


@dataclass
class Case:
    """A configuration of one operation: inputs, attributes and how to check the outputs.

    Attributes:
        inputs: One value per input port. None omits an optional port at the end.
        attributes: The attributes, as NodeFactory expects them.
        constants: Positions of inputs that are Constants of the model. All others are Parameters.
        dynamic: Positions of Parameters that are declared with dynamic dimensions.
        tolerance: (rtol, atol) for floating-point outputs. None allows a few units in the last place of the type.
        optimized_tolerance: (rtol, atol) for runs with specialized kernels, where they round differently. None is
            `tolerance`.
        faults: Names of known faults of OpenVINO that the configuration may show; see
            `irrun.conformance.faults`. All other differences from OpenVINO are failures.
        expected: Precomputed values, one per output, to compare in addition to the oracles. None
            skips an output.
        build: Builds the whole ov.Model in place of NodeFactory. Its Parameters take `inputs` in order.
        opset: The opset that NodeFactory uses. None is the first opset of the operation.
        outputs: Positions of the outputs to compare. None compares all.
        normalize: Applied to both lists of outputs before they are compared, where the order or the padding of the
            results is undefined.
        is_readable: Whether OpenVINO reads the operation from files. No oracle runs others: plugins would mistake the
            layer, which Python defines, for their own operation of this name.
        note: The subject of the test, printed when it fails.
    """

    inputs: Sequence[np.ndarray | None] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: Sequence[int] = ()
    dynamic: Sequence[int] = ()
    tolerance: tuple[float, float] | None = None
    optimized_tolerance: tuple[float, float] | None = None
    faults: Sequence[str] = ()
    expected: Sequence[np.ndarray | None] | None = None
    build: Callable[[], Any] | None = None
    opset: int | None = None
    outputs: Sequence[int] | None = None
    normalize: Callable[[list[Any]], list[Any]] | None = None
    is_readable: bool = True
    note: str = ""

    @property
    def parameter_values(self) -> list[np.ndarray]:
        """The values of the inputs that are Parameters, in order."""
        return [x for i, x in enumerate(self.inputs) if x is not None and i not in self.constants]


Generator = Callable[[np.random.Generator], Iterator[Case]]
Function = TypeVar("Function", bound=Callable[..., Iterator[Case]])
GENERATORS: dict[tuple[str, int], Generator] = {}


def register_cases(type: str, /, since: int, **options: Any) -> Callable[[Function], Function]:
    """Register the decorated function as the generator of cases for one versioned operation.

    Args:
        type: The type of the operation.
        since: Its version.
        options: Arguments of the function, for one that generates the cases of several operations.
    """

    def register(generator: Function) -> Function:
        assert (type, since) not in GENERATORS, f"{type}-{since} has two generators"
        GENERATORS[type, since] = partial(generator, **options) if options else generator
        return generator

    return register


def load_generators() -> None:
    """Import every module of `generators`, which fills GENERATORS."""
    for module in pkgutil.iter_modules([str(Path(__file__).with_name("generators"))], "irrun.conformance.generators."):
        importlib.import_module(module.name)


def generate_cases(type: str, since: int, seed: int | None = None) -> Iterator[Case]:
    """Yield the cases of one operation.

    Args:
        type: The type of the operation.
        since: Its version.
        seed: Added to a seed that depends on the operation alone. None is the environment variable IRRUN_SEED.
    """
    offset = int(os.environ.get("IRRUN_SEED", "0")) if seed is None else seed
    return GENERATORS[type, since](np.random.default_rng(zlib.crc32(f"{type}-{since}".encode()) + offset))


@cache
def list_cases(type: str, since: int, seed: int | None = None) -> tuple[Case, ...]:
    """Return the cases of one operation, generated once per process."""
    return tuple(generate_cases(type, since, seed))
