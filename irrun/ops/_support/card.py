"""The card of an operation: the facts about it, stated once, next to its definition.

Everything else asks the card: shape inference, estimates of memory, loops that are computed at once, fusion, constant
folding, profiles and inspections. Tests compare cards with what kernels do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from irrun.ops._support.flops import Flops
from irrun.ops._support.index_range import GetIndexRange

if TYPE_CHECKING:
    from typing import TypedDict

    class CardFields(TypedDict, total=False):
        """The fields of a card as keyword arguments."""

        kind: Kind
        folding: Folding
        flops: Flops
        shape: str | tuple[int, ...] | None
        shaped_by: tuple[int, ...] | None
        scalars: tuple[int, ...]
        commutative: bool
        discontinuous: bool
        quantizes: bool
        channel_axis: int | None
        has_groups: bool
        gates: int | None
        keeps_values: bool
        extremes: Extremes | None
        lengths: int | None
        checks_size: bool
        index_range: GetIndexRange | None
        aliases: tuple[str, ...]
        output_types: tuple[int | str, ...]
        converts: bool
        concatenates: bool
        convolves: bool
        multiplies_matrices: bool
        gathers: bool
        gives_shape: bool
        has_levels: bool
        is_overwritable: bool
        views: Views | None
        decompression: Decompression | None
        scratch: float | None


__all__ = ["Card", "Decompression", "Extremes", "Folding", "Kind", "Views"]

#: The kind of an operation:
#:
#: - "elementwise": each element of a result depends on one element of each input. Inputs may broadcast.
#: - "rowwise": results have the shape of the first input; elements depend on those along some axes.
#: - "view": the result is a view of the first input. The kernel copies nothing, or only where no view exists.
#: - "movement": elements of the results are elements of the inputs, or a constant.
#: - "reduction": axes are reduced, or elements are added up by an index.
#: - "product": sums of products over an axis that two inputs share.
#: - "window": results depend on windows of the spatial axes.
#: - "recurrent": cells, and sequences of them.
#: - "control": runs bodies.
#: - "state": reads or writes a variable.
#: - "random": depends on random numbers.
#: - "selection": the values of the data determine which elements are in the result, and often how many.
#: - "generation": results depend on shapes and parameters only.
Kind = Literal[
    "elementwise",
    "rowwise",
    "view",
    "movement",
    "reduction",
    "product",
    "window",
    "recurrent",
    "control",
    "state",
    "random",
    "selection",
    "generation",
    "other",
]

#: Whether and how an operation with constant inputs is computed when a model is compiled:
#:
#: - "linear": at any size. The result is no larger than all inputs together or their broadcast shape, or the kernel
#:   checks its size.
#: - "small": only for small inputs, because the run time or the size of the result may grow faster than the inputs.
#: - "never": the result may differ between runs with equal inputs.
Folding = Literal["linear", "small", "never"]

#: Which views of the first input the outputs may be:
#:
#: - "contiguous": views of a contiguous input are contiguous, at least along the first axis that is not 1.
#: - "strided": any views.
Views = Literal["contiguous", "strided"]

#: Where the elements of a result have their lowest and highest values, if each element of an input is in an interval:
#:
#: - "kept": the result is the first input, perhaps in another type.
#: - "ends": where all elements are at one end of their interval, for one of the combinations of ends. Reductions have
#:   them where all elements are at the same end.
#: - "ends if nonnegative": as "ends" if no element is negative, unknown otherwise.
#: - "ends or zero": at the ends, or at 0.
#: - "ends or equality": at the ends, or where two inputs are equal.
#: - "points": unknown, unless the intervals are points.
Extremes = Literal["kept", "ends", "ends if nonnegative", "ends or zero", "ends or equality", "points"]

#: The role of an operation in chains that decompress weights. Each chain has at least one "scale"; any other is a
#: "step".
Decompression = Literal["scale", "step"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Card:
    """The facts about an operation.

    Attributes:
        kind: The kind of operation; see `Kind`.
        folding: Whether and how it is folded if its inputs are constant; see `Folding`. The default is "linear" for
            elementwise operations, "never" for random ones, and "small" for all others.
        flops: The number of arithmetic operations, two per multiply-add: per element of the first output, or as a
            function of a call (see `flops.py`); None if the number is unknown.
        shape: The rule for the shapes of the outputs, a function of `irrun.ops.shape_rules`, or the numbers of the
            inputs that have these shapes; None if they are found by running the kernel on examples. The default is
            `broadcast_operands` for elementwise operations and `keep_shape` for rowwise ones.
        shaped_by: The inputs with values that determine the output shapes, besides the shapes of all inputs. None
            if it is unknown, or if the shapes depend on the data. The default is () for elementwise and rowwise
            operations.
        scalars: The inputs that are parameters of a function, with one element, such as the slope of HardSigmoid.
        commutative: Whether the order of the two inputs makes no difference.
        discontinuous: Whether results jump where inputs do not, so that a small error may become a large one.
        quantizes: Whether the operation rounds values to a quantized type, and is not part of the
            floating-point model.
        channel_axis: The axis of the first output whose elements are channels, where each channel should carry
            information; None for operations without channels.
        has_groups: Whether the first axis of the weights counts groups of channels.
        gates: The number of gates of a recurrent cell or sequence. Weights have as many rows per hidden element.
        keeps_values: Whether each element of the first output is an element of the inputs that are not parameters,
            which is the default for views. A window outside of the data gives the lowest number of the type.
        extremes: Where the first output has its lowest and highest values; see `Extremes`. Bounds of shapes that are
            computed follow from it. None if it is unknown, and for movements and views.
        lengths: The input with the lengths of sequences, after which the first output is undefined in OpenVINO; None
            for operations without lengths.
        checks_size: Whether the kernel checks the size of its result by `check_allocation`.
        index_range: A function of a call that returns the indices that the kernel does not check, with their valid
            range; None for operations without such indices.
        aliases: Other names of the type in files. Differences in case do not require one.
        output_types: Where the element types of the outputs come from: the number of an input, the name of an
            attribute, or an element type. An attribute without a value means the type of the first input. Outputs
            without an entry have the type in an attribute `destination_type` or `output_type`, else the type of the
            first input. There are at least as many outputs as entries, and at least one.
        converts: Whether the result is the first input in the type that the attribute `destination_type` states.
        concatenates: Whether the result is all inputs in order along the axis that the attribute `axis` states.
        convolves: Whether it is a convolution of data [N, C, ...] with filters [CO, CI, ...], after an axis of groups
            if it has some.
        multiplies_matrices: Whether the result is the product of the last two axes of the first two inputs, which
            the attributes `transpose_a` and `transpose_b` transpose.
        gathers: Whether the result is slices of the first input at the indices of the second, along the axis that the
            third one states; `batch_dims` counts the axes that data and indices share.
        gives_shape: Whether the result is the shape of the first input, in the type that the attribute `output_type`
            states, or i64.
        has_levels: Whether it limits the first input to the range between the second and the third, and rounds it to
            one of as many values as the attribute `levels` states.
        is_overwritable: Whether the result is always a new array, so that later elementwise operations can overwrite
            it. The default is False, which says nothing.
        views: Which views the outputs may be, such as a Pad by 0 elements; None if none are expected.
        decompression: The role in the decompression of weights, or None. Conversions and views do not state it.
        scratch: The bytes that its kernel allocates besides its results, per byte of the larger of the inputs and the
            results. The default is 1 for rowwise operations, movements, windows and selections, and 0 for all others.
    """

    kind: Kind = "other"
    folding: Folding = "small"
    flops: Flops = None
    shape: str | tuple[int, ...] | None = None
    shaped_by: tuple[int, ...] | None = None
    scalars: tuple[int, ...] = ()
    commutative: bool = False
    discontinuous: bool = False
    quantizes: bool = False
    channel_axis: int | None = None
    has_groups: bool = False
    gates: int | None = None
    keeps_values: bool = False
    extremes: Extremes | None = None
    lengths: int | None = None
    checks_size: bool = False
    index_range: GetIndexRange | None = None
    aliases: tuple[str, ...] = ()
    output_types: tuple[int | str, ...] = ()
    converts: bool = False
    concatenates: bool = False
    convolves: bool = False
    multiplies_matrices: bool = False
    gathers: bool = False
    gives_shape: bool = False
    has_levels: bool = False
    is_overwritable: bool = False
    views: Views | None = None
    decompression: Decompression | None = None
    scratch: float | None = None

    def __post_init__(self) -> None:
        if self.kind in ("elementwise", "rowwise") and self.shaped_by is None:
            object.__setattr__(self, "shaped_by", ())
        if self.kind in ("elementwise", "rowwise") and self.shape is None:
            object.__setattr__(self, "shape", "broadcast_operands" if self.kind == "elementwise" else "keep_shape")
        if self.kind == "elementwise" and self.folding == "small":
            object.__setattr__(self, "folding", "linear")
        if self.kind == "view":
            object.__setattr__(self, "keeps_values", True)
        if self.scratch is None:
            object.__setattr__(
                self, "scratch", 1.0 if self.kind in ("rowwise", "movement", "window", "selection") else 0.0
            )
        if self.kind == "random":
            object.__setattr__(self, "folding", "never")
