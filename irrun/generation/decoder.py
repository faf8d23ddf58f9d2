"""Language models that run token by token, with their key-value caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from irrun.errors import ModelError
from irrun.ir.editor import GraphEditor
from irrun.ir.graph import Layer
from irrun.ir.model import Model, TensorSpec
from irrun.ops._support.registry import get_card
from irrun.runtime.compiled_model import CompiledModel
from irrun.runtime.observer import Observer
from irrun.runtime.options import RunSettings

__all__ = ["Decoder", "compile_language_model"]

Array = np.ndarray[Any, Any]

#: Inputs of language models. `beam_idx` gives the cache row that each row continues.
INPUTS = ("input_ids", "attention_mask", "position_ids", "token_type_ids", "beam_idx")
#: Elementwise layers allowed between the matrix product of the scores and the output.
AFTER_SCORES = ("Result", "Convert", "Add", "Subtract", "Multiply", "Divide", "Tanh")
#: Name prefixes of inputs and outputs that carry the cache from one run to the next.
PAST, PRESENT = "past_key_values", "present"


class Decoder:
    """One or several texts, continued by a language model.

    The cache of the model is in variables, or in the inputs `past_key_values...` that the outputs `present...`
    continue. Without a cache, the model gets all tokens in each run.

    Args:
        compiled: A model from `compile_language_model`.
        timeout: Time limit of each run in seconds.
        observers: Called after each instruction.

    Attributes:
        observers: The argument.
    """

    def __init__(
        self, compiled: CompiledModel, timeout: float | None = None, observers: Sequence[Observer] = ()
    ) -> None:
        self._request = compiled.create_infer_request()
        self._timeout, self.observers = timeout, observers
        self._specs = {_get_name(spec): spec for spec in compiled.inputs}
        self._variables = self._request.query_state()
        self._shapes = {
            layer.attributes["variable_id"]: layer.outputs[0].shape
            for layer in compiled.model.graph.layers
            if layer.reads_variable and not layer.inputs and layer.outputs
        }
        self._forget()

    def _forget(self) -> None:
        """Remove all tokens."""
        self._tokens = np.zeros((1, 0), np.int64)
        self._cache = {name: _make_empty(spec) for name, spec in self._specs.items() if name.startswith(PAST)}
        for variable in self._variables:
            variable.reset()
            shape = self._shapes.get(variable.name)
            if shape is not None and len(shape) and not shape[0].is_static:
                variable.state = np.zeros((1, *shape.get_min_shape()[1:]), variable.state.dtype)

    def start(self, prompt: Sequence[int]) -> Array:
        """Return the scores of the next token after a prompt, f32 of shape [1, vocabulary].

        If the prompt begins with the tokens of this text, as in a chat, those tokens are not computed again.

        Args:
            prompt: The tokens.

        Raises:
            IrrunError: A layer failed.
        """
        known: list[int] = self._tokens[0].tolist()
        has_cache = bool(self._cache or self._variables)
        extends = has_cache and len(self._tokens) == 1 and known == list(prompt[: len(known)])
        if not extends or len(known) >= len(prompt):
            self._forget()
            known = []
        return self.run([prompt[len(known) :]], [0])

    def run(self, tokens: Sequence[Sequence[int]], rows: Sequence[int]) -> Array:
        """Return the scores of the next tokens, f32 of shape [rows, vocabulary].

        Args:
            tokens: The new tokens, the same number for each row.
            rows: The row of the last run that each row continues; 0 in the first run.

        Raises:
            IrrunError: A layer failed.
        """
        new = np.array(tokens, np.int64)
        count, is_reordered = len(rows), list(rows) != list(range(len(self._tokens)))
        past = self._tokens.shape[1] if self._cache or self._variables else 0
        self._tokens = np.concatenate([self._tokens[list(rows)], new], axis=1)
        total = self._tokens.shape[1]
        if is_reordered and past and "beam_idx" not in self._specs:
            self._select_rows(list(rows))
        positions = np.broadcast_to(np.arange(past, total), (count, total - past))
        values: dict[str, Array] = {
            "input_ids": self._tokens[:, past:],
            "attention_mask": np.ones((count, total), np.int64),
            "position_ids": positions,
            "token_type_ids": np.zeros_like(positions),
            "beam_idx": np.array(rows, np.int32),
            **self._cache,
        }
        inputs = {name: _convert(values[name], spec) for name, spec in self._specs.items()}
        self._cache = dict.fromkeys(self._cache, np.empty(0))  # only `inputs` keeps the values that the run replaces
        del values
        outputs = self._request.infer(inputs, observers=self.observers, timeout=self._timeout)
        self._cache = {name: outputs[PRESENT + name.removeprefix(PAST)] for name in self._cache}
        scores: Array = outputs["logits"][:, -1].astype(np.float32)
        return scores

    def _select_rows(self, rows: list[int]) -> None:
        """Reorder the rows of a cache without `beam_idx`."""
        self._cache = {name: value[rows] for name, value in self._cache.items()}
        for variable in self._variables:
            variable.state = variable.state[rows]


def compile_language_model(model: Model, settings: RunSettings) -> CompiledModel:
    """Compile a language model.

    A cache in inputs and outputs moves to variables, which grow in place. If the scores are a matrix product, only the
    product for the last token is computed, as in OpenVINO GenAI.

    Args:
        model: The model.
        settings: How it is compiled.

    Raises:
        ModelError: The model has other inputs, no output "logits", or no output for an input of the cache.
    """
    _check(model)
    return settings.compile(_score_last_token(_keep_cache(model)))


def _keep_cache(model: Model) -> Model:
    """Return a model with the cache in f32 variables, or the model itself if its cache has another type."""
    pasts = {_get_name(spec): spec for spec in model.inputs if _get_name(spec).startswith(PAST)}
    presents = {name: spec.layer for spec in model.outputs for name in spec.names}
    changed: dict[int, Layer] = {}
    for name, spec in pasts.items():
        assigned = presents[PRESENT + name.removeprefix(PAST)]
        if str(spec.element_type) != "f32" or spec.partial_shape is None or assigned.id in changed:
            return model
        attributes = {"variable_id": name, "variable_type": "f32", "variable_shape": str(spec.partial_shape)}
        changed[spec.layer.id] = replace(spec.layer, type="ReadValue", version="opset6", attributes=attributes)
        changed[assigned.id] = replace(assigned, type="Assign", version="opset6", attributes={"variable_id": name})
    layers = [changed.get(layer.id, layer) for layer in model.graph.layers]
    return replace(model, graph=replace(model.graph, layers=layers))


def _score_last_token(model: Model) -> Model:
    """Return a model that scores only the last token, or the model itself if it computes scores in another way."""
    editor = GraphEditor(model.graph)
    layer: Layer | None = next(spec.layer for spec in model.outputs if "logits" in spec.names)
    while layer is not None and not get_card(layer.type, layer.version).multiplies_matrices:
        if layer.type not in AFTER_SCORES or not _scales_tokens_alike(editor, layer):
            return model
        source = editor.get_source(layer, 0)
        if source is None or len(editor.get_consumers(source)) != 1:
            return model
        layer = editor.get_layer(source[0])
    source = None if layer is None else editor.get_source(layer, 0)
    states = None if source is None or layer is None else editor.get_port(source)
    if layer is None or source is None or states is None or editor.get_layer(source[0]).is_constant:
        return model
    weights = layer.inputs[1].shape if len(layer.inputs) == 2 else None
    is_transposed = str(layer.attributes.get("transpose_a", "false")).lower() in ("true", "1")
    if is_transposed or states.shape is None or len(states.shape) != 3 or weights is None or len(weights) != 2:
        return model
    last = editor.add_gather(source, editor.add_constant([-1], "last_position"), 1, "last_token", states.element_type)
    editor.set_input(layer, 0, last)
    return replace(model, graph=editor.finish())


def _scales_tokens_alike(editor: GraphEditor, layer: Layer) -> bool:
    """Return whether the other inputs of an elementwise layer are constants, the same for all tokens."""
    for position in range(1, len(layer.inputs)):
        producer, shape = editor.get_producer(layer, position), layer.inputs[position].shape
        if producer is None or not producer.is_constant or shape is None:
            return False
        if any(size != 1 for size in shape[:-1]):
            return False
    return True


def _check(model: Model) -> None:
    """Check the inputs and outputs of a language model."""
    path = model.path
    names = [_get_name(spec) for spec in model.inputs]
    if "input_ids" not in names or any(name not in INPUTS and not name.startswith(PAST) for name in names):
        expected = f"input_ids and any of {', '.join(INPUTS)} and {PAST}..."
        raise ModelError(f"the inputs of the language model are {', '.join(names)}; expected {expected}", path=path)
    found = {name for spec in model.outputs for name in spec.names}
    needed = ["logits", *(PRESENT + name.removeprefix(PAST) for name in names if name.startswith(PAST))]
    for name in needed:
        if name not in found:
            shown = ", ".join(spec.any_name for spec in model.outputs)
            raise ModelError(f"the language model has no output {name}; found {shown}", path=path)


def _get_name(spec: TensorSpec) -> str:
    """Return the name of an input that identifies its meaning, or any of its names."""
    return next((name for name in spec.names if name in INPUTS or name.startswith(PAST)), spec.any_name)


def _make_empty(spec: TensorSpec) -> Array:
    """Return an empty cache: dynamic dimensions are 0, except the first, the batch."""
    if spec.partial_shape is None or spec.element_type is None:
        raise ModelError(f"the input {spec.any_name} of the language model has no declared shape or type")
    return np.zeros((1, *spec.partial_shape.get_min_shape()[1:]), spec.element_type.dtype)


def _convert(value: Array, spec: TensorSpec) -> Array:
    return value if spec.element_type is None else value.astype(spec.element_type.dtype, copy=False)
