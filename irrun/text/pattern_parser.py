"""Translation of patterns from PCRE2 to the package `regex`."""

from __future__ import annotations

from irrun.text.pattern_classes import ClassParser, escape
from irrun.text.pattern_sets import CLASS_ESCAPES, PatternError, UnsupportedPatternError

__all__ = ["translate"]

#: Maximum lookbehind of a branch of variable length, in characters.
MAX_LOOKBEHIND = 255
#: Maximum nesting depth of groups.
MAX_DEPTH = 100
#: Maximum number of characters that a quantifier can repeat.
MAX_REPEATS = 65535


def translate(pattern: str, captures: bool = True) -> tuple[str, bool]:
    """Translate a PCRE2 pattern to one for `regex`, version 0.

    Args:
        pattern: The pattern, for PCRE2 with UTF-8 and Unicode properties.
        captures: Whether groups capture, even if the pattern does not refer to them.

    Returns:
        The translation, and whether a match depends on the text around it.

    Raises:
        PatternError: PCRE2 does not compile the pattern.
        UnsupportedPatternError: The pattern contains a construct that cannot be translated, such as recursion.
    """
    parser = _Parser(pattern, captures)
    text = parser.parse()
    if parser.has_references and not captures:
        text = _Parser(pattern, captures=True).parse()
    return text, parser.has_context


class _Parser(ClassParser):
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str, captures: bool) -> None:
        super().__init__(pattern)
        self.captures = captures
        self.has_references = False
        self.has_context = False
        self.depth = 0
        self.flags = ""

    def parse(self) -> str:
        text, _ = self.parse_alternatives()
        if self.position < len(self.pattern):
            raise PatternError("unmatched closing parenthesis")
        return text

    def parse_alternatives(self) -> tuple[str, int | None]:
        """Parse alternatives up to a closing parenthesis or the end."""
        self.depth += 1
        if self.depth > MAX_DEPTH + 1:
            raise UnsupportedPatternError(f"groups are nested more than {MAX_DEPTH} deep")
        outer, parts, widths = self.flags, [], []
        while True:
            text, width = self.parse_sequence(outer)
            parts.append(text)
            widths.append(width)
            if not self.skip("|"):
                break
        self.flags = outer
        self.depth -= 1
        return "|".join(parts), None if None in widths else max(w for w in widths if w is not None)

    def parse_sequence(self, outer: str) -> tuple[str, int | None]:
        """Parse an alternative. Options that it sets apply until the group ends."""
        parts: list[str] = []
        opened = 0
        total: int | None = 0
        if self.flags != outer:
            parts.append(_open_flags(outer, self.flags))
            opened += 1
        while self.position < len(self.pattern) and self.peek() not in "|)":
            before = self.flags
            text, width, repeatable = self.parse_atom()
            if self.flags != before:
                parts.append(_open_flags(before, self.flags))
                opened += 1
                continue
            quantifier, most = self.parse_quantifier()
            if quantifier and not repeatable:
                raise PatternError("a quantifier has nothing to repeat")
            parts.append(text + quantifier)
            if width and quantifier:
                width = None if most is None else width * most
            total = None if total is None or width is None else total + width
        return "".join(parts) + ")" * opened, total

    def parse_quantifier(self) -> tuple[str, int | None]:
        """Parse a quantifier; return it and the largest number of repetitions."""
        self.skip_space()
        most = None
        if self.peek() in ("*", "+", "?"):
            text = self.peek()
            self.position += 1
            most = 1 if text == "?" else None
        elif self.peek() == "{":
            bounds = self.read_bounds()
            if bounds is None:
                return "", 1
            low, high = bounds
            text = f"{{{low},{'' if high is None else high}}}"
            most = high
        else:
            return "", 1
        self.skip_space()
        if self.peek() in ("?", "+"):
            text += self.peek()
            self.position += 1
        self.skip_space()
        if self.peek() in ("*", "+", "?") and self.peek():
            raise PatternError("a quantifier follows a quantifier")
        return text, most

    def read_bounds(self) -> tuple[int, int | None] | None:
        """Read `{n}`, `{n,}`, `{n,m}` or `{,m}`, with spaces; None if the brace is a character."""
        stop = self.pattern.find("}", self.position)
        low, comma, high = self.pattern[self.position + 1 : max(stop, 0)].partition(",")
        low, high = low.strip(" \t"), high.strip(" \t")
        digits = set("0123456789")
        if stop < 0 or not (low or high) or not digits.issuperset(low + high) or (not comma and not low):
            return None
        self.position = stop + 1
        least = int(low or 0)
        most = least if not comma else int(high) if high else None
        if least > MAX_REPEATS or (most or 0) > MAX_REPEATS:
            raise PatternError("a quantifier is too large")
        if most is not None and least > most:
            raise PatternError("the bounds of a quantifier are out of order")
        return least, most

    def skip_space(self) -> None:
        """Skip white space and comments if the option x is set."""
        while True:
            if self.skip("(?#"):
                self.take_until(")")
            elif "x" in self.flags and self.peek() and self.peek() in " \t\n\v\f\r\x85\u200e\u200f\u2028\u2029":
                self.position += 1
            elif "x" in self.flags and self.peek() == "#":
                stop = self.pattern.find("\n", self.position)
                self.position = len(self.pattern) if stop < 0 else stop + 1
            else:
                return

    def parse_atom(self) -> tuple[str, int | None, bool]:
        """Parse an item that a quantifier may follow; return it, its width and whether it can be repeated."""
        self.skip_space()
        if self.position >= len(self.pattern) or self.peek() in "|)":
            return "", 0, False
        char = self.peek()
        self.position += 1
        if char == "(":
            return self.parse_group()
        if char == "[":
            return self.parse_class()
        if char == "\\":
            return self.parseescape()
        if char == ".":
            return ".", 1, True
        if char in "^$":
            self.has_context = True
            return char, 0, False
        if char in "*+?":
            raise PatternError("a quantifier has nothing to repeat")
        if char == "{":
            self.position -= 1
            if self.read_bounds() is not None:
                raise PatternError("a quantifier has nothing to repeat")
            self.position += 1
        return escape(char), 1, True

    def parse_group(self) -> tuple[str, int | None, bool]:
        """Parse a group after its opening parenthesis."""
        if self.peek() == "*":
            raise UnsupportedPatternError("verbs are not supported")
        opening, is_look = "(" if self.captures else "(?:", ""
        if self.skip("?"):
            opening, is_look = self.parse_group_opening()
            if not opening:
                return "", 0, False
        before = self.flags
        text, width = self.parse_alternatives()
        if not self.skip(")"):
            raise PatternError("missing closing parenthesis")
        self.flags = before if not is_look.startswith("flags") else is_look[5:]
        if is_look == "behind" and (width is None or width > MAX_LOOKBEHIND):
            raise PatternError("a lookbehind has unlimited length")
        return f"{opening}{text})", 0 if is_look in ("ahead", "behind") else width, True

    def parse_group_opening(self) -> tuple[str, str]:
        """Parse the text after `(?`; return its form in `regex`, and "ahead", "behind" or "flags" and outer flags."""
        for opening, kind in (("=", "ahead"), ("!", "ahead"), ("<=", "behind"), ("<!", "behind")):
            if self.skip(opening):
                self.has_context = True
                return f"(?{opening}", kind
        for opening in (":", ">", "|"):
            if self.skip(opening):
                return f"(?{opening}" if self.captures or opening != "|" else "(?:", ""
        for opening, end in (("P<", ">"), ("<", ">"), ("'", "'")):
            if self.skip(opening):
                name = _check_name(self.take_until(end))
                return f"(?P<{name}>" if self.captures else "(?:", ""
        if self.peek() == "(" or self.peek() in ("R", "&", "P") or self.peek().isdigit():
            raise UnsupportedPatternError("conditions and recursion are not supported")
        return self.parse_flags()

    def parse_flags(self) -> tuple[str, str]:
        """Parse options, for a group or for the rest of the enclosing group."""
        outer = self.flags
        flags, removes = set(outer), False
        if self.skip("^"):
            flags = set()
        while True:
            char = self.peek()
            self.position += 1
            if char == "-" and not removes:
                removes = True
            elif char and char in "imsx":
                (flags.discard if removes else flags.add)(char)
            elif char and char in "JUnar":
                raise UnsupportedPatternError(f"the option {char} is not supported")
            elif char == ")":
                self.flags = "".join(sorted(flags))
                return "", ""
            elif char == ":":
                self.flags = "".join(sorted(flags))
                return _open_flags(outer, self.flags), "flags" + outer
            else:
                raise PatternError("unknown option")

    def parseescape(self) -> tuple[str, int | None, bool]:
        """Parse an escape outside a class, after the backslash."""
        char = self.peek()
        if char in CLASS_ESCAPES and char:
            self.position += 1
            return f"[{CLASS_ESCAPES[char]}]", 1, True
        if char.lower() in CLASS_ESCAPES and char:
            self.position += 1
            return f"[^{CLASS_ESCAPES[char.lower()]}]", 1, True
        if char in ("p", "P"):
            negated, content = self.parse_property()
            return f"[{'^' if negated else ''}{content}]", 1, True
        if char in ("b", "B"):
            self.position += 1
            self.has_context = True
            word = CLASS_ESCAPES["w"]
            if char == "b":
                return f"(?:(?<=[{word}])(?![{word}])|(?<![{word}])(?=[{word}]))", 0, False
            return f"(?:(?<=[{word}])(?=[{word}])|(?<![{word}])(?![{word}]))", 0, False
        anchors = {"A": r"\A", "Z": r"(?=\n?\Z)", "z": r"\Z", "G": r"\G", "K": r"\K"}
        if char in anchors:
            self.position += 1
            self.has_context = True
            return anchors[char], 0, False
        if char == "R":
            self.position += 1
            return r"(?>\r\n|[\n-\r\x85\u2028\u2029])", 2, True
        if char == "X":
            self.position += 1
            return r"\X", None, True
        if char == "N" and self.peek(4) != "N{U+":
            self.position += 1
            position = self.position
            if self.peek() == "{" and self.read_bounds() is None:
                raise PatternError("unknown character name")
            self.position = position
            return r"[^\n]", 1, True
        if char == "Q":
            self.position += 1
            stop = self.pattern.find("\\E", self.position)
            quoted = self.pattern[self.position : stop if stop >= 0 else None]
            self.position = len(self.pattern) if stop < 0 else stop + 2
            return self.quote(quoted)
        if char == "E":
            self.position += 1
            return "", 0, False
        if char and char in "123456789":
            return self.parse_reference()
        if char in ("g", "k"):
            return self.parse_named_reference()
        return escape(self.parse_character()), 1, True

    def quote(self, quoted: str) -> tuple[str, int | None, bool]:
        """Return quoted text; a quantifier repeats its last character."""
        if not quoted:
            return "", 0, False
        return "".join(map(escape, quoted)), len(quoted), True

    def parse_reference(self) -> tuple[str, int | None, bool]:
        """Parse a reference by number or an octal number."""
        stop = self.position
        while stop < len(self.pattern) and self.pattern[stop] in "0123456789":
            stop += 1
        digits = self.pattern[self.position : stop]
        count = self.pattern.count("(")
        if len(digits) == 1 or int(digits) <= count:
            if int(digits) > count:
                raise PatternError("a reference to a group that does not exist")
            self.position = stop
            self.has_references = True
            return f"(?:\\{digits})", None, True
        if digits[0] in "89":
            raise PatternError("a reference to a group that does not exist")
        return escape(self.parse_character()), 1, True

    def parse_named_reference(self) -> tuple[str, int | None, bool]:
        """Parse a reference by name."""
        is_number = self.peek() == "g"
        self.position += 1
        self.has_references = True
        for opening, end in (("{", "}"), ("<", ">"), ("'", "'")):
            if self.skip(opening):
                name = self.take_until(end).strip(" ")
                break
        else:
            raise PatternError("malformed reference")
        if is_number and opening == "{" and name.lstrip("-").isdigit():
            if name.startswith("-"):
                raise UnsupportedPatternError("relative references are not supported")
            return f"(?:\\{name})", None, True
        if is_number and opening != "{":
            raise UnsupportedPatternError("recursion is not supported")
        return f"(?P={_check_name(name)})", None, True


def _open_flags(outer: str, flags: str) -> str:
    """Return the opening of a group that changes options. White space is already removed, so `x` is omitted."""
    added = "".join(sorted(set(flags) - set(outer) - {"x"}))
    removed = "".join(sorted(set(outer) - set(flags) - {"x"}))
    return f"(?{added}{'-' + removed if removed else ''}:" if added or removed else "(?:"


def _check_name(name: str) -> str:
    if not name.isidentifier() or len(name) > 128:
        raise PatternError("malformed group name")
    return name
