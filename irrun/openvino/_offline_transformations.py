"""Transformations that programs such as optimum-intel apply to models before they save or compile them.

irrun optimizes a model when it is compiled, so the transformations that only optimize do nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from irrun.openvino.compression import compress_constants, compress_quantized_weights
from irrun.openvino.model import Model
from irrun.openvino.passes.transformations import LowLatency2, MakeStateful
from irrun.openvino.version import get_version as get_version

__all__ = [
    "apply_fused_names_cleanup",
    "apply_low_latency_transformation",
    "apply_make_stateful_transformation",
    "apply_moc_legacy_transformations",
    "apply_moc_transformations",
    "apply_pruning_transformation",
    "compress_model_transformation",
    "compress_quantize_weights_transformation",
    "convert_sequence_to_tensor_iterator_transformation",
    "paged_attention_transformation",
    "stateful_to_stateless_transformation",
]


def apply_moc_transformations(model: Model, cf: bool, smart_reshape: bool = False) -> None:
    """Do nothing: irrun optimizes a model when it is compiled.

    Args:
        model: The model.
        cf: Whether OpenVINO folds constants.
        smart_reshape: Whether OpenVINO prepares the model for a change of shapes.
    """


def apply_moc_legacy_transformations(model: Model, params_with_custom_types: Any) -> None:
    """Do nothing: irrun optimizes a model when it is compiled.

    Args:
        model: The model.
        params_with_custom_types: The names of the parameters that keep their types in OpenVINO.
    """


def apply_pruning_transformation(model: Model) -> None:
    """Do nothing: irrun does not remove channels of zeros.

    Args:
        model: The model.
    """


def apply_fused_names_cleanup(model: Model) -> None:
    """Remove the names of fused layers, which irrun does not record, from a model.

    Args:
        model: The model. It is modified.
    """
    for node in model.get_ops():
        for name in [name for name in node._rt_info if name.startswith("fused_names")]:
            del node._rt_info[name]


def compress_quantize_weights_transformation(model: Model) -> None:
    """Store the quantized weights of a model as integers.

    Args:
        model: The model. It is modified.
    """
    compress_quantized_weights(model)


def compress_model_transformation(model: Model) -> None:
    """Store the constants of f32 and f64 of a model in f16.

    Args:
        model: The model. It is modified.
    """
    compress_constants(model)


def apply_low_latency_transformation(model: Model, use_const_initializer: bool = True) -> None:
    """Replace the states of loops by variables; see `LowLatency2`."""
    LowLatency2(use_const_initializer).run_on_model(model)


def apply_make_stateful_transformation(model: Model, param_res_names: Mapping[str, str]) -> None:
    """Replace inputs and outputs by variables; see `MakeStateful`.

    Args:
        model: The model. It is modified.
        param_res_names: Names of outputs by the names of inputs; or pairs of a Parameter and a Result.
    """
    MakeStateful(param_res_names).run_on_model(model)
    model.validate_nodes_and_infer_types()


def convert_sequence_to_tensor_iterator_transformation(*_: Any, **__: Any) -> NoReturn:
    """Refuse to replace recurrent sequences by loops."""
    _refuse("convert_sequence_to_tensor_iterator_transformation")


def paged_attention_transformation(*_: Any, **__: Any) -> NoReturn:
    """Refuse to replace attention by paged attention."""
    _refuse("paged_attention_transformation")


def stateful_to_stateless_transformation(*_: Any, **__: Any) -> NoReturn:
    """Refuse to replace variables by parameters and results."""
    _refuse("stateful_to_stateless_transformation")


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(f"irrun does not have the transformation {name}")
