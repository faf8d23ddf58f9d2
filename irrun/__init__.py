"""Run OpenVINO IR models in pure Python on NumPy, with access to every intermediate value.

Example::

    import irrun

    model = irrun.compile_model("model.xml")  # the weights are in model.bin
    outputs = model({"x": x})  # or model(x) for a model with one input
    print(outputs["y"])  # a NumPy array, by name or position

Run models:
    compile_model      prepare a model; call the result with inputs
    run                read, compile and run a model once
    load_inputs        load inputs from files, images, JSON or random numbers
    save_outputs       save outputs to .npz, .npy or .json files
    generate           continue texts with a language model and its tokenizer
    embed              convert texts to vectors
    transcribe         transcribe speech
    map_batches        return results as a lazy Dask array; distributed.map_inputs runs over folders

Read and change models:
    read_model         read a Model with its graph of layers; see Model.reshape, Model.add_outputs
    validate           list all errors in a file
    extract            extract the part of a model between two sets of values
    save_model         write a model
    export_onnx        write a model as ONNX
    op                 register the kernel of a custom operation

Look inside:
    inspection.record  record all values of a run; inspection.replay runs one layer on them
    inspection.compare compare with another model, f64, OpenVINO or recorded values, layer by layer
    inspection.check   find NaN, overflow, indices out of range, constant channels
    profile            measure the time of each layer

`irrun.openvino` replaces OpenVINO's Python API, and `irrun.openvino_genai` replaces OpenVINO GenAI's. All errors are
subclasses of `IrrunError`. Each name is imported when it is first used.
"""

from __future__ import annotations

from irrun.version import __version__ as __version__

TYPE_CHECKING = False  # as type checkers interpret it; the module typing takes longer to import than this one

if TYPE_CHECKING:
    from irrun import distributed as distributed
    from irrun import inspection as inspection
    from irrun import openvino as openvino
    from irrun import openvino_genai as openvino_genai
    from irrun import ops as ops
    from irrun.data.load import load_inputs as load_inputs
    from irrun.data.save import save_outputs as save_outputs
    from irrun.distributed import map_batches as map_batches
    from irrun.element_types import ElementType as ElementType
    from irrun.errors import ExecutionError as ExecutionError
    from irrun.errors import InputError as InputError
    from irrun.errors import IrrunError as IrrunError
    from irrun.errors import ModelError as ModelError
    from irrun.errors import TimeLimitError as TimeLimitError
    from irrun.errors import UnsupportedError as UnsupportedError
    from irrun.export import export_onnx as export_onnx
    from irrun.generation import generate as generate
    from irrun.generation.embedding import embed as embed
    from irrun.generation.transcription import transcribe as transcribe
    from irrun.inspection.profiling import Profile as Profile
    from irrun.inspection.profiling import profile as profile
    from irrun.ir.extract import extract as extract
    from irrun.ir.graph import Graph as Graph
    from irrun.ir.graph import Layer as Layer
    from irrun.ir.model import Model as Model
    from irrun.ir.model import TensorSpec as TensorSpec
    from irrun.ir.reader import read_model as read_model
    from irrun.ir.structure import Finding as Finding
    from irrun.ir.writer import save_model as save_model
    from irrun.openvino.install import install_as_openvino as install_as_openvino
    from irrun.ops._support.operation import Operation as Operation
    from irrun.ops._support.registry import op as op
    from irrun.runtime.compiled_model import CompiledModel as CompiledModel
    from irrun.runtime.compiled_model import compile_model as compile_model
    from irrun.runtime.compiled_model import run as run
    from irrun.runtime.declaration_check import Mismatch as Mismatch
    from irrun.runtime.index_check import InvalidIndices as InvalidIndices
    from irrun.runtime.observer import Observer as Observer
    from irrun.runtime.observer import Scope as Scope
    from irrun.runtime.outputs import Outputs as Outputs
    from irrun.runtime.request import InferRequest as InferRequest
    from irrun.runtime.validation import validate as validate
    from irrun.runtime.variables import VariableState as VariableState
    from irrun.shapes import PartialShape as PartialShape

#: The public names and the modules that define them.
_PUBLIC = {
    "CompiledModel": "irrun.runtime.compiled_model",
    "ElementType": "irrun.element_types",
    "ExecutionError": "irrun.errors",
    "Finding": "irrun.ir.structure",
    "Graph": "irrun.ir.graph",
    "InferRequest": "irrun.runtime.request",
    "InputError": "irrun.errors",
    "IrrunError": "irrun.errors",
    "InvalidIndices": "irrun.runtime.index_check",
    "Layer": "irrun.ir.graph",
    "Mismatch": "irrun.runtime.declaration_check",
    "Model": "irrun.ir.model",
    "ModelError": "irrun.errors",
    "Observer": "irrun.runtime.observer",
    "Operation": "irrun.ops._support.operation",
    "Outputs": "irrun.runtime.outputs",
    "PartialShape": "irrun.shapes",
    "Profile": "irrun.inspection.profiling",
    "Scope": "irrun.runtime.observer",
    "TensorSpec": "irrun.ir.model",
    "TimeLimitError": "irrun.errors",
    "UnsupportedError": "irrun.errors",
    "VariableState": "irrun.runtime.variables",
    "compile_model": "irrun.runtime.compiled_model",
    "distributed": "",
    "export_onnx": "irrun.export.api",
    "embed": "irrun.generation.embedding",
    "generate": "irrun.generation",
    "extract": "irrun.ir.extract",
    "inspection": "",
    "install_as_openvino": "irrun.openvino.install",
    "load_inputs": "irrun.data.load",
    "map_batches": "irrun.distributed",
    "op": "irrun.ops._support.registry",
    "openvino": "",
    "openvino_genai": "",
    "ops": "",
    "profile": "irrun.inspection.profiling",
    "read_model": "irrun.ir.reader",
    "run": "irrun.runtime.compiled_model",
    "save_model": "irrun.ir.writer",
    "save_outputs": "irrun.data.save",
    "transcribe": "irrun.generation.transcription",
    "validate": "irrun.runtime.validation",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> object:
    import importlib

    if name not in _PUBLIC:
        raise AttributeError(f"module 'irrun' has no attribute {name!r}")
    from irrun.garbage import pause_collection

    module = _PUBLIC[name]
    with pause_collection():
        value = getattr(importlib.import_module(module), name) if module else importlib.import_module(f"irrun.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
