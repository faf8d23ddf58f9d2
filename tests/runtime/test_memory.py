"""Estimates of the memory of results before they are computed."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.limits import MAX_UNCOUNTED, MemoryBudget, MemoryLimitError
from irrun.runtime.memory import estimate_result


def compile_layer(folder, operation, data, inputs):
    """Compile a model of one layer without rewrites; an input is (element type, shape)."""
    type, _, version = operation.partition("-")
    layers, edges = [], []
    for i, (element_type, shape) in enumerate(inputs):
        attributes = f'shape="{",".join(map(str, shape))}" element_type="{element_type}"'
        layers.append(layer(i, "Parameter", data=attributes, outputs=[port(0, shape)]))
        edges.append((i, 0, 100, i))
    ports = [port(i, shape) for i, (_, shape) in enumerate(inputs)]
    layers.append(layer(100, type, f"opset{version}", data, ports, [port(100)], name="layer"))
    layers.append(layer(101, "Result", inputs=[port(0)]))
    return irrun.compile_model(write(folder, net(layers, [*edges, (100, 100, 101, 0)])), optimize=False)


def draw(element_type, shape):
    dtype = ELEMENT_TYPES[element_type].dtype
    return np.ones(shape, dtype)


def f32(*shapes):
    return [("f32", shape) for shape in shapes]


@pytest.mark.parametrize(
    ("operation", "data", "inputs"),
    [
        ("MatMul-1", "", f32((2, 3), (3, 4))),
        ("MatMul-1", 'transpose_a="true"', f32((3, 2), (3, 4))),
        ("MatMul-1", 'transpose_b="true"', f32((2, 3), (4, 3))),
        ("MatMul-1", "", f32((5, 1, 2, 3), (6, 3, 4))),
        ("MatMul-1", "", f32((3,), (7, 3, 4))),
        ("MatMul-1", "", f32((7, 2, 3), (3,))),
        ("MatMul-1", "", [("f64", (2, 3)), ("f64", (3, 4))]),
        ("Einsum-7", 'equation="ij,jk->ik"', f32((2, 3), (3, 4))),
        ("Einsum-7", 'equation="i j , j k -> k i j"', f32((2, 3), (3, 4))),
        ("Einsum-7", 'equation="b...i,i->b..."', f32((2, 5, 6, 3), (3,))),
        ("Einsum-7", 'equation="...ij,...jk->...ik"', f32((1, 5, 2, 3), (5, 3, 4))),
        ("Einsum-7", 'equation="ij->ji"', f32((2, 3))),
        ("Add-1", "", f32((2, 1, 3), (4, 1))),
        ("Add-1", "", [("i64", (2, 3)), ("i64", ())]),
        ("Relu-1", "", f32((2, 3))),
        ("Less-1", "", f32((2, 3), (3,))),
        ("GreaterEqual-1", "", f32((2, 3), (3,))),
        ("Convert-1", 'destination_type="f64"', f32((2, 3))),
        ("Convert-1", 'destination_type="u8"', f32((2, 3))),
        ("Concat-1", 'axis="0"', f32((2, 3), (4, 3))),
    ],
)
def test_estimate_is_the_size_of_the_result(operation, data, inputs, tmp_path):
    compiled = compile_layer(tmp_path, operation, data, inputs)
    arrays = [draw(*entry) for entry in inputs]
    (instruction,) = compiled._program.instructions
    result = compiled(arrays)[0]
    assert estimate_result(instruction, arrays) == result.nbytes


def test_estimate_of_low_precision_covers_the_computation_in_f32(tmp_path):
    inputs = [("f16", (2, 3)), ("f16", (3,))]
    instructions = compile_layer(tmp_path, "Add-1", "", inputs)._program.instructions
    (instruction,) = (i for i in instructions if i.operation.type == "Add")
    assert estimate_result(instruction, [draw(*entry) for entry in inputs]) == 24


def test_views_and_operations_that_check_themselves_have_no_estimate(tmp_path):
    for operation, data, inputs in (
        ("Reshape-1", 'special_zero="false"', [("f32", (2, 3)), ("i64", (2,))]),
        ("Convolution-1", 'strides="1" pads_begin="0" pads_end="0" dilations="1"', f32((1, 1, 4), (1, 1, 2))),
    ):
        (instruction,) = compile_layer(tmp_path, operation, data, inputs)._program.instructions
        assert estimate_result(instruction, [draw(*entry) for entry in inputs]) == 0
        assert estimate_result(instruction, [None]) == 0


@pytest.mark.parametrize(
    ("operation", "data", "shapes"),
    [
        ("Add-1", "", [(4096, 1), (1, 4096)]),
        ("MatMul-1", "", [(4096, 1), (1, 4096)]),
        ("Einsum-7", 'equation="i,j->ij"', [(4096,), (4096,)]),
    ],
)
@pytest.mark.parametrize("optimize", [False, True])
def test_result_that_exceeds_the_memory_is_refused_before_it_is_computed(operation, data, shapes, optimize, tmp_path):
    compile_layer(tmp_path, operation, data, f32(*shapes))
    compiled = irrun.compile_model(tmp_path / "model.xml", memory="48M", optimize=optimize)
    arrays = [draw("f32", shape) for shape in shapes]
    with pytest.raises(MemoryLimitError, match=re.escape("expected at most 48 MiB")):
        compiled(arrays)
    result = irrun.compile_model(tmp_path / "model.xml", memory="65M", optimize=optimize)(arrays)[0]
    assert (result.shape, ElementType.of(result.dtype).name) == ((4096, 4096), "f32")


@pytest.fixture
def checked_operations(monkeypatch):
    """Return a list that collects the types of operations whose results are estimated before they are computed."""
    types = []

    def record(instruction, inputs):
        types.append(instruction.operation.type)
        return estimate_result(instruction, inputs)

    monkeypatch.setattr("irrun.runtime.memory.estimate_result", record)
    return types


def test_large_results_are_checked_in_every_run(monkeypatch, tmp_path):
    """What is left of the memory depends on the other values, which may be larger in the next run."""
    sizes = []
    monkeypatch.setattr(MemoryBudget, "check", lambda budget, size: sizes.append(size))
    shapes = [(4096, 1), (1, 4097)]
    compiled = compile_layer(tmp_path, "Add-1", "", f32(*shapes))
    request = compiled.create_infer_request()
    for count in (1, 2):
        request.infer([draw("f32", shape) for shape in shapes])
        assert [size for size in sizes if size] == [4 * 4096 * 4097] * count


def test_results_after_a_large_one_are_checked_before_they_are_computed(checked_operations, tmp_path):
    shape = (2100, 2048)
    layers = [
        layer(0, "Parameter", data='shape="1,2048" element_type="f32"', outputs=[port(0, (1, 2048))]),
        layer(1, "Parameter", data='shape="2" element_type="i64"', outputs=[port(0, (2,))]),
        layer(2, "Tile", inputs=[port(0, (1, 2048)), port(1, (2,))], outputs=[port(2)]),
        layer(3, "Sqrt", inputs=[port(0)], outputs=[port(1)]),
        layer(4, "Sin", inputs=[port(0)], outputs=[port(1)]),
        layer(5, "Result", inputs=[port(0)]),
    ]
    text = net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0), (3, 1, 4, 0), (4, 1, 5, 0)])
    compiled = irrun.compile_model(write(tmp_path, text), optimize=False)
    result = compiled([draw("f32", (1, 2048)), np.array([2100, 1])])[0]
    assert checked_operations == ["Sqrt", "Sin"]
    np.testing.assert_allclose(result, np.full(shape, np.sin(1)), rtol=1e-6)


@pytest.mark.parametrize("timeout", [None, 1e6])
def test_results_after_large_results_of_one_layer_are_checked_before_they_are_computed(
    timeout, checked_operations, tmp_path
):
    def enlarge(data):
        return data, np.ones((2100, 2048), np.float32)

    layers = [
        layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,))]),
        layer(1, "Enlarge", "extension", inputs=[port(0, (2,))], outputs=[port(1), port(2)]),
        layer(2, "Sqrt", inputs=[port(0)], outputs=[port(1)]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 2, 2, 0), (2, 1, 3, 0)]))
    operation = irrun.Operation.from_function(enlarge, "Enlarge", opset="extension")
    compiled = irrun.compile_model(path, operations=[operation], optimize=False)
    assert compiled(draw("f32", (2,)), timeout=timeout)[0].shape == (2100, 2048)
    assert checked_operations == ["Sqrt"]


def test_results_of_large_inputs_are_checked_before_they_are_computed(checked_operations, tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="?,2048" element_type="f32"', outputs=[port(0, (-1, 2048))]),
        layer(1, "Sqrt", inputs=[port(0)], outputs=[port(1)]),
        layer(2, "Sin", inputs=[port(0)], outputs=[port(1)]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    text = net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0)])
    compiled = irrun.compile_model(write(tmp_path, text), optimize=False)
    request = compiled.create_infer_request()
    for rows, expected in ((2048, []), (2100, ["Sqrt", "Sin"]), (4, []), (2100, ["Sqrt", "Sin"])):
        checked_operations.clear()
        request.infer([draw("f32", (rows, 2048))])
        assert checked_operations == expected


def test_constants_without_elements_may_not_have_large_dimensions(tmp_path):
    for size in (3, 1 << 40):
        data = f'element_type="f32" shape="0,{size}" offset="0" size="0"'
        constant = layer(0, "Const", data=data, outputs=[port(0, (0, size), "FP32")])
        path = write(tmp_path, net([constant, layer(1, "Result", inputs=[port(0, (0, size))])], [(0, 0, 1, 0)]))
        if size == 3:
            assert irrun.compile_model(path)()[0].shape == (0, 3)
        else:
            with pytest.raises(MemoryLimitError, match="has no elements"):
                irrun.compile_model(path)


def test_sizes_of_the_outputs_are_reported_if_they_cannot_be_copied(monkeypatch, tmp_path):
    compiled = irrun.compile_model(write(tmp_path, chain()))

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("irrun.runtime.request._is_private", fail)
    with pytest.raises(irrun.ExecutionError, match=r"out of memory; sizes of the outputs in bytes: .*f32\[2,3\]: 24"):
        compiled(np.zeros((2, 3), np.float32))


def test_copies_of_shared_results_are_refused_before_they_are_made(tmp_path):
    size = 1 << 20
    layers = [
        layer(0, "Parameter", data=f'element_type="f32" shape="{size}"', outputs=[port(0, (size,), "FP32")]),
        *[layer(i, "Result", inputs=[port(0, (size,))]) for i in (1, 2, 3)],
    ]
    path = write(tmp_path, net(layers, [(0, 0, i, 0) for i in (1, 2, 3)]))
    x = np.zeros(size, np.float32)
    assert len(irrun.compile_model(path, memory=12 << 20)(x)) == 3
    with pytest.raises(irrun.InputError, match="would take 12 MiB, 8 MiB of which are in use"):
        irrun.compile_model(path, memory=11 << 20)(x)


def test_views_that_alone_refer_to_their_memory_are_not_copied(tmp_path):
    shape = (512, 512)
    compiled = irrun.compile_model(write(tmp_path, chain("Acos", shape=shape)), optimize=False)  # of flat blocks
    x = np.full(shape, 0.5, np.float32)
    (result,) = compiled(x).values()
    assert not result.flags.owndata
    assert result.base.nbytes == result.nbytes
    result[:] = 1
    assert np.allclose(compiled(x)[0], np.pi / 3)


def test_views_of_the_same_memory_are_copied(tmp_path):
    def double(x):
        doubled = (x * 2).reshape(-1)
        return doubled.reshape(x.shape), doubled.reshape(x.shape), doubled[:1]

    twice = irrun.Operation.from_function(double, "Twice", opset="test")
    layers = [
        layer(0, "Parameter", data='element_type="f32" shape="2,3"', outputs=[port(0, (2, 3), "FP32")]),
        layer(1, "Twice", "test", "", [port(0, (2, 3))], [port(1, (2, 3)), port(2, (2, 3)), port(3, (1,))]),
        *[layer(i, "Result", inputs=[port(0)]) for i in (2, 3, 4)],
    ]
    path = write(tmp_path, net(layers, [(0, 0, 1, 0), *[(1, i - 1, i, 0) for i in (2, 3, 4)]]))
    results = list(irrun.compile_model(path, operations=[twice])(np.ones((2, 3), np.float32)).values())
    for i, result in enumerate(results):
        result[:] = -i
    assert [result.flat[0] for result in results] == [0, -1, -2]


def write_lookup(folder, numbers):
    """Write a model that looks up two rows of numbers[:12], [4, 3], and multiplies them by the others, [3, 4]."""
    constant = 'element_type="f32" shape="{}" offset="{}" size="48"'
    layers = [
        layer(0, "Parameter", data='element_type="i64" shape="2"', outputs=[port(0, (2,), "I64")]),
        layer(1, "Const", data=constant.format("4,3", 0), outputs=[port(0, (4, 3), "FP32")]),
        layer(2, "Const", data='element_type="i64" shape="" offset="96" size="8"', outputs=[port(0, (), "I64")]),
        layer(3, "Gather", "opset8", 'batch_dims="0"', [port(i) for i in range(3)], [port(3, (2, 3), "FP32")]),
        layer(4, "Const", data=constant.format("3,4", 48), outputs=[port(0, (3, 4), "FP32")]),
        layer(5, "MatMul", "opset1", "", [port(0, (2, 3)), port(1, (3, 4))], [port(2, (2, 4), "FP32")]),
        layer(6, "Result", inputs=[port(0, (2, 4))]),
    ]
    edges = [(1, 0, 3, 0), (0, 0, 3, 1), (2, 0, 3, 2), (3, 3, 5, 0), (4, 0, 5, 1), (5, 2, 6, 0)]
    return write(folder, net(layers, edges), numbers.tobytes() + bytes(8))


def test_first_run_maps_the_weights_that_are_read_as_a_whole(tmp_path, monkeypatch):
    numbers = np.arange(24, dtype=np.float32)
    path = write_lookup(tmp_path, numbers)
    calls = []
    monkeypatch.setattr("irrun.ir.weights.Weights.prefetch", lambda _, arrays: calls.append(arrays))
    compiled = irrun.compile_model(path, jit=False)
    assert not calls
    for _ in range(2):
        result = compiled(np.array([1, 3]))[0]
        np.testing.assert_array_equal(result, numbers[:12].reshape(4, 3)[[1, 3]] @ numbers[12:].reshape(3, 4))
    ((weights,),) = calls
    np.testing.assert_array_equal(weights, numbers[12:].reshape(3, 4))


def test_compiled_kernels_map_no_weights(tmp_path, monkeypatch):
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path / "cache"))
    calls = []
    monkeypatch.setattr("irrun.ir.weights.Weights.prefetch", lambda _, arrays: calls.append(arrays))
    compiled = irrun.compile_model(write_lookup(tmp_path, np.arange(24, dtype=np.float32)), jit=True)
    for _ in range(2):
        compiled(np.array([1, 3]))
    assert not calls


@pytest.mark.parametrize(
    ("operation", "data", "shapes"),
    [
        ("MatMul-1", "", [(5000, 0), (0, 5000)]),
        ("Einsum-7", 'equation="ij,jk,kl->il"', [(5000, 0), (0, 3), (3, 5000)]),
    ],
)
def test_products_of_empty_matrices_are_refused_before_they_are_computed(operation, data, shapes, tmp_path):
    compile_layer(tmp_path, operation, data, f32(*shapes))
    arrays = [draw("f32", shape) for shape in shapes]
    with pytest.raises(MemoryLimitError, match=re.escape("expected at most 48 MiB")):
        irrun.compile_model(tmp_path / "model.xml", memory="48M")(arrays)
    small = [x[tuple(slice(7) for _ in x.shape)] for x in arrays]
    compiled = compile_layer(tmp_path, operation, data, f32(*(x.shape for x in small)))
    np.testing.assert_array_equal(compiled(small)[0], np.zeros((7, 7)))


def compile_with_constant(folder, type, data, constant, *shapes, constant_position=1):
    """Compile a model of one layer with parameters of some shapes and a constant."""
    value = np.ones(constant, np.float32)
    attributes = f'element_type="f32" shape="{",".join(map(str, constant))}" offset="0" size="{value.nbytes}"'
    layers = [layer(50, "Const", data=attributes, outputs=[port(0, constant, "FP32")])]
    positions = [i for i in range(len(shapes) + 1) if i != constant_position]
    edges = [(50, 0, 60, constant_position)]
    for i, (position, shape) in enumerate(zip(positions, shapes, strict=True)):
        attributes = (
            f'shape="{",".join("?" * len(shape))}" element_type="{"boolean" if type == "Select" and i == 0 else "f32"}"'
        )
        layers.append(layer(i, "Parameter", data=attributes, outputs=[port(0, "?" * len(shape))], name=str(i)))
        edges.append((i, 0, 60, position))
    ports = [port(i) for i in range(len(shapes) + 1)]
    layers.append(layer(60, type, "opset1", data, ports, [port(9)]))
    layers.append(layer(61, "Result", inputs=[port(0)]))
    return irrun.compile_model(write(folder, net(layers, [*edges, (60, 9, 61, 0)]), value), optimize=False)


@pytest.mark.parametrize(
    ("type", "constant", "shapes", "is_checked"),
    [
        ("Add", (1, 4096), [(4096, 1)], False),
        ("Add", (1, 4096), [(4097, 1)], True),
        ("Add", (64, 1, 1), [(1 << 18, 1)], False),
        ("Add", (65, 1, 1), [(1 << 18, 1)], True),
        ("MatMul", (1, 4096), [(4096, 1)], False),
        ("MatMul", (1, 4097), [(4096, 1)], True),
        ("Select", (2, 1, 1), [(2048, 1), (1, 4096)], False),
        ("Select", (2, 1, 1), [(2049, 1), (1, 4096)], True),
        ("Select", (1,), [(4096, 1), (1, 4096)], False),
        ("Select", (1,), [(4096, 1), (1, 4097)], True),
        ("Concat", (2, 1), [(3000, 1)], False),  # is no larger than its inputs
    ],
)
def test_results_that_may_exceed_all_inputs_are_checked(
    type, constant, shapes, is_checked, checked_operations, tmp_path
):
    position = {"Select": 2}.get(type, 1)
    data = 'axis="0"' if type == "Concat" else ""
    compiled = compile_with_constant(tmp_path, type, data, constant, *shapes, constant_position=position)
    arrays = [draw("boolean" if type == "Select" and i == 0 else "f32", shape) for i, shape in enumerate(shapes)]
    compiled(arrays)
    assert checked_operations == [type] * is_checked


def test_results_of_large_constants_are_checked_once_for_each_shape(checked_operations, tmp_path):
    """Their products are small, so they need not be checked again."""
    compiled = compile_with_constant(tmp_path, "MatMul", 'transpose_b="true"', (2, 2100 * 1024), (1, 2100 * 1024))
    request = compiled.create_infer_request()
    for rows, count in ((1, 1), (1, 1), (1, 1)):
        request.infer(np.ones((rows, 2100 * 1024), np.float32))
        assert len(checked_operations) == count
    request.infer(np.ones((1, 1, 2100 * 1024), np.float32)[0])
    assert len(checked_operations) == 1


def test_large_constants_are_checked_for_small_inputs(checked_operations, tmp_path):
    constant = (4200, 1024)
    compiled = compile_with_constant(tmp_path, "Concat", 'axis="0"', constant, (1, 1024))
    for rows, count in ((1, 1), (2, 3)):  # after a growth, a bound of the shape and the shape
        compiled(np.ones((rows, 1024), np.float32))
        assert checked_operations == ["Concat"] * count


@pytest.mark.parametrize("observers", [[], [lambda *_: None]])
def test_values_that_are_alive_at_the_same_time_are_counted(observers, tmp_path):
    """Five values of 4 MiB, which are all results."""
    shape = (1024, 1024)
    layers = [layer(0, "Parameter", data='shape="1024,1024" element_type="f32"', outputs=[port(0, shape, "FP32")])]
    edges = []
    for i, type in enumerate(["Negative", "Exp", "Abs", "Tanh", "Sqrt"]):
        layers.append(layer(1 + i, type, inputs=[port(0, shape)], outputs=[port(1, shape, "FP32")]))
        layers.append(layer(10 + i, "Result", inputs=[port(0, shape)]))
        edges += [(0, 0, 1 + i, 0), (1 + i, 1, 10 + i, 0)]
    path = write(tmp_path, net(layers, edges))
    x = np.ones(shape, np.float32)
    assert len(irrun.compile_model(path, memory="21M").create_infer_request().infer(x, observers=observers)) == 5
    with pytest.raises(MemoryLimitError, match=re.escape("expected at most 18 MiB")) as caught:
        irrun.compile_model(path, memory="18M").create_infer_request().infer(x, observers=observers)
    assert "Sqrt" in caught.value.layer or "Tanh" in caught.value.layer


def test_products_that_do_not_fit_have_no_estimate(tmp_path):
    (instruction,) = compile_layer(tmp_path, "MatMul-1", "", f32((2, 2, 3), (2, 3, 4)))._program.instructions
    assert estimate_result(instruction, [draw("f32", shape) for shape in ((2, 2, 3), (3, 3, 4))]) == 0
    assert estimate_result(instruction, [draw("f32", (2, 3)), None]) == 0
    assert estimate_result(instruction, [draw("f32", ()), draw("f32", (3, 4))]) == 0
    assert estimate_result(instruction, []) == 0


def test_mismatching_declared_types_are_reported(tmp_path):
    text = chain("Relu", "Abs").replace('precision="FP32"><dim>2', 'precision="I32"><dim>2', 2)
    text = text.replace('precision="I32"', 'precision="FP32"', 1)
    request = irrun.compile_model(write(tmp_path, text), check=True).create_infer_request()
    request.infer(np.ones((2, 3), np.float32))
    assert [str(m) for m in request.mismatches] == [
        "layer 2 'layer2' (Abs, opset1), output 0: declared i32[2,3], actual f32[2,3]"
    ]


LARGEST_UNCOUNTED = MAX_UNCOUNTED // (64 * 4)  # rows of 128 elements, of which each part has half


@pytest.mark.parametrize("rows", [0, 2, LARGEST_UNCOUNTED, LARGEST_UNCOUNTED + 2])
def test_only_empty_and_large_values_are_counted(rows, tmp_path, monkeypatch):
    """Small values of a program with few instructions take too little memory to be counted, which takes time."""
    counted = []
    add = MemoryBudget.add

    def count(self, value):
        counted.append(value.shape)
        add(self, value)

    monkeypatch.setattr(MemoryBudget, "add", count)
    axis = 'element_type="i64" shape="" offset="0" size="8"'
    shape = (rows, 128)
    layers = [
        layer(0, "Parameter", data=f'shape="{rows},128" element_type="f32"', outputs=[port(0, shape, "FP32")]),
        layer(1, "Const", data=axis, outputs=[port(0, (), "I64")]),
        layer(2, "Split", data='num_splits="2"', inputs=[port(0), port(1)],
              outputs=[port(2, (rows // 2, 128), "FP32"), port(3, (rows // 2, 128), "FP32")]),
        layer(3, "Exp", inputs=[port(0)], outputs=[port(1, (rows // 2, 128), "FP32")]),
        layer(4, "Result", inputs=[port(0)]),
        layer(5, "Result", inputs=[port(0)]),
    ]  # fmt: skip
    edges = [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0), (3, 1, 4, 0), (2, 3, 5, 0)]
    compiled = irrun.compile_model(write(tmp_path, net(layers, edges), bytes(8)), optimize=False)
    compiled(np.ones(shape, np.float32))
    part = (rows // 2, 128)
    assert counted == ([] if 0 < rows <= LARGEST_UNCOUNTED else [part, part, part])
