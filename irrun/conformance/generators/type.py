"""Conformance cases for the type operations."""

from __future__ import annotations

import itertools

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.elementwise import SHAPES
from irrun.conformance.harness import EXACT
from irrun.element_types import ELEMENT_TYPES
from irrun.packing import pack

#: Known faults of conversions in the CPU plugin.
CONVERT = ("plugin-convert", "plugin-64-bits", "plugin-subnormals", "plugin-bf16")
NUMERIC = [name for name in ELEMENT_TYPES if name != "string"]
#: Types that outputs of OpenVINO cannot be read in -> a type that represents all of their values.
WIDER = {
    **dict.fromkeys(("u1", "u2", "u3", "u4", "u6", "i4"), "i32"),
    **dict.fromkeys(("nf4", "f4e2m1", "f8e8m0"), "f32"),
}
#: Types that the reference implementation converts directly to and from these. All others convert directly.
NARROW = {
    "nf4": ({"f16"}, {"f16", "f32", "bf16"}),
    "f4e2m1": ({"f16", "f32", "bf16"}, {"f16", "f32", "bf16"}),
    "f8e8m0": ({"f16", "f32", "bf16"}, {"f16", "f32", "bf16"}),
}


def is_direct(source, target):
    """Return whether the reference implementation converts `source` to `target` directly."""
    if source == target:
        return True
    return source in NARROW.get(target, ({source},))[0] and target in NARROW.get(source, (0, {target}))[1]


def make_samples(rng, name):
    """Return all values of a narrow type, or those values of a wider one at which conversions change behavior."""
    element = ELEMENT_TYPES[name]
    if name == "boolean":
        return np.array([False, True, True])
    if element.bits <= 8:
        values = np.arange(1 << element.bits, dtype=np.uint8).view(element.dtype)
        # The reference implementation truncates the bits of NaN, which may result in infinity or zero.
        return values[~np.isnan(values.astype(np.float32))] if name.startswith("f8") else values
    if element.is_integer:
        info = np.iinfo(element.dtype)
        edges = [info.min, info.max, info.max // 2, *range(40), 127, 128, 255, 256, 448, 464, 465, 2**15 - 1]
        edges = [e for e in edges if e <= info.max]
        spread = rng.integers(info.min, info.max, 40, element.dtype, endpoint=True)
        near = rng.integers(0, min(info.max, 1 << 24), 40, element.dtype)
        return np.concatenate([np.array(edges, element.dtype), spread, near])
    powers = np.concatenate([2.0 ** np.arange(-14, 15), 1.5 * 2.0 ** np.arange(-14, 15)])
    edges = [0, 0.4, 2.5, 3.5, 5, 7.7, 127.9, 128, 255, 256.5, 300, 448, 464, 465, 480, 57344, 61440, 65504]
    spread = [rng.normal(0, 1, 40), rng.normal(0, 1e3, 40), np.exp(rng.uniform(-12, 10, 40))]
    values = np.concatenate([powers, edges, *spread])
    return np.concatenate([values, -values]).astype(np.float16).astype(element.dtype)


def build_conversion_model(source, values, targets, through=None):
    """Build a model that converts `values` to each of `targets`, via the type `through`."""
    import openvino as ov
    from openvino import opset13 as opset

    raw = np.frombuffer(pack(ELEMENT_TYPES[source], values), np.uint8).copy()
    node = ov.op.Constant(ov.Tensor(raw, ov.Shape(list(values.shape)), getattr(ov.Type, source)))
    if through and through != source:
        node = opset.convert(node, through)
    results = []
    for target in targets:
        converted = opset.convert(node, target)
        if target in WIDER:
            converted = opset.convert(converted, WIDER[target])
        results.append(ov.op.Result(converted.output(0)))
    model = ov.Model(results, [])
    model.memory = raw  # the constant does not copy the data
    return model


def evaluate_model(model):
    """Compute the outputs of a model with the reference implementation."""
    from irrun.conformance.harness import evaluate

    return evaluate(model, [], [()] * len(model.outputs))


@register_cases("Convert", since=1)
def convert_1(rng):
    for source in NUMERIC:
        values = make_samples(rng, source)

        def build_model(targets, source=source, values=values):
            return lambda: build_conversion_model(source, values, targets)

        exact = [t for t in NUMERIC if t != "bf16" and is_direct(source, t)]
        yield Case(build=build_model(exact), faults=CONVERT, tolerance=EXACT, note=f"{source} to {exact}")
        note = f"{source} to bf16; the reference does not round to nearest"
        if is_direct(source, "bf16"):
            yield Case(build=build_model(["bf16"]), faults=("plugin-bf16",), note=note)
        indirect = [t for t in NUMERIC if t != "bf16" and not is_direct(source, t)]
        for middle, chosen in itertools.groupby(indirect, lambda t: "f16" if t == "nf4" else "f32"):
            targets = list(chosen)
            expected = evaluate_model(build_conversion_model(source, values, targets, through=middle))
            note = f"{source} to {targets}, which the reference converts via {middle}"
            yield Case(build=build_model(targets), faults=CONVERT, expected=expected, tolerance=EXACT, note=note)
    for source, target in [("f32", "i32"), ("f32", "u8"), ("i64", "i32"), ("i32", "f32"), ("f32", "f16")]:
        for shape in SHAPES:
            values = rng.uniform(0, 200, shape).astype(ELEMENT_TYPES[source].dtype)
            yield Case([values], {"destination_type": target})
    yield Case([rng.uniform(0, 9, (2, 3)).astype(np.float32)], {"destination_type": "i64"}, dynamic=(0,))
    limits = np.array([np.nan, np.inf, -np.inf, 1e38, -1e38, 65519, 65520, 1e-8, 2e-46, -1e-46], np.float32)
    for target in ("f64", "f16", "f8e4m3", "f8e5m2", "boolean"):
        yield Case([limits], {"destination_type": target}, faults=CONVERT, tolerance=EXACT)
    large = np.array([2**31, 2.0**31 - 128, 2.0**40, -(2.0**31), -(2.0**40), 2.0**62, 1e30, -1e30], np.float32)
    for target in ("i32", "i64", "u64"):
        note = "floats that the integer cannot hold"
        yield Case([large], {"destination_type": target}, faults=CONVERT, note=note)


@register_cases("ConvertLike", since=1)
def convert_like_1(rng):
    names = ["f32", "f16", "i32", "u8", "i64", "boolean"]
    for source, target in itertools.product(names, names):
        values = rng.uniform(0, 3, (2, 3)).astype(ELEMENT_TYPES[source].dtype)
        yield Case([values, np.zeros((2,), ELEMENT_TYPES[target].dtype)])
    for shape in SHAPES:
        yield Case([rng.uniform(-9, 9, shape).astype(np.float32), np.array(0, np.int32)], constants=(1,))


@register_cases("ConvertPromoteTypes", since=14)
def convert_promote_types_14(rng):
    everything = ["boolean", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"]
    for a, b in itertools.combinations_with_replacement(everything, 2):
        x = rng.uniform(0, 90, (2, 3)).astype(ELEMENT_TYPES[a].dtype)
        y = rng.uniform(0, 90, (2,)).astype(ELEMENT_TYPES[b].dtype)
        tolerance = (1e-7, 0) if "f64" in (a, b) else None  # the CPU plugin computes f64 in f32
        yield Case([x, y], {"promote_unsafe": True}, tolerance=tolerance)
    few = ["i8", "i32", "u8", "u32"]
    for a, b in itertools.product(few, few):
        x = rng.uniform(0, 90, (2, 3)).astype(ELEMENT_TYPES[a].dtype)
        y = rng.uniform(0, 90, ()).astype(ELEMENT_TYPES[b].dtype)
        yield Case([x, y], {"promote_unsafe": True, "pytorch_scalar_promotion": True})
    for a, b in [("i8", "f32"), ("i32", "u8"), ("f16", "f32"), ("u8", "u32"), ("i8", "i64"), ("boolean", "i16")]:
        x = rng.uniform(0, 90, (2, 3)).astype(ELEMENT_TYPES[a].dtype)
        for pair in ([x, np.ones((1, 2), ELEMENT_TYPES[b].dtype)], [np.ones((), ELEMENT_TYPES[b].dtype), x]):
            yield Case(pair)
    for target in ("f32", "i32", "f16"):
        x, y = np.array([1, 2], np.int8), np.array([[3], [4]], np.uint64)
        yield Case([x, y], {"promote_unsafe": True, "u64_integer_promotion_target": target})


TEXTS = [
    ["Intel", "OpenVINO"],
    [""],
    ["one"],
    ["OMZ", "", "GenAI", " ", "2024"],
    [["a", "bc", "def"], ["", "gh", "ijkl"]],
    [["héllo", "日本語"], ["😀", "z"]],
    [[["1"], ["23"]]],
    "scalar",
    [],
]


def generate_string_cases(nested):
    return np.array(nested, dtype=object) if nested != [] else np.empty((0,), object)


@register_cases("StringTensorUnpack", since=15)
def string_tensor_unpack_15(rng):
    for nested in TEXTS:
        yield Case([generate_string_cases(nested)])
    yield Case([generate_string_cases(["dynamic", "shape"])], dynamic=(0,))


@register_cases("StringTensorPack", since=15)
def string_tensor_pack_15(rng):
    for nested in TEXTS:
        encoded = [text.encode() for text in generate_string_cases(nested).reshape(-1)]
        bounds = np.cumsum([0, *map(len, encoded)])
        shape = generate_string_cases(nested).shape
        symbols = np.frombuffer(b"".join(encoded), np.uint8)
        for dtype in (np.int32, np.int64):
            begins, ends = bounds[:-1].astype(dtype).reshape(shape), bounds[1:].astype(dtype).reshape(shape)
            yield Case([begins, ends, symbols])
    text = np.frombuffer(b"123456789", np.uint8)
    yield Case([np.array([0, 8]), np.array([1, 9]), text], note="symbols between the strings are ignored")
    yield Case([np.array([3, 0, 2]), np.array([6, 9, 2]), text], note="overlapping strings")
    yield Case([np.array([[0], [4]]), np.array([[4], [9]]), text], constants=(0, 1))
    yield Case([np.array([1, 2]), np.array([2, 3]), text], dynamic=(0, 1, 2))
