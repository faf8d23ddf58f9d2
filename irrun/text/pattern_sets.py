"""Sets of characters in patterns of PCRE2, as classes of the package `regex`, and the errors of patterns."""

from __future__ import annotations

import functools

from irrun.text.packages import import_regex

__all__ = ["CLASS_ESCAPES", "POSIX_CLASSES", "PatternError", "UnsupportedPatternError", "translate_property"]


class PatternError(ValueError):
    """PCRE2 does not compile a pattern."""


class UnsupportedPatternError(ValueError):
    """PCRE2 may compile a pattern that cannot be translated."""


#: Escapes inside a class -> characters and classes of `regex`.
CLASS_ESCAPES = {
    "d": r"\p{Nd}",
    "s": r"\s\u180e",
    "w": r"\p{L}\p{N}\p{Mn}\p{Pc}",
    "h": r"\t \xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": r"\n-\r\x85\u2028\u2029",
}
#: POSIX classes with Unicode properties.
POSIX_CLASSES = {
    "alpha": r"\p{L}",
    "lower": r"\p{Ll}",
    "upper": r"\p{Lu}",
    "alnum": r"\p{L}\p{N}",
    "ascii": r"\x00-\x7f",
    "blank": CLASS_ESCAPES["h"],
    "cntrl": r"\p{Cc}",
    "digit": r"\p{Nd}",
    "punct": r"\p{P}$+<=>\^`|~",
    "space": CLASS_ESCAPES["s"],
    "word": CLASS_ESCAPES["w"],
    "xdigit": "0-9A-Fa-f",
}
#: Names of general categories, and sets of them.
_CATEGORY_NAMES = (
    "C Cc Cf Cn Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
)
CATEGORIES = {name.lower(): name for name in _CATEGORY_NAMES.split()}
SETS = {
    "any": r"\x00-\U0010ffff",
    "l&": r"\p{Lu}\p{Ll}\p{Lt}",
    "lc": r"\p{Lu}\p{Ll}\p{Lt}",
    "xan": r"\p{L}\p{N}",
    "xsp": CLASS_ESCAPES["s"],
    "xps": CLASS_ESCAPES["s"],
    "xwd": CLASS_ESCAPES["w"],
}
#: Normalized names of PCRE2's binary properties.
_BINARY_NAMES = """\
alphabetic alpha ascii asciihexdigit ahex bidicontrol bidic bidimirrored bidim cased caseignorable ci
changeswhencasefolded cwcf changeswhencasemapped cwcm changeswhenlowercased cwl changeswhentitlecased cwt
changeswhenuppercased cwu dash defaultignorablecodepoint di deprecated dep diacritic dia emoji emojicomponent  ecomp
emojimodifier emod emojimodifierbase ebase emojipresentation epres extendedpictographic extpict extender  ext
graphemebase grbase graphemeextend grext graphemelink grlink hexdigit hex idcontinue idc idstart ids  ideographic ideo
idsbinaryoperator idsb idstrinaryoperator idst joincontrol joinc logicalorderexception loe  lowercase lower math
noncharactercodepoint nchar patternsyntax patsyn patternwhitespace patws prependedconcatenationmark pcm  quotationmark
qmark radical regionalindicator ri sentenceterminal sterm softdotted sd terminalpunctuation term  unifiedideograph
uideo uppercase upper variationselector vs whitespace space wspace xidcontinue xidc xidstart  xids
"""
BINARY_PROPERTIES = frozenset(_BINARY_NAMES.split())


@functools.cache
def translate_property(name: str) -> str:
    """Return the class content of a PCRE2 property.

    Args:
        name: The name of the property.

    Raises:
        PatternError: The property is unknown to PCRE2.
    """
    key = name.translate({ord(c): None for c in " _-\t"}).lower()
    if key in CATEGORIES:
        return rf"\p{{{CATEGORIES[key]}}}"
    if key in SETS:
        return SETS[key]
    prefix, separator, value = key.replace(":", "=").partition("=")
    regex = import_regex()
    if separator:
        properties = {
            "script": "sc",
            "sc": "sc",
            "scriptextensions": "scx",
            "scx": "scx",
            "bidiclass": "bc",
            "bc": "bc",
        }
        if prefix not in properties:
            raise PatternError(f"unknown property {name}")
        candidate = rf"\p{{{properties[prefix]}={value}}}"
    elif key in BINARY_PROPERTIES:
        candidate = rf"\p{{{key}}}"
    else:
        candidate = rf"\p{{scx={key}}}"
    try:
        regex.compile(candidate)
    except regex.error:
        raise PatternError(f"unknown property {name}") from None
    return candidate
