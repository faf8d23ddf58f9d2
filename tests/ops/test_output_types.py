"""Element types of results, which follow from cards, attributes and inputs."""

from __future__ import annotations

from typing import Any

import pytest

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.ops._support.card import Card
from irrun.ops._support.output_types import get_output_types

F32, F16, I64, I32, BOOLEAN = (ELEMENT_TYPES[name] for name in ("f32", "f16", "i64", "i32", "boolean"))


@pytest.mark.parametrize(
    ("sources", "attributes", "inputs", "expected"),
    [
        ((), {}, [F32, I64], [F32, F32]),
        ((), {}, [None, I64], [None, None]),
        ((), {}, [], [None, None]),
        ((1,), {}, [F32, I64], [I64, F32]),
        ((2, 0), {}, [F32, I64], [None, F32]),
        ((1, 1, 1), {}, [F32, I64], [I64, I64]),
        (("boolean", "i32"), {}, [F32], [BOOLEAN, I32]),
        (("index_element_type",), {"index_element_type": I64}, [F32], [I64, F32]),
        (("index_element_type",), {"index_element_type": "i32"}, [F32], [I32, F32]),
        (("index_element_type",), {"index_element_type": None}, [F32], [F32, F32]),
        (("index_element_type",), {}, [F32], [F32, F32]),
        ((), {"destination_type": F16}, [F32], [F16, F16]),
        ((), {"output_type": "f16"}, [F32], [F16, F16]),
        ((), {"output_type": "dynamic"}, [F32], [F32, F32]),
        ((), {"output_type": "undefined"}, [F32], [F32, F32]),
        ((), {"output_type": None}, [F32], [F32, F32]),
        ((0,), {"output_type": F16}, [F32], [F32, F16]),
        (("rest_type",), {"output_type": F16}, [F32], [F16, F16]),
    ],
)
def test_types_follow_from_cards_attributes_and_inputs(
    sources: Any, attributes: dict[str, Any], inputs: list[ElementType | None], expected: list[ElementType | None]
) -> None:
    assert get_output_types("Any", Card(output_types=sources), attributes, inputs, 2) == expected


@pytest.mark.parametrize(
    ("inputs", "expected"), [([F16, F32], F32), ([I32, I64], I64), ([None, F32], None), ([F32, None], None)]
)
def test_converted_inputs_have_their_common_type(
    inputs: list[ElementType | None], expected: ElementType | None
) -> None:
    assert get_output_types("ConvertPromoteTypes", Card(), {}, inputs, 2) == [expected] * 2
    assert get_output_types("Any", Card(), {}, inputs, 1) == inputs[:1]
