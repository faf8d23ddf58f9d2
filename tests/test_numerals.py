"""Numbers as text, in models, options and environment variables."""

import numpy as np
import pytest
from command_line import call
from ir_text import chain, layer, net, port, write

import irrun
from irrun.numerals import is_decimal, parse_float, parse_integer
from irrun.threads import get_default_thread_count

X = np.ones((2, 3), np.float32)


def test_numbers_consist_of_ascii_digits():
    assert (parse_integer(" -12 "), parse_integer("+7"), parse_float("1e3"), parse_float("-.5")) == (-12, 7, 1000, -0.5)
    assert np.isnan(parse_float("nan"))
    assert is_decimal("012")
    for text in ("1_0", "٣", "1٣", "²", "", "1 0", "0x10", "１"):
        assert not is_decimal(text)
        for parse in (parse_integer, parse_float):
            with pytest.raises(ValueError, match=r"."):
                parse(text)
    assert not is_decimal("-1")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("<dim>2</dim>", "<dim>٢</dim>", "invalid dimension '٢'"),
        ('shape="2,3"', 'shape="٢,3"', "invalid dimension '٢'"),
        ('shape="2,3"', 'shape="1..1_0,3"', "invalid dimension '1..1_0'"),
        ('id="1"', 'id="١"', "integer"),
        ('from-port="0"', 'from-port="٠"', "expected four integers in an edge"),
        ('axis="1"', 'axis="0_1"', "attribute axis='0_1' of Softmax-8"),
        ('version="11"', 'version="1_1"', "expected an IR version"),
        ('version="opset8"', 'version="opset٨"', "opset"),
    ],
)
def test_other_digits_in_models_are_refused(before, after, message, tmp_path):
    path = write(tmp_path, chain("Softmax", versions=["opset8"], data=['axis="1"']))
    text = path.read_text(encoding="utf-8")
    assert before in text
    assert irrun.run(path, X)[0].shape == (2, 3)
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(irrun.IrrunError, match=message):
        irrun.run(path, X)


def write_constant(folder, **attributes):
    values = {"element_type": "f32", "shape": "2,3", "offset": "0", "size": "24", **attributes}
    data = " ".join(f'{name}="{value}"' for name, value in values.items())
    layers = [
        layer(0, "Const", data=data, outputs=[port(0, (2, 3), "FP32")]),
        layer(1, "Result", inputs=[port(0, (2, 3))]),
    ]
    return write(folder, net(layers, [(0, 0, 1, 0)]), bytes(28))


@pytest.mark.parametrize("attributes", [{"size": "2_4"}, {"offset": "٠"}, {"size": "٢٤"}], ids=str)
def test_other_digits_in_constants_are_refused(attributes, tmp_path):
    with pytest.raises(irrun.ModelError, match="expected integers as offset and size of a constant"):
        irrun.read_model(write_constant(tmp_path, **attributes))


@pytest.mark.parametrize("attributes", [{"size": 1 << 62}, {"size": 29}, {"offset": 4, "size": 25}], ids=str)
def test_constants_beyond_their_file_are_refused_when_a_model_is_read(attributes, tmp_path, capsys):
    path = write_constant(tmp_path, **attributes)
    with pytest.raises(irrun.ModelError, match=r"layer 0 .*: requires bytes \d to \d+ of .*, found 28 bytes"):
        irrun.read_model(path)
    assert call(capsys, "validate", path)[0] == 1
    for accepted in ({}, {"size": 28}, {"offset": 4}):
        assert irrun.run(write_constant(tmp_path, **accepted))[0].shape == (2, 3)


@pytest.mark.parametrize(
    "options",
    [["--timeout", "1_0"], ["--timeout", "nan"], ["--threads", "٢"], ["--threads", "1_0"], ["--memory", "1_0M"],
     ["--seed", "1_0"], ["--memory", "-1"], ["--threads", "0"], ["--input", "random:٢,3"], ["--shape", "x=2,٣"]],
)  # fmt: skip
def test_other_digits_in_options_are_refused(options, tmp_path, capsys):
    path = write(tmp_path, chain("Relu"))
    code, out, err = call(capsys, path, "--input", "zeros", *options)
    assert (code, out) == (2, "")
    assert err.startswith("irrun: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "options", [{"memory": -1}, {"memory": "1_0M"}, {"weights_memory": "٣M"}, {"threads": 0}, {"threads": "2"}]
)
def test_options_of_compilation_are_checked(options, tmp_path):
    (name,) = options
    with pytest.raises(irrun.InputError, match=name):
        irrun.compile_model(write(tmp_path, chain("Relu")), **options)


@pytest.mark.parametrize("timeout", [float("nan"), -1, "3", True])
def test_time_limits_are_numbers(timeout, tmp_path):
    compiled = irrun.compile_model(write(tmp_path, chain("Relu")))
    with pytest.raises(irrun.InputError, match=r"timeout is .*, expected a number of seconds"):
        compiled(X, timeout=timeout)


def test_other_digits_in_environment_variables_are_refused(monkeypatch):
    monkeypatch.setenv("IRRUN_NUM_THREADS", "٢")
    with pytest.raises(irrun.InputError, match="IRRUN_NUM_THREADS is '٢', expected a number of threads"):
        get_default_thread_count()
