"""Reshapes before and after matrix products, and reshapes to one dimension."""

from __future__ import annotations

from collections.abc import Callable

from irrun.ir.graph import Layer
from irrun.runtime.fixed_shapes.relaxation import Relaxation

__all__ = ["keep_dimensions", "move_transposes", "relax_flat_reshape", "relax_matrix_reshapes"]


def relax_flat_reshape(relaxation: Relaxation, reshape: Layer) -> None:
    """Let a Reshape to one dimension keep all elements."""
    target = relaxation.get_constant(reshape, 1)
    if target is not None and target != [-1] and relaxation.get_rank(reshape) == 1:
        relaxation.editor.set_input(reshape, 1, relaxation.editor.add_constant([-1], f"{reshape.name}/shape"))


def move_transposes(relaxation: Relaxation, matmul: Layer) -> None:
    """Move a Transpose between a Reshape and a MatMul into the MatMul."""
    editor, found = relaxation.editor, relaxation.get_operation(matmul)
    if found is None:
        return
    for position, name in enumerate(("transpose_a", "transpose_b")):
        transpose = editor.get_producer(matmul, position)
        if transpose is None or transpose.type != "Transpose" or relaxation.get_constant(transpose, 1) != [1, 0]:
            continue
        reshape, source = editor.get_producer(transpose, 0), editor.get_source(transpose, 0)
        if reshape is not None and reshape.type == "Reshape" and source is not None:
            editor.set_input(matmul, position, source)
            editor.set_attributes(matmul, {name: "false" if found[1][name] else "true"})
            matmul = editor.get_layer(matmul.id)


def keep_dimensions(relaxation: Relaxation, last: Layer) -> None:
    """Let a product of a matrix with constant weights keep the leading dimensions.

    [B,S,K] -> Reshape [-1,K] -> MatMul [K,O] -> Add -> Reshape [1,S,O] becomes a product of [B,S,K], and the second
    Reshape keeps the first dimension.
    """
    editor = relaxation.editor
    target = relaxation.get_constant(last, 1)
    matmul = editor.get_producer(last, 0)
    addend: tuple[int, ...] | None = None
    if matmul is not None and matmul.type == "Add":
        add, constant = relaxation.get_operation(matmul), relaxation.get_constant_array(matmul, 1)
        if constant is None or add is None or add[1]["auto_broadcast"] != "numpy":
            return
        addend = constant.shape
        matmul = editor.get_producer(matmul, 0)
    if target is None or matmul is None or not relaxation.get_card(matmul).multiplies_matrices:
        return
    first, product, weights = editor.get_producer(matmul, 0), relaxation.get_operation(matmul), None
    if editor.get_producer(matmul, 1) is not None and editor.get_producer(matmul, 1).is_constant:  # type: ignore[union-attr]
        weights = relaxation.get_input_shape(matmul, 1)
    if first is None or first.type != "Reshape" or product is None or weights is None or len(weights) != 2:
        return
    data, pattern = relaxation.get_input_shape(first, 0), relaxation.get_constant(first, 1)
    if data is None or pattern is None or len(pattern) != 2 or pattern[0] != -1 or len(data) <= 2:
        return
    size, columns = (weights[1], weights[0]) if product[1]["transpose_b"] else (weights[0], weights[1])
    fits = data[-1] == pattern[1] == size and not product[1]["transpose_a"] and len(target) == len(data)
    if not fits or any(n <= 0 for n in target) or [*data[1:-1], columns] != target[1:]:
        return
    if addend is not None and any(n != 1 for n in addend[:-1] or ()) | (addend[-1:] not in ((1,), (columns,))):
        return
    relaxation.set_shape(first, data)
    kept = [*[0] * (len(data) - 1), pattern[1]]
    for reshape, shape in ((first, kept), (last, [0, *target[1:]])):
        editor.set_input(reshape, 1, editor.add_constant(shape, f"{reshape.name}/shape"))
        editor.set_attributes(editor.get_layer(reshape.id), {"special_zero": "true"})


def relax_matrix_reshapes(position: int) -> Callable[[Relaxation, Layer], None]:
    """Return the adaptation of a Reshape that gives a matrix at an input of a MatMul."""

    def adapt(relaxation: Relaxation, matmul: Layer) -> None:
        """Let the Reshape keep the dimension that the other matrix determines, and infer the other dimension."""
        editor, found = relaxation.editor, relaxation.get_operation(matmul)
        reshape, other = editor.get_producer(matmul, position), editor.get_source(matmul, 1 - position)
        if found is None or reshape is None or reshape.type != "Reshape" or other is None:
            return
        shape = relaxation.get_shape(other)
        if editor.get_layer(other[0]).type in ("Transpose", "Reshape") or shape is None or len(shape) > 2:
            return
        if relaxation.get_rank(reshape) != 2:
            return
        transposed = [found[1][name] for name in ("transpose_a", "transpose_b")]
        axis = int(transposed[1 - position]) if position == 0 else 1 - int(transposed[1 - position])
        if len(shape) == 1:
            axis = 0
        kept_axis = 1 - int(transposed[0]) if position == 0 else int(transposed[1])
        name = f"{reshape.name}/shape"
        if editor.get_layer(other[0]).is_constant:
            target = [-1, -1]
            target[kept_axis] = shape[axis].min_length
            pattern = relaxation.get_constant(reshape, 1)
            if pattern != target:
                editor.set_input(reshape, 1, editor.add_constant(target, name))
            return
        parts = [editor.add_constant([-1], f"{name}/open"), relaxation.add_dimensions(other, [axis], f"{name}/kept")]
        ordered = parts if kept_axis == 1 else parts[::-1]
        editor.set_input(reshape, 1, relaxation.add_concatenation(ordered, 2, name))

    return adapt
