"""`PartialShape` and `Shape`: the mutable shapes of OpenVINO's API, and its small lists of integers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import index
from typing import Any, overload

from irrun import shapes
from irrun.openvino.dimension import LARGEST, Dimension, parse_dimension

__all__ = [
    "AxisSet",
    "AxisVector",
    "Coordinate",
    "CoordinateDiff",
    "PartialShape",
    "Shape",
    "Strides",
]


class _Integers:
    """A list of integers of fixed length, with the little that OpenVINO's lists support.

    Args:
        values: The integers.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self._values = [index(value) for value in values]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def __str__(self) -> str:
        return ", ".join(map(str, self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return type(self)(self._values[key])
        return self._values[key]

    def __setitem__(self, key: int, value: int) -> None:
        self._values[key] = index(value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (_Integers, list, tuple)):
            return self._values == list(other)
        return NotImplemented


class _Axes(_Integers):
    """Axes, printed with their class."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {{{', '.join(map(str, self))}}}>"

    __str__ = __repr__


class AxisVector(_Axes):
    """Axes in an order."""


class Coordinate(_Integers):
    """The position of an element."""

    def __repr__(self) -> str:
        return "<Coordinate>"

    __str__ = __repr__


class CoordinateDiff(_Integers):
    """Differences of positions, such as padding."""

    def __repr__(self) -> str:
        return f"<CoordinateDiff: {tuple(self._values)}>"


class Strides(_Integers):
    """Steps along each axis."""

    def __repr__(self) -> str:
        return f"<Strides: {tuple(self._values)}>"


class AxisSet(_Axes):
    """Distinct axes in ascending order."""

    def __init__(self, axes: Iterable[Any] = ()) -> None:
        super().__init__(sorted(set(axes)))


class Shape(_Integers):
    """A static shape.

    Args:
        axis_lengths: The lengths, another shape, or a text such as "[1,3]".

    Raises:
        TypeError: A length is negative, or the argument is of another type.
        RuntimeError: A text is not a shape.
    """

    def __init__(self, axis_lengths: Iterable[Any] | str = ()) -> None:
        values: Any = PartialShape(axis_lengths).to_shape() if isinstance(axis_lengths, str) else axis_lengths
        try:
            lengths = [index(length) for length in values]
        except TypeError:
            lengths = [-1]
        if any(length < 0 for length in lengths):
            raise TypeError(
                "__init__(): incompatible constructor arguments: expected non-negative lengths. "
                f"Invoked with: {axis_lengths}"
            )
        super().__init__(lengths)

    def __str__(self) -> str:
        return f"[{','.join(map(str, self._values))}]"

    def __getitem__(self, key: Any) -> Any:
        return Shape(self._values[key]) if isinstance(key, slice) else self._values[key]

    def __setitem__(self, key: int, value: Any) -> None:
        super().__setitem__(key, value.get_length() if isinstance(value, Dimension) else value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PartialShape):
            return other == self
        return super().__eq__(other)

    def to_string(self) -> str:
        """Return the shape as text, such as "[1,3]"."""
        return str(self)


class PartialShape:
    """A shape with possibly dynamic dimensions or rank. Its dimensions can be assigned.

    Args:
        shape: A text such as "[1,3,?,2..8]" or "...", another shape, or a list or tuple of dimensions: integers, -1,
            texts, pairs of bounds, and instances of `Dimension`.

    Raises:
        TypeError: The argument or a dimension is of another type.
        RuntimeError: A text is not a dimension.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, shape: Any) -> None:
        self._dimensions: list[shapes.StaticDimension | shapes.DynamicDimension] | None
        if isinstance(shape, PartialShape):
            self._dimensions = None if shape._dimensions is None else list(shape._dimensions)
        elif isinstance(shape, str):
            self._dimensions = _parse_shape(shape)
        elif isinstance(shape, (list, tuple, Shape)):
            self._dimensions = [parse_dimension(value) for value in shape]
        else:
            raise TypeError(
                "__init__(): incompatible constructor arguments: expected a Shape, a PartialShape, a list, a tuple or "
                f"a str. Invoked with: {shape!r}"
            )

    @staticmethod
    def dynamic(rank: Any = None) -> PartialShape:
        """Return a shape with dynamic dimensions.

        Args:
            rank: The number of dimensions, as an integer or a `Dimension`; by default it is dynamic too.
        """
        length = rank if isinstance(rank, Dimension) else Dimension(-1 if rank is None else rank)
        return PartialShape("..." if length.is_dynamic else [-1] * length.get_length())

    @staticmethod
    def _from_irrun(shape: shapes.PartialShape | None) -> PartialShape:
        """Convert one of irrun's shapes. None is a dynamic rank."""
        result = PartialShape([])
        result._dimensions = None if shape is None else list(shape)
        return result

    def _to_irrun(self) -> shapes.PartialShape | None:
        """Return the shape as one of irrun; None if the rank is dynamic."""
        return None if self._dimensions is None else shapes.PartialShape(self._dimensions)

    def _get_dimensions(self) -> list[shapes.StaticDimension | shapes.DynamicDimension]:
        if self._dimensions is None:
            raise RuntimeError("Check 'rank().is_static()' failed: the rank of the shape is dynamic")
        return self._dimensions

    def __repr__(self) -> str:
        return f"<PartialShape: {self}>"

    def __str__(self) -> str:
        return "[...]" if self._dimensions is None else f"[{','.join(map(str, self._dimensions))}]"

    def to_string(self) -> str:
        """Return the shape as text, such as "[1,?]"."""
        return str(self)

    def __len__(self) -> int:
        return len(self._get_dimensions())

    def __iter__(self) -> Iterator[Dimension]:
        return iter([Dimension(d) for d in self._dimensions or ()])

    @overload
    def __getitem__(self, key: int) -> Dimension: ...
    @overload
    def __getitem__(self, key: slice) -> PartialShape: ...
    def __getitem__(self, key: int | slice) -> Dimension | PartialShape:
        dimensions = self._get_dimensions()
        if isinstance(key, slice):
            return PartialShape([Dimension(d) for d in dimensions[key]])
        return Dimension(dimensions[self._normalize(key)])

    def __setitem__(self, key: int, value: Any) -> None:
        if not isinstance(value, Dimension):
            try:
                value = index(value)
            except TypeError:
                raise TypeError(
                    "__setitem__(): incompatible function arguments: expected an int or a Dimension. "
                    f"Invoked with: {self!r}, {key}, {value!r}"
                ) from None
        if key < 0:
            raise TypeError(f"__setitem__(): incompatible function arguments. Invoked with: {self!r}, {key}, {value!r}")
        self._get_dimensions()[self._normalize(key)] = parse_dimension(value)

    def _normalize(self, key: int) -> int:
        rank = len(self._get_dimensions())
        if not -rank <= key < rank:
            raise RuntimeError("Accessing out-of-range dimension")
        return key % rank

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PartialShape):
            return self._dimensions == other._dimensions
        if isinstance(other, Shape):
            return self.is_static and list(self.to_shape()) == list(other)
        if isinstance(other, (list, tuple)):
            if not self.is_static:
                raise TypeError(f"Cannot compare dynamic shape with {type(other)}")
            return list(self.to_shape()) == list(other)
        return False

    def __copy__(self) -> PartialShape:
        return PartialShape(self)

    def __deepcopy__(self, memo: object) -> PartialShape:
        return PartialShape(self)

    @property
    def rank(self) -> Dimension:
        """The number of dimensions, which may be dynamic."""
        return Dimension() if self._dimensions is None else Dimension(len(self._dimensions))

    @property
    def is_static(self) -> bool:
        """Whether the rank and all dimensions are static."""
        return self._dimensions is not None and all(d.is_static for d in self._dimensions)

    @property
    def is_dynamic(self) -> bool:
        """Whether the rank or a dimension is dynamic."""
        return not self.is_static

    @property
    def all_non_negative(self) -> bool:
        """Always True."""
        return True

    def get_dimension(self, index: int) -> Dimension:
        """Return the dimension at an index, which is not negative."""
        if index < 0:
            raise TypeError(f"get_dimension(): incompatible function arguments. Invoked with: {self!r}, {index}")
        return self[index]

    def to_shape(self) -> Shape:
        """Return the static shape.

        Raises:
            RuntimeError: The shape is dynamic.
        """
        if not self.is_static:
            raise RuntimeError("to_shape was called on a dynamic shape.")
        return Shape([d.min_length for d in self._get_dimensions()])

    def get_shape(self) -> Shape:
        """Return the static shape.

        Raises:
            RuntimeError: The shape is dynamic.
        """
        if not self.is_static:
            raise RuntimeError("get_shape() must be called on a static shape")
        return self.to_shape()

    def get_min_shape(self) -> Shape:
        """Return the lower bounds of the dimensions."""
        return Shape([d.min_length for d in self._dimensions or ()])

    def get_max_shape(self) -> Shape:
        """Return the upper bounds of the dimensions. Unbounded dimensions give the largest 64-bit integer."""
        return Shape([LARGEST if d.max_length == -1 else d.max_length for d in self._dimensions or ()])

    def compatible(self, shape: PartialShape) -> bool:
        """Return whether some static shape is within both shapes."""
        return self._compare(shape, Dimension.compatible, True)

    def refines(self, shape: PartialShape) -> bool:
        """Return whether all static shapes of this one are within `shape`."""
        return self._compare(shape, Dimension.refines, _is_without_rank(shape))

    def relaxes(self, shape: PartialShape) -> bool:
        """Return whether all static shapes of `shape` are within this one."""
        return shape.refines(self)

    def same_scheme(self, shape: PartialShape) -> bool:
        """Return whether ranks and static dimensions are equal, and the same dimensions are dynamic."""
        return self._compare(shape, Dimension.same_scheme, self.rank.is_dynamic and _is_without_rank(shape))

    def _compare(self, shape: PartialShape, compare: Any, without_rank: bool) -> bool:
        if not isinstance(shape, PartialShape):
            raise TypeError(f"incompatible function arguments: expected a PartialShape. Invoked with: {shape!r}")
        if self._dimensions is None or shape._dimensions is None:
            return without_rank
        return len(self) == len(shape) and all(compare(a, b) for a, b in zip(self, shape, strict=True))


def _is_without_rank(shape: object) -> bool:
    return isinstance(shape, PartialShape) and shape._dimensions is None


def _parse_shape(text: str) -> list[shapes.StaticDimension | shapes.DynamicDimension] | None:
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1].strip()
    if inner == "...":
        return None
    parts = inner.split(",") if inner else []
    if not all(map(str.strip, parts)):
        raise RuntimeError(f'Cannot get vector of dimensions! "{text}" is incorrect')
    return [parse_dimension(part) for part in parts]
