"""Compare the bits of all outputs of two versions of irrun.

    python tools/digests.py collect FOLDER [--zoo]        # write models and inputs; needs OpenVINO
    PYTHONPATH=old python tools/digests.py run FOLDER old.json [--jit] [--threads 2] [--plain]
    PYTHONPATH=new python tools/digests.py run FOLDER new.json [--jit] [--threads 2] [--plain]
    python tools/digests.py diff old.json new.json

The models are the cases of `tests/conformance`, with all inputs variable and with constants for all but the first, the
examples, the models and literal cases in `../shared/data` if they exist, and with --zoo the networks of
`benchmarks/zoo.py` that are built. `diff` prints the outputs whose bits differ, with the largest difference, and exits
with 1 if there are any.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import pickle
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
#: Runs of each model. Shapes that repeat use other programs from the third run on.
RUNS = 3
#: The values of outputs with up to this many elements are kept, so that differences can be stated.
MAX_KEPT = 64


def collect(folder: Path, with_zoo: bool) -> None:
    """Write models and inputs, one folder each."""
    for index, (name, model, inputs) in enumerate(list_conformance_models()):
        target = folder / f"{index:05}"
        target.mkdir(parents=True, exist_ok=True)
        import openvino as ov

        ov.serialize(model, target / "model.xml")
        store(target, name, inputs)
    for name, path, inputs in list_files(with_zoo):
        target = folder / name.replace("/", "_")
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target / "model.xml")
        shutil.copy(path.with_suffix(".bin"), target / "model.bin")
        store(target, name, inputs)


def store(folder: Path, name: str, inputs: list[Any]) -> None:
    """Write the name and the inputs of a model."""
    with (folder / "inputs.pickle").open("wb") as file:
        pickle.dump((name, inputs), file)


def list_conformance_models() -> Iterator[tuple[str, Any, list[Any]]]:
    """Yield the models of the conformance tests and their inputs."""
    sys.path.insert(0, str(ROOT / "tests"))
    from irrun.conformance.cases import GENERATORS, list_cases, load_generators
    from irrun.conformance.harness import build_model

    load_generators()
    for operation_type, since in sorted(GENERATORS):
        for number, case in enumerate(list_cases(operation_type, since)):
            name = f"{operation_type}-{since}-{number}"
            variants = [("", case)]
            if not case.build and sum(x is not None for x in case.inputs) > 1:
                constants = [i for i, x in enumerate(case.inputs) if i and x is not None]
                variants.append((" with constants", replace(case, constants=constants)))
            for suffix, variant in variants:
                try:
                    yield name + suffix, build_model(operation_type, since, variant), variant.parameter_values
                except (RuntimeError, TypeError):  # OpenVINO folds or refuses it
                    continue


def list_files(with_zoo: bool) -> Iterator[tuple[str, Path, Any]]:
    """Yield the models of the examples, of ../shared/data and of the zoo, with their inputs."""
    import irrun

    paths = [*(ROOT / "examples").glob("*/model.xml"), *(ROOT.parent / "shared" / "data").rglob("model.xml")]
    for path in paths:
        if not path.with_suffix(".bin").exists():
            continue
        model = irrun.read_model(path)
        files = sorted(map(str, path.parent.glob("input.np*")))
        is_static = all(t.partial_shape is not None and t.partial_shape.is_static for t in model.inputs)
        specs = files[:1] or ["random"] * len(model.inputs)
        if files or is_static:
            yield str(path.parent.relative_to(ROOT.parent)), path, irrun.load_inputs(specs, model.inputs)
    if with_zoo:
        sys.path.insert(0, str(ROOT / "benchmarks"))
        import zoo

        for name in zoo.NETWORKS:
            if (zoo.get_cache() / name / "model.xml").exists():
                yield f"zoo/{name}", zoo.get_cache() / name / "model.xml", zoo.load_inputs(name)


def run_model(task: tuple[Path, bool, int, bool]) -> tuple[str, Any]:
    """Return the name of a model, and the digest and values of each output in each run, or the error."""
    folder, jit, threads, plain = task
    import irrun

    with (folder / "inputs.pickle").open("rb") as file:
        name, inputs = pickle.load(file)
    try:
        compiled = irrun.compile_model(
            folder / "model.xml", precision="declared", jit=jit, threads=threads, optimize=not plain
        )
        request = compiled.create_infer_request()
        results = []
        for _ in range(RUNS):
            outputs = request.infer(inputs)
            results.append([describe(np.asarray(outputs[i])) for i in range(len(compiled.outputs))])
        return name, results
    except irrun.IrrunError as error:
        return name, str(error)


def describe(value: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return the type, shape, digest and the first values of an array."""
    data = pickle.dumps(value.tolist()) if value.dtype == object else np.ascontiguousarray(value).tobytes()
    digest = hashlib.sha256(data).hexdigest()[:16]
    is_float = value.dtype.kind == "f" and value.size <= MAX_KEPT
    kept = [float(x) for x in value.reshape(-1)] if is_float else []
    return {"type": str(value.dtype), "shape": list(value.shape), "digest": digest, "values": kept}


def run(folder: Path, output: Path, jit: bool, threads: int, plain: bool, jobs: int) -> None:
    """Run all models and write the digests of their outputs."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    tasks = [(path.parent, jit, threads, plain) for path in sorted(folder.glob("*/inputs.pickle"))]
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=2000) as pool:
        results = dict(pool.imap_unordered(run_model, tasks, chunksize=20))
    output.write_text(json.dumps(results))
    print(f"{len(results)} models, {sum(isinstance(r, str) for r in results.values())} of them refused")


def diff(old_path: Path, new_path: Path) -> int:
    """Print the models whose outputs differ, and return their number."""
    old, new = json.loads(old_path.read_text()), json.loads(new_path.read_text())
    differing = 0
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, "missing"), new.get(name, "missing")
        if before == after:
            continue
        differing += 1
        if isinstance(before, str) or isinstance(after, str):
            print(f"{name}: {str(before)[:150]} -> {str(after)[:150]}")
            continue
        distances = [
            np.nanmax(np.abs(np.subtract(a["values"], b["values"])), initial=0)
            for run_before, run_after in zip(before, after, strict=True)
            for a, b in zip(run_before, run_after, strict=True)
            if len(a["values"]) == len(b["values"])
        ]
        print(f"{name}: other bits, largest difference of the values that were kept {max(distances, default=0):.3g}")
    print(f"{differing} of {len(old.keys() | new.keys())} models differ")
    return differing


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("folder", type=Path)
    collecting.add_argument("--zoo", action="store_true")
    running = commands.add_parser("run")
    running.add_argument("folder", type=Path)
    running.add_argument("output", type=Path)
    running.add_argument("--jit", action="store_true")
    running.add_argument("--plain", action="store_true")
    running.add_argument("--threads", type=int, default=1)
    running.add_argument("--jobs", type=int, default=2)
    comparing = commands.add_parser("diff")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    options = parser.parse_args()
    if options.command == "collect":
        collect(options.folder, options.zoo)
    elif options.command == "run":
        run(options.folder, options.output, options.jit, options.threads, options.plain, options.jobs)
    else:
        sys.exit(1 if diff(options.old, options.new) else 0)


if __name__ == "__main__":
    main()
