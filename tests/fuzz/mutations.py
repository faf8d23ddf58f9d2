"""Mutations of seeds: structured ones, which know the format, and bytewise ones."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import numpy as np
from lxml import etree

from fuzz.graphs import make_graph
from fuzz.seeds import Seed, list_seeds
from fuzz.tokenizers import make_tokenizer

__all__ = ["make_case"]

NUMBERS = [
    "0",
    "-1",
    "1",
    "2",
    "3",
    "-2",
    "7",
    "64",
    "65",
    "1000",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967295",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1000000000",
    "3000000000",
    "1e9",
    "1e400",
    "-1e400",
    "nan",
    "inf",
    "-inf",
    "0.5",
    "1e-320",
    "99999999999999999999999",
    "?",
    "-1..3",
    "1..",
    "..5",
    "4..4",
    "9..2",
]
WORDS = (
    "",
    " ",
    "true",
    "false",
    "yes",
    "f32",
    "f16",
    "i64",
    "u1",
    "string",
    "dynamic",
    "same_upper",
    "valid",
    "\u202e",
    "x" * 400,
)
DIMENSIONS = (0, 1, 2, 3, 7, 64, 1000, 65536, 1_000_000, 3_000_000_000, (1 << 63) - 1, 1 << 63, -1, -5)
TYPES = ("Add", "MatMul", "Concat", "Reshape", "Result", "Parameter", "Const", "Gather", "TopK", "If", "Loop", "Assign")


def make_case(seed: int, number: int, kind: str = "mutations") -> Seed:
    """Return the case of a number, which depends on nothing else.

    Args:
        seed: The seed of all cases.
        number: The number of the case.
        kind: "mutations" for one to four structured and bytewise changes of a seed, "extremes" for one value of it that
            is set to an extreme, or "graphs" for a random model.
    """
    if kind == "graphs":
        return make_graph(seed, number)
    if kind == "tokenizers":
        return make_tokenizer(seed, number)
    rng = np.random.default_rng([seed, number])
    seeds = list_seeds()
    case = copy.deepcopy(seeds[int(rng.integers(len(seeds)))])
    if kind == "extremes":
        root = etree.fromstring(case.xml)
        _pick(EXTREMES, rng)(root, case, rng)
        case.xml = etree.tostring(root)
        return case
    choice = rng.random()
    if choice < 0.8:
        mutate_structure(case, rng)
    if choice > 0.75:
        mutate_bytes(case, rng)
    return case


def mutate_structure(case: Seed, rng: np.random.Generator) -> None:
    """Change one to four things that the format defines."""
    root = etree.fromstring(case.xml)
    for _ in range(int(rng.choice([1, 1, 1, 2, 2, 3, 4]))):
        mutation = MUTATIONS[int(rng.integers(len(MUTATIONS)))]
        mutation(root, case, rng)
    case.xml = etree.tostring(root)


def mutate_bytes(case: Seed, rng: np.random.Generator) -> None:
    """Change bytes of the .xml or the .bin."""
    for _ in range(int(rng.integers(1, 4))):
        name = "xml" if rng.random() < 0.7 or not case.weights else "weights"
        data = bytearray(getattr(case, name))
        start = int(rng.integers(len(data) + 1))
        stop = min(len(data), start + int(rng.integers(1, 40)))
        kind = int(rng.integers(5))
        if kind == 0:
            del data[start:stop]
        elif kind == 1:
            data[start:start] = rng.bytes(int(rng.integers(1, 9)))
        elif kind == 2:
            data[start:start] = data[start:stop] * int(rng.integers(1, 20))
        elif kind == 3:
            del data[start:]
        elif data and start < len(data):
            data[start] ^= 1 << int(rng.integers(8))
        setattr(case, name, bytes(data))


def _pick(items: Any, rng: np.random.Generator) -> Any:
    items = list(items)
    return items[int(rng.integers(len(items)))] if items else None


def _pick_number(rng: np.random.Generator) -> str:
    count = int(rng.choice([1, 1, 1, 2, 3, 4]))
    return ",".join(_pick(NUMBERS, rng) for _ in range(count))


def change_attribute(root: Any, case: Seed, rng: np.random.Generator) -> None:
    element = _pick((e for e in root.iter() if e.attrib), rng)
    if element is not None:
        name = _pick(element.attrib, rng)
        text = _pick(WORDS, rng) if rng.random() < 0.25 else _pick_number(rng)
        if text.isprintable() or rng.random() < 0.5:
            element.set(name, text)


def change_data(root: Any, case: Seed, rng: np.random.Generator) -> None:
    element = _pick((e for e in root.iter("data") if e.attrib), rng)
    if element is not None:
        element.set(_pick(element.attrib, rng), _pick_number(rng) if rng.random() < 0.9 else _pick(WORDS, rng))


def remove_attribute(root: Any, case: Seed, rng: np.random.Generator) -> None:
    element = _pick((e for e in root.iter() if e.attrib), rng)
    if element is not None:
        del element.attrib[_pick(element.attrib, rng)]


def change_dimension(root: Any, case: Seed, rng: np.random.Generator) -> None:
    element = _pick(root.iter("dim"), rng)
    if element is not None:
        element.text = _pick_number(rng)


def change_shape(root: Any, case: Seed, rng: np.random.Generator) -> None:
    """Change the shape of a Parameter or Const, and the input of a Parameter with it."""
    element = _pick((e for e in root.iter("data") if "shape" in e.attrib), rng)
    if element is None:
        return
    shape = [int(_pick(DIMENSIONS, rng)) for _ in range(int(rng.integers(0, 6)))]
    old = element.get("shape").split(",") if element.get("shape") else []
    if old and rng.random() < 0.6:  # change one dimension
        shape = [int(n) if n.strip().lstrip("-").isdigit() else 1 for n in old]
        shape[int(rng.integers(len(shape)))] = int(_pick(DIMENSIONS, rng))
    element.set("shape", ",".join(map(str, shape)))
    position = (
        [p for p in root.iter("layer") if p.get("type") == "Parameter"].index(element.getparent())
        if (element.getparent().get("type") == "Parameter")
        else -1
    )
    count = 1
    for n in shape:
        count *= max(n, 0)
    if 0 <= position < len(case.inputs) and count <= 1 << 20 and all(n < 1 << 62 for n in shape):
        value = case.inputs[position]
        with contextlib.suppress(ValueError):
            case.inputs[position] = (
                np.resize(value, [max(n, 0) for n in shape])
                if value.size and count
                else np.zeros([max(n, 0) for n in shape], value.dtype)
            )


def change_edge(root: Any, case: Seed, rng: np.random.Generator) -> None:
    element = _pick(root.iter("edge"), rng)
    if element is not None and element.attrib:
        element.set(_pick(element.attrib, rng), str(int(rng.integers(-1, 6))))


def change_id(root: Any, case: Seed, rng: np.random.Generator) -> None:
    element = _pick((e for e in root.iter("layer", "port") if "id" in e.attrib), rng)
    if element is not None:
        element.set("id", str(int(rng.integers(-1, 6))) if rng.random() < 0.8 else _pick_number(rng))


def change_type(root: Any, case: Seed, rng: np.random.Generator) -> None:
    element = _pick(root.iter("layer"), rng)
    if element is not None:
        from irrun.ops._support.kernel_modules import KERNEL_MODULES

        types = [*sorted(KERNEL_MODULES), *TYPES]
        element.set("type", _pick(types, rng))
        element.set("version", f"opset{int(rng.integers(1, 18))}")


def copy_element(root: Any, case: Seed, rng: np.random.Generator) -> None:
    element = _pick((e for e in root.iter() if e.getparent() is not None), rng)
    if element is not None:
        for _ in range(int(rng.choice([1, 1, 2, 30]))):
            element.addnext(copy.deepcopy(element))


def remove_element(root: Any, case: Seed, rng: np.random.Generator) -> None:
    element = _pick((e for e in root.iter() if e.getparent() is not None), rng)
    if element is not None:
        element.getparent().remove(element)


def move_element(root: Any, case: Seed, rng: np.random.Generator) -> None:
    element, target = _pick(root.iter(), rng), _pick(root.iter(), rng)
    if element is not target and element.getparent() is not None and element not in list(target.iterancestors()):
        target.append(element)


def change_weights(root: Any, case: Seed, rng: np.random.Generator) -> None:
    """Overwrite eight bytes of the weights by an extreme integer or float."""
    if len(case.weights) >= 8:
        data = bytearray(case.weights)
        start = int(rng.integers(len(data) - 7)) & ~3
        value = int(_pick((0, 1, -1, -2, 1 << 31, (1 << 63) - 1, -(1 << 63), 10**9, 3_000_000_000), rng))
        floats = np.array([np.nan, np.inf, -np.inf, 1e38], np.float32)
        new = np.int64(value).tobytes() if rng.random() < 0.7 else np.repeat(_pick(floats, rng), 2).tobytes()
        data[start : start + len(new)] = new
        case.weights = bytes(data)


def change_input(root: Any, case: Seed, rng: np.random.Generator) -> None:
    """Set elements of an input to an extreme value."""
    if not case.inputs:
        return
    position = int(rng.integers(len(case.inputs)))
    value = np.array(case.inputs[position])
    if value.size and value.dtype.kind in "iuf":
        extremes = [0, 1, 2, 1000] if value.dtype.kind == "u" else [0, -1, 1, -100, 1000]
        if value.dtype.kind == "f":
            extremes += [np.nan, np.inf, -np.inf, 1e30]
        if value.dtype.itemsize == 8:
            extremes += [(1 << 62), 10**9]
        with np.errstate(all="ignore"):
            chosen = np.array(_pick(extremes, rng)).astype(value.dtype)
        value.reshape(-1)[int(rng.integers(value.size)) if rng.random() < 0.5 else slice(None)] = chosen
        case.inputs[position] = value


MUTATIONS = (
    change_attribute,
    change_data,
    change_data,
    change_data,
    remove_attribute,
    change_dimension,
    change_shape,
    change_shape,
    change_shape,
    change_edge,
    change_id,
    change_type,
    copy_element,
    remove_element,
    move_element,
    change_weights,
    change_weights,
    change_input,
    change_input,
)

#: Mutations that set one attribute, dimension, constant or input to an extreme value.
EXTREMES = (change_data, change_data, change_dimension, change_shape, change_weights, change_input)
