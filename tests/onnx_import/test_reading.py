"""Reading of ONNX models: files, names, bodies, functions, errors, and the interfaces that accept them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import call

import irrun
from irrun.onnx_import.rules import contrib

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples"
F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def make_model(
    nodes: Sequence[Any],
    inputs: dict[str, tuple[int, Any]],
    outputs: dict[str, tuple[int, Any]],
    weights: dict[str, Any] | None = None,
    opset: int = 18,
    functions: Sequence[Any] = (),
    domains: Sequence[str] = (),
) -> Any:
    """Return a ModelProto; inputs and outputs are pairs of type and shape."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, *info) for name, info in inputs.items()],
        [helper.make_tensor_value_info(name, *info) for name, info in outputs.items()],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (weights or {}).items()],
    )
    imports = [helper.make_opsetid(domain, 1) for domain in domains]
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), *imports], functions=functions, ir_version=10
    )


def read(model: Any) -> irrun.Model:
    return irrun.read_model(model.SerializeToString())


def compare_with_onnxruntime(model: Any, inputs: dict[str, Any], tolerance: float = 1e-5) -> None:
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)
    compiled = irrun.compile_model(read(model))
    outputs = compiled(inputs)
    assert [spec.names[0] for spec in compiled.outputs] == [info.name for info in model.graph.output]
    for i, value in enumerate(expected):
        assert outputs[i].dtype == value.dtype
        np.testing.assert_allclose(outputs[i], value, tolerance, tolerance)


def make_network() -> Any:
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "weights", "bias"], ["convolved"], pads=[1, 1, 1, 1], name="conv1"),
        helper.make_node("Relu", ["convolved"], ["activated"], name="relu1"),
        helper.make_node("GlobalAveragePool", ["activated"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "matrix"], ["y"], transB=1),
    ]
    weights = {
        "weights": rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "bias": rng.normal(size=4).astype(np.float32),
        "matrix": rng.normal(size=(5, 4)).astype(np.float32),
    }
    return make_model(nodes, {"x": (F32, ["N", 3, 8, 8])}, {"y": (F32, ["N", 5])}, weights)


@pytest.fixture
def image() -> Any:
    return np.random.default_rng(1).normal(size=(2, 3, 8, 8)).astype(np.float32)


def test_networks_agree_with_onnxruntime(image):
    compare_with_onnxruntime(make_network(), {"x": image})


@pytest.mark.parametrize("name", ["date_translation", "text_generation"])
def test_exported_examples_agree_with_onnxruntime(name, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    path = tmp_path / "model.onnx"
    irrun.export_onnx(EXAMPLES / name / "model.xml", path)
    model = irrun.read_model(path)
    inputs: dict[str, Any] = {str(k): v for k, v in irrun.load_inputs(["random"], model, seed=0).items()}
    expected = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)
    outputs = irrun.compile_model(model)(inputs)
    assert len(model.outputs) == len(expected)
    for i, value in enumerate(expected):
        np.testing.assert_allclose(outputs[i], value, 1e-4, 1e-4)


def test_names_are_kept():
    model = read(make_network())
    assert [str(spec) for spec in (*model.inputs, *model.outputs)] == ["x: f32[?,3,8,8]", "y: f32[?,5]"]
    tensors = {name for layer in model.graph.layers for port in layer.outputs for name in port.names}
    assert {"x", "convolved", "activated", "pooled", "flat", "y", "weights"} <= tensors
    names = [layer.name for layer in model.graph.layers]
    assert "conv1/Convolution" in names
    assert "conv1" in names
    assert "relu1" in names
    assert len(set(names)) == len(names)


def test_converted_files_agree_in_openvino(tmp_path, image):
    ov = pytest.importorskip("openvino")
    path = tmp_path / "model.onnx"
    onnx.save(make_network(), path)
    model = irrun.read_model(path)
    assert model.path == path
    irrun.save_model(model, tmp_path / "model.xml")
    core = ov.Core()
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    expected = core.compile_model(tmp_path / "model.xml", "CPU")(image)[0]
    np.testing.assert_allclose(irrun.run(path, image)[0], expected, 1e-5, 1e-5)
    np.testing.assert_allclose(irrun.run(tmp_path / "model.xml", image)[0], expected, 1e-5, 1e-5)


def test_the_drop_in_reads_and_converts(tmp_path, image):
    import irrun.openvino as ov

    path = tmp_path / "model.onnx"
    onnx.save(make_network(), path)
    expected = irrun.run(path, image)[0]
    manager = ov.frontend.FrontEndManager()
    front_end = manager.load_by_model(path)
    assert front_end.get_name() == "onnx"
    models = [ov.Core().read_model(path), ov.convert_model(path), ov.convert_model(make_network())]
    for model in (*models, front_end.convert(front_end.load(path))):
        assert np.array_equal(ov.compile_model(model, "CPU")(image)[0], expected)
    ov.save_model(ov.convert_model(path), tmp_path / "model.xml", compress_to_fp16=False)
    assert np.array_equal(irrun.run(tmp_path / "model.xml", image)[0], expected)
    assert list(ov.convert_model(path, input=[2, 3, 8, 8]).output(0).shape) == [2, 5]
    assert list(ov.convert_model(path, input={"x": [1, 3, 4, 4]}).input(0).shape) == [1, 3, 4, 4]
    with pytest.raises(RuntimeError, match="example_input is for PyTorch modules only"):
        ov.convert_model(path, example_input=image)


def test_commands_accept_onnx_models(tmp_path, capsys):
    path = tmp_path / "model.onnx"
    onnx.save(make_network(), path)
    code, out, _ = call(capsys, "info", path)
    assert code == 0
    assert "Convolution-1" in out
    code, out, _ = call(capsys, "run", path, "-i", "ones", "--shape", "x=1,3,8,8")
    assert code == 0
    assert "[1,5]" in out
    assert call(capsys, "validate", path)[0] == 0


# -- files


def save_external(path: Path, location: str) -> None:
    model = make_network()
    onnx.save(model, path, save_as_external_data=True, location="weights.data", size_threshold=0)
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        next(e for e in tensor.external_data if e.key == "location").value = location
    path.write_bytes(model.SerializeToString())


def test_weights_in_other_files(tmp_path, image):
    path = tmp_path / "model.onnx"
    save_external(path, "weights.data")
    expected = irrun.compile_model(read(make_network()))(image)[0]
    assert np.array_equal(irrun.run(path, image)[0], expected)
    irrun.save_model(irrun.read_model(path), tmp_path / "model.xml")
    assert np.array_equal(irrun.run(tmp_path / "model.xml", image)[0], expected)


def test_other_files_must_be_in_the_folder_of_the_model(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(10_000))
    (folder / "link").symlink_to(secret)
    (folder / "inside").write_bytes(bytes(10_000))
    path = folder / "model.onnx"
    for location in ("../secret", str(secret), "link", "", "a/../../secret", str(folder / "inside")):
        save_external(path, location)
        with pytest.raises(
            irrun.ModelError, match=r"model\.onnx: tensor 'weights' is in the file .*, expected a file in the folder"
        ):
            irrun.read_model(path)
    save_external(path, "missing")
    with pytest.raises(irrun.ModelError, match=r"the file .*missing does not exist"):
        irrun.read_model(path)
    with pytest.raises(irrun.ModelError, match="expected a model that was read from a file"):
        irrun.read_model(path.read_bytes())


def test_files_that_are_not_models(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x0a\x12\x07pytorch")
    with pytest.raises(irrun.ModelError, match=r"model\.onnx: expected an ONNX model with a graph"):
        irrun.read_model(path)
    path.write_bytes(b"\x08\x0a\xff\xff\xff")
    with pytest.raises(irrun.ModelError, match="not a valid ONNX model"):
        irrun.read_model(path)
    with pytest.raises(irrun.ModelError, match="separate weights are not accepted"):
        irrun.read_model(path, b"1")
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(irrun.ModelError, match="Git LFS pointer"):
        irrun.read_model(path)
    with pytest.raises(irrun.ModelError, match="cannot read the model"):
        irrun.read_model(tmp_path / "other.onnx")
    onnx.save(make_network(), path)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(irrun.ModelError, match=r"pip install 'irrun\[onnx\]'"):
        irrun.read_model(path)


# -- errors


def test_all_nodes_that_cannot_be_expressed_are_named():
    nodes = [
        helper.make_node("Det", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="after"),
        helper.make_node("Mystery", ["x"], ["c"], name="second", domain="custom"),
        helper.make_node("Concat", ["b", "c"], ["y"], axis=0, name="last"),
    ]
    model = make_model(nodes, {"x": (F32, [2, 2])}, {"y": (F32, None)}, domains=["custom"])
    with pytest.raises(irrun.UnsupportedError) as caught:
        read(model)
    assert caught.value.message == (
        "2 nodes cannot be expressed in OpenVINO's operations: "
        "node 'first' (Det): the operator Det of version 18 is not supported; "
        "node 'second' (custom:Mystery): the operator custom:Mystery of version 1 is not supported"
    )


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (("Concat", ["x", "x"], {}), "the attribute axis is missing, expected an integer"),
        (("Softmax", ["x"], {"axis": 1.5}), "the attribute axis is 1.5, expected an integer"),
        (("Add", ["x"], {}), "input 1 is missing"),
        (("Add", ["x", "nothing"], {}), "there is no value 'nothing'"),
        (("Flatten", ["x"], {"axis": 7}), "the axis is 7, out of range for rank 2"),
        (("MatMul", ["x", "x"], {}), "MatMul: "),
        (("Pad", ["x", "pads"], {"mode": "mirror"}), "the attribute mode is 'mirror'"),
        (("Cast", ["x"], {"to": TensorProto.COMPLEX64}), "does not have ONNX's element type COMPLEX64"),
        (("Gather", ["x", "list"], {}), "input 1 is a sequence, expected a tensor"),
    ],
)
def test_errors_name_the_node(node, message):
    operator, inputs, attributes = node
    nodes = [
        helper.make_node("SequenceConstruct", ["x"], ["list"]),
        helper.make_node(operator, inputs, ["y"], name="wrong", **attributes),
    ]
    model = make_model(nodes, {"x": (F32, [2, 3])}, {"y": (F32, None)}, {"pads": np.zeros(4, np.int64)})
    with pytest.raises(irrun.UnsupportedError, match=rf"node 'wrong' \({operator}\): .*") as caught:
        read(model)
    assert message in str(caught.value)


@pytest.mark.parametrize("operator", ["Hardmax", "LogSoftmax", "Softmax"])
def test_axes_before_opset_13_are_axes_of_the_input(operator):
    node = helper.make_node(operator, ["x"], ["y"], axis=2)
    with pytest.raises(irrun.UnsupportedError, match="the axis is 2, out of range for rank 2"):
        read(make_model([node], {"x": (F32, [2, 3])}, {"y": (F32, None)}, opset=12))


def test_invalid_tensors():
    model = make_network()
    model.graph.initializer[0].raw_data = b"1234"
    with pytest.raises(irrun.ModelError, match=r"tensor 'weights' has 4 bytes, expected 432 for f32\[4, 3, 3, 3\]"):
        read(model)
    model.graph.initializer[0].dims[0] = -1
    with pytest.raises(irrun.ModelError, match="expected non-negative dimensions"):
        read(model)


def test_functions_that_call_themselves():
    call = helper.make_node("Again", ["x"], ["y"], domain="own")
    function = helper.make_function("own", "Again", ["x"], ["y"], [call], [helper.make_opsetid("own", 1)])
    model = make_model([call], {"x": (F32, [2])}, {"y": (F32, [2])}, functions=[function], domains=["own"])
    with pytest.raises(irrun.UnsupportedError, match="functions call each other more than 64 levels deep"):
        read(model)


def test_functions_that_grow_without_bounds(monkeypatch):
    monkeypatch.setattr("irrun.onnx_import.importer.MAX_NODES", 1000)
    imports = [helper.make_opsetid("own", 1), helper.make_opsetid("", 18)]
    functions = [helper.make_function("own", "F0", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], imports)]
    for i in range(1, 40):
        nodes = [helper.make_node(f"F{i - 1}", [a], [b], domain="own") for a, b in (("x", "z"), ("z", "y"))]
        functions.append(helper.make_function("own", f"F{i}", ["x"], ["y"], nodes, imports))
    call = helper.make_node("F39", ["x"], ["y"], domain="own")
    model = make_model([call], {"x": (F32, [2])}, {"y": (F32, [2])}, functions=functions, domains=["own"])
    with pytest.raises(irrun.UnsupportedError, match="more than 1000 nodes"):
        read(model)


# -- functions and bodies


def test_functions_of_the_model():
    body = [
        helper.make_node("Constant", [], ["factor"], value_float=1.0),
        helper.make_node("LeakyRelu", ["a"], ["b"]),
        helper.make_node("Mul", ["b", "factor"], ["c"]),
    ]
    alpha = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    body[1].attribute.append(alpha)
    function = helper.make_function(
        "own", "Slope", ["a"], ["c"], body, [helper.make_opsetid("", 18)], attributes=["slope"]
    )
    nodes = [helper.make_node("Slope", [a], [b], domain="own", slope=0.5) for a, b in (("x", "b"), ("b", "y"))]
    model = make_model(nodes, {"x": (F32, [3])}, {"y": (F32, [3])}, functions=[function], domains=["own"])
    outputs = irrun.compile_model(read(model))(np.array([-4, 0, 2], np.float32))
    assert outputs["y"].tolist() == [-1, 0, 2]


def make_loop() -> Any:
    """Return a model of a Loop that appends a row in each iteration, and scales by a value from outside."""
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["row", "factor"], ["scaled"]),
            helper.make_node("Concat", ["state", "scaled"], ["longer"], axis=0),
            helper.make_node("ReduceSum", ["longer"], ["total"], keepdims=0),
            helper.make_node("Cast", ["number"], ["count"], to=F32),
            helper.make_node("Add", ["total", "count"], ["sum"]),
            helper.make_node("Less", ["total", "limit"], ["goes_on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("number", I64, []),
            helper.make_tensor_value_info("goes", BOOL, []),
            helper.make_tensor_value_info("state", F32, ["n", 2]),
        ],
        [
            helper.make_tensor_value_info("goes_on", BOOL, []),
            helper.make_tensor_value_info("longer", F32, ["m", 2]),
            helper.make_tensor_value_info("sum", F32, []),
        ],
    )
    nodes = [helper.make_node("Loop", ["trips", "", "x"], ["y", "sums"], body=body)]
    inputs = {"x": (F32, [1, 2]), "row": (F32, [1, 2]), "factor": (F32, []), "limit": (F32, []), "trips": (I64, [])}
    return make_model(nodes, inputs, {"y": (F32, ["k", 2]), "sums": (F32, ["l"])})


@pytest.mark.parametrize(("trips", "limit"), [(4, 1000), (10, 20), (0, 1)])
def test_loops_agree_with_onnxruntime(trips, limit):
    inputs = {"x": np.ones((1, 2), np.float32), "row": np.array([[1, 2]], np.float32), "factor": np.float32(2)}
    inputs |= {"limit": np.array(limit, np.float32), "trips": np.array(trips), "factor": np.array(2, np.float32)}
    compare_with_onnxruntime(make_loop(), inputs)


def test_conditions_agree_with_onnxruntime():
    branches = {
        name: helper.make_graph(
            [helper.make_node(operator, ["x", "y"], ["z"])], name, [], [helper.make_tensor_value_info("z", F32, [2])]
        )
        for name, operator in (("then_branch", "Add"), ("else_branch", "Mul"))
    }
    nodes = [helper.make_node("If", ["condition"], ["result"], **branches)]
    inputs = {"condition": (BOOL, []), "x": (F32, [2]), "y": (F32, [2])}
    model = make_model(nodes, inputs, {"result": (F32, [2])})
    x, y = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    for condition in (True, False):
        compare_with_onnxruntime(model, {"condition": np.array(condition), "x": x, "y": y})


def make_scan() -> Any:
    body = helper.make_graph(
        [helper.make_node("Add", ["state", "slice"], ["new"]), helper.make_node("Mul", ["new", "slice"], ["scanned"])],
        "body",
        [helper.make_tensor_value_info(name, F32, [3]) for name in ("state", "slice")],
        [helper.make_tensor_value_info(name, F32, [3]) for name in ("new", "scanned")],
    )
    attributes = {"scan_input_axes": [1], "scan_input_directions": [1], "scan_output_axes": [-1]}
    node = helper.make_node("Scan", ["x", "values"], ["last", "all"], body=body, num_scan_inputs=1, **attributes)
    inputs = {"x": (F32, [3]), "values": (F32, [3, 5])}
    return make_model([node], inputs, {"last": (F32, [3]), "all": (F32, [3, 5])})


def test_scans_agree_with_onnxruntime():
    values = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    compare_with_onnxruntime(make_scan(), {"x": np.ones(3, np.float32), "values": values})


@pytest.mark.parametrize("make", [make_loop, make_scan])
def test_bodies_agree_in_openvino(make, tmp_path):
    ov = pytest.importorskip("openvino")
    model = read(make())
    rng = np.random.default_rng(0)
    inputs: dict[str, Any] = {
        spec.any_name: rng.random(spec.shape).astype(np.float32) if str(spec.element_type) == "f32" else np.array(3)
        for spec in model.inputs
    }
    irrun.save_model(model, tmp_path / "model.xml")
    core = ov.Core()
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    expected = core.compile_model(tmp_path / "model.xml", "CPU")(inputs)
    outputs = irrun.compile_model(model)(inputs)
    for i in range(2):
        np.testing.assert_allclose(outputs[i], expected[i], 1e-6, 1e-6)


# -- tensors


def test_initializers_that_are_inputs_are_constants():
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    inputs = {"x": (F32, [2]), "w": (F32, [2])}
    model = make_model(nodes, inputs, {"y": (F32, [2])}, {"w": np.array([1, 2], np.float32)})
    compiled = irrun.compile_model(read(model))
    assert [spec.names[0] for spec in compiled.inputs] == ["x"]
    assert compiled(np.zeros(2, np.float32))["y"].tolist() == [1, 2]


def test_types_of_initializers():
    import ml_dtypes

    arrays = {
        "bf16": np.array([1.5, -2], ml_dtypes.bfloat16),
        "i4": np.array([-8, 7, 3], ml_dtypes.int4),
        "u4": np.array([15, 0, 3], ml_dtypes.uint4),
        "f8e4m3": np.array([448, -0.5], ml_dtypes.float8_e4m3fn),
        "boolean": np.array([True, False]),
        "u64": np.array([2**63], np.uint64),
        "string": np.array(["a", "größer"], object),
    }
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in arrays]
    outputs = {
        f"{name}_out": (helper.np_dtype_to_tensor_dtype(a.dtype) if name != "string" else TensorProto.STRING, [len(a)])
        for name, a in arrays.items()
    }
    model = read(make_model(nodes, {}, outputs, arrays, opset=21))
    results = irrun.compile_model(model)({})
    for i, (name, array) in enumerate(arrays.items()):
        assert str(model.outputs[i].element_type) == name
        assert results[i].tolist() == array.tolist()


def test_values_that_are_several_outputs():
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Identity", ["y"], ["z"])]
    model = read(make_model(nodes, {"x": (F32, [2])}, {"y": (F32, [2]), "z": (F32, [2])}))
    outputs = irrun.compile_model(model)(np.array([-1, 1], np.float32))
    assert outputs["y"].tolist() == outputs["z"].tolist() == [0, 1]


# -- operators of onnxruntime


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("has_zeros", [False, True])
def test_matmul_nbits_agrees_with_onnxruntime(bits, has_zeros):
    rng = np.random.default_rng(0)
    rows, columns, block = 8, 40, 16
    count = -(-columns // block)
    weights = {
        "w": rng.integers(0, 256, (rows, count, block * bits // 8), np.uint8),
        "scales": rng.random(rows * count).astype(np.float32),
    }
    names = ["x", "w", "scales"]
    if has_zeros:
        weights["zeros"] = rng.integers(0, 256, rows * -(-count * bits // 8), np.uint8)
        names.append("zeros")
    attributes = {"N": rows, "K": columns, "bits": bits, "block_size": block}
    node = helper.make_node("MatMulNBits", names, ["y"], domain=contrib.MICROSOFT, **attributes)
    model = make_model(
        [node], {"x": (F32, [3, columns])}, {"y": (F32, [3, rows])}, weights, domains=[contrib.MICROSOFT]
    )
    compare_with_onnxruntime(model, {"x": rng.random((3, columns)).astype(np.float32)}, 1e-3)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("FusedMatMul", ["x", "x"], {"transA": 1, "alpha": 0.5}),
        ("Gelu", ["x"], {}),
        ("FastGelu", ["x", "v"], {}),
        ("BiasGelu", ["x", "v"], {}),
        ("QuickGelu", ["x"], {"alpha": 1.5}),
        ("SkipLayerNormalization", ["x", "x", "v", "v"], {}),
        ("SkipSimplifiedLayerNormalization", ["x", "x", "v"], {}),
        ("FusedConv", ["image", "filters"], {"activation": "LeakyRelu", "activation_params": [0.1]}),
        ("QLinearAdd", ["q", "s", "z", "q", "s", "z", "s", "z"], {}),
        ("QLinearSigmoid", ["q", "s", "z", "s", "z"], {}),
        ("QLinearGlobalAveragePool", ["q4", "s", "z", "s", "z"], {}),
        ("QLinearConcat", ["s", "z", "q", "s", "z", "q", "s", "z"], {"axis": 1}),
        ("MatMulIntegerToFloat", ["q", "q", "s", "s", "z", "z"], {}),
    ],
)
def test_operators_of_onnxruntime(operator, inputs, attributes):
    rng = np.random.default_rng(0)
    weights = {
        "v": rng.random(4).astype(np.float32),
        "image": rng.normal(size=(1, 2, 5, 5)).astype(np.float32),
        "filters": rng.normal(size=(3, 2, 3, 3)).astype(np.float32),
        "q": rng.integers(0, 256, (4, 4), np.uint8),
        "q4": rng.integers(0, 256, (1, 2, 3, 3), np.uint8),
        "s": np.array(0.05, np.float32),
        "z": np.array(128, np.uint8),
    }
    weights = {name: value for name, value in weights.items() if name in inputs}
    node = helper.make_node(operator, inputs, ["y"], domain=contrib.MICROSOFT, **attributes)
    kind = TensorProto.UINT8 if operator.startswith("QLinear") else F32
    used = {"x": (F32, [4, 4])} if "x" in inputs else {}
    model = make_model([node], used, {"y": (kind, None)}, weights, domains=[contrib.MICROSOFT])
    compare_with_onnxruntime(model, {name: rng.normal(size=(4, 4)).astype(np.float32) for name in used}, 1e-4)
