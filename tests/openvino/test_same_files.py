"""Models that are written and read, as on OpenVINO."""

from __future__ import annotations

import importlib
import io
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openvino_programs import MODULES, describe, find_differences, import_modules, read_programs

openvino = pytest.importorskip("openvino")

TYPES = ["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
PACKED = ["u1", "u2", "u3", "u4", "u6", "i4", "nf4", "f8e4m3", "f8e5m2", "f4e2m1", "boolean"]


def make_model(ov: Any) -> Any:
    """Return a model of two inputs, two outputs and a variable, and its parts."""
    ops = import_modules(ov.__name__)["ops"]
    x = ops.parameter([-1, 3], np.float32, name="x")
    y = ops.parameter([2, 3], np.float32, name="y")
    relu = ops.relu(x, name="relu")
    total = ops.add(relu, ops.constant(np.array([[1, 2, 3]], np.float32), name="c"), name="sum")
    total.output(0).set_names({"total", "another"})
    read = ops.read_value(y, "state", np.float32, [2, 3], name="read")
    assign = ops.assign(ops.add(read, y, name="next"), "state")
    assign.set_friendly_name("assign")
    results = [ops.result(total, name="r0"), ops.result(ops.clamp(y, 0.0, 6.0, name="clamp"), name="r1")]
    return {
        "m": ov.Model(results, [assign], [x, y], "net"),
        "x": x,
        "y": y,
        "relu": relu,
        "u": ops.parameter(ov.PartialShape.dynamic(), np.float32, name="u"),
        "t": ops.parameter([2], np.float32, name="t"),
        "core": ov.Core(),
        "io": io,
        "path": Path,
        "TYPES": [getattr(ov.Type, name) for name in TYPES],
        "PACKED": [getattr(ov.Type, name) for name in PACKED],
    }


def test_written_models(tmp_path: Path) -> None:
    openvino.serialize(make_model(openvino)["m"], tmp_path / "m.xml")

    def make_scope(ov: Any) -> Any:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))  # files that are mapped into memory stay unchanged

        def again(model: Any) -> Any:
            path = Path(tempfile.mkdtemp(dir=folder), "m.xml")
            ov.serialize(model, path)
            return ov.Core().read_model(path)

        def unnamed(model: Any, version: int = 10) -> Any:
            path = Path(tempfile.mkdtemp(dir=folder), "m.xml")
            ov.serialize(model, path)
            text = re.sub(r' (output_)?names="[^"]*"', "", path.read_text()).replace(
                'version="11"', f'version="{version}"', 1
            )
            path.write_text(text)
            return ov.Core().read_model(path)

        files = {"xml": (tmp_path / "m.xml").read_bytes(), "weights": (tmp_path / "m.bin").read_bytes()}
        names = {"again": again, "unnamed": unnamed, "folder": str(folder), "m_path": str(tmp_path / "m.xml"), **files}
        return {**make_model(ov), **names}

    assert find_differences(read_programs("files"), make_scope) == {}


def test_files_of_each_other(tmp_path: Path) -> None:
    modules = [importlib.import_module(name) for name in MODULES]
    for writer in modules:
        names = make_model(writer)
        names["m"].set_rt_info("v", ["a", "b"])
        names["x"].set_layout(writer.Layout("NC"))
        names["m"].outputs[1].set_names({"own"})
        writer.serialize(names["m"], tmp_path / "m.xml")
        first, second = (describe(reader.Core().read_model(tmp_path / "m.xml")) for reader in modules)
        assert first == second
