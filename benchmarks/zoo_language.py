"""Small random language models, exported as optimum-intel exports large trained ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import openvino as ov
import torch
from torch import Tensor, nn
from transformers import (
    DynamicCache,
    FalconConfig,
    FalconForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    PhiConfig,
    PhiForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.cache_utils import DynamicLayer

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "text_generation"))
from stateful import causal_mask, convert

__all__ = ["falcon", "gemma2", "gpt2", "gpt_oss", "llama", "mixtral", "phi", "qwen2"]

#: Weights this large make the next token depend on all that came before.
SPREAD = 0.15

#: How many places a layer with a sliding window sees.
WINDOW = 5


class Decoder(nn.Module):
    """A model of transformers with its cache as plain inputs and outputs; some of its layers may see a window only."""

    def __init__(self, model: PreTrainedModel, window: int = 0) -> None:
        super().__init__()
        self.model = model
        self.window = window

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, *caches: Tensor
    ) -> tuple[Tensor, ...]:
        cache = DynamicCache()
        cache.layers = [filled(*pair) for pair in zip(caches[::2], caches[1::2], strict=True)]
        out: Any = self.model(
            input_ids,
            attention_mask=self.mask(attention_mask, input_ids.shape[1]),
            position_ids=position_ids,
            past_key_values=cache,
            use_cache=True,
        )
        return out.logits, *(tensor for layer in out.past_key_values.layers for tensor in (layer.keys, layer.values))

    def mask(self, attention_mask: Tensor, length: int) -> Tensor | dict[str, Tensor]:
        full = causal_mask(attention_mask, length)
        if not self.window:
            return full
        total = attention_mask.shape[1]
        distances = torch.arange(length)[:, None] + (total - length) - torch.arange(total)
        near = torch.where(distances < self.window, full, torch.finfo(torch.float32).min)
        return {"full_attention": full, "sliding_attention": near}


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


def gemma2() -> ov.Model:
    """A window in every other layer, scores and logits bounded by tanh, norms before and after."""
    config = Gemma2Config(
        vocab_size=1000, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=16, sliding_window=WINDOW, initializer_range=SPREAD,
        tie_word_embeddings=False, attn_implementation="eager",
    )  # fmt: skip
    return convert(Decoder(Gemma2ForCausalLM(config), WINDOW), layers=4, heads=2, size=16)


def phi() -> ov.Model:
    """Attention beside the feed-forward network, half of each head rotated, biases everywhere."""
    config = PhiConfig(
        vocab_size=1000, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
        partial_rotary_factor=0.5, initializer_range=SPREAD, attn_implementation="sdpa",
    )  # fmt: skip
    return convert(Decoder(PhiForCausalLM(config)), layers=3, heads=4, size=16)


def falcon() -> ov.Model:
    """One head of keys for all, attention beside the feed-forward network."""
    config = FalconConfig(
        vocab_size=1000, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, multi_query=True,
        parallel_attn=True, alibi=False, new_decoder_architecture=False, initializer_range=SPREAD,
        tie_word_embeddings=False, attn_implementation="sdpa",
    )  # fmt: skip
    return convert(Decoder(FalconForCausalLM(config)), layers=3, heads=1, size=16)


def mixtral() -> ov.Model:
    """Two of four experts for each token."""
    config = MixtralConfig(
        vocab_size=1000, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, sliding_window=None,
        initializer_range=SPREAD, attn_implementation="sdpa",
    )  # fmt: skip
    model = MixtralForCausalLM(config)
    model.set_experts_implementation("batched_mm")  # the usual one loops over the experts that were hit
    return convert(Decoder(model), layers=3, heads=2, size=16)


def gpt_oss() -> ov.Model:
    """Experts, a window in every other layer, and sinks: scores that take part in Softmax and have no value."""
    config = GptOssConfig(
        vocab_size=1000, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=WINDOW,
        initializer_range=SPREAD, attn_implementation="eager",
    )  # fmt: skip
    model = GptOssForCausalLM(config)
    model.set_experts_implementation("batched_mm")
    return convert(Decoder(model, WINDOW), layers=4, heads=2, size=16)
