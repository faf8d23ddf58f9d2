"""Preprocessing and postprocessing, as on OpenVINO: the texts, inputs and outputs, and what the models compute."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from openvino_programs import find_differences, import_modules, read_programs

pytest.importorskip("openvino")


def make_processor(ov: Any) -> Any:
    """Return processors of models with an image, a matrix, and two inputs."""
    ops = import_modules(ov.__name__)["ops"]
    pp = importlib.import_module(f"{ov.__name__}.preprocess")

    def build(*shape: Any, element_type: Any = np.float32) -> Any:
        data = ops.parameter(ov.PartialShape(list(shape)), element_type, name="data")
        data.output(0).set_names({"data"})
        scaled = ops.multiply(data, ops.constant(np.array(2), element_type), name="scaled")
        scaled.output(0).set_names({"out"})
        return ov.Model([ops.result(scaled, name="result")], [data], "model")

    def finish(processor: Any, *shapes: Any, dtype: Any = np.float32) -> Any:
        """Build, and return all that is declared and computed for arrays of integers."""
        model = processor.build()
        inputs = [(p.names, p.partial_shape, p.element_type, str(p.get_node().layout)) for p in model.inputs]
        outputs = [(p.partial_shape, p.element_type, str(p.get_node().layout)) for p in model.outputs]
        if not shapes:
            return inputs, outputs
        tensors = [ov.Tensor(np.arange(np.prod(shape)).reshape(shape).astype(dtype)) for shape in shapes]
        results = [ov.Tensor(p.element_type, [0]) for p in model.outputs]
        try:
            model.evaluate(results, tensors)
        except RuntimeError:  # OpenVINO's reference implementation has no conversions of colors
            compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
            results = list(map(ov.Tensor, compiled(tensors).values()))
        return inputs, outputs, [np.round(t.data.astype(np.float64), 2) + 0.0 for t in results]

    def make(*shape: Any, **keywords: Any) -> Any:
        return pp.PrePostProcessor(build(*shape, **keywords))

    x, y = (ops.parameter([1, 2], np.float32, name=name) for name in "xy")
    total, minus = ops.add(x, y, name="total"), ops.subtract(x, y, name="minus")
    pair = ov.Model([ops.result(total, name="r0"), ops.result(minus, name="r1")], [x, y], "pair")
    p = make(1, 3, 8, 8)
    names = {"p": p, "i": p.input(), "o": p.output(), "make": make, "build": build, "finish": finish, "pair": pair}
    return {**names, "C": pp.ColorFormat, "R": pp.ResizeAlgorithm, "M": pp.PaddingMode, "pp": pp, "L": ov.Layout}


#: Programs that end with a processor, and the shapes of the inputs that it runs with.
STEPS = read_programs("steps")


PROGRAMS = [step.rpartition(" |")[::2] for step in STEPS]


def test_texts_of_steps() -> None:
    programs = [f"{program.removesuffix('p')}str(p).partition('Error')[0]" for program, _ in PROGRAMS]
    assert find_differences(programs, make_processor) == {}


def test_models_with_steps() -> None:
    programs = [f"{program.removesuffix('p')}finish(p,{shapes})" for program, shapes in PROGRAMS]
    assert find_differences(programs, make_processor) == {}
