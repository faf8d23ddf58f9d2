"""Scores comparisons on planted faults: `PYTHONPATH=tests python -m inspection.scoring --count 400 --seed 1`."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import irrun
from inspection import bodies, faults, networks
from irrun.inspection import KeyTable, compare, record
from irrun.inspection.keys import get_port_suffix
from irrun.inspection.metrics import measure
from irrun.inspection.reference_kinds import open_reference

__all__ = ["Score", "Subject", "compare_untouched", "list_subjects", "plant_at_random", "score", "score_elsewhere"]

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared/data"
ZOO = Path(os.environ.get("IRRUN_ZOO") or Path.home() / ".cache/irrun/zoo")
#: Outputs that differ by less are not wrong.
WRONG_DB = 80.0
#: Other runtimes and precisions that compute references.
ELSEWHERE = ("openvino", "openvino:reference", "onnx", "f64")


@dataclass
class Subject:
    """A model with inputs.

    Attributes:
        name: The name.
        model: The model.
        inputs: Inputs of one or several runs.
        weight: How often it is chosen.
    """

    name: str
    model: irrun.Model
    inputs: list
    weight: float = 1.0


def list_subjects(folder: Path, seed: int, with_files: bool = True) -> Iterator[Subject]:
    """Yield models with random inputs."""
    rng = np.random.default_rng(seed)
    for name, (build, make_input) in bodies.MODELS.items():
        steps = 3 if name == "stateful" else 1
        yield Subject(name, build(seed), [[make_input(rng)] for _ in range(steps)], 2)
    for name, inputs in {
        "resnet": [rng.standard_normal((1, 3, 32, 32), np.float32)],
        "bert": [rng.integers(0, 50, (1, 12)), np.array([[1] * 9 + [0] * 3])],
        "swin": [rng.standard_normal((1, 3, 32, 32), np.float32)],
    }.items():
        path = networks.save(getattr(networks, f"make_{name}")(seed=seed), folder, name)
        yield Subject(name, irrun.read_model(path), [inputs], 1)
    example = ROOT / "examples/date_translation"
    yield Subject("dates", irrun.read_model(example / "model.xml"), [[np.load(example / "input.npy")[:4]]], 2)
    text = irrun.read_model(ROOT / "examples/text_generation/model.xml")
    steps = [
        [rng.integers(3, 60, (1, n)), np.ones((1, k), np.int64), np.arange(k - n, k)[None], np.zeros(1, np.int32)]
        for n, k in ((5, 5), (1, 6), (1, 7))
    ]
    yield Subject("text", text, steps, 1)
    if with_files and DATA.exists():
        yield Subject(
            "sample", irrun.read_model(DATA / "samplenet/model.xml"), [[np.load(DATA / "samplenet/input.npy")]]
        )
        speech = np.load(DATA / "silero-vad/speech_16khz_int16.npy").reshape(-1)[8000:8576].astype(np.float32) / 32768
        silero = irrun.read_model(DATA / "silero-vad/model.xml")
        yield Subject("silero", silero, [[speech[None], np.zeros((2, 1, 128), np.float32)]])
        face = DATA / "face-detection-retail-0004"
        yield Subject("face", irrun.read_model(face / "ir11/model.xml"), [[np.load(face / "input.npy")]], 0.3)


def list_zoo_subjects(names) -> Iterator[Subject]:
    """Yield networks of the zoo that are cached, with their inputs; two steps of language models."""
    rng = np.random.default_rng(0)
    for name in names:
        model = irrun.read_model(ZOO / name / "model.xml")
        with np.load(ZOO / name / "inputs.npz") as arrays:
            given = dict(arrays)
        parameters = [layer for layer in model.graph.layers if layer.is_input]
        runs = [given]
        if not given:
            runs = [
                {
                    "input_ids": rng.integers(3, 60, (1, n)),
                    "attention_mask": np.ones((1, k), np.int64),
                    "position_ids": np.arange(k - n, k)[None],
                    "beam_idx": np.zeros(1, np.int32),
                }
                for n, k in ((5, 5), (1, 6))
            ]
        inputs = [
            [next(run[name] for name in (layer.name, *layer.outputs[0].names) if name in run) for layer in parameters]
            for run in runs
        ]
        yield Subject(name, model, inputs)


def run(model, inputs):
    """Return the outputs of all runs of one session."""
    request = irrun.compile_model(model, optimize=False).create_infer_request()
    return [value for arguments in inputs for value in request.infer(arguments).to_tuple()]


def make_effect(inputs):
    """Return a function that decides whether two models differ visibly on some inputs."""

    def has_effect(before, after) -> bool:
        try:
            changed = run(after, inputs)
        except irrun.IrrunError:
            return False
        expected = run(before, inputs)
        pairs = list(zip(changed, expected, strict=True))
        return all(a.shape == b.shape for a, b in pairs) and any(measure(a, b).sqnr_db < WRONG_DB for a, b in pairs)

    return has_effect


def rename(model, seed):
    """Return a copy whose layers have other names, as from another exporter."""
    copy = faults.copy_model(model)

    def visit(graph):
        for layer in graph.layers:
            if not layer.is_input and not layer.is_output:
                layer.name = f"{layer.type.lower()}_{seed}_{layer.id}"
                for port in layer.outputs:
                    port.names = ()
            for body in layer.bodies.values():
                visit(body.graph)

    visit(copy.graph)
    return copy


@dataclass
class Score:
    """How a comparison did on one fault."""

    kind: str
    subject: str
    reference: str
    description: str
    layer: bool
    reason: bool | None
    agrees: bool
    found: str
    error: str = ""

    def __str__(self) -> str:
        marks = "".join(
            flag
            for flag, is_set in (
                ("L", not self.layer),
                ("R", self.reason is False),
                ("A", self.agrees),
                ("E", self.error),
            )
            if is_set
        )
        return f"{marks or 'ok':4} {self.subject}/{self.reference} {self.kind}: {self.description} => {self.found}"


def score(fault, subject, reference="model", good=None, against=None, observers=()) -> Score:
    """Compare a model with a fault with the good one, and score what is found."""
    good = good or subject.model
    against = good if against is None else against
    has_reasons = reference in ("model", "renamed", "reverse") or bool(observers)
    model = fault.model
    if reference == "renamed":
        against = rename(good, 7)
    elif reference == "trace":
        against = record_values(good, subject.inputs)
    elif reference == "reverse":
        model, against = good, fault.model
    try:
        result = compare(model, against, sequence=subject.inputs, observers=observers)
    except Exception:
        return Score(fault.kind, subject.name, reference, fault.description, False, None, False, "",
                     traceback.format_exc())  # fmt: skip
    named = result.causes
    paths = list(dict.fromkeys(normalize(layer.key) for layer in named))
    remaining = list(fault.marks)
    is_right = bool(paths)
    reasons = []
    for path in paths:
        mark = next((m for m in remaining if path in m.layers), None)
        if not remaining:
            break
        if mark is None and any(path in m.layers for m in fault.marks):
            continue
        if mark is None:
            is_right = False
            break
        remaining.remove(mark)
        texts = [layer.reason for layer in named if normalize(layer.key) == path]
        reasons.append(any(re.search(mark.reason, text) for text in texts))
    is_right = is_right and not remaining
    found = "; ".join(f"{layer.key} [{layer.reason}]" for layer in named[:4]) or result.describe()
    reason = (is_right and all(reasons)) if has_reasons else None
    return Score(fault.kind, subject.name, reference, fault.description, is_right, reason, result.agrees, found)


def score_elsewhere(subjects, reference, count, seed, folder) -> Iterator[Score]:
    """Score comparisons with another runtime, or with f64, in turn of two kinds.

    Either the kernel of a layer is wrong, and the model is compared with the other runtime; or the model has a fault,
    and is compared with the values that the other runtime computes for the good one.
    """
    rng = np.random.default_rng(seed)
    kinds = list(faults.KINDS)
    number = int(rng.integers(len(kinds)))
    subjects = [s for s in subjects if is_supported(s, reference, Path(folder))]
    if not subjects:
        raise SystemExit(f"{reference} has the operations of none of the models")
    while count:
        number += 1
        subject = subjects[int(rng.integers(len(subjects)))]
        inputs = [[perturb(value, rng) for value in arguments] for arguments in subject.inputs]
        subject = Subject(subject.name, subject.model, inputs)
        if reference == "onnx" or number % 2:
            values = compute_elsewhere(subject, reference, Path(folder))
        if number % 2:
            effect = make_effect(inputs)
            kind = kinds[number // 2 % len(kinds)]
            fault = None if len(inputs) > 1 else faults.plant(subject.model, [kind], number, effect)
            if fault is None:
                continue
            if reference != "f64":  # no values of bodies are known: the layers that own them are named
                fault.marks = [m._replace(layers=m.layers | find_owners(m.layers)) for m in fault.marks]
            yield score(fault, subject, "values", against=values)
        else:
            against = values if reference == "onnx" else reference
            fault, observer = plant_kernel(subject, rng)
            if fault is None or (reference != "f64" and "[0]/" in fault.description):
                continue
            yield score(fault, subject, reference, against=against, observers=[observer])
        count -= 1


def is_supported(subject, reference, folder) -> bool:
    """Return whether another runtime has all operations of a model."""
    try:
        compute_elsewhere(subject, reference, folder)
    except irrun.IrrunError as error:
        if reference != "onnx" and "Evaluation failed" not in str(error):
            raise
        return False
    return True


def find_owners(paths) -> frozenset[str]:
    """Return the paths of the layers that own the bodies of some layers."""
    return frozenset(path.rpartition("[0]/")[0] for path in paths if "[0]/" in path)


def compute_elsewhere(subject, reference, folder):
    """Return the values of a model in another runtime or in f64: arrays by key, or the path of an ONNX model."""
    model, inputs = subject.model, subject.inputs
    if reference == "onnx":
        path = folder / f"{subject.name}.onnx"
        if not path.exists():
            irrun.export_onnx(model, path)
        return str(path)
    if reference == "f64":
        with tempfile.TemporaryDirectory() as traces:
            return record(model, inputs[0], Path(traces) / "run.trace", precision="f64")
    opened = open_reference(model, reference, inputs[0])
    try:
        arrays = {}
        for path, layer in KeyTable(model).iterate_layers():
            if "]/" not in path and opened.find_match(layer) is not None:
                for port in range(len(layer.outputs)):
                    value = opened.get_value(layer, port, ())
                    if value is not None:
                        arrays[path + get_port_suffix(layer, port)] = np.array(value)
        return arrays
    finally:
        opened.close()


def plant_kernel(subject, rng):
    """Return a fault and an observer that changes the results of one layer, as a wrong kernel does."""
    table = KeyTable(subject.model)
    layers = [n for n in faults.Site(subject.model, rng).executed() if n[1].type not in ("ReadValue", "Assign")]
    path, chosen = layers[int(rng.integers(len(layers)))]
    if chosen.bodies:
        return None, None
    way = ("scaled", "one element", "reversed", "last row")[int(rng.integers(4))]

    def change(layer, inputs, outputs, seconds, scope):
        if table_path(layer) != path or outputs[0].dtype != np.float32 or not outputs[0].size:
            return None
        value = np.array(outputs[0])
        flat = value.reshape(-1)
        if way == "scaled":
            flat *= 1.05
        elif way == "one element":
            flat[flat.size // 3] += 0.5 + np.abs(flat[np.isfinite(flat)]).mean()
        elif way == "reversed":
            value = np.ascontiguousarray(value[..., ::-1])
        else:
            value[..., -1:] = 0
        return [value, *outputs[1:]]

    compiled = irrun.compile_model(subject.model, optimize=False)
    names = {}
    for key, layer in KeyTable(compiled.model).iterate_layers():
        names[id(layer)] = key

    def table_path(layer):
        return names.get(id(layer)) or table.get_path(layer)

    def infer(observers):
        request = compiled.create_infer_request()
        return [v for x in subject.inputs for v in request.infer(x, observers=observers).to_tuple()]

    pairs = list(zip(infer([]), infer([change]), strict=True))
    if not any(measure(b, a).sqnr_db < WRONG_DB for a, b in pairs):
        return None, None
    mark = faults.Mark(frozenset([path]), "kernel differs|^$")
    return faults.Fault("kernel", f"{way} results of {path}", [mark], subject.model), change


def normalize(key: str) -> str:
    return re.sub(r"\[\d+\]/", "[0]/", key.partition("@")[0])


def compare_untouched(subject, reference, seed):
    """Compare a model with itself under another name, or with itself in another runtime or precision.

    Returns None where a recording cannot be a reference.
    """
    rng = np.random.default_rng(seed)
    inputs = [[perturb(value, rng) for value in arguments] for arguments in subject.inputs]
    against = reference
    if reference == "model":
        against = faults.copy_model(subject.model)
    elif reference == "renamed":
        against = rename(subject.model, seed)
    elif reference == "trace":
        if len(inputs) > 1:
            return None
        against = record_values(subject.model, inputs)
    elif reference == "onnx":
        with tempfile.TemporaryDirectory() as folder:
            return compare(subject.model, compute_elsewhere(subject, reference, Path(folder)), sequence=inputs)
    return compare(subject.model, against, sequence=inputs)


def perturb(value, rng):
    """Return other floating-point numbers of the same distribution."""
    if value.dtype.kind != "f":
        return value
    return (value + np.std(value) / 10 * rng.standard_normal(value.shape)).astype(value.dtype)


def record_values(model, inputs):
    """Return the values of all layers of a model as a trace."""
    assert len(inputs) == 1
    with tempfile.TemporaryDirectory() as folder:
        return record(model, inputs[0], Path(folder) / "run.trace")  # Linux keeps the file of the open trace


def plant_at_random(subjects, count, seed):
    """Yield faults of all kinds in turn, singly, and every eighth one together with others."""
    rng = np.random.default_rng(seed)
    kinds = list(faults.KINDS)
    effects = {s.name: make_effect(s.inputs) for s in subjects}
    weights = np.array([s.weight for s in subjects]) / sum(s.weight for s in subjects)
    number = 0
    while count:
        number += 1
        chosen = [kinds[number % len(kinds)]]
        if number % 8 == 0:
            chosen += [kinds[int(k)] for k in rng.permutation(len(kinds))[: 1 + number % 16 // 8]]
        for _ in range(12):
            subject = subjects[int(rng.choice(len(subjects), p=weights))]
            fault = faults.plant(subject.model, chosen, int(rng.integers(1 << 31)), effects[subject.name])
            if fault is not None:
                if len(chosen) > 1:
                    fault.kind = {2: "two at once", 3: "three at once"}[len(chosen)]
                yield subject, fault, choose_reference(subject, rng)
                count -= 1
                break


def choose_reference(subject, rng):
    names = ["model", "model", "model", "renamed", "reverse"] + ["trace"] * (len(subject.inputs) == 1)
    return names[int(rng.integers(len(names)))]


def print_untouched(subjects, references, seeds) -> None:
    """Compare untouched models, and print what is found."""
    table = Counter()
    for subject in subjects:
        for reference in references:
            for seed in seeds:
                start = time.process_time()
                try:
                    result = compare_untouched(subject, reference, seed)
                except irrun.IrrunError as error:
                    table[reference, "refused"] += 1
                    print(f"refused {subject.name}/{reference}: {str(error)[:200]}", flush=True)
                    continue
                if result is not None:
                    table[reference, result.outcome] += 1
                    line = f"{result.outcome} {subject.name}/{reference}/{seed}: {result.describe()}"
                    print(f"{line} {time.process_time() - start:.1f} s", flush=True)
    for (reference, outcome), count in sorted(table.items()):
        print(f"{reference:20} {outcome:12} {count}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--subject")
    parser.add_argument("--zoo", help="Cached networks of the zoo instead of the other models.")
    parser.add_argument("--untouched", help="Compare models that have no fault with these references instead.")
    parser.add_argument("--against", choices=ELSEWHERE, help="Another runtime that computes the references.")
    parser.add_argument("--all", action="store_true", help="Print right answers, too.")
    arguments = parser.parse_args()
    start = time.time()
    table = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as folder:
        if arguments.zoo:
            subjects = list(list_zoo_subjects(arguments.zoo.split(",")))
        else:
            subjects = list(list_subjects(Path(folder), arguments.seed))
        if arguments.subject:
            subjects = [s for s in subjects if s.name in arguments.subject.split(",")]
        if arguments.untouched:
            print_untouched(
                subjects, arguments.untouched.split(","), range(arguments.seed, arguments.seed + arguments.count)
            )
            return
        if arguments.against:
            results = score_elsewhere(subjects, arguments.against, arguments.count, arguments.seed, folder)
        else:
            planted = plant_at_random(subjects, arguments.count, arguments.seed)
            results = (score(fault, subject, reference) for subject, fault, reference in planted)
        for result in results:
            row = table[result.kind]
            row["planted"] += 1
            row["layer"] += result.layer
            row["reasons"] += result.reason is not None
            row["reason"] += bool(result.reason)
            row["agrees"] += result.agrees
            row["error"] += bool(result.error)
            if arguments.all or not result.layer or result.reason is False or result.agrees or result.error:
                print(result, flush=True)
                if result.error:
                    print(result.error[-700:], flush=True)
    total = Counter()
    print(f"{'kind':20} planted layer reason/of agrees error")
    for kind, row in [*sorted(table.items()), ("total", total)]:
        if kind != "total":
            total.update(row)
        print(
            f"{kind:20} {row['planted']:7} {row['layer']:5} {row['reason']:6}/{row['reasons']:<3}"
            f"{row['agrees']:5} {row['error']:5}"
        )
    print(f"{time.time() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
