"""Characters and classes of characters in patterns of PCRE2."""

from __future__ import annotations

import string

from irrun.text.pattern_sets import CLASS_ESCAPES, POSIX_CLASSES, PatternError, translate_property

__all__ = ["ClassParser", "escape"]

#: Escapes -> characters.
CONTROL_ESCAPES = {"a": "\a", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
#: Characters with a different meaning in classes of `regex`.
_PLAIN = frozenset(string.ascii_letters + string.digits)


class ClassParser:
    """Reads characters and classes of a pattern from left to right.

    The width of an expression is the largest number of characters that it matches; None if it is unlimited.

    Args:
        pattern: The pattern.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0

    def peek(self, count: int = 1) -> str:
        """Return the next characters, without reading them."""
        return self.pattern[self.position : self.position + count]

    def skip(self, text: str) -> bool:
        """Skip a text if it is next."""
        if self.pattern.startswith(text, self.position):
            self.position += len(text)
            return True
        return False

    def take_until(self, end: str) -> str:
        """Return the text before the next `end`, and skip both."""
        stop = self.pattern.find(end, self.position)
        if stop < 0:
            raise PatternError(f"missing {end}")
        taken = self.pattern[self.position : stop]
        self.position = stop + len(end)
        return taken

    def parse_character(self) -> str:
        """Parse the escape of a single character, after the backslash."""
        char = self.peek()
        self.position += 1
        if not char:
            raise PatternError("trailing backslash")
        if char in CONTROL_ESCAPES:
            return CONTROL_ESCAPES[char]
        if char == "c":
            control = self.peek()
            self.position += 1
            if not control or not 32 <= ord(control) < 127:
                raise PatternError("malformed control character")
            return chr(ord(control.upper()) ^ 64)
        if char == "x":
            return self.parse_hexadecimal()
        if char in ("N", "o") and self.skip("{"):
            digits = self.take_until("}").strip(" ")
            return _make_char(digits[2:] if char == "N" else digits, 16 if char == "N" else 8)
        if char in "01234567":
            stop = self.position
            while stop < min(self.position + 2, len(self.pattern)) and self.pattern[stop] in "01234567":
                stop += 1
            digits = self.pattern[self.position - 1 : stop]
            self.position = stop
            return _make_char(digits, 8)
        if char in _PLAIN:
            raise PatternError(f"unknown escape \\{char}")
        return char

    def parse_hexadecimal(self) -> str:
        """Parse one or two digits, or any number of digits in braces."""
        if self.skip("{"):
            return _make_char(self.take_until("}").strip(" "), 16)
        stop = self.position
        while stop < min(self.position + 2, len(self.pattern)) and self.pattern[stop] in string.hexdigits:
            stop += 1
        digits = self.pattern[self.position : stop]
        self.position = stop
        return _make_char(digits, 16)

    def parse_property(self) -> tuple[bool, str]:
        """Parse `p{...}` or `pL`; return whether it is negated, and the content of a class."""
        negated = self.peek() == "P"
        self.position += 1
        name = self.take_until("}") if self.skip("{") else self.peek()
        if self.pattern[self.position - 1] != "}" or not name:
            self.position += 1
        name = name.strip()
        if name.startswith("^"):
            negated, name = not negated, name[1:]
        return negated, translate_property(name)

    def parse_class(self) -> tuple[str, int | None, bool]:
        """Parse a class after its opening bracket."""
        if self.find_posix_end(self.position) is not None:
            raise PatternError("a POSIX class outside a class")
        negated = self.skip("^")
        content: list[str] = []
        complements: list[str] = []  # classes whose elements may be any other character
        is_first = True
        while is_first or self.peek() != "]":
            if self.position >= len(self.pattern):
                raise PatternError("missing closing bracket")
            is_first = False
            if self.skip("\\E"):
                continue
            if self.skip("\\Q"):
                content += map(escape, self.take_until("\\E"))
                continue
            low = self.parse_class_element(content, complements)
            if self.peek() != "-" or self.peek(2) in ("-", "-]"):
                content += [] if low is None else [escape(low)]
                continue
            if low is None:
                raise PatternError("a range begins with a class")
            self.position += 1
            sets: list[str] = []
            high = self.parse_class_element(sets, sets)
            if high is None:
                raise PatternError("a range ends with a class")
            if high < low:
                raise PatternError("a range is out of order")
            content.append(f"{escape(low)}-{escape(high)}")
        self.position += 1
        return _write_class(negated, "".join(content), complements), 1, True

    def find_posix_end(self, position: int) -> int | None:
        """If a POSIX class begins at a position, return the position of its `:]`, `.]` or `=]`."""
        terminator = self.pattern[position : position + 1]
        if terminator not in (":", ".", "="):
            return None
        position += 1
        while position + 1 < len(self.pattern):
            pair = self.pattern[position : position + 2]
            if pair in ("\\]", "\\\\"):
                position += 1
            elif pair == "[" + terminator or pair[0] == "]":
                return None
            elif pair == terminator + "]":
                return position
            position += 1
        return None

    def parse_class_element(self, content: list[str], complements: list[str]) -> str | None:
        """Parse a character or a set of a class; return the character, and add a set to a list."""
        char = self.peek()
        stop = self.find_posix_end(self.position + 1) if char == "[" else None
        if stop is not None:
            name = self.pattern[self.position + 2 : stop]
            self.position = stop + 2
            known = POSIX_CLASSES.get(name.removeprefix("^"))
            if known is None or self.pattern[stop] != ":":
                raise PatternError("unknown class")
            (complements if name.startswith("^") else content).append(known)
            return None
        self.position += 1
        if char != "\\":
            if not char:
                raise PatternError("missing closing bracket")
            return char
        escape = self.peek()
        if escape == "b":
            self.position += 1
            return "\b"
        if escape in ("p", "P"):
            negated, known = self.parse_property()
            (complements if negated else content).append(known)
            return None
        if escape and escape.lower() in CLASS_ESCAPES:
            self.position += 1
            known = CLASS_ESCAPES[escape.lower()]
            (complements if escape.isupper() else content).append(known)
            return None
        if escape in ("B", "R", "X", "N") and self.peek(4) != "N{U+":
            raise PatternError("an escape that is not allowed in a class")
        if escape and escape in "89":
            raise PatternError("invalid octal digit")
        return self.parse_character()


def _write_class(negated: bool, content: str, complements: list[str]) -> str:
    """Return a class that contains complements of sets."""
    if not complements:
        return f"[{'^' if negated else ''}{content}]"
    if not content and len(complements) == 1:
        return f"[{'' if negated else '^'}{complements[0]}]"
    choices = [f"[{content}]"] if content else []
    choices += [f"[^{known}]" for known in complements]
    if negated:
        return f"(?:(?!{'|'.join(choices)})(?s:.))"
    return f"(?:{'|'.join(choices)})"


def escape(char: str) -> str:
    """Escape a character, for use inside and outside classes."""
    if char in _PLAIN or ord(char) >= 128:
        return char if not 0xD800 <= ord(char) < 0xE000 else f"\\u{ord(char):04x}"
    return f"\\x{ord(char):02x}"


def _make_char(digits: str, base: int) -> str:
    try:
        code = int(digits, base)
    except ValueError:
        raise PatternError("malformed number") from None
    if code > 0x10FFFF or 0xD800 <= code < 0xE000 or "_" in digits or "-" in digits:
        raise PatternError("not a valid character")
    return chr(code)
