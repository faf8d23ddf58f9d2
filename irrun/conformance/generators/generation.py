"""Conformance cases for the generation operations."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np

from irrun.conformance.cases import Case, register_cases

BF16 = ml_dtypes.bfloat16
RANGE = ("plugin-range", "plugin-64-bits")


@register_cases("Range", since=1)
def range_1(rng):
    for start, stop, step, dtype in [
        (0, 10, 1, np.int32),
        (3, -4, -2, np.int64),
        (5, 5, 1, np.int32),
        (-100, 100, 27, np.int8),
        (1, 0, 1, np.int64),
        (0, 200, 77, np.uint8),
        (10, 50, 13, np.uint16),
        (-30000, 30000, 12345, np.int16),
        (0, 7, 2, np.uint32),
        (2**40, 2**40 + 9, 4, np.uint64),
        (0, 1, 0.1, np.float32),
        (1.5, -2, -0.3, np.float32),
        (0, 1, 0.1, np.float64),
    ]:
        inputs = [np.array(v, dtype) for v in (start, stop, step)]
        yield Case(inputs, tolerance=(0, 0), faults=RANGE)
    for start, stop, step in [(0, 7, 1), (9, 0, -3), (0, 1, 0.25), (2, 2, 1)]:
        inputs = [np.array(v, np.float32) for v in (start, stop, step)]
        yield Case(inputs, tolerance=(0, 0))
        yield Case(inputs, constants=(0, 1, 2), tolerance=(0, 0))
    # Model.evaluate does not support f16 and bf16 here; the CPU plugin computes them in f32.
    yield Case([np.array(v, np.float16) for v in (0, 5, 0.5)])
    yield Case([np.array(v, np.int32) for v in (1, 9, 3)], dynamic=())


@register_cases("Range", since=4)
def range_4(rng):
    def make_case(start, stop, step, dtype, output_type, **options):
        inputs = [np.array(v, dtype) for v in (start, stop, step)]
        return Case(inputs, {"output_type": output_type}, tolerance=(0, 0), **options)

    for out in ("i32", "i64", "f32"):
        yield make_case(0, 10, 1, np.int32, out)
        yield make_case(7, -7, -3, np.int64, out)
        yield make_case(3, 3, 1, np.int32, out)
        yield make_case(2, 9, 2, np.float32, out, constants=(0, 1, 2))
    for out in ("i8", "i16", "u8", "u16", "u32", "u64", "f64", "f16", "bf16", "i32", "i64", "f32"):
        yield make_case(1, 30, 7, np.int32, out, faults=RANGE, note="every output type")
        yield make_case(1.25, 40, 7.75, np.float32, out, faults=RANGE, note="fractions are truncated")
    for arguments in [
        (1.7, 9.9, 1.5, np.float32, "i32"),
        (10.9, 1.2, -1.5, np.float32, "i64"),
        (-3.5, 3.9, 1.2, np.float32, "u8"),
        (5, 1, -1, np.int32, "u8"),
        (250, 300, 20, np.int32, "u8"),
        (300, 303, 1, np.int64, "i8"),
        (-5, -1, 1, np.float32, "u64"),
        (0.3, 50, 0.37, np.float16, "f16"),
        (0, 1, 0.1, np.float32, "f64"),
        (0, 1, 0.1, np.float64, "f32"),
        (0, 1, 0.1, np.float64, "f16"),
        (2**24, 2**24 + 9, 1, np.int32, "f32"),
        (300, 290, -1, np.int32, "f16"),
        (2040, 2060, 1, np.int32, "f16"),
        (1, 0, 1, np.float32, "f32"),
    ]:
        yield make_case(*arguments, faults=RANGE)
    start, stop, step = (np.float32(BF16(x)) for x in (0.3, 50, 0.37))
    exact = (start + np.arange(np.ceil((stop - start) / step), dtype=np.float32) * step).astype(BF16)
    yield make_case(0.3, 50, 0.37, BF16, "bf16", faults=("reference-bf16", "plugin-bf16"), expected=[exact])
    mixed = [np.array(1, np.int32), np.array(9.5, np.float32), np.array(2, np.int64)]
    for out in ("f32", "i64"):
        yield Case(mixed, {"output_type": out}, faults=RANGE, tolerance=(0, 0), note="mixed types")


@register_cases("Eye", since=9)
def eye_9(rng):
    for out in ("i8", "i32", "i64", "u8", "f32"):
        for rows, columns, diagonal in [(3, 4, 0), (4, 3, 2), (3, 5, -1)]:
            inputs = [np.array(v, np.int32) for v in (rows, columns, diagonal)]
            yield Case(inputs, {"output_type": out})
    for out in ("f16", "bf16", "f64"):
        yield Case([np.array(v, np.int64) for v in (3, 3, 1)], {"output_type": out})
    for rows, columns, diagonal, batch in [
        (3, 3, 0, [2]),
        (2, 4, 1, [2, 3]),
        (4, 2, -2, [1, 2, 1]),
        (3, 3, 7, [2]),
        (3, 3, -7, [2]),
        (3, 4, 0, [0]),
        (0, 4, 0, [2]),
        (3, 0, 0, []),
        (2, 2, 0, []),
    ]:
        inputs = [np.array([v], np.int64) for v in (rows, columns, diagonal)] + [np.array(batch, np.int64)]
        yield Case(inputs, {"output_type": "f32"}, faults=() if batch else ("plugin-eye",))
        yield Case(inputs, {"output_type": "i32"}, constants=(0, 1, 2, 3))


@register_cases("RandomUniform", since=8)
def random_uniform_8(rng):
    # The CPU plugin draws f16 and f64 as f32, draws i64 as i32, and fuses the multiplication and addition of f32.
    for dtype, name in [
        (np.float32, "f32"),
        (np.int32, "i32"),
        (np.float16, "f16"),
        (BF16, "bf16"),
        (np.float64, "f64"),
        (np.int64, "i64"),
    ]:
        faults = () if name == "i32" else ("plugin-random-uniform", "plugin-64-bits")

        def make_case(shape, low, high, dtype=dtype, name=name, faults=faults, constants=(0, 1, 2), **attributes):
            inputs = [np.array(shape, np.int64), np.array(low, dtype), np.array(high, dtype)]
            attributes = {"output_type": name, **attributes}
            return Case(inputs, attributes, constants=constants, faults=faults, tolerance=(0, 0))

        for alignment in ("tensorflow", "pytorch"):
            yield make_case([3, 2, 2], 0, 1, global_seed=150, op_seed=10, alignment=alignment)
            yield make_case([5], -3, 8, global_seed=7, op_seed=0, alignment=alignment)
            yield make_case([2, 7], 2, 100, global_seed=2**40 + 3, op_seed=2**35 + 1, alignment=alignment)
            yield make_case([1], 10, 30, global_seed=1, op_seed=2, alignment=alignment)
            yield make_case([3, 3], -50, -2, global_seed=0, op_seed=11, alignment=alignment)
        yield make_case([2, 3], 0, 7, global_seed=5, op_seed=6)
        yield make_case([30, 50], 0, 64, global_seed=42, op_seed=1, alignment="pytorch")
        yield make_case([2, 0, 3], 0, 7, global_seed=5, op_seed=6)
        yield make_case([], 0, 7, global_seed=5, op_seed=6, faults=("plugin-random-uniform-scalar",))
        if name in ("f32", "bf16"):
            yield make_case([5, 5], 0, 1, global_seed=8, op_seed=6, faults=() if name == "f32" else ("plugin-bf16",))
        yield make_case([2, 5], 0, 7, global_seed=5, op_seed=6, constants=())
    for alignment in ("tensorflow", "pytorch"):
        attributes = {"global_seed": 3, "op_seed": 4, "alignment": alignment}
        for low, high in ((-5, 2**40), (2**33, 2**34), (-(2**62), 2**62)):
            inputs = [np.array([4, 3], np.int32), np.array([low], np.int64), np.array([high], np.int64)]
            yield Case(
                inputs, {"output_type": "i64", **attributes}, faults=("plugin-random-uniform-i64",), note="64 bits"
            )
        inputs = [np.array([4, 3], np.int32), np.array(-(2**31), np.int32), np.array(2**31 - 1, np.int32)]
        faults = ("plugin-random-uniform-range",)
        yield Case(inputs, {"output_type": "i32", **attributes}, faults=faults, note="all of i32")


def _compute_multinomial(probs, samples, attributes):
    """Compute Multinomial as the reference implementation does, with random numbers drawn by OpenVINO."""
    import openvino as ov
    from openvino.utils.node_factory import NodeFactory

    rows = np.atleast_2d(probs)
    name = {"float32": "f32", "float16": "f16", "float64": "f64"}[probs.dtype.name]
    element = getattr(ov.Type, name)
    bounds = [ov.op.Constant(element, ov.Shape([]), [value]).output(0) for value in (0, 1)]
    shape = ov.op.Constant(np.array([len(rows), samples], np.int64)).output(0)
    seeds = {key: attributes[key] for key in ("global_seed", "op_seed")}
    node = NodeFactory("opset8").create("RandomUniform", [shape, *bounds], {"output_type": name, **seeds})
    random_numbers = [ov.Tensor(element, ov.Shape([len(rows), samples]))]
    assert ov.Model([ov.op.Result(node.output(0))], []).evaluate(random_numbers, [])
    random_numbers = random_numbers[0].data
    t = probs.dtype.type
    result = np.zeros((len(rows), samples), np.int64)
    for i, row in enumerate(rows):
        values = [t(np.exp(np.float64(p))) if attributes["log_probs"] else p for p in row]
        cdf = [values[0]]
        for value in values[1:]:
            cdf.append(t(cdf[-1] + value))
        cdf = [t(c / cdf[-1]) for c in cdf]
        for j in range(samples):
            k = next(k for k, c in enumerate(cdf) if random_numbers[i, j] <= c)
            result[i, j] = k
            if not attributes["with_replacement"]:
                share = t(cdf[k] - cdf[k - 1]) if k else cdf[0]
                cdf = [t((t(c - share) if m >= k else c) / t(t(1) - share)) for m, c in enumerate(cdf)]
    return result.reshape(*probs.shape[:-1], samples)


@register_cases("Multinomial", since=13)
def multinomial_13(rng):
    # Only the CPU plugin implements Multinomial, with other random numbers. It is compared with where they do not
    # matter. Elsewhere the expected values come from the algorithm of the reference implementation.
    for dtype, replace, logs, out in itertools.product(
        (np.float32, np.float16, np.float64), (True, False), (True, False), ("i32", "i64")
    ):
        attributes = {"convert_type": out, "with_replacement": replace, "log_probs": logs}
        attributes.update(global_seed=int(rng.integers(1, 2**40)), op_seed=int(rng.integers(0, 2**40)))
        for shape, samples in (((2, 5), 4), ((1, 3), 2), ((3, 40), 30)):
            probs = rng.normal(size=shape) if logs else rng.uniform(0.1, 1, shape)
            probs = probs.astype(dtype)
            expected = _compute_multinomial(probs, samples, attributes).astype(np.int32 if out == "i32" else np.int64)
            count = np.array([samples], np.int32 if out == "i32" else np.int64)
            yield Case([probs, count], attributes, constants=(1,), expected=[expected], faults=("plugin-multinomial",))
    for dtype, replace in itertools.product((np.float32, np.float16, BF16), (True, False)):
        attributes = {"convert_type": "i32", "with_replacement": replace, "log_probs": False}
        samples = np.array([5 if replace else 1], np.int32)
        # A random number of 0 always selects the first class, so without seeds only that class is certain.
        for classes, seeds in (([0, 0, 0, 0], {}), ([0, 5, 2, 3], {"global_seed": 3, "op_seed": 4})):
            probabilities = np.zeros((4, 6), dtype)
            probabilities[np.arange(4), classes] = 2
            yield Case([probabilities, samples], {**attributes, **seeds}, note="one class is certain")
    attributes = {"convert_type": "i64", "with_replacement": False, "log_probs": True, "global_seed": 5}
    probs = rng.normal(size=(3, 7)).astype(np.float32)
    yield Case(
        [probs, np.array([7])],
        attributes,
        normalize=lambda outputs: [np.sort(outputs[0], axis=1)],
        note="without replacement, all classes",
    )
