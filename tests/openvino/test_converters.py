"""Models of other formats: ONNX, PyTorch modules, and the readers that OpenVINO calls frontends."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irrun
import irrun.openvino as ov
from irrun.openvino import frontend, mo, torch_modules

ops = ov.opset13


@pytest.fixture
def onnx_path(tmp_path: Path) -> Path:
    """Return an ONNX model of the inputs "x" and "y"."""
    x, y = (ops.parameter([2, 3], np.float32, name=name) for name in "xy")
    ov.save_model(ov.Model([ops.add(x, y, name="sum")], [x, y], "net"), tmp_path / "net.xml", compress_to_fp16=False)
    irrun.export_onnx(tmp_path / "net.xml", tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def get_shapes(model: ov.Model) -> list[list[int]]:
    return [list(port.shape) for port in model.inputs]


def test_onnx_models_are_converted(onnx_path: Path) -> None:
    class ModelProto:
        def SerializeToString(self) -> bytes:
            return onnx_path.read_bytes()

    upper = onnx_path.rename(onnx_path.with_name("NET.ONNX"))
    onnx_path.write_bytes(upper.read_bytes())
    for source in (onnx_path, str(upper), [onnx_path], (str(onnx_path),), ModelProto(), [ModelProto()]):
        assert get_shapes(ov.convert_model(source)) == [[2, 3], [2, 3]]
    model = ov.convert_model(onnx_path, verbose=True, share_weights=False, extension=None)
    assert ov.compile_model(model)([np.ones((2, 3), np.float32)] * 2)[0].tolist() == [[2, 2, 2]] * 2


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (None, [[2, 3], [2, 3]]),
        ({"x": [4, 5], "y": (4, 5)}, [[4, 5], [4, 5]]),
        ([[4, 5], (1, 5)], [[4, 5], [1, 5]]),
        ([(1, 3)], [[1, 3], [2, 3]]),
        ([], [[2, 3], [2, 3]]),
        (("y", [1, 3]), [[2, 3], [1, 3]]),
        ([("y", ov.PartialShape([1, 3])), ("x", (4, 3), np.float32)], [[4, 3], [1, 3]]),
        ([ov.Shape([4, 5]), ov.PartialShape([1, 5])], [[4, 5], [1, 5]]),
    ],
)
def test_inputs_of_converted_models_get_new_shapes(onnx_path: Path, shapes: Any, expected: Any) -> None:
    assert get_shapes(ov.convert_model(onnx_path, input=shapes)) == expected


@pytest.mark.parametrize("shapes", ["x", 5, [("x", ov.Type.f32)], ("x",), ("x", [2, 3], np.float16)])
def test_other_inputs_of_converted_models_are_refused(onnx_path: Path, shapes: Any) -> None:
    with pytest.raises(RuntimeError, match=r"irrun's convert_model (expects|keeps)"):
        ov.convert_model(onnx_path, input=shapes)


@pytest.mark.parametrize("shape", [[4], (4,), [ov.Dimension(4)]])
def test_the_only_input_gets_a_new_shape(tmp_path: Path, shape: Any) -> None:
    x = ops.parameter([2], np.float32, name="x")
    ov.save_model(ov.Model([ops.relu(x)], [x], "net"), tmp_path / "net.xml")
    irrun.export_onnx(tmp_path / "net.xml", tmp_path / "net.onnx")
    if isinstance(shape[0], int):
        assert get_shapes(ov.convert_model(tmp_path / "net.onnx", input=shape)) == [[4]]
    with pytest.raises(RuntimeError):
        ov.convert_model(tmp_path / "net.onnx", input={"z": [4]})


def test_sources_that_cannot_be_converted(onnx_path: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="does not support the options a, b"):
        ov.convert_model(onnx_path, a=1, verbose=True, b=False)
    with pytest.raises(RuntimeError, match="example_input is for PyTorch modules only"):
        ov.convert_model(onnx_path, example_input=1)
    for source in (None, 3, [], [onnx_path, onnx_path], "model.pb", tmp_path / "net.xml"):
        with pytest.raises(RuntimeError, match="irrun converts ONNX models and PyTorch modules only"):
            ov.convert_model(source)
    (tmp_path / "wrong.onnx").write_bytes(b"wrong")
    with pytest.raises(RuntimeError, match=r"wrong\.onnx"):
        ov.convert_model(tmp_path / "wrong.onnx")


# PyTorch, without PyTorch


class Tensor:
    """A tensor of a number of dimensions."""

    def __init__(self, ndim: int) -> None:
        self.ndim = ndim


class Network:
    """A module with two arguments."""

    def forward(self, image: Any, scale: Any = None) -> None:
        """Compute nothing."""


class Program:
    """An exported program."""


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a stand-in for PyTorch that keeps the arguments of exports in `calls`."""
    calls: list[Any] = []

    class Disabled:
        def __enter__(self) -> None:
            calls.append("no_grad")

        def __exit__(self, *_: object) -> None: ...

    def export(module: Any, arguments: Any, buffer: Any, **options: Any) -> None:
        calls.append((module, arguments, options))
        buffer.write(b"model")

    module: Any = types.ModuleType("torch")
    module.nn = types.SimpleNamespace(Module=Network)
    module.export = types.SimpleNamespace(ExportedProgram=Program)
    module.Tensor, module.no_grad, module.calls = Tensor, Disabled, calls
    module.from_numpy = lambda array: Tensor(array.ndim)
    module.onnx = types.SimpleNamespace(export=export)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_modules_are_recognized(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [torch_modules.is_module(value) for value in (Network(), Program(), 3)] == [True, True, False]
    monkeypatch.delitem(sys.modules, "torch")
    assert not torch_modules.is_module(Network())


A, B = Tensor(2), Tensor(0)


@pytest.mark.parametrize(
    ("example", "arguments", "keywords", "axes"),
    [
        (A, (A,), {}, {"image": [0, 1]}),
        ((A,), (A,), {}, {"image": [0, 1]}),
        ([A, B], (A, B), {}, {"image": [0, 1], "scale": []}),
        ((A, 2.5), (A, 2.5), {}, {"image": [0, 1]}),
        ({"scale": B, "image": A}, (), {"scale": B, "image": A}, {"image": [0, 1], "scale": []}),
        ({"image": A, "scale": None}, (), {"image": A, "scale": None}, {"image": [0, 1]}),
    ],
)
def test_modules_are_exported_with_dynamic_inputs(
    torch: Any, example: Any, arguments: Any, keywords: Any, axes: dict[str, list[int]]
) -> None:
    module = Network()
    assert torch_modules.export_module(module, example) == b"model"
    (mode, (exported, passed, options)) = torch.calls
    assert (mode, exported, passed, options.pop("kwargs")) == ("no_grad", module, arguments, keywords)
    names = {"input_names": list(axes), "dynamic_axes": axes}
    assert options == {**names, "opset_version": torch_modules.OPSET, "dynamo": False}


def test_arrays_are_examples(torch: Any) -> None:
    torch_modules.export_module(Network(), (np.zeros((1, 2, 3)), 5))
    (_, (_, (image, scale), options)) = torch.calls
    assert (image.ndim, scale, options["dynamic_axes"]) == (3, 5, {"image": [0, 1, 2]})


def test_modules_are_converted_through_onnx(torch: Any, onnx_path: Path) -> None:
    def export(module: Any, arguments: Any, buffer: Any, **options: Any) -> None:
        buffer.write(onnx_path.read_bytes())

    torch.onnx.export = export
    assert get_shapes(ov.convert_model(Network(), example_input=A, input={"x": [1, 3]})) == [[1, 3], [2, 3]]


def test_modules_that_cannot_be_exported(torch: Any) -> None:
    with pytest.raises(RuntimeError, match="needs example_input"):
        ov.convert_model(Network())
    torch.onnx = types.SimpleNamespace()
    with pytest.raises(RuntimeError, match=r"PyTorch cannot export the module to ONNX: .* no attribute 'export'"):
        ov.convert_model(Network(), example_input=A)


# Readers


def test_readers_of_formats(onnx_path: Path) -> None:
    manager = frontend.FrontEndManager()
    assert manager.get_available_front_ends() == ["ir", "onnx"]
    for name, path in (("ir", onnx_path.with_suffix(".xml")), ("onnx", onnx_path)):
        reader = manager.load_by_framework(name)
        found = manager.load_by_model(path)
        assert found is not None
        assert reader.get_name() == found.get_name() == name
        assert reader.load(path, "weights") == path
        assert get_shapes(reader.convert(reader.load(path))) == [[2, 3], [2, 3]]
        assert manager.load_by_model(str(path).upper()) is not None
    assert manager.load_by_model("model.pb") is None
    with pytest.raises(frontend.InitializationFailure, match="irrun reads OpenVINO IR and ONNX, found tf"):
        manager.load_by_framework("tf")
    with pytest.raises(frontend.NotImplementedFailure, match="does not convert operations of other frameworks"):
        frontend.ConversionExtension("Op", lambda node: node)
    assert frontend.TelemetryExtension("name", 1) is not None
    assert issubclass(frontend.GeneralFailure, RuntimeError)


@pytest.fixture
def branches(tmp_path: Path) -> Path:
    """Return an ONNX model with three outputs, two of them of one node."""
    onnx: Any = pytest.importorskip("onnx")
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["r"], name="first"),
        onnx.helper.make_node("Split", ["r"], ["a", "b"], name="parts", axis=1),
        onnx.helper.make_node("Add", ["a", "b"], ["c"], name="sum"),
    ]
    x, *outputs = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4 if name == "x" else 2])
        for name in "xabc"
    )
    graph = onnx.helper.make_graph(nodes, "graph", [x], outputs)
    path = tmp_path / "branches.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]), path)
    return path


def get_names(model: Any) -> list[str]:
    return sorted(op.get_friendly_name() for op in model.get_ops() if op.get_type_name() != "Constant")


@pytest.mark.parametrize("method", ["convert_model", "read_model"])
def test_nodes_are_named_like_the_outputs_of_models(branches: Path, method: str, oracle: Any) -> None:
    own, other = (module.convert_model if method[0] == "c" else module.Core().read_model for module in (ov, oracle))
    expected = ["a/sink_port_0", "b", "b/sink_port_0", "c", "c/sink_port_0", "first", "x"]
    assert get_names(own(branches)) == get_names(other(branches)) == expected


@pytest.mark.parametrize("output", ["c", ["c"], ["c", "a"], [], None])
def test_converted_models_keep_some_outputs(branches: Path, output: Any, oracle: Any) -> None:
    own, other = (module.convert_model(branches, output=output) for module in (ov, oracle))
    assert [port.names for port in own.outputs] == [port.names for port in other.outputs]


def test_outputs_that_do_not_exist(branches: Path) -> None:
    with pytest.raises(RuntimeError, match=r"^Name r is not found among model outputs\.$"):
        ov.convert_model(branches, output="r")
    with pytest.raises(AssertionError, match="output '5' is incorrect, it should be string or a list/tuple of strings"):
        ov.convert_model(branches, output=5)


def test_the_converter_of_older_releases(onnx_path: Path) -> None:
    assert get_shapes(mo.convert_model(onnx_path, input_shape=[[1, 3], [1, 3]])) == [[1, 3], [1, 3]]
    assert get_shapes(mo.convert_model(onnx_path, input=("x", [1, 3]))) == [[1, 3], [2, 3]]
    with pytest.raises(RuntimeError, match="expects input or input_shape, found both"):
        mo.convert_model(onnx_path, input="x", input_shape=[1, 3])
    with pytest.raises(RuntimeError, match="does not support the options mean_values"):
        mo.convert_model(onnx_path, mean_values=[1])


def test_the_converter_of_older_releases_compresses(tmp_path: Path) -> None:
    x = ops.parameter([1, 64], np.float32, name="x")
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    ov.save_model(ov.Model([ops.matmul(x, weights, False, False)], [x]), tmp_path / "a.xml", compress_to_fp16=False)
    irrun.export_onnx(tmp_path / "a.xml", tmp_path / "a.onnx")
    types = [
        {op.get_output_element_type(0).to_string() for op in model.get_ops() if op.get_type_name() == "Constant"}
        for model in (mo.convert_model(tmp_path / "a.onnx", compress_to_fp16=flag) for flag in (False, True))
    ]
    assert types == [{"f32"}, {"f16"}]
