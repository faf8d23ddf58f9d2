"""Comparison of irrun with the exported model in onnxruntime."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from irrun.errors import ExecutionError, InputError
from irrun.ir.model import Model, name_inputs, name_outputs

__all__ = ["TOLERANCE", "Difference", "verify_export"]

Array = np.ndarray[Any, Any]

#: Maximum difference of agreeing values, relative to the range of an f32 output.
TOLERANCE = 1e-4
#: The same for an f16 or bf16 output.
NARROW_TOLERANCE = 1e-2


#: Tolerance of quantized models as a multiple of their uncertainty.
LEVELS_FACTOR = 2
#: Minimum range of outputs.
SMALLEST_RANGE = 1e-2


class Difference(NamedTuple):
    """The difference between the results of an output.

    Attributes:
        name: The name of the output.
        maximum: The maximum difference relative to the range of the output; infinite for different shapes.
        differs: Whether the difference exceeds the tolerance of the element type and the uncertainty.
        uncertainty: For quantized models, the difference between irrun's results with and without optimizations:
            values halfway between two levels may round to either, which changes later layers.
    """

    name: str
    maximum: float
    differs: bool
    uncertainty: float = 0.0

    def __str__(self) -> str:
        verdict = "differs" if self.differs else "is uncertain" if self.uncertainty else "agrees"
        text = f"{self.name}: {verdict}, by {self.maximum:.2g} of the range"
        return text + f"; rounding in quantization changes it by {self.uncertainty:.2g}" if self.uncertainty else text


def verify_export(model: Model, path: str | os.PathLike[str]) -> list[Difference]:
    """Run a model in irrun and its export in onnxruntime on the same random inputs.

    Args:
        model: The model.
        path: Its export.

    Returns:
        One entry per output.

    Raises:
        InputError: onnxruntime is missing, or the inputs of the model have dynamic ranks.
        ExecutionError: onnxruntime cannot run the model.
    """
    try:
        import onnxruntime
    except ImportError:
        raise InputError("verifying requires onnxruntime: pip install onnxruntime") from None
    from irrun.data.load import load_inputs
    from irrun.runtime.compiled_model import compile_model

    inputs = load_inputs(["random"], model)
    compiled = compile_model(model)
    expected = compiled(inputs)
    names = name_inputs(model.inputs)
    arrays = [inputs[name if name in inputs else i] for i, name in enumerate(names)]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # By default, products with compressed weights round the activations to 8 bits.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    try:
        session = onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
        used = {value.name for value in session.get_inputs()}
        feeds = {name: array for name, array in zip(names, arrays, strict=True) if name in used}
        found = session.run([value.name for value in session.get_outputs()][: len(model.outputs)], feeds)
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise ExecutionError(f"onnxruntime cannot run the exported model: {error}") from error
    outputs = name_outputs(model.outputs)
    differences = [
        _compare(name, np.asarray(expected[i]), np.asarray(value))
        for i, (name, value) in enumerate(zip(outputs, found, strict=True))
    ]
    if any(difference.differs for difference in differences) and any(model.graph.find_layers("FakeQuantize")):
        plain = compile_model(model, optimize=False)(inputs)
        uncertain = [_compare(n, np.asarray(expected[i]), np.asarray(plain[i])) for i, n in enumerate(outputs)]
        return [
            d._replace(uncertainty=u.maximum, differs=d.differs and d.maximum > LEVELS_FACTOR * u.maximum)
            for d, u in zip(differences, uncertain, strict=True)
        ]
    return differences


def _compare(name: str, expected: Array, found: Array) -> Difference:
    """Compare the values of an output."""
    if expected.shape != found.shape:
        return Difference(name, float("inf"), True)
    if expected.dtype.kind in "OSU":
        same = [str(a) for a in expected.flat] == [str(b) for b in found.flat]
        return Difference(name, 0.0 if same else float("inf"), not same)
    tolerance = NARROW_TOLERANCE if expected.dtype.itemsize == 2 and expected.dtype.kind not in "iu" else TOLERANCE
    a, b = expected.astype(np.float64), found.astype(np.float64)
    same_special = (a == b) | (np.isnan(a) & np.isnan(b))
    if not (np.isfinite(a) & np.isfinite(b) | same_special).all():
        return Difference(name, float("inf"), True)
    finite = a[np.isfinite(a)]
    scale = max(float(np.abs(finite).max(initial=0)), SMALLEST_RANGE)
    with np.errstate(invalid="ignore"):
        worst = float(np.where(same_special, 0, np.abs(a - b)).max(initial=0)) / scale
    return Difference(name, worst, worst > tolerance)
