"""Change single places of irrun at random, and report which changes the tests notice.

    python tests/mutation/mutate.py record              # once: which tests execute which lines
    python tests/mutation/mutate.py run --area ops --count 40
    python tests/mutation/mutate.py show results.json

Each mutation is applied to a copy of the checkout, where the tests that execute the changed lines run until one fails.
One whose tests pass has survived. Those that cannot be noticed are listed with a reason in equivalent.json.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import random
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click
from click.globals import pop_context
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
RECORDS = Path(os.environ.get("IRRUN_COVERAGE_RECORDS", ROOT / ".mutation"))
EQUIVALENT = Path(__file__).parent / "equivalent.json"

#: Area -> files, as patterns below irrun/.
AREAS = {
    "ops": ["ops/**/*.py"],
    "ir": ["ir/**/*.py"],
    "runtime": ["runtime/**/*.py", "threads.py", "limits.py", "machine_memory.py"],
    "files": ["data/*.py", "packing.py", "atomic_files.py", "element_types.py", "shapes.py", "errors.py"],
    "cli": ["cli/*.py"],
    "fast": ["fast/*.py", "fast/expressions/*.py", "fast/recurrent/*.py"],
    "jit": ["fast/jit/*.py"],
    "inspection": ["inspection/*.py"],
    "openvino": ["openvino/**/*.py"],
    "distributed": ["distributed/*.py"],
    "text": ["text/*.py", "generation/*.py", "openvino_genai/*.py"],
    "onnx": ["export/**/*.py", "onnx_import/*.py"],
}

#: The tests of programs that have the same results on OpenVINO.
SAME_PROGRAMS = (
    "models",
    "nodes",
    "values",
    "tensors",
    "preprocessing",
    "runs",
    "properties",
    "passes",
    "files",
    "control_flow",
    "inputs",
)

#: Area -> further tests of what survives, which the records do not contain: tests that run irrun in other processes,
#: tests of code that runs when irrun is imported or that only its signature is read of, and of functions whose results
#: are cached, which only the first test of a process executes; and tests of many small programs, which are few among
#: the hundreds that execute a line.
FURTHER_TESTS = {
    "ops": ["tests/ops/test_registry.py", "tests/ops/test_flops.py", "tests/conformance/test_completeness.py"],
    "ir": ["tests/ir/test_legacy_builder.py", "tests/ir/test_legacy_elements.py", "tests/ir/test_legacy_network.py"],
    "runtime": ["tests/test_api.py", "tests/test_forks.py"],
    "files": ["tests/data/test_load_and_save.py"],
    "cli": ["tests/cli", "tests/examples"],
    "fast": ["tests/fast/test_expressions.py"],
    "jit": ["tests/fast/test_jit_loops.py", "tests/fast/test_jit_forms.py"],
    "inspection": [f"tests/inspection/test_{name}.py" for name in ("spool", "debugger", "reduce")],
    "openvino": [
        f"tests/openvino/test_{name}.py"
        for name in ("modules", "programs", "opsets", "both_modules", *(f"same_{name}" for name in SAME_PROGRAMS))
    ],
    "distributed": ["tests/mapping"],
}

#: Unit tests of the first run, conformance tests of the second, others of the third, and the processor time of each.
FIRST_RUN, SECOND_RUN, THIRD_RUN, TIME_LIMIT = 60, 60, 120, 150

#: Imported once, before the processes of the mutations are forked.
PRELOADED = ["numpy", "ml_dtypes", "lxml.etree", "defusedxml", "pytest", "hypothesis", "PIL.Image", "openvino"]

Result = dict[str, Any]

_numbers = itertools.count(1)


def read_area(area: str, root: Path, rng: random.Random) -> list[Any]:
    """Return the mutations of all files of an area."""
    from mutation.sites import find_mutations

    paths = sorted({path for pattern in AREAS[area] for path in (root / "irrun").glob(pattern)})
    return [m for path in paths if path.name != "kernel_modules.py" for m in find_mutations(path, root, rng)]


def choose_mutations(area: str, count: int, seed: int, root: Path) -> list[Any]:
    """Return random mutations of an area. Each operator is equally likely, so that constants do not predominate."""
    from mutation.sites import OPERATORS

    rng = random.Random(f"{seed}-{area}")
    by_operator: dict[str, list[Any]] = {operator: [] for operator in OPERATORS}
    for mutation in read_area(area, root, rng):
        by_operator[mutation.operator].append(mutation)
    chosen: list[Any] = []
    while len(chosen) < count:
        candidates = by_operator[rng.choice(sorted(name for name, sites in by_operator.items() if sites))]
        chosen.append(candidates.pop(rng.randrange(len(candidates))))
    return chosen


def copy_checkout(folder: Path) -> Path:
    """Copy the files of the checkout that Git does not ignore, and return the copy."""
    copy = folder / "checkout"
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    shared = ROOT.parent / "shared"
    if shared.is_dir():
        (folder / "shared").symlink_to(shared)
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(copy / "irrun")], check=True)
    return copy


# Child processes


def run_in_child(function: Callable[[], Any], log: Path, seconds: float = TIME_LIMIT) -> Any:
    """Call a function in a forked process and return its result, which JSON can represent.

    Returns:
        The result; None if the process was stopped because of its time, its memory or a crash.
    """
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.setsid()
        while click.get_current_context(silent=True) is not None:  # tests of commands look for a context, too
            pop_context()
        with open(log, "wb") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
        with os.fdopen(writer, "w") as pipe:
            json.dump(function(), pipe)
        os._exit(0)
    os.close(writer)
    deadline = time.monotonic() + 20 * seconds  # a machine that is busy with other things
    with os.fdopen(reader) as pipe:
        os.set_blocking(pipe.fileno(), True)
        signal.signal(signal.SIGALRM, lambda *_: os.killpg(process, signal.SIGKILL))
        signal.alarm(max(1, int(deadline - time.monotonic())))
        text = pipe.read()
        signal.alarm(0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return json.loads(text) if text else None


def run_tests(copy: Path, tests: Sequence[str], *, select: bool = True, stop: bool = True) -> Result:
    """Run tests in the copy, in this process.

    Args:
        copy: The copy of the checkout.
        tests: The ids of the tests, or files and folders if `select` is False.
        select: Whether only the tests with these ids run.
        stop: Whether to stop at the first failure.

    Returns:
        "failed", a list of ids, and "run", the number of tests.
    """
    import pytest

    failed: list[str] = []
    run: list[str] = []

    class Recorder:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.when == "call":
                run.append(report.nodeid)
            if report.failed and report.nodeid not in failed:
                failed.append(report.nodeid)

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

    arguments = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--timeout=150", "--tb=short", "--no-header"]
    paths = list(tests)
    if select:
        paths = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        paths = [path for path in paths if (copy / path).exists()]
        ids = copy.parent / "tests.json"
        ids.write_text(json.dumps(list(tests)))
        os.environ["IRRUN_TEST_IDS"] = str(ids)
        arguments += ["-p", "mutation.selection"]
    if not paths:
        return {"failed": [], "run": 0}
    code = pytest.main([*arguments, *(["-x"] if stop else []), *paths], plugins=[Recorder()])
    if code not in (0, 1, 5) and not failed:
        failed.append("pytest")
    return {"failed": failed, "run": len(run)}


def plan_tests(copy: Path, mutations: Sequence[Any], seed: int) -> list[list[list[str]]]:
    """Return the runs of each mutation, which are lists of ids; tests of operations of a changed kernel come second."""
    from mutation.selection import CoverageRecords, list_conformance_tests

    records = CoverageRecords(RECORDS, copy)
    plans = []
    for mutation in mutations:
        rng = random.Random(f"{seed}-{mutation}")
        tests = records.find_tests(mutation.path, mutation.covering)
        covering = records.order_tests(tests, mutation.path, mutation.function, rng)
        unit = [test for test in covering if "/conformance/" not in test]
        conformance = [test for test in covering if "/conformance/" in test]
        if mutation.path.startswith(("irrun/ops/", "irrun/fast/")):
            operations = sorted({test.partition("[")[2].rpartition("-")[0] for test in conformance})
            conformance += list_conformance_tests(mutation.path, 400, rng, operations)
            if mutation.operator == "default":  # a signature is read, not executed
                conformance.insert(0, "tests/conformance/test_defaults.py::test_table_contains_all_defaults")
        conformance = list(dict.fromkeys(conformance))
        rest = unit[FIRST_RUN:] + conformance[SECOND_RUN:]
        runs = [unit[:FIRST_RUN], conformance[:SECOND_RUN], rest[:THIRD_RUN]]
        plans.append([run for run in runs if run])
    return plans


# Mutations


@contextlib.contextmanager
def mutate(copy: Path, mutation: Any) -> Iterator[None]:
    """Change the file of a mutation in the copy for the duration of the block."""
    from mutation.sites import apply_mutation

    path = copy / mutation.path
    source, status = path.read_bytes(), path.stat()
    path.write_bytes(apply_mutation(mutation, source))
    changed = status.st_mtime + 60 * next(_numbers)  # compiled files are compared by the time and the size
    os.utime(path, (changed, changed))
    try:
        yield
    finally:
        path.write_bytes(source)
        os.utime(path, (status.st_atime, status.st_mtime))


def try_mutation(copy: Path, area: str, mutation: Any, runs: Sequence[Sequence[str]], log: Path) -> Result:
    """Run the tests of a mutation and describe the outcome."""
    from mutation.sites import apply_mutation

    source = (copy / mutation.path).read_bytes()
    before = source.splitlines()[mutation.line - 1].decode().strip()
    after = apply_mutation(mutation, source).splitlines()[mutation.line - 1].decode().strip()
    start, count = time.monotonic(), 0
    result = {"area": area, **mutation._asdict(), "before": before, "after": after, "status": "survived", "by": ""}
    steps: list[tuple[Sequence[str], bool]] = [(run, True) for run in runs]
    if area in FURTHER_TESTS:
        steps.append((FURTHER_TESTS[area], False))
    with mutate(copy, mutation):
        for tests, select in steps:
            outcome = run_in_child(lambda: run_tests(copy, tests, select=select), log)  # noqa: B023
            count += outcome["run"] if outcome else 0
            if outcome is None or outcome["failed"]:
                result["status"] = "killed" if outcome else "timeout"
                result["by"] = outcome["failed"][0] if outcome else ""
                break
    return result | {"tests": count, "seconds": round(time.monotonic() - start, 1)}


def find_reason(result: Result) -> str:
    """Return why a mutation is equivalent, or ""."""
    for entry in json.loads(EQUIVALENT.read_text()) if EQUIVALENT.exists() else []:
        if all(entry[key] == result[key] for key in ("path", "function", "before", "after")):
            return str(entry["reason"])
    return ""


def check_failures(copy: Path, results: list[Result], log: Path) -> None:
    """Mark mutations as invalid whose failed test also fails without them."""
    tests = sorted({r["by"] for r in results if "::" in r["by"]})
    outcome = run_in_child(lambda: run_tests(copy, tests, stop=False), log, 1000) or {"failed": tests}
    for result in results:
        if result["by"] in outcome["failed"]:
            result["status"] = "invalid"


def print_scores(results: Sequence[Result], console: Console) -> None:
    """Print a table of the scores by area, and the mutations that survived."""
    survivors = [r for r in results if r["status"] == "survived" and not find_reason(r)]
    for result in survivors:
        console.print(f"{result['path']}:{result['line']} {result['function']}", style="bold", markup=False)
        console.print(f"  - {result['before']}\n  + {result['after']}", markup=False, highlight=False)
    table = Table("area", "mutations", "equivalent", "killed", "timeout", "survived", "invalid", "score")
    for area in [a for a in AREAS if any(r["area"] == a for r in results)]:
        own = [r for r in results if r["area"] == area]
        counts = {s: sum(r["status"] == s for r in own) for s in ("killed", "timeout", "survived", "invalid")}
        equivalent = sum(r["status"] == "survived" and bool(find_reason(r)) for r in own)
        counts["survived"] -= equivalent
        noticed = counts["killed"] + counts["timeout"]
        score = noticed / max(1, noticed + counts["survived"])
        table.add_row(area, str(len(own)), str(equivalent), *map(str, counts.values()), f"{score:.0%}")
    console.print(table)


# Commands


@click.group()
def main() -> None:
    """Change single places of irrun at random, and report which changes the tests notice."""


@main.command()
@click.argument("tests", nargs=-1)
@click.option("--workers", default=2, show_default=True, help="Processes that run tests.")
def record(tests: tuple[str, ...], workers: int) -> None:
    """Record which tests execute which lines.

    With TESTS, their records are added to those that exist. Without, all records are made again; of the conformance
    tests, the first case of each operation is recorded.
    """
    if not tests:
        shutil.rmtree(RECORDS, ignore_errors=True)
    folder = RECORDS / secrets.token_hex(4)
    shutil.copytree(ROOT / "irrun", folder / "sources" / "irrun", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "IRRUN_COVERAGE_MAP": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutation.coverage_map", "-n", str(workers)]
    environment["PYTHONPATH"] = str(ROOT / "tests")
    ignored = [f"--ignore=tests/{name}" for name in ("conformance", "fuzz", "mapping", "hostile", "test_typing.py")]
    subprocess.run([*command, *(tests or ignored)], cwd=ROOT, env=environment, check=False)
    if not tests:
        first = ["tests/conformance/test_operations.py", "-k", "-0"]
        subprocess.run([*command, *first], cwd=ROOT, env=environment, check=False)


@main.command()
@click.option("--area", "areas", type=click.Choice(list(AREAS)), multiple=True, help="May be repeated; all by default.")
@click.option("--count", default=30, show_default=True, help="Mutations per area.")
@click.option("--seed", type=int, help="By default a random one, which is printed.")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("mutations.json"), show_default=True)
@click.option("--again", type=click.Path(exists=True, path_type=Path), help="Repeat the survivors in this file.")
def run(areas: tuple[str, ...], count: int, seed: int | None, output: Path, again: Path | None) -> None:
    """Test random mutations and write the results as JSON."""
    seed = secrets.randbits(32) if seed is None else seed
    click.echo(f"seed {seed}")
    options = [f"--area={area}" for area in areas or AREAS] + [f"--count={count}", f"--seed={seed}"]
    options += [f"--output={output.absolute()}", *([f"--again={again.absolute()}"] if again else [])]
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_checkout(Path(folder))
        environment = {
            **os.environ,
            "PYTHONPATH": f"{copy}{os.pathsep}{copy / 'tests'}",
            "IRRUN_COVERAGE_RECORDS": str(RECORDS),
            "OMP_NUM_THREADS": "1",
        }
        subprocess.run(
            [sys.executable, "-m", "mutation.mutate", "work", *options], cwd=copy, env=environment, check=True
        )
    print_scores(json.loads(output.read_text()), Console())


@main.command(hidden=True)
@click.option("--area", "areas", multiple=True)
@click.option("--count", type=int)
@click.option("--seed", type=int)
@click.option("--output", type=click.Path(path_type=Path))
@click.option("--again", type=click.Path(path_type=Path))
def work(areas: tuple[str, ...], count: int, seed: int, output: Path, again: Path | None) -> None:
    """Test mutations in the copy of the checkout that this module belongs to."""
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for plugin in entry_points(group="pytest11"):
        with contextlib.suppress(ImportError):
            plugin.load()
    log, results = ROOT.parent / "log", []
    jobs = [(area, m) for area in areas for m in choose_mutations(area, count, seed, ROOT)]
    if again:
        jobs = [job for result in json.loads(again.read_text()) for job in find_again(result)]
    mutations = [mutation for _, mutation in jobs]
    plans = run_in_child(lambda: plan_tests(ROOT, mutations, seed), log, 600)
    if plans is None:
        raise click.ClickException(log.read_text()[-2000:])
    for (area, mutation), runs in zip(jobs, plans, strict=True):
        result = try_mutation(ROOT, area, mutation, runs, log)
        results.append(result)
        output.write_text(json.dumps(results, indent=1))
        click.echo(
            f"{result['status']:9} {result['seconds']:6} s {result['tests']:4} tests "
            f"{result['path']}:{result['line']} {result['operator']}: {result['after'][:100]}"
        )
    check_failures(ROOT, results, log)
    output.write_text(json.dumps(results, indent=1))


def find_again(result: Result) -> list[tuple[str, Any]]:
    """Return the area and the mutation of a result that survived; nothing for others and if its line is changed."""
    from mutation.sites import apply_mutation

    if result["status"] != "survived" or find_reason(result):
        return []
    source = (ROOT / result["path"]).read_bytes()
    for mutation in read_area(result["area"], ROOT, random.Random(0)):
        if (mutation.path, mutation.function, mutation.operator) == tuple(
            result[key] for key in ("path", "function", "operator")
        ):
            changed = apply_mutation(mutation, source).splitlines()[mutation.line - 1].decode().strip()
            if changed == result["after"]:
                return [(result["area"], mutation)]
    return []


@main.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, path_type=Path))
def show(files: tuple[Path, ...]) -> None:
    """Print the survivors and the scores of result FILES."""
    print_scores([result for file in files for result in json.loads(file.read_text())], Console())


if __name__ == "__main__":
    main()
