"""A known fault of an implementation of OpenVINO, and the processors that show it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["ORACLES", "PRELUDE", "PROCESSORS", "VERSION", "Fault", "Oracle", "Processor", "get_instruction_set"]

#: The version of OpenVINO that the table describes.
VERSION = "2026.4.1"

Oracle = Literal["evaluate", "cpu"]
#: Implementations of OpenVINO and their names, in the order of comparison.
ORACLES: dict[Oracle, str] = {"evaluate": "the reference implementation", "cpu": "the CPU plugin"}

Processor = Literal["all", "avx512", "avx2", "no avx512"]
#: Groups of processors -> a description, and the instruction sets that the CPU plugin uses on them; None for all.
PROCESSORS: dict[Processor, tuple[str, tuple[str, ...] | None]] = {
    "all": ("all", None),
    "avx512": ("with AVX-512", ("avx512",)),
    "avx2": ("with AVX2, without AVX-512", ("avx2",)),
    "no avx512": ("x86-64 without AVX-512", ("avx2", "avx", "sse42")),
}

Kind = Literal["values", "memory", "rounding"]

#: The header of all reproductions.
PRELUDE = '''\
import numpy as np
import openvino as ov
from openvino import opset16 as ops
from openvino.utils.node_factory import NodeFactory

f16, f32, i32, u8, nan, inf = np.float16, np.float32, np.int32, np.uint8, np.nan, np.inf


def run_plugin(model, *inputs):
    """Return the first output of the CPU plugin, computed in f32."""
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.array(compiled(list(inputs))[0])


def run_reference(model, *inputs):
    """Return the first output of the reference implementation."""
    shapes = [o.shape if o.partial_shape.is_static else ov.Shape([0]) for o in model.outputs]
    outputs = [ov.Tensor(o.element_type, shape) for o, shape in zip(model.outputs, shapes)]
    model.evaluate(outputs, [ov.Tensor(np.array(x)) for x in inputs])
    return np.array(outputs[0].data)
'''


@dataclass(frozen=True)
class Fault:
    """A fault of an implementation of OpenVINO.

    Attributes:
        name: Its name in cases, and its anchor on the page.
        title: The fault, as a heading.
        oracle: The implementation.
        text: The operations and values concerned, and the expectation.
        code: Python code that sets `actual` and `expected` after PRELUDE.
        actual: The value of `actual` as Python code, or what happens instead in words.
        processors: The processors that show it.
        kind: "values" if results are wrong; "memory" if they are undefined, or the process may end; "rounding" if they
            are computed in a narrower type or rounded otherwise than the specification or the type suggests.
        is_unsafe: Whether the process may end or its memory may be corrupted, so that tests must not run it.
    """

    name: str
    title: str
    oracle: Oracle
    text: str
    code: str
    actual: str
    processors: Processor = "all"
    kind: Kind = "values"
    is_unsafe: bool = False

    @property
    def is_recorded(self) -> bool:
        """Whether `actual` is a value."""
        try:
            compile(self.actual, "actual", "eval")
        except SyntaxError:
            return False
        return True

    def is_present(self) -> bool:
        """Return whether this processor shows the fault."""
        _, sets = PROCESSORS[self.processors]
        return sets is None or get_instruction_set() in sets


@functools.cache
def get_instruction_set() -> str:
    """Return the instruction set that the CPU plugin uses: "avx512", "avx2", "sse42", or another name.

    It depends on the processor, and on the environment variable ONEDNN_MAX_CPU_ISA.
    """
    import openvino as ov

    parameter = ov.op.Parameter(ov.Type.f32, ov.PartialShape([16]))
    model = ov.Model([ov.op.Result(ov.opset1.relu(parameter).output(0))], [parameter])
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    layers: list[Any] = compiled.get_runtime_model().get_ordered_ops()
    names = [layer.get_rt_info()["primitiveType"].astype(str) for layer in layers]
    return next((name.split("_")[1] for name in names if name.startswith("jit_")), "unknown")
