"""Validation of UTF-8, as in OpenVINO Tokenizers, which replaces sequences differently than the standard."""

from __future__ import annotations

import re

__all__ = ["replace_invalid"]

#: Each byte of an overlong encoding is replaced; any other invalid sequence is replaced as a whole. Surrogates and code
#: points above U+10FFFF are valid.
_SEQUENCES = re.compile(
    rb"(?P<valid>[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xef][\x80-\xbf]{2}"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf7][\x80-\xbf]{3})"
    rb"|(?P<long>[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf7][\x80-\xbf]{3})"
    rb"|[\xc0-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf7][\x80-\xbf]{0,2}|[\x80-\xbf\xf8-\xff]"
)
_REPLACEMENT = "\ufffd".encode()


def replace_invalid(text: bytes, replaces: bool) -> bytes:
    """Return a text without invalid sequences.

    Args:
        text: The text.
        replaces: Whether U+FFFD replaces invalid sequences; otherwise, they are removed.
    """
    replacement = _REPLACEMENT if replaces else b""

    def replace(match: re.Match[bytes]) -> bytes:
        if match.lastgroup == "valid":
            return match[0]
        return replacement * (len(match[0]) if match.lastgroup == "long" else 1)

    try:
        text.decode()
    except UnicodeDecodeError:
        return _SEQUENCES.sub(replace, text)
    return text
