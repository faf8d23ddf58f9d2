"""Adaptation of layers with sizes that follow from the input shapes, before a model is reshaped.

Converters write sizes of the original inputs into models, such as the target [1,2048] of a Reshape in front of a matrix
product. OpenVINO adapts some patterns before it changes the shapes of inputs, and so does this package. Results for the
original shapes stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from irrun.ir.editor import GraphEditor
from irrun.ir.graph import Graph, Layer
from irrun.runtime.fixed_shapes.matrices import (
    keep_dimensions,
    move_transposes,
    relax_flat_reshape,
    relax_matrix_reshapes,
)
from irrun.runtime.fixed_shapes.relaxation import Relaxation
from irrun.runtime.fixed_shapes.slices import crop_image_size, join_slice_and_squeeze, join_squeeze_and_slice
from irrun.runtime.fixed_shapes.states import broadcast_outer_states, broadcast_states, lengthen_sequence
from irrun.runtime.shape_inference import GraphInference

__all__ = ["relax_fixed_shapes"]

#: The adaptations, by the type of the layer that identifies a pattern, in OpenVINO's order.
_ADAPTATIONS: Sequence[tuple[str, Callable[[Relaxation, Layer], None]]] = (
    ("Reshape", relax_flat_reshape),
    ("Proposal", crop_image_size),
    ("StridedSlice", join_squeeze_and_slice),
    ("Squeeze", join_slice_and_squeeze),
    ("MatMul", move_transposes),
    ("Broadcast", lengthen_sequence),
    ("LSTMCell", broadcast_states),
    ("TensorIterator", broadcast_outer_states),
    ("Reshape", keep_dimensions),
    ("MatMul", relax_matrix_reshapes(0)),
    ("MatMul", relax_matrix_reshapes(1)),
)


def relax_fixed_shapes(graph: Graph, inference: GraphInference) -> Graph:
    """Return a graph with layers that adapt to new input shapes.

    Args:
        graph: The graph of a model. It is not modified.
        inference: The facts about its values.
    """
    relaxation = Relaxation(GraphEditor(graph), inference)
    for layer_type, adapt in _ADAPTATIONS:
        for layer in [layer for layer in relaxation.editor.graph.layers if layer.type == layer_type]:
            if relaxation.is_used(layer):
                adapt(relaxation, relaxation.editor.get_layer(layer.id))
    return relaxation.editor.finish()
