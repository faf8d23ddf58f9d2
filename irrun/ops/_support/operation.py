"""Operations, which the signatures of their kernels declare."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from irrun.arguments import check_choice, check_integer, check_list, check_text, describe_value
from irrun.errors import ModelError
from irrun.numerals import is_decimal
from irrun.ops._support.attributes import Attribute, to_parameter_name
from irrun.ops._support.card import Card, Folding, Kind
from irrun.ops._support.context import BodyRunner, InputShapes, OutputCount, State, Variables
from irrun.ops._support.flops import Call
from irrun.ops._support.index_range import IndexRange

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from irrun.ops._support.card import CardFields

__all__ = ["Input", "Operation", "StructuralOperation"]

Array = np.ndarray[Any, Any]

#: Maximum number of attributes per layer, and of layers per operation, for keeping converted attributes.
MAX_CACHED_ATTRIBUTES, MAX_CACHED_LAYERS = 20, 256
#: Keyword-only parameters of these types are not attributes: the runtime passes them.
PROVIDED_TYPES = (BodyRunner, InputShapes, OutputCount, State, Variables)


def check_operation_list(operations: Any) -> list[Operation]:
    """Return the custom operations that an argument lists.

    Raises:
        TypeError: An element is not an operation.
        InputError: The argument is not a list.
    """
    if isinstance(operations, Operation):
        raise TypeError(f"operations is the operation {operations}, expected a list of operations")
    found = check_list("operations", operations, "a list of operations")
    for operation in found:
        if not isinstance(operation, Operation):
            shown = describe_value(operation)
            raise TypeError(f"expected operations, found {shown}; see Operation.from_function")
    return found


class Input(NamedTuple):
    """An input port of an operation.

    Attributes:
        name: The name of the kernel's parameter.
        optional: Whether the input may be omitted.
        variadic: Whether it represents any number of ports.
    """

    name: str
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True, eq=False)
class Operation(Card):
    """An operation: a type, a version, its kernel and its card.

    The kernel's positional parameters are the input ports, its keyword-only parameters the attributes. The fields of
    its `Card` hold all other facts about the operation.

    Attributes:
        type: The type, as in `layer` elements.
        since: The first numbered opset that contains this version; 0 for an operation outside of them.
        opset: The name of the opset of an operation outside the numbered ones, else None.
        kernel: The function that computes it.
        category: The category of the specification.
    """

    type: str
    since: int
    opset: str | None
    kernel: Callable[..., Any]
    category: str = ""

    def __str__(self) -> str:
        return f"{self.type}-{self.opset or self.since}"

    @staticmethod
    def from_function(
        function: Callable[..., Any],
        operation_type: str,
        *,
        since: int | None = None,
        opset: str | None = None,
        category: str = "extension",
        **card: Unpack[CardFields],
    ) -> Operation:
        """Declare a function as the kernel of an operation, for `compile_model(..., operations=[...])`.

        Args:
            function: The kernel; see `irrun.op` for its signature.
            operation_type: The type, as in `layer` elements.
            since: The first numbered opset that contains this version.
            opset: The name of the opset of an operation outside the numbered ones, such as "extension".
            category: The category of the specification.
            card: More facts about the operation; see `Card`.

        Raises:
            TypeError: Neither or both of `since` and `opset` are passed, `opset` is a numbered opset, `function` is not
                a function, or one of its parameters is neither an input nor an attribute of a supported type.
        """
        if (since is None) == (opset is None):
            raise TypeError("an operation requires either since= or opset=")
        check_text("operation_type", operation_type, "the type of a layer")
        if not inspect.isfunction(function):
            raise TypeError(f"the kernel of {operation_type} must be a function, found {function!r}")
        check_text("category", category)
        if opset is not None:
            check_text("opset", opset, "the name of an opset, such as 'extension'")
            if opset.startswith("opset") and is_decimal(opset[len("opset") :]):
                raise TypeError(f"{opset} is a numbered opset, expected since={int(opset[len('opset') :])}")
        if since is not None:
            since = check_integer("since", since, 1)
        for name, choices in (("kind", typing.get_args(Kind)), ("folding", typing.get_args(Folding))):
            if name in card:
                check_choice(name, card.get(name), choices)
        return Operation(operation_type, since or 0, opset, function, category, **card)

    @cached_property
    def _parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.kernel).parameters.values())

    @cached_property
    def _hints(self) -> dict[str, Any]:
        """Annotations of the keyword-only parameters; annotations of inputs are not used and may not resolve."""
        function: Any = inspect.unwrap(self.kernel)
        keywords = {p.name: p.annotation for p in self._parameters if p.kind is p.KEYWORD_ONLY}
        annotated = types.SimpleNamespace(
            __annotations__={n: a for n, a in keywords.items() if a is not inspect.Parameter.empty}
        )
        return typing.get_type_hints(annotated, function.__globals__)

    def check_signature(self) -> None:
        """Check that each parameter of the kernel is an input or an attribute of a supported type.

        Raises:
            TypeError: A parameter is not supported.
        """
        for p in self._parameters:
            if p.kind is p.VAR_KEYWORD:
                raise TypeError(
                    f"{self}: **{p.name} is not supported, declare each attribute as a keyword-only parameter"
                )
        try:
            attributes = self.attributes
        except NameError as error:
            raise TypeError(f"{self}: an annotation cannot be resolved: {error}") from error
        for attribute in attributes:
            if not attribute.is_supported:
                raise TypeError(
                    f"{self}: attribute {attribute.name} is annotated {attribute.type}; "
                    "expected bool, int, float, str, ElementType, PartialShape, Literal, or a list of one of these"
                )

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """The input ports, in order."""
        inputs = []
        for p in self._parameters:
            if p.kind is p.VAR_POSITIONAL:
                inputs.append(Input(p.name, optional=True, variadic=True))
            elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                inputs.append(Input(p.name, optional=p.default is not p.empty))
        return tuple(inputs)

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes, in the order of the signature."""
        return tuple(
            Attribute(p.name, self._hints.get(p.name, str), p.default)
            for p in self._parameters
            if p.kind is p.KEYWORD_ONLY and self._hints.get(p.name) not in PROVIDED_TYPES
        )

    @cached_property
    def provided(self) -> dict[str, Any]:
        """Keyword-only parameters that the runtime passes: bodies, variables, state, declarations of ports."""
        return {
            p.name: self._hints[p.name]
            for p in self._parameters
            if p.kind is p.KEYWORD_ONLY and self._hints.get(p.name) in PROVIDED_TYPES
        }

    @cached_property
    def _by_name(self) -> dict[str, Attribute]:
        return {a.name: a for a in self.attributes}

    @cached_property
    def _bound(self) -> dict[tuple[tuple[str, str], ...], dict[str, Any]]:
        """The results of `bind` for the attributes of layers, which models repeat many times."""
        return {}

    @cached_property
    def _required(self) -> frozenset[str]:
        return frozenset(a.name for a in self.attributes if a.required)

    def bind(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a layer's attributes to keyword arguments for the kernel; unknown ones are ignored.

        Raises:
            ModelError: A required attribute is missing, or a value is not of the attribute's type.
        """
        texts = tuple(attributes.items())
        if len(texts) > MAX_CACHED_ATTRIBUTES or not all(type(v) is str and len(v) < 64 for v in attributes.values()):
            return self._bind(attributes)
        bound = self._bound.get(texts)
        if bound is None:
            bound = self._bind(attributes)
            if len(self._bound) < MAX_CACHED_LAYERS:
                self._bound[texts] = bound
        return {name: value.copy() if type(value) is list else value for name, value in bound.items()}

    def _bind(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        bound: dict[str, Any] = {}
        known = self._by_name
        for name, value in attributes.items():
            attribute = known.get(name) or known.get(to_parameter_name(name))
            if attribute is None:
                continue
            try:
                bound[attribute.name] = attribute.convert(value)
            except ValueError as error:
                raise ModelError(
                    f"attribute {name}={value!r} of {self}: {error}, expected {attribute.type_name}"
                ) from None
        missing = self._required - bound.keys()
        if missing:
            raise ModelError(self._describe_missing(missing, attributes))
        return bound

    def find_invalid_attributes(self, attributes: Mapping[str, Any]) -> Iterator[str]:
        """Find the attributes of a layer that are missing, invalid or misspelled.

        Args:
            attributes: The attributes of the layer.

        Yields:
            One message per attribute.
        """
        bound = set()
        for name, value in attributes.items():
            attribute = self._by_name.get(name) or self._by_name.get(to_parameter_name(name))
            if attribute is not None:
                bound.add(attribute.name)
                try:
                    self.bind({name: value, **dict.fromkeys(self._required - {attribute.name})})
                except ModelError as error:
                    yield error.message
        misspelled = self.find_misspelled(attributes)
        for name, meant in misspelled.items():
            yield f"{self} does not have the attribute {name}; did you mean {meant}?"
        missing = self._required - bound - set(misspelled.values())
        if missing:
            yield self._describe_missing(missing, {})

    def find_misspelled(self, attributes: Mapping[str, Any]) -> dict[str, str]:
        """Find unknown attributes that are similar to one that the layer does not have.

        Args:
            attributes: The attributes of the layer.

        Returns:
            The name in `attributes` -> the name that was probably meant.
        """
        absent = self._by_name.keys() - {to_parameter_name(name) for name in attributes}
        misspelled = {}
        for name in self.find_unknown(attributes):
            import difflib

            similar = difflib.get_close_matches(to_parameter_name(name), sorted(absent), 1, 0.75)
            if similar:
                misspelled[name] = similar[0]
        return misspelled

    def _describe_missing(self, missing: Iterable[str], attributes: Mapping[str, Any]) -> str:
        """Return the message for required attributes that a layer does not have."""
        misspelled = {meant: name for name, meant in self.find_misspelled(attributes).items()}
        shown = (f"{m} (found {misspelled[m]})" if m in misspelled else m for m in sorted(missing))
        return f"{self} requires the attribute {', '.join(shown)}"

    def check_inputs(self, connected: Sequence[bool]) -> None:
        """Check that a layer has the inputs that the operation requires.

        Args:
            connected: Whether each input port of the layer is connected.

        Raises:
            ModelError: A required input is not connected, or there are too many.
        """
        declared = self.inputs
        if len(connected) > len(declared) and not (declared and declared[-1].variadic):
            raise ModelError(f"{self} has {len(declared)} inputs, but {len(connected)} are connected")
        for i, port in enumerate(declared):
            if not port.optional and not (i < len(connected) and connected[i]):
                raise ModelError(f"{self} requires input {i} ({port.name}), but it is not connected")
        if declared and declared[-1].variadic and not self._accepts_gaps:
            for i in range(len(declared) - 1, len(connected)):
                if not connected[i]:
                    raise ModelError(f"{self} requires input {i} ({declared[-1].name}), but it is not connected")

    @cached_property
    def _accepts_gaps(self) -> bool:
        """Whether variadic inputs may be unconnected, because no body reads them or the kernel accepts None."""
        annotations = [p.annotation for p in self._parameters if p.kind is p.VAR_POSITIONAL]
        # The annotations of inputs may not resolve.
        is_nullable = any(
            a is inspect.Parameter.empty or re.search(r"\b(None|Optional|Any)\b", str(a)) for a in annotations
        )
        return is_nullable or BodyRunner in self.provided.values()

    def count_flops(
        self, inputs: Sequence[Array | None], outputs: Sequence[Array], attributes: Mapping[str, Any]
    ) -> int | None:
        """Count the arithmetic operations of one call.

        Args:
            inputs: The inputs; None for an optional input that is not connected.
            outputs: The outputs.
            attributes: The attributes as `bind` returns them.

        Returns:
            The number, two per multiply-add; None if the operation does not declare one.
        """
        if self.flops is None or isinstance(self.flops, int):
            return None if self.flops is None else self.flops * outputs[0].size
        return self.flops(self._make_call(inputs, outputs, attributes))

    def find_index_range(
        self, inputs: Sequence[Array | None], outputs: Sequence[Array], attributes: Mapping[str, Any]
    ) -> IndexRange | None:
        """Return the indices of one call that the kernel does not check, with their valid range.

        Args:
            inputs: The inputs; None for an optional input that is not connected.
            outputs: The outputs.
            attributes: The attributes as `bind` returns them.
        """
        return None if self.index_range is None else self.index_range(self._make_call(inputs, outputs, attributes))

    def _make_call(
        self, inputs: Sequence[Array | None], outputs: Sequence[Array], attributes: Mapping[str, Any]
    ) -> Call:
        defaults = {a.name: a.default for a in self.attributes if not a.required}
        return Call(inputs, outputs, {**defaults, **attributes})

    @property
    def is_custom(self) -> bool:
        """Whether a user registered the operation."""
        return not (getattr(self.kernel, "__module__", None) or "").startswith("irrun.")

    def find_unknown(self, attributes: Mapping[str, Any]) -> list[str]:
        """Return the names in `attributes` that the operation does not have."""
        known = self._by_name
        return [n for n in attributes if n not in known and to_parameter_name(n) not in known]


class StructuralOperation(Operation):
    """An operation that belongs to the structure of a graph. It is handled by lowering and does not have a kernel.

    Args:
        operation_type: The type, as in `layer` elements.
        since: The first opset that contains it.
        category: The category of the specification.
        summary: The description, one sentence.
        inputs: Its input ports.
        attributes: Its attributes.
        aliases: Other names of the type in files.
    """

    summary: str

    def __init__(
        self,
        operation_type: str,
        since: int,
        category: str,
        summary: str,
        inputs: Sequence[Input] = (),
        attributes: Sequence[Attribute] = (),
        aliases: tuple[str, ...] = (),
    ) -> None:
        super().__init__(
            operation_type, since, None, _refuse_to_run, category, folding="never", flops=0, aliases=aliases
        )
        for name, value in (("summary", summary), ("inputs", tuple(inputs)), ("attributes", tuple(attributes))):
            self.__dict__[name] = value
        self.__dict__["provided"] = {}


def _refuse_to_run(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("a structural operation has no kernel")
