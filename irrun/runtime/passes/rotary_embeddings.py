"""Rotary position embeddings: one compiled kernel for the operations that exporters write for them.

The operations are Add(Multiply(x, cosine), Multiply(Concat(-second, first), sine)), where a Split or two Slices divide
the last axis of x into halves.
"""

from __future__ import annotations

from irrun.fast.jit.rotary import RotaryKernel
from irrun.runtime.passes.engine import Changes, Match, Pattern, RefusalError, Rule, View, get_other_input, join
from irrun.runtime.program import Instruction

__all__ = ["RULES"]

ADD = Pattern("Add", ("Add",))
MULTIPLY = Pattern("Multiply", ("Multiply",))
SLICE = Pattern("Slice", ("Slice",))
SPLIT = Pattern("Split", ("Split", "VariadicSplit"))
NEGATED = Pattern("negation", ("Negative", "Multiply"))
CONCAT = Pattern("concat", ("Concat",), {0: NEGATED})


def _check(view: View, match: Match) -> str:
    concat, negation = match["concat"], match["negation"]
    shape = view.get_shape(concat.outputs[0])
    if shape is None or not 2 <= len(shape) <= 4 or shape[-1] is None or len(concat.inputs) != 2:
        return "does not concatenate two values along a known axis of a matrix"
    if concat.attributes["axis"] not in (-1, len(shape) - 1) or not view.is_f32(concat.outputs[0]):
        return "does not concatenate f32 along the last axis"
    if MULTIPLY.accepts(negation):
        factor = view.get_constant(negation.inputs[1])
        if factor is None or factor.size != 1 or factor.item() != -1:
            return "the first value is not negated"
    return ""


def _find_data(view: View, match: Match) -> tuple[int, list[Instruction]]:
    """Return the slot of the value whose halves are exchanged, and the instructions that divide it."""
    second, first = match["negation"].inputs[0], match["concat"].inputs[1]
    one, two = view.get_sole_producer(first), view.get_sole_producer(second)
    shape = view.get_shape(match["concat"].outputs[0]) or ()
    shapes = [view.get_shape(slot) for slot in (first, second)]
    if any(not x or 2 * (x[-1] or 0) != shape[-1] for x in shapes):
        raise RefusalError("the concatenated values are not halves")
    if one is None or two is None or not one.inputs or one.inputs[0] not in two.inputs[:1]:
        raise RefusalError("the halves are used elsewhere, or are not of one value")
    data = one.inputs[0]
    if view.get_constant(data) is not None or view.get_shape(data) != shape:
        raise RefusalError("the divided value is constant, or does not have the shape of the result")
    if one is two:
        if not SPLIT.accepts(one) or one.outputs != (first, second):
            raise RefusalError("the value is not divided by a Split")
        return data, [one]
    if not (_is_slice(view, one, 0) and _is_slice(view, two, shape[-1] // 2)):
        raise RefusalError("the last axis is not divided into halves")
    return data, [one, two]


def _is_slice(view: View, instruction: Instruction, start: int) -> bool:
    """Return whether an instruction takes consecutive elements from a position on; the shapes say along which axis."""
    if not SLICE.accepts(instruction):
        return False
    constants = [view.get_constant(slot) for slot in instruction.inputs[1:]]
    values = [x.item() if x is not None and x.size == 1 else None for x in constants]
    return values[0] == start and values[2] == 1


def _get_consumer(view: View, slot: int, pattern: Pattern) -> Instruction:
    """Return the only consumer of a value, which must match a pattern."""
    consumer = view.get_sole_consumer(slot)
    if consumer is None or not pattern.accepts(consumer):
        raise RefusalError(f"the exchanged halves are not used by {pattern.name} alone")
    return consumer


def _build(view: View, match: Match) -> Changes:
    concat = match["concat"]
    data, division = _find_data(view, match)
    product = _get_consumer(view, concat.outputs[0], MULTIPLY)
    addition = _get_consumer(view, product.outputs[0], ADD)
    other = view.get_sole_producer(get_other_input(addition, product.outputs[0]))
    if other is None or not MULTIPLY.accepts(other) or data not in other.inputs:
        raise RefusalError("the product is not added to a product of the value itself")
    if view.get_sole_producer(match["negation"].outputs[0]) is None:
        raise RefusalError("the negated half is used elsewhere")
    sine, cosine = get_other_input(product, concat.outputs[0]), get_other_input(other, data)
    shape = view.get_shape(data) or ()
    if view.get_shape(addition.outputs[0]) != shape:
        raise RefusalError("cosines or sines enlarge the value")
    if any((view.get_shape(slot) or ())[-1:] != shape[-1:] for slot in (cosine, sine)):
        raise RefusalError("cosines or sines are not rows as long as the value's")
    members = [*division, match["negation"], concat, product, other, addition]
    if any(member.plain for member in members):
        raise RefusalError("an operation has another kernel")
    kernel = RotaryKernel(len(shape))
    kernel.prepare(())
    return join(members, kernel, (data, cosine, sine))


RULES = (Rule("rotate halves of rows in one kernel", CONCAT, _build, _check),)
