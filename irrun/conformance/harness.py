"""Compare irrun with OpenVINO on models of a single operation."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import irrun
from irrun.conformance.cases import Case, list_cases
from irrun.conformance.fault import ORACLES, Oracle, get_instruction_set
from irrun.conformance.faults import find_faults
from irrun.element_types import ElementType
from irrun.fast.modules import MODULES
from irrun.ops._support.numerics import is_float, upcast

__all__ = [
    "build_model",
    "check_round_trips",
    "compare_outputs",
    "evaluate",
    "get_default_tolerance",
    "run_case",
    "run_on_device",
    "run_on_irrun",
    "write_model",
]

EXACT = (0.0, 0.0)
#: How many neighboring cases the CPU plugin compiles together. Compiling takes 12 ms for a model, and 1 ms for a case.
BATCH = 32


#: Operations that the CPU plugin computes differently if a model has several of them, so that round trips differ.
UNBATCHED = ("DeformableConvolution",)


def run_case(type: str, since: int, case: Case) -> None:
    """Run one case on irrun and compare the outputs with the expected ones and with the oracles.

    The case runs with and without optimization. Operations with specialized kernels also run with constants for all
    inputs but the first.

    The first oracle is OpenVINO's reference implementation, the second one its CPU plugin in f32. One that does not
    support the configuration is ignored, and one that differs from irrun must have a fault of the case on this
    processor. At least one must agree with irrun, unless the case has expected outputs. One with a fault runs only
    if nothing has confirmed the outputs yet.

    Raises:
        AssertionError: Outputs differ in number, type, shape or value, or nothing confirms them.
    """
    model = build_model(type, since, case)
    values = case.parameter_values
    with write_model(model) as path:
        results = run_variants(path, values)
    if type in MODULES and not case.build and sum(x is not None for x in case.inputs) > 1:
        constants = [i for i, x in enumerate(case.inputs) if i and x is not None]
        with_constants = replace(case, constants=constants)
        with write_model(build_model(type, since, with_constants)) as path:
            results["optimized with constants"] = run_on_irrun(path, with_constants.parameter_values)
    confirmed, remarks = [], []
    if case.expected is not None:
        compare_results(results, [None if e is None else np.asarray(e) for e in case.expected], case, "expected")
        confirmed.append("the expected outputs")
    for oracle, name in ORACLES.items() if case.is_readable else ():
        faults = find_faults(case.faults, oracle)
        if faults and confirmed:
            continue  # neither agreement nor a difference would change the outcome
        if any(fault.is_unsafe for fault in faults):
            remarks.append(f"{name} is not run: {faults[0].title}")
            continue
        try:
            if oracle == "cpu" and _agrees_in_batch(type, since, case, results):
                confirmed.append(name)
                continue
            expected = COMPUTE[oracle](model, values, [x.shape for x in results["plain"]])
        except RuntimeError as error:
            remarks.append(f"{name} does not support the configuration: {str(error)[:300]}")
            continue
        try:
            compare_results(results, expected, case, oracle)
        except AssertionError as error:
            if not faults:
                raise AssertionError(_describe_difference(oracle, confirmed, error)) from error
            remarks.append(f"{name} has a known fault: {faults[0].title}")
        else:
            confirmed.append(name)
    assert confirmed, "nothing confirms the outputs: " + "; ".join(remarks)


def compare_results(
    results: dict[str, list[np.ndarray]], expected: Sequence[np.ndarray | None], case: Case, source: str
) -> None:
    """Assert that the outputs of all runs agree with expected ones."""
    for variant, outputs in results.items():
        tolerance = case.tolerance if variant == "plain" else case.optimized_tolerance or case.tolerance
        compare_outputs(outputs, expected, replace(case, tolerance=tolerance), f"{variant}, {source}")


def _describe_difference(oracle: Oracle, confirmed: Sequence[str], error: AssertionError) -> str:
    """Return the message for an oracle that differs without a known fault."""
    name = ORACLES[oracle]
    if oracle == "cpu":
        name += f" ({get_instruction_set()})"
    if not confirmed:
        return f"irrun differs from {name}:\n{error}"
    return (
        f"{name} differs from irrun, which agrees with {' and '.join(confirmed)}. If OpenVINO is wrong, add the fault, "
        f"and the processors that show it, to irrun/conformance/assets/faults.md:\n{error}"
    )


@contextlib.contextmanager
def write_model(model: Any) -> Iterator[Path]:
    """Write an ov.Model to files that exist until the end of the block, and yield the path."""
    import openvino as ov

    path = Path(_get_folder().name) / "model.xml"
    ov.serialize(model, path)
    try:
        yield path
    finally:
        path.unlink()
        path.with_suffix(".bin").unlink()


@cache
def _get_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder of this process."""
    return tempfile.TemporaryDirectory()


def run_on_irrun(path: Path, values: Sequence[np.ndarray], *, optimize: bool = True) -> list[np.ndarray]:
    """Return the outputs that irrun computes in the declared types."""
    compiled = irrun.compile_model(path, optimize=optimize, precision="declared")
    result = compiled(list(values))
    return [np.array(result[i]) for i in range(len(compiled.outputs))]


def run_variants(path: Path, values: Sequence[np.ndarray]) -> dict[str, list[np.ndarray]]:
    """Return the outputs with specialized kernels ("optimized") and without, as in runs with observers ("plain")."""
    compiled = irrun.compile_model(path, precision="declared")
    count = len(compiled.outputs)
    optimized = compiled.create_infer_request().infer(list(values))
    plain = compiled.create_infer_request().infer(list(values), observers=[lambda *_: None])
    variants = {"optimized": optimized, "plain": plain}
    return {name: [np.array(result[i]) for i in range(count)] for name, result in variants.items()}


def check_round_trips(type: str, since: int, cases: Sequence[Case], same_values: Callable[[Case], bool]) -> None:
    """Check that OpenVINO computes the same bits from models after irrun has read and written them.

    Cases that the CPU plugin does not support, or that are unsafe on it, are ignored.

    Args:
        type: The type of the operation.
        since: Its version.
        cases: The cases.
        same_values: Whether the outputs of a case are always the same.

    Raises:
        AssertionError: OpenVINO cannot read a written model, or computes different outputs from it.
    """
    import openvino as ov

    cases = [case for case in cases if not is_unsafe(case)]
    models: dict[int, Any] = {}
    copies: dict[int, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for i, case in enumerate(cases):
            path, copy = Path(folder) / f"model{i}.xml", Path(folder) / f"copy{i}.xml"
            ov.serialize(build_model(type, since, case), path)
            try:
                irrun.save_model(irrun.read_model(path), copy)
                copies[i] = _get_core().read_model(copy)
            except (irrun.IrrunError, RuntimeError) as error:
                raise AssertionError(f"[{i}] {case.note} {case.attributes}: {error!s:.800}") from error
            with contextlib.suppress(RuntimeError):  # some cases cannot be read as OpenVINO writes them
                models[i] = _get_core().read_model(path)
        merge = type not in UNBATCHED and not any(case.build for case in cases)
        values = [case.parameter_values for case in cases]
        expected = _run_models({i: (model, values[i]) for i, model in models.items()}, merge)
        actual = _run_models({i: (copies[i], values[i]) for i in expected}, merge)
    for i, outputs in expected.items():
        where = f"[{i}] {cases[i].note} {cases[i].attributes}"
        assert i in actual, f"{where}: OpenVINO does not run the written model"
        for a, b in zip(actual[i], outputs, strict=True):
            assert a.dtype == b.dtype, where
            assert a.shape == b.shape, where
            if not same_values(cases[i]):
                continue
            if a.dtype == object:
                np.testing.assert_array_equal(a, b, where)
            else:
                is_same = a.tobytes() == b.tobytes() or cases[i].normalize
                assert is_same or np.array_equal(upcast(a), upcast(b), equal_nan=True), where


def compare_outputs(
    actual: list[np.ndarray], expected: Sequence[np.ndarray | None], case: Case, oracle: str = "oracle"
) -> None:
    """Assert that two lists of outputs agree in number, type, shape and value."""
    assert len(actual) == len(expected), f"{oracle}: found {len(actual)} outputs, expected {len(expected)}"
    if case.normalize:
        actual, expected = case.normalize(list(actual)), case.normalize(list(expected))
    for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
        if b is None or (case.outputs is not None and i not in case.outputs):
            continue
        where = f"{oracle}, output {i}"
        same_type = ElementType.of(a.dtype) == ElementType.of(b.dtype)
        assert same_type, f"{where}: found type {a.dtype}, expected {b.dtype}"
        assert a.shape == b.shape, f"{where}: found shape {a.shape}, expected {b.shape}"
        if a.dtype != object and a.tobytes() == b.tobytes():
            continue
        if is_float(a.dtype):
            rtol, atol = case.tolerance or get_default_tolerance(a.dtype)
            x, y = upcast(a), upcast(b)
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(x, y, rtol=rtol, atol=atol, err_msg=where)
        else:
            np.testing.assert_array_equal(a, b, err_msg=where)


def get_default_tolerance(dtype: np.dtype) -> tuple[float, float]:
    """Return (rtol, atol) of a few units in the last place."""
    import ml_dtypes

    eps = float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]
    if dtype == np.float32:
        return 4e-6, 1e-6
    return (4 * eps, eps / 4) if dtype == np.float64 else (eps, eps / 8)


def to_tensor(x: np.ndarray) -> Any:
    """Convert an array of any element type that is not packed to an ov.Tensor."""
    import openvino as ov

    element_type = ElementType.of(x.dtype)
    if element_type.name == "string":
        return ov.Tensor(np.array(x, dtype=object).astype("U"))
    if element_type.is_packed:
        raise TypeError(f"{element_type} is packed; build a Constant with openvino instead")
    tensor = ov.Tensor(getattr(ov.Type, element_type.name), ov.Shape(list(x.shape)))
    if x.size:
        flat = np.ascontiguousarray(x).reshape(-1)
        tensor.data.reshape(-1).view(np.uint8)[:] = flat.view(np.uint8)
    return tensor


def from_tensor(tensor: Any) -> np.ndarray:
    """Convert an ov.Tensor to an array of the NumPy type that irrun uses for its element type."""
    element_type = ElementType.parse(tensor.element_type.get_type_name())
    if element_type.name == "string":
        return np.array(tensor.str_data, dtype=object).reshape(tuple(tensor.shape))
    data = np.array(tensor.data)
    return data if data.dtype == element_type.dtype else data.view(element_type.dtype)


def build_model(type: str, since: int, case: Case) -> Any:
    import openvino as ov
    from openvino import op
    from openvino.utils.node_factory import NodeFactory

    if case.build:
        return case.build()
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


@cache
def _get_core(device: str = "CPU") -> Any:
    """Return a Core that computes in f32 on a device, as far as the device can be told."""
    import openvino as ov

    core = ov.Core()
    wanted = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    supported = core.get_property(device, "SUPPORTED_PROPERTIES")
    core.set_property(device, {name: value for name, value in wanted.items() if name in supported})
    return core


def evaluate(model: Any, values: Sequence[np.ndarray], shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Return the outputs that OpenVINO's reference implementation computes.

    Args:
        model: The ov.Model.
        values: The inputs.
        shapes: The shapes of the outputs.

    Raises:
        RuntimeError: An operation has no reference implementation.
    """
    import openvino as ov

    # Some operations do not resize outputs of dynamic shape before they write to them, so they are allocated here.
    outputs = [
        ov.Tensor(o.element_type, o.shape if o.partial_shape.is_static else ov.Shape(list(shape)))
        for o, shape in zip(model.outputs, shapes, strict=True)
    ]
    if not model.evaluate(outputs, [to_tensor(x) for x in values]):
        raise RuntimeError("evaluate is not implemented")
    return [from_tensor(t) for t in outputs]


def run_on_device(model: Any, values: Sequence[np.ndarray], device: str) -> list[np.ndarray]:
    """Return the outputs that a device of OpenVINO computes in f32.

    Raises:
        RuntimeError: The device does not support the model.
    """
    request = _get_core(device).compile_model(model, device).create_infer_request()
    for i, x in enumerate(values):
        request.set_input_tensor(i, to_tensor(x))
    request.infer()
    return [from_tensor(request.get_output_tensor(i)) for i in range(len(model.outputs))]


def _run_on_cpu(model: Any, values: Sequence[np.ndarray], _: object = None) -> list[np.ndarray]:
    return run_on_device(model, values, "CPU")


def _agrees_in_batch(type: str, since: int, case: Case, results: dict[str, list[np.ndarray]]) -> bool:
    """Return whether the CPU plugin agrees if it computes the case together with others.

    Models of several operations have other faults than models of one, so a difference counts only if the case is
    computed alone as well.
    """
    expected = _find_in_batch(type, since, case)
    if expected is None:
        return False
    try:
        compare_results(results, expected, case, "cpu")
    except AssertionError:
        return False
    return True


def _find_in_batch(type: str, since: int, case: Case) -> list[np.ndarray] | None:
    """Return the outputs of the CPU plugin if the case is one of a batch that it supports."""
    cases = list_cases(type, since)
    number = next((i for i, c in enumerate(cases) if c is case), None)
    return None if number is None else _run_batch(type, since, number // BATCH).get(number)


@lru_cache(maxsize=8)
def _run_batch(type: str, since: int, batch: int) -> dict[int, list[np.ndarray]]:
    """Return the outputs of the CPU plugin by the number of the case, without unsupported cases."""
    numbers = range(batch * BATCH, (batch + 1) * BATCH)
    cases = dict(zip(numbers, list_cases(type, since)[numbers.start : numbers.stop], strict=False))
    cases = {i: c for i, c in cases.items() if not c.build and not find_faults(c.faults, "cpu")}
    return _run_models({i: (build_model(type, since, c), c.parameter_values) for i, c in cases.items()})


def _run_models(models: dict[int, tuple[Any, Sequence[np.ndarray]]], merge: bool = True) -> dict[int, list[np.ndarray]]:
    """Return the outputs of the CPU plugin for models with their inputs, without models that it does not support.

    Args:
        models: Models and inputs, by number.
        merge: Whether to run all of them as one model. If that fails, each half of them is run.
    """
    import openvino as ov

    if not models:
        return {}
    if not merge or len(models) == 1:
        outputs = {}
        for i, (model, values) in models.items():
            with contextlib.suppress(RuntimeError):
                outputs[i] = _run_on_cpu(model, values)
        return outputs
    results = [r for model, _ in models.values() for r in model.get_results()]
    parameters = [p for model, _ in models.values() for p in model.get_parameters()]
    try:
        merged = iter(_run_on_cpu(ov.Model(results, parameters), [x for _, values in models.values() for x in values]))
    except RuntimeError:
        numbers = list(models)
        halves = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
        return {i: y for half in halves for i, y in _run_models({i: models[i] for i in half}).items()}
    return {i: [next(merged) for _ in model.get_results()] for i, (model, _) in models.items()}


def is_unsafe(case: Case) -> bool:
    """Return whether the CPU plugin may crash, or corrupt the memory of the process."""
    return any(fault.is_unsafe for fault in find_faults(case.faults, "cpu"))


#: Implementations of OpenVINO -> functions that compute the outputs of a model with them.
COMPUTE: dict[str, Callable[..., list[np.ndarray]]] = {
    "evaluate": evaluate,
    "cpu": _run_on_cpu,
}
