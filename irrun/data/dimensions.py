"""Choice of dimensions for inputs with dynamic shapes.

Axes with the same role get the same size. Typical sizes for the roles are tried first, then sizes that follow from the
constants of the model, such as position embeddings. The first sizes that pass shape inference are chosen.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from irrun.data.axes import AUDIO, BATCH, CHANNELS, PAST, SEQUENCE, SIZE, TOTAL, find_batch_axes, find_roles
from irrun.errors import InputError
from irrun.ir.graph import Graph, OutputAddress
from irrun.ir.model import Model, TensorSpec
from irrun.ops._support import registry
from irrun.shapes import DynamicDimension, PartialShape

__all__ = ["Dimensions", "choose_dimensions"]

Shape = tuple[int, ...]

#: Typical sizes, the most common first.
USUAL_SIZES: dict[str, tuple[int, ...]] = {
    BATCH: (1,),
    CHANNELS: (3, 1, 4),
    SIZE: (224, 256, 320, 416, 512, 640, 300, 299, 384, 608, 800, 1024, 128, 96, 64, 48, 32, 518, 336, 448),
    SEQUENCE: (16, 32, 128, 8, 64, 256, 512),
    AUDIO: (16000, 512, 8000, 48000, 160000, 1024, 400),
    PAST: (16, 32, 8),
    TOTAL: (),
}
#: Sizes that are tried if neither typical sizes nor constants fit.
OTHER_SIZES: dict[str, tuple[int, ...]] = {
    BATCH: (2, 4, 8, 16, 32),
    SIZE: (28, *range(32, 1537, 32)),
    SEQUENCE: (16000, 1024, 2048, 48000, 4, 2, 1),
}
#: Patch sizes of vision transformers, for deriving image sizes from the number of positions.
PATCHES = (16, 14, 32, 8, 4)
#: Strides of layers that shorten sequences before positions are added.
STRIDES = (2, 4)
#: Costs of choices less likely than all typical sizes, by role.
PENALTIES = {BATCH: 12, CHANNELS: 4}
#: Maximum number of sizes that constants suggest for a role.
MAX_SUGGESTIONS = 48
#: Maximum number of choices to try, and maximum number of layers with inferred shapes for all choices together.
MAX_TRIALS, MAX_LAYERS = 160, 80_000
#: Choices without an error that are tried to find one with fewer doubts. Errors in bodies, and those that depend on
#: values, show as shapes that are unknown.
PATIENCE = 8


@dataclass(frozen=True)
class Dimensions:
    """The shapes that were chosen.

    Attributes:
        shapes: The shapes of inputs with a known rank, by position.
        inferred: The shapes of output ports that follow from them, by the ids of the layer and the port.
    """

    shapes: Mapping[int, Shape]
    inferred: Mapping[OutputAddress, Shape]


@dataclass(frozen=True)
class _Group:
    """Dimensions that get the same size.

    Attributes:
        role: The meaning of the axes.
        bounds: Their bounds.
        members: The position of the input and the axis of each.
        sizes: The sizes to try with their costs, cheapest first.
    """

    role: str
    bounds: DynamicDimension
    members: tuple[tuple[int, int], ...]
    sizes: tuple[tuple[int, int], ...] = ()


def choose_dimensions(
    inputs: Sequence[TensorSpec], known: Mapping[int, Shape], chosen: Sequence[int], model: Model | None = None
) -> Dimensions:
    """Choose the dynamic dimensions of inputs.

    Args:
        inputs: The inputs of a model.
        known: The shapes of other inputs, by position.
        chosen: The positions of the inputs to choose dimensions for. Their ranks must be known.
        model: The model; the sizes must suit its layers. Without it, usual sizes are chosen.

    Returns:
        The shapes of the inputs in `known` and `chosen`.

    Raises:
        InputError: Shape inference finds an error for all sizes that were tried.
    """
    roles = find_roles(inputs)
    fixed: dict[int, PartialShape] = {i: PartialShape(shape) for i, shape in known.items()}
    fixed |= {i: shape for i in chosen if (shape := inputs[i].partial_shape) is not None}
    groups = _make_groups(inputs, roles, fixed)
    if not groups:
        return _Trial(model, inputs, _resolve(fixed, (), ())).to_dimensions()
    suggestions = [] if model is None else _suggest_sizes(model.graph)
    groups = [_add_sizes(group, inputs, roles, known, suggestions) for group in groups]
    budget = MAX_TRIALS if model is None else min(MAX_TRIALS, max(8, MAX_LAYERS // (len(model.graph.layers) + 1)))
    first: _Trial | None = None
    best: _Trial | None = None
    patience = PATIENCE
    for sizes in _order_choices(groups, budget):
        trial = _Trial(model, inputs, _resolve(fixed, groups, sizes))
        first = first or trial
        if trial.failure:
            continue
        if best is None or trial.doubts < best.doubts:
            best, patience = trial, PATIENCE
        patience -= 1
        if not any(best.doubts) or not patience:
            break
    assert first is not None
    if best is not None:
        return best.to_dimensions()
    shapes = ", ".join(
        f"{_get_name(inputs, i)} {_format(first.shapes[i])}" for i in chosen if not _is_static(inputs[i])
    )
    names = " ".join(f"--shape {_get_name(inputs, i)}=..." for i in chosen if not _is_static(inputs[i]))
    raise InputError(
        f"found no sizes for the dynamic dimensions: with {shapes}, {first.failure}; set the shape: {names}"
    )


class _Trial:
    """Inference of the shapes of a model for one choice.

    Args:
        model: The model, or None.
        inputs: Its inputs.
        shapes: The shapes of inputs by position.
    """

    def __init__(self, model: Model | None, inputs: Sequence[TensorSpec], shapes: Mapping[int, Shape]) -> None:
        self.shapes = shapes
        self.failure = ""
        self.inferred: Mapping[OutputAddress, Shape] = {}
        #: The number of shapes that are unknown, of outputs whose first axis is not the batch, and of sizes that
        #: constants enlarge.
        self.doubts = (0, 0, 0)
        if model is None:
            return
        from irrun.runtime.shape_trials import try_shapes

        trial = try_shapes(model.graph, {inputs[i].layer.id: shape for i, shape in shapes.items()})
        self.inferred = trial.shapes
        self.doubts = trial.unknown, self._count_other_batches(model, inputs), self._count_enlarged(model)
        if trial.failures:
            layer, message = trial.failures[0]
            self.failure = f"{layer.describe()} fails: {message}"

    def _count_other_batches(self, model: Model, inputs: Sequence[TensorSpec]) -> int:
        """Return the number of outputs with a first axis that is not the batch size, though it may be dynamic.

        A layer that flattens images of the wrong size adds their surplus to the batch.
        """
        axes = find_batch_axes(inputs)
        batch = next((self.shapes[i][a] for i, a in enumerate(axes) if a is not None and i in self.shapes), None)
        sources = {edge.to_layer: (edge.from_layer, edge.from_port) for edge in model.graph.edges}
        count = 0
        for output in model.outputs:
            declared, shape = output.partial_shape, self.inferred.get(sources.get(output.layer.id, (-1, -1)))
            is_open = declared is None or (len(declared) > 1 and isinstance(declared[0], DynamicDimension))
            count += batch is not None and is_open and shape is not None and len(shape) > 1 and shape[0] != batch
        return count

    def _count_enlarged(self, model: Model) -> int:
        """Return the number of dynamic dimensions that are 1 and that a constant enlarges.

        A sequence of one element suits the positions of any number of elements.
        """
        layers = {layer.id: layer for layer in model.graph.layers}
        sources: dict[int, list[OutputAddress]] = {}
        for edge in model.graph.edges:
            sources.setdefault(edge.to_layer, []).append((edge.from_layer, edge.from_port))
        count = 0
        for consumer, pair in sources.items():
            operation = registry.find(layers[consumer].type, layers[consumer].version)
            if len(pair) != 2 or operation is None or operation.kind != "elementwise":
                continue
            constants = [layers[i].constant for i, _ in pair]
            for (layer_id, port_id), constant in zip(pair, reversed(constants), strict=True):
                shape = self.inferred.get((layer_id, port_id))
                port = next((port for port in layers[layer_id].outputs if port.id == port_id), None)
                if constant is None or shape is None or port is None or not port.shape:
                    continue
                axes = zip(reversed(shape), reversed(port.shape), reversed(constant.shape), strict=False)
                count += sum(size == 1 and isinstance(d, DynamicDimension) and other > 1 for size, d, other in axes)
        return count

    def to_dimensions(self) -> Dimensions:
        """Return the choice."""
        return Dimensions(self.shapes, self.inferred)


def _make_groups(
    inputs: Sequence[TensorSpec], roles: Sequence[Sequence[str]], fixed: Mapping[int, PartialShape]
) -> list[_Group]:
    """Return the dynamic dimensions by role and bounds. TOTAL comes last, because it depends on the others."""
    members: dict[tuple[str, DynamicDimension], list[tuple[int, int]]] = {}
    for i, shape in fixed.items():
        for axis, dimension in enumerate(shape):
            if isinstance(dimension, DynamicDimension):
                bounds = DynamicDimension(max(dimension.minimum, 1), dimension.maximum)
                members.setdefault((roles[i][axis], bounds), []).append((i, axis))
    order = (BATCH, SIZE, SEQUENCE, AUDIO, PAST, CHANNELS, TOTAL)
    groups = [_Group(role, bounds, tuple(places)) for (role, bounds), places in members.items()]
    return sorted(groups, key=lambda group: order.index(group.role))


def _add_sizes(
    group: _Group,
    inputs: Sequence[TensorSpec],
    roles: Sequence[Sequence[str]],
    known: Mapping[int, Shape],
    suggestions: Sequence[int],
) -> _Group:
    """Return a group with the sizes to try."""
    role = group.role
    given = [shape[axis] for i, shape in known.items() for axis, r in enumerate(roles[i][: len(shape)]) if r == role]
    static = [
        int(size)
        for i in dict(group.members)
        for size, r in zip(inputs[i].partial_shape or (), roles[i], strict=True)
        if role == SIZE and r == role and isinstance(size, int)
    ]
    low, high = group.bounds.minimum, group.bounds.maximum
    limits = [low, high or low] if low > 1 or high is not None else []
    likely = [*given, *USUAL_SIZES[role], *static]
    others = [*limits, *_derive_sizes(role, suggestions), *OTHER_SIZES.get(role, ())]
    penalty = PENALTIES.get(role, 0)
    costs: dict[int, int] = {}
    for size in dict.fromkeys([*likely, *others]):
        if low <= size and (high is None or size <= high):
            costs[size] = len(costs) + (penalty if size not in likely else 0)
    return replace(group, sizes=tuple(costs.items()))


def _derive_sizes(role: str, suggestions: Sequence[int]) -> list[int]:
    """Return the sizes for a role that sizes of constants suggest."""
    if role == SIZE:
        roots = [math.isqrt(n - extra) for n in suggestions for extra in (0, 1) if _is_square(n - extra)]
        return [root * patch for root in dict.fromkeys(roots) if root > 3 for patch in PATCHES]
    if role == SEQUENCE:
        near = [size for n in suggestions for size in (n, n - 1, n + 1) if size > 1]
        return [*near, *(n * stride for n in suggestions for stride in STRIDES)]
    return list(suggestions) if role in (BATCH, CHANNELS) else []


def _is_square(number: int) -> bool:
    return number > 0 and math.isqrt(number) ** 2 == number


def _suggest_sizes(graph: Graph) -> list[int]:
    """Return sizes of constants and values of small integer constants, in the order of the layers."""
    sizes: dict[int, None] = {}
    for layer in graph.layers:
        constant = layer.constant
        if constant is None:
            continue
        sizes.update(dict.fromkeys(int(n) for n in constant.shape if n > 1))
        if constant.element_type.is_integer and 0 < math.prod(constant.shape) <= 8 and constant.data is not None:
            sizes.update(dict.fromkeys(int(n) for n in constant.to_array().reshape(-1) if 1 < n < 1 << 20))
        if len(sizes) >= MAX_SUGGESTIONS:
            break
    return list(sizes)[:MAX_SUGGESTIONS]


def _order_choices(groups: Sequence[_Group], budget: int) -> Iterator[tuple[int, ...]]:
    """Yield a size for each group, the cheapest choices first."""
    independent = [group for group in groups if group.role != TOTAL]
    tie = count()
    start = (0,) * len(independent)
    queue = [(0, next(tie), start)]
    seen = {start}
    while queue and budget > 0:
        cost, _, indices = heapq.heappop(queue)
        sizes = [group.sizes[i][0] for group, i in zip(independent, indices, strict=True)]
        for total in _list_totals(independent, sizes) if len(independent) < len(groups) else [()]:
            yield (*sizes, *total)
            budget -= 1
        for place, group in enumerate(independent):
            following = (*indices[:place], indices[place] + 1, *indices[place + 1 :])
            if following[place] < len(group.sizes) and following not in seen:
                seen.add(following)
                added = group.sizes[following[place]][1] - group.sizes[indices[place]][1]
                heapq.heappush(queue, (cost + added, next(tie), following))


def _list_totals(groups: Sequence[_Group], sizes: Sequence[int]) -> list[tuple[int]]:
    """Return the lengths of an attention mask: with earlier tokens, or without them."""
    by_role = {group.role: size for group, size in zip(groups, sizes, strict=True)}
    length = by_role.get(SEQUENCE, 1)
    return [(length + by_role.get(PAST, 0),), (length,)]


def _resolve(fixed: Mapping[int, PartialShape], groups: Sequence[_Group], sizes: Sequence[int]) -> dict[int, Shape]:
    """Return static shapes with these sizes for the dimensions of groups."""
    chosen = {member: size for group, size in zip(groups, sizes, strict=True) for member in group.members}
    return {
        i: tuple(chosen[i, axis] if isinstance(d, DynamicDimension) else int(d) for axis, d in enumerate(shape))
        for i, shape in fixed.items()
    }


def _is_static(tensor: TensorSpec) -> bool:
    return tensor.partial_shape is not None and tensor.partial_shape.is_static


def _get_name(inputs: Sequence[TensorSpec], position: int) -> str:
    return inputs[position].names[0] if inputs[position].names else str(position)


def _format(shape: Shape) -> str:
    return "[" + ",".join(map(str, shape)) + "]"
