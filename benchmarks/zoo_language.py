"""Small random language models, exported as optimum-intel exports large trained ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import openvino as ov
from torch import Tensor, nn
from transformers import (
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.cache_utils import DynamicLayer

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "text_generation"))
from stateful import causal_mask, convert

__all__ = ["gpt2", "llama", "qwen2"]

#: Weights this large make the next token depend on all that came before.
SPREAD = 0.15


class Decoder(nn.Module):
    """A model of transformers with its cache as plain inputs and outputs."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, *caches: Tensor
    ) -> tuple[Tensor, ...]:
        cache = DynamicCache()
        cache.layers = [filled(*pair) for pair in zip(caches[::2], caches[1::2], strict=True)]
        out: Any = self.model(
            input_ids,
            attention_mask=causal_mask(attention_mask, input_ids.shape[1]),
            position_ids=position_ids,
            past_key_values=cache,
            use_cache=True,
        )
        return out.logits, *(tensor for layer in out.past_key_values.layers for tensor in (layer.keys, layer.values))


def filled(keys: Tensor, values: Tensor) -> DynamicLayer:
    """The cache of one layer; made in the usual way it would begin with a tensor that tracing cannot convert."""
    layer = DynamicLayer()
    layer.lazy_initialization(keys, values)
    layer.keys, layer.values = keys, values
    return layer


def llama() -> ov.Model:
    """Four query heads for each key head, untied embeddings."""
    config = LlamaConfig(
        vocab_size=1000, hidden_size=128, intermediate_size=352, num_hidden_layers=3, num_attention_heads=8,
        num_key_value_heads=2, initializer_range=SPREAD, attn_implementation="sdpa",
    )  # fmt: skip
    return convert(Decoder(LlamaForCausalLM(config)), layers=3, heads=2, size=16)


def qwen2() -> ov.Model:
    """Biases on queries, keys and values, tied embeddings."""
    config = Qwen2Config(
        vocab_size=1000, hidden_size=128, intermediate_size=352, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, initializer_range=SPREAD, tie_word_embeddings=True, attn_implementation="sdpa",
    )  # fmt: skip
    return convert(Decoder(Qwen2ForCausalLM(config)), layers=3, heads=2, size=32)


def gpt2() -> ov.Model:
    """Learned positions, LayerNorm, untied embeddings: with tied ones, a random model repeats its last token."""
    config = GPT2Config(
        vocab_size=1000, n_embd=128, n_layer=3, n_head=4, n_positions=128, initializer_range=SPREAD,
        tie_word_embeddings=False, attn_implementation="sdpa",
    )  # fmt: skip
    return convert(Decoder(GPT2LMHeadModel(config)), layers=3, heads=4, size=32)
