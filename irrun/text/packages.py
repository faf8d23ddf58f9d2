"""Packages of the extra `text`, imported when a model needs them."""

from __future__ import annotations

import functools
from types import ModuleType

from irrun.errors import InputError

__all__ = ["import_regex", "import_sentencepiece"]


@functools.cache
def import_regex() -> ModuleType:
    """Return the package `regex`.

    Raises:
        InputError: It is not installed.
    """
    try:
        import regex
    except ImportError:
        raise InputError("regular expressions of tokenizers require regex: pip install 'irrun[text]'") from None
    module: ModuleType = regex
    return module


@functools.cache
def import_sentencepiece() -> ModuleType:
    """Return the package `sentencepiece`.

    Raises:
        InputError: It is not installed.
    """
    try:
        import sentencepiece
    except ImportError:
        raise InputError(
            "embedded SentencePiece models require sentencepiece: pip install 'sentencepiece<0.2.2'"
        ) from None
    module: ModuleType = sentencepiece
    return module
