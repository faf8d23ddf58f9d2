"""The public API: light to import, complete, documented."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import pydoc
import re
import subprocess
import sys

import numpy as np
import pytest
from ir_text import chain, write

import irrun

X = np.ones((2, 3), np.float32)


def test_import_is_light():
    script = "import sys, irrun; assert not {'numpy', 'lxml', 'click', 'ml_dtypes', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_public_name_exists_and_is_documented():
    for name in irrun.__all__:
        if name != "Scope":  # a type alias
            assert inspect.getdoc(getattr(irrun, name)), name
        assert name in dir(irrun)


def test_commands_have_python_equivalents(tmp_path):
    path = write(tmp_path, chain("Relu", "Exp"))
    assert irrun.validate(path) == []
    compiled = irrun.compile_model(path)
    inputs = irrun.load_inputs(["x=[[0,0,0],[0,0,0]]"], compiled.inputs)
    outputs = compiled(inputs)
    assert list(irrun.load_inputs("zeros", compiled.inputs)) == ["x"]
    (written,) = irrun.save_outputs(outputs.to_dict(), tmp_path / "out.npz")
    np.testing.assert_array_equal(np.load(written)["layer2"], np.ones((2, 3)))
    xml, _ = irrun.save_model(irrun.extract(compiled.model, outputs="layer1"), tmp_path / "part.xml")
    np.testing.assert_array_equal(irrun.run(xml, inputs)["layer1"], np.zeros((2, 3)))


def test_outputs_are_accessible_by_position_name_and_spec(tmp_path):
    compiled = irrun.compile_model(write(tmp_path, chain("Relu")))
    out = compiled(np.ones((2, 3), np.float32))
    for key in (0, "layer1", "result", compiled.outputs[0]):
        np.testing.assert_array_equal(out[key], np.ones((2, 3)))
    assert list(out) == ["layer1"]
    assert len(out) == 1
    assert compiled.inputs[0].any_name == "x"
    assert str(compiled.inputs[0].partial_shape) == "[2,3]"
    assert str(compiled.inputs[0].element_type) == "f32"
    assert compiled.inputs[0].shape == (2, 3)


def test_packages_are_imported_when_they_are_used():
    script = (
        "import sys, irrun; assert 'irrun.distributed' not in sys.modules; irrun.distributed.map_inputs; "
        "irrun.openvino.Core; irrun.inspection.check; "
        "assert not {'dask', 'zarr', 'openvino', 'irrun.conformance'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("module", "extra", "function"),
    [
        ("dask", "dask", lambda path: irrun.map_batches(path, X)),
        ("zarr", "dask", lambda path: irrun.distributed.map_inputs(path, ["x.npy"], "out.zarr")),
        ("openvino", "openvino", lambda path: irrun.inspection.compare(path, "openvino", X)),
        ("openvino", "openvino", lambda path: irrun.profile(path, X, against="openvino")),
        ("PIL", "images", lambda path: irrun.load_inputs([str(path.with_suffix(".png"))], irrun.read_model(path))),
        (
            "safetensors",
            "safetensors",
            lambda path: irrun.inspection.compare(path, path.with_suffix(".safetensors"), X),
        ),
    ],
)
def test_missing_extras_are_named(module, extra, function, tmp_path, monkeypatch):
    path = write(tmp_path, chain("Relu"))
    for suffix in (".png", ".safetensors"):
        path.with_suffix(suffix).write_bytes(b"")
    for name in (module, *(name for name in sys.modules if name.startswith(f"{module}."))):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(irrun.InputError, match=rf"pip install 'irrun\[{extra}\]'"):
        function(path)


def test_help_lists_the_functions_of_the_docstring(tmp_path, monkeypatch):
    text = pydoc.render_doc(irrun, renderer=getattr(pydoc, "plaintext"))  # noqa: B009
    public = {name for name in irrun.__all__ if not inspect.ismodule(getattr(irrun, name)) and name != "Scope"}
    assert {name for name in public if re.search(rf"^    (class )?{name}\(", text, re.M)} == public
    for name in re.findall(r"^    ([a-z]+[._]?\w*) {2,}", irrun.__doc__, re.M):
        assert callable(functools.reduce(getattr, name.split("."), irrun)), name
    for name in re.findall(r"; (?:the )?([a-z]+\.\w+) runs", irrun.__doc__):
        assert callable(functools.reduce(getattr, name.split("."), irrun)), name
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, chain("Relu"))
    path.write_text(path.read_text().replace('name="layer1"', 'name="y"'))
    example = irrun.__doc__.partition("Example::")[2].partition("Run models")[0]
    exec(inspect.cleandoc(example), {"x": X})


def test_compiled_models_say_how_to_pass_them_on(tmp_path):
    compiled = irrun.compile_model(write(tmp_path, chain("Relu")))
    for function in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"pass the path of the model, or compiled\.model, which can be pickled"):
            function(compiled)
        with pytest.raises(TypeError, match=r"create one for each user with compiled_model\.create_infer_request"):
            function(compiled.create_infer_request())


@pytest.mark.parametrize("in_memory", [False, True])
def test_models_and_outputs_can_be_pickled_and_copied(in_memory, data):
    path = data / "samplenet" / "model.xml"
    weights = path.with_suffix(".bin").read_bytes()
    model = irrun.read_model(path.read_bytes(), weights) if in_memory else irrun.read_model(path)
    x = np.load(path.with_name("input.npy"))
    expected = irrun.run(model, x)
    for function in (lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy, copy.copy):
        outputs = irrun.run(function(model), x)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(outputs))[0], expected[0])
    size = len(pickle.dumps(model))
    assert (size > len(weights)) == in_memory  # a file is referred to
    assert size < 2 * len(weights)


def test_models_without_weights_can_be_pickled(tmp_path):
    path = write(tmp_path, chain("Relu"), weights=None)
    model = pickle.loads(pickle.dumps(irrun.read_model(path)))
    np.testing.assert_array_equal(irrun.run(model, X)[0], X)
    model = pickle.loads(pickle.dumps(irrun.extract(model, outputs="layer1")))
    assert [spec.names for spec in model.inputs] == [("x",)]


def test_dir_lists_public_names_only():
    assert set(dir(irrun)) == {*irrun.__all__, "__version__"}


def test_compiled_model_has_the_defaults_of_compile_model():
    defaults = inspect.signature(irrun.compile_model).parameters
    for name, parameter in inspect.signature(irrun.CompiledModel).parameters.items():
        if name in defaults:
            assert parameter.default == defaults[name].default, name
