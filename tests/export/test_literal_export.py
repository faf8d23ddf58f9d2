"""Literal cases of OpenVINO's own tests, exported and run in onnxruntime.

A small sample runs by default, and all cases with `pytest -m slow`.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
import onnxruntime as ort
from conformance.test_literal_cases import OPERATIONS, extract, find_difference, load

import irrun

#: The part of the range that values may be apart.
TOLERANCE = 1e-5
#: Types that NumPy does not have -> a type that holds their values.
WIDER = {
    onnx.TensorProto.BFLOAT16: onnx.TensorProto.FLOAT,
    onnx.TensorProto.FLOAT8E4M3FN: onnx.TensorProto.FLOAT,
    onnx.TensorProto.FLOAT8E5M2: onnx.TensorProto.FLOAT,
    onnx.TensorProto.INT4: onnx.TensorProto.INT8,
    onnx.TensorProto.UINT4: onnx.TensorProto.UINT8,
}
#: What onnxruntime says of models that are right but that it cannot run: indices out of range, and missing kernels.
REFUSALS = ("out of data bounds", "NOT_IMPLEMENTED")


#: Cases of faults that have been mended: orders, lengths and axes that are not constant, dynamic ranks, indices out of
#: range, strings, coupled gates of an LSTM, roots of integers, rounding of pixels, and NaN.
FOUND = {20229, 19578, 17491, 17597, 3792, 3700, 5055, 12235, 4790, 3278, 16816, 4714, 5256, 5528}


def widen(model):
    """Convert inputs and outputs of types that cannot be passed as arrays, inside of the model."""
    defaults = {tensor.name for tensor in model.graph.initializer}
    before, after = [], []
    for value in model.graph.input:
        kind = value.type.tensor_type
        if kind.elem_type in WIDER and value.name not in defaults:
            before.append(onnx.helper.make_node("Cast", [f"{value.name}/wide"], [value.name], to=kind.elem_type))
            value.name, kind.elem_type = f"{value.name}/wide", WIDER[kind.elem_type]
    for value in model.graph.output:
        kind = value.type.tensor_type
        if kind.elem_type in WIDER:
            kind.elem_type = WIDER[kind.elem_type]
            after.append(onnx.helper.make_node("Cast", [value.name], [f"{value.name}/wide"], to=kind.elem_type))
            value.name = f"{value.name}/wide"
    nodes = [*before, *model.graph.node, *after]
    if before or after:
        del model.graph.node[:], model.graph.value_info[:]
        model.graph.node.extend(nodes)


def run_exported(model, arrays):
    """Run an exported model on arrays by the names of inputs."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {}
    for value in session.get_inputs():
        array = arrays.get(value.name.removesuffix("/wide"))
        if array is None:
            continue  # a variable, which has a default
        if value.name not in arrays:
            array = array.astype({"tensor(float)": "f4", "tensor(int8)": "i1", "tensor(uint8)": "u1"}[value.type])
        elif array.dtype == object:
            array = np.array([x.decode() if isinstance(x, bytes) else x for x in array.flat], object).reshape(
                array.shape
            )
        feeds[value.name] = array.reshape(1) if array.ndim == 0 and len(value.shape) == 1 else array
    return session.run(None, feeds)


def is_close(expected, found):
    """Return whether floating-point values are apart by a small part of their range at most."""
    if expected.shape != found.shape or expected.dtype.kind in "OSUiub":
        return False
    a, b = expected.astype(np.float64), found.astype(np.float64)
    scale = np.abs(a[np.isfinite(a)]).max(initial=0)
    with np.errstate(invalid="ignore"):
        return bool(np.all((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= TOLERANCE * scale)))


def make_dynamic(model, first):
    """Make the dimensions of inputs dynamic: of a tensor of two axes or more, all from the first to the given one."""
    for spec in model.inputs:
        if spec.partial_shape is not None and len(spec.partial_shape) > 1:
            shape = [-1 if i <= first or not isinstance(d, int) else d for i, d in enumerate(spec.partial_shape)]
            model.reshape({spec.any_name: shape})


def run(case, folder, opset, last_dynamic):
    """Return "equal", "refused" or how an exported case fails; None if irrun disagrees with the expected values."""
    inputs, literals = ([load(value, folder) for value in case[key]] for key in ("inputs", "outputs"))
    try:
        model = irrun.read_model(folder / "model.xml")
        results = irrun.compile_model(model, precision="declared", threads=1)(inputs[: len(model.inputs)] or None)
    except irrun.IrrunError:
        return None
    expected = [np.asarray(results[i]) for i in range(len(literals))]
    if any(find_difference(case, i, literal, expected[i]) for i, literal in enumerate(literals)):
        return None
    make_dynamic(model, last_dynamic)
    try:
        irrun.export_onnx(model, folder / "model.onnx", opset=opset)
    except irrun.UnsupportedError:
        return "refused"
    exported = onnx.load(folder / "model.onnx")
    # The checker demands the ranks of inputs and outputs.
    if all(spec.partial_shape is not None for spec in model.inputs) and last_dynamic < 1:
        onnx.checker.check_model(exported, full_check=True)
    widen(exported)
    arrays = {spec.any_name: np.asarray(value) for spec, value in zip(model.inputs, inputs, strict=False)}
    try:
        found = run_exported(exported, arrays)
    except Exception as error:  # onnxruntime's exceptions have no common base
        return "refused" if any(text in str(error) for text in REFUSALS) else f"onnxruntime: {error}"
    for i, literal in enumerate(literals):
        actual = np.asarray(found[i])
        actual = actual if actual.dtype.kind in "OSU" else actual.astype(expected[i].dtype)
        difference = find_difference(case, i, literal, actual)
        if difference and not is_close(expected[i], actual):
            return f"output {i}: {difference}"
    return "equal"


def check(folder, is_chosen, least, variants=((21, -1),)):
    """Check cases in variants: with versions of the operators, and with dimensions up to an axis made dynamic."""
    if not OPERATIONS.exists():
        pytest.skip(f"the literal cases are not in ../shared/data/{OPERATIONS.name}")
    equal, failures = 0, []
    for case in extract(OPERATIONS, folder, is_chosen):
        for variant in variants:
            outcome = run(case, folder / "out" / case["id"], *variant)
            equal += outcome == "equal"
            if outcome not in ("equal", "refused", None):
                failures.append(f"{case['id']} {case['source']} {case['test']} {variant}: {outcome}")
    assert not failures, "\n".join(failures)
    assert equal >= least


def test_sample_of_literal_cases(tmp_path):
    check(tmp_path, lambda number: number % 150 == 7 or number in FOUND, 130)


def test_sample_of_opsets_and_dynamic_shapes(tmp_path):
    newest = onnx.defs.onnx_opset_version()
    variants = [(opset, -1) for opset in (18, 20, 23, 24, 28) if opset <= newest]
    variants += [(21, 0), (21, 9)]
    check(tmp_path, lambda number: number % 300 == 11, 50 * len(variants), variants)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_all_literal_cases(tmp_path, part):
    check(tmp_path, lambda number: number % 4 == part, 4400)
