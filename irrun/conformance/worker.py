"""The processes that run cases: one that dies or hangs costs one case."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import numpy as np

from irrun.conformance.cases import Case, list_cases, load_generators
from irrun.conformance.fault import Oracle
from irrun.conformance.faults import find_faults
from irrun.conformance.harness import (
    build_model,
    compare_outputs,
    evaluate,
    get_default_tolerance,
    run_on_device,
    run_on_irrun,
    write_model,
)
from irrun.errors import ExecutionError, IrrunError, to_one_line
from irrun.inspection.openvino_evaluate import REFERENCE

__all__ = ["Outcome", "Status", "Task", "WorkerSettings", "find_known_faults", "format_command", "is_unsafe", "work"]

Array = np.ndarray[Any, Any]

#: Characters of a message that are kept.
MAX_MESSAGE = 500
#: Tolerances of `irrun compare` that are tried until it shows a difference; None is its default.
COMPARE_TOLERANCES = (None, 1.0, 0.0)

Status = Literal["agree", "differ", "refused", "crashed"]


@dataclass(frozen=True)
class WorkerSettings:
    """The settings shared by all cases.

    Attributes:
        device: A device of OpenVINO, or REFERENCE.
        seed: The seed of the values.
        log: The file that gets what the process prints.
    """

    device: str
    seed: int
    log: Path


@dataclass(frozen=True)
class Task:
    """Cases of one operation that a process runs one after another.

    Attributes:
        type: The type of the operation.
        since: Its version.
        numbers: The numbers of the cases.
        is_alone: Whether the process does nothing before and after.
        asks_reference: Whether to ask the reference implementation about outputs that differ.
        folder: Where the model and the inputs of the only case are written, or None.
    """

    type: str
    since: int
    numbers: tuple[int, ...]
    is_alone: bool = False
    asks_reference: bool = True
    folder: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of one case.

    Attributes:
        number: The number of the case.
        status: The status of the case.
        text: How the outputs differ, or why there are none.
        confirmation: Who else has which outputs, or "".
        command: The command that shows the difference, or "".
        files: The files that were written.
    """

    number: int
    status: Status
    text: str = ""
    confirmation: str = ""
    command: str = ""
    files: tuple[Path, ...] = ()


def find_known_faults(case: Case, device: str) -> list[str]:
    """Return the names of the known faults that a case may show on a device and this processor."""
    oracles: dict[str, Oracle] = {"CPU": "cpu", REFERENCE: "evaluate"}
    return [fault.name for fault in find_faults(case.faults, oracles[device])] if device in oracles else []


def is_unsafe(case: Case, device: str) -> bool:
    """Return whether a case may corrupt the memory of the process."""
    oracles: dict[str, Oracle] = {"CPU": "cpu", REFERENCE: "evaluate"}
    return device in oracles and any(fault.is_unsafe for fault in find_faults(case.faults, oracles[device]))


def work(connection: Connection, settings: WorkerSettings) -> None:
    """Run tasks until there are no more.

    Args:
        connection: Receives tasks, and None at the end. Sends what the process is about to do ("irrun", "device" or
            "reference", each with the number of the case), outcomes, and None after each task.
        settings: The settings shared by all cases.
    """
    _redirect_output(settings.log)
    load_generators()
    with contextlib.suppress(EOFError, OSError):  # the parent process has ended
        for task in iter(connection.recv, None):
            cases = list_cases(task.type, task.since, settings.seed)
            for number in task.numbers:
                connection.send(_run(task, number, cases[number], connection, settings.device))
            connection.send(None)


def _redirect_output(log: Path) -> None:
    """Send what libraries print to a file, and write no core files."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _run(task: Task, number: int, case: Case, connection: Connection, device: str) -> Outcome:
    """Run one case on irrun and on the device, and compare the outputs."""
    connection.send(("irrun", number))
    try:
        model = build_model(task.type, task.since, case)
    except Exception as error:  # OpenVINO's exceptions have no common class
        return Outcome(number, "refused", f"not built: {_shorten(error)}")
    values = case.parameter_values
    with write_model(model) as path:
        files = _save(task.folder, path, values) if task.folder is not None else []
        try:
            outputs = run_on_irrun(path, values, optimize=False)
        except IrrunError as error:
            return Outcome(number, "refused", f"irrun: {_shorten(error)}")
    if not case.is_readable:
        return Outcome(number, "refused", "OpenVINO does not read the operation from files")
    connection.send(("device", number))
    try:
        if device == REFERENCE:
            actual = evaluate(model, values, [x.shape for x in outputs])
        else:
            actual = run_on_device(model, values, device)
    except Exception as error:
        return Outcome(number, "refused", _shorten(error))
    if _agree(outputs, actual, case):
        return Outcome(number, "agree")
    outcome = Outcome(number, "differ", _describe_difference(outputs, actual, case), files=tuple(files))
    if task.folder is not None:
        connection.send(("device", number))
        outcome = replace(outcome, command=_find_command(task.folder, device, values))
    if task.asks_reference:
        connection.send(("reference", number))
        outcome = replace(outcome, confirmation=_find_confirmation(model, case, outputs, actual, device))
    return outcome


def _agree(outputs: Sequence[Array], expected: Sequence[Array | None], case: Case) -> bool:
    try:
        compare_outputs(list(outputs), expected, case)
    except AssertionError:
        return False
    return True


def _find_confirmation(model: Any, case: Case, outputs: Sequence[Array], actual: Sequence[Array], device: str) -> str:
    """Return who else has the outputs of irrun or of the device."""
    known = [None if x is None else np.asarray(x) for x in case.expected or ()]
    sources: dict[str, Sequence[Array | None]] = {"the definition": known} if known else {}
    if device != REFERENCE and not is_unsafe(case, REFERENCE):
        with contextlib.suppress(Exception):
            sources["the reference implementation"] = evaluate(model, case.parameter_values, [x.shape for x in outputs])
    texts = []
    for name, expected in sources.items():
        if _agree(outputs, expected, case):
            texts.append(f"{name} agrees with irrun")
        elif _agree(actual, expected, case):
            texts.append(f"{name} agrees with {device}")
        else:
            texts.append(f"{name} differs from both")
    return ", ".join(texts)


def _describe_difference(outputs: Sequence[Array], actual: Sequence[Array], case: Case) -> str:
    """Return where the outputs of irrun and of the device differ."""
    if len(outputs) != len(actual):
        return f"{len(actual)} outputs, expected {len(outputs)}"
    if case.normalize:
        outputs, actual = case.normalize(list(outputs)), case.normalize(list(actual))
    for i, (expected, found) in enumerate(zip(outputs, actual, strict=True)):
        is_compared = case.outputs is None or i in case.outputs
        if not is_compared or _agree([expected], [found], Case(tolerance=case.tolerance)):
            continue
        where = f"output {i}: " if len(outputs) > 1 else ""
        if (expected.dtype, expected.shape) != (found.dtype, found.shape):
            return f"{where}{found.dtype}{list(found.shape)}, irrun has {expected.dtype}{list(expected.shape)}"
        wrong = _find_differences(expected, found, case)
        first = tuple(map(int, np.unravel_index(np.flatnonzero(wrong)[0], wrong.shape)))
        place = f" at {list(first)}" if first else ""
        return (
            f"{where}{np.count_nonzero(wrong)} of {expected.size} values differ: {found[first]!s} instead of "
            f"{expected[first]!s}{place}"
        )
    return "the outputs differ"


def _find_differences(expected: Array, found: Array, case: Case) -> Array:
    """Return which values differ by more than the tolerance."""
    from irrun.ops._support.numerics import is_float, upcast

    if not is_float(expected.dtype):
        return np.asarray(expected != found)
    rtol, atol = case.tolerance or get_default_tolerance(expected.dtype)
    with np.errstate(all="ignore"):
        return ~np.isclose(upcast(expected), upcast(found), rtol=rtol, atol=atol, equal_nan=True)


def _save(folder: Path, path: Path, values: Sequence[Array]) -> list[Path]:
    """Write a model and its inputs to a folder, and return the files."""
    import irrun
    from irrun.data.save import save_outputs

    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"model{suffix}" for suffix in (".xml", ".bin")]
    for file in files:
        shutil.copyfile(path.with_suffix(file.suffix), file)
    if values:
        names = [spec.any_name for spec in irrun.read_model(path).inputs]
        files += save_outputs(dict(zip(names, values, strict=True)), folder / "inputs.npz")
    return files


def _find_command(folder: Path, device: str, values: Sequence[Array]) -> str:
    """Return a command that shows a difference, or ""."""
    import irrun
    from irrun.inspection.comparing import compare

    for factor in COMPARE_TOLERANCES:
        try:
            model = irrun.read_model(folder / "model.xml")
            result = compare(
                model, name_reference(device), list(values) or None, precision="declared", factor=factor, threads=1
            )
        except ExecutionError:  # the device cannot run it a second time
            return format_command(folder, device)
        if not result.agrees:
            return format_command(folder, device) + ("" if factor is None else f" --tolerance {factor:g}")
    return ""


def name_reference(device: str) -> str:
    """Return what `irrun compare` calls a device."""
    return "openvino" if device == "CPU" else f"openvino:{device}"


def format_command(folder: Path, device: str) -> str:
    """Return the command that compares the model and the inputs of a folder."""
    words = ["irrun", "compare", str(folder / "model.xml"), "--against", name_reference(device)]
    inputs = folder / "inputs.npz"
    words += ["--input", str(inputs)] if inputs.exists() else []
    return shlex.join([*words, "--precision", "declared"])


def _shorten(error: BaseException) -> str:
    """Return the last lines of a message, which say why."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = to_one_line(" ".join(lines[-2:]) or type(error).__name__)
    return text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE - 3]}..."
