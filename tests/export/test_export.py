"""Names, shapes, types and files of exported models, and the command."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from command_line import call
from ir_text import chain, layer, net, port, write

pytest.importorskip("onnx")

import onnx

import irrun
from irrun.export import writing
from irrun.export.exporter import export_model


def export(folder, text, weights=b"", **options):
    path = write(folder, text, weights)
    result = irrun.export_onnx(path, folder / "model.onnx", **options)
    return onnx.load(str(result.files[0])), result


def test_names_types_and_dynamic_dimensions_are_kept(tmp_path):
    model, _ = export(tmp_path, chain("Relu", "Sigmoid", shape=(-1, 3)))
    (x,) = model.graph.input
    assert x.name == "x"
    assert [d.dim_param or d.dim_value for d in x.type.tensor_type.shape.dim] == ["x_dim_0", 3]
    assert [node.op_type for node in model.graph.node] == ["Relu", "Sigmoid"]
    assert model.graph.node[0].output == ["layer1"]
    assert [value.name for value in model.graph.output] == ["layer2"]
    onnx.checker.check_model(model, full_check=True)


def test_metadata_name_the_source(tmp_path):
    model, result = export(tmp_path, chain("Relu"))
    assert (model.producer_name, model.producer_version) == ("irrun", irrun.__version__)
    assert {p.key: p.value for p in model.metadata_props} == {"source": "model.xml", "source_version": "11"}
    assert result.opset == model.opset_import[0].version == 21


@pytest.mark.parametrize("opset", [18, 20])
def test_older_opsets(tmp_path, opset):
    model, _ = export(tmp_path, chain("Gelu", versions=["opset7"]), opset=opset)
    assert model.opset_import[0].version == opset
    assert ("Gelu" in {node.op_type for node in model.graph.node}) == (opset >= 20)


def test_opsets_out_of_range_are_refused(tmp_path):
    with pytest.raises(irrun.InputError, match="opset 9 is not supported, expected 18 to"):
        irrun.export_onnx(write(tmp_path, chain("Relu")), tmp_path / "model.onnx", opset=9)


def test_the_error_lists_all_layers(tmp_path):
    path = write(tmp_path, chain("MyOp", "Relu", "Other"))
    with pytest.raises(irrun.UnsupportedError, match=r"2 layers .*MyOp.*; .*Other"):
        irrun.export_onnx(path, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_partial_exports_keep_the_rest(tmp_path):
    model, result = export(tmp_path, chain("Relu", "MyOp", "Sigmoid"), partial=True)
    assert [(n.op_type, n.domain) for n in model.graph.node] == [
        ("Relu", ""),
        ("MyOp", "org.openvinotoolkit"),
        ("Sigmoid", ""),
    ]
    assert len(result.unsupported) == 1


def make_addition(values):
    """Return a net that adds a constant."""
    shape = values.shape
    constant = f'element_type="f32" shape="{",".join(map(str, shape))}" offset="0" size="{values.nbytes}"'
    layers = [
        layer(0, "Parameter", data='shape="?,4" element_type="f32"', outputs=[port(0, (-1, 4), "FP32", "x")]),
        layer(1, "Const", data=constant, outputs=[port(0, shape, "FP32")]),
        layer(2, "Add", inputs=[port(0, (-1, 4)), port(1, shape)], outputs=[port(2, (-1, 4), "FP32", "sum")]),
        layer(3, "Result", inputs=[port(0, (-1, 4))]),
    ]
    return net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)])


def test_large_weights_are_in_a_file_of_their_own(tmp_path, monkeypatch):
    values = np.arange(4096, dtype=np.float32).reshape(1024, 4)
    graph, _ = export_model(irrun.read_model(write(tmp_path, make_addition(values), values)), 23, partial=False)
    source = irrun.read_model(tmp_path / "model.xml")
    files = writing.write_model(graph, source, tmp_path / "m.onnx", threshold=1000)
    assert [f.name for f in files] == ["m.onnx", "m.onnx.data"]
    model = onnx.load(str(files[0]))
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(model.graph.initializer[0]), values)
    onnx.checker.check_model(str(files[0]))


def test_files_of_the_model_are_not_overwritten(tmp_path):
    path = write(tmp_path, chain("Relu"))
    before = path.read_bytes()
    with pytest.raises(irrun.InputError, match="overwrite"):
        irrun.export_onnx(path, path)
    assert path.read_bytes() == before


def test_importing_irrun_does_not_import_onnx():
    code = "import sys, irrun; irrun.export_onnx; print('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_the_command_writes_and_verifies(tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    path = write(tmp_path, chain("Relu", "Tanh"))
    code, out, err = call(capsys, "export", path, "-o", tmp_path / "m.onnx", "--verify")
    assert (code, err) == (0, "")
    assert f"wrote {tmp_path / 'm.onnx'} (opset 21)" in out
    assert "the results agree" in out


def test_different_results_of_the_exported_model_are_reported(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    path = write(tmp_path, chain("Relu"))
    other = write(tmp_path, chain("Negative"), name="other")
    irrun.export_onnx(other, tmp_path / "other.onnx")

    def export(*arguments, **options):
        result = irrun.export_onnx(*arguments, **options)
        os.replace(tmp_path / "other.onnx", tmp_path / "m.onnx")
        return result

    monkeypatch.setattr("irrun.export.export_onnx", export)
    code, out, _ = call(capsys, "export", path, "-o", tmp_path / "m.onnx", "--verify")
    assert code == 1
    assert out.splitlines()[-1] == "the results differ"


def test_the_command_reports_layers_that_cannot_be_exported(tmp_path, capsys):
    path = write(tmp_path, chain("Relu", "MyOp"))
    code, out, err = call(capsys, "export", path, "-o", tmp_path / "m.onnx")
    assert (code, out) == (2, "")
    assert "1 layer cannot be exported to ONNX: layer 2" in err
    code, out, _ = call(capsys, "export", path, "-o", tmp_path / "m.onnx", "--partial")
    assert code == 0
    assert "not exported: layer 2" in out
    code, out, err = call(capsys, "export", path, "-o", tmp_path / "m.onnx", "--partial", "--verify")
    assert (code, out) == (2, "")
    assert "--verify needs a complete model" in err
