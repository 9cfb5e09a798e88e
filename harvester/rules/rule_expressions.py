"""The two languages of the rules: XPath 1.0 finds nodes in a record, regular expressions match values.

The expressions come from users, who may be careless, and are applied to records, which may be hostile.
Regular expressions run in google-re2, in time linear in the text. An XPath expression is restricted to the
functions of XPath 1.0, to 1,000 characters and to the record itself. `rule_limits` limits the resources used
for a record.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import re2
from lxml import etree

from oai.errors import Phrase, ZatvaError

LITERAL: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
"""A string literal in an XPath expression."""

_NAME: Final = r"[^\W\d][\w.\-]*"
# The comparison of an attribute with a string or a number reads only this attribute.
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
"""Functions, node tests and operators that do not read the text of elements."""
_COMPARISONS: Final = frozenset({"=", "!=", "<", "<=", ">", ">="})
_OPERATORS: Final = frozenset({"and", "div", "mod", "or"})
_SECOND_WALK: Final = 2
"""For a walk from each node: the walk, and the check whether its results were found before."""


def degree(expression: str) -> int:
    """Return the exponent of the record's size in the time bound of an XPath 1.0 expression; at least 1."""
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
    """Return whether only brackets and function names precede: this is the expression's first path."""
    return all(kind == "function" or word == "(" for kind, word in before)


def _begins_path(before: list[tuple[str, str]]) -> bool:
    """Return whether a slash after these tokens begins a path at the root rather than continuing one."""
    kind, word = before[-1] if before else ("sign", "")
    if kind == "name":
        return word in _OPERATORS
    if word == "*":
        return _is_operand(before[-2:-1])
    return kind == "function" or word in _COMPARISONS | {"", "(", "[", ",", "|", "+", "-"}


def _is_operand(before: list[tuple[str, str]]) -> bool:
    """Return whether these tokens end with an operand, so that an asterisk after them is not a name test."""
    return any(kind in {"name", "literal"} or word in {")", "]", ".", "..", "*"} for kind, word in before)


MAX_LENGTH: Final = 1000
"""The maximum number of characters in one XPath or regular expression."""

# fmt: off
_CORE_FUNCTIONS: Final = frozenset({
    "boolean", "ceiling", "concat", "contains", "count", "false", "floor", "id", "lang", "last",
    "local-name", "name", "namespace-uri", "normalize-space", "not", "number", "position", "round",
    "starts-with", "string", "string-length", "substring", "substring-after", "substring-before", "sum",
    "translate", "true",
})
# fmt: on
_NODE_TESTS: Final = frozenset({"comment", "node", "processing-instruction", "text"})

# A name is tried from its first character only, so that a long one takes linear time.
_BEGIN: Final = r"(?<![\w.\-])[\d.\-]*+"
_PREFIX: Final = re.compile(rf"{_BEGIN}({_NAME}+):(?=[^\W\d]|\*)")
_CALL: Final = re.compile(rf"{_BEGIN}({_NAME}+(?::{_NAME}+)?)\s*\(")
_VARIABLE: Final = re.compile(rf"\$\s*({_NAME})")
_OWN_LIMIT: Final = re.compile("limit|memory", re.IGNORECASE)
_NAMESPACE_AXIS: Final = re.compile(r"\bnamespace\s*::")


Watch = Callable[[int], None]
"""Called with the length of each value in characters when it is found; an exception ends the search."""


class ExpressionError(ZatvaError):
    """An expression that cannot be used: the reason and what to do. The rule file adds the position."""


class TooMuchError(ZatvaError):
    """An expression exceeded a limit on a record, which is named. The rule file adds the position."""


TOO_LONG: Final = Phrase("its values have more than %(count)s characters")
"""The message of a TooMuchError."""


def _no_watch(_characters: int) -> None:
    """Accept everything."""


@dataclass(frozen=True, kw_only=True)
class FoundNode:
    """A node of a record, or a value that was computed from it."""

    value: str
    """The string value, as XPath's `string()` gives it."""
    bearer: etree._Element | None
    """The element itself, or the one that contains the text or attribute; None for a computed value."""


@dataclass(frozen=True, kw_only=True)
class RecordPath:
    """A checked XPath expression, for use on records."""

    expression: str
    namespaces: Mapping[str, str]

    def __post_init__(self) -> None:
        """Raise ExpressionError if the expression cannot be used on any record."""
        if not self.expression.strip():
            raise ExpressionError("the XPath expression is empty; write an expression such as '//dc:subject'")
        if len(self.expression) > MAX_LENGTH:
            raise ExpressionError(
                "the XPath expression has %(count)s characters, more than 1,000", count=len(self.expression)
            )
        try:
            etree.XPath(self.expression, regexp=False)
        except etree.XPathError as error:
            raise ExpressionError(
                "the XPath expression %(expression)s is not valid XPath 1.0: `%(error)s`",
                expression=repr(self.expression), error=str(error),
            ) from None  # fmt: skip
        _refuse_unknown_names(self.expression, self.namespaces)
        self.find(etree.Element("record"))

    def find(self, record: etree._Element, *, watch: Watch = _no_watch) -> list[FoundNode]:
        """Return the nodes that the expression yields, in document order, or the one value that it computes.

        The record is the whole document: `//dc:subject` never reads neighbouring records, and a relative path
        starts at `<record>`. Numbers and booleans are formatted as by XPath's `string()`.

        Raises ExpressionError if the expression cannot be evaluated, such as a function with too few
        arguments, and TooMuchError if libxml2's own limits are exceeded.
        """
        evaluator = etree.XPathDocumentEvaluator(
            etree.ElementTree(record), namespaces=dict(self.namespaces), regexp=False
        )
        try:
            result: Any = evaluator(self.expression)
        except etree.XPathError as error:
            if _OWN_LIMIT.search(str(error)):
                raise TooMuchError("the limit of libxml2 (`%(error)s`)", error=str(error)) from None
            raise ExpressionError(
                "the XPath expression %(expression)s cannot be evaluated: `%(error)s`",
                expression=repr(self.expression), error=str(error),
            ) from None  # fmt: skip
        if not isinstance(result, list):
            return [FoundNode(value=_computed(result), bearer=None)]
        found = []
        for item in result:
            found.append(_node(item))
            watch(len(found[-1].value))
        return found


@dataclass(frozen=True, kw_only=True)
class Expression:
    """A compiled regular expression (google-re2), searched anywhere in a value."""

    pattern: str
    ignore_case: bool
    _compiled: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raise ExpressionError if re2 refuses the pattern."""
        if not self.pattern:
            raise ExpressionError("the regular expression is empty; to match any value, write '.*'")
        if len(self.pattern) > MAX_LENGTH:
            raise ExpressionError(
                "the regular expression has %(count)s characters, more than 1,000", count=len(self.pattern)
            )
        options = re2.Options()
        options.case_sensitive = not self.ignore_case
        options.log_errors = False
        try:
            compiled = re2.compile(self.pattern, options)
        except re2.error as error:
            reason = _re2_reason(error)
            raise ExpressionError(
                "the regular expression %(expression)s is not valid: `%(error)s`; %(advice)s",
                expression=repr(self.pattern), error=reason, advice=_advice(reason),
            ) from None  # fmt: skip
        object.__setattr__(self, "_compiled", compiled)

    @property
    def size(self) -> int:
        """Return the maximum number of steps that re2 takes per character."""
        return int(self._compiled.programsize)

    def matches(self, value: str) -> bool:
        """Return whether the pattern occurs anywhere in the value."""
        return self._compiled.search(value) is not None


def text_of(node: etree._Element) -> str:
    """Return the string value of an element, a comment or a processing instruction."""
    if not isinstance(node.tag, str):
        return node.text or ""
    return "".join(str(text) for text in node.itertext())


def _refuse_unknown_names(expression: str, namespaces: Mapping[str, str]) -> None:
    """Check names that the evaluator would check too late, because it skips parts that no node reaches."""
    code = LITERAL.sub("''", expression)
    for prefix in _PREFIX.findall(code):
        if prefix != "xml" and prefix not in namespaces:
            raise ExpressionError(
                "the namespace prefix %(prefix)s in the XPath expression %(expression)s is not declared; "
                "add %(declaration)s to <selectionNamespaces>",
                prefix=repr(prefix), expression=repr(expression), declaration=f"xmlns:{prefix}='…'",
            )  # fmt: skip
    for name in _CALL.findall(code):
        if name not in _CORE_FUNCTIONS | _NODE_TESTS | _OPERATORS:
            raise ExpressionError(
                "the XPath expression %(expression)s calls %(function)s, which XPath 1.0 does not define",
                expression=repr(expression), function=f"{name}()",
            )  # fmt: skip
    for name in _VARIABLE.findall(code):
        raise ExpressionError(
            "the XPath expression %(expression)s uses the variable %(variable)s; rules have no variables",
            expression=repr(expression), variable=f"${name}",
        )  # fmt: skip
    if _NAMESPACE_AXIS.search(code):
        raise ExpressionError(
            "the XPath expression %(expression)s uses the namespace axis, which rules do not support",
            expression=repr(expression),
        )


def _node(item: Any) -> FoundNode:  # noqa: ANN401 any content of a node set
    if etree.iselement(item):
        return FoundNode(value=text_of(item), bearer=item)
    return FoundNode(value=str(item), bearer=item.getparent())


def _computed(result: str | float | bool) -> str:  # noqa: FBT001 XPath's own three types
    if isinstance(result, str):
        return str(result)
    if isinstance(result, bool):
        return "true" if result else "false"
    if math.isnan(result):
        return "NaN"
    if math.isinf(result):
        return "Infinity" if result > 0 else "-Infinity"
    if result == int(result):
        return str(int(result))
    return format(Decimal(repr(result)), "f")


def _re2_reason(error: Exception) -> str:
    reason = error.args[0] if error.args else "no reason given"
    return reason.decode("utf-8", errors="replace") if isinstance(reason, bytes) else str(reason)


_INSTEAD: Final = (
    ("(?=", Phrase("RE2 has no look-around; write one filter for each condition, with match='all'")),
    ("(?!", Phrase("RE2 has no look-around; write a separate filter with invert='true', and match='all'")),
    (
        "(?<",
        Phrase("RE2 has no look-around; include the text before the match in the expression, or use XPath"),
    ),
    ("(?>", Phrase("RE2 does not backtrack, so it has no atomic groups; write '(?:' instead")),
    ("(?#", Phrase("RE2 has no comments; write an XML comment")),
    ("(?x", Phrase("RE2 has no 'x' flag; write the expression without spaces and comments")),
    ("(?(", Phrase("RE2 has no conditions; write the alternatives with '|'")),
    ("(?P", Phrase("RE2 has no back-references and no recursion; write the text out")),
    ("character class range", Phrase("write a script by its name as in \\p{Latin}, or a range as in [a-z]")),
    (
        "bad repetition operator",
        Phrase("RE2 does not backtrack, so it has no possessive quantifiers; remove one sign"),
    ),
    (
        "repetition size",
        Phrase("RE2 counts up to 1,000, with nested counts multiplied; write '*' or '+' for more"),
    ),
    ("too large", Phrase("write fewer or smaller counted repetitions")),
    ("\\Z", Phrase("write \\z for the end of the value")),
    ("\\u", Phrase("write a character by its number as \\x{017E}, or as it is")),
    ("\\h", Phrase("write [ \\t] for a space or tab")),
)
_BACK_REFERENCE: Final = re.compile(r"\\[1-9k]")


def _advice(reason: str) -> Phrase:
    """Return what to write instead of what RE2 refuses."""
    if _BACK_REFERENCE.search(reason):
        return Phrase("RE2 has no back-references; write out the alternatives")
    for mark, instead in _INSTEAD:
        if mark in reason:
            return instead
    return Phrase("write it in RE2's syntax: https://github.com/google/re2/wiki/Syntax")
