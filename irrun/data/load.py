"""Loading of inputs from files, JSON text, random numbers and constants."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from irrun.arguments import check_instance, check_integer, check_list, check_number, check_paths, check_text
from irrun.data.files import READERS, check_member, parse_json, read_file, read_npz_by_name, read_strings
from irrun.data.generated import GeneratedInput, parse_generated
from irrun.data.image import IMAGE_SUFFIXES, ImageOptions, load_image
from irrun.data.pipe import Pipe, read_stdin
from irrun.errors import InputError
from irrun.ir.model import Model, TensorSpec, index_names
from irrun.limits import limit_allocations
from irrun.numerals import is_decimal, parse_float
from irrun.shapes import PartialShape

if TYPE_CHECKING:
    from irrun.runtime.compiled_model import CompiledModel

__all__ = ["LoadOptions", "load_input", "load_input_sets", "load_inputs"]

Array = np.ndarray[Any, Any]

#: The name of stdin instead of a path.
STDIN = "-"


@dataclass(frozen=True)
class LoadOptions:
    """Options for loading inputs.

    Attributes:
        seed: Seed for random inputs.
        image: How images are converted to tensors.
        notify: Called with one line for each input with chosen dimensions.
        memory: Memory limit in bytes for an array from an .npz file or stdin; None for half of the memory of the
            machine.
    """

    seed: int = 0
    image: ImageOptions = field(default_factory=ImageOptions)
    notify: Callable[[str], object] | None = None
    memory: int | None = None

    def limit_memory(self) -> AbstractContextManager[None]:
        """Return a context in which files are read."""
        return nullcontext() if self.memory is None else limit_allocations(self.memory)


def load_inputs(
    specs: Iterable[str],
    model: Model | CompiledModel | Sequence[TensorSpec],
    options: LoadOptions | None = None,
    *,
    seed: int | None = None,
    layout: str | None = None,
    channels: str | None = None,
    mean: float | Sequence[float] | None = None,
    scale: float | Sequence[float] | None = None,
) -> dict[str | int, Array]:
    """Load inputs from specifications such as "x.npy", "ids=[[1,2,3]]", "data=street.jpg", "all.npz" or "random".

    A text without a name specifies the next input that is not set yet. An .npz file whose keys are names of inputs may
    specify several inputs. "random", "zeros" and "ones" without a name fill all remaining inputs. Dynamic dimensions of
    such inputs are chosen so that the layers of the model accept them, and random integers so that they are valid
    indices.

    Args:
        specs: Texts of the form `[name=]value`; see `load_input` for the values.
        model: The model. With its inputs alone, dimensions are chosen by their roles and names.
        options: Seed and image options. The following arguments take precedence.
        seed: Seed for random inputs.
        layout: The layout of image inputs, such as "NCHW"; "auto" derives it from the shape.
        channels: The channel order of image inputs, "BGR" or "RGB".
        mean: Mean to subtract from the pixels of images (0 to 255): one number, or one for each channel.
        scale: Divisor that is applied after subtracting the mean, in the same form.

    Returns:
        Name -> array; position -> array for inputs that do not have a unique name.

    Raises:
        InputError: A name is unknown, a value cannot be read, an input is missing or given twice, no dimensions were
            found for a generated input, or image options were given without an image.
    """
    texts = check_paths("specs", specs, "a text such as 'x=x.npy' or a list of texts")
    if options is None:
        options = LoadOptions()
    check_instance("options", options, LoadOptions, "LoadOptions or None")
    loader = _Loader(model, _merge_options(options, seed, layout, channels, mean, scale))
    return loader.name_arrays(loader.load(texts))


def load_input_sets(
    specs: Sequence[str], model: Model | CompiledModel | Sequence[TensorSpec], options: LoadOptions
) -> list[dict[str | int, Array]]:
    """Load the inputs of several runs.

    A text for an input that is already set starts the next set. The first set provides inputs that a set omits.

    Args:
        specs: Texts of the form `[name=]value`.
        model: The model, as for `load_inputs`.
        options: How inputs are loaded.

    Returns:
        One mapping per set, at least one.

    Raises:
        InputError: See `load_inputs`.
    """
    loader = _Loader(model, options)
    groups = _group_specs(specs, loader.tensors)
    first = loader.load(groups[0].values())
    sets = [first]
    for number, group in enumerate(groups[1:], 1):
        following = _Loader(model, replace(options, seed=options.seed + number, notify=None))
        if min(group) < 0:  # a file of several inputs
            sets.append(following.load(group.values()))
            continue
        names = {i: _split_name(spec, loader.tensors)[1] for i, spec in group.items()}
        inherited = {i: value for i, value in first.items() if i not in group}
        sets.append(following.load_positions(names, inherited))
    return [loader.name_arrays(arrays) for arrays in sets]


def _group_specs(specs: Sequence[str], tensors: Sequence[TensorSpec]) -> list[dict[int, str]]:
    """Divide texts into sets, by the positions of their inputs; -1 for a file of several inputs."""
    groups: list[dict[int, str]] = [{}]
    for spec in specs:
        position, _ = _split_name(spec, tensors)
        if position is None and spec.lower().endswith(".npz") and len(tensors) > 1:
            position = -1
        elif position is None:
            free = (i for i in range(len(tensors)) if i not in groups[-1])
            position = next(free, 0)
        if position in groups[-1] or (position < 0 and groups[-1]):
            groups.append({})
        groups[-1][position] = spec
    return groups


class _Loader:
    """Loads the inputs of one model.

    Args:
        model: The model, or its inputs.
        options: How inputs are loaded.
    """

    def __init__(self, model: Model | CompiledModel | Sequence[TensorSpec], options: LoadOptions) -> None:
        self.model: Model | None = None
        inner = getattr(model, "model", model)  # a CompiledModel has one
        if isinstance(model, (list, tuple)):
            self.tensors = list(model)
            for tensor in self.tensors:
                check_instance("an element of model", tensor, TensorSpec, "an input of a model, as in model.inputs")
        else:
            self.model = check_instance("model", inner, Model, "a Model, a CompiledModel or the inputs of one")
            self.tensors = self.model.inputs
        self.options = options
        self.arrays: dict[int, Array] = {}
        #: Inputs with their own text for generating values.
        self.generated: dict[int, GeneratedInput] = {}
        #: Inputs generated by a text without a name; other texts take precedence.
        self.filled: dict[int, GeneratedInput] = {}
        self.has_image = False

    def name_arrays(self, arrays: Mapping[int, Array]) -> dict[str | int, Array]:
        """Return arrays by name, or by position where the name is not unique."""
        names = index_names(self.tensors)
        pairs = enumerate(self.tensors)
        return {t.names[0] if t.names and names[t.names[0]] == i else i: arrays[i] for i, t in pairs}

    def load(self, specs: Iterable[str]) -> dict[int, Array]:
        """Return the inputs by position."""
        filler: GeneratedInput | None = None
        for spec in specs:
            position, text = _split_name(spec, self.tensors)
            generated = parse_generated(text)
            if position is not None:
                self.set(position, text)
            elif generated is None or generated.shape_text is not None:
                self.set_next(spec, text)
            else:
                free = self.find_free()
                if free is None:
                    raise self.make_excess_error(spec)
                filler = self.filled[free] = generated
        if filler is not None:
            while (free := self.find_free()) is not None:
                self.filled[free] = filler
        return self.finish()

    def load_positions(self, texts: Mapping[int, str], inherited: Mapping[int, Array]) -> dict[int, Array]:
        """Return the inputs by position; some have texts, the others have values."""
        self.arrays.update(inherited)
        for position, text in texts.items():
            self.set(position, text)
        return self.finish()

    def set(self, position: int, text: str, source: str | Pipe | None = None) -> None:
        """Load an input that a text specifies."""
        self.check_not_set(position)
        self.filled.pop(position, None)
        tensor = self.tensors[position]
        generated = parse_generated(text)
        if generated is not None:
            self.generated[position] = generated
            return
        if source is None:
            source = read_stdin() if text == STDIN else text
            if isinstance(source, Pipe) or text.lower().endswith(".npz"):
                check_member(source, tensor)
        self.arrays[position] = _load_source(source, tensor, self.options)
        self.has_image = self.has_image or _is_image(text)

    def set_next(self, spec: str, text: str) -> None:
        """Load the inputs that a text without a name specifies."""
        source = read_stdin() if text == STDIN else text
        with self.options.limit_memory():
            members = read_npz_by_name(source, self.tensors) if parse_generated(text) is None else {}
        for i, value in members.items():
            self.check_not_set(i)
            self.filled.pop(i, None)
            self.arrays[i] = value
        if not members:
            position = self.find_free()
            if position is None:
                position = next(iter(self.filled), None)
            if position is None:
                raise self.make_excess_error(spec)
            self.set(position, text, source)

    def find_free(self) -> int | None:
        """Return the first input that is not set, or None."""
        taken = {*self.arrays, *self.generated, *self.filled}
        return next((i for i in range(len(self.tensors)) if i not in taken), None)

    def check_not_set(self, position: int) -> None:
        if position in self.arrays or position in self.generated:
            raise InputError(f"found two values for input {self.tensors[position]}")

    def make_excess_error(self, spec: str) -> InputError:
        return InputError(f"too many inputs: expected {_format_inputs(self.tensors)}, found also {spec!r}")

    def finish(self) -> dict[int, Array]:
        """Generate the inputs that are not loaded, and return all inputs."""
        if self.options.image != ImageOptions() and not self.has_image:
            raise InputError(
                "layout, channels, mean and scale apply to image files only, and no input is an image file"
            )
        generated = self.generated | self.filled
        missing = [t for i, t in enumerate(self.tensors) if i not in self.arrays and i not in generated]
        if missing:
            raise InputError(
                f"missing input {_format_inputs(missing)}"
                + (f"; the model has {_format_inputs(self.tensors)}" if self.arrays or generated else "")
            )
        return self.arrays | (_generate(generated, self) if generated else {})


def _generate(generated: Mapping[int, GeneratedInput], loader: _Loader) -> dict[int, Array]:
    """Return inputs that are generated."""
    from irrun.data.dimensions import choose_dimensions
    from irrun.data.uses import IntegerUse, find_integer_uses

    tensors, options = loader.tensors, loader.options
    known = {i: tuple(array.shape) for i, array in loader.arrays.items()}
    for i, entry in generated.items():
        stated = entry.parse_shape(tensors[i])
        if stated is not None:
            known[i] = stated
        elif tensors[i].partial_shape is None:
            expected = f"{entry.kind}:1,3,224,224"
            raise InputError(f"input {tensors[i]} has an unknown rank, expected a shape such as {expected}")
    # The model checks the value against the declaration of the input.
    fits = all((declared := tensors[i].partial_shape) is None or declared.is_compatible(known[i]) for i in known)
    chosen = [i for i in generated if i not in known]
    is_dynamic = any(_has_dynamic_shape(tensors[i]) for i in chosen)
    draws_integers = any(entry.kind == "random" and _is_integer(tensors[i]) for i, entry in generated.items())
    model = loader.model if fits and (is_dynamic or draws_integers) else None
    dimensions = choose_dimensions(tensors, known, chosen, model)
    shapes = dimensions.shapes
    for i in chosen:
        if options.notify is not None and _has_dynamic_shape(tensors[i]):
            name = tensors[i].names[0] if tensors[i].names else str(i)
            options.notify(f"{name}: {tensors[i].partial_shape} -> {PartialShape(shapes[i])}")
    uses = [IntegerUse()] * len(tensors)
    if draws_integers and model is not None:
        uses = find_integer_uses(model, dimensions.inferred)
    return {i: e.generate(shapes[i], tensors[i], options.seed, i, uses[i]) for i, e in generated.items()}


def _has_dynamic_shape(tensor: TensorSpec) -> bool:
    return tensor.partial_shape is not None and tensor.partial_shape.is_dynamic


def _is_text(tensor: TensorSpec) -> bool:
    return tensor.element_type is not None and tensor.element_type.kind == "string"


def _is_integer(tensor: TensorSpec) -> bool:
    return tensor.element_type is not None and tensor.element_type.is_integer


def load_input(text: str, tensor: TensorSpec, options: LoadOptions | None = None) -> Array:
    """Load one input from a text.

    Args:
        text: The path of an .npy, .npz (`file.npz:key`), raw .bin, .json or image file; `-` for an .npy, .npz or
            .json file on stdin; JSON text; for strings also a .txt file of lines, or the string itself; or `random`,
            `zeros`, `ones`, which may be followed by a shape (`random:1,3,224,224`).
        tensor: The input. Its type and shape determine how JSON, raw bytes and images are read.
        options: Seed and image options.

    Returns:
        The array that the text specifies. The model validates its type and shape.

    Raises:
        InputError: The file does not exist or does not contain a value for this input.
    """
    return _load_source(read_stdin() if text == STDIN else text, tensor, options or LoadOptions())


def _load_source(text: str | Pipe, tensor: TensorSpec, options: LoadOptions) -> Array:
    if isinstance(text, Pipe):
        with options.limit_memory():
            return read_file(text, "", tensor)
    generated = parse_generated(text)
    if generated is not None:
        loader = _Loader([tensor], options)
        loader.generated[0] = generated
        return _generate(loader.generated, loader)[0]
    path, key = _split_key(text)
    suffix = path.suffix.lower()
    if _is_image(text):
        return load_image(path, tensor, options.image)
    is_string = suffix == ".txt" or not (text and os.path.exists(text))
    if _is_text(tensor) and is_string and suffix not in READERS:
        with options.limit_memory():
            return read_strings(text, tensor)
    if text.lstrip()[:1] in ("[", "{", '"') or _is_scalar(text):
        return parse_json(text, tensor, "the text")
    if suffix in READERS:
        with options.limit_memory():
            return read_file(path, key, tensor)
    if os.path.isfile(path):
        raise InputError(
            f"{path}: expected a .npy, .npz, .bin, .json or image file ({', '.join(IMAGE_SUFFIXES)}), found {suffix!r}"
        )
    if os.path.exists(path):
        kind = "a folder" if os.path.isdir(path) else "not a regular file"
        raise InputError(f"{text!r} is {kind}, expected a .npy, .npz, .bin, .json or image file for input {tensor}")
    hint = "; write lists as [1,2,3]" if re.match(r"\s*-?[\d.]+\s*,", text) else ""
    raise InputError(f"{text!r} is not a file, JSON, random, zeros or ones, for input {tensor}{hint}")


def _merge_options(
    options: LoadOptions,
    seed: int | None,
    layout: str | None,
    channels: str | None,
    mean: float | Sequence[float] | None,
    scale: float | Sequence[float] | None,
) -> LoadOptions:
    """Return options with some values replaced; None keeps a value."""
    if seed is not None:
        seed = check_integer("seed", seed, 0)
    if layout is not None:
        check_text("layout", layout, "a text such as 'NCHW'")
    if channels is not None and check_text("channels", channels, "'BGR' or 'RGB'").upper() not in ("BGR", "RGB"):
        raise InputError(f"expected the channels BGR or RGB, found {channels!r}")
    image = options.image
    image = ImageOptions(
        image.layout if layout is None else layout,
        image.channels if channels is None else channels.upper(),
        image.mean if mean is None else _to_numbers("mean", mean),
        image.scale if scale is None else _to_numbers("scale", scale),
    )
    return replace(options, seed=options.seed if seed is None else seed, image=image)


def _to_numbers(name: str, value: float | Sequence[float]) -> tuple[float, ...]:
    expected = "a number, or a list of numbers"
    values = np.ravel(value) if isinstance(value, np.ndarray) else value
    items = check_list(name, values, expected) if isinstance(values, Iterable) else [values]
    numbers = tuple(x if isinstance(x, float) else check_number(name, x, expected=expected) for x in items)
    if not all(map(math.isfinite, numbers)) or (name == "scale" and 0 in numbers):
        raise InputError(f"{name}: expected finite numbers{' other than 0' * (name == 'scale')}, found {value}")
    return numbers


def _is_image(text: str) -> bool:
    return text.lower().endswith(IMAGE_SUFFIXES) and os.path.isfile(text)


def _split_name(spec: str, tensors: Sequence[TensorSpec]) -> tuple[int | None, str]:
    """Split `name=value` into the position of the input (None without a name) and the value."""
    names = [pair for pair in index_names(tensors).items() if spec.startswith(pair[0] + "=")]
    if names:
        name, position = max(names, key=lambda pair: len(pair[0]))
        return position, spec[len(name) + 1 :]
    name, equals, rest = spec.partition("=")
    if equals and not os.path.exists(spec) and not re.match(r"\s*[\[{\"]", spec):
        if is_decimal(name) and len(name) < 10 and int(name) < len(tensors):
            return int(name), rest
        if any(map(_is_text, tensors)) and not re.fullmatch(r"[\w.:/-]+", name):
            return None, spec
        raise InputError(f"unknown input {name!r}; the model has {_format_inputs(tensors)}")
    return None, spec


def _split_key(text: str) -> tuple[Path, str]:
    """Split `file.npz:key` into path and key; the key of other texts is empty."""
    match = re.fullmatch(r"(.*\.npz):(.+)", text)
    return (Path(match[1]), match[2]) if match else (Path(text), "")


def _is_scalar(text: str) -> bool:
    """Return whether a text is a number or a boolean."""
    try:
        parse_float(text)
    except ValueError:
        return text.strip() in ("true", "false")
    return True


def _format_inputs(tensors: Sequence[TensorSpec]) -> str:
    return "; ".join(map(str, tensors)) or "no inputs"
