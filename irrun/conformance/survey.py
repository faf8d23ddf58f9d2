"""Runs cases of every operation on a device of OpenVINO, and sorts what happens."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from time import monotonic
from typing import Any

from irrun.conformance.cases import GENERATORS, Case, list_cases, load_generators
from irrun.conformance.fault import get_instruction_set
from irrun.conformance.faults import list_faults
from irrun.conformance.pool import Pool
from irrun.conformance.worker import Outcome, Status, Task, WorkerSettings, find_known_faults, format_command, is_unsafe
from irrun.errors import InputError
from irrun.inspection.openvino_evaluate import REFERENCE

__all__ = ["Finding", "OperationResult", "Survey", "run_survey"]

#: Cases of one task.
TASK_SIZE = 32
#: Cases of a finding that are tried alone, the smallest first.
MAX_TRIALS = 4
#: Seconds that a case may take.
TIMEOUT = 60.0

#: Names of nodes and of files in messages of OpenVINO, which differ from case to case.
NAMES = r"(?<=\w)_\d+\b| ?\(opset\d+::.*|Exception from \S+ |Check .{1,80} failed at \S+:\d+: ?"
#: The type and version of an operation.
Key = tuple[str, int]
#: Gets the number of cases that are done and of all cases.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Finding:
    """Cases of an operation that differ or crash for what seems to be the same reason.

    Attributes:
        status: "differ" or "crashed".
        numbers: The numbers of the cases.
        case: The subject of the smallest case.
        text: How its outputs differ, or how the process ended.
        confirmation: Who else has which outputs, or "".
        fault: The name of a known fault of OpenVINO, or "".
        title: The title of that fault, or "".
        files: The smallest model and its inputs.
        command: The command that shows the difference, or "".
        is_reproduced: Whether the case has the same status alone in a process.
    """

    status: Status
    numbers: tuple[int, ...]
    case: str
    text: str
    confirmation: str = ""
    fault: str = ""
    title: str = ""
    files: tuple[Path, ...] = ()
    command: str = ""
    is_reproduced: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return {**vars(self), "numbers": list(self.numbers), "files": [str(path) for path in self.files]}


@dataclass
class OperationResult:
    """The results of the cases of one operation.

    Attributes:
        operation: The type and version, such as "Gather-8".
        category: The category of the specification.
        counts: The number of cases by status.
        findings: The differences and crashes.
        refusals: The reasons of refusals, and how many cases have them.
    """

    operation: str
    category: str
    counts: Counter[Status] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "operation": self.operation,
            "category": self.category,
            "cases": self.counts.total(),
            **_count(self.counts),
            "findings": [finding.to_json() for finding in self.findings],
            "refusals": dict(self.refusals.most_common()),
        }


@dataclass
class Survey:
    """The results of all operations.

    Attributes:
        device: The device, or "reference".
        version: The version of OpenVINO.
        processor: The processor of this machine.
        seed: The seed of the values.
        seconds: How long it took.
        operations: The results, in the order of the names.
    """

    device: str
    version: str
    processor: str
    seed: int
    seconds: float = 0.0
    operations: list[OperationResult] = field(default_factory=list)

    @property
    def counts(self) -> Counter[Status]:
        """The number of cases by status."""
        return sum((result.counts for result in self.operations), Counter[Status]())

    @property
    def findings(self) -> list[Finding]:
        """The differences and crashes."""
        return [finding for result in self.operations for finding in result.findings]

    def to_json(self) -> dict[str, Any]:
        """Return the survey as JSON."""
        return {
            "device": self.device,
            "openvino": self.version,
            "processor": self.processor,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "cases": self.counts.total(),
            **_count(self.counts),
            "operations": [result.to_json() for result in self.operations],
        }


def _count(counts: Counter[Status]) -> dict[str, int]:
    statuses: tuple[Status, ...] = ("agree", "differ", "refused", "crashed")
    return {status: counts[status] for status in statuses}


def run_survey(
    device: str = "CPU",
    patterns: Sequence[str] = (),
    *,
    cases: int | None = None,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    timeout: float = TIMEOUT,
    progress: Progress | None = None,
) -> Survey:
    """Run cases of operations on irrun and on a device of OpenVINO, and compare the outputs.

    Args:
        device: A device of OpenVINO, which computes in f32, or "reference" for the reference implementation
            (`Model.evaluate`).
        patterns: Globs of types or of types and versions, such as "Gather*" and "Gather-8". By default, all operations.
        cases: The largest number of cases of an operation. By default, all that are generated.
        seed: The seed of the values.
        folder: Where the smallest model and inputs of each finding are written; by default, nowhere.
        workers: The number of processes; by default, the number of cores.
        timeout: Seconds that a case may take.
        progress: Called when a case is done.

    Returns:
        The results.

    Raises:
        InputError: OpenVINO is not installed or does not have the device, or no operation matches a pattern.
        ExecutionError: A process cannot be started.
    """
    chosen = _choose_operations(patterns)
    version = _check_device(device)
    start = monotonic()
    survey = Survey(device, version, _describe_processor(), seed)
    with tempfile.TemporaryDirectory(prefix="irrun-") as logs:
        pool = Pool(workers or os.cpu_count() or 1, WorkerSettings(device, seed, Path(logs) / "log"), timeout)
        runner = _Runner(pool, device, seed, cases)
        runner.run(chosen, progress)
        survey.operations = [runner.make_result(key) for key in chosen]
        runner.find_smallest(survey.operations, chosen, None if folder is None else Path(folder))
    survey.seconds = monotonic() - start
    return survey


def _check_device(device: str) -> str:
    """Return the version of OpenVINO.

    Raises:
        InputError: It is not installed, or does not have the device.
    """
    try:
        import openvino
    except ImportError:
        raise InputError("this command requires OpenVINO: pip install 'irrun[openvino]'") from None
    available = openvino.Core().available_devices
    if device != REFERENCE and device.split(".")[0] not in {name.split(".")[0] for name in available}:
        raise InputError(f"OpenVINO has no device {device!r}; expected {REFERENCE} or {', '.join(available)}")
    return str(openvino.get_version()).split("-")[0]


def _describe_processor() -> str:
    """Return the name of the processor and the instruction set that the CPU plugin uses."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    return f"{name} ({get_instruction_set()})"


def _name(key: Key) -> str:
    """Return the name of an operation, without a version outside the numbered opsets."""
    return f"{key[0]}-{key[1] or 'internal'}"


def _choose_operations(patterns: Sequence[str]) -> list[Key]:
    """Return the operations that match patterns, in the order of their names.

    Raises:
        InputError: A pattern matches none.
    """
    load_generators()
    names = {_name(key).lower(): key for key in GENERATORS}
    if not patterns:
        return sorted(names.values())
    chosen: set[Key] = set()
    for pattern in patterns:
        matches = {
            key
            for name, key in names.items()
            if fnmatchcase(name, pattern.lower()) or fnmatchcase(key[0].lower(), pattern.lower())
        }
        if not matches:
            raise InputError(f"no operation matches {pattern!r}; `irrun ops` lists all of them")
        chosen |= matches
    return sorted(chosen)


class _Runner:
    """Runs the cases of operations and collects the outcomes.

    Args:
        pool: The processes.
        device: The device.
        seed: The seed of the values.
        limit: The largest number of cases of an operation, or None.
    """

    def __init__(self, pool: Pool, device: str, seed: int, limit: int | None) -> None:
        self._pool = pool
        self._device = device
        self._seed = seed
        self._limit = limit
        self._outcomes: dict[Key, list[Outcome]] = {}

    def run(self, operations: Sequence[Key], progress: Progress | None) -> None:
        """Run all cases of operations."""
        tasks = [task for key in operations for task in self._make_tasks(key)]
        total, numbers = sum(len(task.numbers) for task in tasks), itertools.count(1)

        def receive(task: Task, outcome: Outcome) -> None:
            self._outcomes.setdefault((task.type, task.since), []).append(outcome)
            if progress is not None:
                progress(next(numbers), total)

        self._pool.run(tasks, receive)

    def _make_tasks(self, key: Key) -> list[Task]:
        """Divide the cases of an operation into tasks. Cases that are not safe do not run together with others."""
        cases = list_cases(*key, self._seed)
        numbers = self._sample(len(cases))
        unsafe = {i for i in numbers if is_unsafe(cases[i], self._device)}
        safe = [i for i in numbers if i not in unsafe]
        chunks = [tuple(safe[i : i + TASK_SIZE]) for i in range(0, len(safe), TASK_SIZE)]
        tasks = [Task(*key, chunk) for chunk in chunks]
        return [*tasks, Task(*key, tuple(sorted(unsafe)), is_alone=True)] if unsafe else tasks

    def _sample(self, count: int) -> list[int]:
        """Return the numbers of the cases to run, evenly distributed."""
        limit = count if self._limit is None else min(count, self._limit)
        return [i * count // limit for i in range(limit)]

    def make_result(self, key: Key) -> OperationResult:
        """Return the result of an operation, without the findings."""
        from irrun.ops._support import registry

        operation = registry.find(key[0], f"opset{key[1]}")
        result = OperationResult(_name(key), operation.category if operation is not None else "")
        for outcome in self._outcomes.get(key, []):
            result.counts[outcome.status] += 1
            if outcome.status == "refused":
                result.refusals[re.sub(NAMES, "", outcome.text)] += 1
        return result

    def find_smallest(self, results: Sequence[OperationResult], operations: Sequence[Key], folder: Path | None) -> None:
        """Add the findings. The smallest case of each finding runs alone."""
        groups = [group for key, result in zip(operations, results, strict=True) for group in self._group(key, result)]
        with tempfile.TemporaryDirectory(prefix="irrun-") as unused:
            for trial in range(MAX_TRIALS):
                pending = {group.get_folder(folder or Path(unused)): group for group in groups if group.needs(trial)}
                tasks = [group.make_task(trial, path) for path, group in pending.items()]

                def receive(task: Task, outcome: Outcome, pending: dict[Path, _Group] = pending) -> None:
                    assert task.folder is not None
                    pending[task.folder].outcome = outcome

                self._pool.run(tasks, receive)
        for group in groups:
            group.result.findings.append(group.make_finding(self._device, self._seed, folder))

    def _group(self, key: Key, result: OperationResult) -> list[_Group]:
        """Return the cases of an operation that differ or crash, by status and known fault."""
        cases = list_cases(*key, self._seed)
        groups: dict[tuple[Status, str], _Group] = {}
        for outcome in self._outcomes.get(key, []):
            if outcome.status in ("differ", "crashed"):
                fault = next(iter(find_known_faults(cases[outcome.number], self._device)), "")
                names = (outcome.status, fault)
                group = groups.setdefault(names, _Group(key, *names, result, number=len(groups) + 1))
                group.outcomes.append(outcome)
        for group in groups.values():
            group.outcomes.sort(key=lambda outcome: (_measure(cases[outcome.number]), outcome.number))
        return list(groups.values())


@dataclass
class _Group:
    """Cases that become a finding.

    Attributes:
        operation: The type and version.
        status: The status of the cases.
        fault: The known fault, or "".
        result: The result that gets the finding.
        number: The number of the finding.
        outcomes: The results, the smallest case first.
        outcome: The result of the last case that ran alone.
    """

    operation: Key
    status: Status
    fault: str
    result: OperationResult
    number: int
    outcomes: list[Outcome] = field(default_factory=list)
    outcome: Outcome | None = None

    def needs(self, trial: int) -> bool:
        """Return whether another case must run alone, since the last one had another outcome there."""
        is_found = self.outcome is not None and self.outcome.status == self.status
        return not is_found and trial < len(self.outcomes)

    def get_folder(self, parent: Path) -> Path:
        """Return where the files of the finding are written."""
        return parent / _name(self.operation) / str(self.number)

    def make_task(self, trial: int, folder: Path) -> Task:
        """Return the task that runs one of the cases alone."""
        return Task(*self.operation, (self.outcomes[trial].number,), is_alone=True, folder=folder)

    def make_finding(self, device: str, seed: int, folder: Path | None) -> Finding:
        """Return the finding."""
        assert self.outcome is not None
        is_reproduced = self.outcome.status == self.status
        shown = self.outcome if is_reproduced else self.outcomes[0]
        files = self._list_files(folder) if is_reproduced else ()
        return Finding(
            self.status,
            tuple(outcome.number for outcome in self.outcomes),
            _describe(list_cases(*self.operation, seed)[shown.number]),
            shown.text,
            shown.confirmation,
            self.fault,
            list_faults()[self.fault].title if self.fault else "",
            files,
            self._choose_command(shown, folder, device) if files else "",
            is_reproduced,
        )

    def _choose_command(self, shown: Outcome, folder: Path | None, device: str) -> str:
        """Return the command that shows the finding. If a process crashed, the command crashes, too."""
        if shown.status != "crashed" or folder is None:
            return shown.command
        return format_command(self.get_folder(folder), device)

    def _list_files(self, folder: Path | None) -> tuple[Path, ...]:
        """Return the files that were written, also by a process that has crashed."""
        if folder is None:
            return ()
        names = ("model.xml", "model.bin", "inputs.npz")
        return tuple(path for name in names if (path := self.get_folder(folder) / name).exists())


def _measure(case: Case) -> int:
    """Return the number of elements of the inputs."""
    return sum(x.size for x in case.inputs if x is not None)


def _describe(case: Case) -> str:
    """Return the types and shapes of the inputs, the attributes, and what the case tests."""
    shapes = [
        f"{_format_type(x)}[{','.join('?' * x.ndim if i in case.dynamic else map(str, x.shape))}]"
        + " constant" * (i in case.constants)
        for i, x in enumerate(case.inputs)
        if x is not None
    ]
    attributes = [f"{name}={value}" for name, value in case.attributes.items()]
    return "; ".join(filter(None, (", ".join(shapes), " ".join(attributes), case.note)))


def _format_type(x: Any) -> str:
    from irrun.element_types import ElementType

    return ElementType.of(x.dtype).name
