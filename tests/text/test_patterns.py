"""Patterns of PCRE2 in the syntax that few tokenizers use, compared with OpenVINO Tokenizers, and translations."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("regex")

from irrun.text.pattern_parser import translate
from irrun.text.pattern_sets import PatternError, UnsupportedPatternError
from text.strings import run, to_strings, to_u8

#: What each pattern is matched with.
TEXT = (
    "aAbB zZ09_-]^[{}()|*+?.\\/$#&,:;'\"<=>~`!@%\t\n\r\v\f\x00\x01\x1a\x07\x08\x1b\x7f\x85\xa0éßñΑαАа中文ーあア\u180e"
    "\u2028 aa aaa ab abab abc aabb aXa x{2} {,2} (?#c) \\d #x\nfoo bar a\r\nb U+41 \U0001f600e\u0301"
)
PATTERNS = (
    # Quantifiers and braces.
    *("a{2}", "a{2,}", "a{1,2}", "a{,2}b", "a{ 1 , 2 }b", "a{0}b", "x{", "x{a}", "x{2", "{,2}", "{}", "x{,}", "a{3}?"),
    *("a+?b", "a*+b", "a?+a", "a{1,2}+b", "a??b", "(?:ab){2}", "a{2,1}", "a{65536}", "a{1,65536}", "a{0,65535}b"),
    *("a**", "a+*", "*a", "+", "?", "{2}", "a|*", "^*", "a{2}{2}", "a{65535}b|B", r"(?=a)*b", "(?:)+a"),
    # White space and comments.
    *("(?x) a b ", "(?x)a # c\n b", "(?x)a#b", "a(?#c)b", "a(?#c", "(?x)[a b]", "(?x)a {2}", "a (?x: b )", "(?x)a\\ a"),
    *("(?x)(?-x) a", "a(?#c)+b", "(?x)a + +", "(?x)#", "(?x)a + ?", "(?x)a {1,2} + a", "a+(?#c)?", "(?x)a + + +"),
    # Groups.
    *("(a)(b)", "(?:a|b)z?", "(?>a+)b", "(?|(a)|(b))", "(?<n>a)b", "(?P<n>a)b", "(?'n'a)b", "(?<n>a)\\k<n>", "()a"),
    "(a",
    *("a)", "(?<n>a)\\k{n}", "(?<n>a)\\k'n'", "(?<n>a)\\g{n}", "(?<1n>a)", "(?<n", "(?<>a)", f"(?<{'n' * 128}>a)"),
    *(f"(?<{'n' * 129}>a)", "(a)\\1", "(a)\\g{1}", "(a)(b)\\2\\1", "a\\1", "(a)\\2", "\\8", "(a)\\11", "a|(b)\\1"),
    *("\\k", "\\g", "(a)\\ka", "(?<=a)b", "(?<!a)b", "a(?=b)", "a(?!b)", "(?<=a*)b", "(?<=a{1,255})b", "(?<=ab|c)c"),
    *("(?<=a{256})b", "(?<=(?:a|bc){2})z", "((((a))))b", "(" * 99 + "b" + ")" * 99, "(?<=\\R)f", "(?<=\\X)b"),
    "(?=(a))a",
    # Options.
    *("(?i)AB", "(?i:A)b", "(?s)#.", ".", "(?m)^.", "(?m).$", "(?s-s).\n", "a(?i)b|C", "(?^)A", "(?i)(?^:A)b"),
    "(?i-i)A",
    *("(?i", "(?q)a", "(?i-", "(?-i)A", "(?im)^F", "(?i)a(?-i)b", "((?i)a)B", "(?i)a|(?-i)b|z", "(?--i)a", "(?)a"),
    "(?:",
    *("(?i)(?:a(?-i)b)Z", "(?is-m:A.)", "(?xi)A b", "(?"),
    # Escapes.
    *("\\d", "\\D", "\\w+", "\\W", "\\s", "\\S+", "\\h", "\\H", "\\v", "\\V", "\\R", "\\X", "\\N", "\\bfoo\\b", "o\\B"),
    "\\A.",
    *("\\Z", "\\z", "\\Ga", "a\\Kb", "\\a", "\\e", "\\f", "\\n", "\\r", "\\t", "\\cA", "\\cz", "\\c", "\\cé", "\\c?"),
    "\\x41",
    *("\\x{41}", "\\x{1F600}", "\\x", "\\x4z", "\\xZ", "\\x|a", "[\\x]|a", "\\x{110000}", "\\x{D800}", "\\x{}"),
    *("\\x{g}", "\\x{41", "\\x{ 41 }"),
    *("\\o{101}", "\\o{8}", "\\N{U+41}", "\\N{X}", "\\101", "\\01", "\\0", "\\07a", "\\777", "\\18", "\\81", "\\y"),
    *("\\i", "\\"),
    *("\\.", "\\é", "\\_", "\\Qa.b\\E", "\\Q(?#\\E", "\\Q\\d", "\\Q\\Ea", "a\\Eb", "\\E*", "\\Qaa\\E", "\\N{U+D800}"),
    "\\x{-1}",
    *("\\x{1_0}", "\\L", "\\u0041", "\\gb"),
    # Properties.
    *("\\p{L}", "\\P{L}", "\\pL", "\\PL+", "\\p{^L}", "\\P{^L}", "\\p{Lu}", "\\p{ lu }", "\\p{L&}", "\\p{LC}"),
    "\\p{Any}",
    *("\\p{Xan}+", "\\p{Xsp}", "\\p{Xps}", "\\p{Xwd}+", "\\p{Han}", "\\p{Script=Greek}", "\\p{sc:Cyrillic}"),
    "\\p{scx=Kana}",
    *("\\p{script extensions=Hira}", "\\p{bidi_class=L}", "\\p{bc=EN}", "\\p{foo=L}", "\\p{Nope}", "\\p{", "\\p"),
    "\\p{}",
    *("\\p{Alphabetic}", "\\p{upper}", "\\p{White_Space}", "\\p{Emoji}", "\\pX", "\\p{sc=Nope}", "\\p{greek}"),
    "\\p{sc=L}",
    # Classes.
    *("[abc]", "[^abc]+", "[a-c]", "[]a]", "[^]a]", "[a-]", "[-a]", "[a\\-z]", "[c-a]", "[a", "[", "[]", "[^]"),
    "[a-\\d]",
    *("[\\d-a]", "[\\d-]", "[\\w]", "[\\W]", "[^\\W]", "[\\W\\S]", "[^\\W\\S]", "[a\\W]", "[^a\\W]", "[\\D\\d]"),
    *("[\\H]", "[\\b]"),
    *("[\\B]", "[\\R]", "[\\X]", "[\\N]", "[\\8]", "[\\x41-\\x43]", "[\\101]", "[\\cA]", "[\\Qa]\\E]", "[\\Ea]"),
    "[\\Q\\E]",
    *("[[:alpha:]]", "[[:^alpha:]]", "[[:digit:]a]", "[[:space:][:punct:]]", "[^[:word:]]", "[[:nope:]]", "[[.a.]]"),
    "[[=a=]]",
    *("[:alpha:]", "[.a.]", "[:a]", "[[:a]", "[[:alpha:]-z]", "[a-[:digit:]]", "[[:xdigit:]]+", "[[:cntrl:]]"),
    "[[:blank:]]",
    *("[[:ascii:]]", "[[:lower:]]", "[[:upper:]]", "[[:alnum:]]", "[\\p{L}]", "[\\P{L}]", "[^\\P{L}a]", "[\\pL]"),
    "[\\h\\v]",
    *("[[:a\\]:]]", "[a&&b]", "[a~~b]", "[a||b]", "[a--b]", "[\\N{U+41}]", "[\\é]", "[\\", "[a\\", "[$^.]"),
    "(?i)[a-c]",
    *("[[:[:alpha:]]", "[\\g]", "[\\e\\a]", "[a-\\]]", "[!--]", "[a-a]", "\\N{X}|a", "\\N{2}|a", "\\N{|a"),
    "[a\\N{X}]|a",
)  # fmt: skip


@pytest.fixture(scope="module")
def expected():
    """Return what OpenVINO Tokenizers replaces, by the pattern; one model computes all."""
    pytest.importorskip("openvino_tokenizers")
    import openvino
    from openvino_tokenizers import _get_factory

    strings = [openvino.opset15.parameter([-1], t) for t in (openvino.Type.i32, openvino.Type.i32, openvino.Type.u8)]
    nodes = []
    for pattern in PATTERNS:
        texts = [openvino.opset15.constant(to_u8(text)).output(0) for text in (pattern, "<>")]
        inputs = [*(parameter.output(0) for parameter in strings), *texts]
        nodes.append(_get_factory("opset15").create("RegexNormalization", inputs, {"global_replace": True}))
    model = openvino.Model([node.output(2) for node in nodes], strings)
    results = openvino.Core().compile_model(model, "CPU")(to_strings(TEXT))
    return {pattern: np.array(results[i]).tobytes() for i, pattern in enumerate(PATTERNS)}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_match_as_in_openvino(pattern, expected):
    found = run("RegexNormalization", *to_strings(TEXT), to_u8(pattern), to_u8("<>"))[2]
    assert found.tobytes().decode() == expected[pattern].decode()


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (")", "unmatched closing parenthesis"),
        ("(a", "missing closing parenthesis"),
        ("(?#", r"missing \)"),
        ("(?<n", "missing >"),
        ("a**", "a quantifier follows a quantifier"),
        ("*", "a quantifier has nothing to repeat"),
        ("{1}", "a quantifier has nothing to repeat"),
        ("^*", "a quantifier has nothing to repeat"),
        ("a{65536}", "a quantifier is too large"),
        ("a{1,65536}", "a quantifier is too large"),
        ("a{2,1}", "the bounds of a quantifier are out of order"),
        ("(?<=a*)b", "a lookbehind has unlimited length"),
        ("(?<=a{256})b", "a lookbehind has unlimited length"),
        ("(?<=(?:a|bc){128})b", "a lookbehind has unlimited length"),
        ("(?i", "unknown option"),
        ("(?--i)", "unknown option"),
        ("\\2(a)", "a reference to a group that does not exist"),
        ("\\81", "a reference to a group that does not exist"),
        ("\\k", "malformed reference"),
        ("\\k{1a}", "malformed group name"),
        (f"(?<{'n' * 129}>a)", "malformed group name"),
        ("\\", "trailing backslash"),
        ("\\c", "malformed control character"),
        ("\\c\x7f", "malformed control character"),
        ("\\x", "malformed number"),
        ("\\x{110000}", "not a valid character"),
        ("\\x{d800}", "not a valid character"),
        ("\\x{1_0}", "not a valid character"),
        ("\\N{A}", "unknown character name"),
        ("\\y", r"unknown escape \\y"),
        ("[:alpha:]", "a POSIX class outside a class"),
        ("[a", "missing closing bracket"),
        ("[\\d-a]", "a range begins with a class"),
        ("[a-\\d]", "a range ends with a class"),
        ("[b-a]", "a range is out of order"),
        ("[a-", "missing closing bracket"),
        ("[[:nope:]]", "unknown class"),
        ("[[.a.]]", "unknown class"),
        ("[\\R]", "an escape that is not allowed in a class"),
        ("[\\8]", "invalid octal digit"),
        ("\\p{foo=L}", "unknown property foo=L"),
        ("\\p{Nope}", "unknown property Nope"),
    ],
)
def test_patterns_that_do_not_compile(pattern, message):
    with pytest.raises(PatternError, match=f"^{message}$"):
        translate(pattern)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(*UCP)a", "verbs are not supported"),
        ("(?(1)a)", "conditions and recursion are not supported"),
        ("(?R)", "conditions and recursion are not supported"),
        ("(?&n)", "conditions and recursion are not supported"),
        ("(?P>n)", "conditions and recursion are not supported"),
        ("(?1)", "conditions and recursion are not supported"),
        ("(?J)a", "the option J is not supported"),
        ("(?n:a)", "the option n is not supported"),
        ("(a)\\g{-1}", "relative references are not supported"),
        ("(a)\\g<1>", "recursion is not supported"),
        ("(" * 101 + ")" * 101, "groups are nested more than 100 deep"),
    ],
)
def test_patterns_that_are_not_translated(pattern, message):
    with pytest.raises(UnsupportedPatternError, match=f"^{message}$"):
        translate(pattern)


@pytest.mark.parametrize(
    ("pattern", "translated", "has_context"),
    [
        ("(a)", "(?:a)", False),
        ("(?<n>a)(?P<m>b)(?|c)", "(?:a)(?:b)(?:c)", False),
        (r"(a)\1", r"(a)(?:\1)", False),
        (r"(?<n>a)\k<n>", "(?P<n>a)(?P=n)", False),
        ("a(?i)b|c", "a(?i:b)|(?i:c)", False),
        ("(?i:a(?-i)b)", "(?i:a(?-i:b))", False),
        ("(?x)a b", "(?:ab)", False),
        ("[[:]]", r"[\x5b\x3a]\x5d", False),
        ("[[.]a]", r"[\x5b\x2e]a\x5d", False),
        ("[a[:alpha:]]", r"[a\p{L}]", False),
        ("(?m)(?i:a)(?-m)b", "(?m:(?i:a)(?-m:b))", False),
        ("(?i)(?m:a)(?s)b", "(?i:(?m:a)(?s:b))", False),
        ("(?im)(?-i:a)(?-m)b(?i:c)", "(?im:(?-i:a)(?-m:b(?:c)))", False),
        ("^a", "^a", True),
        ("a$", "a$", True),
        ("(?=a)b", "(?=a)b", True),
        ("(?<!a)b", "(?<!a)b", True),
        (r"\Aa", r"\Aa", True),
        (r"a\Z", r"a(?=\n?\Z)", True),
        (r"\x{d7ff}\Q.\E", "\ud7ff\\x2e", False),
        ("a{,3}?b{2,}+", "a{0,3}?b{2,}+", False),
        (r"[^\W\Sa]", r"(?:(?![a]|[^\p{L}\p{N}\p{Mn}\p{Pc}]|[^\s\u180e])(?s:.))", False),
        (r"[\D]", r"[^\p{Nd}]", False),
        ((100 * "(") + "a" + 100 * ")", (100 * "(?:") + "a" + 100 * ")", False),
    ],
)
def test_translations(pattern, translated, has_context):
    assert translate(pattern, captures=False) == (translated, has_context)
    assert translate(pattern)[1] == has_context


def test_groups_are_kept_by_default():
    assert translate("(a)(?<n>b)(?|c)") == ("(a)(?P<n>b)(?|c)", False)
