"""Operations that replace each string by another."""

from __future__ import annotations

from collections.abc import Callable

from irrun.errors import InputError
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.text.ragged import check_strings, join_strings, list_strings, read_text
from irrun.text.replacement import compile_replacement

__all__ = ["regex_normalization"]

#: Old patterns, and what replaces them.
_REWRITTEN_PATTERNS = {
    r" ([\\.\\?\\!,])| ('[ms])| (') | ('[rv]e)| (n't)": r"(?| ([\\.\\?\\!,])| ('[ms])| (') | ('[rv]e)| (n't))",
    "(^)(.)": r"(^)([\s\S])",
    "(^)(.+)": r"(^)([\s\S])",
}


@op(
    "RegexNormalization",
    opset="extension",
    shape="infer_normalized_strings",
    flops=0,
    output_types=("i32", "i32", "u8"),
)
def regex_normalization(
    begins: Array, ends: Array, chars: Array, *rest: Array, global_replace: bool = True
) -> tuple[Array, ...]:
    r"""Replace what a pattern matches in each string.

    A pattern that PCRE2 does not compile matches nothing. A replacement that PCRE2 does not accept, or whose result is
    longer than its buffer, leaves a string as it is.

    Args:
        begins: i32, any shape.
        ends: i32, the shape of `begins`.
        chars: u8 [bytes].
        rest: Which strings remain as they are, boolean of the shape of `begins`, if there are six inputs; the pattern
            and the replacement, u8 [bytes]. `$n` and `\n` in a replacement stand for groups.
        global_replace: Whether all matches are replaced, not only the first one.

    Returns:
        The strings without gaps, and which remain if that is an input.

    Raises:
        InputError: The strings exceed the text, there are not five or six inputs, or a search takes too long.

    Spec:
        Defined by regex_normalization.cpp of OpenVINO Tokenizers
    """
    if len(rest) not in (2, 3):
        raise InputError(f"there are {3 + len(rest)} inputs, expected 5 or 6")
    source = read_text("the pattern", rest[-2]).decode("utf-8", "surrogateescape")
    pattern = _REWRITTEN_PATTERNS.get(source, source).encode("utf-8", "surrogateescape")
    replacement = compile_replacement(pattern, read_text("the replacement", rest[-1]), global_replace)
    return normalize_strings(begins, ends, chars, rest[0] if len(rest) == 3 else None, replacement.replace)


def normalize_strings(
    begins: Array, ends: Array, chars: Array, skips: Array | None, normalize: Callable[[bytes], bytes]
) -> tuple[Array, ...]:
    """Return strings that a function replaces, except those that are skipped.

    Raises:
        InputError: The strings exceed the text, or the skips have another shape.
    """
    check_strings(begins, ends, chars)
    strings = list_strings(begins, ends, chars)
    if skips is None:
        return join_strings([normalize(text) for text in strings], begins.shape)
    if skips.size != begins.size:
        raise InputError(f"{skips.size} flags state which of {begins.size} strings remain")
    flags = skips.reshape(-1).tolist()
    results = [text if skip else normalize(text) for text, skip in zip(strings, flags, strict=True)]
    return (*join_strings(results, begins.shape), skips)
