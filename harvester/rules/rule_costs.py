"""Says how the time that an XPath expression takes may grow with the record, without evaluating it.

The evaluator (libxml2) keeps node sets free of repetitions, so the time for one expression is at most a power
of the number of nodes. The power is read off the expression's words, and rather too high than too low: it
begins at one, for walking once through the record, and each word that may walk through the record again *for
each node* adds to it. Steps to children and attributes add nothing, for no node is reached twice.
"""

import re
from collections.abc import Iterator
from typing import Final

LITERAL: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
"""A text in an XPath expression."""

_NAME: Final = r"[^\W\d][\w.\-]*"
# An attribute compared with a text or a number reads this attribute alone.
_ATTRIBUTE_TEST: Final = re.compile(rf"@(?:{_NAME}:)?{_NAME}\s*!?=\s*(?:''|\d+)")
_WORD: Final = re.compile(
    rf"(?P<axis>{_NAME})\s*::|(?P<function>{_NAME})\s*\("
    rf"|(?P<name>(?:{_NAME}:)?(?:{_NAME}))|(?P<literal>''|\d+(?:\.\d*)?|\.\d+)"
    r"|(?P<sign>//|\.\.|<=|>=|!=|[/.|=<>*@()\[\],+\-$])"
)
_NARROW_AXES: Final = frozenset({"attribute", "child", "self"})
_LIGHT_FUNCTIONS: Final = frozenset({
    "boolean", "ceiling", "comment", "count", "false", "floor", "last", "local-name", "name", "namespace-uri",
    "node", "not", "position", "processing-instruction", "round", "text", "true",
    "and", "div", "mod", "or",
})  # fmt: skip
"""Functions, node tests and operators that read no text of elements."""
_COMPARISONS: Final = frozenset({"=", "!=", "<", "<=", ">", ">="})
_OPERATORS: Final = frozenset({"and", "div", "mod", "or"})
_SECOND_WALK: Final = 2
"""Of a walk for each node: the walk, and the check whether its finds were found before."""


def degree(expression: str) -> int:
    """Give the power of the record's size that bounds the time for an XPath 1.0 expression; 1 or more."""
    words = list(_words(_ATTRIBUTE_TEST.sub("@a", LITERAL.sub("''", expression))))
    return 1 + sum(_weight(words, index) for index in range(len(words)))


def _words(code: str) -> Iterator[tuple[str, str]]:
    for found in _WORD.finditer(code):
        kind = found.lastgroup or ""
        yield kind, found[kind]


def _weight(words: list[tuple[str, str]], index: int) -> int:
    kind, word = words[index]
    if kind == "axis":
        return 0 if word in _NARROW_AXES else _SECOND_WALK
    if kind == "function":
        return 0 if word in _LIGHT_FUNCTIONS else 1
    if word in _COMPARISONS:
        neighbours = words[index - 1 : index] + words[index + 1 : index + 2]
        return 1 if any(neighbour[0] == "literal" for neighbour in neighbours) else _SECOND_WALK
    if word == "//":
        return 0 if _opens(words[:index]) else _SECOND_WALK
    if word == "/":
        return 1 if _begins_path(words[:index]) and not _opens(words[:index]) else 0
    return 1 if word in {"|", ".."} else 0


def _opens(before: list[tuple[str, str]]) -> bool:
    """Whether only brackets and names of functions stand before: the first path of the expression."""
    return all(kind == "function" or word == "(" for kind, word in before)


def _begins_path(before: list[tuple[str, str]]) -> bool:
    """Whether a slash after these words begins a path at the root, rather than going on with one."""
    kind, word = before[-1] if before else ("sign", "")
    if kind == "name":
        return word in _OPERATORS
    if word == "*":
        return _is_operand(before[-2:-1])
    return kind == "function" or word in _COMPARISONS | {"", "(", "[", ",", "|", "+", "-"}


def _is_operand(before: list[tuple[str, str]]) -> bool:
    """Whether something to multiply stands there, so that an asterisk after it is no name test."""
    return any(kind in {"name", "literal"} or word in {")", "]", ".", "..", "*"} for kind, word in before)
