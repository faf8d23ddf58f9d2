"""Quantize and compress networks with NNCF on irrun and on OpenVINO, and compare files, results and times.

Each library runs in a process of its own. OpenVINO then opens both files: it compares their operations, the ranges of
FakeQuantize, the compressed weights, and the results on inputs that the calibration did not see.

Requires nncf and openvino. Usage: python benchmarks/quantization.py [CASE ...] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared/data"
LIBRARIES = ("openvino", "irrun")
SAMPLES = 20


# --- Networks ---------------------------------------------------------------------------------------------------------


def _load(name: str) -> Any:
    import openvino as ov

    return ov.Core().read_model(SHARED / name / "model.xml")


def _build(name: str, *arguments: Any) -> Any:
    from inspection import networks

    return getattr(networks, name)(*arguments)


def _build_decoder() -> Any:
    import sequence_models

    sequence_models.RNG = np.random.default_rng(0)
    return sequence_models.build_decoder(sequence_models.DecoderShape(128, 2, 4, 2, 256, 512, 32), "f32")


def _draw_image(rng: np.random.Generator, size: int) -> dict[str, Any]:
    return {"": rng.standard_normal((1, 3, size, size), np.float32)}


def _draw_scene(rng: np.random.Generator, name: str) -> dict[str, Any]:
    image = np.load(SHARED / name / "input.npy")
    shifted = np.roll(image, rng.integers(-60, 60, 2), (2, 3)) * np.float32(rng.uniform(0.6, 1.2))
    return {"": shifted.astype(np.float32)}


def _draw_text(rng: np.random.Generator) -> dict[str, Any]:
    mask = (np.arange(32) < rng.integers(16, 33)).astype(np.int64)[None]
    return {"input_ids": rng.integers(0, 500, (1, 32)), "attention_mask": mask}


def _draw_tokens(rng: np.random.Generator) -> dict[str, Any]:
    count = int(rng.integers(8, 24))
    ids = rng.integers(0, 512, (1, count))
    return {"input_ids": ids, "position_ids": np.arange(count)[None], "beam_idx": np.zeros(1, np.int32)}


def _draw_speech(rng: np.random.Generator) -> dict[str, Any]:
    start = int(rng.integers(0, 150_000))
    speech = np.load(SHARED / "silero-vad/speech_16khz_int16.npy")[start : start + 576]
    return {"input": (speech / 32768).astype(np.float32)[None], "state": np.zeros((2, 1, 128), np.float32)}


NETWORKS: dict[str, tuple[Callable[[], Any], Callable[[np.random.Generator], dict[str, Any]]]] = {
    "faces": (lambda: _load("face-detection-retail-0004/ir11"), lambda g: _draw_scene(g, "face-detection-retail-0004")),
    "samplenet": (lambda: _load("samplenet"), lambda g: _draw_scene(g, "samplenet")),
    "speech": (lambda: _load("silero-vad"), _draw_speech),
    "resnet": (lambda: _build("make_resnet", (2, 2, 2), 16, 64), lambda g: _draw_image(g, 64)),
    "bert": (lambda: _build("make_bert", 4, 64, 4, 32, 500), _draw_text),
    "swin": (lambda: _build("make_swin", 16, 32, 4, 4, 4), lambda g: _draw_image(g, 32)),
    "decoder": (_build_decoder, _draw_tokens),
}


def _draw(network: str, seed: int, count: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    drawn = (NETWORKS[network][1](rng) for _ in range(count))
    return [sample.get("", sample) for sample in drawn]


# --- Uses of NNCF -----------------------------------------------------------------------------------------------------


def _quantize(network: str, **options: Any) -> Any:
    import nncf

    if options.pop("transformer", False):
        options["model_type"] = nncf.ModelType.TRANSFORMER
    dataset = nncf.Dataset(_draw(network, 0, SAMPLES))
    return nncf.quantize(NETWORKS[network][0](), dataset, subset_size=SAMPLES, **options)


def _compress(network: str, mode: str, *, data: bool = False, **options: Any) -> Any:
    import nncf

    if mode.startswith("INT4"):
        options = {"group_size": 32, "ratio": 1.0, "all_layers": True, **options}
    if data:
        options.update(dataset=nncf.Dataset(_draw(network, 0, SAMPLES)), subset_size=SAMPLES)
    return nncf.compress_weights(NETWORKS[network][0](), mode=getattr(nncf.CompressWeightsMode, mode), **options)


def _control(network: str) -> Any:
    """Quantize until the class with the highest score is the same as before on nearly all samples."""
    import nncf
    import openvino as ov

    samples = _draw(network, 0, SAMPLES)
    original = ov.compile_model(NETWORKS[network][0](), "CPU")
    data = [(sample, int(np.argmax(original(sample)[0]))) for sample in samples]
    dataset = nncf.Dataset(data, lambda pair: pair[0])

    def validate(model: Any, pairs: Any) -> tuple[float, None]:
        hits = [int(np.argmax(np.asarray(model(sample)[0]))) == label for sample, label in pairs]
        return float(np.mean(hits)), None

    return nncf.quantize_with_accuracy_control(
        NETWORKS[network][0](), dataset, dataset, validate, max_drop=0.01, subset_size=SAMPLES
    )


CASES: dict[str, Callable[[], Any]] = {
    "quantize faces": lambda: _quantize("faces"),
    "quantize samplenet": lambda: _quantize("samplenet"),
    "quantize speech": lambda: _quantize("speech"),
    "quantize resnet": lambda: _quantize("resnet"),
    "quantize resnet, full bias correction": lambda: _quantize("resnet", fast_bias_correction=False),
    "quantize bert": lambda: _quantize("bert", transformer=True),
    "quantize swin": lambda: _quantize("swin", transformer=True),
    "accuracy control samplenet": lambda: _control("samplenet"),
    "accuracy control resnet": lambda: _control("resnet"),
    "int8_asym decoder": lambda: _compress("decoder", "INT8_ASYM"),
    "int8_sym decoder": lambda: _compress("decoder", "INT8_SYM"),
    "int4_sym decoder": lambda: _compress("decoder", "INT4_SYM"),
    "int4_asym decoder": lambda: _compress("decoder", "INT4_ASYM"),
    "nf4 decoder": lambda: _compress("decoder", "NF4", group_size=32, ratio=1.0, all_layers=True),
    "int4_sym decoder, half": lambda: _compress("decoder", "INT4_SYM", data=True, ratio=0.5, all_layers=False),
    "int4_sym decoder, awq": lambda: _compress("decoder", "INT4_SYM", data=True, awq=True),
    "int4_asym decoder, scale estimation": lambda: _compress("decoder", "INT4_ASYM", data=True, scale_estimation=True),
    "int4_sym decoder, gptq": lambda: _compress("decoder", "INT4_SYM", data=True, gptq=True),
    "int4_sym decoder, lora correction": lambda: _compress(
        "decoder", "INT4_SYM", data=True, lora_correction=True, all_layers=False
    ),
}


def produce(library: str, case: str, path: str) -> None:
    """Run a case with one library, save the model and print the seconds that NNCF takes."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]
    if library == "irrun":
        import irrun

        irrun.install_as_openvino(replace=True)
    import logging

    import nncf
    import openvino as ov

    nncf.set_log_level(logging.ERROR)
    start = time.perf_counter()
    model = CASES[case]()
    seconds = time.perf_counter() - start
    ov.save_model(model, path, compress_to_fp16=False)
    loaded = [name for name in sys.modules if name.endswith("_pyopenvino") and library == "irrun"]
    foreign = [name for name in loaded if not (sys.modules[name].__file__ or "").startswith(str(ROOT))]
    if foreign:
        raise SystemExit(f"OpenVINO itself was loaded: {foreign}")
    print(json.dumps({"seconds": seconds}))


# --- Comparison -------------------------------------------------------------------------------------------------------


def _pair_nodes(expected: Any, found: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the nodes of two models in pairs, from the results upwards, as far as their types agree."""
    seen: set[str] = set()
    pending = [*zip(expected.get_results(), found.get_results(), strict=True)]
    pending += zip(*(sorted(m.get_sinks(), key=_get_variable) for m in (expected, found)), strict=True)
    while pending:
        pair = pending.pop()
        if pair[0].get_name() in seen:
            continue
        seen.add(pair[0].get_name())
        yield pair
        if pair[0].get_type_name() == pair[1].get_type_name():
            sources = [[value.get_node() for value in node.input_values()] for node in pair]
            pending += zip(*sources, strict=True)


def _get_variable(node: Any) -> str:
    return str(node.get_attributes().get("variable_id", ""))


def _get_difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max(initial=0) / max(np.abs(a).max(initial=0), 1e-30)) if a.shape == b.shape else np.inf


def _read(node: Any) -> np.ndarray:
    """Return the values of a Constant. OpenVINO gives those of 4 bits two by two in a byte."""
    values = np.asarray(node.data)
    kind = node.get_element_type().to_string()
    if kind in ("u4", "i4"):
        bytes_ = values.reshape(-1).view(np.uint8)
        values = np.stack([bytes_ & 15, bytes_ >> 4], -1).astype(np.int8)
        if kind == "i4":
            values = np.where(values > 7, values - 16, values)
    return values.astype(np.float64)


def _expose(model: Any) -> Any:
    """Return a model that ends before its DetectionOutput, whose order of boxes changes with any error."""
    import openvino as ov

    last = [node for node in model.get_ops() if node.get_type_name() == "DetectionOutput"]
    return ov.Model(last[0].input_values()[:2], model.get_parameters(), "scores") if last else model


def compare(paths: dict[str, Path], network: str) -> dict[str, Any]:
    """Compare two files in OpenVINO.

    Returns:
        Whether the graphs are the same; the largest difference of the limits of FakeQuantize, as a fraction of the
        largest; how many integers there are, how many differ and by how much; the largest difference of other
        constants; the difference of the results, and of both from the original's, as fractions of their norm.
    """
    import openvino as ov

    core = ov.Core()
    models = {library: core.read_model(path) for library, path in paths.items()}
    expected, found = (models[library] for library in LIBRARIES)
    types = [collections.Counter(n.get_type_name() for n in m.get_ops()) for m in (expected, found)]
    row: dict[str, Any] = {"same": types[0] == types[1], "FakeQuantize": types[0]["FakeQuantize"]}
    total = equal = 0
    step = ranges = other = 0.0
    for a, b in _pair_nodes(expected, found):
        if a.get_type_name() != b.get_type_name():
            row["same"] = False
        elif a.get_type_name() == "FakeQuantize":
            limits = [[n.input_value(i).get_node().data for i in range(1, 5)] for n in (a, b)]
            ranges = max(ranges, *map(_get_difference, *limits))
        elif a.get_type_name() == "Constant" and a.get_element_type() != b.get_element_type():
            row["same"] = False
        elif a.get_type_name() == "Constant" and (kind := a.get_element_type().to_string()) != "nf4":
            values = [_read(n) for n in (a, b)]
            if kind in ("u8", "i8", "u4", "i4"):
                total, equal = total + values[0].size, equal + int((values[0] == values[1]).sum())
                step = max(step, float(np.abs(values[0] - values[1]).max(initial=0)))
            else:
                other = max(other, _get_difference(*values))
    row.update(ranges=ranges, integers=total, unequal=total - equal, step=step, constants=other)
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    original = core.compile_model(_expose(NETWORKS[network][0]()), "CPU", config)
    compiled = {library: core.compile_model(_expose(model), "CPU", config) for library, model in models.items()}
    sums = dict.fromkeys(("results", *LIBRARIES), 0.0)
    norm = 0.0
    for sample in _draw(network, 1, 8):
        results = []
        for item in (original, *compiled.values()):
            request = item.create_infer_request()
            results.append([np.asarray(v, np.float64).ravel() for v in request.infer(sample).values()])
        reference, first, second = (np.concatenate(values) for values in results)
        norm += float(np.sum(reference**2))
        sums["results"] += float(np.sum((first - second) ** 2))
        sums["openvino"] += float(np.sum((first - reference) ** 2))
        sums["irrun"] += float(np.sum((second - reference) ** 2))
    row.update({name: (value / norm) ** 0.5 for name, value in sums.items()})
    return row


def main() -> None:
    """Print one row per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help="parts of the names of cases; without them, all")
    parser.add_argument("--folder", type=Path, help="where to keep the files")
    parser.add_argument("--produce", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.produce:
        produce(*arguments.produce)
        return
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]
    folder = arguments.folder or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    chosen = [case for case in CASES if not arguments.cases or any(part in case for part in arguments.cases)]
    for case in chosen:
        paths, seconds, failed = {}, {}, None
        for library in LIBRARIES:
            paths[library] = folder / f"{case.replace(' ', '_').replace(',', '')}_{library}.xml"
            command = [sys.executable, __file__, "--produce", library, case, str(paths[library])]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
            process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            if process.returncode:
                failed = f"{library}: {process.stderr[-1000:]}"
                break
            seconds[library] = json.loads(process.stdout.splitlines()[-1])["seconds"]
        if failed:
            print(f"{case}: FAILED {failed}", flush=True)
            continue
        network = case.replace(",", " ").replace("accuracy control", "control").split()[1]
        row = compare(paths, network)
        row.update(seconds=[round(s, 1) for s in seconds.values()], ratio=seconds["irrun"] / seconds["openvino"])
        shown = ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
        print(f"{case}: {shown}", flush=True)


if __name__ == "__main__":
    main()
