"""How layers find their operations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

import irrun
from irrun.ops._support import registry

if TYPE_CHECKING:
    import numpy.typing as npt


@pytest.fixture(autouse=True)
def _own_operations_vanish(monkeypatch):
    monkeypatch.setattr(registry, "_registry", registry.Registry(registry.list_operations()))


@pytest.mark.parametrize(
    ("spelling", "type", "version"),
    [
        ("Prelu", "PRelu", "opset1"),
        ("ReLU", "Relu", "opset1"),
        ("SoftMax", "Softmax", "opset8"),
        ("LogSoftMax", "LogSoftmax", "opset5"),
        ("LOGICALXOR", "LogicalXor", "opset1"),
        ("Softplus", "SoftPlus", "opset4"),
        ("Const", "Constant", "opset1"),
        ("Pow", "Power", "opset1"),
        ("swish", "Swish", "type_relaxed_opset"),
    ],
)
def test_case_does_not_matter_in_names(spelling: str, type: str, version: str) -> None:
    found = registry.find(spelling, version)
    assert found is not None
    exact = registry.find(type, version)
    assert exact is not None
    assert (found.type, found.since) == (exact.type, exact.since) == (type, exact.since)


def test_a_list_may_end_in_a_comma() -> None:
    pool = registry.find("AvgPool", "opset1")
    assert pool is not None
    given = {"kernel": "2, 3,", "strides": "1,", "pads_begin": "", "pads_end": "0", "exclude-pad": "false"}
    bound = pool.bind(given)
    assert (bound["kernel"], bound["strides"], bound["pads_begin"]) == ([2, 3], [1], [])
    with pytest.raises(irrun.ModelError, match="kernel='2,,3'"):
        pool.bind(given | {"kernel": "2,,3"})


def test_names_of_no_operation() -> None:
    assert registry.find("Relux", "opset1") is None
    assert registry.find("Mystery", "") is None


def test_every_signature_can_be_read() -> None:
    for operation in registry.list_operations():
        operation.check_signature()


def test_own_signatures_with_every_kind_of_parameter() -> None:
    @irrun.op("Everything", opset="mine")
    def everything(
        data: npt.NDArray[np.float32],  # known to type checkers only
        second=None,
        *rest,
        plain,
        number: int = 2,
        ratio: float | None = None,
        flag: bool = False,
        mode: Literal["a", "b"] = "a",
        sizes: list[int] = [1],  # noqa: B006
        type: irrun.ElementType | None = None,
    ):
        return data

    found = registry.find("Everything", "mine")
    assert found is not None
    assert found.kernel is everything
    assert [(i.name, i.optional, i.variadic) for i in found.inputs] == [
        ("data", False, False),
        ("second", True, False),
        ("rest", True, True),
    ]
    given = {"plain": "x", "number": "3", "ratio": "0.5", "flag": "true", "mode": "B", "sizes": "1, 2", "type": "f16"}
    assert found.bind(given) == {
        "plain": "x",
        "number": 3,
        "ratio": 0.5,
        "flag": True,
        "mode": "b",
        "sizes": [1, 2],
        "type": irrun.ElementType.parse("f16"),
    }


def keywords(data, **attributes): ...
def dictionary(data, *, table: dict[str, int]): ...
def unknown(data, *, table: Nowhere): ...  # noqa: F821


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (np.negative, "op() decorates a function"),
        (partial(keywords), "op() decorates a function"),
        (keywords, r"each is a keyword-only parameter of its own"),
        (dictionary, r"attribute table is annotated dict\[str, int\]; expected bool"),
        (unknown, "name 'Nowhere' is not defined"),
    ],
)
def test_what_cannot_be_read_is_refused_where_it_is_written(function, said: str) -> None:
    with pytest.raises(TypeError, match=said.replace("()", r"\(\)")):
        irrun.op("Broken", opset="mine")(function)
    assert registry.find("Broken", "mine") is None
