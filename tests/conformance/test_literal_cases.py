"""Single operations with literal inputs and expected values: the data of OpenVINO's own tests.

Unlike the other cases, nobody computed these values with a program that irrun is compared with. A sample runs by
default, and all cases with `pytest -m slow`.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SHARED

import irrun
from irrun.element_types import ElementType
from irrun.packing import unpack

OPERATIONS = SHARED / "data" / "op_reference_cases.tar.xz"
ONNX = SHARED / "data" / "onnx_frontend_cases.tar.xz"

#: The distance from 1 to the next number, which is the absolute tolerance of tests that state none.
EPSILON = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}
#: A case of so many is part of the sample.
SHARE = 10


@dataclass(frozen=True)
class Artefact:
    """Cases whose expected values say nothing about an implementation.

    Attributes:
        source: The file of OpenVINO's tests.
        reason: What is wrong with them.
        applies: Whether a case, by its name, belongs to them; all of the file do by default.
        failure: What the failure says.
    """

    source: str
    reason: str
    applies: Callable[[str], bool] = lambda name: True
    failure: str = ""


def has(*parts: str) -> Callable[[str], bool]:
    """Return whether a name contains one of some texts."""
    return lambda name: any(part in name for part in parts)


ARTEFACTS = (
    Artefact(
        "scatter_update.cpp",
        "the updates have another shape than the specification requires, which the CPU plugin refuses, too",
        failure="updates has shape",
    ),
    Artefact("topk.cpp", "indices above 127 in 8 bits: the tests are disabled in OpenVINO", has("=i8_", "=u8_")),
    Artefact("topk.cpp", "the order is undefined; the CPU plugin has the order of irrun", has("sort_none")),
    Artefact(
        "memory.cpp", "Assign is an input of ReadValue: OpenVINO's reader refuses the cycle, too", failure="cycle"
    ),
    Artefact("comparison.cpp", "booleans other than 0 and 1", has("boolean")),
    Artefact("greater.cpp", "booleans other than 0 and 1", has("boolean")),
    Artefact("rdft.cpp", "the expected values are rounding errors around 0"),
    Artefact("transpose.cpp", "the test expects an error"),
    Artefact("pad.cpp", "the test expects an error", has("large")),
    Artefact("gather_elements.cpp", "the test expects an error", has("negative")),
    Artefact("augru_sequence.cpp", "lengths exceed the length of the sequence", failure="sequence_lengths"),
    Artefact("rms_internal.cpp", "the expected values are imprecise; the CPU plugin differs from them, too"),
    Artefact("log_softmax.cpp", "the expected values are wrong; the CPU plugin differs from them, too"),
    Artefact("gelu.cpp", "the expected values are imprecise; the CPU plugin differs from them, too"),
    Artefact("proposal.cpp", "the expected values are imprecise; the CPU plugin differs from them, too"),
    Artefact("preprocess.cpp", "the file has the shape after the preprocessing"),
    Artefact(
        "lstm_sequence.cpp",
        "states of f64 that round to multiples of 2^-24: the expected values were computed in f32",
        has("iType=f64"),
        failure="values differ",
    ),
    Artefact(
        "onnx_import.cpp", "wrong expected values; the CPU plugin and the reference differ, too", has("repeating")
    ),
    Artefact("onnx_import.cpp", "other random numbers: the tests are disabled in OpenVINO", has("model_random_")),
    Artefact(
        "onnx_import_com_microsoft.cpp",
        "the expected values are 1e-6 from exact results, and results of irrun 6e-7",
        has("embed_layer_normalization"),
        failure="1 of 120 values differ",
    ),
    Artefact(
        "onnx_import_controlflow.cpp",
        "the test states [3,2] where the same loop with static shapes has the output [3,1,2]",
        has("loop_2d_trip_count_dynamic"),
        failure="shape",
    ),
    Artefact("onnx_import_convpool.cpp", "the expected values are uninitialized", has("convtranspose_output_shape")),
    Artefact(
        "onnx_import_quant.cpp", "wrong expected values; the CPU plugin has those of irrun", has("quant_conv_linear_2d")
    ),
)


def explain(case: dict[str, Any], failure: str) -> str:
    """Return why a case that fails says nothing about an implementation, or an empty text."""
    for artefact in ARTEFACTS:
        if artefact.source == case["source"] and artefact.applies(case["test"]) and artefact.failure in failure:
            return artefact.reason
    types = {value["type"] for value in (*case["inputs"], *case["outputs"])}
    if types & {"f16", "bf16"} and "values differ" in failure:
        return "rounding in f16 or bf16; the CPU plugin differs in the same way"
    return ""


def list_files(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the names and the contents of the files of a tar.xz archive: `tarfile` takes ten times as long."""
    with lzma.open(archive) as file:
        while (header := file.read(512)).strip(b"\0"):
            size = int(header[124:136].rstrip(b"\0 "), 8)
            content = file.read(-(-size // 512) * 512)
            if header[156:157] == b"0":
                yield header[:100].rstrip(b"\0").decode(), content[:size]


def extract(archive: Path, folder: Path, is_chosen: Callable[[int], bool]) -> Iterator[dict[str, Any]]:
    """Extract cases, and yield their descriptions."""
    for name, content in list_files(archive):
        parts = Path(name).parts
        is_case = len(parts) == 3 and parts[1].isdecimal()
        if parts == ("out", "index.jsonl") or (is_case and is_chosen(int(parts[1]))):
            path = folder.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    for line in (folder / "out" / "index.jsonl").read_text().splitlines():
        case = json.loads(line)
        if is_chosen(int(case["id"])) and "serialize_error" not in case:
            yield case


def load(value: dict[str, Any], folder: Path) -> np.ndarray:
    if value["type"] == "string":
        return np.array(value["strings"], dtype=object).reshape(value["shape"])
    return unpack(ElementType.parse(value["type"]), (folder / value["file"]).read_bytes(), value["shape"])


def find_difference(case: dict[str, Any], number: int, expected: np.ndarray, actual: np.ndarray) -> str:
    """Return by what an output differs more than the tolerance of the test, or an empty text."""
    if expected.dtype == object:
        texts = [[v.decode() if isinstance(v, bytes) else str(v) for v in x.reshape(-1)] for x in (expected, actual)]
        return "" if texts[0] == texts[1] else f"strings {texts[1][:4]}, expected {texts[0][:4]}"
    if expected.dtype != actual.dtype or expected.size != actual.size:
        return f"{actual.dtype}{list(actual.shape)}, expected {expected.dtype}{list(expected.shape)}"
    a, b = (x.reshape(-1).astype(np.float64) for x in (expected, actual))
    absolute = case["abs_threshold"]
    if absolute < 0:
        absolute = EPSILON.get(case["outputs"][number]["type"], 0)
    with np.errstate(all="ignore"):
        scale = np.maximum(np.abs(a), np.abs(b)) if case["legacy_compare"] else np.abs(a)
        agrees = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= absolute + case["threshold"] * scale)
    if not agrees.all():
        first = np.flatnonzero(~agrees)[0]
        return f"{(~agrees).sum()} of {a.size} values differ: [{first}] is {b[first]:.9g}, expected {a[first]:.9g}"
    if expected.shape != actual.shape and expected.ndim > 1:
        return f"shape {list(actual.shape)}, expected {list(expected.shape)}"
    return ""


def run(case: dict[str, Any], folder: Path) -> str:
    """Return how a case fails, or an empty text."""
    try:
        compiled = irrun.compile_model(folder / "model.xml", precision="declared", threads=1)
        inputs = (
            case["inputs"] if compiled.inputs else []
        )  # some tests state an input that the file holds as a Constant
        outputs = compiled([load(value, folder) for value in inputs] or None)
    except irrun.IrrunError as error:
        return f"{type(error).__name__}: {error}"
    for number, value in enumerate(case["outputs"]):
        difference = find_difference(case, number, load(value, folder), np.asarray(outputs[number]))
        if difference:
            return f"output {number}: {difference}"
    return ""


def check(archive: Path, folder: Path, is_chosen: Callable[[int], bool], least: int) -> None:
    if not archive.exists():
        pytest.skip(f"the literal cases are not in ../shared/data/{archive.name}")
    passed, failures = 0, []
    for case in extract(archive, folder, is_chosen):
        failure = run(case, folder / "out" / case["id"])
        passed += not failure
        if failure and not explain(case, failure):
            failures.append(f"{case['id']} {case['source']} {case['test']}: {failure}")
    assert not failures, "\n".join(failures)
    assert passed >= least


def test_sample_of_operations(tmp_path):
    check(OPERATIONS, tmp_path, lambda number: number % SHARE == 7, 1700)


def test_models_of_the_onnx_front_end(tmp_path):
    check(ONNX, tmp_path, lambda number: True, 720)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_all_operations(tmp_path, part):
    check(OPERATIONS, tmp_path, lambda number: number % 4 == part, 4400)
