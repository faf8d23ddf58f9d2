"""Compare the SQNR that `irrun compare --cure` predicts with that of models which are really quantized again.

Requires nncf. Usage: python benchmarks/cure.py [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from inspection import networks

import irrun
from irrun.inspection import find_cure

SHARED = Path(__file__).parents[2] / "shared/data"


def make_networks(folder: Path):
    """Yield name, path and a function that makes inputs."""

    def make_image(size):
        def make(rng):
            return {0: rng.standard_normal((1, 3, size, size), np.float32)}

        return make

    def make_text(rng):
        length = int(rng.integers(16, 33))
        mask = (np.arange(32) < length).astype(np.int64)[None]
        return {"input_ids": rng.integers(0, 500, (1, 32)), "attention_mask": mask}

    resnet = networks.make_resnet((2, 2, 2), 16, 64)
    yield "ResNet", networks.save(resnet, folder, "resnet"), make_image(64)
    bert = networks.make_bert(4, 64, 4, 32, 500)
    yield "BERT", networks.save(bert, folder, "bert"), make_text
    swin = networks.make_swin(16, 32, 4, 4, 4)
    yield "Swin", networks.save(swin, folder, "swin"), make_image(32)
    detector = SHARED / "face-detection-retail-0004/ir11/model.xml"
    if detector.exists():
        # The outputs of the network itself; DetectionOutput sorts boxes, whose order changes with any error.
        model = irrun.read_model(detector)
        last = next(layer for layer in model.graph.layers if layer.type == "DetectionOutput")
        sources = {e.to_port: e.from_layer for e in model.graph.edges if e.to_layer == last.id}
        names = {layer.id: layer.name for layer in model.graph.layers}
        part = irrun.extract(model, outputs=[names[sources[port.id]] for port in last.inputs[:2]])
        path, _ = irrun.save_model(part, folder / "detector.xml")
        image = np.load(SHARED / "face-detection-retail-0004/input.npy")

        def make_faces(rng):
            shift = rng.integers(-60, 60, 2)
            gain = np.float32(rng.uniform(0.6, 1.2))
            return {0: np.roll(image, shift, (2, 3)) * gain}

        yield "face detector (real weights)", path, make_faces


def quantize(path: Path, samples, target: Path, names=()):
    """Quantize a model with nncf, except some layers, and return the path."""
    import nncf
    import openvino as ov

    core = ov.Core()
    model = core.read_model(path)
    ignored = nncf.IgnoredScope(names=list(names)) if names else None
    keys = [port.get_any_name() for port in model.inputs]
    dataset = nncf.Dataset([dict(zip(keys, sample.values(), strict=True)) for sample in samples])
    result = nncf.quantize(model, dataset, ignored_scope=ignored, subset_size=len(samples))
    ov.save_model(result, target, compress_to_fp16=False)
    return target


def measure(path: Path, other: Path, samples) -> float:
    """Return the mean SQNR of the outputs of a model in dB."""
    models = [irrun.compile_model(p) for p in (path, other)]
    noise: dict[int, float] = {}
    signal: dict[int, float] = {}
    for sample in samples:
        values = [model(list(sample.values())).to_tuple() for model in models]
        for i, (reference, value) in enumerate(zip(*values, strict=True)):
            noise[i] = noise.get(i, 0.0) + float(np.sum((value.astype(np.float64) - reference) ** 2))
            signal[i] = signal.get(i, 0.0) + float(np.sum(reference.astype(np.float64) ** 2))
    return float(np.mean([10 * np.log10(signal[i] / noise[i]) for i in noise]))


def main() -> None:
    """Print a Markdown table."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    print("| network | kept in floating point | predicted dB | measured dB |\n| --- | --- | --- | --- |")
    for name, path, make in make_networks(folder):
        rng = np.random.default_rng(0)
        calibration = [make(rng) for _ in range(20)]
        samples = [make(rng) for _ in range(4)]
        int8 = quantize(path, calibration, folder / "int8.xml")
        cure = find_cure(path, int8, [list(s.values()) for s in samples], 3)
        print(f"| {name} | none | {cure.initial_db:.2f} | {measure(path, int8, samples):.2f} |", flush=True)
        for count, step in enumerate(cure.steps, 1):
            names = [s.layer for s in cure.steps[:count]]
            kept = quantize(path, calibration, folder / "kept.xml", names)
            shown = "" if count == 1 else "and "
            print(
                f"| {name} | {shown}{step.layer} | {step.sqnr_db:.2f} | {measure(path, kept, samples):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
