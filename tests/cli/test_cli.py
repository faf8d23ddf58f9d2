"""The command line as its users meet it."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from ir_text import chain, graph, layer, net, port, write

from irrun.cli import main

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 3


def call(capsys, *arguments):
    """Exit code, stdout, stderr."""
    code = 0
    try:
        main([str(a) for a in arguments])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def model(tmp_path):
    """Relu of x, f32[2,3]."""
    np.save(tmp_path / "x.npy", X)
    return write(tmp_path, chain("Relu"))


@pytest.fixture
def pair(tmp_path):
    """a + b and a - b, i64[2]."""
    layers = [
        layer(0, "Parameter", data='shape="2" element_type="i64"', outputs=[port(0, (2,), "I64", "a")], name="a"),
        layer(1, "Parameter", data='shape="2" element_type="i64"', outputs=[port(0, (2,), "I64", "b")], name="b"),
        layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, (2,), "I64", "sum")]),
        layer(3, "Subtract", inputs=[port(0), port(1)], outputs=[port(2, (2,), "I64", "difference")]),
        layer(4, "Result", inputs=[port(0)]),
        layer(5, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 2, 0), (1, 0, 2, 1), (0, 0, 3, 0), (1, 0, 3, 1), (2, 2, 4, 0), (3, 2, 5, 0)]
    return write(tmp_path, net(layers, edges), name="pair")


def test_the_main_job_prints_a_summary(model, capsys):
    code, out, err = call(capsys, model, "--input", model.parent / "x.npy")
    assert code == 0
    assert not err
    header, row = out.splitlines()
    assert header.split() == ["output", "type", "shape", "range", "first", "values"]
    assert row.split()[:5] == ["layer1", "f32", "[2,3]", "0", "to"]
    assert "0 0 0 0 1 2" in row


def test_run_is_the_long_form(model, capsys):
    short = call(capsys, model, "--input", model.parent / "x.npy")
    assert call(capsys, "run", model, "--input", model.parent / "x.npy") == short
    assert call(capsys, "--input", model.parent / "x.npy", model) == short


def test_json_is_for_programs(model, capsys):
    code, out, _ = call(capsys, model, "--input", "x=[[-1,0,1],[2,3,4]]", "--json")
    (found,) = json.loads(out)["outputs"]
    assert code == 0
    assert found["values"] == [[0, 0, 1], [2, 3, 4]]
    assert (found["name"], found["type"], found["shape"], found["max"]) == ("layer1", "f32", [2, 3], 4.0)


@pytest.mark.parametrize("target", ["out.npz", "out.npy", "folder/", "folder"])
def test_outputs_go_to_npz_npy_or_a_folder(model, target, tmp_path, capsys):
    code, _, _ = call(capsys, model, "-i", model.parent / "x.npy", "-o", f"{tmp_path}/{target}")
    assert code == 0
    if target == "out.npz":
        found = np.load(tmp_path / target)["layer1"]
    else:
        found = np.load(tmp_path / target if target == "out.npy" else tmp_path / "folder/layer1.npy")
    np.testing.assert_array_equal(found, np.maximum(X, 0))
    assert not list(tmp_path.glob(".*"))


def test_several_inputs_by_name_key_and_order(pair, tmp_path, capsys):
    np.savez(tmp_path / "both.npz", a=[1, 2], b=[10, 20])
    np.savez(tmp_path / "other.npz", p=[10, 20], q=[0, 0])
    expected = {"sum": [11, 22], "difference": [-9, -18]}
    for inputs in (
        ["b=[10,20]", "a=[1,2]"],
        ["[1,2]", "[10,20]"],
        [tmp_path / "both.npz"],
        [f"a={tmp_path}/both.npz:a", f"b={tmp_path}/other.npz:p"],
        [f"a={tmp_path}/both.npz", f"b={tmp_path}/both.npz"],
        ["0=[1,2]", "1=[10,20]"],
    ):
        arguments = [part for text in inputs for part in ("--input", text)]
        code, out, err = call(capsys, pair, *arguments, "--json")
        assert code == 0, err
        assert {o["name"]: o["values"] for o in json.loads(out)["outputs"]} == expected


def test_raw_bytes_and_json_files(pair, tmp_path, capsys):
    (tmp_path / "a.bin").write_bytes(np.array([1, 2], np.int64).tobytes())
    (tmp_path / "b.json").write_text("[10, 20]")
    code, out, _ = call(capsys, pair, "-i", f"a={tmp_path}/a.bin", "-i", f"b={tmp_path}/b.json", "--json")
    assert code == 0
    assert json.loads(out)["outputs"][0]["values"] == [11, 22]


def test_random_is_seeded_and_zeros_are_zero(model, capsys):
    first = call(capsys, model, "--input", "random", "--json")
    assert call(capsys, model, "--input", "random", "--json") == first
    assert call(capsys, model, "--input", "random", "--seed", "1", "--json") != first
    _, out, _ = call(capsys, model, "--input", "zeros", "--json")
    assert json.loads(out)["outputs"][0]["max"] == 0


def test_values_inside_are_shown_beside_the_outputs(model, tmp_path, capsys):
    path = write(tmp_path, chain("Relu", "Exp"), name="two")
    call_it = (path, "--input", model.parent / "x.npy", "--show", "layer1", "--show", "layer2", "--show", "x")
    code, out, err = call(capsys, *call_it)
    assert code == 0, err
    assert [row.split()[0] for row in out.splitlines()] == ["output", "layer2", "layer1", "x"]
    assert call(capsys, *call_it, "-o", tmp_path / "all.npz")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "all.npz")["layer1"], np.maximum(X, 0))
    code, out, err = call(capsys, path, "--input", "zeros", "--show", "layre1")
    assert (code, out) == (2, "")
    assert "no value 'layre1'; is it layer1" in err


def test_a_trace_shows_every_layer_in_bodies_too(model, tmp_path, capsys):
    path = write(tmp_path, chain("Relu", "Exp"), name="two")
    _, out, _ = call(capsys, path, "--input", model.parent / "x.npy", "--trace")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0][:3] == ["layer", "operation", "type"]
    assert [row[:4] for row in rows[1:3]] == [["layer1", "Relu", "f32", "[2,3]"], ["layer2", "Exp", "f32", "[2,3]"]]
    assert rows[3] == []
    assert rows[4][0] == "output"
    _, out, _ = call(capsys, path, "--input", model.parent / "x.npy", "--trace", "--json")
    found = json.loads(out)["trace"]
    assert [(t["name"], t["operation"]) for t in found] == [("layer1", "Relu"), ("layer2", "Exp")]
    assert found[0]["values"] == np.maximum(X, 0).tolist()
    dates = Path(__file__).parents[2] / "examples" / "date_translation"
    _, out, _ = call(capsys, dates / "model.xml", "--input", dates / "input.npy", "--trace")
    assert "\nbeam_search[10]/" in out


def test_a_run_that_fails_shows_how_far_it_came(tmp_path, capsys):
    constant = layer(
        1, "Const", data='element_type="i64" shape="1" offset="0" size="8"', outputs=[port(0, (1,), "I64")]
    )
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32", "x")], name="x"),
        constant,
        layer(2, "Relu", inputs=[port(0)], outputs=[port(1)]),
        layer(3, "Reshape", data='special_zero="false"', inputs=[port(0), port(1)], outputs=[port(2)]),
        layer(4, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 2, 0), (2, 1, 3, 0), (1, 0, 3, 1), (3, 2, 4, 0)]
    path = write(tmp_path, net(layers, edges), np.array([5], np.int64))
    code, out, err = call(capsys, path, "--input", "zeros", "--trace")
    assert code == 2
    assert [row.split()[0] for row in out.splitlines() if row] == ["layer", "layer2"]
    assert "layer3" in err


@pytest.mark.parametrize("command", ["upgrade", "extract"])
def test_a_model_is_not_replaced_by_what_is_made_from_it(command, model, tmp_path, capsys):
    before = model.read_bytes()
    write(tmp_path, chain("Exp"), name="other")
    for arguments in (
        [model, "-o", model],
        [model, "-o", tmp_path / "." / "model.xml"],
        [tmp_path / "other.xml", "-w", tmp_path / "model.bin", "-o", model],
    ):
        code, out, err = call(capsys, command, *arguments)
        assert (code, out) == (2, "")
        assert "which is read; name another .xml" in err
    assert model.read_bytes() == before
    assert call(capsys, command, model, "-o", tmp_path / "new.xml")[0] == 0


def test_a_missing_bin_is_told_once(tmp_path, capsys):
    data = 'element_type="f32" shape="2" offset="0" size="8"'
    layers = [layer(i, "Const", data=data, outputs=[port(0, (2,), "FP32")]) for i in (0, 1)]
    layers += [layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2)]), layer(3, "Result", inputs=[port(0)])]
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]), None)
    code, out, _ = call(capsys, "validate", path)
    assert code == 1
    assert out.count("\n") == 1
    assert "model.bin is missing; name it as weights if it is elsewhere; 2 constants need it" in out
    assert call(capsys, "info", path)[1].count("is missing") == 1
    assert "2 constants need it" in call(capsys, path)[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--input", "y=[1]"], "no input 'y'; the model takes x: f32[2,3]"),
        ([], "missing input x: f32[2,3]\n"),
        (["--input", "[[1,2],[3,4]]"], "input x: f32[2,3] is fed shape [2, 2]"),
        (["--input", "nowhere.npy"], "cannot read nowhere.npy: No such file"),
        (["--input", "nonsense"], "'nonsense' is no file, no JSON"),
        (["--input", "[1, [2]]"], "lists of different lengths"),
        (["--input", "[1,"], "is no JSON"),
        (["--input", "zeros", "--input", "zeros"], "one input more than the model has"),
        (["--input", "x=zeros", "--input", "x=ones"], "fed twice"),
        (["--input", "zeros", "--output", "out.txt"], "outputs are written to .npz, .npy or a folder"),
        (["--input", "zeros", "--output", "no/such/folder/out.npy"], "cannot write"),
        (["--input", "zeros", "--weights", "nowhere.bin"], "cannot read the weights"),
        (["--input", "zeros", "--nonsense"], "No such option"),
        (["--input", "zeros", "--mean", "x"], "no list of numbers"),
    ],
)
def test_mistakes_get_one_clear_line(model, arguments, said, capsys):
    code, out, err = call(capsys, model, *arguments)
    assert code == 2
    assert said in err
    assert err.startswith("irrun: ")
    assert err.count("\n") == 1
    assert not out


def test_types_convert_only_where_nothing_is_lost(pair, tmp_path, capsys):
    np.save(tmp_path / "whole.npy", np.array([1.0, 2.0]))
    np.save(tmp_path / "half.npy", np.array([1.5, 2.0]))
    code, out, _ = call(capsys, pair, "-i", tmp_path / "whole.npy", "-i", "zeros", "--json")
    assert (code, json.loads(out)["outputs"][0]["values"]) == (0, [1, 2])
    code, _, err = call(capsys, pair, "-i", tmp_path / "half.npy", "-i", "zeros")
    assert code == 2
    assert "f64 whose values do not all fit i64 without loss" in err


def test_pickles_are_not_opened(model, tmp_path, capsys):
    np.save(tmp_path / "evil.npy", np.array([print], dtype=object), allow_pickle=True)
    code, _, err = call(capsys, model, "--input", tmp_path / "evil.npy")
    assert code == 2
    assert "cannot be read as npy" in err


def test_a_picture_is_resized_and_turned_to_the_layout(tmp_path, capsys):
    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[:, :, 0] = 200  # red
    image.fromarray(pixels).save(tmp_path / "red.png")
    path = write(tmp_path, chain("Relu", shape=(1, 3, 2, 2)))
    for channels, place in (("BGR", 2), ("RGB", 0)):
        _, out, _ = call(capsys, path, "-i", tmp_path / "red.png", "--channels", channels, "--json")
        values = np.array(json.loads(out)["outputs"][0]["values"])
        assert values.shape == (1, 3, 2, 2)
        assert (values[0, place] == 200).all()
        assert values.sum() == 800
    _, out, _ = call(capsys, path, "-i", tmp_path / "red.png", "--mean", "100", "--scale", "50", "--json")
    assert json.loads(out)["outputs"][0]["max"] == 2


def test_check_reports_wrong_declarations(tmp_path, capsys):
    good = chain("Relu")
    bad = good.replace('<port id="1" precision="FP32"><dim>2</dim>', '<port id="1" precision="FP32"><dim>9</dim>')
    assert bad != good
    assert call(capsys, write(tmp_path, good, name="good"), "-i", "zeros", "--check")[0] == 0
    code, out, _ = call(capsys, write(tmp_path, bad, name="bad"), "-i", "zeros", "--check")
    assert code == 1
    assert "declared f32[9,3], is f32[2,3]" in out


def test_info_shows_what_is_there_and_what_is_lacking(tmp_path, capsys):
    path = write(tmp_path, chain("Relu", "Foo", data=['colour="blue"', ""]), None)
    code, out, _ = call(capsys, "info", path)
    assert code == 0
    for text in ("x: f32[2,3]", "Relu-1", "not supported", "Foo of opset1", "Relu-1 colour"):
        assert text in out
    code, out, _ = call(capsys, "info", path, "--json")
    facts = json.loads(out)
    assert facts["operations"]["Relu-1"] == 1
    assert facts["inputs"][0]["shape"] == "[2,3]"


def test_info_works_on_a_model_with_findings(tmp_path, capsys):
    path = write(tmp_path, chain("Relu").replace('from-port="0"', 'from-port="5"', 1))
    code, out, _ = call(capsys, "info", path)
    assert code == 0
    assert "an edge names output port 5" in out


def test_validate_prints_every_finding_with_its_line(tmp_path, capsys):
    good = write(tmp_path, chain("Relu"), name="good")
    assert call(capsys, "validate", good)[0] == 0
    text = chain("Relu", "Relu").replace('id="1" name', 'id="one" name').replace("<dim>3</dim>", "<dim>x</dim>", 1)
    code, out, _ = call(capsys, "validate", write(tmp_path, text, name="bad"))
    assert code == 1
    assert len(out.splitlines()) >= 3
    assert "bad.xml:3: " in out
    code, out, _ = call(capsys, "validate", write(tmp_path, text, name="bad"), "--json")
    assert code == 1
    assert all(f["message"] for f in json.loads(out))


def test_ops_lists_and_explains(capsys):
    code, out, _ = call(capsys, "ops")
    assert code == 0
    assert "movement" in out
    code, out, _ = call(capsys, "ops", "gather")
    assert code == 0
    for text in ("Gather-1", "Gather-7", "Gather-8", "batch_dims: int, default 0", "0: data"):
        assert text in out
    code, _, err = call(capsys, "ops", "Gathre")
    assert code == 2
    assert "is it Gather" in err
    code, out, _ = call(capsys, "ops", "Gather", "--json")
    assert {o["since"] for o in json.loads(out)} == {1, 7, 8}


def test_extract_cuts_a_part_out(tmp_path, capsys):
    path = write(tmp_path, chain("Relu", "Exp", "Negative"))
    part = tmp_path / "part.xml"
    code, _, err = call(capsys, "extract", path, "--inputs", "layer1", "--outputs", "layer2", "-o", part)
    assert code == 0, err
    code, out, _ = call(capsys, part, "--input", "layer1=zeros", "--json")
    assert code == 0
    assert json.loads(out)["outputs"][0]["values"] == [[1, 1, 1], [1, 1, 1]]
    code, _, err = call(capsys, "extract", path, "--inputs", "layer3", "--outputs", "layer2", "-o", part)
    assert code == 2
    assert "do not depend on layer3" in err
    code, _, err = call(capsys, "extract", path, "--inputs", "layr1", "-o", part)
    assert code == 2
    assert "is it layer1" in err


def test_names_of_nothing_are_no_names(model, tmp_path, capsys):
    for text in ("", " , "):
        code, _, err = call(capsys, "extract", model, "--outputs", text, "--output", tmp_path / "part.xml")
        assert code == 2
        assert "names nothing" in err
    assert not (tmp_path / "part.xml").exists()


def test_help_imports_neither_numpy_nor_lxml():
    script = (
        "import sys\nfrom irrun.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "assert not {'numpy', 'lxml', 'rich'} & set(sys.modules), 'too much is imported'"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Commands" in done.stdout


def test_every_command_has_help(capsys):
    from irrun.cli import COMMANDS

    for name in COMMANDS:
        code, out, _ = call(capsys, name, "--help")
        assert code == 0
        assert out.startswith(f"Usage: irrun {name}")


def test_mistyped_commands(capsys):
    code, _, err = call(capsys, "rnu")
    assert code == 2
    assert "No such command 'rnu'" in err
    code, _, err = call(capsys, "nowhere.xml")
    assert code == 2
    assert "nowhere.xml: cannot read the model: No such file" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--input"], "requires an argument"),
        (["--input", "zeros", "--output", ""], "it is empty"),
        (["--input", "random", "--seed", "-1"], "--seed"),
        (["--input", "zeros", "--scale", "0"], "holds a number that is no scale"),
        (["--input", "zeros", "--mean", "nan"], "holds a number that is no mean"),
        (["--input", "zeros", "--weights", "."], "it is a folder"),
        (["--input", "."], "is no file"),
        (["--input", "a\x1b[31mb\n.npy"], r"a\x1b[31mb .npy"),
        (["--input", "zeros", "more"], "unexpected extra argument"),
    ],
)
def test_more_mistakes_get_one_clear_line(model, arguments, said, capsys):
    code, out, err = call(capsys, model, *arguments)
    assert code == 2
    assert said in err
    assert err.startswith("irrun: ")
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert not out


@pytest.mark.parametrize("command", ["run", "info", "validate"])
def test_names_from_a_file_never_reach_the_terminal_raw(command, tmp_path, capsys):
    """Escape sequences (here the one-character form that XML admits), line breaks, marks that turn the writing."""
    evil = "a&#10;b&#x9b;31m&#x202e;c[/red]"
    text = chain("Relu", "Foo").replace('names="x"', f'names="{evil}"').replace('name="layer1"', f'name="{evil}"')
    text = text.replace('name="net"', f'name="{evil}"').replace(
        'type="Foo"', f'type="{"Relu" if command == "run" else evil}"'
    )
    path = write(tmp_path, text)
    _, out, err = call(capsys, command, path, *(["--input", "zeros", "--check"] if command == "run" else []))
    assert all(c.isprintable() for c in (out + err).replace("\n", ""))
    lines = (out + err).splitlines()
    assert not any(line.startswith("b") for line in lines)
    if command == "info":
        assert any(r"\x9b31m\u202ec" in line for line in lines)


def test_the_progress_line_takes_names_for_text(tmp_path, monkeypatch):
    from irrun.cli import progress

    monkeypatch.setattr(progress, "PATIENCE", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    text = chain("Relu", "Relu").replace('name="layer1"', 'name="[/red][bold&#x9b;31m"')
    import irrun

    with progress.progress("[/blue]\x1b[31m") as observers:
        irrun.compile_model(write(tmp_path, text))(X, observers=observers)


LOOP = """
import sys
from irrun.cli import main
main(sys.argv[1:])
"""


def started(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-c", LOOP, *map(str, arguments)],
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_a_loop_without_end_can_be_interrupted(tmp_path):
    import signal
    import time

    inner = (
        '<port_map><input external_port_id="2" internal_layer_id="0"/>'
        '<output external_port_id="-1" internal_layer_id="3" purpose="execution_condition"/>'
        '<output external_port_id="3" internal_layer_id="2"/></port_map>'
        '<back_edges><edge from-layer="2" to-layer="0"/></back_edges><body>'
    )
    truth = 'element_type="boolean" shape="" offset="8" size="1"'
    x = layer(0, "Parameter", data='shape="1" element_type="f32"', outputs=[port(0, (1,))], name="x")
    body = [x, layer(1, "Const", data=truth, outputs=[port(0)])]
    body += [layer(i, "Result", inputs=[port(0)]) for i in (2, 3)]
    inner += graph(body, [(0, 0, 2, 0), (1, 0, 3, 0)]) + "</body>"
    layers = [
        x,
        layer(1, "Const", data='element_type="i64" shape="" offset="0" size="8"', outputs=[port(0)]),
        layer(2, "Const", data=truth, outputs=[port(0)]),
        layer(3, "Loop", "opset5", "", [port(0), port(1), port(2)], [port(3)], inner=inner),
        layer(4, "Result", inputs=[port(0)]),
    ]
    edges = [(1, 0, 3, 0), (2, 0, 3, 1), (0, 0, 3, 2), (3, 3, 4, 0)]
    path = write(tmp_path, net(layers, edges), (1 << 62).to_bytes(8, "little") + b"\1")
    process = started(path, "--input", "zeros")
    time.sleep(2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err == "irrun: stopped\n"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_an_interrupt_that_an_import_takes_for_something_else(monkeypatch, capsys):
    """As NumPy does while it is imported; other failures to import stay what they are."""
    import os
    import signal

    from irrun.cli import ops

    def interrupted(*_):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            signal.pause()
        except KeyboardInterrupt:
            raise ImportError("numpy failed to import") from None

    def missing(*_):
        raise ImportError("no such module")

    before = signal.getsignal(signal.SIGINT)
    for failure, expected in ((missing, ImportError), (interrupted, SystemExit)):
        monkeypatch.setattr(ops, "_catalogue", failure)
        with pytest.raises(expected) as raised:
            main(["ops"])
    assert raised.value.code == 130
    assert capsys.readouterr().err == "irrun: stopped\n"
    assert signal.getsignal(signal.SIGINT) is before


def test_a_full_disk_and_a_closed_pipe_end_quietly():
    with open("/dev/full", "w") as full:
        process = started("ops", stdout=full)
        assert process.communicate(timeout=60)[1] == "irrun: cannot write the output: No space left on device\n"
        assert process.returncode == 2
    process = started("ops")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 1


def test_what_the_terminal_cannot_show_is_no_error(model):
    import os

    process = started(model, "--input", "日本.npy", env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert r"cannot read \u65e5\u672c.npy" in process.communicate(timeout=60)[1]
    assert process.returncode == 2


def test_info_on_a_large_file_reads_none_of_it(tmp_path, capsys):
    import tracemalloc

    path = write(tmp_path, chain("Relu"))
    with open(path.with_suffix(".bin"), "wb") as file:
        file.truncate(2 << 30)
    tracemalloc.start()
    try:
        assert call(capsys, "info", path)[0] == 0
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["run", "info", "upgrade", "extract", "validate", "ops"])
def test_help_fits_80_columns(name, capsys):
    _, out, _ = call(capsys, name, "--help")
    assert max(map(len, out.splitlines())) <= 80


def test_json_of_an_empty_output_of_many_rows(tmp_path, capsys):
    path = write(tmp_path, chain("Relu", shape=(1 << 40, 0)))
    code, out, _ = call(capsys, path, "--input", "zeros", "--json")
    assert code == 0
    assert json.loads(out)["outputs"][0]["shape"] == [1 << 40, 0]


def test_what_is_not_finite_is_shown_without_a_warning(model, capsys):
    """Infinities have no mean, and NaN no least value."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text, told in (
            ("[[Infinity, -Infinity, 1], [2, NaN, 3]]", "(2 not finite)"),
            ("[[Infinity, 0, 1], [2, 4, 3]]", "0 to 4 (1 not finite)"),
            ("[[NaN, NaN, NaN], [NaN, NaN, NaN]]", "(6 not finite)"),
        ):
            code, out, _ = call(capsys, model, "--input", text)
            assert code == 0
            assert told in out
            assert call(capsys, model, "--input", text, "--json")[0] == 0
