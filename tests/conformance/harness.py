"""Holds irrun against OpenVINO: builds one-operation models, runs them on both, compares.

A generator module in `generators/` says, for each versioned operation, which configurations to try:

    @configurations("Gather", since=8)
    def gather_8(rng):
        for axis in (0, -1):
            yield Case([data, indices, np.array(axis)], {"batch_dims": 0})
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import irrun
from irrun.element_types import ElementType
from irrun.ops._support.numerics import is_float, upcast

__all__ = ["GENERATORS", "Case", "configurations", "load_generators", "round_trip_case", "run_case"]

EXACT = (0.0, 0.0)


@dataclass
class Case:
    """One configuration of one operation.

    Attributes:
        inputs: the values fed, one per input port; None leaves a port out (only at the end).
        attributes: as NodeFactory takes them.
        constants: positions of inputs that are Constants of the model rather than Parameters.
        dynamic: positions of Parameters that are declared with dynamic dimensions.
        tolerance: (rtol, atol) for float outputs; None picks by type: a few units in the last place.
        oracles: which of OpenVINO's ways to compute are asked: "evaluate" (Model.evaluate, the reference
            implementation) and "cpu" (the CPU plugin in f32). Those that do not implement the configuration
            are passed over, but one must answer unless `expected` is given.
        expected: worked values, one per output (None: not checked), compared besides the oracles.
        build: makes the whole ov.Model instead of NodeFactory; its Parameters take `inputs` in order.
        opset: the opset asked of NodeFactory, where it is not the operation's first.
        outputs: positions of outputs to compare; all where None.
        normalize: applied to the list of outputs of each side before they are compared, where the order or the
            padding of results is not defined.
        note: what this configuration is about, printed when it fails.
    """

    inputs: Sequence[np.ndarray | None] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: Sequence[int] = ()
    dynamic: Sequence[int] = ()
    tolerance: tuple[float, float] | None = None
    oracles: Sequence[str] = ("evaluate", "cpu")
    expected: Sequence[np.ndarray | None] | None = None
    build: Callable[[], Any] | None = None
    opset: int | None = None
    outputs: Sequence[int] | None = None
    normalize: Callable[[list[np.ndarray]], list[np.ndarray]] | None = None
    note: str = ""


Generator = Callable[[np.random.Generator], Iterator[Case]]
GENERATORS: dict[tuple[str, int], Generator] = {}


def configurations(type: str, since: int) -> Callable[[Generator], Generator]:
    """Register the decorated generator of cases for one versioned operation; its rng is seeded by the name."""

    def register(generator: Generator) -> Generator:
        assert (type, since) not in GENERATORS, f"two generators for {type}-{since}"
        GENERATORS[type, since] = generator
        return generator

    return register


def load_generators() -> None:
    """Import every module of `generators`, so that GENERATORS is complete."""
    from conformance import generators

    for module in pkgutil.iter_modules(generators.__path__, "conformance.generators."):
        importlib.import_module(module.name)


def cases(type: str, since: int) -> Iterator[Case]:
    """The seeded configurations of one operation; IRRUN_SEED in the environment gives others."""
    seed = zlib.crc32(f"{type}-{since}".encode()) + int(os.environ.get("IRRUN_SEED", "0"))
    return GENERATORS[type, since](np.random.default_rng(seed))


def run_case(type: str, since: int, case: Case) -> None:
    """Run one configuration on irrun and on the oracles.

    Raises:
        AssertionError: outputs differ in number, type, shape or value, or no oracle could answer.
    """
    import openvino as ov

    model = case.build() if case.build else _build(type, since, case)
    fed = [x for i, x in enumerate(case.inputs) if x is not None and i not in case.constants]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.xml"
        ov.serialize(model, path)
        compiled = irrun.compile_model(path)
        result = compiled(list(fed))
        ours = [np.array(result[i]) for i in range(len(compiled.outputs))]
    answers = []
    reasons = []
    for oracle in case.oracles:
        try:
            answers.append((oracle, ORACLES[oracle](model, fed, [x.shape for x in ours])))
        except RuntimeError as error:
            reasons.append(f"{oracle}: {str(error)[:300]}")
    if case.expected is not None:
        answers.append(("expected", [None if e is None else np.asarray(e) for e in case.expected]))
    assert answers, "no oracle answered: " + "; ".join(reasons)
    for name, theirs in answers:
        compare(ours, theirs, case, name)


def round_trip_case(type: str, since: int, case: Case, same_values: bool = True) -> None:
    """Let irrun read and write the model of one configuration; OpenVINO must compute the same bits from both.

    Configurations that the CPU plugin does not run are passed over.

    Raises:
        AssertionError: OpenVINO cannot read what irrun wrote, or gives other results for it.
    """
    import openvino as ov

    model = case.build() if case.build else _build(type, since, case)
    fed = [x for i, x in enumerate(case.inputs) if x is not None and i not in case.constants]
    if "cpu" not in case.oracles:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.xml"
        ov.serialize(model, path)
        irrun.save_model(irrun.read_model(path), Path(folder) / "copy.xml")
        copy = _core().read_model(Path(folder) / "copy.xml")
        try:
            expected = _cpu(_core().read_model(path), fed)
        except RuntimeError:
            return
        found = _cpu(copy, fed)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if not same_values:
            continue
        if a.dtype == object:
            np.testing.assert_array_equal(a, b)
        else:
            assert a.tobytes() == b.tobytes() or case.normalize or np.array_equal(upcast(a), upcast(b), equal_nan=True)


def compare(ours: list[np.ndarray], theirs: Sequence[np.ndarray | None], case: Case, oracle: str = "oracle") -> None:
    """Assert that two lists of outputs agree in number, type, shape and value."""
    assert len(ours) == len(theirs), f"{oracle}: {len(ours)} outputs, expected {len(theirs)}"
    if case.normalize:
        ours, theirs = case.normalize(list(ours)), case.normalize(list(theirs))
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if b is None or (case.outputs is not None and i not in case.outputs):
            continue
        where = f"{oracle}, output {i}"
        same_type = ElementType.of(a.dtype) == ElementType.of(b.dtype)
        assert same_type, f"{where}: type {a.dtype}, expected {b.dtype}"
        assert a.shape == b.shape, f"{where}: shape {a.shape}, expected {b.shape}"
        if is_float(a.dtype):
            rtol, atol = case.tolerance or default_tolerance(a.dtype)
            x, y = upcast(a), upcast(b)
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(x, y, rtol=rtol, atol=atol, err_msg=where)
        else:
            np.testing.assert_array_equal(a, b, err_msg=where)


def default_tolerance(dtype: np.dtype) -> tuple[float, float]:
    """(rtol, atol) of a few units in the last place."""
    import ml_dtypes

    eps = float(ml_dtypes.finfo(dtype).eps)
    if dtype == np.float32:
        return 4e-6, 1e-6
    return (4 * eps, eps / 4) if dtype == np.float64 else (eps, eps / 8)


def to_tensor(x: np.ndarray) -> Any:
    """An ov.Tensor with the values of `x`, whatever its element type."""
    import openvino as ov

    element = ElementType.of(x.dtype)
    if element.name == "string":
        return ov.Tensor(np.array(x, dtype=object).astype("U"))
    if element.is_packed:
        raise TypeError(f"feed {element} as a Constant made with openvino itself")
    tensor = ov.Tensor(getattr(ov.Type, element.name), ov.Shape(list(x.shape)))
    if x.size:
        flat = np.ascontiguousarray(x).reshape(-1)
        tensor.data.reshape(-1).view(np.uint8)[:] = flat.view(np.uint8)
    return tensor


def from_tensor(tensor: Any) -> np.ndarray:
    """The values of an ov.Tensor in irrun's type for them."""
    element = ElementType.parse(tensor.element_type.get_type_name())
    if element.name == "string":
        return np.array(tensor.str_data, dtype=object).reshape(tuple(tensor.shape))
    data = np.array(tensor.data)
    return data if data.dtype == element.dtype else data.view(element.dtype)


def _build(type: str, since: int, case: Case) -> Any:
    import openvino as ov
    from openvino import op
    from openvino.utils.node_factory import NodeFactory

    parameters, arguments = [], []
    for i, x in enumerate(case.inputs):
        if x is None:
            continue
        if i in case.constants:
            arguments.append(op.Constant(to_tensor(x)).output(0))
            continue
        shape = ov.PartialShape([-1] * x.ndim) if i in case.dynamic else ov.PartialShape(list(x.shape))
        parameter = op.Parameter(getattr(ov.Type, ElementType.of(x.dtype).name), shape)
        parameter.set_friendly_name(f"input{i}")
        parameters.append(parameter)
        arguments.append(parameter.output(0))
    node = NodeFactory(f"opset{case.opset or since}").create(type, arguments, case.attributes)
    return ov.Model([op.Result(output) for output in node.outputs()], parameters)


@lru_cache(maxsize=1)
def _core() -> Any:
    import openvino as ov

    core = ov.Core()
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    return core


def _evaluate(model: Any, fed: Sequence[np.ndarray], shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    import openvino as ov

    # Some operations write to outputs of open shape without giving them a size: they get the size of our results.
    outputs = [
        ov.Tensor(o.element_type, o.shape if o.partial_shape.is_static else ov.Shape(list(shape)))
        for o, shape in zip(model.outputs, shapes, strict=True)
    ]
    if not model.evaluate(outputs, [to_tensor(x) for x in fed]):
        raise RuntimeError("evaluate is not implemented")
    return [from_tensor(t) for t in outputs]


def _cpu(model: Any, fed: Sequence[np.ndarray], _: object = None) -> list[np.ndarray]:
    request = _core().compile_model(model, "CPU").create_infer_request()
    for i, x in enumerate(fed):
        request.set_input_tensor(i, to_tensor(x))
    request.infer()
    return [from_tensor(request.get_output_tensor(i)) for i in range(len(model.outputs))]


ORACLES: dict[str, Callable[..., list[np.ndarray]]] = {
    "evaluate": _evaluate,
    "cpu": _cpu,
}
