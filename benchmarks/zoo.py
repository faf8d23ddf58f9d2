"""Networks from PyTorch, exported to OpenVINO IR, for the slow tests and the benchmarks.

    pip install irrun[zoo]
    python benchmarks/zoo.py                    # build all networks that are not cached
    python benchmarks/zoo.py resnet50 llama     # rebuild these

Weights are random, but the same in each build. Files are written to ~/.cache/irrun/zoo, or to $IRRUN_ZOO:
<name>/model.xml and .bin, <name>/inputs.npz with matching inputs, and for some networks <name>/model.onnx.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import openvino
    from torch import nn

__all__ = [
    "DEEPLY_QUANTIZED",
    "FULL_SIZE",
    "FULL_SIZE_F16",
    "FULL_SIZE_QUANTIZED",
    "LANGUAGE",
    "NETWORKS",
    "Network",
    "fetch",
    "get_cache",
    "load_inputs",
    "make_source",
]

SEED = 2026


@dataclass(frozen=True)
class Network:
    """One network of the zoo.

    Attributes:
        make: Returns the PyTorch module and example inputs by name, or the IR model of a language model.
        static: Whether shapes are static; otherwise every dimension that tracing allows is dynamic.
        f16: Whether weights are stored in FP16.
        onnx: Whether the network is exported to ONNX too.
        finish: Transforms the IR model: quantization, compression.
        language: Whether it is a stateful language model.
    """

    make: Callable[[], tuple[nn.Module, Mapping[str, Any]]] | Callable[[], openvino.Model]
    static: bool = False
    f16: bool = False
    onnx: bool = False
    finish: Callable[[openvino.Model], openvino.Model] | None = None
    language: bool = False


def _list_networks() -> dict[str, Network]:
    import full_networks as full
    import zoo_compression as compression
    import zoo_language as language
    import zoo_networks as networks

    result = {
        "resnet50": Network(networks.resnet50, static=True, onnx=True),
        "mobilenet_v2": Network(networks.mobilenet_v2, static=True, onnx=True),
        "efficientnet": Network(networks.efficientnet),
        "convnext": Network(networks.convnext),
        "swin": Network(networks.swin),
        "segformer": Network(networks.segformer),
        "unet": Network(networks.unet),
        "vit": Network(networks.vit, static=True),
        "bert_base": Network(networks.bert_base, static=True, onnx=True),
        "bert_small": Network(networks.bert_small),
        "deberta": Network(networks.deberta),
        "t5_encoder": Network(networks.t5_encoder),
        "whisper_encoder": Network(networks.whisper_encoder),
        "wav2vec2": Network(networks.wav2vec2),
        "lstm": Network(networks.lstm),
        "gru": Network(networks.gru),
        "detr": Network(networks.detr),
        "small": Network(networks.small),
        "deformable_detr": Network(networks.deformable_detr),
        "rt_detr": Network(networks.rt_detr),
        "mask2former": Network(networks.mask2former),
        "swin2sr": Network(networks.swin2sr),
        "mobilevit": Network(networks.mobilevit),
        "dpt": Network(networks.dpt),
        "longformer": Network(networks.longformer),
        "fnet": Network(networks.fnet),
        "mamba": Network(networks.mamba),
        "encodec_decoder": Network(networks.encodec_decoder),
    }
    for name in ("mobilenet_v2", "convnext", "unet", "vit", "bert_small", "wav2vec2", "lstm"):
        result[f"{name}_f16"] = replace(result[name], f16=True, onnx=False)
    for name in ("small", "unet"):
        result[f"{name}_fq"] = replace(result[name], finish=compression.quantize)
    result["bert_small_int8"] = replace(result["bert_small"], finish=compression.compress_int8)
    for name in ("llama", "gpt2", "qwen2"):
        plain = Network(getattr(language, name), language=True)
        result[name] = plain
        result[f"{name}_f16"] = replace(plain, f16=True)
        result[f"{name}_int8"] = replace(plain, finish=compression.compress_int8)
        result[f"{name}_int4_sym"] = replace(plain, finish=compression.compress_int4_sym)
        result[f"{name}_int4_asym"] = replace(plain, finish=compression.compress_int4_asym)
    for name in ("falcon", "gemma2", "gpt_oss", "mixtral", "phi"):
        result[name] = Network(getattr(language, name), language=True)
    for kind in ("nf4", "codebook", "fp4", "fp8"):
        result[f"llama_{kind}"] = replace(result["llama"], finish=getattr(compression, f"compress_{kind}"))
    for name in FULL_SIZE:
        if name not in result:
            result[name] = Network(getattr(full, name), static=True, onnx=True)
    result["minilm_long"] = Network(full.minilm_long)
    for name in FULL_SIZE_QUANTIZED:
        source = name.removesuffix("_quantized")
        result[name] = replace(result[source], finish=compression.quantize, onnx=False)
    for name in FULL_SIZE_F16:
        source = name.removesuffix("_f16_graph")
        result[name] = replace(result[source], finish=compression.convert_to_f16, onnx=False)
    result["mixtral_int4_asym"] = replace(result["mixtral"], finish=compression.compress_int4_asym)
    return result


#: The names of the networks; `_list_networks` defines how they are built.
NETWORKS = (
    *("resnet50", "mobilenet_v2", "efficientnet", "convnext", "swin", "segformer", "unet", "vit", "bert_base"),
    *("bert_small", "deberta", "t5_encoder", "whisper_encoder", "wav2vec2", "lstm", "gru", "detr", "small"),
    *("deformable_detr", "rt_detr", "mask2former", "swin2sr", "mobilevit", "dpt"),
    *("longformer", "fnet", "mamba", "encodec_decoder"),
    *("mobilenet_v2_f16", "convnext_f16", "unet_f16", "vit_f16", "bert_small_f16", "wav2vec2_f16", "lstm_f16"),
    *("small_fq", "bert_small_int8"),
)
#: Networks with so much quantization that a single different rounding changes every output.
DEEPLY_QUANTIZED = ("unet_fq",)
LANGUAGE = (
    *(
        f"{name}{kind}"
        for name in ("llama", "gpt2", "qwen2")
        for kind in ("", "_f16", "_int8", "_int4_sym", "_int4_asym")
    ),
    *("llama_nf4", "llama_codebook", "llama_fp4", "llama_fp8", "mixtral_int4_asym"),
    *("falcon", "gemma2", "gpt_oss", "mixtral", "phi"),
)

#: Networks of the sizes that people use, for benchmarks/speed.py.
FULL_SIZE = (
    *("resnet50", "mobilenet_v2", "mobilenet_v3", "efficientnet_b0", "convnext_tiny", "swin_tiny", "segformer_b0"),
    *("vit_base", "unet_wide", "yolo11n", "bert_base", "minilm", "wav2vec2_base", "whisper_base"),
)
#: A network with dynamic shapes, for inputs of growing length.
FULL_SIZE_DYNAMIC = ("minilm_long",)
#: The networks of FULL_SIZE with activations and weights quantized by NNCF (FakeQuantize).
FULL_SIZE_QUANTIZED = tuple(
    f"{name}_quantized" for name in ("resnet50", "mobilenet_v2", "convnext_tiny", "unet_wide", "yolo11n", "bert_base")
)
#: The same as graphs in f16, as old files are.
FULL_SIZE_F16 = tuple(f"{name}_f16_graph" for name in ("resnet50", "mobilenet_v2", "bert_base"))


def get_cache() -> Path:
    """Return the folder that contains the networks."""
    return Path(os.environ.get("IRRUN_ZOO") or Path.home() / ".cache" / "irrun" / "zoo")


def fetch(name: str, kind: str = "xml") -> Path:
    """Return the path of a network's `model.xml` or `model.onnx`; build the network if it is not cached."""
    path = get_cache() / name / f"model.{kind}"
    if not path.exists():
        build(name)
    return path


def load_inputs(name: str) -> dict[str, np.ndarray]:
    """Return matching inputs by name; none for a language model."""
    with np.load(fetch(name).with_name("inputs.npz")) as arrays:
        return dict(arrays)


def make_source(name: str) -> tuple[nn.Module, Mapping[str, Any]] | openvino.Model:
    """Return what a network is built from, with the same random weights each time."""
    import torch

    torch.manual_seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002 - libraries use the global generator
    return _list_networks()[name].make()


def build(name: str) -> None:
    """Build a network and write its folder atomically."""
    import openvino
    import torch

    network = _list_networks()[name]
    arrays: dict[str, np.ndarray] = {}
    source = make_source(name)
    target = get_cache() / name
    partial = target.with_name(f".{name}.{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        if isinstance(source, tuple):
            module, example = source
            arrays = {key: value.numpy() for key, value in example.items()}
            with torch.no_grad():
                model = convert(module.eval(), example, static=network.static)
                if network.onnx:
                    torch.onnx.export(
                        module, (), str(partial / "model.onnx"), kwargs=dict(example), input_names=list(example),
                        dynamo=False,
                    )  # fmt: skip
        else:
            model = source
        if network.finish is not None:
            model = network.finish(model)
        openvino.save_model(model, partial / "model.xml", compress_to_fp16=network.f16)
        np.savez(partial / "inputs.npz", **arrays)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def convert(module: nn.Module, example: Mapping[str, Any], *, static: bool) -> openvino.Model:
    """Convert a module to an IR model with the input names of `example`."""
    import openvino

    shapes = {key: list(value.shape) for key, value in example.items()} if static else None
    model = openvino.convert_model(module, example_input=dict(example), input=shapes)
    for tensor, key in zip(model.inputs, example, strict=True):
        tensor.get_tensor().set_names({key})
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    groups = (NETWORKS, DEEPLY_QUANTIZED, LANGUAGE, FULL_SIZE, FULL_SIZE_DYNAMIC, FULL_SIZE_QUANTIZED, FULL_SIZE_F16)
    known = tuple(dict.fromkeys(itertools.chain.from_iterable(groups)))
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(known)}")
    parser.add_argument("--cache", type=Path, help="output folder, instead of $IRRUN_ZOO")
    options = parser.parse_args()
    if options.cache:
        os.environ["IRRUN_ZOO"] = str(options.cache)
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"unknown network {', '.join(unknown)}")
    failed = False
    for name in options.names or [n for n in known if not (get_cache() / n / "model.xml").exists()]:
        start = time.perf_counter()
        try:
            build(name)
            print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)
        except Exception as error:
            failed = True
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
