"""PyTorch modules as ONNX models, which PyTorch itself exports."""

from __future__ import annotations

import inspect
import io
import sys
import warnings
from collections.abc import Mapping
from typing import Any

__all__ = ["export_module", "get_examples", "is_module"]

#: The ONNX opset of exported modules.
OPSET = 18


def is_module(value: object) -> bool:
    """Return whether a value is a PyTorch module or an exported program, without importing PyTorch."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, (torch.nn.Module, torch.export.ExportedProgram))


def export_module(module: Any, example_input: Any) -> bytes:
    """Convert a PyTorch module to an ONNX model. Its inputs have dynamic shapes and the names of the arguments.

    PyTorch traces the module: branches and loops are fixed by the example. An exported program has its own example.

    Args:
        module: The module, or an exported program.
        example_input: A tensor, several, or tensors by the names of arguments; None for an exported program.

    Raises:
        RuntimeError: `example_input` is missing, or PyTorch cannot export the module.
    """
    import torch

    arguments, keywords = _get_arguments(module, example_input)
    examples = get_examples(module, example_input)
    if isinstance(module, torch.export.ExportedProgram):
        caller = _make_caller(module.module(), list(keywords))
        mode = torch.onnx.TrainingMode.PRESERVE  # the program has no other one
        return _export(caller, (*arguments, *keywords.values()), {}, examples, training=mode)
    return _export(module, arguments, keywords, examples)


def get_examples(module: Any, example_input: Any) -> dict[str, Any]:
    """Return the tensors among the arguments of a module or an exported program, by the names of its inputs."""
    import torch

    arguments, keywords = _get_arguments(module, example_input)
    if isinstance(module, torch.export.ExportedProgram):
        values = [*zip(module.graph_signature.user_inputs, (*arguments, *keywords.values()), strict=False)]
    else:
        parameters = list(inspect.signature(module.forward).parameters)
        named = sorted(keywords.items(), key=lambda item: parameters.index(item[0]))
        values = [*zip(parameters, arguments, strict=False), *named]
    return {name: value for name, value in values if isinstance(value, torch.Tensor)}


def _get_arguments(module: Any, example_input: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments and keywords of the example.

    Raises:
        RuntimeError: `example_input` is missing.
    """
    import torch

    if isinstance(module, torch.export.ExportedProgram):
        arguments, keywords = module.example_inputs
        return arguments, keywords
    if example_input is None:
        raise RuntimeError("irrun needs example_input to convert a PyTorch module")
    if isinstance(example_input, Mapping):
        return (), {name: _to_tensor(value) for name, value in example_input.items()}
    values = example_input if isinstance(example_input, (tuple, list)) else (example_input,)
    return tuple(map(_to_tensor, values)), {}


def _make_caller(graph: Any, keywords: list[str]) -> Any:
    """Return a module that calls the module of an exported program, which PyTorch would take for a script.

    Args:
        graph: The module of the program.
        keywords: The names of the last arguments.
    """
    import torch

    class Caller(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.graph_module = graph

        def forward(self, *values: Any) -> Any:
            count = len(values) - len(keywords)
            return self.graph_module(*values[:count], **dict(zip(keywords, values[count:], strict=True)))

    return Caller()


def _export(
    module: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], examples: Mapping[str, Any], **options: Any
) -> bytes:
    """Convert a module, given the examples by the names of inputs, with options of `torch.onnx.export`."""
    import torch

    buffer = io.BytesIO()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                arguments,
                buffer,
                kwargs=keywords,
                input_names=list(examples),
                dynamic_axes={name: list(range(value.ndim)) for name, value in examples.items()},
                opset_version=OPSET,
                dynamo=False,
                **options,
            )
    except Exception as error:  # PyTorch raises errors of many types
        raise RuntimeError(f"PyTorch cannot export the module to ONNX: {error}") from error
    return buffer.getvalue()


def _to_tensor(value: Any) -> Any:
    import numpy as np
    import torch

    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value
