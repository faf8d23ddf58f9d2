"""Tests that every versioned operation agrees with OpenVINO on the cases of `generators/`."""

from __future__ import annotations

import pytest

pytest.importorskip("openvino")

from conformance.harness import GENERATORS, generate_cases, load_generators, run_case

load_generators()


@pytest.mark.parametrize(("type", "since"), sorted(GENERATORS), ids=str)
def test_operation_agrees_with_openvino(type: str, since: int) -> None:
    """Check that all cases agree and that there are at least eight."""
    failures = []
    count = 0
    for count, case in enumerate(generate_cases(type, since), 1):
        try:
            run_case(type, since, case)
        except Exception as error:
            shapes = [None if x is None else (str(x.dtype), x.shape) for x in case.inputs]
            failures.append(f"[{count}] {case.note} {case.attributes} {shapes}\n{error!s:.1500}")
    assert not failures, f"{len(failures)} of {count} cases fail:\n" + "\n\n".join(failures[:10])
    assert count >= 8, f"found {count} cases, expected at least 8"
