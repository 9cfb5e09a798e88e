"""Filter files: which records are kept (UIUC OAI harvester architecture, "Filtering"; requirement FIL-1).

::

    <filters match="any">
      <selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'</selectionNamespaces>
      <filter xpath="//dc:subject" regexp="cultural" ignoreCase="true" invert="false"/>
    </filters>

`match` speaks of every filter *and* of every node that an XPath yields. With `any`, one node of one filter is
enough. With `all`, every node of every filter must match, and every filter must have at least one node.

`invert` turns the answer of each node about, and nothing else. A filter without nodes has no answer to turn,
so it never matches, inverted or not. The other reading, in which an inverted filter matches where nothing was
found, would make one word mean two things (each node's negation, and the whole filter's where there is none),
and it would keep every record of a wrong format, in which no XPath finds anything. Whoever wants the records
that lack something says so in XPath: `count(//dc:subject)` with the expression `^0$`.

A number, string or truth value that an XPath computes is one value, written as `string()` writes it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from lxml import etree

from harvester.rules.rule_files import RuleExpression, RuleFile, RulePath, parse_rules, read_bytes
from harvester.rules.rule_limits import Evaluation, Evaluator, RuleLimits
from oai.vocabulary import OAI_NAMESPACE

_HEADER: Final = f"{{{OAI_NAMESPACE}}}header"


class FilterMatch(StrEnum):
    """How many nodes must match."""

    ANY = "any"
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class Filter:
    """One `<filter>`."""

    path: RulePath
    expression: RuleExpression
    invert: bool

    def answers(self, evaluation: Evaluation) -> Iterator[bool]:
        """Give, for each node that the XPath yields, whether it matches."""
        for found in self.path.find(evaluation):
            yield self.expression.matches(evaluation, found.value) is not self.invert


@dataclass(frozen=True, kw_only=True)
class Filters:
    """A filter file, ready for use; safe to share between threads."""

    match: FilterMatch
    filters: tuple[Filter, ...]
    evaluator: Evaluator = field(default_factory=Evaluator, compare=False)

    def accepts(self, record: etree._Element) -> bool:
        """Tell whether a record, `<record>` in the OAI namespace, is to be kept.

        A deletion is always accepted: it has no metadata to judge, and refusing it would leave a record that
        was kept earlier standing for ever. The record itself is left as it is.

        Raises RuleLimitError where a rule meets a limit on this record, and RuleFileError where that happens
        too often or an XPath cannot be evaluated.
        """
        if is_deletion(record):
            return True
        evaluation = self.evaluator.on(record)
        if self.match is FilterMatch.ANY:
            return any(any(each.answers(evaluation)) for each in self.filters)
        return all(_some_and_all(each.answers(evaluation)) for each in self.filters)


def load_filters(path: Path, limits: RuleLimits | None = None) -> Filters:
    """Read a filter file. Raises RuleFileError with file, line, column, reason and what to do."""
    return parse_filters(read_bytes(path), source=str(path), limits=limits)


def parse_filters(data: bytes, *, source: str, limits: RuleLimits | None = None) -> Filters:
    """Read the bytes of a filter file; `source` names it in errors. Raises RuleFileError."""
    file = parse_rules(data, source=source, root="filters")
    return Filters(
        match=_match(file),
        filters=tuple(_filter(file, rule) for rule in file.rules("filter")),
        evaluator=Evaluator(limits),
    )


def is_deletion(record: etree._Element) -> bool:
    """Tell whether the record's header says `status="deleted"`."""
    header = record.find(_HEADER)
    return header is not None and header.get("status") == "deleted"


def _match(file: RuleFile) -> FilterMatch:
    # UIUC's own program took a file that does not say as "any".
    word = file.attributes(file.root, optional=("match",)).get("match", FilterMatch.ANY)
    try:
        return FilterMatch(word.strip().lower())
    except ValueError:
        raise file.fault(
            file.root, f"match={word!r} is not supported; write match='any' or match='all'", at="match"
        ) from None


def _filter(file: RuleFile, rule: etree._Element) -> Filter:
    file.attributes(rule, required=("xpath", "regexp"), optional=("ignoreCase", "invert"))
    for child in file.children(rule, ()):
        raise file.fault(child, f"<{child.tag}> is not allowed in <filter>, which is empty")
    return Filter(
        path=file.path(rule),
        expression=file.expression(rule),
        invert=file.truth(rule, "invert"),
    )


def _some_and_all(answers: Iterator[bool]) -> bool:
    listed = list(answers)
    return bool(listed) and all(listed)
