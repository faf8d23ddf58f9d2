"""Blocks of lazy arrays: bags of samples, shapes of results, errors, and outputs that do not count samples."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

from irrun.distributed import MapOptions, arrays
from irrun.errors import InputError

pytest.importorskip("dask.array")

import dask.bag


def write_shape(folder):
    """Write a model whose output is the shape of its input."""
    layers = [
        layer(0, "Parameter", data='shape="?,?" element_type="f32"', outputs=[port(0, ("?", "?"), "FP32")], name="x"),
        layer(1, "ShapeOf", "opset3", 'output_type="i64"', [port(0)], [port(1, (2,), "I64")], name="shape"),
        layer(2, "Result", inputs=[port(0)]),
    ]
    return write(folder, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0)]))


def test_bags_of_samples_become_arrays(tmp_path):
    model = write(tmp_path, chain("Relu", shape=("?", 2)))
    values = [np.float32([i, -i]) for i in range(5)]
    result = arrays.map_batches(model, dask.bag.from_sequence(values, npartitions=2))
    assert (result.dtype, result.shape[1:], len(result.chunks[0])) == (np.float32, (2,), 2)
    assert result.compute(scheduler="synchronous").tolist() == [[i, 0] for i in range(5)]


def test_bags_need_a_declared_shape(tmp_path):
    model = write(tmp_path, chain("Relu", shape=("?", "?")))
    with pytest.raises(InputError, match=r"^the output has a dynamic shape; pass an array instead of a bag$"):
        arrays.map_batches(model, dask.bag.from_sequence([np.float32([1, 2])]))
    result = arrays.map_batches(model, np.float32([[1, -2, 3]] * 4), batch=3)
    assert (result.shape, result.chunks) == ((4, 3), ((3, 1), (3,)))
    assert result.compute(scheduler="synchronous").tolist() == [[1, 0, 3]] * 4


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_outputs_that_do_not_count_samples(tmp_path, on_error):
    model = write_shape(tmp_path)
    run = arrays._BlockRunner(str(model), "", MapOptions(on_error=on_error, jit=False), np.dtype(np.int64))
    with pytest.raises(InputError, match=re.escape("expected 3 rows in the output, found shape [2]")):
        run.run(np.ones((3, 4), np.float32))
    if on_error == "stop":
        with pytest.raises(InputError, match="expected 3 rows"):
            run(np.ones((3, 4), np.float32))
    else:
        assert run(np.ones((3, 4), np.float32)).tolist() == [-(2**63)] * 3
    assert run(np.ones((2, 4), np.float32)).tolist() == [2, 4]


def test_models_of_several_inputs_are_refused(tmp_path):
    layers = [
        *(layer(i, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,))]) for i in range(2)),
        layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, (2,))]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    model = write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]))
    message = f"{model} has 2 inputs and 1 outputs, expected one input and one output; map_inputs accepts models with"
    with pytest.raises(InputError, match=f"^{re.escape(message)} several inputs$"):
        arrays.map_batches(model, np.ones((2, 2), np.float32))


@pytest.mark.parametrize("chunks", [(2, 5), (1, 2), (2, 1)])
def test_blocks_contain_whole_samples(chunks, tmp_path):
    """Also of arrays whose samples are longer than their number, or are divided."""
    dask_array = pytest.importorskip("dask.array")
    model = write(tmp_path, chain("Softmax", shape=("?", 5), versions=["opset8"], data=['axis="1"']))
    values = np.arange(10, dtype=np.float32).reshape(2, 5)
    result = arrays.map_batches(model, dask_array.from_array(values, chunks=chunks), batch=2)
    assert result.chunks == ((2,), (5,))
    np.testing.assert_allclose(result.sum(axis=1).compute(scheduler="synchronous"), [1, 1], rtol=1e-6)
