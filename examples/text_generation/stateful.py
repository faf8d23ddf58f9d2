"""Export of language models in the form of optimum-intel: the key-value cache is stored in variables of the model."""

from __future__ import annotations

import numpy as np
import openvino as ov
import torch
from openvino import opset13 as ops
from openvino._offline_transformations import apply_make_stateful_transformation
from torch import nn

__all__ = ["convert", "make_causal_mask", "make_stateful"]

INPUTS = ("input_ids", "attention_mask", "position_ids")


def make_causal_mask(attention_mask: torch.Tensor, length: int) -> torch.Tensor:
    """Return the mask that is added to the attention scores of the last `length` positions.

    Args:
        attention_mask: Integers [batch, total]; 0 marks padding.
        length: Number of new positions.

    Returns:
        Floats that broadcast to [batch, 1, length, total].
    """
    total = attention_mask.shape[1]
    keys = torch.arange(total)
    queries = torch.arange(length) + (total - length)
    allowed = (keys[None, :] <= queries[:, None])[None, None] & attention_mask[:, None, None, :].bool()
    return torch.where(allowed, 0.0, torch.finfo(torch.float32).min)


def convert(decoder: nn.Module, layers: int, heads: int, size: int) -> ov.Model:
    """Convert `decoder(input_ids, attention_mask, position_ids, *caches) -> (logits, *caches)` to a stateful model.

    Args:
        decoder: The PyTorch module. Each layer has two caches [batch, heads, positions, size]: keys and values.
        layers: Number of layers.
        heads: Number of key heads.
        size: Size of a head.
    """
    past, new, batch = 2, 3, 2
    caches = [torch.zeros(batch, heads, past, size) for _ in range(2 * layers)]
    ids = torch.ones(batch, new, dtype=torch.int64)
    mask = torch.ones(batch, past + new, dtype=torch.int64)
    model = ov.convert_model(decoder.eval(), example_input=(ids, mask, ids, *caches))
    names = [f"past_key_values.{i}.{kind}" for i in range(layers) for kind in ("key", "value")]
    for tensor, name in zip(model.inputs, [*INPUTS, *names], strict=True):
        tensor.get_tensor().set_names({name})
        shape = [-1, heads, -1, size] if name in names else [-1, -1]
        tensor.get_node().set_partial_shape(ov.PartialShape(shape))
        tensor.get_node().set_friendly_name(name)
    presents = [name.replace("past_key_values", "present") for name in names]
    for tensor, name in zip(model.outputs, ["logits", *presents], strict=True):
        tensor.get_tensor().set_names({name})
    model.validate_nodes_and_infer_types()
    make_stateful(model, dict(zip(names, presents, strict=True)))
    return model


def make_stateful(model: ov.Model, caches: dict[str, str]) -> None:
    """Convert cache inputs and outputs to variables and add the input `beam_idx`.

    Each run first reorders the rows of all caches by `beam_idx`, as beam search requires. A variable that is not set
    yet is an empty cache with the batch size of `input_ids`.

    Args:
        model: The model, which is modified.
        caches: Name of the cache input -> name of the cache output.
    """
    ids = model.input("input_ids")
    beams = ops.parameter(ov.PartialShape([ids.partial_shape[0]]), ov.Type.i32, name="beam_idx")
    beams.output(0).get_tensor().set_names({"beam_idx"})
    model.add_parameters([beams])
    for name in caches:
        cache = model.input(name)
        readers = cache.get_target_inputs()
        reordered = ops.gather(cache, beams, ops.constant(0))
        for reader in readers:
            reader.replace_source_output(reordered.output(0))
    model.validate_nodes_and_infer_types()
    apply_make_stateful_transformation(model, caches)
    rows = ops.gather(ops.shape_of(ids, output_type="i64"), ops.constant([0]), ops.constant(0))
    for node in model.get_ops():
        if node.get_type_name() == "ReadValue":
            sizes = [dimension.min_length for dimension in node.get_output_partial_shape(0)][1:]
            shape = ops.concat([rows, *(ops.constant(np.array([n], np.int64)) for n in sizes)], axis=0)
            empty = ops.constant(0.0, dtype=node.get_output_element_type(0))
            node.set_arguments([ops.broadcast(empty, shape)])
    model.validate_nodes_and_infer_types()
