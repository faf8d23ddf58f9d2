"""Write the pinned tables of Unicode in `irrun/text`.

pip install unicodedata2==17.0.0 && python tools/unicode_tables.py
"""

from __future__ import annotations

import textwrap
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "irrun" / "text"
#: The version of Unicode of PCRE2 in OpenVINO Tokenizers.
PATTERN_VERSION = "17.0.0"


def list_unassigned() -> list[tuple[int, int]]:
    """Return the first and last code points of the ranges that Unicode leaves unassigned."""
    import unicodedata2

    if unicodedata2.unidata_version != PATTERN_VERSION:
        raise SystemExit(f"found Unicode {unicodedata2.unidata_version}, expected {PATTERN_VERSION}")
    ranges: list[tuple[int, int]] = []
    for code in range(0x110000):
        if unicodedata2.category(chr(code)) == "Cn":
            first = ranges.pop()[0] if ranges and ranges[-1][1] == code - 1 else code
            ranges.append((first, code))
    return ranges


def rewrite_unassigned() -> None:
    """Write the ranges of `unicode_ranges.py` anew."""
    path = FOLDER / "unicode_ranges.py"
    head, _, rest = path.read_text(encoding="utf-8").partition('_UNASSIGNED = """\\\n')
    tail = rest.partition('"""')[2]
    words = " ".join(f"{a:x}" if a == b else f"{a:x}-{b:x}" for a, b in list_unassigned())
    lines = "\n".join(textwrap.wrap(words, 118, break_on_hyphens=False))
    path.write_text(f'{head}_UNASSIGNED = """\\\n{lines}\n"""{tail}', encoding="utf-8")


if __name__ == "__main__":
    rewrite_unassigned()
