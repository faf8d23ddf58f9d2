"""Run a model plain, with specialized kernels and with compiled kernels, and compare what it computes."""

from __future__ import annotations

import importlib.util
import traceback
import warnings
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

import irrun
from fuzz.seeds import Seed

__all__ = ["run_tiers"]

#: Seconds and bytes of a run.
TIMEOUT, MEMORY = 5.0, 256 << 20
#: How the tiers compile a model. Compiled kernels run with two threads, whose bits must not differ.
TIERS = {
    "plain": {"optimize": False, "jit": False, "threads": 1},
    "specialized": {"jit": False, "threads": 1},
    "compiled": {"jit": True, "threads": 2},
}
#: The error of rounding of one operation, relative to the largest of its inputs and results.
NOISE = 2.0**-23
#: The difference that tiers may have, relative to the largest value of an output, and how many times the effects of noise.
TOLERANCES = {"f2": 2e-2, "f4": 1e-4, "f8": 1e-4, "V2": 5e-2}
AMPLIFICATION = 30.0
#: Kinds of operations that compute without rounding.
EXACT_KINDS = ("view", "movement", "control", "state", "random", "selection")


def run_tiers(case: Seed) -> dict[str, str]:
    """Return the outcome of a case.

    Its `kind` is "ok"; "refused" if all tiers raise an error of irrun; "traceback"; "warning"; "fallback" if results
    are right, but there was no specialized kernel for the shapes of a run; or "difference".
    """
    results, errors, fallbacks = {}, {}, []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = irrun.read_model(case.xml, case.weights)
        except irrun.IrrunError as error:
            return {"kind": "refused", "message": str(error)}
        except Exception as error:
            return {"kind": "traceback", "message": f"reader: {_format(error)}"}
        for tier, options in TIERS.items():
            if tier == "compiled" and importlib.util.find_spec("llvmlite") is None:
                continue
            try:
                request = irrun.compile_model(model, memory=MEMORY, **options).create_infer_request()
                # The second run has other variables, and kernels that the first has prepared.
                results[tier] = [list(request.infer(list(case.inputs), timeout=TIMEOUT).values()) for _ in range(2)]
                fallbacks += request.fallbacks
            except irrun.TimeLimitError as error:
                return {"kind": "refused", "message": str(error), "timeout": "1"}
            except irrun.IrrunError as error:
                cause = error.__cause__
                if cause is not None and f"{type(cause).__name__}: " in str(error):
                    return {"kind": "wrapped", "message": str(error), "trace": _format(cause)}
                errors[tier] = error
            except Exception as error:
                return {"kind": "traceback", "message": f"{tier}: {_format(error)}"}
    if caught:
        return {"kind": "warning", "message": f"{caught[0].filename}:{caught[0].lineno}: {caught[0].message}"}
    if errors and results:
        return {"kind": "difference", "message": f"{list(results)} run, but {errors}"}
    if errors:
        return {"kind": "refused", "message": str(errors["plain"])}
    noise = _Noise(model, case)
    for tier in [tier for tier in results if tier != "plain"]:
        for run, (outputs, expected) in enumerate(zip(results[tier], results["plain"], strict=True)):
            for i, (output, value) in enumerate(zip(outputs, expected, strict=True)):
                message = "" if _is_close(output, value) else _compare(output, value, noise.list_outputs(run, i))
                if message:
                    return {"kind": "difference", "message": f"{tier}, run {run}, output {i}: {message}"}
    return {"kind": "fallback", "message": str(fallbacks[0])} if fallbacks else {"kind": "ok"}


class _Noise:
    """Plain results with errors of rounding, which are computed when results differ.

    Args:
        model: The model.
        case: Its inputs.
    """

    def __init__(self, model: irrun.Model, case: Seed) -> None:
        self.model, self.case = model, case

    @cached_property
    def results(self) -> list[list[list[np.ndarray]]]:
        """The outputs of two runs, for each seed with which the model runs."""
        results = (_run_with_noise(self.model, self.case, seed) for seed in range(2))
        return [outputs for outputs in results if outputs is not None]

    def list_outputs(self, run: int, index: int) -> list[np.ndarray]:
        """Return the values of one output in one run."""
        return [outputs[run][index] for outputs in self.results]


def _run_with_noise(model: irrun.Model, case: Seed, seed: int) -> list[list[np.ndarray]] | None:
    """Return the plain results if every operation makes an error of rounding, or None if they fail."""
    random = np.random.default_rng(seed)

    def add_noise(operation: irrun.Operation, kernel: Callable[..., Any], /, *inputs: Any, **attributes: Any) -> Any:
        results = kernel(*inputs, **attributes)
        if isinstance(results, (tuple, list)):
            return tuple(change(x, inputs, operation.kind) for x in results)
        return change(results, inputs, operation.kind)

    def change(value: Any, inputs: tuple[Any, ...], kind: str) -> Any:
        if not _is_float(value):
            return value
        scale = NOISE * max(_get_scale(x) for x in (value, *inputs) if _is_float(x))
        noise = random.uniform(-scale, scale, value.shape)
        if kind == "elementwise":
            noise = np.where(value == 0, 0, noise)
        sign = np.where(np.isnan(value) & (random.random(value.shape) < 0.5), -1, 1)  # a NaN has any sign
        return ((value + noise) * sign).astype(value.dtype)

    try:
        compiled = irrun.compile_model(model, memory=MEMORY, **TIERS["plain"])
        for _, instruction in compiled._program.walk():
            if not instruction.bodies and instruction.operation.kind not in EXACT_KINDS:
                instruction.kernel = partial(add_noise, instruction.operation, instruction.kernel)
        request = compiled.create_infer_request()
        with np.errstate(all="ignore"):
            return [list(request.infer(list(case.inputs), timeout=TIMEOUT).values()) for _ in range(2)]
    except irrun.IrrunError:
        return None


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.names is None and value.dtype.kind in "fV" and value.size > 0


def _get_scale(value: np.ndarray) -> float:
    magnitudes = np.abs(value.astype(np.float64))
    return float(np.max(magnitudes, initial=0, where=np.isfinite(magnitudes)))


def _is_close(output: np.ndarray, expected: np.ndarray) -> bool:
    """Return whether values are equal within the tolerances, without the effects of noise."""
    if output.dtype != expected.dtype or output.shape != expected.shape:
        return False
    if not _is_float(output):
        return np.array_equal(output, expected)
    actual, reference = output.astype(np.float64), expected.astype(np.float64)
    if np.array_equal(actual, reference, equal_nan=True):
        return True
    if not (np.isfinite(actual).all() and np.isfinite(reference).all()):
        return False
    return bool(np.max(np.abs(actual - reference)) <= _get_tolerance(output) * np.max(np.abs(reference)) + 1e-6)


def _get_tolerance(value: np.ndarray) -> float:
    return TOLERANCES.get(value.dtype.str[1:], 1e-4)


def _compare(output: np.ndarray, expected: np.ndarray, noisy: list[np.ndarray]) -> str:
    """Return how an output differs by more than rounding explains, or an empty string."""
    if not noisy or any(x.shape != expected.shape for x in noisy):
        return ""  # rounding decides which elements are selected, or whether there is a result
    if output.dtype != expected.dtype or output.shape != expected.shape:
        return f"{output.dtype}{output.shape}, expected {expected.dtype}{expected.shape}"
    if not _is_float(output):
        is_equal = np.array_equal(output, expected) or not all(np.array_equal(x, expected) for x in noisy)
        return "" if is_equal else f"{np.sum(output != expected)} of {output.size} elements differ"
    with np.errstate(all="ignore"):
        actual, reference, *others = (x.astype(np.float64) for x in (output, expected, *noisy))
        # Infinite values of inputs spread further where sums are computed in another way.
        if not all(np.isfinite(x).all() for x in (reference, *others)):
            return ""
        difference, scale = np.max(np.abs(actual - reference)), np.max(np.abs(reference))
        effect = max(np.max(np.abs(x - reference)) for x in others)
    if difference <= _get_tolerance(output) * scale + AMPLIFICATION * effect + 1e-6:
        return ""
    return f"max abs {difference:.3g} of {scale:.3g}, where noise changes {effect:.3g}"


def _format(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)[-4:])[-3000:]
