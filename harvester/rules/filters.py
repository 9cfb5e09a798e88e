"""Filter files: which records are kept (UIUC OAI harvester architecture, "Filtering").

::

    <filters match="any">
      <selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'</selectionNamespaces>
      <filter xpath="//dc:subject" regexp="cultural" ignoreCase="true" invert="false"/>
    </filters>

`match` applies to every filter *and* to every node that an XPath yields. With `any`, one matching node of one
filter is enough. With `all`, every node of every filter must match, and every filter must have at least one
node.

`invert` negates the answer for each node, and nothing else. A filter without nodes has no answer to negate,
so it never matches, inverted or not. In the other possible interpretation, an inverted filter would match
when no node was found. That would give one word two meanings (the negation for each node, and that of the
whole filter without nodes), and it would keep every record of a wrong format, in which no XPath finds a node.
To keep records that lack something, use XPath: `count(//dc:subject)` with the expression `^0$`.

A number, string or boolean that an XPath computes is one value, formatted as by `string()`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from lxml import etree

from harvester.rules.rule_files import RuleExpression, RuleFile, RulePath, parse_rules, read_bytes, tag_of
from harvester.rules.rule_limits import Evaluation, Evaluator, RuleLimits
from oai.vocabulary import OAI_NAMESPACE

_HEADER: Final = f"{{{OAI_NAMESPACE}}}header"


class FilterMatch(StrEnum):
    """How many nodes must match."""

    ANY = "any"
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A `<filter>` element."""

    path: RulePath
    expression: RuleExpression
    invert: bool

    def answers(self, evaluation: Evaluation) -> Iterator[bool]:
        """Yield for each node of the XPath whether it matches."""
        for found in self.path.find(evaluation):
            yield self.expression.matches(evaluation, found.value) is not self.invert


@dataclass(frozen=True, kw_only=True)
class Filters:
    """A parsed filter file; safe to share between threads."""

    match: FilterMatch
    filters: tuple[Filter, ...]
    evaluator: Evaluator = field(default_factory=Evaluator, compare=False)

    def accepts(self, record: etree._Element) -> bool:
        """Return whether a record, `<record>` in the OAI namespace, is to be kept.

        A deletion is always accepted: it has no metadata to filter, and rejecting it would leave a record
        that was kept earlier in the store permanently. The record itself is not changed.

        Raises RuleLimitError if a rule exceeds a limit on this record, and RuleFileError if that happens too
        often or an XPath cannot be evaluated.
        """
        if is_deletion(record):
            return True
        evaluation = self.evaluator.on(record)
        if self.match is FilterMatch.ANY:
            return any(any(each.answers(evaluation)) for each in self.filters)
        return all(_some_and_all(each.answers(evaluation)) for each in self.filters)


def load_filters(path: Path, limits: RuleLimits | None = None, *, source: str | None = None) -> Filters:
    """Read a filter file, which errors name by `source` or else by its path.

    Raises RuleFileError with file, line, column, reason and what to do.
    """
    source = source or str(path)
    return parse_filters(read_bytes(path, source=source), source=source, limits=limits)


def parse_filters(data: bytes, *, source: str, limits: RuleLimits | None = None) -> Filters:
    """Parse a filter file; `source` names it in errors. Raises RuleFileError."""
    file = parse_rules(data, source=source, root="filters")
    return Filters(
        match=_match(file),
        filters=tuple(_filter(file, rule) for rule in file.rules("filter")),
        evaluator=Evaluator(limits),
    )


def is_deletion(record: etree._Element) -> bool:
    """Return whether the record's header has `status="deleted"`."""
    header = record.find(_HEADER)
    return header is not None and header.get("status") == "deleted"


def _match(file: RuleFile) -> FilterMatch:
    # UIUC's own program interpreted a missing `match` as "any".
    word = file.attributes(file.root, optional=("match",)).get("match", FilterMatch.ANY)
    try:
        return FilterMatch(word.strip().lower())
    except ValueError:
        raise file.fault(
            file.root, "%(said)s is not supported; write match='any' or match='all'", at="match",
            said=f"match={word!r}",
        ) from None  # fmt: skip


def _filter(file: RuleFile, rule: etree._Element) -> Filter:
    file.attributes(rule, required=("xpath", "regexp"), optional=("ignoreCase", "invert"))
    for child in file.children(rule, ()):
        raise file.fault(child, "%(tag)s is not allowed in <filter>, which is empty", tag=tag_of(child))
    return Filter(
        path=file.path(rule),
        expression=file.expression(rule),
        invert=file.truth(rule, "invert"),
    )


def _some_and_all(answers: Iterator[bool]) -> bool:
    listed = list(answers)
    return bool(listed) and all(listed)
