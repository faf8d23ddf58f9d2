"""Conformance cases for the matrix operations."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from irrun.conformance.cases import Case, register_cases

F32, F16, F64, BF16 = np.float32, np.float16, np.float64, ml_dtypes.bfloat16
SUMS = (1e-5, 1e-5)
#: Tolerances where an oracle computes in less than the type of the data.
LOOSE = {F16: (3e-3, 3e-3), BF16: (2e-2, 2e-2), F64: SUMS, F32: SUMS}


def sample_values(rng, shape, dtype=F32):
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return rng.integers(0 if kind == "u" else -9, 10, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


@register_cases("MatMul", since=1)
def mat_mul_1(rng):
    table = [  # shapes without transposition
        ((3, 4), (4, 5)),
        ((1, 1), (1, 1)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 3, 4), (1, 4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (1, 3, 4, 5)),
        ((2, 3, 3, 4), (3, 4, 1)),
        ((5, 1, 2, 1, 4), (1, 3, 1, 4, 2)),
    ]
    for i, (a, b) in enumerate(table):
        for transpose_a in (False, True):
            for transpose_b in (False, True):
                left, right = sample_values(rng, a), sample_values(rng, b)
                yield Case(
                    [
                        left.swapaxes(-1, -2) if transpose_a else left,
                        right.swapaxes(-1, -2) if transpose_b else right,
                    ],
                    {"transpose_a": transpose_a, "transpose_b": transpose_b},
                    constants=[1] if i % 3 == 1 else [],
                    dynamic=[0] if i % 4 == 2 else [],
                    tolerance=SUMS,
                )
    vectors = [((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((1,), (1,))]
    for a, b in vectors:
        yield Case([sample_values(rng, a), sample_values(rng, b)], {}, tolerance=SUMS)
    yield Case(
        [sample_values(rng, (4,)), sample_values(rng, (5, 4))],
        {"transpose_a": True, "transpose_b": True},
        tolerance=SUMS,
    )
    yield Case(
        [sample_values(rng, (4, 3)), sample_values(rng, (4,))],
        {"transpose_a": True, "transpose_b": True},
        tolerance=SUMS,
    )
    for dtype in (F16, BF16, F64, np.int32, np.int64, np.uint32, np.uint64):
        yield Case(
            [sample_values(rng, (2, 3, 4), dtype), sample_values(rng, (4, 5), dtype)], {}, tolerance=LOOSE.get(dtype)
        )
    for dtype in (np.int32, np.int64):
        big = np.iinfo(dtype).max // 3
        large = [(sample_values(rng, shape, dtype) * big).astype(dtype) for shape in ((3, 4), (4, 5))]
        yield Case(large, {}, faults=("plugin-integer-products",), note="integer overflow")
    yield Case([sample_values(rng, (3, 0)), sample_values(rng, (0, 5))], {}, note="empty sums")
    for a, b, product in [((2, 3, 0), (0, 5), (2, 3, 5)), ((2, 1, 3, 0), (4, 0, 5), (2, 4, 3, 5))]:
        inputs = [sample_values(rng, a), sample_values(rng, b)]
        yield Case(inputs, faults=("reference-mat-mul",), expected=[np.zeros(product, F32)])
    yield Case([sample_values(rng, (7, 300)), sample_values(rng, (300, 9))], {}, tolerance=(1e-5, 1e-4))


@register_cases("GroupedMatMul", since=17)
def grouped_mat_mul_17(rng):
    for rows, k, n, offsets in [
        (6, 4, 3, [2, 5, 6]),
        (6, 4, 3, [0, 6]),
        (6, 4, 3, [3, 3, 3, 6]),
        (5, 1, 2, [5]),
        (1, 2, 1, [0, 0, 1]),
        (12, 8, 5, [1, 2, 4, 8, 12]),
    ]:
        for index in (np.int32, np.int64):
            inputs = [sample_values(rng, (rows, k)), sample_values(rng, (len(offsets), n, k)), np.array(offsets, index)]
            yield make_grouped_case(inputs)
            yield Case(inputs, constants=[1, 2], dynamic=[0], tolerance=SUMS)
    for g, m, k, n in [(1, 2, 3, 4), (3, 2, 4, 5), (2, 1, 1, 1), (4, 5, 2, 3)]:
        yield make_grouped_case([sample_values(rng, (g, m, k)), sample_values(rng, (g, n, k))])
    for dtype in (F16, BF16, F64):
        inputs = [sample_values(rng, (6, 4), dtype), sample_values(rng, (2, 3, 4), dtype), np.array([2, 6])]
        yield make_grouped_case(inputs)
        yield make_grouped_case([sample_values(rng, (2, 3, 4), dtype), sample_values(rng, (2, 5, 4), dtype)])


def make_grouped_case(inputs):
    """Return a case of GroupedMatMul with the expected output computed row by row.

    OpenVINO supports only constant weights and offsets.
    """
    a, b, *offsets = inputs
    rows = a.reshape(-1, a.shape[-1])
    ends = offsets[0] if offsets else np.arange(1, len(a) + 1) * a.shape[1]
    group = np.searchsorted(ends, np.arange(len(rows)), side="right")
    expected = np.stack([b[g].astype(F64) @ row.astype(F64) for row, g in zip(rows, group, strict=True)])
    expected = expected.reshape(*a.shape[:-1], b.shape[1]).astype(a.dtype)
    return Case(inputs, expected=[expected], tolerance=LOOSE[a.dtype.type])


@register_cases("Einsum", since=7)
def einsum_7(rng):
    table: list[tuple[str, list[tuple[int, ...]]]] = [
        ("ab->ba", [(2, 3)]),
        ("ab->", [(2, 3)]),
        ("ab->a", [(2, 3)]),
        ("ba", [(2, 3)]),
        ("abc->cab", [(2, 3, 4)]),
        ("i,i->", [(4,), (4,)]),
        ("i,j->ij", [(3,), (4,)]),
        ("ab,bc->ac", [(2, 3), (3, 4)]),
        ("ab,cb->ca", [(2, 3), (4, 3)]),
        ("ab,ab->ab", [(2, 3), (2, 3)]),
        ("ab,ab->a", [(2, 3), (2, 3)]),
        ("ab,bc", [(2, 3), (3, 4)]),
        ("Ab,bC->CA", [(2, 3), (3, 4)]),
        ("abc,abd->acd", [(2, 3, 4), (2, 3, 5)]),
        ("abc,bd->adc", [(2, 3, 4), (3, 5)]),
        ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("bhqk,bhkd->bqhd", [(2, 2, 3, 5), (2, 2, 5, 4)]),
        ("bqhd,hdm->bqm", [(2, 3, 2, 4), (2, 4, 5)]),
        ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]),
        ("ab,cd,ef->", [(2, 3), (2, 2), (3, 1)]),
        ("a,ab,b->", [(2,), (2, 3), (3,)]),
        ("abc,cd,bd,a->d", [(2, 3, 4), (4, 2), (3, 2), (2,)]),
        ("aa->a", [(3, 3)]),
        ("aa->", [(3, 3)]),
        ("aab->ba", [(3, 3, 2)]),
        ("aba,bc->ac", [(3, 2, 3), (2, 4)]),
        ("abbac,bad->ad", [(2, 3, 3, 2, 4), (3, 2, 5)]),
        ("a...->...a", [(2, 3, 4)]),
        ("...->...", [(2, 3)]),
        ("...a,...a->...", [(2, 3, 4), (2, 3, 4)]),
        ("...ab,...bc->...ac", [(2, 3, 4), (2, 4, 5)]),
        ("...ab,...bc->...ac", [(5, 2, 3, 4), (2, 4, 5)]),
        ("...ab,...bc->...ac", [(2, 1, 3, 4), (1, 3, 4, 5)]),
        ("a...b,b...->a...", [(2, 3, 4), (4, 3)]),
        ("a...a->...a", [(2, 3, 4, 2)]),
        ("...ab,bc", [(2, 3, 4), (4, 5)]),
        ("abcd...,ecbd...->a...e", [(2, 2, 3, 2, 4), (5, 3, 2, 2, 4)]),
    ]
    for equation, shapes in table:
        yield Case([sample_values(rng, shape) for shape in shapes], {"equation": equation}, tolerance=SUMS)
    for dtype in (F16, BF16, F64, np.int32, np.int64):
        inputs = [sample_values(rng, (2, 3), dtype), sample_values(rng, (3, 4), dtype)]
        yield Case(inputs, {"equation": "ab,bc->ac"}, tolerance=LOOSE.get(dtype))


@register_cases("Inverse", since=14)
def inverse_14(rng):
    for shape in [(1, 1), (2, 2), (3, 3), (5, 5), (2, 3, 3), (2, 2, 4, 4), (3, 1, 1), (1, 2, 1, 3, 3)]:
        for adjoint in (False, True):
            data = sample_values(rng, shape) + 3 * np.eye(shape[-1], dtype=F32)
            yield Case([data], {"adjoint": adjoint}, tolerance=(1e-5, 1e-5))
    swapped = np.array([[0, 2, 1], [1, 0, 0], [3, 0, 1]], F32)  # requires pivoting, with both values of adjoint
    for adjoint in (False, True):
        yield Case([np.stack([swapped, swapped[::-1]])], {"adjoint": adjoint}, tolerance=(1e-5, 1e-5))
    singular = np.array([[1, 2], [2, 4]], F32)
    yield Case([singular], {"adjoint": False}, note="singular")
    yield Case([np.zeros((2, 3, 3), F32)], {"adjoint": True}, note="zeros")
    for dtype in (F16, BF16, F64):
        data = (sample_values(rng, (2, 3, 3)) + 4 * np.eye(3)).astype(dtype)
        yield Case([data], {"adjoint": False}, tolerance={F64: (1e-5, 1e-6)}.get(dtype, LOOSE[dtype]))
