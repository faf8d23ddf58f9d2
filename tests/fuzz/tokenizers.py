"""Damaged tokenizers: patterns that explode, vocabularies, merges, maps and models that do not fit, and odd texts."""

from __future__ import annotations

import contextlib
import copy
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from generated_folders import EXAMPLE
from lxml import etree

from fuzz.seeds import Seed

__all__ = ["list_tokenizers", "make_tokenizer"]

#: Numbers that begins, ends, limits and ids become.
EXTREMES = (0, 1, -1, -2, 2, 3, 100, 10**6, 10**9, 2**31 - 1, -(2**31), 2**31 - 65, 2**24)
#: Patterns that backtrack for long, have many groups, or do not compile.
PATTERNS = (
    *(r"(a+)+$", r"(a|aa)+$", r"(.*)*x", r"(\w+\s?)*!", r"(?:a?){40}a{40}", r"((a{1,50}){1,50}){1,50}b", r"(.*a){25}"),
    *(r"(?<=(a+)+b)c", r"(x+x+)+y", r"\s*", "", "(", r"a{65535}", r"(?i)(ß|ss)*$", r"(\p{L}+)*\d", r"^(([a-z])+.)+[A-Z]$"),
    *(r".{0,60000}b", "(" * 300 + ")" * 300, "|".join("ab" * i for i in range(1, 300)), r"\1(a)", r"(?R)", r"(?:(?=a)a*)*b"),
    *(r"(?>a*)*", r"[^\x00-\x7f]*?$", r"(?:[a-z]*[a-z]*)*[0-9]", r"\X*\X*\X*!", r"(?s).*.*.*.*=.*", "a" * 50_000),
)  # fmt: skip
#: Replacements of patterns.
REPLACEMENTS = ("$1", "$99", "${", "\\1", "$0$0$0$0$0$0$0$0", "a" * 1000, "$", "\\", "$1" * 500, "\xff")
#: Texts that patterns explode in, and what tokenizers rarely see.
TEXTS = (
    *("a" * 30, "a" * 5000, "a" * 40 + "!", " " * 10_000, "ab" * 3000, "x" * 60 + "\n", "é" * 3000, "\u0301" * 2000, ""),
    *("<s>" * 2000, "\x00" * 50, "𐐀" * 3000, "word " * 2000, "a b" * 10 + "!", "\udcff", "1" * 5000, "A1b2 " * 1000),
)  # fmt: skip
TOKENS = "openvino_*tokenizer.xml"


@cache
def list_tokenizers() -> tuple[Seed, ...]:
    """Return the tokenizers and detokenizers of folders.

    The folders are those in the folder that the variable IRRUN_TOKENIZERS names, which `tools/make_tokenizers.py`
    writes; by default, the example alone.
    """
    folder = os.environ.get("IRRUN_TOKENIZERS")
    with contextlib.suppress(ImportError):  # its import warns of its own types
        import sentencepiece  # noqa: F401
    paths = sorted(Path(folder).glob("*/" + TOKENS)) if folder else sorted(EXAMPLE.glob(TOKENS))
    return tuple(_read(path) for path in paths)


def _read(path: Path) -> Seed:
    xml = path.read_bytes()
    inputs: list[np.ndarray] = []
    for layer in etree.fromstring(xml).iter("layer"):
        if layer.get("type") == "Parameter":
            is_text = layer.find("data").get("element_type") == "string"
            inputs.append(
                np.array(["Once there was a cat", "", "Zoe's 12 words"], object)
                if is_text
                else np.arange(12).reshape(2, 6)
            )
    return Seed(xml, path.with_suffix(".bin").read_bytes(), inputs)


def make_tokenizer(seed: int, number: int) -> Seed:
    """Return the damaged tokenizer of a number, which depends on nothing else.

    Args:
        seed: The seed of all cases.
        number: The number of the case.
    """
    random = np.random.default_rng([seed, number])
    case = copy.deepcopy(_pick(list_tokenizers(), random))
    root = etree.fromstring(case.xml)
    for _ in range(int(random.choice([1, 1, 1, 2, 2, 3, 4]))):
        _pick(MUTATIONS, random)(root, case, random)
    case.xml = etree.tostring(root)
    if random.random() < 0.7:
        change_texts(root, case, random)
    return case


def _pick(items: Any, random: np.random.Generator) -> Any:
    items = list(items)
    return items[int(random.integers(len(items)))] if items else None


def _list_constants(root: Any, *types: str) -> list[Any]:
    """Return the constants of element types."""
    return [
        layer.find("data")
        for layer in root.iter("layer")
        if layer.get("type") == "Const" and layer.find("data").get("element_type") in types
    ]


def _get_content(data: Any, case: Seed) -> bytes:
    begin = int(data.get("offset", 0))
    return case.weights[begin : begin + int(data.get("size", 0))]


def _set_content(data: Any, case: Seed, content: bytes, shape: str) -> None:
    """Let a constant have another content, which is appended to the weights."""
    case.weights += b"\0" * (-len(case.weights) % 8)
    for name, value in (("offset", str(len(case.weights))), ("size", str(len(content))), ("shape", shape)):
        data.set(name, value)
    layer = data.getparent()
    for port in layer.iter("port"):  # what the port declares is removed
        for dimension in port.findall("dim"):
            port.remove(dimension)
        for size in filter(None, shape.split(",")):
            etree.SubElement(port, "dim").text = size
    case.weights += content


def change_numbers(root: Any, case: Seed, random: np.random.Generator) -> None:
    """Change some elements of begins, ends, ids or limits."""
    data = _pick(_list_constants(root, "i32", "i64"), random)
    if data is None:
        return
    kind = np.int32 if data.get("element_type") == "i32" else np.int64
    values = np.frombuffer(_get_content(data, case), kind).copy()
    choice = int(random.integers(5))
    if not values.size or choice == 0:
        values = np.full(max(values.size, 1), _pick(EXTREMES, random), kind)
    elif choice == 1:
        values = values[::-1].copy()
    elif choice == 2:
        random.shuffle(values)
    else:
        values[random.integers(0, values.size, 3)] = _pick(EXTREMES, random)
    _set_content(data, case, values.tobytes(), data.get("shape", ""))


def change_length(root: Any, case: Seed, random: np.random.Generator) -> None:
    """Cut or repeat a constant."""
    data = _pick(_list_constants(root, "i32", "i64", "u8"), random)
    if data is None:
        return
    width = {"i32": 4, "i64": 8, "u8": 1}[data.get("element_type")]
    content = _get_content(data, case)
    count = len(content) // width
    shorter = content[: width * int(random.integers(0, count + 1))]
    content = _pick((shorter, content * 2, content * 3, b"", content[:width]), random)
    _set_content(data, case, content, str(len(content) // width))


def change_bytes(root: Any, case: Seed, random: np.random.Generator) -> None:
    """Change the text of a vocabulary, a pattern, a map or a model of SentencePiece."""
    data = _pick(_list_constants(root, "u8", "string"), random)
    if data is None:
        return
    content = bytearray(_get_content(data, case))
    for _ in range(int(random.choice([1, 2, 20]))):
        if content:
            position = int(random.integers(min(len(content), _pick((16, 1000, len(content)), random))))
            content[position] = int(_pick((0, 255, 0x80, 0xC0, content[position] ^ 1, random.integers(256)), random))
    _set_content(data, case, bytes(content), data.get("shape", ""))


def change_pattern(root: Any, case: Seed, random: np.random.Generator) -> None:
    """Replace a short text, such as a pattern, by one that explodes."""
    short = [data for data in _list_constants(root, "u8", "string") if int(data.get("size", 0)) < 1000]
    data = _pick(short, random)
    if data is not None:
        text = _pick(PATTERNS if random.random() < 0.75 else REPLACEMENTS, random).encode()
        _set_content(data, case, text, str(len(text)))


def change_attribute(root: Any, case: Seed, random: np.random.Generator) -> None:
    """Change an attribute of an operation on text."""
    layers = [layer for layer in root.iter("layer") if layer.get("version") == "extension"]
    elements = [layer.find("data") for layer in layers if layer.find("data") is not None]
    element = _pick([element for element in elements if element.attrib], random)
    if element is not None:
        words = ("", "true", "nan", "-0", "1.5", "right", "x" * 300, "isolate", "remove", "contiguous", "é", "1,2,-3")
        value = str(_pick(EXTREMES, random)) if random.random() < 0.6 else _pick(words, random)
        element.set(_pick(element.attrib, random), value)


def change_edge(root: Any, case: Seed, random: np.random.Generator) -> None:
    """Let two inputs change their places, as begins and ends may."""
    edges = list(root.iter("edge"))
    first = _pick(edges, random)
    same = [edge for edge in edges if edge.get("to-layer") == first.get("to-layer")]
    second = _pick(same if random.random() < 0.8 else edges, random)
    for name in ("from-layer", "from-port"):
        value = first.get(name)
        first.set(name, second.get(name))
        second.set(name, value)


def change_texts(root: Any, case: Seed, random: np.random.Generator) -> None:
    """Change the texts, or the tokens, of the inputs."""
    for position, value in enumerate(case.inputs):
        if value.dtype == object:
            texts = [_pick(TEXTS, random) for _ in range(int(random.choice([0, 1, 2, 3])))]
            case.inputs[position] = np.array(texts, object)
        else:
            shape = tuple(random.choice([0, 1, 3, 50], 2))
            case.inputs[position] = random.choice([*range(50), -1, 10**6, 2**31 - 1, 2**40, -(2**62)], shape)


#: What is done to a tokenizer.
MUTATIONS = (
    *(change_numbers, change_numbers, change_numbers, change_length, change_length, change_bytes, change_bytes),
    *(change_pattern, change_pattern, change_attribute, change_edge),
)
