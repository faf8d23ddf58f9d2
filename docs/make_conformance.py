"""Writes docs/conformance.md: runs ONNX's backend tests on irrun and on OpenVINO. Takes a minute or two.

python docs/make_conformance.py [--check]
"""

from __future__ import annotations

import collections
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from onnx_backend.reasons import DISAGREEMENTS, is_random, reason  # noqa: E402
from onnx_backend.suite import KINDS, Outcome, Suite  # noqa: E402

PAGE = ROOT / "docs" / "conformance.md"


def main() -> None:
    with Suite() as suite:
        outcomes = [suite.run(name) for name in suite.names()]
    text = "\n".join(page(outcomes)) + "\n"
    unexplained = [o.name for o in outcomes if not o.unconverted and o.irrun and not reason(o.name)]
    if unexplained:
        print("no reason is known for:", *unexplained, sep="\n  ", file=sys.stderr)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PAGE} is out of date; run docs/make_conformance.py")
    sys.exit(bool(unexplained))


def page(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The lines of the page."""
    import onnx
    import openvino as ov

    converted = [o for o in outcomes if not o.unconverted]
    ours = {o.name for o in converted if not o.irrun and not is_random(o)}
    theirs = {o.name for o in converted if not o.openvino and not is_random(o)}
    failed = [o for o in converted if o.name not in ours]

    yield "# Conformance"
    yield ""
    yield "Two suites hold irrun against OpenVINO:"
    yield ""
    yield "- `tests/conformance`: each versioned operation in many configurations, against OpenVINO's reference"
    yield "  implementation and its CPU plugin;"
    yield "- `tests/onnx_backend`: ONNX's own backend tests, converted to IR by OpenVINO and serialized as they are."
    yield "  Expected values, tolerances, types and shapes are ONNX's."
    yield ""
    versions = f"onnx {onnx.__version__} and openvino {ov.__version__.partition('-')[0]}"
    yield f"This page is made by `docs/make_conformance.py`, here with {versions}."
    yield "The CPU plugin runs the same models in f32."
    yield ""
    yield "## ONNX's backend tests"
    yield ""
    yield "|  | " + " | ".join((*KINDS, "all")) + " |"
    yield "|---|" + "---:|" * (len(KINDS) + 1)
    rows: list[tuple[str, set[str]]] = [
        ("tests", {o.name for o in outcomes}),
        ("converted by OpenVINO", {o.name for o in converted}),
        ("**pass on irrun**", ours),
        ("pass on OpenVINO's CPU plugin", theirs),
        ("pass on both", ours & theirs),
        ("pass on irrun alone", ours - theirs),
        ("pass on OpenVINO alone", theirs - ours),
    ]
    for title, names in rows:
        counts = [sum(n.startswith(kind + "/") for n in names) for kind in KINDS]
        yield f"| {title} | " + " | ".join(map(str, (*counts, len(names)))) + " |"
    yield ""
    yield from _operations(converted)
    yield from _failures(failed, theirs)
    yield from _irrun_alone([o for o in converted if o.name in ours - theirs])
    yield from _unconverted([o for o in outcomes if o.unconverted])


def _operations(converted: Sequence[Outcome]) -> Iterator[str]:
    from conformance.harness import GENERATORS, load_generators

    from irrun.ops._support.registry import list_operations

    load_generators()
    met = {name for o in converted for name in o.operations}
    table: dict[str, list[tuple[bool, bool]]] = collections.defaultdict(list)
    for operation in list_operations():
        if operation.opset is None:
            configured = (operation.type, operation.since) in GENERATORS
            table[operation.category].append((configured, str(operation) in met))
    yield "## Operations"
    yield ""
    yield "The operations of the numbered opsets that irrun runs, each version by itself; how many of them have"
    yield "configurations in `tests/conformance`; and how many appear in the models above."
    yield ""
    yield "| category | versioned operations | in tests/conformance | in ONNX's tests |"
    yield "|---|---:|---:|---:|"
    for category, rows in sorted(table.items()):
        yield f"| {category} | {len(rows)} | {sum(a for a, _ in rows)} | {sum(b for _, b in rows)} |"
    rows = [row for category in table.values() for row in category]
    yield f"| **all** | {len(rows)} | {sum(a for a, _ in rows)} | {sum(b for _, b in rows)} |"
    yield ""


def _failures(failed: Sequence[Outcome], theirs: set[str]) -> Iterator[str]:
    yield f"## The {len(failed)} tests that fail on irrun"
    yield ""
    yield "By reason. The last column says what the CPU plugin makes of the test: *the same* means the same outputs as"
    yield "irrun's, within the test's tolerance."
    yield ""
    groups: dict[str, list[Outcome]] = collections.defaultdict(list)
    for o in failed:
        groups[reason(o.name) or "not known yet"].append(o)
    ordered = sorted(groups.items(), key=lambda g: (g[1][0].name not in DISAGREEMENTS, -len(g[1]), g[0]))
    for why, group in ordered:
        yield f"**{len(group)}: {why}.**"
        yield ""
        yield "| test | irrun | CPU plugin |"
        yield "|---|---|---|"
        for o in group:
            if is_random(o):
                here, there = "random", "random"
            else:
                here = _short(o.irrun)
                there = "passes" if o.name in theirs else "the same" if o.alike else _short(o.openvino)
            yield f"| `{o.name}` | {here} | {there} |"
        yield ""


def _irrun_alone(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield f"## The {len(outcomes)} tests that pass on irrun alone"
    yield ""
    yield "| test | CPU plugin |"
    yield "|---|---|"
    for o in outcomes:
        yield f"| `{o.name}` | {_short(o.openvino)} |"
    yield ""


def _unconverted(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield f"## The {len(outcomes)} tests that OpenVINO does not convert"
    yield ""
    yield "There is no IR to run. By what the converter names:"
    yield ""
    yield "| tests | reason |"
    yield "|---:|---|"
    counts = collections.Counter(_refusal(o.unconverted) for o in outcomes)
    for why, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield f"| {count} | {why} |"


def _refusal(message: str) -> str:
    """What a failed conversion is about, without numbers that change from run to run."""
    for pattern, start in (
        (r"No conversion rule found for operations: (.+)", "no rule for "),
        (r"Conversion is failed for: (.+)", "cannot convert this use of "),
        (r"Input descriptor for (\w+?)_\d+ node", "changed inputs of "),
    ):
        found = re.search(pattern, message)
        if found:
            return start + re.sub(r"-\d+\b", "", found.group(1).strip())
    line = _short(message)
    return line if line.startswith("IR ") else line[:1].lower() + line[1:]


def _short(message: str) -> str:
    """The last line that says something, without values and numbers that change from run to run."""
    message = re.sub(r"; first .*", "", message)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    line = re.sub(r"^Exception from \S+", "", lines[-1]).strip()
    line = re.sub(r"^Unexpected: |^model\.xml:\d+: | Operation name: .*|_\d+\b", "", line)
    line = re.sub(r"\(opset.*", "", line)
    return line.replace("|", "\\|").rstrip(". ")


if __name__ == "__main__":
    main()
