"""The registry of operations.

A kernel's signature is the operation's declaration: positional parameters are the input ports, keyword-only
parameters are the attributes. `@op` registers the function and returns it unchanged. The modules of irrun's own
kernels are imported when a model requires them (see `autoload`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from irrun.numerals import is_decimal
from irrun.ops._support.autoload import load_all, load_kernels, load_opset
from irrun.ops._support.card import Card
from irrun.ops._support.operation import Operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from irrun.ops._support.card import CardFields

__all__ = ["Registry", "find", "get_card", "list_operations", "op", "register", "register_resolver"]

Function = TypeVar("Function", bound=Callable[..., Any])

#: Derives the operation of an opset from all numbered versions of its type.
Resolver = Callable[[Sequence[Operation]], Operation]


class Registry:
    """Operations by type and version.

    Args:
        operations: The operations to start with.
        fallback: The registry for types and versions that this one does not contain.
    """

    def __init__(self, operations: Iterable[Operation] = (), fallback: Registry | None = None) -> None:
        self._numbered: dict[str, list[Operation]] = {}
        self._extensions: dict[tuple[str, str], Operation] = {}
        self._spellings: dict[str, str] = {}  # types of numbered operations by their names in lower case
        self._fallback = fallback
        if isinstance(operations, Operation):
            raise TypeError(f"operations is the operation {operations}, expected a list of operations")
        for operation in operations:
            self.add(operation)

    def add(self, operation: Operation) -> None:
        """Add an operation. It replaces an operation of the same type and version."""
        if not isinstance(operation, Operation):
            raise TypeError(f"expected operations, found {operation!r}; see Operation.from_function")
        if operation.opset is not None:
            self._extensions[operation.opset, operation.type] = operation
            return
        versions = [o for o in self._numbered.get(operation.type, ()) if o.since != operation.since]
        self._numbered[operation.type] = sorted([*versions, operation], key=lambda o: o.since)
        self._spellings[operation.type.lower()] = operation.type
        for alias in operation.aliases:
            self._spellings.setdefault(alias.lower(), operation.type)

    def find(self, operation_type: str, version: str) -> Operation | None:
        """Return the operation of a layer, or None if it is unsupported.

        If the opset of a layer is older than the first version of the operation, that first version is returned,
        because there are files with "opset1" for later operations. As in OpenVINO, the case of numbered types does not
        matter: files and the specification contain "ReLU", "SoftMax" and "Prelu".

        Args:
            operation_type: The type that the layer states.
            version: The opset that the layer states: "opset8", "extension", "", ...
        """
        load_kernels(operation_type)
        load_opset(version)
        canonical_type = self._get_spelling(operation_type)
        load_kernels(canonical_type)
        versions = self._get_versions(canonical_type)
        if version in _resolvers:
            return _resolvers[version](versions) if versions else None
        if version and not version.startswith("opset"):
            operation = (
                self._get_extension(version, operation_type)
                or self._get_extension(version, canonical_type)
                or self._find_any_extension(operation_type)
            )
            if operation or version not in ("extension", "experimental") or not versions:
                return operation
            version = "opset6"  # files of 2020 use these names for operations that opset 6 adopted
        digits = version[len("opset") :]
        if digits and not (is_decimal(digits) and len(digits) < 10):
            return None
        if not versions:
            return self._find_any_extension(operation_type)
        number = int(digits) if digits else 1
        return max((o for o in versions if o.since <= number), key=lambda o: o.since, default=versions[0])

    def list_operations(self) -> Iterator[Operation]:
        """Yield every operation of this registry: numbered opsets by type and version, then all others."""
        for operation_type in sorted(self._numbered):
            yield from self._numbered[operation_type]
        for key in sorted(self._extensions):
            yield self._extensions[key]

    def _get_spelling(self, operation_type: str) -> str:
        inherited = self._fallback._get_spelling(operation_type) if self._fallback else operation_type
        return self._spellings.get(operation_type.lower(), inherited)

    def _get_versions(self, operation_type: str) -> list[Operation]:
        versions = {o.since: o for o in self._fallback._get_versions(operation_type)} if self._fallback else {}
        versions.update((o.since, o) for o in self._numbered.get(operation_type, ()))
        return [versions[since] for since in sorted(versions)]

    def _get_extension(self, opset: str, operation_type: str) -> Operation | None:
        operation = self._extensions.get((opset, operation_type))
        return operation or (self._fallback._get_extension(opset, operation_type) if self._fallback else None)

    def _find_any_extension(self, operation_type: str) -> Operation | None:
        operation = next((o for (_, name), o in self._extensions.items() if name == operation_type), None)
        return operation or (self._fallback._find_any_extension(operation_type) if self._fallback else None)


_registry = Registry()
_resolvers: dict[str, Resolver] = {}


def op(
    operation_type: str,
    *,
    since: int | None = None,
    opset: str | None = None,
    category: str | None = None,
    **card: Unpack[CardFields],
) -> Callable[[Function], Function]:
    """Register the decorated function as the kernel of an operation, for all models of the process.

    Positional parameters of the function are the input ports, in order. A kernel gets arrays, or None for an
    optional input that is not connected; `*rest` takes any number of inputs. Keyword-only parameters are the
    attributes. Their annotations name the types that the texts of the XML are converted to: bool, int, float, str,
    ElementType, PartialShape, Literal, or lists of these; `| None` where the text may be empty. Attributes without
    a default are required. The function returns an array, or a tuple with one array per output port::

        @irrun.op("MyOp", opset="extension")
        def my_op(data, scale=None, *, axes: list[int], mode: Literal["add", "mul"] = "add"): ...

    If an operation is already registered, even by irrun itself, models that are compiled afterwards use the new one. To
    use an operation in one model only, see `Operation.from_function`.

    Args:
        operation_type: The type, as in `layer` elements.
        since: The first numbered opset that contains this version.
        opset: The name of the opset of an operation outside the numbered ones, such as "extension".
        category: The category of the specification; by default the module's category, or "extension".
        card: More facts about the operation, all optional. The most useful are `kind`, such as "elementwise";
            `folding`, "never" for operations with results that differ between runs; and `flops`, the number of
            arithmetic operations for `irrun profile`: per element of the first output, or a function of a `Call` with
            `inputs`, `outputs` and `attributes`. See `Card` for the others.

    Raises:
        TypeError: Neither or both of `since` and `opset` are passed, the decorated object is not a function, or one of
            its parameters is neither an input nor an attribute of a supported type.
    """
    if (since is None) == (opset is None):
        raise TypeError("op() requires either since= or opset=")

    def decorate(function: Function) -> Function:
        module = getattr(function, "__module__", None) or ""
        is_builtin = module.startswith("irrun.ops.")
        default_category = module.split(".")[2] if is_builtin else "extension"
        operation = Operation.from_function(
            function,
            operation_type,
            since=since,
            opset=opset,
            category=default_category if category is None else category,
            **card,
        )
        if not is_builtin:  # irrun's own signatures are checked by a test
            operation.check_signature()
            load_kernels(operation_type)  # otherwise loading them later would replace this one
        _registry.add(operation)
        return function

    return decorate


def register(operation: Operation) -> None:
    """Register an operation for all models of the process. It replaces an operation of the same type and version."""
    if not (operation.kernel.__module__ or "").startswith("irrun.ops."):
        load_kernels(operation.type)  # otherwise loading them later would replace this one
    _registry.add(operation)


def register_resolver(opset: str) -> Callable[[Resolver], Resolver]:
    """Register the decorated function, which derives the operations of `opset` from the numbered ones."""

    def decorate(function: Resolver) -> Resolver:
        _resolvers[opset] = function
        return function

    return decorate


def find(operation_type: str, version: str, operations: Sequence[Operation] = ()) -> Operation | None:
    """Return the operation of a layer, or None if it is unsupported; see `Registry.find`.

    Args:
        operation_type: The type that the layer states.
        version: The opset that the layer states.
        operations: Operations that take precedence over the registered ones.
    """
    registry = Registry(operations, fallback=_registry) if operations else _registry
    return registry.find(operation_type, version)


def get_card(operation_type: str, version: str) -> Card:
    """Return the card of the operation of a layer; an empty one if the operation is unsupported.

    Args:
        operation_type: The type that the layer states.
        version: The opset that the layer states.
    """
    return _registry.find(operation_type, version) or Card()


def list_operations() -> Iterator[Operation]:
    """Yield every registered operation: numbered opsets by type and version, then all others."""
    load_all()
    yield from _registry.list_operations()
