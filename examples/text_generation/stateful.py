"""Language models as optimum-intel exports them: the cache of keys and values lives inside the model, as variables."""

from __future__ import annotations

import numpy as np
import openvino as ov
import torch
from openvino import opset13 as ops
from openvino._offline_transformations import apply_make_stateful_transformation
from torch import nn

__all__ = ["causal_mask", "convert", "make_stateful"]

INPUTS = ("input_ids", "attention_mask", "position_ids")


def causal_mask(attention_mask: torch.Tensor, length: int) -> torch.Tensor:
    """What is added to the scores [batch, 1, length, total] of the last `length` of `total` places.

    attention_mask: [batch, total], 0 where a place is padding.
    """
    total = attention_mask.shape[1]
    keys = torch.arange(total)
    queries = torch.arange(length) + (total - length)
    allowed = (keys[None, :] <= queries[:, None])[None, None] & attention_mask[:, None, None, :].bool()
    return torch.where(allowed, 0.0, torch.finfo(torch.float32).min)


def convert(decoder: nn.Module, layers: int, heads: int, size: int) -> ov.Model:
    """The stateful model of `decoder(input_ids, attention_mask, position_ids, *caches) -> (logits, *caches)`.

    Each of the `layers` has two caches, of keys and of values, [batch, heads, places, size].
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
    """Turns cache inputs (keys of `caches`) and outputs (values) into variables; adds the input `beam_idx`.

    At the start of a run the rows of every cache are picked by `beam_idx`, so that beams can change places.
    A cache that holds nothing yet begins empty, with as many rows as `input_ids` has.
    """
    ids = model.input("input_ids")
    beams = ops.parameter(ov.PartialShape([ids.partial_shape[0]]), ov.Type.i32, name="beam_idx")
    beams.output(0).get_tensor().set_names({"beam_idx"})
    model.add_parameters([beams])
    for name in caches:
        cache = model.input(name)
        readers = cache.get_target_inputs()
        picked = ops.gather(cache, beams, ops.constant(0))
        for reader in readers:
            reader.replace_source_output(picked.output(0))
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
