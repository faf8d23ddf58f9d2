"""Every versioned operation against OpenVINO, on the configurations of `generators/`."""

from __future__ import annotations

import pytest

pytest.importorskip("openvino")

from conformance.harness import GENERATORS, cases, load_generators, run_case

load_generators()


@pytest.mark.parametrize(("type", "since"), sorted(GENERATORS), ids=lambda value: str(value))
def test_operation(type: str, since: int) -> None:
    """All configurations agree, and there are at least eight."""
    failures = []
    count = 0
    for count, case in enumerate(cases(type, since), 1):
        try:
            run_case(type, since, case)
        except Exception as error:
            shapes = [None if x is None else (str(x.dtype), x.shape) for x in case.inputs]
            failures.append(f"[{count}] {case.note} {case.attributes} {shapes}\n{error!s:.1500}")
    assert not failures, f"{len(failures)} of {count} configurations:\n" + "\n\n".join(failures[:10])
    assert count >= 8, f"only {count} configurations"
