"""The base of pipelines with a tokenizer and a default configuration."""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

from irrun.openvino_genai.generation_config import GenerationConfig
from irrun.openvino_genai.tokenizer import Tokenizer

__all__ = ["ConfiguredPipeline"]

Config = TypeVar("Config", bound=GenerationConfig)


class ConfiguredPipeline(Generic[Config]):
    """A pipeline with a tokenizer and a default configuration."""

    _tokenizer: Tokenizer
    _config: Config

    def _find_end_token(self) -> int:
        """Return the token that ends texts, or -1."""
        return self._tokenizer.get_eos_token_id()

    def _set_end_token(self, config: GenerationConfig) -> None:
        token = self._find_end_token()
        if config.eos_token_id == -1 and token != -1:
            config.set_eos_token_id(token)

    def get_tokenizer(self) -> Tokenizer:
        """Return the tokenizer."""
        return self._tokenizer

    def get_generation_config(self) -> Config:
        """Return a copy of the default configuration."""
        return copy.deepcopy(self._config)

    def set_generation_config(self, config: Config) -> None:
        """Set the default configuration.

        Raises:
            RuntimeError: An option is out of range.
        """
        config = copy.deepcopy(config)
        self._set_end_token(config)
        config.validate()
        self._config = config
