"""ONNX's backend tests, converted to IR by OpenVINO and run on irrun and on OpenVINO's CPU plugin.

`onnx.backend.test` brings some 2,000 small models with inputs and expected outputs. `run_test` takes one of them
through `openvino.Core().read_model`, writes the graph as it is, and holds what irrun and OpenVINO compute from it
against what ONNX expects. The converter may crash the process on a model, so a `Suite` runs tests in a process of
its own and goes on in a new one.
"""

from __future__ import annotations

import glob
import tempfile
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["KINDS", "Outcome", "Suite", "compare", "list_tests", "run_test"]

#: The tests whose data lies in the package; the others are large models to download.
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")


@dataclass(frozen=True)
class Outcome:
    """What became of one test.

    Attributes:
        name: kind/name.
        unconverted: why OpenVINO has no IR for it; "" where it has.
        irrun, openvino: what went wrong there; "" where the test passes.
        alike: whether both gave the same outputs, at the test's tolerances, whatever it expects.
        operations: what the IR consists of, as `str(irrun.ops._support.registry.Operation)`.
    """

    name: str
    unconverted: str = ""
    irrun: str = ""
    openvino: str = ""
    alike: bool = False
    operations: tuple[str, ...] = ()


class Suite:
    """The tests, run one after another in a child process, which may crash."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Suite:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def names(self) -> list[str]:
        """All tests, sorted."""
        names: list[str] = self._submit(list_tests)
        return names

    def run(self, name: str) -> Outcome:
        """Run one test; where that crashes, without OpenVINO's plugin."""
        outcome: Outcome
        for with_plugin in (True, False):
            try:
                outcome = self._submit(run_test, name, with_plugin)
            except BrokenProcessPool:
                continue
            return outcome
        return Outcome(name, irrun="the process crashes", openvino="the process crashes")

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn"))
        try:
            return self._pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            self._pool = None
            raise


def list_tests() -> list[str]:
    """The names of all tests, as kind/name."""
    return sorted(_tests())


def run_test(name: str, with_plugin: bool = True) -> Outcome:
    """Convert one test's model and run it on both sides, or on irrun alone."""
    import onnx
    import openvino as ov

    test = _tests()[name]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.xml"
        try:
            model = test.model if test.model is not None else onnx.load(Path(test.model_dir) / "model.onnx")
            data_sets = list(_data_sets(test, model))
            if not data_sets:
                return Outcome(name, unconverted="the test has no data")
            if not all(isinstance(v, np.ndarray) for fed, expected in data_sets for v in (*fed.values(), *expected)):
                return Outcome(name, unconverted="IR has no sequences and no optional values")
            onnx.save(model, path.with_suffix(".onnx"))
            converted = _core().read_model(path.with_suffix(".onnx"))
            ov.serialize(converted, path)
        except Exception as error:
            return Outcome(name, unconverted=str(error).strip())

        results: dict[str, list[list[Any]]] = {}

        def outcome(side: str, run: Callable[[Any, Sequence[Any]], list[list[Any]]], given: Any) -> str:
            try:
                results[side] = run(given, data_sets)
                compare(results[side], [expected for _, expected in data_sets], test.rtol, test.atol)
            except Exception as error:
                return str(error).replace(str(path), path.name).strip() or type(error).__name__
            return ""

        irrun_says = outcome("irrun", _run_irrun, path)
        openvino_says = outcome("openvino", _run_openvino, converted) if with_plugin else "the process crashes"
        try:
            compare(results["irrun"], results["openvino"], test.rtol, test.atol)
            alike = True
        except (KeyError, AssertionError):
            alike = False
        return Outcome(name, "", irrun_says, openvino_says, alike, _operations(path))


def _operations(path: Path) -> tuple[str, ...]:
    import irrun
    from irrun.ops._support.registry import find

    try:
        layers = [layer for _, layer in irrun.read_model(path).graph.walk()]
    except irrun.ModelError:
        return ()
    return tuple(sorted({str(find(layer.type, layer.version) or layer.type) for layer in layers}))


@lru_cache(maxsize=1)
def _tests() -> dict[str, Any]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # making the expected values overflows here and there, on purpose
        return {f"{kind}/{t.name}": t for kind in KINDS for t in load_model_tests(kind=kind)}


@lru_cache(maxsize=1)
def _core() -> Any:
    import openvino as ov

    core = ov.Core()
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    return core


def _data_sets(test: Any, model: Any) -> Any:
    """(name -> value fed, values expected) for each set of data that belongs to a test."""
    names = [i.name for i in model.graph.input]
    if test.data_sets is not None:
        for inputs, outputs in test.data_sets:
            yield dict(zip(names, map(_value, inputs), strict=False)), list(map(_value, outputs))
        return
    for folder in sorted(glob.glob(str(Path(test.model_dir) / "test_data_set_*"))):
        inputs = _files(folder, "input", [i.type for i in model.graph.input])
        yield dict(zip(names, inputs, strict=False)), _files(folder, "output", [o.type for o in model.graph.output])


def _files(folder: str, prefix: str, types: Sequence[Any]) -> list[Any]:
    import onnx

    count = len(glob.glob(f"{folder}/{prefix}_*.pb"))
    values = []
    for i, type_proto in zip(range(count), types, strict=False):
        kind = type_proto.WhichOneof("value")
        proto = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}.get(kind, onnx.TensorProto)()
        proto.ParseFromString((Path(folder) / f"{prefix}_{i}.pb").read_bytes())
        values.append(_value(proto))
    return values


def _value(given: Any) -> Any:
    """A tensor as an array, a sequence as a list."""
    import onnx
    from onnx import numpy_helper

    if isinstance(given, onnx.TensorProto):
        given = numpy_helper.to_array(given)
    elif isinstance(given, onnx.SequenceProto):
        given = numpy_helper.to_list(given)
    elif isinstance(given, onnx.OptionalProto):
        given = numpy_helper.to_optional(given)
    if isinstance(given, (list, tuple)) or given is None:
        return given
    array = np.asarray(given)
    return array.astype(object) if array.dtype.kind in "SU" else array


def _run_irrun(path: Path, data_sets: Sequence[Any]) -> list[list[Any]]:
    import irrun

    compiled = irrun.compile_model(path)
    found = []
    for fed, _ in data_sets:
        result = compiled(dict(enumerate(_arguments([t.names for t in compiled.inputs], fed))))
        found.append([result[i] for i in range(len(compiled.outputs))])
    return found


def _run_openvino(model: Any, data_sets: Sequence[Any]) -> list[list[Any]]:
    request = _core().compile_model(model, "CPU").create_infer_request()
    compiled = request.get_compiled_model()
    found = []
    for fed, _ in data_sets:
        for i, value in enumerate(_arguments([port.names for port in compiled.inputs], fed)):
            request.set_input_tensor(i, _to_tensor(value))
        request.infer()
        found.append([_from_tensor(request.get_output_tensor(i)) for i in range(len(compiled.outputs))])
    return found


def _arguments(inputs: Sequence[Any], fed: dict[str, Any]) -> list[Any]:
    """The values for inputs that have these names.

    The converter gives the input of a layer that it drops the name of that layer's output; then the order tells.
    """
    if all(not set(names).isdisjoint(fed) for names in inputs):
        return [next(fed[name] for name in names if name in fed) for names in inputs]
    if len(inputs) != len(fed):
        raise ValueError(f"{len(inputs)} inputs instead of {len(fed)}")
    return list(fed.values())


def _to_tensor(value: Any) -> Any:
    import openvino as ov
    from conformance.harness import to_tensor

    from irrun.element_types import ElementType
    from irrun.packing import pack

    if not isinstance(value, np.ndarray):
        raise TypeError(f"{type(value).__name__} for an input that is a tensor")
    element = ElementType.of(value.dtype)
    if not element.is_packed:
        return to_tensor(value)
    tensor = ov.Tensor(getattr(ov.Type, element.name), ov.Shape(list(value.shape)))
    tensor.data.reshape(-1).view(np.uint8)[:] = np.frombuffer(pack(element, value), np.uint8)
    return tensor


def _from_tensor(tensor: Any) -> np.ndarray[Any, Any]:
    from conformance.harness import from_tensor

    from irrun.element_types import ElementType
    from irrun.packing import unpack

    element = ElementType.parse(tensor.element_type.get_type_name())
    if not element.is_packed:
        return from_tensor(tensor)
    return unpack(element, np.array(tensor.data).reshape(-1).view(np.uint8), tuple(tensor.shape))


def compare(found: list[list[Any]], expected: list[list[Any]], rtol: float, atol: float) -> None:
    """Assert that the outputs of all sets of data agree in number, type, shape and value.

    bf16 may differ by two units in the last place, as in ONNX's own runner.
    """
    from irrun.ops._support.numerics import is_float, upcast

    for ours, theirs in zip(found, expected, strict=True):
        assert len(ours) == len(theirs), f"{len(ours)} outputs instead of {len(theirs)}"
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            where = f"output {i}: " if len(ours) > 1 else ""
            assert a.dtype == b.dtype, f"{where}{a.dtype} instead of {b.dtype}"
            assert a.shape == b.shape, f"{where}shape {list(a.shape)} instead of {list(b.shape)}"
            if is_float(a.dtype):
                a, b = upcast(a), upcast(b)
                relative = max(rtol, 2**-6) if theirs[i].dtype.name == "bfloat16" else rtol
                wrong = ~np.isclose(a, b, rtol=relative, atol=atol, equal_nan=True)
            else:
                wrong = a != b
            if np.any(wrong):
                at = tuple(int(k) for k in np.argwhere(wrong)[0])
                raise AssertionError(
                    f"{where}{np.count_nonzero(wrong)} of {a.size} values differ; "
                    f"first {a[at]} instead of {b[at]} at {list(at)}"
                )
