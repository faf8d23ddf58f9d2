"""The time limit of a run, which long computations check between their blocks."""

import itertools

import numpy as np
import pytest
from ir_text import layer, net, port, write

import irrun
from irrun import deadlines
from irrun.deadlines import Deadline, check_time, end_at, within_time
from irrun.errors import TimeLimitError
from irrun.fast.packing import PackedMemory
from irrun.fast.panels import make_panel_product
from irrun.threads import map_parallel, multiply_matrices, run_parallel, use_threads

F32 = np.float32
RANDOM = np.random.default_rng(1)


def rand(*shape):
    return RANDOM.random(shape, F32)


def make_boxes(count):
    """Return boxes [1, count, 4] that hardly overlap."""
    corners = rand(1, count, 2) * 1000
    return np.concatenate([corners, corners + 1], axis=2)


def i64(*values):
    return np.array(values, np.int64) if len(values) != 1 else np.array(values[0], np.int64)


POOL = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [20, 20]}
ROIS = np.array([[0, 0, 0, 60, 60]] * 40, F32)

#: Operations, their versions, attributes and inputs, and how often they check the time at least.
CASES = [
    ("NonMaxSuppression", "opset9", {}, (make_boxes(2000), rand(1, 1, 2000), i64(2000), F32(0.5), F32(0)), 8),
    ("NonMaxSuppression", "opset5", {}, (make_boxes(50), rand(1, 1, 50), i64(50), F32(0.5), F32(0), F32(1)), 40),
    ("NMSRotated", "opset13", {},
     (np.dstack([make_boxes(600), rand(1, 600)]), rand(1, 1, 600), i64(600), F32(1), F32(0)), 3),
    ("MulticlassNms", "opset9", {"background_class": -1}, (make_boxes(2000), rand(1, 3, 2000)), 8),
    ("MatrixNms", "opset8", {"background_class": -1}, (make_boxes(6000), rand(1, 3, 6000)), 3),
    ("AvgPool", "opset1", {**POOL, "exclude-pad": True}, (rand(1, 1, 40, 40),), 40),
    ("MaxPool", "opset1", POOL, (rand(1, 1, 40, 40),), 40),
    ("MaxPool", "opset8", {**POOL, "dilations": [1, 1]}, (rand(1, 1, 40, 40),), 40),
    ("LRN", "opset1", {"alpha": 1, "beta": 1, "bias": 1, "size": 51}, (rand(1, 60, 4, 4), np.array([1])), 25),
    ("Inverse", "opset14", {"adjoint": False}, (rand(50, 50),), 100),
    ("SearchSorted", "opset15", {}, (np.sort(rand(1000)), rand(1000)), 9),
    ("GatherTree", "opset1", {}, (*[np.zeros((30, 2, 2), np.int32)] * 2, np.full(2, 30, np.int32), np.int32(0)), 25),
    ("ROIPooling", "opset2", {"pooled_h": 7, "pooled_w": 7, "spatial_scale": 1}, (rand(1, 256, 64, 64), ROIS), 4),
    ("ROIAlign", "opset9", {"pooled_h": 7, "pooled_w": 7, "sampling_ratio": 0, "spatial_scale": 1, "mode": "max"},
     (rand(1, 256, 64, 64), ROIS[:, 1:], np.zeros(40, np.int64)), 4),
    ("Erf", "opset1", {}, (rand(10, 1 << 20),), 4),
]  # fmt: skip


@pytest.fixture
def clock(monkeypatch):
    """Let each check of the time take a second."""
    times = itertools.count()
    monkeypatch.setattr(deadlines, "perf_counter", lambda: float(next(times)))
    return times


def write_layer(folder, type, version, attributes, inputs):
    data = " ".join(
        f'{name}="{",".join(map(str, value)) if isinstance(value, list) else str(value).lower()}"'
        for name, value in attributes.items()
    )
    element_types = [{"float32": "f32", "int64": "i64", "int32": "i32"}[str(np.asarray(x).dtype)] for x in inputs]
    layers = []
    for i, (x, element_type) in enumerate(zip(inputs, element_types, strict=True)):
        parameter = f'shape="{",".join(map(str, np.shape(x)))}" element_type="{element_type}"'
        layers.append(layer(i, "Parameter", data=parameter, outputs=[port(0, np.shape(x))]))
    end = len(inputs)
    layers.append(layer(end, type, version, data, [port(i) for i in range(end)], [port(end, ("?",))]))
    layers.append(layer(end + 1, "Result", inputs=[port(0)]))
    edges = [(i, 0, end, i) for i in range(end)] + [(end, end, end + 1, 0)]
    return write(folder, net(layers, edges))


@pytest.mark.parametrize(
    ("type", "version", "attributes", "inputs", "checks"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES]
)
def test_kernels_check_the_time_between_blocks(type, version, attributes, inputs, checks, clock, tmp_path):
    compiled = irrun.compile_model(write_layer(tmp_path, type, version, attributes, inputs), optimize=False)
    expected = compiled(list(inputs))[0]
    # The executor checks before the run and the instruction; the kernel is ended in the middle.
    with pytest.raises(TimeLimitError, match=rf"\({type}, {version}\): the run exceeded its time limit"):
        compiled(list(inputs), timeout=checks)
    np.testing.assert_array_equal(compiled(list(inputs), timeout=10**6)[0], expected)


def test_a_deadline_lasts_as_long_as_its_block(clock):
    check_time()
    assert list(within_time(range(3))) == [0, 1, 2]
    found: list[int] = []
    with pytest.raises(TimeLimitError, match="the run exceeded its time limit of 2 s"), end_at(Deadline(2)):
        found.extend(within_time(range(10)))
    assert found == [0, 1]
    check_time()


@pytest.mark.parametrize("threads", [1, 2])
def test_computations_in_parts_check_the_time(threads, clock):
    computed = []
    with use_threads(threads):
        with pytest.raises(TimeLimitError), end_at(Deadline(10)):
            run_parallel(computed.append, 1000)
        with pytest.raises(TimeLimitError), end_at(Deadline(10)):
            map_parallel(lambda part: np.zeros(1), lambda part, value: computed.append(part), 1000)
    assert len(computed) < 500


def test_large_products_of_stacks_check_the_time(clock):
    a, b = rand(6, 1, 700, 700), rand(2, 700, 700)
    expected = np.matmul(a, b)
    np.testing.assert_array_equal(multiply_matrices(a, b), expected)
    with end_at(Deadline(100)):
        np.testing.assert_array_equal(multiply_matrices(a, b, np.empty_like(expected)), expected)
    with pytest.raises(TimeLimitError), end_at(Deadline(5)):
        multiply_matrices(a, b)


def test_the_first_product_with_constant_weights_checks_the_time(clock):
    x, weights = rand(600, 600), rand(600, 1200)
    product = make_panel_product(weights, PackedMemory(1 << 40))
    if product is None:
        pytest.skip("other methods are faster on this processor")
    with pytest.raises(TimeLimitError), end_at(Deadline(4)):
        product.multiply(x)
    np.testing.assert_allclose(product.multiply(x), x @ weights, rtol=1e-4)
