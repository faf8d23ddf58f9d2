"""Operations that replace each string by another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.text.batch import join_batch
from irrun.text.charsmap import Normalizer, get_normalizer, parse_normalizer
from irrun.text.ragged import check_strings, get_flags, join_strings, list_strings, make_bounds, read_text
from irrun.text.replacement import compile_replacement
from irrun.text.reuse import reuse
from irrun.text.utf8 import replace_invalid

__all__ = ["case_fold", "chars_map_normalization", "normalize_unicode", "regex_normalization", "utf8_validate"]

#: Old patterns, and what replaces them.
_REWRITTEN_PATTERNS = {
    r" ([\\.\\?\\!,])| ('[ms])| (') | ('[rv]e)| (n't)": r"(?| ([\\.\\?\\!,])| ('[ms])| (') | ('[rv]e)| (n't))",
    "(^)(.)": r"(^)([\s\S])",
    "(^)(.+)": r"(^)([\s\S])",
}

_normalization = partial(
    op, opset="extension", scratch=2, shape="infer_normalized_strings", flops=0, output_types=("i32", "i32", "u8")
)


@_normalization("RegexNormalization", scratch=18)
def regex_normalization(
    begins: Array, ends: Array, chars: Array, *rest: Array, global_replace: bool = True
) -> tuple[Array, ...]:
    r"""Replace what a pattern matches in each string.

    A pattern that PCRE2 does not compile matches nothing. A replacement that PCRE2 does not accept, or whose result is
    longer than its buffer, leaves a string unchanged.

    Args:
        begins: i32, any shape.
        ends: i32, the shape of `begins`.
        chars: u8 [bytes].
        rest: Which strings stay unchanged, boolean of the shape of `begins`, if there are six inputs; the pattern
            and the replacement, u8 [bytes]. `$n` and `\n` in a replacement refer to groups.
        global_replace: Whether all matches are replaced, not only the first one.

    Returns:
        The strings without gaps, and which remain if that is an input.

    Raises:
        InputError: The strings exceed the text, there are not five or six inputs, or a search takes too long.

    Spec:
        Defined by regex_normalization.cpp of OpenVINO Tokenizers
    """
    if len(rest) not in (2, 3):
        raise InputError(f"found {3 + len(rest)} inputs, expected 5 or 6")
    source = read_text("the pattern", rest[-2]).decode("utf-8", "surrogateescape")
    pattern = _REWRITTEN_PATTERNS.get(source, source).encode("utf-8", "surrogateescape")
    replacement = compile_replacement(pattern, read_text("the replacement", rest[-1]), global_replace)
    skips = rest[0] if len(rest) == 3 else None
    check_strings(begins, ends, chars)
    flags = np.zeros(begins.size, bool) if skips is None else get_flags(skips, begins.size)
    batch = join_batch(begins, ends, chars)
    found = replacement.replace_all(batch, flags) if batch is not None else None
    if found is None:
        return normalize_strings(begins, ends, chars, skips, replacement.replace)
    bounds, text = found
    strings = (*make_bounds(np.diff(bounds), begins.shape), text)
    return strings if skips is None else (*strings, skips)


@_normalization("CharsMapNormalization")
def chars_map_normalization(
    begins: Array,
    ends: Array,
    chars: Array,
    *rest: Array,
    add_dummy_prefix: bool = False,
    remove_extra_whitespaces: bool = True,
    escape_whitespaces: bool = False,
    normalization_form: str = "",
    case_fold: bool = False,
    nmt: bool = False,
) -> tuple[Array, ...]:
    """Replace sequences of characters by SentencePiece's rules: the longest one that a map contains.

    Bytes that are not UTF-8 become U+FFFD.

    Args:
        begins: i32, any shape.
        ends: i32, the shape of `begins`.
        chars: u8 [bytes].
        rest: Which strings stay unchanged, boolean of the shape of `begins`, which may be left out; and a compiled
            map of SentencePiece, u8 [bytes], unless `normalization_form` names a map.
        add_dummy_prefix: Whether a space precedes each string that is not empty.
        remove_extra_whitespaces: Whether repeated spaces, and those at both ends, are removed.
        escape_whitespaces: Whether spaces become U+2581.
        normalization_form: A form of Unicode: nfc, nfd, nfkc, nfkd or identity; empty for the map that is an input.
        case_fold: Whether the map that `normalization_form` names folds case.
        nmt: Has no influence.

    Returns:
        The strings without gaps, and which remain if that is an input.

    Raises:
        InputError: The strings exceed the text, there are not three to five inputs, or the map is unknown or malformed.

    Spec:
        Defined by charsmap_normalization.cpp of OpenVINO Tokenizers
    """
    has_skips = len(rest) == 2 or (normalization_form != "" and len(rest) == 1)
    if len(rest) > 2 or (not rest and not normalization_form):
        raise InputError(f"found {3 + len(rest)} inputs, expected up to 5, one of them a map or normalization_form")
    spaces = (add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces)
    if normalization_form:
        normalizer = get_normalizer(normalization_form, case_fold, *spaces)
    else:
        normalizer = reuse(_parse_map, rest[-1:], *spaces)
    return normalize_strings(begins, ends, chars, rest[0] if has_skips else None, normalizer.normalize)


def _parse_map(charsmap: Array, *spaces: bool) -> Normalizer:
    return parse_normalizer(read_text("the map", charsmap), *spaces)


@_normalization("CaseFold")
def case_fold(
    begins: Array,
    ends: Array,
    chars: Array,
    skips: Array | None = None,
    *,
    encoding: str = "utf-8",
    lower: bool = True,
) -> tuple[Array, ...]:
    """Fold the case of characters, by the simple folding of Unicode 14.

    Args:
        begins: i32, any shape.
        ends: i32, the shape of `begins`.
        chars: u8 [bytes].
        skips: Which strings stay unchanged, boolean of the shape of `begins`. Ignored without an encoding.
        encoding: "utf-8", or "" for letters of ASCII only.
        lower: Whether the letters of ASCII become lower case, otherwise upper case.

    Returns:
        The strings without gaps, and `skips` if it is an input.

    Raises:
        InputError: The strings exceed the text, or the encoding is unknown or has no upper case.

    Spec:
        Defined by case_fold.cpp of OpenVINO Tokenizers
    """
    if encoding == "":
        strings = normalize_strings(begins, ends, chars, None, bytes.lower if lower else bytes.upper)
        return strings if skips is None else (*strings, skips)
    if encoding != "utf-8" or not lower:
        raise InputError(f"encoding is {encoding!r} and lower {lower}, expected utf-8 with lower case, or none")
    return normalize_strings(begins, ends, chars, skips, get_normalizer("identity", True).normalize)


@_normalization("NormalizeUnicode")
def normalize_unicode(
    begins: Array,
    ends: Array,
    chars: Array,
    skips: Array | None = None,
    *,
    normalization_form: Literal["NFC", "NFD", "NFKC", "NFKD"] = "NFD",
) -> tuple[Array, ...]:
    """Normalize strings by SentencePiece's maps of Unicode 14, which do not put marks in order.

    Args:
        begins: i32, any shape.
        ends: i32, the shape of `begins`.
        chars: u8 [bytes].
        skips: Which strings stay unchanged, boolean of the shape of `begins`.
        normalization_form: The form of Unicode.

    Returns:
        The strings without gaps, and `skips` if it is an input.

    Raises:
        InputError: The strings exceed the text.

    Spec:
        Defined by normalize_unicode.cpp of OpenVINO Tokenizers
    """
    return normalize_strings(begins, ends, chars, skips, get_normalizer(normalization_form, False).normalize)


@_normalization("UTF8Validate")
def utf8_validate(begins: Array, ends: Array, chars: Array, *, replace_mode: bool = False) -> tuple[Array, ...]:
    """Remove or replace bytes that are not UTF-8.

    A sequence that is longer than its code point requires counts as one invalid sequence per byte, an incomplete one as
    one. Surrogates and code points above U+10FFFF are valid.

    Args:
        begins: i32, any shape.
        ends: i32, the shape of `begins`.
        chars: u8 [bytes].
        replace_mode: Whether U+FFFD replaces invalid sequences; otherwise, they are removed.

    Returns:
        The strings without gaps.

    Raises:
        InputError: The strings exceed the text.

    Spec:
        Defined by utf8_validate.cpp of OpenVINO Tokenizers
    """
    check_strings(begins, ends, chars)
    strings = [replace_invalid(text, replace_mode) for text in within_time(list_strings(begins, ends, chars))]
    return join_strings(strings, begins.shape)


def normalize_strings(
    begins: Array, ends: Array, chars: Array, skips: Array | None, normalize: Callable[[bytes], bytes]
) -> tuple[Array, ...]:
    """Return strings that a function replaces, except those that are skipped.

    Raises:
        InputError: The strings exceed the text, or the skips have another shape.
    """
    check_strings(begins, ends, chars)
    strings = within_time(list_strings(begins, ends, chars))
    if skips is None:
        return join_strings([normalize(text) for text in strings], begins.shape)
    flags = get_flags(skips, begins.size).tolist()
    results = [text if skip else normalize(text) for text, skip in zip(strings, flags, strict=True)]
    return (*join_strings(results, begins.shape), skips)
