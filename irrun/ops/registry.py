"""The table of kernels, written by the kernels themselves.

A kernel's signature is the operation's specification: positional parameters are the input ports, keyword-only
parameters are the attributes. `@op` registers the function as it is; everything else (conversion of the XML's
strings, help, completeness checks) is read from the signature.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar, Union

from irrun.elements import ElementType
from irrun.errors import ModelError
from irrun.ops.context import Body, OutputCount, State, Variables

__all__ = ["ALIASES", "Attribute", "Input", "Operation", "find", "op", "operations", "resolver"]

Function = TypeVar("Function", bound=Callable[..., Any])

#: Keyword-only parameters of these types are no attributes: lowering hands them in.
PROVIDED = (Body, OutputCount, State, Variables)

#: Other names found in files -> the operation's own; spellings that differ in case alone are known without.
ALIASES = {
    "Const": "Constant",
    "Pow": "Power",
    "Ceil": "Ceiling",
    "MatrixNonMaxSuppression": "MatrixNms",
    "MulticlassNonMaxSuppression": "MulticlassNms",
}

#: Attribute names of the specification -> those that OpenVINO writes in their place.
ATTRIBUTE_ALIASES = {"right": "right_mode", "sort_result": "sort_result_type"}


@dataclass(frozen=True)
class Input:
    """One input port: its name, whether it may be left out, whether it stands for any number of ports."""

    name: str
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True)
class Attribute:
    """One attribute: the name of the specification, its type, its default (`required` where it has none)."""

    name: str
    type: Any
    default: Any = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def type_name(self) -> str:
        """The type as a person reads it, such as "list of int" or "one of 'floor', 'ceil'"."""
        inner, optional = _strip_optional(self.type)
        if typing.get_origin(inner) is Literal:
            name = "one of " + ", ".join(repr(choice) for choice in typing.get_args(inner))
        elif typing.get_origin(inner) is list:
            name = f"list of {typing.get_args(inner)[0].__name__}"
        else:
            name = "element type" if inner is ElementType else inner.__name__
        return name + (" (optional)" if optional else "")

    def convert(self, value: Any) -> Any:
        """The XML's text as a value of the attribute's type; values that are no strings pass through.

        Raises:
            ValueError: the text is not of that type.
        """
        if not isinstance(value, str):
            return value
        inner, optional = _strip_optional(self.type)
        if optional and (not value.strip() or (inner is ElementType and value.strip() in ("dynamic", "undefined"))):
            return None
        return _convert(value, inner)


@dataclass(frozen=True)
class Operation:
    """A registered operation: a type, the first opset (or the name of an extension's opset), its kernel."""

    type: str
    since: int
    opset: str | None
    kernel: Callable[..., Any]
    category: str = field(default="")
    deterministic: bool = True

    def __str__(self) -> str:
        return f"{self.type}-{self.opset or self.since}"

    @cached_property
    def _parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.kernel).parameters.values())

    @cached_property
    def _hints(self) -> dict[str, Any]:
        """The annotations of the keyword-only parameters; those of inputs mean nothing here, and may not resolve."""
        function: Any = inspect.unwrap(self.kernel)
        given = {p.name: p.annotation for p in self._parameters if p.kind is p.KEYWORD_ONLY}
        own = types.SimpleNamespace(
            __annotations__={n: a for n, a in given.items() if a is not inspect.Parameter.empty}
        )
        return typing.get_type_hints(own, function.__globals__)

    def check_signature(self) -> None:
        """Raise TypeError where a parameter of the kernel is neither an input nor an attribute that can be read."""
        for p in self._parameters:
            if p.kind is p.VAR_KEYWORD:
                raise TypeError(f"{self}: **{p.name} takes no attributes, each is a keyword-only parameter of its own")
        try:
            attributes = self.attributes
        except NameError as error:
            raise TypeError(f"{self}: an annotation cannot be resolved: {error}") from error
        for attribute in attributes:
            inner, _ = _strip_optional(attribute.type)
            if typing.get_origin(inner) is list:
                (inner,) = typing.get_args(inner)
            if inner not in (bool, int, float, str, ElementType) and typing.get_origin(inner) is not Literal:
                raise TypeError(
                    f"{self}: attribute {attribute.name} is annotated {attribute.type}; "
                    "expected bool, int, float, str, ElementType, Literal, or a list of one of these"
                )

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """The input ports, in order."""
        found = []
        for p in self._parameters:
            if p.kind is p.VAR_POSITIONAL:
                found.append(Input(p.name, optional=True, variadic=True))
            elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                found.append(Input(p.name, optional=p.default is not p.empty))
        return tuple(found)

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes, in the order of the signature."""
        return tuple(
            Attribute(p.name, self._hints.get(p.name, str), p.default)
            for p in self._parameters
            if p.kind is p.KEYWORD_ONLY and self._hints.get(p.name) not in PROVIDED
        )

    @cached_property
    def provided(self) -> dict[str, Any]:
        """Keyword-only parameters that lowering hands in: bodies, variables, state, the outputs wanted."""
        return {
            p.name: self._hints[p.name]
            for p in self._parameters
            if p.kind is p.KEYWORD_ONLY and self._hints.get(p.name) in PROVIDED
        }

    @cached_property
    def _by_name(self) -> dict[str, Attribute]:
        return {a.name: a for a in self.attributes}

    @cached_property
    def _required(self) -> frozenset[str]:
        return frozenset(a.name for a in self.attributes if a.required)

    def bind(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments for the kernel from a layer's attributes; those it does not know are left out.

        Raises:
            ModelError: a required attribute is missing, or one has a value that is not of its type.
        """
        bound: dict[str, Any] = {}
        known = self._by_name
        for name, text in given.items():
            attribute = known.get(name) or known.get(_parameter_name(name))
            if attribute is None:
                continue
            try:
                bound[attribute.name] = attribute.convert(text)
            except ValueError as error:
                raise ModelError(
                    f"attribute {name}={text!r} of {self}: {error}, expected {attribute.type_name}"
                ) from None
        missing = self._required - bound.keys()
        if missing:
            raise ModelError(f"{self} needs the attribute {', '.join(sorted(missing))}")
        return bound

    def unknown(self, given: Mapping[str, Any]) -> list[str]:
        """The names in `given` that the operation has no attribute for."""
        known = self._by_name
        return [n for n in given if n not in known and _parameter_name(n) not in known]


def _parameter_name(attribute: str) -> str:
    """The parameter for an attribute whose name is none in Python.

    "exclude-pad" is exclude_pad, "auto_broadcast.auto_broadcast_axis" is auto_broadcast_axis.
    """
    name = attribute.rpartition(".")[2].replace("-", "_")
    return ATTRIBUTE_ALIASES.get(name, name)


_numbered: dict[str, list[Operation]] = {}
_extensions: dict[tuple[str, str], Operation] = {}
_spellings: dict[str, str] = {}  # the names of the numbered operations by their lower case

#: From all versions of an operation to the one that a layer of some other opset means.
Resolver = Callable[[Sequence[Operation]], Operation]
_resolvers: dict[str, Resolver] = {}


def op(
    type: str,
    *,
    since: int | None = None,
    opset: str | None = None,
    category: str | None = None,
    deterministic: bool = True,
) -> Callable[[Function], Function]:
    """Register the decorated function as the kernel of an operation, and return it unchanged.

    Its positional parameters are the input ports, in order: arrays, None for one that is left out where that is the
    default, `*rest` for any number. Its keyword-only parameters are the attributes, of the types that their
    annotations name (bool, int, float, str, ElementType, Literal, lists of these; `| None` where the text may be
    empty), required where they have no default. It returns an array, or a tuple of one array per output port.

        @irrun.op("MyOp", opset="extension")
        def my_op(data, scale=None, *, axes: list[int], mode: Literal["add", "mul"] = "add"): ...

    An operation that is registered again, irrun's own too, is replaced in models compiled from then on.

    Args:
        type: the operation's type, as `layer` elements name it.
        since: the first numbered opset that holds this version.
        opset: for an operation outside the numbered opsets, the name of its own ("extension").
        category: the specification's category; taken from the module when left out.
        deterministic: whether equal inputs always give equal results, so that constants may be folded.

    Raises:
        TypeError: neither or both of `since` and `opset` are given, or what is decorated is no function, or has a
            parameter that is neither an input nor an attribute that can be read.
    """
    if (since is None) == (opset is None):
        raise TypeError("op() takes either since= or opset=")

    def register(function: Function) -> Function:
        if not inspect.isfunction(function):
            raise TypeError(f"op() decorates a function, whose signature says what {type} takes, not {function!r}")
        module = function.__module__
        home = module.split(".")[2] if module.startswith("irrun.ops.") else "extension"
        operation = Operation(type, since or 0, opset, function, category or home, deterministic)
        if not module.startswith("irrun.ops."):  # those here are tested, and reading them all takes time
            operation.check_signature()
        if opset is not None:
            _extensions[opset, type] = operation
        else:
            versions = [o for o in _numbered.get(type, ()) if o.since != since]
            _numbered[type] = sorted([*versions, operation], key=lambda o: o.since)
            _spellings[type.lower()] = type
        return function

    return register


def resolver(opset: str) -> Callable[[Resolver], Resolver]:
    """Register the decorated function: it makes the operations of `opset` from those of the numbered opsets."""

    def register(function: Resolver) -> Resolver:
        _resolvers[opset] = function
        return function

    return register


def _load() -> None:
    import irrun.ops.catalog  # noqa: F401  (importing the modules registers their kernels)


def find(type: str, version: str) -> Operation | None:
    """The operation that a layer of `type` and `version` ("opset8", "extension", "") means, or None.

    An opset older than the operation's first version gets that first version: files in the wild say
    "opset1" for operations that came later. Upper and lower case are the same in names of numbered operations,
    as in OpenVINO: files and the specification itself say "ReLU", "SoftMax" and "Prelu".
    """
    _load()
    own = ALIASES.get(type, type)
    own = _spellings.get(own.lower(), own)
    if version in _resolvers:
        versions = _numbered.get(own)
        return _resolvers[version](versions) if versions else None
    if version and not version.startswith("opset"):
        found = _extensions.get((version, type)) or _extensions.get((version, own)) or _any_extension(type)
        if found or version not in ("extension", "experimental") or own not in _numbered:
            return found
        version = "opset6"  # files of 2020 call operations so that opset 6 took in
    digits = version[5:]
    if digits and not (digits.isdecimal() and len(digits) < 10):
        return None
    number = int(digits) if digits else 1
    versions = _numbered.get(own)
    if not versions:
        return _any_extension(type)
    return max((o for o in versions if o.since <= number), key=lambda o: o.since, default=versions[0])


def _any_extension(type: str) -> Operation | None:
    return next((o for (_, name), o in _extensions.items() if name == type), None)


def operations() -> Iterator[Operation]:
    """Every registered operation: the numbered ones by type and version, then the extensions."""
    _load()
    for type in sorted(_numbered):
        yield from _numbered[type]
    for key in sorted(_extensions):
        yield _extensions[key]


def _strip_optional(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) in (Union, types.UnionType):
        rest = [a for a in typing.get_args(annotation) if a is not type(None)]
        return rest[0], len(rest) < len(typing.get_args(annotation))
    return annotation, False


_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


def _convert(text: str, kind: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin is Literal:
        return _choose(text, typing.get_args(kind))
    if origin is list:
        (inner,) = typing.get_args(kind)
        text = text.strip().removesuffix(",")  # which OpenVINO passes over
        return [_convert(part.strip(), inner) for part in text.split(",")] if text else []
    if kind is bool:
        lowered = text.strip().lower()
        if lowered in _TRUE:
            return True
        if lowered in _FALSE:
            return False
        raise ValueError("not a boolean")
    if kind is int:
        return _integer(text)
    if kind is float:
        return float(text)
    if kind is ElementType:
        return ElementType.parse(text)
    return text


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        number = float(text)  # "1.0" and "1e3" occur in files of old converters
        if not number.is_integer():
            raise ValueError("not an integer") from None
        return int(number)


def _choose(text: str, choices: Sequence[Any]) -> Any:
    if text in choices:
        return text
    by_lower = {str(choice).lower(): choice for choice in choices}
    try:
        return by_lower[text.strip().lower()]
    except KeyError:
        raise ValueError("not one of the allowed values") from None
