"""Tests of the table of OpenVINO's known faults: its reproductions, and the page."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("openvino")

import openvino as ov

from conformance.reproduce import GONE, SHOWN, reproduce
from irrun.conformance.cases import GENERATORS, Case, list_cases, load_generators
from irrun.conformance.fault import PROCESSORS, Fault, get_instruction_set
from irrun.conformance.faults import accept_fault, find_faults, list_faults
from irrun.conformance.harness import run_case

ROOT = Path(__file__).parents[2]
FAULTS = list_faults()

load_generators()


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    """Return what happened to the processes of the reproductions that are not safe."""
    if not hasattr(os, "fork"):
        pytest.skip("these reproductions need processes of their own")
    names = [name for name, fault in FAULTS.items() if fault.is_unsafe]
    command = [sys.executable, "-m", "conformance.reproduce", *names]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280)
    return dict(json.loads(line) for line in process.stdout.splitlines() if line.startswith("["))


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_shown_by_its_processors_only(name: str, request: pytest.FixtureRequest) -> None:
    """Reproduce a fault.

    An expected failure means that the fault is gone, or another one than recorded: the table is out of date.
    """
    fault = FAULTS[name]
    result = request.getfixturevalue("results")[name] if fault.is_unsafe else reproduce(fault)
    where = f"OpenVINO {ov.__version__.split('-')[0]} on {get_instruction_set()}"
    if not fault.is_present():
        assert result == GONE, f"{where} shows the fault as well: extend its processors"
    elif result == GONE:
        pytest.xfail(f"the fault is gone in {where}")
    elif not fault.is_unsafe and result != SHOWN:
        pytest.xfail(f"{where} has another result: {result}")


def test_faults_of_cases_are_in_the_table() -> None:
    used = {name for type, since in GENERATORS for case in list_cases(type, since) for name in case.faults}
    assert used <= FAULTS.keys()
    # They are known from programs and from models with several layers.
    assert FAULTS.keys() - used == {"plugin-deformable-convolution", "plugin-hard-sigmoid"}


def test_faults_are_described() -> None:
    for fault in FAULTS.values():
        assert fault.name.startswith({"cpu": "plugin-", "evaluate": "reference-"}[fault.oracle])
        assert not fault.title.endswith(".")
        assert fault.text.endswith(".")
        assert "actual" in fault.code
        assert "expected" in fault.code
        assert fault.actual


@pytest.mark.parametrize("processors", PROCESSORS)
@pytest.mark.parametrize("instructions", ["avx512", "avx2", "sse42", "unknown"])
def test_instruction_set_decides_whether_a_fault_is_present(processors, instructions, monkeypatch):
    fault = Fault("plugin-x", "X", "cpu", "X.", "", "", processors=processors)
    monkeypatch.setattr("irrun.conformance.faults.list_faults", lambda: {fault.name: fault})
    monkeypatch.setattr("irrun.conformance.fault.get_instruction_set", lambda: instructions)
    expected = {
        "all": True,
        "avx512": instructions == "avx512",
        "avx2": instructions == "avx2",
        "no avx512": instructions in ("avx2", "sse42"),
    }[processors]
    assert fault.is_present() is expected
    assert find_faults([fault.name], "cpu") == ([fault] if expected else [])
    assert find_faults([fault.name], "evaluate") == []
    if expected:
        with accept_fault(fault.name):
            raise AssertionError("differs")
    else:
        with pytest.raises(AssertionError, match="differs"), accept_fault(fault.name):
            raise AssertionError("differs")


def make_case(**options) -> Case:
    import numpy as np

    return Case([np.array([200], np.uint8), np.array([100], np.uint8)], **options)


def test_difference_of_the_plugin_without_a_known_fault_is_a_failure() -> None:
    with pytest.raises(AssertionError) as caught:
        run_case("Add", 1, make_case())
    message = str(caught.value)
    assert message.startswith(
        f"the CPU plugin ({get_instruction_set()}) differs from irrun, which agrees with the refere"
    )
    assert "add the fault, and the processors that show it, to irrun/conformance/assets/faults.md" in message
    run_case("Add", 1, make_case(faults=["plugin-bytes"]))


def test_difference_of_irrun_is_a_failure(monkeypatch) -> None:
    import numpy as np

    with pytest.raises(AssertionError, match="expected"):
        run_case("Add", 1, make_case(faults=["plugin-bytes"], expected=[np.array([45], np.uint8)]))
    monkeypatch.setattr("irrun.conformance.harness.run_variants", lambda *_: {"plain": [np.array([45], np.uint8)]})
    with pytest.raises(AssertionError, match="irrun differs from the reference implementation:"):
        run_case("Add", 1, make_case(faults=["plugin-bytes"]))


def test_outputs_that_nothing_confirms_are_a_failure(monkeypatch) -> None:
    monkeypatch.setattr("irrun.conformance.fault.Fault.is_present", lambda _: True)
    faults = ["plugin-bytes", "reference-division-by-zero"]
    with pytest.raises(AssertionError, match=r"nothing confirms .*is not run: An integer division by zero"):
        run_case("Add", 1, make_case(faults=faults))


def test_page_is_the_table() -> None:
    format_page = runpy.run_path(str(ROOT / "docs/make_openvino_faults.py"))["format_page"]
    text = (ROOT / "docs/openvino_faults.md").read_text(encoding="utf-8")
    assert text == "\n".join(format_page()) + "\n", "run docs/make_openvino_faults.py"
    for page in ("index.md", "conformance.md"):
        assert re.search(r"\bopenvino_faults\b", (ROOT / "docs" / page).read_text(encoding="utf-8")), page
