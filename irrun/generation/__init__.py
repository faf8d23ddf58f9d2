"""Text generation with folders exported by optimum-intel: tokenizer, language model and detokenizer."""

from __future__ import annotations

from irrun.generation.config import GenerationConfig
from irrun.generation.pipeline import GeneratedText, TextGenerator, generate

__all__ = ["GeneratedText", "GenerationConfig", "TextGenerator", "generate"]
