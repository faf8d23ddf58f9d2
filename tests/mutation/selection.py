"""Selection of the tests that a mutation can affect, and a plugin of pytest that runs only those."""

from __future__ import annotations

import difflib
import json
import os
import random
import re
import sqlite3
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

__all__ = ["CoverageRecords", "list_conformance_tests"]

#: The environment variable that names the file with the ids of the tests to run.
VARIABLE = "IRRUN_TEST_IDS"


class CoverageRecords:
    """The records of coverage_map.py, for sources that may have changed since.

    Args:
        folder: A folder with one folder for each time that tests were recorded. `sources/` in it contains the package
            as it was then.
        root: The checkout whose lines are asked for.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        self._root = root
        self._seconds: dict[str, float] = {}
        for path in sorted(folder.glob("*/seconds.*.json")):
            self._seconds.update(json.loads(path.read_text()))
        self._records = [(path.parent / "sources", sqlite3.connect(path)) for path in sorted(folder.glob("*/record.*"))]

    def find_tests(self, path: str, lines: tuple[int, int] | None) -> set[str]:
        """Return the ids of the tests that execute one of the lines of a file.

        Args:
            path: The file, relative to the checkout.
            lines: The first and the last line; None for the whole file. A line that was not recorded stands for the
                whole file.
        """
        tests: set[str] = set()
        for sources, connection in self._records:
            old_lines = self._translate(sources / path, self._root / path, lines)
            rows = connection.execute(
                "select context, numbits from line_bits join context on context.id = context_id "
                "join file on file.id = file_id where file.path like ? and context != ''",
                (f"%/{path}",),
            )
            tests.update(test for test, bits in rows if old_lines is None or _contains_any(bits, old_lines))
        return tests

    def order_tests(self, tests: Collection[str], path: str, function: str, rng: random.Random) -> list[str]:
        """Return tests in the order in which they probably fail: one of each function, then second ones, and so on.

        Functions in the folder of the same name, and those whose names contain words of the changed function or its
        module, come first, with more of their cases the closer they are; slow tests come last.
        """
        folder = f"tests/{path.split('/')[1]}/"
        words = {word for word in re.split(r"[/._]", f"{path} {function}".lower()) if len(word) > 2}
        functions: dict[str, list[str]] = {}
        for test in sorted(tests, key=lambda test: (self._seconds.get(test, 0.1) // 0.5, rng.random())):
            functions.setdefault(test.partition("[")[0], []).append(test)
        turns = []
        for name, own in functions.items():
            closeness = len(words & set(re.split(r"[/._:]+", name.lower()))) + name.startswith(folder)
            for turn, test in enumerate(own):
                rank = turn // (1 + 2 * closeness)
                turns.append((self._seconds.get(test, 0.1) > 5, rank, -closeness, rng.random(), test))
        return [test for *_, test in sorted(turns)]

    @staticmethod
    def _translate(recorded: Path, present: Path, lines: tuple[int, int] | None) -> set[int] | None:
        """Return the lines of the recorded source that are unchanged in the present one."""
        if lines is None or not recorded.is_file():
            return None
        numbers = set(range(lines[0], lines[1] + 1))
        old, new = recorded.read_text(), present.read_text()
        if old == new:
            return numbers
        blocks = difflib.SequenceMatcher(None, old.splitlines(), new.splitlines(), autojunk=False).get_matching_blocks()
        equal = {b.b + i + 1: b.a + i + 1 for b in blocks for i in range(b.size)}
        return {equal[n] for n in numbers} if numbers <= equal.keys() else None


def _contains_any(bits: bytes, lines: Iterable[int]) -> bool:
    """Return whether a bit set of coverage.py contains one of the lines."""
    return any(line // 8 < len(bits) and bits[line // 8] >> line % 8 & 1 for line in lines)


def list_conformance_tests(path: str, limit: int, rng: random.Random, operations: Collection[str] = ()) -> list[str]:
    """Return ids of conformance tests of the operations of a module in ops/ or fast/; at most `limit`.

    Args:
        path: The module. If it is a helper that has no operations, `operations` are tested.
        limit: The largest number of tests.
        rng: Chooses the tests.
        operations: Operations that execute the changed lines, such as "Gather-8".
    """
    from irrun.conformance.cases import GENERATORS, list_cases, load_generators
    from irrun.fast.modules import MODULES
    from irrun.ops._support.registry import list_operations

    module = path.removesuffix(".py").replace("/", ".")
    load_generators()
    own = {(o.type, o.since) for o in list_operations() if o.kernel.__module__ == module}
    own |= {key for key in GENERATORS if module == f"irrun.fast.{MODULES.get(key[0])}"}
    keys = [key for key in sorted(GENERATORS) if key in own or (not own and f"{key[0]}-{key[1]}" in operations)]
    chosen = [(*key, number) for key in keys for number in range(len(list_cases(*key)))]
    if len(chosen) > limit:
        chosen = rng.sample(chosen, limit)
    test = "tests/conformance/test_operations.py::test_operation_agrees_with_openvino"
    return [f"{test}[{type}-{since}-{number}]" for type, since, number in chosen]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that the file of VARIABLE lists, in its order."""
    if VARIABLE not in os.environ:
        return
    ids: Collection[str] = json.loads(Path(os.environ[VARIABLE]).read_text())
    order = {test: i for i, test in enumerate(ids)}
    kept = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in order])
    items[:] = kept
