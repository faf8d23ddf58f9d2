"""Run cases and report on stdout what became of each, one line of JSON per case."""

from __future__ import annotations

import json
import resource
import sys
import time
import traceback
import warnings
from typing import Any

import numpy as np

__all__ = ["run_case", "run_range"]

#: What a case may use: seconds of a run, and bytes.
TIMEOUT, MEMORY = 5.0, 256 << 20
#: CPU seconds that a case may take in all, and bytes that the process may grow by, libraries and folding included.
MAX_SECONDS, MAX_GROWTH = 10.0, 1 << 30
#: Bytes of address space. The fuzzer ends a worker that touches a fraction of it, so that allocations which fail and are
#: attempted in another way are found too.
MAX_ADDRESSES = 32 << 30


def run_case(case: Any) -> dict[str, str]:
    """Run a case and return its outcome: `kind` is "ok", "refused", "traceback", "wrapped", "warning" or "slow"."""
    import irrun

    start = time.process_time()
    outcome = {"kind": "ok"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = irrun.read_model(case.xml, case.weights)
            compiled = irrun.compile_model(model, memory=MEMORY)
            inputs = list(case.inputs)[: len(compiled.inputs)]
            inputs += [np.zeros((1,), np.float32)] * (len(compiled.inputs) - len(inputs))
            request = compiled.create_infer_request()
            for _ in range(2):
                request.infer(inputs, timeout=TIMEOUT)
        except irrun.TimeLimitError as error:
            outcome = {"kind": "refused", "message": str(error), "timeout": "1"}
        except irrun.ExecutionError as error:
            cause = error.__cause__
            wraps = cause is not None and f"{type(cause).__name__}: " in str(error)
            text = "".join(traceback.format_exception(cause)[-3:]) if wraps else ""
            outcome = {"kind": "wrapped" if wraps else "refused", "message": str(error), "trace": text}
            if isinstance(cause, MemoryError):
                text = "".join(traceback.format_exception(cause)[-3:])
                outcome = {"kind": "memory", "message": str(error), "trace": text}
        except irrun.IrrunError as error:
            outcome = {"kind": "refused", "message": str(error)}
        except MemoryError:
            outcome = {"kind": "memory", "message": traceback.format_exc()[-3000:]}
        except Exception:
            outcome = {"kind": "traceback", "message": traceback.format_exc()[-3000:]}
    if caught and outcome["kind"] in ("ok", "refused"):
        outcome = {"kind": "warning", "message": f"{caught[0].filename}:{caught[0].lineno}: {caught[0].message}"}
    seconds = time.process_time() - start
    if seconds > MAX_SECONDS and "timeout" not in outcome:
        outcome = {"kind": "slow", "message": f"{seconds:.1f} s"}
    return outcome


def run_range(seed: int, kind: str, start: int, stop: int) -> None:
    from fuzz.mutations import make_case
    from fuzz.tiers import run_tiers
    from irrun.inspection.peak_memory import read_peak

    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESSES, MAX_ADDRESSES))
    previous = 0
    for number in range(start, stop):
        print(json.dumps({"start": number}), flush=True)
        case = make_case(seed, number, kind)
        outcome = run_tiers(case) if kind == "graphs" else run_case(case)
        peak = read_peak() or 0
        if previous and peak - previous > MAX_GROWTH:
            outcome = {"kind": "memory", "message": f"the process grew by {(peak - previous) >> 20} MiB"}
        previous = peak
        print(json.dumps({"end": number, **outcome}), flush=True)


if __name__ == "__main__":
    run_range(int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
