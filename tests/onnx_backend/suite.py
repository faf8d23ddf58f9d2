"""ONNX's backend tests, converted to IR by OpenVINO and run on irrun and on OpenVINO's CPU plugin.

`onnx.backend.test` contains some 2,000 small models with inputs and expected outputs. `run_test` reads one of them
with `openvino.Core().read_model`, serializes the graph without further transformations, and compares the outputs of
irrun and of OpenVINO with those that ONNX expects. A conversion may crash the process, so a `Suite` runs the tests in
a child process, which it replaces after a crash.

ONNX computes the expected outputs when the tests are loaded, which takes seconds. `share_tests` keeps them in a file,
for other processes.
"""

from __future__ import annotations

import glob
import pickle
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import numpy as np

import irrun
from irrun.atomic_files import atomic_write

__all__ = ["KINDS", "Outcome", "Suite", "compare_outputs", "load_data_sets", "load_tests", "run_test", "share_tests"]

#: The kinds of tests whose data is part of the package. Others download large models.
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")

Plugin = Literal["always", "if needed", "never"]


@dataclass(frozen=True)
class Outcome:
    """The outcome of one test.

    Attributes:
        name: The name of the test, as kind/name.
        conversion_error: Why OpenVINO could not convert the model, or "".
        irrun_error: Why the test fails on irrun, or "" if it passes.
        openvino_error: Why the test fails on OpenVINO's CPU plugin, or "" if it passes.
        outputs_agree: Whether both computed the same outputs, within the tolerances of the test.
        operations: The operations of the IR, as `str(Operation)`.
    """

    name: str
    conversion_error: str = ""
    irrun_error: str = ""
    openvino_error: str = ""
    outputs_agree: bool = False
    operations: tuple[str, ...] = ()


class Suite:
    """Runs tests one after another in a child process, which may crash.

    Args:
        tests: The tests by name, as kind/name.
    """

    def __init__(self, tests: Mapping[str, Any]) -> None:
        self.tests = tests
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Suite:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def run(self, name: str, plugin: Plugin = "always") -> Outcome:
        """Run one test. If the process crashes, run it again without OpenVINO's plugin."""
        outcome: Outcome
        for choice in (plugin, "never"):
            try:
                outcome = self._submit(run_test, name, self.tests[name], choice)
            except BrokenProcessPool:
                continue
            return outcome
        return Outcome(name, irrun_error="the process crashes", openvino_error="the process crashes")

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn"))
        try:
            return self._pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            self._pool = None
            raise


def run_test(name: str, test: Any, plugin: Plugin = "always") -> Outcome:
    """Convert the model of one test and run it on irrun and on OpenVINO's CPU plugin.

    Args:
        name: The name of the test, as kind/name.
        test: ONNX's test.
        plugin: When to run the CPU plugin. "if needed" is where irrun fails: it takes most of the time.
    """
    import onnx
    import openvino as ov

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.xml"
        try:
            model = test.model if test.model is not None else onnx.load(Path(test.model_dir) / "model.onnx")
            data_sets = list(load_data_sets(test, model))
            if not data_sets:
                return Outcome(name, conversion_error="the test has no data")
            values = [v for inputs, expected in data_sets for v in (*inputs.values(), *expected)]
            if not all(isinstance(v, np.ndarray) for v in values):
                return Outcome(name, conversion_error="IR has neither sequences nor optional values")
            onnx.save(model, path.with_suffix(".onnx"))
            converted = _get_core().read_model(path.with_suffix(".onnx"))
            ov.serialize(converted, path)
        except Exception as error:
            return Outcome(name, conversion_error=str(error).strip())

        source: irrun.Model | Path = path
        operations: tuple[str, ...] = ()
        with suppress(irrun.ModelError):  # which `_run_irrun` reports
            source = irrun.read_model(path)
            operations = _list_operations(source)
        outputs: dict[str, list[list[Any]]] = {}

        def run_side(side: str, run: Callable[[Any, Sequence[Any]], list[list[Any]]], model: Any) -> str:
            try:
                outputs[side] = run(model, data_sets)
                compare_outputs(outputs[side], [expected for _, expected in data_sets], test.rtol, test.atol)
            except Exception as error:
                return str(error).replace(str(path), path.name).strip() or type(error).__name__
            return ""

        irrun_error = run_side("irrun", _run_irrun, source)
        if plugin == "always" or (plugin == "if needed" and irrun_error):
            openvino_error = run_side("openvino", _run_openvino, converted)
        else:
            openvino_error = "the process crashes" if plugin == "never" else "not run"
        try:
            compare_outputs(outputs["irrun"], outputs["openvino"], test.rtol, test.atol)
            outputs_agree = True
        except (KeyError, AssertionError):
            outputs_agree = False
        return Outcome(name, "", irrun_error, openvino_error, outputs_agree, operations)


def _list_operations(model: irrun.Model) -> tuple[str, ...]:
    from irrun.ops._support.registry import find

    layers = [layer for _, layer in model.graph.walk()]
    return tuple(sorted({str(find(layer.type, layer.version) or layer.type) for layer in layers}))


def share_tests(folder: Path) -> dict[str, Any]:
    """Return ONNX's tests by name, from a file in a folder, which is written if it does not exist."""
    path = folder / "onnx_backend_tests.pickle"
    if not path.exists():
        with atomic_write(path) as file:
            pickle.dump(load_tests(), file)
    tests: dict[str, Any] = pickle.loads(path.read_bytes())
    return tests


def load_tests() -> dict[str, Any]:
    """Return ONNX's tests by name, as kind/name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # some tests overflow on purpose when they compute the expected values
        return {f"{kind}/{t.name}": t for kind in KINDS for t in load_model_tests(kind=kind)}


@lru_cache(maxsize=1)
def _get_core() -> Any:
    import openvino as ov

    core = ov.Core()
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    return core


def load_data_sets(test: Any, model: Any) -> Any:
    """Yield (inputs by name, expected outputs) for each data set of a test."""
    names = [i.name for i in model.graph.input]
    if test.data_sets is not None:
        for inputs, outputs in test.data_sets:
            yield dict(zip(names, map(_to_value, inputs), strict=False)), list(map(_to_value, outputs))
        return
    for folder in sorted(glob.glob(str(Path(test.model_dir) / "test_data_set_*"))):
        inputs = _load_files(folder, "input", [i.type for i in model.graph.input])
        outputs = _load_files(folder, "output", [o.type for o in model.graph.output])
        yield dict(zip(names, inputs, strict=False)), outputs


def _load_files(folder: str, prefix: str, types: Sequence[Any]) -> list[Any]:
    import onnx

    count = len(glob.glob(f"{folder}/{prefix}_*.pb"))
    values = []
    for i, type_proto in zip(range(count), types, strict=False):
        kind = type_proto.WhichOneof("value")
        proto = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}.get(kind, onnx.TensorProto)()
        proto.ParseFromString((Path(folder) / f"{prefix}_{i}.pb").read_bytes())
        values.append(_to_value(proto))
    return values


def _to_value(value: Any) -> Any:
    """Convert a tensor to an array and a sequence to a list."""
    import onnx
    from onnx import numpy_helper

    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    elif isinstance(value, onnx.SequenceProto):
        value = numpy_helper.to_list(value)
    elif isinstance(value, onnx.OptionalProto):
        value = numpy_helper.to_optional(value)
    if isinstance(value, (list, tuple)) or value is None:
        return value
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "SU" else array


def _run_irrun(model: irrun.Model | Path, data_sets: Sequence[Any]) -> list[list[Any]]:
    compiled = irrun.compile_model(model, precision="declared")  # ONNX rounds each value to its type
    outputs = []
    for inputs, _ in data_sets:
        result = compiled(dict(enumerate(_match_inputs([t.names for t in compiled.inputs], inputs))))
        outputs.append([result[i] for i in range(len(compiled.outputs))])
    return outputs


def _run_openvino(model: Any, data_sets: Sequence[Any]) -> list[list[Any]]:
    request = _get_core().compile_model(model, "CPU").create_infer_request()
    compiled = request.get_compiled_model()
    outputs = []
    for inputs, _ in data_sets:
        for i, value in enumerate(_match_inputs([port.names for port in compiled.inputs], inputs)):
            request.set_input_tensor(i, _to_tensor(value))
        request.infer()
        outputs.append([_from_tensor(request.get_output_tensor(i)) for i in range(len(compiled.outputs))])
    return outputs


def _match_inputs(ports: Sequence[Any], values: dict[str, Any]) -> list[Any]:
    """Return the values of a model's inputs in order.

    When the converter drops a layer, it assigns the name of the layer's output to the input. Values are then matched
    by position.

    Args:
        ports: The names of each input.
        values: Values by the input names of the ONNX model.
    """
    if all(not set(names).isdisjoint(values) for names in ports):
        return [next(values[name] for name in names if name in values) for names in ports]
    if len(ports) != len(values):
        raise ValueError(f"{len(ports)} inputs, expected {len(values)}")
    return list(values.values())


def _to_tensor(value: Any) -> Any:
    import openvino as ov

    from irrun.conformance.harness import to_tensor
    from irrun.element_types import ElementType
    from irrun.packing import pack

    if not isinstance(value, np.ndarray):
        raise TypeError(f"expected an array for a tensor input, found {type(value).__name__}")
    element_type = ElementType.of(value.dtype)
    if not element_type.is_packed:
        return to_tensor(value)
    tensor = ov.Tensor(getattr(ov.Type, element_type.name), ov.Shape(list(value.shape)))
    tensor.data.reshape(-1).view(np.uint8)[:] = np.frombuffer(pack(element_type, value), np.uint8)
    return tensor


def _from_tensor(tensor: Any) -> np.ndarray[Any, Any]:
    from irrun.conformance.harness import from_tensor
    from irrun.element_types import ElementType
    from irrun.packing import unpack

    element_type = ElementType.parse(tensor.element_type.get_type_name())
    if not element_type.is_packed:
        return from_tensor(tensor)
    return unpack(element_type, np.array(tensor.data).reshape(-1).view(np.uint8), tuple(tensor.shape))


def compare_outputs(actual: list[list[Any]], expected: list[list[Any]], rtol: float, atol: float) -> None:
    """Assert that the outputs of all data sets agree in number, type, shape and value.

    bf16 may differ by two units in the last place, as in ONNX's own test runner.
    """
    from irrun.ops._support.numerics import is_float, upcast

    for actual_set, expected_set in zip(actual, expected, strict=True):
        assert len(actual_set) == len(expected_set), f"{len(actual_set)} outputs, expected {len(expected_set)}"
        for i, (a, b) in enumerate(zip(actual_set, expected_set, strict=True)):
            where = f"output {i}: " if len(actual_set) > 1 else ""
            assert a.dtype == b.dtype, f"{where}type {a.dtype}, expected {b.dtype}"
            assert a.shape == b.shape, f"{where}shape {list(a.shape)}, expected {list(b.shape)}"
            if is_float(a.dtype):
                a, b = upcast(a), upcast(b)
                relative = max(rtol, 2**-6) if expected_set[i].dtype.name == "bfloat16" else rtol
                differs = ~np.isclose(a, b, rtol=relative, atol=atol, equal_nan=True)
            else:
                differs = a != b
            if np.any(differs):
                first = tuple(int(k) for k in np.argwhere(differs)[0])
                raise AssertionError(
                    f"{where}{np.count_nonzero(differs)} of {a.size} values differ; "
                    f"first {a[first]}, expected {b[first]} at {list(first)}"
                )
