"""Tests of the defaults of all attributes, which files of OpenVINO never omit.

`defaults.json` states the defaults of the specification. The kernels must have the same, an omitted attribute must have
the effect of the stated default, and the inputs of the test must be such that another value has another effect.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest

pytest.importorskip("openvino")

from fast.harness import make_programs

from irrun.conformance.cases import Case, list_cases, load_generators
from irrun.conformance.harness import build_model, from_tensor
from irrun.element_types import ElementType
from irrun.errors import IrrunError
from irrun.ops._support.attributes import ATTRIBUTE_ALIASES, Attribute
from irrun.ops._support.context import State
from irrun.ops._support.operation import Operation, StructuralOperation
from irrun.ops._support.registry import list_operations
from irrun.runtime.executor import Executor, RequestState

load_generators()

#: "Gather-8" -> attribute -> default, as in the XML; lists as lists, None for an attribute that has no value.
DEFAULTS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "defaults.json").read_text())

#: Without operations on text, which neither opsets nor generators of cases contain: see tests/text.
OPERATIONS = {str(o): o for o in list_operations() if not isinstance(o, StructuralOperation) and o.category != "text"}
PAIRS = [(name, attribute) for name, attributes in DEFAULTS.items() for attribute in attributes]

#: Operations for which OpenVINO crashes if an optional attribute is omitted.
CRASHING = {"Col2Im-15"}

#: The value that OpenVINO sets if it differs from the specification's default, which the kernels follow.
OTHER_IN_OPENVINO: dict[tuple[str, str], Any] = {
    ("CTCLoss-4", "ctc_merge_repeated"): False,
    ("ConvolutionBackpropData-1", "output_padding"): [0],
    ("ConvolutionBackpropData-1", "pads_begin"): [0],
    ("ConvolutionBackpropData-1", "pads_end"): [0],
    ("ExperimentalDetectronPriorGridGenerator-6", "flatten"): False,
    ("GRUSequence-5", "activations"): [],
    ("GroupConvolutionBackpropData-1", "output_padding"): [0],
    ("GroupConvolutionBackpropData-1", "pads_begin"): [0],
    ("GroupConvolutionBackpropData-1", "pads_end"): [0],
    ("Interpolate-11", "pads_begin"): [0, 0, 0, 0],
    ("Interpolate-11", "pads_end"): [0, 0, 0, 0],
    ("Interpolate-4", "pads_begin"): [0, 0, 0, 0],
    ("Interpolate-4", "pads_end"): [0, 0, 0, 0],
    ("LSTMCell-1", "weights_format"): "ifco",
    ("LSTMSequence-5", "activations"): [],
    ("MVN-2", "across_channels"): False,
    ("MVN-2", "normalize_variance"): False,
    ("MVN-2", "reduction_axes"): [],
    ("PSROIPooling-1", "spatial_bins_x"): 0,
    ("PSROIPooling-1", "spatial_bins_y"): 0,
    ("RNNSequence-5", "activations"): [],
    ("ROIPooling-2", "output_roi"): [1, 1],
    ("ROIPooling-2", "output_size"): [1, 1],
    ("RegionYolo-1", "do_softmax"): False,
    ("SegmentMax-16", "fill_mode"): "ZERO",
    ("Softmax-1", "axis"): 0,
}

#: Attributes that take part only if others have these values.
CONTEXT: dict[tuple[str, str], dict[str, Any]] = {
    **{
        (name, attribute): {"activations": ["hardsigmoid"] * len(attributes["activations"])}
        for name, attributes in DEFAULTS.items()
        if "activations" in attributes
        for attribute in ("activations_alpha", "activations_beta")
    },
    **{
        (name, "sort_result_type"): {"sort_result_across_batch": True}
        for name, attributes in DEFAULTS.items()
        if "sort_result_across_batch" in attributes
    },
    **{
        (name, f"{x}_l2_norm_eps"): {attribute: True}
        for name, attribute in (
            ("GatedDeltaNet-extension", "fuse_qk_l2norm"),
            ("PagedGatedDeltaNet-extension", "use_qk_l2norm"),
        )
        for x in ("q", "k")
    },
    ("Broadcast-1", "axis"): {"mode": "pdpd"},
    ("Broadcast-3", "axis"): {"mode": "pdpd"},
    ("MatrixNms-8", "gaussian_sigma"): {"decay_function": "gaussian"},
    ("MatrixNms-ie_internal_opset", "gaussian_sigma"): {"decay_function": "gaussian"},
    ("MulticlassNms-ie_internal_opset", "nms_eta"): {"iou_threshold": 0.9},
    ("MulticlassNmsIEInternal-ie_internal_opset", "nms_eta"): {"iou_threshold": 0.9},
    ("ROIPooling-2", "output_roi"): {"pooled_h": 0, "pooled_w": 0, "output_size": []},
    ("ROIPooling-2", "output_size"): {"pooled_h": 0, "pooled_w": 0, "output_roi": []},
    ("ScatterElementsUpdate-3", "use_init_val"): {"reduction": "sum"},
}

#: Operations that share the cases of another one with the same inputs.
CASES_OF = {"MulticlassNms-ie_internal_opset": "MulticlassNmsIEInternal-ie_internal_opset"}

#: Attributes for which no value differs from the default, and the reason.
WITHOUT_EFFECT: dict[tuple[str, str], str] = {
    **{
        ("MOECompressed-extension", name): "describes the inputs"
        for name in ("hidden_size", "inter_size", "num_expert", "top_k", "group_size", "has_batch_dim", "routing_type")
    },
    ("BinaryConvolution-1", "auto_pad"): "the filters of the cases cannot be read from OpenVINO",
    ("DeformablePSROIPooling-1", "mode"): "the only mode",
    (
        "ExperimentalDetectronDetectionOutput-6",
        "class_agnostic_box_regression",
    ): "the reference implementation ignores it",
    ("GenerateProposals-9", "nms_eta"): "the reference implementation ignores it",
    ("GenerateProposalsIEInternal-ie_internal_opset", "nms_eta"): "the reference implementation ignores it",
    ("LSTMCell-1", "weights_format"): "the order is always f, i, c, o",
    ("RMSNorm-extension", "compute_type"): "concerns plugins only",
    ("PagedAttentionExtension-extension", "write_kv_cache"): "concerns later runs",
    ("ReadValue-6", "variable_shape"): "the model declares the variable",
    ("ReadValue-6", "variable_type"): "the model declares the variable",
    ("RegionYolo-1", "anchors"): "only converters use it",
    ("Squeeze-15", "allow_axis_skip"): "concerns dynamic ranks only",
    ("TopK-11", "stable"): "the order is always stable",
}


def describe(value: Any) -> Any:
    """Return a default as defaults.json spells it."""
    return value.name if isinstance(value, ElementType) else value


def write_text(value: Any) -> str:
    """Return a default as the text of an attribute."""
    if isinstance(value, list):
        return ",".join(map(write_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_table_contains_all_defaults() -> None:
    actual = {
        name: {a.name: describe(a.default) for a in operation.attributes if not a.required}
        for name, operation in OPERATIONS.items()
    }
    assert {name: attributes for name, attributes in actual.items() if attributes} == DEFAULTS


def get_attribute(name: str, attribute: str) -> Attribute:
    return next(a for a in OPERATIONS[name].attributes if a.name == attribute)


# OpenVINO


def read_default_of_openvino(operation: Operation, attribute: Attribute) -> Any:
    """Return the value that OpenVINO writes for an attribute that is omitted; None if it refuses to omit it."""
    for case in list_cases(operation.type, operation.since)[:6]:
        attributes = {k: v for k, v in case.attributes.items() if k != attribute.name}
        if case.build:
            continue
        try:
            model = build_model(operation.type, operation.since, replace(case, attributes=attributes))
        except RuntimeError:
            continue
        node = next(n for n in model.get_ops() if n.get_type_name() not in ("Parameter", "Constant", "Result"))
        for name, value in node.get_attributes().items():
            spelling = name.rpartition(".")[2].replace("-", "_")
            if ATTRIBUTE_ALIASES.get(spelling, spelling) == attribute.name:
                return attribute.convert(value) if isinstance(value, str) else value
    return None


@pytest.mark.parametrize(
    "name", [name for name, o in OPERATIONS.items() if name in DEFAULTS and not o.opset and name not in CRASHING]
)
def test_defaults_are_those_of_openvino(name: str) -> None:
    operation = OPERATIONS[name]
    for attribute in operation.attributes:
        actual = None if attribute.required else read_default_of_openvino(operation, attribute)
        if actual is not None:
            actual = list(actual) if isinstance(actual, tuple | np.ndarray) else describe(actual)
            expected = OTHER_IN_OPENVINO.get((name, attribute.name), DEFAULTS[name][attribute.name])
            assert actual == expected, attribute.name


# Effects

Inputs = Sequence[np.ndarray | None]


@cache
def list_layers(type: str, since: int) -> list[tuple[Inputs, dict[str, Any], int]]:
    """Return the inputs, the attributes and the number of outputs of the cases of an operation."""
    return [layer for case in list_cases(type, since) for layer in read_layers(type, since, case)]


def read_layers(type: str, since: int, case: Case) -> Iterator[tuple[Inputs, dict[str, Any], int]]:
    """Yield the layers of the type in the model of a case whose inputs are Parameters and Constants."""
    try:
        model = build_model(type, since, case)
    except RuntimeError:
        return
    values = dict(zip((p.get_friendly_name() for p in model.get_parameters()), case.parameter_values, strict=True))
    for node in model.get_ops():
        if node.get_type_name() != type:
            continue
        inputs = []
        for port in node.inputs():
            source = port.get_source_output().get_node()
            if source.get_type_name() == "Constant":
                inputs.append(from_tensor(source.tensor_view))
            else:
                inputs.append(values.get(source.get_friendly_name()))
        if all(x is not None for x in inputs):
            yield inputs, dict(node.get_attributes()), node.get_output_size()


def list_alternatives(attribute: Attribute, used: Sequence[Any]) -> Iterator[Any]:
    """Yield other values of an attribute: from the cases, then some that suit its type."""
    default = attribute.default
    yield from (value for value in used if value != default)
    if default == "dynamic":
        yield "f16"
    if isinstance(default, bool):
        yield not default
    elif isinstance(default, int | float):
        yield from (default + step for step in (1, -1, 2, 10, 100))
        yield from (default + step for step in (0.5, -0.5) if isinstance(default, float))
    elif isinstance(default, ElementType):
        yield from (ElementType.parse(name) for name in ("i32", "i64", "f16") if name != default.name)
    elif isinstance(default, list):
        yield from ([value] * count for value in (1, 2, 0.5) for count in (1, 2, 3, 4))
    kind = attribute.type if get_origin(attribute.type) is Literal else next(iter(get_args(attribute.type)), None)
    if get_origin(kind) is Literal:
        yield from (choice for choice in get_args(kind) if choice != default)


def run_kernel(operation: Operation, inputs: Inputs, attributes: dict[str, Any], outputs: int) -> list[str] | None:
    """Return the types, shapes and bytes of the outputs; None if the kernel refuses its arguments."""
    try:
        bound = operation.bind(attributes)
        if "state" in operation.provided:
            result = operation.kernel(*inputs, **bound, state=State())
            results = list(result) if isinstance(result, tuple) else [result]
        else:
            program, _ = make_programs(operation, inputs, bound, (), outputs)
            with np.errstate(all="ignore"):
                results = Executor(program, RequestState()).run(list(inputs))
    except (IrrunError, IndexError, TypeError, ValueError):
        return None
    return [f"{x.dtype}{x.shape}{x.tolist() if x.dtype == object else x.tobytes().hex()}" for x in results]


def remove(attributes: dict[str, Any], name: str) -> dict[str, Any]:
    """Return attributes without one, in any spelling."""
    spelled = {key: key.rpartition(".")[2].replace("-", "_") for key in attributes}
    return {k: v for k, v in attributes.items() if ATTRIBUTE_ALIASES.get(spelled[k], spelled[k]) != name}


def find_effect(name: str, attribute: str) -> str:
    """Compare an omitted attribute with its default and with other values.

    Returns:
        "" if another value differs from the default, else what was seen.
    """
    operation, declared = OPERATIONS[name], get_attribute(name, attribute)
    default = DEFAULTS[name][attribute]
    source = OPERATIONS[CASES_OF.get(name, name)]
    layers = [
        (inputs, remove(attributes, attribute) | CONTEXT.get((name, attribute), {}), outputs, attributes)
        for inputs, attributes, outputs in list_layers(source.type, source.since)
    ]
    used: list[Any] = []
    for *_, attributes in layers:
        with contextlib.suppress(IrrunError):
            value = operation.bind(attributes).get(attribute)
            used += [value] if value is not None and value not in used else []
    if (name, attribute) in WITHOUT_EFFECT:
        layers = layers[:10]
    compared = 0
    for inputs, others, outputs, _ in layers:
        omitted = run_kernel(operation, inputs, others, outputs)
        if default is not None:
            assert run_kernel(operation, inputs, others | {attribute: write_text(default)}, outputs) == omitted
        compared += omitted is not None
        for other in list_alternatives(declared, used):
            if run_kernel(operation, inputs, others | {attribute: other}, outputs) != omitted:
                return ""
    return f"{compared} of {len(layers)} cases run without it, none of them differs"


@pytest.mark.parametrize(("name", "attribute"), PAIRS, ids=[f"{n}-{a}" for n, a in PAIRS])
def test_omitted_attribute_has_its_default(name: str, attribute: str) -> None:
    if (name, attribute) in WITHOUT_EFFECT:
        assert find_effect(name, attribute), "the attribute has an effect; remove it from WITHOUT_EFFECT"
    else:
        assert not find_effect(name, attribute)
