"""Small language models with random weights, exported in the form of optimum-intel."""

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
from stateful import convert, make_causal_mask

__all__ = ["falcon", "gemma2", "gpt2", "gpt_oss", "llama", "mixtral", "phi", "qwen2"]

#: Standard deviation of weights; large enough that the next token depends on all previous ones.
STDDEV = 0.15

#: Number of positions in a sliding window.
WINDOW = 5


class Decoder(nn.Module):
    """A model of transformers whose cache is passed as inputs and outputs; some layers may have a sliding window."""

    def __init__(self, model: PreTrainedModel, window: int = 0) -> None:
        super().__init__()
        self.model = model
        self.window = window

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, *caches: Tensor
    ) -> tuple[Tensor, ...]:
        cache = DynamicCache()
        cache.layers = [make_cache_layer(*pair) for pair in zip(caches[::2], caches[1::2], strict=True)]
        outputs: Any = self.model(
            input_ids,
            attention_mask=self.make_mask(attention_mask, input_ids.shape[1]),
            position_ids=position_ids,
            past_key_values=cache,
            use_cache=True,
        )
        return outputs.logits, *(
            tensor for layer in outputs.past_key_values.layers for tensor in (layer.keys, layer.values)
        )

    def make_mask(self, attention_mask: Tensor, length: int) -> Tensor | dict[str, Tensor]:
        full = make_causal_mask(attention_mask, length)
        if not self.window:
            return full
        total = attention_mask.shape[1]
        distances = torch.arange(length)[:, None] + (total - length) - torch.arange(total)
        sliding = torch.where(distances < self.window, full, torch.finfo(torch.float32).min)
        return {"full_attention": full, "sliding_attention": sliding}


def make_cache_layer(keys: Tensor, values: Tensor) -> DynamicLayer:
    """Return the cache of a layer without the empty initial tensor, which tracing cannot convert."""
    layer = DynamicLayer()
    layer.lazy_initialization(keys, values)
    layer.keys, layer.values = keys, values
    return layer


def llama() -> ov.Model:
    """Llama: four query heads per key head, untied embeddings."""
    config = LlamaConfig(
        vocab_size=1000, hidden_size=128, intermediate_size=352, num_hidden_layers=3, num_attention_heads=8,
        num_key_value_heads=2, initializer_range=STDDEV, attn_implementation="sdpa",
    )  # fmt: skip
    return convert(Decoder(LlamaForCausalLM(config)), layers=3, heads=2, size=16)


def qwen2() -> ov.Model:
    """Qwen2: biases on queries, keys and values, tied embeddings."""
    config = Qwen2Config(
        vocab_size=1000, hidden_size=128, intermediate_size=352, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, initializer_range=STDDEV, tie_word_embeddings=True, attn_implementation="sdpa",
    )  # fmt: skip
    return convert(Decoder(Qwen2ForCausalLM(config)), layers=3, heads=2, size=32)


def gpt2() -> ov.Model:
    """GPT-2: learned positions, LayerNorm, untied embeddings (tied ones make a random model repeat its last token)."""
    config = GPT2Config(
        vocab_size=1000, n_embd=128, n_layer=3, n_head=4, n_positions=128, initializer_range=STDDEV,
        tie_word_embeddings=False, attn_implementation="sdpa",
    )  # fmt: skip
    return convert(Decoder(GPT2LMHeadModel(config)), layers=3, heads=4, size=32)


def gemma2() -> ov.Model:
    """Gemma 2: sliding windows in every other layer, scores and logits bounded by tanh, norms before and after."""
    config = Gemma2Config(
        vocab_size=1000, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=16, sliding_window=WINDOW, initializer_range=STDDEV,
        tie_word_embeddings=False, attn_implementation="eager",
    )  # fmt: skip
    return convert(Decoder(Gemma2ForCausalLM(config), WINDOW), layers=4, heads=2, size=16)


def phi() -> ov.Model:
    """Phi: attention parallel to the feed-forward network, partial rotary embeddings, biases everywhere."""
    config = PhiConfig(
        vocab_size=1000, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
        partial_rotary_factor=0.5, initializer_range=STDDEV, attn_implementation="sdpa",
    )  # fmt: skip
    return convert(Decoder(PhiForCausalLM(config)), layers=3, heads=4, size=16)


def falcon() -> ov.Model:
    """Falcon: multi-query attention parallel to the feed-forward network."""
    config = FalconConfig(
        vocab_size=1000, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, multi_query=True,
        parallel_attn=True, alibi=False, new_decoder_architecture=False, initializer_range=STDDEV,
        tie_word_embeddings=False, attn_implementation="sdpa",
    )  # fmt: skip
    return convert(Decoder(FalconForCausalLM(config)), layers=3, heads=1, size=16)


def mixtral() -> ov.Model:
    """Mixtral: two of four experts per token."""
    config = MixtralConfig(
        vocab_size=1000, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, sliding_window=None,
        initializer_range=STDDEV, attn_implementation="sdpa",
    )  # fmt: skip
    model = MixtralForCausalLM(config)
    model.set_experts_implementation("batched_mm")  # the default loops over the selected experts
    return convert(Decoder(model), layers=3, heads=2, size=16)


def gpt_oss() -> ov.Model:
    """gpt-oss: experts, sliding windows in every other layer, and attention sinks."""
    config = GptOssConfig(
        vocab_size=1000, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=WINDOW,
        initializer_range=STDDEV, attn_implementation="eager",
    )  # fmt: skip
    model = GptOssForCausalLM(config)
    model.set_experts_implementation("batched_mm")
    return convert(Decoder(model, WINDOW), layers=4, heads=2, size=16)
