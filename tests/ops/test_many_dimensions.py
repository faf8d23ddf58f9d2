"""Values of 33 to 64 dimensions, for which parts of NumPy are limited to 32."""

from __future__ import annotations

import numpy as np
import pytest
from command_line import call
from ir_text import chain, layer, net, port, write

from irrun.ops.movement.tile import tile_1
from irrun.shapes import get_broadcast_shape

pytestmark = pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="NumPy 1 has 32 dimensions")

F32 = np.float32

COMMANDS = {
    "validate": [],
    "info": ["--plan"],
    "run": ["-i", "random"],
    "trace": ["-i", "ones"],
    "check": ["-i", "ones"],
    "profile": ["-i", "ones", "--runs", "1"],
    "report": ["-i", "ones", "-o", "page.html"],
    "compare": ["-i", "ones", "--against", "f64"],
    "bench": ["-i", "ones", "--runs", "1"],
    "upgrade": ["-o", "new.xml"],
    "reduce": ["-i", "ones", "--fails", "max>1.5"],
}


def write_sum(folder, rank):
    """Write a model that adds inputs of [2, 1, 1, ...] and [1, 3, 1, ...]."""
    shapes = [(2, *(1,) * (rank - 1)), (1, 3, *(1,) * (rank - 2)), (2, 3, *(1,) * (rank - 2))]
    layers = [
        layer(i, "Parameter", data=f'shape="{",".join(map(str, s))}" element_type="f32"', outputs=[port(0, s, "FP32")])
        for i, s in enumerate(shapes[:2])
    ]
    inputs = [port(i, s) for i, s in enumerate(shapes[:2])]
    layers.append(layer(2, "Add", "opset1", 'auto_broadcast="numpy"', inputs, [port(2, shapes[2], "FP32")]))
    layers.append(layer(3, "Result", inputs=[port(0, shapes[2])]))
    return write(folder, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]), name="sum")


@pytest.mark.parametrize("rank", [33, 64])
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_accept_all_dimensions_that_the_reader_accepts(command, rank, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    unary = write(tmp_path, chain("Relu", "Exp", shape=(2, *(1,) * (rank - 1))))
    for model in (unary, write_sum(tmp_path, rank)):
        code, out, err = call(capsys, command, model, *COMMANDS[command])
        assert (code, err) == (0, "")
        assert out


def test_broadcast_shapes_equal_those_of_numpy():
    shapes = [(), (1,), (3,), (2, 1), (2, 3), (1, 3), (0,), (2, 0), (4, 1, 1), (4, 2, 3)]
    for first in shapes:
        for second in shapes:
            for third in shapes:
                try:
                    expected = np.broadcast_shapes(first, second, third)
                except ValueError:
                    with pytest.raises(ValueError, match="cannot be broadcast"):
                        get_broadcast_shape(first, second, third)
                else:
                    assert get_broadcast_shape(first, second, third) == expected
    assert get_broadcast_shape() == ()
    assert get_broadcast_shape((2, *(1,) * 63), (5,)) == (2, *(1,) * 62, 5)


@pytest.mark.parametrize("rank", [2, 33, 40, 64])
@pytest.mark.parametrize("counts", [(2,), (2, 0, 3), (3, *(1,) * 30, 2), (2, 1)])
def test_tile_repeats_any_number_of_axes(rank, counts):
    data = np.arange(6, dtype=F32).reshape(2, *(1,) * (rank - 2), 3)
    np.testing.assert_array_equal(tile_1(data, np.array(counts)), np.tile(data, counts))


def test_tile_repeats_all_of_many_axes():
    data = np.ones((1,) * 64, F32)
    assert tile_1(data, np.array([2] * 4 + [1] * 56 + [2] * 4)).shape == (2,) * 4 + (1,) * 56 + (2,) * 4
